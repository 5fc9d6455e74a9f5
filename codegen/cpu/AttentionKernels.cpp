//===- AttentionKernels.cpp - rope, cache_append, attention ---------------===//
//
// Position p of a text is slot p mod slots of a cache. Slots come in tiles of
// 16, whose keys lie side by side: a vector holds the same dimension of 16
// keys.
//
//===----------------------------------------------------------------------===//

#include "codegen/cpu/Kernels.h"
#include "codegen/cpu/VectorMath.h"

#include <limits>

using namespace tandem::codegen;

void tandem::codegen::buildRope(KernelBuilder &k) {
  int64_t columns = k.spec().getInt("columns");
  int64_t headDim = k.spec().getInt("head_dim");
  int64_t dims = k.spec().getInt("dims");
  int64_t half = dims / 2;
  Memory x = k.operand(0, k.f32());
  Memory start = k.operand(1, k.i32());
  Memory table = k.operand(2, k.f32());
  Memory y = k.operand(3, k.f32());

  Var first = k.max(k.toIndex(start.load(0)), 0);
  k.loopItems([&](Var row) {
    Var position = k.min(first + row, k.spec().getInt("positions") - 1);
    Memory cosines = table.at(position * dims);
    Memory sines = cosines.at(half);
    k.loop(0, columns, headDim, [&](Var head) {
      Memory from = x.at(row * columns + head);
      Memory to = y.at(row * columns + head);
      k.loopColumns(half, [&](Var j, Var mask) {
        Var left = from.loadVector(j, mask);
        Var right = from.loadVector(j + half, mask);
        Var cosine = cosines.loadVector(j, mask);
        Var sine = sines.loadVector(j, mask);
        to.storeVector(j, left * cosine - right * sine, mask);
        to.storeVector(j + half, right * cosine + left * sine, mask);
      });
      k.loopColumns(headDim - dims, [&](Var j, Var mask) {
        to.storeVector(j + dims, from.loadVector(j + dims, mask), mask);
      });
    });
  });
}

void tandem::codegen::buildCacheAppend(KernelBuilder &k) {
  constexpr int64_t lanes = KernelBuilder::lanes;
  int64_t heads = k.spec().getInt("heads");
  int64_t dim = k.spec().getInt("dim");
  int64_t slots = k.spec().getInt("slots");
  Memory keys = k.operand(0, k.f32());
  Memory values = k.operand(1, k.f32());
  Memory start = k.operand(2, k.i32());
  Memory keyCache = k.operand(3, k.f32());
  Memory valueCache = keyCache.at(heads * slots * dim);

  Var first = k.max(k.toIndex(start.load(0)), 0);
  k.loopItems([&](Var head) {
    k.loop(0, k.rows(), 1, [&](Var row) {
      Var slot = (first + row) % slots;
      Var from = (row * heads + head) * dim;
      // Keys of 16 slots lie side by side.
      Var tile = (head * (slots / lanes) + slot / lanes) * (dim * lanes);
      Memory keyColumn = keyCache.at(tile + slot % lanes);
      k.loop(0, dim, 1,
             [&](Var d) { keyColumn.store(d * lanes, keys.load(from + d)); });
      Memory to = valueCache.at((head * slots + slot) * dim);
      k.loopColumns(dim, [&](Var d, Var mask) {
        to.storeVector(d, values.loadVector(from + d, mask), mask);
      });
    });
  });
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

namespace {

/// Attention of a few queries that read the same head of the cache. Whether a
/// query is computed alone or with others makes no difference to its bits:
/// every query has sums of its own, in an order set by the positions of keys.
class AttentionBatch {
public:
  AttentionBatch(KernelBuilder &k);

  /// Computes the items [begin, end), all of head \p cacheHead, \p size at a
  /// time. Item = query head * rows + row, so neighbours share keys.
  void emit(Var cacheHead, Var begin, Var end, int64_t size);

  /// Queries that fit into registers.
  int64_t largestSize() const { return maxSize; }

private:
  static constexpr int64_t lanes = KernelBuilder::lanes;

  /// One query of the batch.
  struct Query {
    Memory query, output;
    /// By visible position from `firstTile` on: score, then probability.
    Memory scores;
    /// First and last visible position, as i64 and in all lanes as i32.
    Var low, high, lowLanes, highLanes;
  };

  Query makeQuery(Var item, int64_t number);
  /// Lanes of \p tile that \p query sees.
  Var visibleLanes(const Query &query, Var tile);
  Vars emitScores();
  Vars emitProbabilities(const Vars &largest);
  void emitOutputs(const Vars &sums, Var offset, int64_t vectors, Var cut);
  Var firstSlot(Var tile) { return tile % (slots / lanes) * lanes; }
  Var scoreIndex(Var tile) { return (tile - firstTile) * lanes; }

  KernelBuilder &k;
  int64_t dim, heads, queryHeads, slots, window;
  bool causal;
  int64_t maxSize, dimParts, vectorsPerPass;
  Var start;
  Memory queries, keys, values, outputs, scratch;

  // Of the batch being built.
  llvm::SmallVector<Query> batch;
  Var firstTile, endTile;
  Memory headKeys, headValues;
};

} // namespace

AttentionBatch::AttentionBatch(KernelBuilder &k)
    : k(k), dim(k.spec().getInt("dim")), heads(k.spec().getInt("heads")),
      queryHeads(k.spec().getInt("query_heads")),
      slots(k.spec().getInt("slots")), window(k.spec().getInt("window")),
      causal(k.spec().getInt("causal") != 0) {
  // Accumulators: size * dimParts for scores, size * vectorsPerPass for
  // outputs. A vector takes two of the 16 registers of AVX2.
  bool wide = k.target().hasAvx512();
  maxSize = wide ? 4 : 2;
  dimParts = wide ? 4 : 2;
  vectorsPerPass = wide ? 4 : 2;
  queries = k.operand(0, k.f32());
  keys = k.operand(1, k.f32());
  values = keys.at(heads * slots * dim);
  start = k.max(k.toIndex(k.operand(2, k.i32()).load(0)), 0);
  outputs = k.operand(3, k.f32());
  // The visible range may begin and end inside a tile.
  scratch = k.scratch(maxSize * (slots + lanes) * 4, k.f32());
}

AttentionBatch::Query AttentionBatch::makeQuery(Var item, int64_t number) {
  Query query;
  Var row = item % k.rows();
  Var base = (row * queryHeads + item / k.rows()) * dim;
  query.query = queries.at(base);
  query.output = outputs.at(base);
  query.scores = scratch.at(number * (slots + lanes));
  Var position = start + row;
  Var last = start + k.rows() - 1;
  query.low = window > 0 ? k.max(position - (window - 1), 0) : k.index(0);
  query.high = causal       ? position
               : window > 0 ? k.min(position + (window - 1), last)
                            : last;
  query.lowLanes = k.broadcast(k.toInt32(query.low));
  query.highLanes = k.broadcast(k.toInt32(query.high));
  return query;
}

Var AttentionBatch::visibleLanes(const Query &query, Var tile) {
  Var positions = k.laneNumbers() + k.toInt32(tile * lanes);
  return (positions >= query.lowLanes) & (positions <= query.highLanes);
}

/// Writes scale * query . key for all visible keys, minus infinity for others
/// in their tiles, and returns the largest of each query.
Vars AttentionBatch::emitScores() {
  Var hidden = k.splat(-std::numeric_limits<double>::infinity());
  Var scale = k.splat(k.spec().getFloat("scale_by"));
  int64_t size = batch.size();
  return k.loop(
      firstTile, endTile, 1, Vars(size, hidden),
      [&](Var tile, const Vars &largest) {
        Memory tileKeys = headKeys.at(firstSlot(tile) * dim);
        // dimParts sums for each query, to keep the multipliers busy.
        Vars sums(size * dimParts, k.splat(0.0));
        auto add = [&](Var d, int64_t part, Vars &into) {
          Var key = tileKeys.loadVector(d * lanes);
          for (int64_t q = 0; q < size; ++q) {
            Var &sum = into[q * dimParts + part];
            sum = k.fma(batch[q].query.loadSplat(d), key, sum);
          }
        };
        int64_t full = dim / dimParts * dimParts;
        sums = k.loop(0, full, dimParts, sums, [&](Var d, const Vars &before) {
          Vars next = before;
          for (int64_t part = 0; part < dimParts; ++part)
            add(d + part, part, next);
          return next;
        });
        for (int64_t d = full; d < dim; ++d)
          add(k.index(d), d - full, sums);

        Vars next;
        for (int64_t q = 0; q < size; ++q) {
          for (int64_t width = dimParts; width > 1; width /= 2)
            for (int64_t part = 0; part < width / 2; ++part)
              sums[q * dimParts + part] = sums[q * dimParts + part] +
                                          sums[q * dimParts + part + width / 2];
          Var score = k.select(visibleLanes(batch[q], tile),
                               sums[q * dimParts] * scale, hidden);
          batch[q].scores.storeVector(scoreIndex(tile), score);
          next.push_back(k.max(score, largest[q]));
        }
        return next;
      });
}

/// Turns scores into exp(score - largest); returns their sums in all lanes.
Vars AttentionBatch::emitProbabilities(const Vars &largest) {
  Vars sums;
  for (size_t q = 0; q < batch.size(); ++q) {
    Var shift = k.broadcast(maxLanes(k, largest[q]));
    Vars sum =
        k.loop(firstTile, endTile, 1, {k.splat(0.0)},
               [&](Var tile, const Vars &before) {
                 Var score = batch[q].scores.loadVector(scoreIndex(tile));
                 Var probability = exp(k, score - shift);
                 batch[q].scores.storeVector(scoreIndex(tile), probability);
                 return Vars{before[0] + probability};
               });
    sums.push_back(k.broadcast(sumLanes(k, sum[0])));
  }
  return sums;
}

/// Writes \p vectors vectors of the outputs from dimension \p offset on; of
/// the last one the lanes \p cut.
void AttentionBatch::emitOutputs(const Vars &sums, Var offset, int64_t vectors,
                                 Var cut) {
  int64_t size = batch.size();
  auto maskOf = [&](int64_t v) { return v == vectors - 1 ? cut : Var(); };

  // One key: output += probability * value. With \p checkSeen a query that
  // does not see the key is left alone, whatever the slot holds.
  auto addKey = [&](Var tile, Var key, const Vars &before, bool checkSeen) {
    Memory value = headValues.at((firstSlot(tile) + key) * dim + offset);
    Vars next = before;
    Var position = tile * lanes + key;
    for (int64_t v = 0; v < vectors; ++v) {
      Var part = value.loadVector(v * lanes, maskOf(v));
      for (int64_t q = 0; q < size; ++q) {
        Var &sum = next[q * vectors + v];
        Var probability = batch[q].scores.loadSplat(scoreIndex(tile) + key);
        Var added = k.fma(probability, part, sum);
        if (checkSeen)
          added =
              k.select((position >= batch[q].low) & (position <= batch[q].high),
                       added, sum);
        sum = added;
      }
    }
    return next;
  };
  Vars totals = k.loop(
      firstTile, endTile, 1, Vars(size * vectors, k.splat(0.0)),
      [&](Var tile, const Vars &before) {
        Var first = tile * lanes;
        Var allSeen = first >= batch[0].low;
        for (const Query &query : batch)
          allSeen = allSeen & (first >= query.low) &
                    (first + (lanes - 1) <= query.high);
        auto addTile = [&](bool checkSeen) {
          return k.loop(0, lanes, 1, before, [&](Var key, const Vars &sums) {
            return addKey(tile, key, sums, checkSeen);
          });
        };
        return k.ifElse(
            allSeen, [&] { return addTile(false); },
            [&] { return addTile(true); });
      });
  for (int64_t q = 0; q < size; ++q)
    for (int64_t v = 0; v < vectors; ++v)
      batch[q].output.storeVector(offset + v * lanes,
                                  totals[q * vectors + v] / sums[q], maskOf(v));
}

void AttentionBatch::emit(Var cacheHead, Var begin, Var end, int64_t size) {
  headKeys = keys.at(cacheHead * (slots * dim));
  headValues = values.at(cacheHead * (slots * dim));
  batch.clear();
  // A batch that is not full computes its last item more than once.
  for (int64_t number = 0; number < size; ++number)
    batch.push_back(makeQuery(k.min(begin + number, end - 1), number));
  Var low = batch[0].low, high = batch[0].high;
  for (const Query &query : batch) {
    low = k.min(low, query.low);
    high = k.max(high, query.high);
  }
  // The compiler of the plan sees to it that all visible positions are in the
  // cache; whatever it is given, a kernel stays inside its scratch.
  low = k.max(low, high - (slots - 1));
  firstTile = low / lanes;
  endTile = high / lanes + 1;

  Vars largest = emitScores();
  Vars sums = emitProbabilities(largest);
  int64_t perPass = vectorsPerPass * lanes;
  int64_t full = dim / perPass * perPass;
  k.loop(0, full, perPass,
         [&](Var offset) { emitOutputs(sums, offset, vectorsPerPass, Var()); });
  if (int64_t left = dim - full)
    emitOutputs(sums, k.index(full), (left + lanes - 1) / lanes,
                k.firstLanes((left - 1) % lanes + 1));
}

void tandem::codegen::buildAttention(KernelBuilder &k) {
  AttentionBatch attention(k);
  int64_t group = k.spec().getInt("query_heads") / k.spec().getInt("heads");
  Var perHead = k.max(k.rows(), 1) * group;
  int64_t size = attention.largestSize();
  Var firstHead = k.begin() / perHead;
  Var endHead = (k.end() + perHead - 1) / perHead;
  k.loop(firstHead, endHead, 1, [&](Var head) {
    Var begin = k.max(k.begin(), head * perHead);
    Var end = k.min(k.end(), (head + 1) * perHead);
    k.loop(begin, end, size, [&](Var item) {
      k.ifElse(
          item >= end - 1,
          [&] {
            attention.emit(head, item, end, 1);
            return Vars();
          },
          [&] {
            attention.emit(head, item, end, size);
            return Vars();
          });
    });
  });
}
