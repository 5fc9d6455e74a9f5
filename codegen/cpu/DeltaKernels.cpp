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

namespace {
/// A causal convolution: operands and numbers of `short_conv`.
struct Conv {
  Conv(KernelBuilder &k, int64_t weightOperand, int64_t acceptedOperand,
       int64_t cacheOperand)
      : x(k.operand(0, k.f32())), weight(k.operand(weightOperand, k.f32())),
        cache(k.operand(cacheOperand, k.f32())),
        accepted(loadAccepted(k, k.operand(acceptedOperand, k.i32()))),
        channels(k.spec().getInt("channels")), taps(k.spec().getInt("taps")),
        commit(k.spec().getInt("commit") != 0) {}

  Memory x, weight;
  /// Rows of `channels`: taps - 1 committed ones, then the pending ones.
  Memory cache;
  Var accepted;
  int64_t channels, taps;
  bool commit;
};
} // namespace

/// Emits store(row, sum) for all rows of the 16 channels from \p channel on, as
/// far as \p mask goes, and updates the cache.
static void emitConv(KernelBuilder &k, const Conv &conv, Var channel, Var mask,
                     llvm::function_ref<void(Var row, Var sum)> store) {
  int64_t channels = conv.channels, taps = conv.taps;
  Vars taken;
  for (int64_t tap = 0; tap < taps; ++tap)
    taken.push_back(conv.weight.loadVector(channel + tap * channels, mask));
  // The taps - 1 rows before the input: the window slides by one for every
  // accepted row.
  Vars window;
  for (int64_t tap = 0; tap < taps - 1; ++tap)
    window.push_back(conv.cache.loadVector(
        (conv.accepted + tap) * channels + channel, mask));
  auto keep = [&](const Vars &rows) {
    for (int64_t tap = 0; tap < taps - 1; ++tap)
      conv.cache.storeVector(channel + tap * channels, rows[tap], mask);
  };
  if (!conv.commit)
    keep(window);

  Vars last = k.loop(0, k.rows(), 1, window, [&](Var row, const Vars &before) {
    Var here = conv.x.loadVector(row * channels + channel, mask);
    Vars seen = before;
    seen.push_back(here);
    Var sum = taken[0] * seen[0];
    for (int64_t tap = 1; tap < taps; ++tap)
      sum = k.fma(taken[tap], seen[tap], sum);
    store(row, sum);
    if (!conv.commit)
      conv.cache.storeVector((row + (taps - 1)) * channels + channel, here,
                             mask);
    seen.erase(seen.begin());
    return seen;
  });
  if (conv.commit)
    keep(last);
}

/// The lanes of a vector of numbers from \p first on that are before \p count.
static Var maskBefore(KernelBuilder &k, int64_t count, Var first) {
  return count % KernelBuilder::lanes == 0
             ? Var()
             : k.firstLanes(k.index(count) - first);
}

void tandem::codegen::buildShortConv(KernelBuilder &k) {
  Conv conv(k, 1, 2, 4);
  Memory y = k.operand(3, k.f32());
  k.loopItems([&](Var item) {
    Var channel = item * KernelBuilder::lanes;
    Var mask = maskBefore(k, conv.channels, channel);
    emitConv(k, conv, channel, mask, [&](Var row, Var sum) {
      y.storeVector(row * conv.channels + channel, sum, mask);
    });
  });
}

/// decay = -exp(log rate) softplus(x + bias), for \p columns numbers.
static void emitDecay(KernelBuilder &k, Memory x, Memory logRate, Memory bias,
                      Memory y, int64_t columns) {
  k.loopColumns(columns, [&](Var column, Var mask) {
    Var rate = exp(k, logRate.loadVector(column, mask));
    Var step =
        softplus(k, x.loadVector(column, mask) + bias.loadVector(column, mask));
    y.storeVector(column, -(rate * step), mask);
  });
}

void tandem::codegen::buildDeltaInputs(KernelBuilder &k) {
  const KernelSpec &spec = k.spec();
  int64_t heads = spec.getInt("heads"), keyHeads = spec.getInt("key_heads");
  int64_t keyDim = spec.getInt("key_dim");
  int64_t keyColumns = keyHeads * keyDim;
  Memory decayInput = k.operand(1, k.f32()), betaInput = k.operand(2, k.f32());
  Memory logRate = k.operand(4, k.f32()), bias = k.operand(5, k.f32());
  constexpr int64_t queryOperand = 7;
  Memory value = k.operand(9, k.f32());
  Memory decay = k.operand(10, k.f32()), beta = k.operand(11, k.f32());
  Conv conv(k, 3, 6, 12);
  int64_t valueColumns = conv.channels - 2 * keyColumns;
  int64_t valueItems =
      (valueColumns + KernelBuilder::lanes - 1) / KernelBuilder::lanes;

  // Queries and keys: an item is a head, whose norm needs all its channels.
  auto emitHead = [&](Var item) {
    Var isKey = k.select(item < keyHeads, k.index(0), 1);
    Memory y = k.operand(isKey + queryOperand, k.f32())
                   .at((item - isKey * keyHeads) * keyDim);
    k.loopColumns(keyDim, [&](Var column, Var mask) {
      emitConv(k, conv, item * keyDim + column, mask, [&](Var row, Var sum) {
        y.storeVector(row * keyColumns + column, silu(k, sum), mask);
      });
    });
    k.loop(0, k.rows(), 1, [&](Var row) {
      Memory vector = y.at(row * keyColumns);
      emitNorm(k, vector, vector, keyDim,
               {false, spec.getFloat("eps"), 0.0f, Memory(), Memory()});
    });
  };
  auto emitValues = [&](Var item) {
    Var column = (item - 2 * keyHeads) * KernelBuilder::lanes;
    Var mask = maskBefore(k, valueColumns, column);
    emitConv(k, conv, column + 2 * keyColumns, mask, [&](Var row, Var sum) {
      value.storeVector(row * valueColumns + column, silu(k, sum), mask);
    });
  };
  auto emitGates = [&] {
    k.loop(0, k.rows(), 1, [&](Var row) {
      Var base = row * heads;
      emitDecay(k, decayInput.at(base), logRate, bias, decay.at(base), heads);
      k.loopColumns(heads, [&](Var column, Var mask) {
        Var x = betaInput.loadVector(base + column, mask);
        beta.storeVector(base + column, sigmoid(k, x), mask);
      });
    });
  };
  k.loopItems([&](Var item) {
    k.ifElse(
        item < 2 * keyHeads,
        [&] {
          emitHead(item);
          return Vars();
        },
        [&] {
          k.ifElse(
              item < 2 * keyHeads + valueItems,
              [&] {
                emitValues(item);
                return Vars();
              },
              [&] {
                emitGates();
                return Vars();
              });
          return Vars();
        });
  });
}

void tandem::codegen::buildDeltaGate(KernelBuilder &k) {
  int64_t columns = k.spec().getInt("columns");
  Memory x = k.operand(0, k.f32());
  Memory logRate = k.operand(1, k.f32());
  Memory bias = k.operand(2, k.f32());
  Memory y = k.operand(3, k.f32());
  k.loopItems([&](Var row) {
    emitDecay(k, x.at(row * columns), logRate, bias, y.at(row * columns),
              columns);
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

/// The delta rule on one tile: 16 values of a head. A walk over the state ends
/// one row and begins the next.
class DeltaTile {
public:
  /// \p scaled is scratch of `key_dim` numbers.
  DeltaTile(KernelBuilder &k, const DeltaCache &sizes, Var item, Memory scaled)
      : k(k), sizes(sizes), head(item / sizes.tiles),
        keyHead(head / (sizes.heads / sizes.keyHeads)),
        firstValue(item % sizes.tiles * KernelBuilder::lanes),
        mask(sizes.valueDim % KernelBuilder::lanes == 0
                 ? Var()
                 : k.firstLanes(k.index(sizes.valueDim) - firstValue)),
        scaled(scaled) {}

  /// Steps \p state over the first \p count of \p rows. With a query its
  /// product with every new state goes to \p output.
  void emit(Memory state, const DeltaRows &rows, Var count, Memory query,
            Memory output);

private:
  /// Decays the state for \p row; the return value is S^T k.
  Var begin(Memory state, const DeltaRows &rows, Var row);
  /// Ends \p row, whose S^T k is \p predicted; begin() of the row behind it
  /// when there is a \p next.
  Var step(Memory state, const DeltaRows &rows, Var row, Var predicted,
           bool next, Memory query, Memory output);
  Vars sumOverKeys(
      size_t count,
      llvm::function_ref<void(Var keyIndex, llvm::MutableArrayRef<Var> sums)>
          add);
  Memory keyOf(const DeltaRows &rows, Var row) const {
    return rows.key.at(row * sizes.keyColumns + keyHead * sizes.keyDim);
  }
  Var decayOf(const DeltaRows &rows, Var row) const {
    return exp(k, rows.decay.loadSplat(row * sizes.heads + head));
  }

  static constexpr int64_t lanes = KernelBuilder::lanes;
  KernelBuilder &k;
  const DeltaCache &sizes;
  Var head, keyHead, firstValue, mask;
  Memory scaled;
};
} // namespace

/// Sums over all keys, \p count of them at a time. Each is four sums side by
/// side, because one alone would wait for itself.
Vars DeltaTile::sumOverKeys(
    size_t count,
    llvm::function_ref<void(Var, llvm::MutableArrayRef<Var>)> add) {
  constexpr int64_t parts = 4;
  Vars sums(parts * count, k.splat(0.0));
  auto addTo = [&](Var key, int64_t part, Vars &into) {
    add(key, llvm::MutableArrayRef<Var>(into).slice(part * count, count));
  };
  int64_t full = sizes.keyDim / parts * parts;
  sums = k.loop(0, full, parts, sums, [&](Var first, const Vars &carried) {
    Vars next = carried;
    for (int64_t part = 0; part < parts; ++part)
      addTo(first + part, part, next);
    return next;
  });
  for (int64_t left = full; left < sizes.keyDim; ++left)
    addTo(k.index(left), left - full, sums);
  Vars totals;
  for (size_t i = 0; i < count; ++i)
    totals.push_back((sums[i] + sums[count + i]) +
                     (sums[2 * count + i] + sums[3 * count + i]));
  return totals;
}

Var DeltaTile::begin(Memory state, const DeltaRows &rows, Var row) {
  Memory key = keyOf(rows, row);
  Var decay = decayOf(rows, row);
  return sumOverKeys(1, [&](Var i, llvm::MutableArrayRef<Var> sums) {
    Var decayed = state.loadVector(i * lanes) * decay;
    state.storeVector(i * lanes, decayed);
    sums[0] = k.fma(key.loadSplat(i), decayed, sums[0]);
  })[0];
}

Var DeltaTile::step(Memory state, const DeltaRows &rows, Var row, Var predicted,
                    bool next, Memory query, Memory output) {
  Var valueBase = row * sizes.valueColumns + head * sizes.valueDim + firstValue;
  Memory key = keyOf(rows, row);
  Var beta = rows.beta.loadSplat(row * sizes.heads + head);
  Var delta = (rows.value.loadVector(valueBase, mask) - predicted) * beta;
  bool hasQuery = query.isValid();
  if (hasQuery) {
    Memory from = query.at(row * sizes.keyColumns + keyHead * sizes.keyDim);
    float scale = k.spec().getFloat("scale_by");
    k.loopColumns(sizes.keyDim, [&](Var i, Var some) {
      scaled.storeVector(i, from.loadVector(i, some) * scale, some);
    });
  }
  Memory nextKey = next ? keyOf(rows, row + 1) : Memory();
  Var nextDecay = next ? decayOf(rows, row + 1) : Var();
  Vars sums =
      sumOverKeys(hasQuery + next, [&](Var i, llvm::MutableArrayRef<Var> sums) {
        Var updated =
            k.fma(key.loadSplat(i), delta, state.loadVector(i * lanes));
        if (hasQuery)
          sums[0] = k.fma(scaled.loadSplat(i), updated, sums[0]);
        if (next) {
          updated = updated * nextDecay;
          sums[hasQuery] = k.fma(nextKey.loadSplat(i), updated, sums[hasQuery]);
        }
        state.storeVector(i * lanes, updated);
      });
  if (hasQuery)
    output.storeVector(valueBase, sums[0], mask);
  return next ? sums[hasQuery] : Var();
}

void DeltaTile::emit(Memory state, const DeltaRows &rows, Var count,
                     Memory query, Memory output) {
  k.ifThen(count > 0, [&] {
    Var last = count - 1;
    Vars predicted = k.loop(
        0, last, 1, {begin(state, rows, k.index(0))},
        [&](Var row, const Vars &before) {
          return Vars{step(state, rows, row, before[0], true, query, output)};
        });
    step(state, rows, last, predicted[0], false, query, output);
  });
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
  // A state that is not durable, and a row of the query.
  Memory scratch = k.scratch((sizes.tileSize + sizes.keyDim) * 4, k.f32());

  k.loopItems([&](Var item) {
    DeltaTile tile(k, sizes, item, scratch.at(sizes.tileSize));
    Memory kept = cache.at(item * sizes.tileSize);
    // What was accepted is durable from now on.
    tile.emit(kept, pending, accepted, Memory(), Memory());
    // The rows of this call are durable only with `commit`.
    Memory state = kept;
    if (!commit) {
      k.loopColumns(sizes.tileSize, [&](Var column, Var mask) {
        scratch.storeVector(column, kept.loadVector(column, mask), mask);
      });
      state = scratch;
    }
    tile.emit(state, input, k.rows(), query, output);
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
