//===- attention.cuh - Grouped-query attention over a cache ---------------===//
//
//   out = sum_p softmax_p(scale * query . key_p) value_p
//   out = out * sigmoid(gate)                               when gated
//
// over the positions p < start + live rows that row q = start + r sees: p <= q
// when causal, |q - p| < window when there is one.
//
// query, gate, output [rows, query_heads * dim] bf16, start [1] i32, cache as
// in cache_append: keys [head][slot][dim], values [head][slot][dim], position p
// in slot p mod slots.
//
// An item is one row and one of the query heads that share a head of the cache:
//
//   items of a head   row 0: head 0, 1 .. group - 1 | row 1: .. | ..
//   block             64 items, some chunks of positions
//
// A span is 64 positions from a multiple of 64 on, and a chunk is some spans
// from a multiple of as many on: with no window so many that `blocks` chunks
// hold all that the item sees, so what an item's chunks are follows from its
// position, whatever rows stand beside it. Of 8 warps warp w has the items
// 16 (w % 4) .. 16 (w % 4) + 15: for scores half w / 4 of the keys, for outputs
// half w / 4 of the columns; maxima, sums and probabilities go from one to the
// other through shared memory:
//
//   [tile: 64 x dim] x stages [probabilities: 64 x 64]   bf16, rows
//   [maxima: 2 x 64] [sums: 2 x 64]                      f32
//
// with 8 numbers of gap behind each row. Tiles are a ring: the keys of a span,
// its values, the keys of the next .. Queries pass through the last tile to
// registers. What an item does not see adds exact zeros.
//
// Spans of a chunk are added up in order, in registers. Few rows: a chunk is a
// result of its own, and the last blocks wait for the others and add chunks up,
// in order:
//
//   scratch   u32 [head][block of items][blocks that have come, that have left]
//             f32 [head][block of items][chunk][8 items][8 columns][lane][2]
//             f32 [head][block of items][chunk][64 items][maximum, sum]
//
// where lane 4 g + t has columns 2 t and 2 t + 1 of item g of the eight. Where
// a row has longer chunks than the one in front of it, its items are computed
// behind the others.
//
// Many rows, whose blocks of items fill the machine: everything is one chunk.
//
// Floor: keys and values seen, 4 * heads * dim bytes a position, for every 64
// items of a head.
//
// Grid: blocks of chunks, blocks of items, heads. Called by attention.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "elementwise.cuh"
#include "mma.cuh"

namespace tandem {

constexpr i32 kAttentionThreads = 256;
constexpr i32 kAttentionItems = 64;
constexpr i32 kSpan = 64;
/// Blocks of a block of items that add chunks up, and the parts of an item that
/// a warp of theirs has.
constexpr i32 kAttentionAdders = 16;
constexpr i32 kAttentionParts =
    kAttentionAdders * (kAttentionThreads / kWarp) / kAttentionItems;

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
  /// Tiles of 8 columns of an item.
  static constexpr i32 columnTiles = paddedDim / 8;
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
      copyTile<kSpan, paddedDim, stride, kAttentionThreads, aligned>(
          tile(ahead.stage), C::dim, [&](i32 row) -> const bf16 * {
            i32 position = ahead.span * kSpan + row;
            i32 slot = C::window > 0 ? position % C::slots : position;
            return position >= seen.low && position <= seen.high
                       ? from + u32(slot) * u32(C::dim)
                       : nullptr;
          });
      ahead.span += ahead.isValues;
      ahead.isValues = !ahead.isValues;
      ahead.stage = nextStage(ahead.stage);
    }
    commitCopies();
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
    fetchQueries();
    Ahead ahead = {some.low, false, 0};
#pragma unroll
    for (i32 i = 0; i < C::stages - 1; ++i)
      fetch(ahead, some.high);
    // All copies but those of the ring.
    waitForCopies<C::stages - 1>();
    __syncthreads();
    u32 queries[paddedDim / 16][4];
#pragma unroll
    for (i32 k = 0; k < paddedDim; k += 16)
      loadA(queries[k / 16], tile(C::stages - 1) + warpItem() * stride, stride,
            k);
    __syncthreads();
    fetch(ahead, some.high);

    Sums total = {};
    total.largest[0] = total.largest[1] = minusInfinity();
    i32 stage = 0;
#pragma unroll 1
    for (i32 span = some.low; span <= some.high; ++span) {
      waitForCopies<C::stages - 1>();
      __syncthreads();
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
      __syncthreads();
      fetch(ahead, some.high);
      stage = nextStage(stage);
    }
    waitForCopies<0>();
    return total;
  }

  //===--------------------------------------------------------------------===//
  // Results
  //===--------------------------------------------------------------------===//

  /// The number \p place of the outputs, times its gate.
  __device__ bf16 result(f32 out, f32 sum, u64 place) const {
    bf16 number = fromFloat<bf16>(sum > 0 ? out / sum : 0.0f);
    if constexpr (C::gated) {
      f32 open = Sigmoid::apply(toFloat(gate[place]));
      number =
          fromFloat<bf16>(toFloat(number) * toFloat(fromFloat<bf16>(open)));
    }
    return number;
  }

  __device__ void writeOutputs(const Sums &sums) const {
    i32 g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
#pragma unroll
    for (i32 side = 0; side < 2; ++side) {
      i32 item = firstItem + warpItem() + g + side * 8;
      if (item >= items())
        continue;
      u64 to = itemBase(item);
#pragma unroll
      for (i32 n = 0; n < dimTiles; ++n)
#pragma unroll
        for (i32 i = 0; i < 2; ++i) {
          i32 column = half() * (paddedDim / 2) + n * 8 + 2 * t + i;
          if (C::dim == paddedDim || column < C::dim)
            output[to + column] =
                result(sums.out[n][side * 2 + i], sums.sum[side], to + column);
        }
    }
  }

  /// Which of the blocks of items this is, and what it has of the scratch.
  __device__ u64 place() const { return u64(head) * C::fewBlocks + blockIdx.y; }
  static constexpr u64 places = u64(C::heads) * C::fewBlocks;
  __device__ u32 *tickets() const {
    return reinterpret_cast<u32 *>(scratch) + place() * 2;
  }
  __device__ f32 *outputsOf(i32 chunk) const {
    return reinterpret_cast<f32 *>(scratch + C::ticketBytes) +
           (place() * C::mostChunks + chunk) * chunkOutputs;
  }
  __device__ f32 *pairsOf(i32 chunk) const {
    return reinterpret_cast<f32 *>(scratch + C::ticketBytes) +
           places * C::mostChunks * chunkOutputs +
           (place() * C::mostChunks + chunk) * (kAttentionItems * 2);
  }

  /// Writes the sums of the items that have chunks of \p size spans.
  __device__ void writeScratch(const Sums &sums, i32 chunk, i32 size) const {
    i32 g = threadIdx.x % kWarp / 4;
    f32 *outputs = outputsOf(chunk), *pairs = pairsOf(chunk);
#pragma unroll
    for (i32 side = 0; side < 2; ++side) {
      i32 item = warpItem() + g + side * 8;
      if (firstItem + item >= items() || chunkSize(firstItem + item) != size)
        continue;
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
      if (threadIdx.x % 4 == 0 && half() == 0) {
        pairs[item * 2] = sums.largest[side];
        pairs[item * 2 + 1] = sums.sum[side];
      }
    }
  }

  /// Adds the chunks of \p item, in order, and writes part \p part of its
  /// outputs. By a warp.
  __device__ void addChunks(i32 item, i32 part) const {
    if (firstItem + item >= items())
      return;
    i32 lane = threadIdx.x % kWarp;
    i32 chunks = chunksOf(chunkSize(firstItem + item)).count;
    // Pairs of columns.
    constexpr i32 pairs = columnTiles * 4,
                  ofPart = ceilDiv(pairs, kAttentionParts);
    constexpr i32 perLane = ceilDiv(ofPart, kWarp);
    constexpr i32 fit = (C::dim > 128 ? 36 : 24) / perLane;
    constexpr i32 some = C::mostChunks < fit ? C::mostChunks : fit;
    auto pairOf = [&](i32 j) {
      return min(part * ofPart + j * kWarp + lane, pairs - 1);
    };
    f32 parts[some][perLane][2];
    // All reads first: each of them takes long.
    auto read = [&](i32 first) {
#pragma unroll
      for (i32 i = 0; i < some; ++i)
#pragma unroll
        for (i32 j = 0; j < perLane; ++j)
          loadShared(parts[i][j],
                     outputsOf(first + i < chunks ? first + i : 0) +
                         (item / 8 * columnTiles + pairOf(j) / 4) * 64 +
                         item % 8 * 8 + pairOf(j) % 4 * 2);
    };
    read(0);

    // What each chunk is multiplied by; one that is not there, by zero.
    constexpr i32 rounds = ceilDiv(C::mostChunks, kWarp);
    f32 largest = minusInfinity(), ofChunk[rounds][2];
#pragma unroll
    for (i32 i = 0; i < rounds; ++i) {
      i32 chunk = i * kWarp + lane;
      bool exists = chunk < chunks;
      const f32 *pair = pairsOf(exists ? chunk : 0) + item * 2;
      ofChunk[i][0] = exists ? loadShared(pair) : minusInfinity();
      ofChunk[i][1] = exists ? loadShared(pair + 1) : 0.0f;
      largest = fmaxf(largest, ofChunk[i][0]);
    }
    largest = maxLanes(largest);
    f32 shift = largest == minusInfinity() ? 0.0f : largest, sum = 0;
    // Tiles have been read by everybody.
    f32 *factors = reinterpret_cast<f32 *>(tiles) +
                   threadIdx.x / kWarp * (rounds * kWarp + some);
#pragma unroll
    for (i32 i = 0; i < rounds; ++i) {
      f32 factor = exp2Fast(ofChunk[i][0] - shift);
      factors[i * kWarp + lane] = factor;
      sum = fma(ofChunk[i][1], factor, sum);
    }
    if (lane < some)
      factors[rounds * kWarp + lane] = 0;
    sum = sumLanes(sum);
    __syncwarp();

    f32 out[perLane][2] = {};
#pragma unroll 1
    for (i32 first = 0;;) {
#pragma unroll
      for (i32 i = 0; i < some; ++i)
#pragma unroll
        for (i32 j = 0; j < perLane; ++j)
#pragma unroll
          for (i32 k = 0; k < 2; ++k)
            out[j][k] = fma(parts[i][j][k], factors[first + i], out[j][k]);
      first += some;
      if (first >= chunks)
        break;
      read(first);
    }
    u64 to = itemBase(firstItem + item);
#pragma unroll
    for (i32 j = 0; j < perLane; ++j) {
      i32 inPart = j * kWarp + lane, column = (part * ofPart + inPart) * 2;
      if (inPart >= ofPart)
        continue;
#pragma unroll
      for (i32 k = 0; k < 2; ++k)
        if (column + k < C::dim)
          output[to + column + k] = result(out[j][k], sum, to + column + k);
    }
  }

  /// Says that this block's chunks are written, and waits in those that add
  /// them for all blocks. None waits for a block with a higher number but those
  /// that wait too, so there is nothing it could keep from running.
  __device__ bool meet() const {
    bool adds = i32(blockIdx.x) >= C::blocks - kAttentionAdders;
    __syncthreads();
    if (threadIdx.x == 0) {
      // What the others have written in front of the barrier is part of it.
      __threadfence();
      atomicAdd(tickets(), 1);
      if (adds)
        while (loadTicket(tickets()) < u32(C::blocks))
          ;
    }
    if (adds)
      __syncthreads();
    return adds;
  }

  /// Says that this block need not wait any more; the last one to say so clears
  /// up.
  __device__ void leave() const {
    if (threadIdx.x != 0)
      return;
    u32 *come = tickets(), *left = tickets() + 1;
    if (atomicAdd(left, 1) == kAttentionAdders - 1) {
      *come = 0;
      *left = 0;
    }
  }
};

template <typename C>
__device__ void attention(const bf16 *query, const bf16 *cache,
                          const i32 *start, const bf16 *gate, bf16 *output,
                          const i32 *live, i32 rows, u8 *scratch) {
  extern __shared__ __align__(128) u8 shared[];
  using Block = Attention<C>;
  // Positions that no text has.
  constexpr i32 most = 1 << 30;
  Block block = {query,
                 cache,
                 gate,
                 output,
                 scratch,
                 reinterpret_cast<bf16 *>(shared),
                 min(max(*start, 0), most),
                 liveRows(live, rows),
                 i32(blockIdx.z),
                 i32(blockIdx.y) * kAttentionItems};
  if (block.firstItem >= block.items())
    return;
  block.findSpans();
  i32 first = blockIdx.x;
  if (i32(gridDim.y) > C::fewBlocks) {
    if (first == 0)
      block.writeOutputs(block.add(block.spans));
    return;
  }
#pragma unroll 1
  for (i32 size = block.chunkSize(block.firstItem);
       size <= block.chunkSize(block.lastItem()); ++size)
#pragma unroll 1
    for (i32 chunk = first; chunk < block.chunksOf(size).count;
         chunk += C::blocks)
      block.writeScratch(block.add(block.spansOf(size, chunk)), chunk, size);
  if (!block.meet())
    return;
  i32 task =
      (first - (C::blocks - kAttentionAdders)) * (kAttentionThreads / kWarp) +
      threadIdx.x / kWarp;
  block.addChunks(task / kAttentionParts, task % kAttentionParts);
  block.leave();
}

} // namespace tandem
