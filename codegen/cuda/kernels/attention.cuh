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
//   block             64 items, some spans of positions
//
// A span is 64 positions from a multiple of 64 on, whatever the row. Of 8 warps
// warp w has the items 16 (w % 4) .. 16 (w % 4) + 15: for scores half w / 4 of
// the keys, for outputs half w / 4 of the columns; maxima, sums and
// probabilities go from one to the other through shared memory:
//
//   [keys: 64 x dim] [values: 64 x dim] [probabilities: 64 x 64]   bf16, rows
//   [maxima: 2 x 64] [sums: 2 x 64]                                f32
//
// with 8 numbers of gap behind each row. Queries pass through the place of the
// values to registers. While scores are computed the values arrive, and while
// outputs are, the keys of the next span. What an item does not see adds exact
// zeros.
//
// Few rows: a span is a result of its own, and whichever blocks come last add
// them up, in order, so an item's bits depend on positions alone:
//
//   scratch   u32 [head][block of items][blocks that have come, that have left]
//             f32 [head][block of items][span][8 items][8 columns][lane][2]
//             f32 [head][block of items][span][64 items][maximum, sum]
//
// where lane 4 g + t has columns 2 t and 2 t + 1 of item g of the eight,
//
// Many rows, whose blocks of items fill the machine: a block takes all spans in
// order and adds them up in registers.
//
// Floor: keys and values seen, 4 * heads * dim bytes a position, for every 64
// items of a head.
//
// Grid: blocks of spans, blocks of items, heads. Called by attention.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "mma.cuh"

namespace tandem {

constexpr i32 kAttentionThreads = 256;
constexpr i32 kAttentionItems = 64;
constexpr i32 kSpan = 64;
/// Blocks of a block of items that add spans up: each has an item a warp.
constexpr i32 kAttentionAdders = kAttentionItems / (kAttentionThreads / kWarp);
/// Blocks of items from which on they fill a machine.
constexpr i32 kManyBlocks = 64;

/// Positions, first and last.
struct Range {
  i32 low, high;
};

template <typename C> struct Attention {
  static constexpr i32 group = C::queryHeads / C::heads;
  static constexpr i32 paddedDim = roundUp(C::dim, 32);
  static constexpr i32 stride = paddedDim + 8, probabilityStride = kSpan + 8;
  static constexpr i32 tileSize = kSpan * stride;
  static constexpr i32 sharedBytes =
      (2 * tileSize + kAttentionItems * probabilityStride) * i32(sizeof(bf16)) +
      4 * kAttentionItems * i32(sizeof(f32));
  static constexpr bool aligned = C::dim % 8 == 0;
  /// Of a warp: tiles of 8 keys in scores, of 8 columns in outputs.
  static constexpr i32 keyTiles = kSpan / 2 / 8, dimTiles = paddedDim / 2 / 8;
  /// Tiles of 8 columns of an item.
  static constexpr i32 columnTiles = paddedDim / 8;
  static constexpr u64 halfCache = u64(C::heads) * C::slots * C::dim;
  static constexpr u64 spanSize = u64(kAttentionItems) * paddedDim;

  const bf16 *query, *cache;
  bf16 *output;
  u8 *scratch;
  bf16 *keys;
  i32 start, live;
  /// Of the block: head of the cache, first item.
  i32 head, firstItem;
  /// What any item of the block sees, and in which spans it is.
  Range seen;
  i32 firstSpan, spans;

  __device__ bf16 *values() const { return keys + tileSize; }
  __device__ bf16 *probabilities() const { return values() + tileSize; }
  __device__ f32 *maxima() const {
    return reinterpret_cast<f32 *>(probabilities() +
                                   kAttentionItems * probabilityStride);
  }
  __device__ f32 *sums() const { return maxima() + 2 * kAttentionItems; }

  /// The first item of this warp in the block, and its half.
  __device__ static i32 warpItem() { return threadIdx.x / kWarp % 4 * 16; }
  __device__ static i32 half() { return threadIdx.x / kWarp / 4; }

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

  __device__ void findSpans() {
    Range first = visible(firstItem);
    Range last = visible(min(firstItem + kAttentionItems, items()) - 1);
    // Whatever it is told, a kernel stays inside the cache.
    seen = {max(first.low, last.high - (C::slots - 1)), last.high};
    firstSpan = seen.low / kSpan;
    spans = seen.high / kSpan - firstSpan + 1;
  }

  /// Where \p item is in queries and outputs.
  __device__ u64 itemBase(i32 item) const {
    return (u64(item / group) * C::queryHeads + head * group + item % group) *
           C::dim;
  }

  //===--------------------------------------------------------------------===//
  // Memory
  //===--------------------------------------------------------------------===//

  __device__ void fetchQueries() const {
    copyTile<kAttentionItems, paddedDim, stride, kAttentionThreads, aligned>(
        values(), C::dim, [&](i32 row) -> const bf16 * {
          i32 item = firstItem + row;
          return item < items() ? query + itemBase(item) : nullptr;
        });
    commitCopies();
  }

  /// Starts the copies of the keys or values of span \p index, if there is
  /// one; positions that nothing sees become zeros, whatever the cache holds
  /// there.
  __device__ void fetch(bf16 *to, u64 part, i32 index) const {
    if (index < spans) {
      const bf16 *from = cache + part + u64(head) * C::slots * C::dim;
      copyTile<kSpan, paddedDim, stride, kAttentionThreads, aligned>(
          to, C::dim, [&](i32 row) -> const bf16 * {
            i32 position = (firstSpan + index) * kSpan + row;
            return position >= seen.low && position <= seen.high
                       ? from + u64(position % C::slots) * C::dim
                       : nullptr;
          });
    }
    commitCopies();
  }
  __device__ void fetchKeys(i32 index) const { fetch(keys, 0, index); }
  __device__ void fetchValues(i32 index) const {
    fetch(values(), halfCache, index);
  }

  //===--------------------------------------------------------------------===//
  // A span
  //===--------------------------------------------------------------------===//

  /// What a warp has of its items g and g + 8 (mma.cuh): the largest score and
  /// the sum of all, and its half of the outputs before the division.
  struct Sums {
    f32 largest[2], sum[2];
    f32 out[dimTiles][4];
  };

  /// Scores of this warp's keys as base-2 logarithms; minus infinity for what
  /// an item does not see. Their maxima go to shared memory.
  __device__ void score(f32 (&scores)[keyTiles][4],
                        const u32 (&queries)[paddedDim / 16][4],
                        i32 index) const {
    i32 g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
    const bf16 *mine = keys + half() * (kSpan / 2) * stride;
#pragma unroll
    for (i32 j = 0; j < keyTiles; ++j)
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        scores[j][i] = 0;
#pragma unroll
    for (i32 k = 0; k < paddedDim; k += 16)
#pragma unroll
      for (i32 j = 0; j < keyTiles; j += 2) {
        u32 b[4];
        loadB(b, mine + j * 8 * stride, stride, k);
        multiply(scores[j], queries[k / 16], b[0], b[1]);
        multiply(scores[j + 1], queries[k / 16], b[2], b[3]);
      }
    constexpr f32 toBase2 = C::scaleBy * 1.44269504088896340736f;
    i32 first = (firstSpan + index) * kSpan + half() * (kSpan / 2);
#pragma unroll
    for (i32 side = 0; side < 2; ++side) {
      i32 item = warpItem() + g + side * 8;
      Range range = visible(firstItem + item);
      f32 largest = minusInfinity();
#pragma unroll
      for (i32 j = 0; j < keyTiles; ++j)
#pragma unroll
        for (i32 i = 0; i < 2; ++i) {
          i32 position = first + j * 8 + 2 * t + i;
          f32 &number = scores[j][side * 2 + i];
          number = position >= range.low && position <= range.high
                       ? number * toBase2
                       : minusInfinity();
          largest = fmaxf(largest, number);
        }
      largest = maxLanes<4>(largest);
      if (t == 0)
        maxima()[half() * kAttentionItems + item] = largest;
    }
  }

  /// Makes probabilities of \p scores, less the factor that the division takes
  /// off, and puts them and their sums to shared memory. \p largest becomes the
  /// largest of itself and of both halves.
  __device__ void exponentiate(const f32 (&scores)[keyTiles][4],
                               f32 (&largest)[2]) const {
    i32 g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
#pragma unroll
    for (i32 side = 0; side < 2; ++side) {
      i32 item = warpItem() + g + side * 8;
      largest[side] =
          fmaxf(largest[side],
                fmaxf(maxima()[item], maxima()[kAttentionItems + item]));
      // Nothing seen: any finite number does.
      f32 shift = largest[side] == minusInfinity() ? 0.0f : largest[side];
      u32 *to =
          reinterpret_cast<u32 *>(probabilities() + item * probabilityStride +
                                  half() * (kSpan / 2) + 2 * t);
      f32 sum = 0;
#pragma unroll
      for (i32 j = 0; j < keyTiles; ++j) {
        f32 low = exp2Fast(scores[j][side * 2] - shift);
        f32 high = exp2Fast(scores[j][side * 2 + 1] - shift);
        sum += low;
        sum += high;
        to[j * 4] = packBf16(low, high);
      }
      sum = sumLanes<4>(sum);
      if (t == 0)
        this->sums()[half() * kAttentionItems + item] = sum;
    }
  }

  /// Adds probabilities times values to \p out.
  __device__ void addValues(f32 (&out)[dimTiles][4]) const {
    const bf16 *mine = values() + half() * (paddedDim / 2);
#pragma unroll
    for (i32 k = 0; k < kSpan; k += 16) {
      u32 a[4];
      loadA(a, probabilities() + warpItem() * probabilityStride,
            probabilityStride, k);
#pragma unroll
      for (i32 n = 0; n < dimTiles; n += 2) {
        u32 b[4];
        loadBTransposed(b, mine + k * stride, stride, n * 8);
        multiply(out[n], a, b[0], b[1]);
        multiply(out[n + 1], a, b[2], b[3]);
      }
    }
  }

  __device__ static Sums none() {
    Sums sums = {};
    sums.largest[0] = sums.largest[1] = minusInfinity();
    return sums;
  }

  /// Calls \p take(index, sums) for the spans first, first + step ..; with
  /// \p Running, take(0, sums) once for all of them.
  template <bool Running, typename Take>
  __device__ void forSpans(i32 first, i32 step, Take take) const {
    fetchQueries();
    fetchKeys(first);
    waitForCopies<1>();
    __syncthreads();
    u32 queries[paddedDim / 16][4];
#pragma unroll
    for (i32 k = 0; k < paddedDim; k += 16)
      loadA(queries[k / 16], values() + warpItem() * stride, stride, k);
    __syncthreads();
    fetchValues(first);

    Sums total = none();
#pragma unroll 1
    for (i32 index = first; index < spans; index += step) {
      waitForCopies<1>();
      __syncthreads();
      f32 scores[keyTiles][4];
      score(scores, queries, index);
      __syncthreads();
      fetchKeys(index + step);
      if constexpr (!Running)
        total = none();
      f32 largest[2] = {total.largest[0], total.largest[1]};
      exponentiate(scores, largest);
      waitForCopies<1>();
      __syncthreads();
      i32 item = warpItem() + threadIdx.x % kWarp / 4;
#pragma unroll
      for (i32 side = 0; side < 2; ++side) {
        f32 sum =
            sums()[item + side * 8] + sums()[kAttentionItems + item + side * 8];
        if constexpr (Running) {
          f32 factor = total.largest[side] == minusInfinity()
                           ? 0.0f
                           : exp2Fast(total.largest[side] - largest[side]);
          sum = fma(total.sum[side], factor, sum);
#pragma unroll
          for (i32 n = 0; n < dimTiles; ++n) {
            total.out[n][side * 2] *= factor;
            total.out[n][side * 2 + 1] *= factor;
          }
        }
        total.sum[side] = sum;
        total.largest[side] = largest[side];
      }
      addValues(total.out);
      if constexpr (!Running)
        take(index, total);
      __syncthreads();
      fetchValues(index + step);
    }
    waitForCopies<0>();
    if constexpr (Running)
      take(0, total);
  }

  //===--------------------------------------------------------------------===//
  // Results
  //===--------------------------------------------------------------------===//

  __device__ static bf16 divide(f32 out, f32 sum) {
    return fromFloat<bf16>(sum > 0 ? out / sum : 0.0f);
  }

  __device__ void writeOutputs(const Sums &sums) const {
    i32 g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
#pragma unroll
    for (i32 side = 0; side < 2; ++side) {
      i32 item = firstItem + warpItem() + g + side * 8;
      if (item >= items())
        continue;
      bf16 *to = output + itemBase(item);
#pragma unroll
      for (i32 n = 0; n < dimTiles; ++n)
#pragma unroll
        for (i32 i = 0; i < 2; ++i) {
          i32 column = half() * (paddedDim / 2) + n * 8 + 2 * t + i;
          if (C::dim == paddedDim || column < C::dim)
            to[column] = divide(sums.out[n][side * 2 + i], sums.sum[side]);
        }
    }
  }

  /// Which of the blocks of items this is, and what it has of the scratch.
  __device__ u64 place() const { return u64(head) * C::fewBlocks + blockIdx.y; }
  static constexpr u64 places = u64(C::heads) * C::fewBlocks;
  __device__ u32 *tickets() const {
    return reinterpret_cast<u32 *>(scratch) + place() * 2;
  }
  __device__ f32 *spanOutputs(i32 index) const {
    return reinterpret_cast<f32 *>(scratch + C::ticketBytes) +
           (place() * C::mostSpans + index) * spanSize;
  }
  __device__ f32 *spanSums(i32 index) const {
    return reinterpret_cast<f32 *>(scratch + C::ticketBytes) +
           places * C::mostSpans * spanSize +
           (place() * C::mostSpans + index) * (kAttentionItems * 2);
  }

  __device__ void writeScratch(const Sums &sums, i32 index) const {
    if (firstItem + warpItem() >= items())
      return;
    f32 *outputs = spanOutputs(index), *pairs = spanSums(index);
#pragma unroll
    for (i32 side = 0; side < 2; ++side)
#pragma unroll
      for (i32 n = 0; n < dimTiles; ++n) {
        Pack<f32, 2> two = {{sums.out[n][side * 2], sums.out[n][side * 2 + 1]}};
        storePack(outputs +
                      ((warpItem() / 8 + side) * columnTiles +
                       half() * dimTiles + n) *
                          64 +
                      threadIdx.x % kWarp * 2,
                  two);
      }
    if (threadIdx.x % 4 == 0 && half() == 0)
#pragma unroll
      for (i32 side = 0; side < 2; ++side) {
        i32 item = warpItem() + threadIdx.x % kWarp / 4 + side * 8;
        pairs[item * 2] = sums.largest[side];
        pairs[item * 2 + 1] = sums.sum[side];
      }
  }

  /// Adds the spans of this warp's item, in order, and writes its outputs.
  __device__ void addSpans(i32 item) const {
    if (firstItem + item >= items())
      return;
    i32 lane = threadIdx.x % kWarp;
    f32 largest = minusInfinity();
    for (i32 index = lane; index < spans; index += kWarp)
      largest = fmaxf(largest, loadShared(spanSums(index) + item * 2));
    largest = maxLanes(largest);
    f32 shift = largest == minusInfinity() ? 0.0f : largest;

    // Pairs of columns.
    constexpr i32 perLane = ceilDiv(columnTiles * 4, kWarp), some = 8;
    auto pairOf = [&](i32 index, i32 j) {
      i32 pair = min(j * kWarp + lane, columnTiles * 4 - 1);
      return spanOutputs(index) + (item / 8 * columnTiles + pair / 4) * 64 +
             item % 8 * 8 + pair % 4 * 2;
    };
    f32 sum = 0, out[perLane][2] = {};
#pragma unroll 1
    for (i32 first = 0; first < spans; first += some) {
      // All reads first: each of them takes long.
      f32 ofSpan[some][2], parts[some][perLane][2];
#pragma unroll
      for (i32 i = 0; i < some; ++i) {
        // Spans that are not there count for nothing.
        bool exists = first + i < spans;
        i32 index = exists ? first + i : 0;
        const f32 *pair = spanSums(index) + item * 2;
        ofSpan[i][0] = exists ? loadShared(pair) : minusInfinity();
        ofSpan[i][1] = exists ? loadShared(pair + 1) : 0.0f;
#pragma unroll
        for (i32 j = 0; j < perLane; ++j)
          loadShared(parts[i][j], pairOf(index, j));
      }
#pragma unroll
      for (i32 i = 0; i < some; ++i) {
        f32 factor = exp2Fast(ofSpan[i][0] - shift);
        sum = fma(ofSpan[i][1], factor, sum);
#pragma unroll
        for (i32 j = 0; j < perLane; ++j)
#pragma unroll
          for (i32 k = 0; k < 2; ++k)
            out[j][k] = fma(parts[i][j][k], factor, out[j][k]);
      }
    }
    u64 to = itemBase(firstItem + item);
#pragma unroll
    for (i32 j = 0; j < perLane; ++j)
#pragma unroll
      for (i32 k = 0; k < 2; ++k) {
        i32 column = (j * kWarp + lane) * 2 + k;
        if (column < C::dim)
          output[to + column] = divide(out[j][k], sum);
      }
  }

  /// Says that this block's spans are written, and waits in those that add them
  /// for all \p blocks blocks. None waits for a block with a higher number but
  /// those that wait too, so there is nothing it could keep from running.
  __device__ bool meet(i32 blocks) const {
    __threadfence();
    __syncthreads();
    bool adds = i32(blockIdx.x) >= blocks - kAttentionAdders;
    if (threadIdx.x == 0) {
      u32 *come = tickets(), *left = tickets() + 1;
      atomicAdd(come, 1);
      if (adds) {
        while (loadTicket(come) < u32(blocks))
          ;
        // The last one to leave clears up.
        if (atomicAdd(left, 1) == kAttentionAdders - 1) {
          *come = 0;
          *left = 0;
        }
      }
    }
    if (!adds)
      return false;
    __syncthreads();
    __threadfence();
    return true;
  }
};

template <typename C>
__device__ void attention(const bf16 *query, const bf16 *cache,
                          const i32 *start, bf16 *output, const i32 *live,
                          i32 rows, u8 *scratch) {
  extern __shared__ __align__(128) u8 shared[];
  using Block = Attention<C>;
  Block block = {query,
                 cache,
                 output,
                 scratch,
                 reinterpret_cast<bf16 *>(shared),
                 max(*start, 0),
                 liveRows(live, rows),
                 i32(blockIdx.z),
                 i32(blockIdx.y) * kAttentionItems};
  if (block.firstItem >= block.items())
    return;
  block.findSpans();
  i32 first = blockIdx.x, blocks = gridDim.x;
  if (i32(gridDim.y) > C::fewBlocks) {
    if (first == 0)
      block.template forSpans<true>(0, 1,
                                    [&](i32, const typename Block::Sums &sums) {
                                      block.writeOutputs(sums);
                                    });
    return;
  }
  if (first < block.spans)
    block.template forSpans<false>(
        first, blocks, [&](i32 index, const typename Block::Sums &sums) {
          block.writeScratch(sums, index);
        });
  if (block.meet(blocks))
    block.addSpans((first - (blocks - kAttentionAdders)) *
                       (kAttentionThreads / kWarp) +
                   threadIdx.x / kWarp);
}

} // namespace tandem
