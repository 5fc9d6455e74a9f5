//===- DeltaKernels.cpp - The gated delta net -----------------------------===//
//
// Caches hold committed state and, behind it, the rows of the last call that
// may still be rejected ("pending"). Every call first takes over the accepted
// ones among them.
//
//===----------------------------------------------------------------------===//

#include "codegen/cpu/Kernels.h"
#include "codegen/cpu/VectorMath.h"

using namespace tandem::codegen;

/// Number of accepted pending rows: the i32 at \p accepted, made to fit.
static Var loadAccepted(KernelBuilder &k, Memory accepted) {
  return k.min(k.max(k.toIndex(accepted.load(0)), 0),
               k.spec().getInt("pending"));
}

void tandem::codegen::buildShortConv(KernelBuilder &k) {
  int64_t channels = k.spec().getInt("channels");
  int64_t taps = k.spec().getInt("taps");
  bool commit = k.spec().getInt("commit") != 0;
  Memory x = k.operand(0, k.f32());
  Memory weight = k.operand(1, k.f32());
  Var accepted = loadAccepted(k, k.operand(2, k.i32()));
  Memory y = k.operand(3, k.f32());
  // Rows of `channels`: taps - 1 committed ones, then the pending ones.
  Memory cache = k.operand(4, k.f32());

  k.loopItems([&](Var item) {
    Var channel = item * KernelBuilder::lanes;
    Var mask = channels % KernelBuilder::lanes == 0
                   ? Var()
                   : k.firstLanes(k.index(channels) - channel);
    Vars taken;
    for (int64_t tap = 0; tap < taps; ++tap)
      taken.push_back(weight.loadVector(channel + tap * channels, mask));
    // The taps - 1 rows before the input: the window slides by one for every
    // accepted row.
    Vars window;
    for (int64_t tap = 0; tap < taps - 1; ++tap)
      window.push_back(
          cache.loadVector((accepted + tap) * channels + channel, mask));
    auto keep = [&](const Vars &rows) {
      for (int64_t tap = 0; tap < taps - 1; ++tap)
        cache.storeVector(channel + tap * channels, rows[tap], mask);
    };
    if (!commit)
      keep(window);

    Vars last =
        k.loop(0, k.rows(), 1, window, [&](Var row, const Vars &before) {
          Var here = x.loadVector(row * channels + channel, mask);
          Vars seen = before;
          seen.push_back(here);
          Var sum = taken[0] * seen[0];
          for (int64_t tap = 1; tap < taps; ++tap)
            sum = k.fma(taken[tap], seen[tap], sum);
          y.storeVector(row * channels + channel, sum, mask);
          if (!commit)
            cache.storeVector((row + (taps - 1)) * channels + channel, here,
                              mask);
          seen.erase(seen.begin());
          return seen;
        });
    if (commit)
      keep(last);
  });
}

void tandem::codegen::buildDeltaGate(KernelBuilder &k) {
  int64_t columns = k.spec().getInt("columns");
  Memory x = k.operand(0, k.f32());
  Memory logRate = k.operand(1, k.f32());
  Memory bias = k.operand(2, k.f32());
  Memory y = k.operand(3, k.f32());
  k.loopItems([&](Var row) {
    Var base = row * columns;
    k.loopColumns(columns, [&](Var column, Var mask) {
      Var rate = exp(k, logRate.loadVector(column, mask));
      Var step = softplus(k, x.loadVector(base + column, mask) +
                                 bias.loadVector(column, mask));
      y.storeVector(base + column, -(rate * step), mask);
    });
  });
}

namespace {
/// Sizes of a delta cache and where its parts begin, in numbers.
struct DeltaCache {
  explicit DeltaCache(const KernelSpec &spec)
      : heads(spec.getInt("heads")), keyHeads(spec.getInt("key_heads")),
        keyDim(spec.getInt("key_dim")), valueDim(spec.getInt("value_dim")),
        pending(spec.getInt("pending")) {}

  int64_t heads, keyHeads, keyDim, valueDim, pending;
  /// Tiles of 16 values of a head.
  int64_t tiles = (valueDim + KernelBuilder::lanes - 1) / KernelBuilder::lanes;
  /// Numbers of a tile of the state: [key_dim][16].
  int64_t tileSize = keyDim * KernelBuilder::lanes;
  /// Columns of a row.
  int64_t keyColumns = keyHeads * keyDim, valueColumns = heads * valueDim;
  /// Offsets of the pending rows.
  int64_t keys = heads * tiles * tileSize;
  int64_t values = keys + pending * keyColumns;
  int64_t decays = values + pending * valueColumns;
  int64_t betas = decays + pending * heads;
};

/// Memory of rows of a delta step: of this call or pending.
struct DeltaRows {
  Memory key, value, decay, beta;
};

/// The delta rule on one tile: 16 values of a head.
class DeltaStep {
public:
  DeltaStep(KernelBuilder &k, const DeltaCache &sizes, Var item)
      : k(k), sizes(sizes), head(item / sizes.tiles),
        keyHead(head / (sizes.heads / sizes.keyHeads)),
        firstValue(item % sizes.tiles * KernelBuilder::lanes),
        mask(sizes.valueDim % KernelBuilder::lanes == 0
                 ? Var()
                 : k.firstLanes(k.index(sizes.valueDim) - firstValue)) {}

  /// Steps \p state over \p row of \p rows. With a query its product with the
  /// new state goes to \p output.
  void emit(Memory state, const DeltaRows &rows, Var row, Memory query,
            Memory output);

private:
  Var sumOverKeys(llvm::function_ref<Var(Var keyIndex, Var sum)> add);

  KernelBuilder &k;
  const DeltaCache &sizes;
  Var head, keyHead, firstValue, mask;
};
} // namespace

/// Sums add() over all keys. Four sums run side by side, because one alone
/// would wait for itself.
Var DeltaStep::sumOverKeys(llvm::function_ref<Var(Var, Var)> add) {
  constexpr int64_t parts = 4;
  Vars sums(parts, k.splat(0.0));
  int64_t full = sizes.keyDim / parts * parts;
  sums = k.loop(0, full, parts, sums, [&](Var first, const Vars &carried) {
    Vars next;
    for (int64_t part = 0; part < parts; ++part)
      next.push_back(add(first + part, carried[part]));
    return next;
  });
  for (int64_t left = full; left < sizes.keyDim; ++left)
    sums[left - full] = add(k.index(left), sums[left - full]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void DeltaStep::emit(Memory state, const DeltaRows &rows, Var row, Memory query,
                     Memory output) {
  constexpr int64_t lanes = KernelBuilder::lanes;
  Var keyBase = row * sizes.keyColumns + keyHead * sizes.keyDim;
  Var valueBase = row * sizes.valueColumns + head * sizes.valueDim + firstValue;
  Memory key = rows.key.at(keyBase);
  Var decay = exp(k, rows.decay.loadSplat(row * sizes.heads + head));
  Var beta = rows.beta.loadSplat(row * sizes.heads + head);

  // S^T k with the decayed state, which is not written yet.
  Var predicted = sumOverKeys([&](Var i, Var sum) {
    Var decayed = state.loadVector(i * lanes) * decay;
    return k.fma(key.loadSplat(i), decayed, sum);
  });
  Var delta = (rows.value.loadVector(valueBase, mask) - predicted) * beta;

  auto update = [&](Var i) {
    Var decayed = state.loadVector(i * lanes) * decay;
    Var updated = k.fma(key.loadSplat(i), delta, decayed);
    state.storeVector(i * lanes, updated);
    return updated;
  };
  bool hasQuery = query.isValid();
  if (!hasQuery) {
    k.loop(0, sizes.keyDim, 1, [&](Var i) { update(i); });
    return;
  }
  Var scale = k.splat(k.spec().getFloat("scale_by"));
  Memory q = query.at(keyBase);
  Var result = sumOverKeys([&](Var i, Var sum) {
    return k.fma(q.loadSplat(i) * scale, update(i), sum);
  });
  output.storeVector(valueBase, result, mask);
}

void tandem::codegen::buildGatedDelta(KernelBuilder &k) {
  DeltaCache sizes(k.spec());
  bool commit = k.spec().getInt("commit") != 0;
  Memory query = k.operand(0, k.f32());
  DeltaRows input = {k.operand(1, k.f32()), k.operand(2, k.f32()),
                     k.operand(3, k.f32()), k.operand(4, k.f32())};
  Var accepted = loadAccepted(k, k.operand(5, k.i32()));
  Memory output = k.operand(6, k.f32());
  Memory cache = k.operand(7, k.f32());
  DeltaRows pending = {cache.at(sizes.keys), cache.at(sizes.values),
                       cache.at(sizes.decays), cache.at(sizes.betas)};
  Memory scratch;
  if (!commit)
    scratch = k.scratch(sizes.tileSize * 4, k.f32());

  k.loopItems([&](Var item) {
    DeltaStep step(k, sizes, item);
    Memory kept = cache.at(item * sizes.tileSize);
    // What was accepted is durable from now on.
    k.loop(0, accepted, 1,
           [&](Var row) { step.emit(kept, pending, row, Memory(), Memory()); });
    // The rows of this call are durable only with `commit`.
    Memory state = kept;
    if (!commit) {
      k.loopColumns(sizes.tileSize, [&](Var column, Var mask) {
        scratch.storeVector(column, kept.loadVector(column, mask), mask);
      });
      state = scratch;
    }
    k.loop(0, k.rows(), 1,
           [&](Var row) { step.emit(state, input, row, query, output); });
  });
}

void tandem::codegen::buildDeltaSave(KernelBuilder &k) {
  DeltaCache sizes(k.spec());
  Memory cache = k.operand(4, k.f32());
  auto save = [&](Var row, int64_t input, int64_t offset, int64_t columns) {
    Memory from = k.operand(input, k.f32()).at(row * columns);
    Memory to = cache.at(row * columns + offset);
    k.loopColumns(columns, [&](Var column, Var mask) {
      to.storeVector(column, from.loadVector(column, mask), mask);
    });
  };
  k.loop(k.begin(), k.min(k.end(), sizes.pending), 1, [&](Var row) {
    save(row, 0, sizes.keys, sizes.keyColumns);
    save(row, 1, sizes.values, sizes.valueColumns);
    save(row, 2, sizes.decays, sizes.heads);
    save(row, 3, sizes.betas, sizes.heads);
  });
}
