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
// A block has 64 items (attention_spans.cuh) and some chunks of positions. A
// span is 64 positions from a multiple of 64 on, and a chunk is some spans from
// a multiple of as many on: with no window so many that `blocks` chunks hold
// all that the item sees, so what an item's chunks are follows from its
// position, whatever rows stand beside it.
//
// Few rows: a chunk is a result of its own, and the last 16 blocks wait for the
// others and add chunks up, in order, each of them those of 4 items:
//
//   scratch   u32 [head][block of items][blocks that have come, that have left]
//             f32 [head][block of items][chunk][8 items][16 columns][lane][4]
//             f32 [head][block of items][chunk][64 items][maximum, sum]
//
// where lane 4 g + t has columns 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of item g of
// the eight: a thread of such a block has as many columns of one item. The
// chunks pass through the tiles, as many as have room at a time:
//
//   [threads: 4 numbers] x chunks       f32, in the place of the tiles
//   [4 items][chunk's factor] [sums]    f32, in that of the probabilities
//
// Where a row has longer chunks than the one in front of it, its items are
// computed behind the others.
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

#include "attention_spans.cuh"

namespace tandem {

/// Blocks of a block of items that add chunks up, and the items of one of them.
constexpr i32 kAttentionAdders = 16;
constexpr i32 kAdderItems = kAttentionItems / kAttentionAdders;

/// The chunks of few rows, in the scratch.
template <typename C> struct AttentionChunks {
  using Block = Attention<C>;

  const Block &block;

  /// Which of the blocks of items this is, and what it has of the scratch.
  __device__ u64 place() const {
    return u64(block.head) * C::fewBlocks + blockIdx.y;
  }
  static constexpr u64 places = u64(C::heads) * C::fewBlocks;
  __device__ u32 *tickets() const {
    return reinterpret_cast<u32 *>(block.scratch) + place() * 2;
  }
  __device__ f32 *outputsOf(i32 chunk) const {
    return reinterpret_cast<f32 *>(block.scratch + C::ticketBytes) +
           (place() * C::mostChunks + chunk) * Block::chunkOutputs;
  }
  __device__ f32 *pairsOf(i32 chunk) const {
    return reinterpret_cast<f32 *>(block.scratch + C::ticketBytes) +
           places * C::mostChunks * Block::chunkOutputs +
           (place() * C::mostChunks + chunk) * (kAttentionItems * 2);
  }

  /// Where a lane's four numbers of \p item are among those of a chunk.
  __device__ static i32 placeInChunk(i32 item, i32 piece) {
    return ((item / 8 * Block::columnPieces + piece) * kWarp + item % 8 * 4 +
            threadIdx.x % 4) *
           4;
  }

  /// Writes the sums of the items that have chunks of \p size spans.
  __device__ void write(const typename Block::Sums &sums, i32 chunk,
                        i32 size) const {
    i32 g = threadIdx.x % kWarp / 4;
    f32 *outputs = outputsOf(chunk), *pairs = pairsOf(chunk);
#pragma unroll
    for (i32 side = 0; side < 2; ++side) {
      i32 item = Block::warpItem() + g + side * 8;
      if (block.firstItem + item >= block.items() ||
          block.chunkSize(block.firstItem + item) != size)
        continue;
#pragma unroll
      for (i32 n = 0; n < Block::dimTiles; n += 2) {
        Pack<f32, 4> four = {{sums.out[n][side * 2], sums.out[n][side * 2 + 1],
                              sums.out[n + 1][side * 2],
                              sums.out[n + 1][side * 2 + 1]}};
        i32 piece = (Block::half() * Block::dimTiles + n) / 2;
        storePack(outputs + placeInChunk(item, piece), four);
      }
      if (threadIdx.x % 4 == 0 && Block::half() == 0) {
        pairs[item * 2] = sums.largest[side];
        pairs[item * 2 + 1] = sums.sum[side];
      }
    }
  }

  /// What an item's chunks are multiplied by, and the sum of all.
  static constexpr i32 factorRounds = ceilDiv(C::mostChunks, kWarp);
  static constexpr i32 factorStride = factorRounds * kWarp;
  static_assert(kAdderItems * (factorStride + 1) * sizeof(f32) <=
                kAttentionItems * Block::probabilityStride * sizeof(bf16));
  __device__ f32 *factors() const {
    return reinterpret_cast<f32 *>(block.probabilities());
  }
  __device__ f32 *adderSums() const {
    return factors() + kAdderItems * factorStride;
  }

  /// Maximum and sum of chunks \p lane, \p lane + 32 .. of an item.
  struct Weights {
    f32 ofChunk[factorRounds][2];
  };

  /// Reads those of \p item, by a warp; an item that does not exist has none.
  __device__ void readWeights(Weights &weights, i32 item) const {
    i32 count = countChunks(item);
#pragma unroll
    for (i32 i = 0; i < factorRounds; ++i) {
      i32 chunk = i * kWarp + threadIdx.x % kWarp;
      weights.ofChunk[i][0] = minusInfinity();
      weights.ofChunk[i][1] = 0;
      if (chunk < count)
        loadShared(weights.ofChunk[i], pairsOf(chunk) + item * 2);
    }
  }

  /// Leaves the factors and the sum of number \p index of this block's items.
  __device__ void writeFactors(const Weights &weights, i32 index) const {
    i32 lane = threadIdx.x % kWarp;
    f32 largest = minusInfinity(), sum = 0;
#pragma unroll
    for (i32 i = 0; i < factorRounds; ++i)
      largest = fmaxf(largest, weights.ofChunk[i][0]);
    largest = maxLanes(largest);
    f32 shift = largest == minusInfinity() ? 0.0f : largest;
#pragma unroll
    for (i32 i = 0; i < factorRounds; ++i) {
      f32 factor = exp2Fast(weights.ofChunk[i][0] - shift);
      factors()[index * factorStride + i * kWarp + lane] = factor;
      sum = fma(weights.ofChunk[i][1], factor, sum);
    }
    sum = sumLanes(sum);
    if (lane == 0)
      adderSums()[index] = sum;
  }

  __device__ i32 countChunks(i32 item) const {
    return block.firstItem + item < block.items()
               ? block.chunksOf(block.chunkSize(block.firstItem + item)).count
               : 0;
  }

  /// Adds the chunks of the items of adder \p adder, in order, and writes their
  /// outputs. Everything is asked for before anything is waited for.
  __device__ void add(i32 adder) const {
    constexpr i32 ofPiece = kAdderItems * 4,
                  threads = Block::columnPieces * ofPiece;
    static_assert(threads <= kAttentionThreads);
    constexpr i32 fit =
        C::stages * Block::tileSize * i32(sizeof(bf16)) / (threads * 16);
    i32 warp = threadIdx.x / kWarp, t = threadIdx.x % 4;
    Weights weights;
    if (warp < kAdderItems)
      readWeights(weights, adder * kAdderItems + warp);

    i32 index = threadIdx.x / 4 % kAdderItems, piece = threadIdx.x / ofPiece;
    i32 item = adder * kAdderItems + index;
    i32 chunks = piece < Block::columnPieces ? countChunks(item) : 0;
    f32 *own = reinterpret_cast<f32 *>(block.tiles) + threadIdx.x * 4;
    const f32 *from = outputsOf(0) + placeInChunk(item, piece);
    auto copy = [&](i32 first) {
      i32 count = min(chunks - first, fit);
#pragma unroll 4
      for (i32 i = 0; i < count; ++i)
        copyAsync(own + i * (threads * 4),
                  from + (first + i) * Block::chunkOutputs);
      commitCopies();
    };
    copy(0);

    f32 open[2][2];
    u64 to = 0;
    auto columnOf = [&](i32 i, i32 j) {
      return piece * 16 + i * 8 + 2 * t + j;
    };
    if (chunks > 0) {
      to = block.itemBase(block.firstItem + item);
#pragma unroll
      for (i32 i = 0; i < 2; ++i)
#pragma unroll
        for (i32 j = 0; j < 2; ++j)
          open[i][j] = block.getOpen(to + min(columnOf(i, j), C::dim - 1));
    }
    if (warp < kAdderItems)
      writeFactors(weights, warp);
    __syncthreads();

    f32 out[4] = {};
#pragma unroll 1
    for (i32 first = 0; first < chunks;) {
      waitForCopies<0>();
      i32 count = min(chunks - first, fit);
#pragma unroll 4
      for (i32 i = 0; i < count; ++i) {
        Pack<f32, 4> four = loadPack<4>(own + i * (threads * 4));
        f32 factor = factors()[index * factorStride + first + i];
#pragma unroll
        for (i32 j = 0; j < 4; ++j)
          out[j] = fma(four.at[j], factor, out[j]);
      }
      first += fit;
      if (first < chunks)
        copy(first);
    }
    if (chunks == 0)
      return;
    f32 sum = adderSums()[index];
#pragma unroll
    for (i32 i = 0; i < 2; ++i)
#pragma unroll
      for (i32 j = 0; j < 2; ++j)
        if (C::dim == Block::paddedDim || columnOf(i, j) < C::dim)
          block.output[to + columnOf(i, j)] =
              Block::result(out[i * 2 + j], sum, open[i][j]);
  }

  /// Says that this block's chunks are written. By the first thread, when all
  /// have come to a barrier.
  __device__ void come() const { countTicket(tickets()); }

  /// Waits for all blocks. None waits for a block with a higher number but
  /// those that wait too, so there is nothing it could keep from running.
  /// Returns how many have waited before.
  __device__ u32 waitForOthers() const {
    while (loadTicket(tickets()) < u32(C::blocks))
      ;
    return atomicAdd(tickets() + 1, 1);
  }

  /// Clears up behind the last one that has waited.
  __device__ void leave(u32 before) const {
    if (before != kAttentionAdders - 1)
      return;
    tickets()[0] = 0;
    tickets()[1] = 0;
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
  if constexpr (!C::knowsStart)
    waitForEarlierKernels();
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
  if (block.firstItem >= block.items()) {
    waitForEarlierKernels();
    return;
  }
  block.findSpans();
  AttentionChunks<C> chunks = {block};
  i32 first = blockIdx.x;
  bool isWhole = i32(gridDim.y) > C::fewBlocks;
  if (isWhole && first > 0) {
    waitForEarlierKernels();
    return;
  }
#pragma unroll 1
  for (i32 size = block.chunkSize(block.firstItem);
       size <= block.chunkSize(block.lastItem()); ++size)
#pragma unroll 1
    for (i32 chunk = first; chunk < block.chunksOf(size).count;
         chunk += C::blocks) {
      auto sums = block.add(isWhole ? block.spans : block.spansOf(size, chunk));
      if (isWhole) {
        block.writeOutputs(sums);
        return;
      }
      chunks.write(sums, chunk, size);
    }
  // A block without chunks has not waited yet.
  waitForEarlierKernels();
  __syncthreads();
  if (threadIdx.x == 0)
    chunks.come();
  i32 adder = first - (C::blocks - kAttentionAdders);
  if (adder < 0)
    return;
  u32 before = 0;
  if (threadIdx.x == 0)
    before = chunks.waitForOthers();
  __syncthreads();
  chunks.add(adder);
  if (threadIdx.x == 0)
    chunks.leave(before);
}

} // namespace tandem
