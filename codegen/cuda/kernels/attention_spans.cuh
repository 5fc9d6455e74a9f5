//===- attention_spans.cuh - What items see, added up ---------------------===//
//
// An item is one row and one of the query heads that share a head of the cache:
//
//   items of a head   row 0: head 0, 1 .. group - 1 | row 1: .. | ..
//   block             64 items, some spans of 64 positions
//
// Of 8 warps warp w has the items 16 (w % 4) .. 16 (w % 4) + 15: for scores
// half w / 4 of the keys, for outputs half w / 4 of the columns; maxima, sums
// and probabilities go from one to the other through shared memory:
//
//   [tile: 64 x dim] x stages [probabilities: 64 x 64]   bf16, rows
//   [maxima: 2 x 64] [sums: 2 x 64]                      f32
//
// with 8 numbers of gap behind each row. Tiles are a ring: the keys of a span,
// its values, the keys of the next .. Queries pass through the last tile to
// registers. What an item does not see adds exact zeros. Spans are added up in
// order, in registers.
//
// What the cache has of positions in front of `start` is fetched before the
// kernels in front have ended, where those write nothing but the rows from
// there on (LaunchOrder.h), so that the first tiles are there when queries are.
//
// Used by attention.cuh.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "elementwise.cuh"
#include "mma.cuh"

namespace tandem {

constexpr i32 kAttentionThreads = 256;
constexpr i32 kAttentionItems = 64;
constexpr i32 kSpan = 64;

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
      (C::stages * tileSize + kAttentionItems * probabilityStride) *
          i32(sizeof(bf16)) +
      4 * kAttentionItems * i32(sizeof(f32));
  static constexpr bool aligned = C::dim % 8 == 0;
  /// Of a warp: tiles of 8 keys in scores, of 8 columns in outputs.
  static constexpr i32 keyTiles = kSpan / 2 / 8, dimTiles = paddedDim / 2 / 8;
  /// Of an item: 16 columns, four to a lane.
  static constexpr i32 columnPieces = paddedDim / 16;
  static constexpr u64 halfCache = u64(C::heads) * C::slots * C::dim;
  static constexpr u64 chunkOutputs = u64(kAttentionItems) * paddedDim;

  const bf16 *query, *cache, *gate;
  bf16 *output;
  u8 *scratch;
  bf16 *tiles;
  i32 start, live;
  /// Of the block: head of the cache, first item.
  i32 head, firstItem;
  /// What any item of the block sees, and in which spans it is.
  Range seen, spans;

  __device__ bf16 *tile(i32 stage) const { return tiles + stage * tileSize; }
  __device__ bf16 *probabilities() const { return tile(C::stages); }
  __device__ f32 *maxima() const {
    return reinterpret_cast<f32 *>(probabilities() +
                                   kAttentionItems * probabilityStride);
  }
  __device__ f32 *sums() const { return maxima() + 2 * kAttentionItems; }

  /// The first item of this warp in the block, and its half.
  __device__ static i32 warpItem() { return threadIdx.x / kWarp % 4 * 16; }
  __device__ static i32 half() { return threadIdx.x / kWarp / 4; }

  __device__ i32 items() const { return live * group; }

  __device__ i32 lastItem() const {
    return min(firstItem + kAttentionItems, items()) - 1;
  }

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
    Range last = visible(lastItem());
    // Whatever it is told, a kernel stays inside the cache; only a window reads
    // a ring.
    if constexpr (C::window > 0)
      seen = {max(first.low, last.high - (C::slots - 1)), last.high};
    else
      seen = {0, min(last.high, C::slots - 1)};
    spans = {seen.low / kSpan, seen.high / kSpan};
  }

  /// The first of some chunks, how many there are, and the last span that is in
  /// one.
  struct Chunks {
    i32 first, count, lastSpan;
  };

  /// Spans of a chunk of \p item.
  __device__ i32 chunkSize(i32 item) const {
    if constexpr (C::chunkSpans > 0)
      return C::chunkSpans;
    return visible(item).high / kSpan / C::blocks + 1;
  }

  /// The chunks of items that have \p size spans in each.
  __device__ Chunks chunksOf(i32 size) const {
    i32 last = spans.high;
    if constexpr (C::chunkSpans == 0)
      last = min(last, size * C::blocks - 1);
    i32 first = spans.low / size;
    return {first, last / size - first + 1, last};
  }

  /// Spans of chunk \p index of those with \p size.
  __device__ Range spansOf(i32 size, i32 index) const {
    Chunks chunks = chunksOf(size);
    i32 first = (chunks.first + index) * size;
    return {max(first, spans.low), min(first + size - 1, chunks.lastSpan)};
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
        tile(C::stages - 1), C::dim, [&](i32 row) -> const bf16 * {
          i32 item = firstItem + row;
          return item < items() ? query + itemBase(item) : nullptr;
        });
    commitCopies();
  }

  /// Where the ring is filled from next.
  struct Ahead {
    i32 span;
    bool isValues;
    i32 stage;
  };

  /// Starts the copies of the next keys or values up to span \p last, if there
  /// are any; positions that nothing sees become zeros, whatever the cache
  /// holds there.
  __device__ void fetch(Ahead &ahead, i32 last) const {
    if (ahead.span <= last) {
      const bf16 *from = cache + (ahead.isValues ? halfCache : 0) +
                         u64(head) * C::slots * C::dim;
      copySpan(tile(ahead.stage), from, ahead.span * kSpan);
      ahead.span += ahead.isValues;
      ahead.isValues = !ahead.isValues;
      ahead.stage = nextStage(ahead.stage);
    }
    commitCopies();
  }

  /// The same of the positions from \p first on, whose slots begin at \p from.
  __device__ void copySpan(bf16 *to, const bf16 *from, i32 first) const {
    i32 begin = C::window > 0 ? first % C::slots : first;
    auto slotOf = [&](i32 row) {
      i32 slot = begin + row;
      if constexpr (C::window > 0 && C::slots < kSpan)
        return slot % C::slots;
      return C::window > 0 && slot >= C::slots ? slot - C::slots : slot;
    };
    // Rows from `firstSeen` on, as many as are seen at most.
    i32 firstSeen = seen.low - first;
    u32 lastSeen = seen.high - seen.low;
    auto isSeen = [&](i32 row) { return u32(row - firstSeen) <= lastSeen; };
    constexpr i32 perRow = paddedDim / 8;
    if constexpr (aligned && kAttentionThreads % perRow == 0) {
      // In few instructions: each of them runs once and has to be fetched.
      constexpr i32 step = kAttentionThreads / perRow;
      i32 firstRow = threadIdx.x / perRow, column = threadIdx.x % perRow * 8;
      bool exists = C::dim == paddedDim || column < C::dim;
#pragma unroll
      for (i32 i = 0; i < kSpan; i += step) {
        i32 row = firstRow + i;
        if (kSpan % step == 0 || row < kSpan)
          copyAsync(to + row * stride + column,
                    from + u32(slotOf(row)) * u32(C::dim) + column,
                    exists && isSeen(row));
      }
    } else {
      copyTile<kSpan, paddedDim, stride, kAttentionThreads, aligned>(
          to, C::dim, [&](i32 row) -> const bf16 * {
            return isSeen(row) ? from + u32(slotOf(row)) * u32(C::dim)
                               : nullptr;
          });
    }
  }
  __device__ static i32 nextStage(i32 stage) {
    return stage + 1 == C::stages ? 0 : stage + 1;
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
                        const bf16 *keys, i32 span) const {
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
    i32 first = span * kSpan + half() * (kSpan / 2);
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

  /// Adds probabilities times \p values to \p out.
  __device__ void addValues(f32 (&out)[dimTiles][4], const bf16 *values) const {
    const bf16 *mine = values + half() * (paddedDim / 2);
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

  /// Makes what \p total holds a part of a sum with the maxima \p largest, and
  /// adds the sums of the probabilities.
  __device__ void rescale(Sums &total, const f32 (&largest)[2]) const {
    i32 item = warpItem() + threadIdx.x % kWarp / 4;
#pragma unroll
    for (i32 side = 0; side < 2; ++side) {
      f32 sum =
          sums()[item + side * 8] + sums()[kAttentionItems + item + side * 8];
      f32 factor = total.largest[side] == minusInfinity()
                       ? 0.0f
                       : exp2Fast(total.largest[side] - largest[side]);
#pragma unroll
      for (i32 n = 0; n < dimTiles; ++n) {
        total.out[n][side * 2] *= factor;
        total.out[n][side * 2 + 1] *= factor;
      }
      total.sum[side] = fma(total.sum[side], factor, sum);
      total.largest[side] = largest[side];
    }
  }

  /// What there is in spans \p some, in order.
  __device__ Sums add(Range some) const {
    Ahead ahead = {some.low, false, 0};
    i32 fetched = 0;
    // Tiles may be those of other spans still.
    __syncthreads();
    // Spans that earlier rows have filled.
#pragma unroll 1
    for (; fetched < C::stages - 1 && (ahead.span + 1) * kSpan <= start;
         ++fetched)
      fetch(ahead, some.high);
    waitForEarlierKernels();
    fetchQueries();
#pragma unroll 1
    for (; fetched < C::stages - 1; ++fetched)
      fetch(ahead, some.high);
    waitForCopies<0>();
    __syncthreads();
    u32 queries[paddedDim / 16][4];
#pragma unroll
    for (i32 k = 0; k < paddedDim; k += 16)
      loadA(queries[k / 16], tile(C::stages - 1) + warpItem() * stride, stride,
            k);

    Sums total = {};
    total.largest[0] = total.largest[1] = minusInfinity();
    i32 stage = 0;
#pragma unroll 1
    for (i32 span = some.low; span <= some.high; ++span) {
      waitForCopies<C::stages - 2>();
      __syncthreads();
      // The place of the queries, then those of values.
      fetch(ahead, some.high);
      f32 scores[keyTiles][4];
      score(scores, queries, tile(stage), span);
      __syncthreads();
      fetch(ahead, some.high);
      stage = nextStage(stage);
      f32 largest[2] = {total.largest[0], total.largest[1]};
      exponentiate(scores, largest);
      waitForCopies<C::stages - 1>();
      __syncthreads();
      rescale(total, largest);
      addValues(total.out, tile(stage));
      stage = nextStage(stage);
    }
    waitForCopies<0>();
    return total;
  }

  //===--------------------------------------------------------------------===//
  // Results
  //===--------------------------------------------------------------------===//

  /// How far the gate of the number \p place of the outputs is open.
  __device__ f32 getOpen(u64 place) const {
    if constexpr (C::gated)
      return openOf(gate[place]);
    return 1;
  }
  __device__ static f32 openOf(bf16 number) {
    return toFloat(fromFloat<bf16>(Sigmoid::apply(toFloat(number))));
  }

  __device__ static bf16 gated(bf16 number, f32 open) {
    if constexpr (C::gated)
      number = fromFloat<bf16>(toFloat(number) * open);
    return number;
  }
  __device__ static bf16 result(f32 out, f32 sum, f32 open) {
    return gated(fromFloat<bf16>(sum > 0 ? out / sum : 0.0f), open);
  }

  __device__ void writeOutputs(const Sums &sums) const {
    i32 g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
    // Two numbers side by side are read and written at once.
    constexpr i32 some = C::dim % 2 == 0 ? 2 : 1;
    auto columnOf = [&](i32 n) {
      return half() * (paddedDim / 2) + n * 8 + 2 * t;
    };
#pragma unroll
    for (i32 side = 0; side < 2; ++side) {
      i32 item = firstItem + warpItem() + g + side * 8;
      if (item >= items())
        continue;
      u64 to = itemBase(item);
      // All gates first: each of them takes long.
      Pack<bf16, some> gates[dimTiles][2 / some];
      if constexpr (C::gated)
#pragma unroll
        for (i32 n = 0; n < dimTiles; ++n)
#pragma unroll
          for (i32 i = 0; i < 2; i += some)
            if (C::dim == paddedDim || columnOf(n) + i < C::dim)
              gates[n][i / some] = loadPack<some>(gate + to + columnOf(n) + i);
      f32 sum = sums.sum[side], scale = sum > 0 ? 1.0f / sum : 0.0f;
#pragma unroll
      for (i32 n = 0; n < dimTiles; ++n)
#pragma unroll
        for (i32 i = 0; i < 2; i += some) {
          if (C::dim != paddedDim && columnOf(n) + i >= C::dim)
            continue;
          Pack<bf16, some> numbers;
#pragma unroll
          for (i32 j = 0; j < some; ++j)
            numbers.at[j] =
                gated(fromFloat<bf16>(sums.out[n][side * 2 + i + j] * scale),
                      C::gated ? openOf(gates[n][i / some].at[j]) : 1.0f);
          storePack(output + to + columnOf(n) + i, numbers);
        }
    }
  }
};

} // namespace tandem
