//===- attention.cuh - Grouped-query attention over a cache ---------------===//
//
//   out = sum_p softmax_p(scale * query . key_p) value_p
//
// over the positions p < start + live rows that row q = start + r sees: p <= q
// when causal, |q - p| < window when there is one.
//
// query, output [rows, query_heads * dim] bf16, start [1] i32, cache as in
// cache_append: keys [head][slot][dim], values [head][slot][dim], position p in
// slot p mod slots.
//
// An item is one row and one of the query heads that share a head of the cache:
//
//   items of a head   row 0: head 0, 1 .. group - 1 | row 1: .. | ..
//   block             64 items (4 warps of 16), one span of positions
//
// Spans are `span` positions from a multiple of `span` on, whatever the row.
// A block takes tiles of 32 keys of its span in order: scores and outputs by
// tensor cores, running maximum and sum in f32. What an item does not see adds
// exact zeros. Then whichever block is last adds the spans in order:
//
//   scratch   f32 [head][block of items][span][64 items][dim]
//             f32 [head][block of items][span][64 items][maximum, sum]
//
// so an item's bits depend on positions alone. Shared memory, rows with 8
// numbers of gap:
//
//   [queries: 64 x dim] [keys: 32 x dim] [values: 32 x dim]   bf16
//
// While scores are computed the values arrive, and while outputs are, the next
// keys.
//
// Floor: keys and values seen, 4 * heads * dim bytes a position, for every 64
// items of a head.
//
// Grid: spans, blocks of items, heads. Called by attention.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "mma.cuh"

namespace tandem {

constexpr i32 kAttentionThreads = 128;
constexpr i32 kAttentionItems = kAttentionThreads / kWarp * 16;
constexpr i32 kKeyTile = 32;

/// Positions, first and last.
struct Range {
  i32 low, high;
};

template <typename C> struct Attention {
  static constexpr i32 group = C::queryHeads / C::heads;
  static constexpr i32 paddedDim = roundUp(C::dim, 16);
  static constexpr i32 stride = paddedDim + 8;
  static constexpr i32 sharedBytes =
      (kAttentionItems + 2 * kKeyTile) * stride * i32(sizeof(bf16));
  static constexpr bool aligned = C::dim % 8 == 0;
  /// Tiles of 8 keys in the scores, of 8 numbers in the outputs.
  static constexpr i32 keyTiles = kKeyTile / 8, dimTiles = paddedDim / 8;
  static constexpr u64 halfCache = u64(C::heads) * C::slots * C::dim;
  static constexpr u64 spanSize = u64(kAttentionItems) * C::dim;

  const bf16 *query, *cache;
  bf16 *output;
  f32 *scratch;
  bf16 *queries, *keys, *values;
  i32 start, live;
  /// Of the block: head of the cache, first item.
  i32 head, firstItem;

  __device__ i32 items() const { return live * group; }

  /// Positions that \p item sees; none when there is no such item.
  __device__ Range visible(i32 item) const {
    if (item >= items())
      return {1, 0};
    i32 position = start + item / group, end = start + live - 1;
    Range range = {0, C::causal ? position : end};
    if constexpr (C::window > 0) {
      range.low = max(position - (C::window - 1), 0);
      range.high = min(range.high, position + (C::window - 1));
    }
    return range;
  }

  /// Positions that any item of the block sees.
  __device__ Range visibleToBlock() const {
    Range first = visible(firstItem);
    Range last = visible(min(firstItem + kAttentionItems, items()) - 1);
    // Whatever it is told, a kernel stays inside the cache.
    return {max(first.low, last.high - (C::slots - 1)), last.high};
  }

  /// Where \p item is in queries and outputs.
  __device__ u64 itemBase(i32 item) const {
    return (u64(item / group) * C::queryHeads + head * group + item % group) *
           C::dim;
  }

  __device__ void fetchQueries() const {
    copyTile<kAttentionItems, paddedDim, stride, kAttentionThreads, aligned>(
        queries, C::dim, [&](i32 row) -> const bf16 * {
          i32 item = firstItem + row;
          return item < items() ? query + itemBase(item) : nullptr;
        });
  }

  /// Starts the copies of tile \p tile; positions outside of \p range become
  /// zeros, whatever the cache holds there.
  __device__ void fetchKeys(bf16 *to, u64 half, i32 tile, Range range) const {
    const bf16 *from = cache + half + u64(head) * C::slots * C::dim;
    copyTile<kKeyTile, paddedDim, stride, kAttentionThreads, aligned>(
        to, C::dim, [&](i32 row) -> const bf16 * {
          i32 position = tile * kKeyTile + row;
          return position >= range.low && position <= range.high
                     ? from + u64(position % C::slots) * C::dim
                     : nullptr;
        });
  }

  /// What a warp has summed over keys so far, in the fragments of mma.cuh: sums
  /// of items g and g + 8, and their outputs before the division.
  struct Sums {
    f32 largest[2], sum[2];
    f32 out[dimTiles][4];
  };

  /// Scores of the keys in shared memory as base-2 logarithms; minus infinity
  /// where \p seen is not.
  __device__ void score(f32 (&scores)[keyTiles][4], i32 tile,
                        const Range (&seen)[2]) const {
    i32 warp = threadIdx.x / kWarp, t = threadIdx.x % 4;
#pragma unroll
    for (i32 j = 0; j < keyTiles; ++j)
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        scores[j][i] = 0;
    // Unrolled a little: a full unroll keeps too many fragments alive.
#pragma unroll 4
    for (i32 k = 0; k < paddedDim; k += 16) {
      u32 a[4];
      loadA(a, queries + warp * 16 * stride, stride, k);
#pragma unroll
      for (i32 j = 0; j < keyTiles; j += 2) {
        u32 b[4];
        loadB(b, keys + j * 8 * stride, stride, k);
        multiply(scores[j], a, b[0], b[1]);
        multiply(scores[j + 1], a, b[2], b[3]);
      }
    }
    constexpr f32 toBase2 = C::scaleBy * 1.44269504088896340736f;
#pragma unroll
    for (i32 j = 0; j < keyTiles; ++j)
#pragma unroll
      for (i32 i = 0; i < 4; ++i) {
        i32 position = tile * kKeyTile + j * 8 + 2 * t + i % 2;
        const Range &range = seen[i / 2];
        scores[j][i] = position >= range.low && position <= range.high
                           ? scores[j][i] * toBase2
                           : minusInfinity();
      }
  }

  /// Takes \p scores into \p sums and leaves their probabilities, less the
  /// factor that the division takes off.
  __device__ static void takeScores(f32 (&scores)[keyTiles][4], Sums &sums) {
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      f32 largest = minusInfinity();
#pragma unroll
      for (i32 j = 0; j < keyTiles; ++j)
        largest =
            fmaxf(largest, fmaxf(scores[j][half * 2], scores[j][half * 2 + 1]));
      largest = fmaxf(sums.largest[half], maxLanes<4>(largest));
      // Nothing seen so far: any finite number does.
      f32 shift = largest == minusInfinity() ? 0.0f : largest;
      f32 factor = exp2Fast(sums.largest[half] - shift);
      f32 sum = 0;
#pragma unroll
      for (i32 j = 0; j < keyTiles; ++j)
#pragma unroll
        for (i32 i = half * 2; i < half * 2 + 2; ++i) {
          scores[j][i] = exp2Fast(scores[j][i] - shift);
          sum += scores[j][i];
        }
      sums.sum[half] = fma(sums.sum[half], factor, sumLanes<4>(sum));
      sums.largest[half] = largest;
#pragma unroll
      for (i32 n = 0; n < dimTiles; ++n) {
        sums.out[n][half * 2] *= factor;
        sums.out[n][half * 2 + 1] *= factor;
      }
    }
  }

  /// Adds probabilities times values.
  __device__ void takeValues(const f32 (&scores)[keyTiles][4],
                             Sums &sums) const {
#pragma unroll
    for (i32 k = 0; k < kKeyTile; k += 16) {
      const f32(&left)[4] = scores[k / 8], (&right)[4] = scores[k / 8 + 1];
      u32 a[4] = {packBf16(left[0], left[1]), packBf16(left[2], left[3]),
                  packBf16(right[0], right[1]), packBf16(right[2], right[3])};
#pragma unroll
      for (i32 n = 0; n < dimTiles; n += 2) {
        u32 b[4];
        loadBTransposed(b, values + k * stride, stride, n * 8);
        multiply(sums.out[n], a, b[0], b[1]);
        multiply(sums.out[n + 1], a, b[2], b[3]);
      }
    }
  }

  /// Sums over the positions \p span that items of the block see.
  __device__ void addSpan(Sums &sums, Range span, Range visibleRange) const {
    i32 g = threadIdx.x % kWarp / 4;
    i32 firstOfWarp = firstItem + threadIdx.x / kWarp * 16;
    Range seen[2] = {visible(firstOfWarp + g), visible(firstOfWarp + g + 8)};
    i32 firstTile = max(span.low, visibleRange.low) / kKeyTile;
    i32 lastTile = min(span.high, visibleRange.high) / kKeyTile;

    fetchQueries();
    fetchKeys(keys, 0, firstTile, visibleRange);
    commitCopies();
    for (i32 tile = firstTile; tile <= lastTile; ++tile) {
      waitForCopies<0>();
      __syncthreads();
      fetchKeys(values, halfCache, tile, visibleRange);
      commitCopies();
      f32 scores[keyTiles][4];
      score(scores, tile, seen);
      takeScores(scores, sums);
      waitForCopies<0>();
      __syncthreads();
      if (tile < lastTile)
        fetchKeys(keys, 0, tile + 1, visibleRange);
      commitCopies();
      takeValues(scores, sums);
    }
  }

  /// Calls \p take(item in the block, column, number, half) for each of a
  /// warp's outputs that exist.
  template <typename Take>
  __device__ void forOutputs(const Sums &sums, Take take) const {
    i32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
#pragma unroll
    for (i32 n = 0; n < dimTiles; ++n)
#pragma unroll
      for (i32 i = 0; i < 4; ++i) {
        i32 item = threadIdx.x / kWarp * 16 + g + i / 2 * 8;
        i32 column = n * 8 + 2 * t + i % 2;
        if (firstItem + item < items() && (C::dim % 16 == 0 || column < C::dim))
          take(item, column, sums.out[n][i], i / 2);
      }
  }

  __device__ static bf16 divide(f32 out, f32 sum) {
    return fromFloat<bf16>(sum > 0 ? out / sum : 0.0f);
  }

  __device__ void writeOutputs(const Sums &sums) const {
    forOutputs(sums, [&](i32 item, i32 column, f32 out, i32 half) {
      output[itemBase(firstItem + item) + column] = divide(out, sums.sum[half]);
    });
  }

  /// Scratch of span \p index of this block of items, and of its maxima and
  /// sums.
  __device__ f32 *spanOutputs(i32 index) const {
    return scratch +
           ((u64(head) * gridDim.y + blockIdx.y) * gridDim.x + index) *
               spanSize;
  }
  __device__ f32 *spanSums(i32 index) const {
    u64 blocks = u64(C::heads) * gridDim.y * gridDim.x;
    return scratch + blocks * spanSize +
           ((u64(head) * gridDim.y + blockIdx.y) * gridDim.x + index) *
               (kAttentionItems * 2);
  }

  __device__ void writeScratch(const Sums &sums, i32 index) const {
    f32 *outputs = spanOutputs(index), *pairs = spanSums(index);
    forOutputs(sums, [&](i32 item, i32 column, f32 out, i32) {
      outputs[item * C::dim + column] = out;
    });
    if (threadIdx.x % 4 == 0)
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
        i32 item =
            threadIdx.x / kWarp * 16 + threadIdx.x % kWarp / 4 + half * 8;
        pairs[item * 2] = sums.largest[half];
        pairs[item * 2 + 1] = sums.sum[half];
      }
  }

  /// Adds \p spans spans in order and writes outputs; a warp an item.
  __device__ void combine(i32 spans) const {
    i32 lane = threadIdx.x % kWarp;
    i32 count = min(kAttentionItems, items() - firstItem);
    for (i32 item = threadIdx.x / kWarp; item < count;
         item += kAttentionThreads / kWarp) {
      constexpr i32 perLane = ceilDiv(C::dim, kWarp);
      f32 largest = minusInfinity(), sum = 0;
      f32 out[perLane] = {};
      for (i32 index = 0; index < spans; ++index) {
        const f32 *pair = spanSums(index) + item * 2;
        f32 spanLargest = loadShared(pair), spanSum = loadShared(pair + 1);
        // A span that the item sees nothing of.
        if (spanLargest == minusInfinity())
          continue;
        f32 next = fmaxf(largest, spanLargest);
        f32 factor = exp2Fast(largest - next);
        f32 spanFactor = exp2Fast(spanLargest - next);
        largest = next;
        sum = fma(sum, factor, spanSum * spanFactor);
        const f32 *from = spanOutputs(index) + item * C::dim;
#pragma unroll
        for (i32 i = 0; i < perLane; ++i) {
          i32 column = i * kWarp + lane;
          if (C::dim % kWarp == 0 || column < C::dim)
            out[i] =
                fma(out[i], factor, loadShared(from + column) * spanFactor);
        }
      }
#pragma unroll
      for (i32 i = 0; i < perLane; ++i) {
        i32 column = i * kWarp + lane;
        if (C::dim % kWarp == 0 || column < C::dim)
          output[itemBase(firstItem + item) + column] = divide(out[i], sum);
      }
    }
  }
};

template <typename C>
__device__ void attention(const bf16 *query, const bf16 *cache,
                          const i32 *start, bf16 *output, const i32 *live,
                          i32 rows, f32 *scratch, u32 *tickets) {
  extern __shared__ __align__(128) u8 shared[];
  using Block = Attention<C>;
  i32 firstItem = blockIdx.y * kAttentionItems;
  bf16 *queries = reinterpret_cast<bf16 *>(shared);
  bf16 *keys = queries + kAttentionItems * Block::stride;
  bf16 *values = keys + kKeyTile * Block::stride;
  Block block = {query,           cache,          output,
                 scratch,         queries,        keys,
                 values,          max(*start, 0), liveRows(live, rows),
                 i32(blockIdx.z), firstItem};
  if (firstItem >= block.items())
    return;
  Range visible = block.visibleToBlock();
  i32 firstSpan = visible.low / C::span;
  i32 spans = visible.high / C::span - firstSpan + 1;
  i32 index = blockIdx.x;
  if (index >= spans)
    return;

  typename Block::Sums sums = {};
  sums.largest[0] = sums.largest[1] = minusInfinity();
  i32 low = (firstSpan + index) * C::span;
  block.addSpan(sums, {low, low + C::span - 1}, visible);
  // One span needs no sum; adding it to nothing would not change a bit.
  if (spans == 1)
    return block.writeOutputs(sums);
  block.writeScratch(sums, index);
  if (isLastBlock(tickets + blockIdx.z * gridDim.y + blockIdx.y, spans))
    block.combine(spans);
}

} // namespace tandem
