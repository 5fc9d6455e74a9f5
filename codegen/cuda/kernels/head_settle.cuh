//===- head_settle.cuh - The largest logit among those that may be it -----===//
//
// x [rows, columns] bf16, w #plan.rows of bf16, and what head_search.cuh found:
//
//   above      f32 [rows, tiles]   no logit of the tile is above it
//   below      f32 [rows, 1]       the largest logit is not below it
//
// A tile whose `above` is below a token's `below` has nothing to say about that
// token. All others are computed as few_rows.cuh does, with its cut of columns
// and so its order of sums: the same bits as those of all logits.
//
//   logits     f32 [rows, 1]   the largest of a row
//   tokens     i32 [rows, 1]   where it is, the first of equal ones
//   settled    i32 [rows, 1]   how many tiles were computed: in the first of 16
//                              tokens, zero in the others
//
// Logits are f32 and never rounded. What is not a number is passed over.
//
// A block has every gridDim.x-th eight tiles. It marks those that it has to
// compute; then each warp multiplies its columns of one after the other:
//
//   shared   marks, a byte for each tile; sums f32 [warp][256]
//   scratch  counters of blocks; then of every block of tokens u64 [16], the
//            largest logits so far and their tokens in one number, and u32, the
//            tiles computed so far; zero between launches
//
// Floor: the rows of these tiles. When all have to be computed, the weight.
//
// Grid: blocks, 1, blocks of 16 tokens. Called by head_settle.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "head_digits.cuh"
#include "mma.cuh"

namespace tandem {

template <typename C> struct HeadSettle {
  static constexpr i32 tokens = 16;
  static constexpr i32 tiles = ceilDiv(C::outputs, 16);
  /// A thread has one sum of a tile.
  static constexpr i32 sumThreads = 256;
  static constexpr i32 threads =
      C::warps * kWarp < sumThreads ? sumThreads : C::warps * kWarp;
  /// Tiles of a block, and which one is number \p index of them: eight
  /// neighbours, whose bounds are a stretch of memory, then others far away,
  /// since tiles that have to be computed often stand together.
  static constexpr i32 neighbours = 8;
  static constexpr i32 most =
      ceilDiv(ceilDiv(tiles, neighbours), C::blocks) * neighbours;
  __device__ static i32 tileAt(i32 index) {
    i32 place = index / neighbours * C::blocks + i32(blockIdx.x);
    return place * neighbours + index % neighbours;
  }
  static constexpr i32 flagBytes = roundUp(most, 16);
  static constexpr i32 sharedBytes = flagBytes + C::warps * sumThreads * 4;
  static constexpr i32 rowElements = roundUp(C::columns, 8);
  /// What of the scratch belongs to a block of tokens.
  static constexpr i32 placeBytes = tokens * 8 + 128;

  const bf16 *input, *weight;
  i32 firstToken, live;

  /// bf16 \p k and the next of a row; the second is zero where there is none.
  template <i32 Stride> __device__ static u32 pairAt(const bf16 *row, i32 k) {
    if (k >= C::columns)
      return 0;
    if constexpr (Stride % 2 == 0)
      return *reinterpret_cast<const u32 *>(row + k);
    return row[k].bits | (k + 1 < C::columns ? u32(row[k + 1].bits) << 16 : 0);
  }

  /// The first column of this lane's in slice \p slice.
  __device__ static i32 column(i32 slice) {
    i32 share = slice * C::warps + threadIdx.x / kWarp;
    return share * (C::stepsPerWarp * 16) + threadIdx.x % 4 * 2;
  }

  using Weights = u32[C::stepsPerWarp][4];
  using Digits = u32[C::stepsPerWarp][2][2];

  /// A of this warp's columns.
  __device__ void loadWeights(Weights &a, i32 tile, i32 slice) const {
    i32 g = threadIdx.x % kWarp / 4;
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      i32 output = tile * 16 + half * 8 + g;
      const bf16 *row = weight + u64(output) * rowElements;
#pragma unroll
      for (i32 step = 0; step < C::stepsPerWarp; ++step)
#pragma unroll
        for (i32 i = 0; i < 2; ++i)
          a[step][i * 2 + half] =
              output < C::outputs
                  ? pairAt<rowElements>(row, column(slice) + step * 16 + i * 8)
                  : 0;
    }
  }

  /// B of this warp's columns, of tokens 0 .. 7 and 8 .. 15.
  __device__ void loadTokens(Digits &b, i32 slice) const {
    i32 g = threadIdx.x % kWarp / 4;
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      i32 token = firstToken + half * 8 + g;
      const bf16 *row = input + u64(token) * C::columns;
#pragma unroll
      for (i32 step = 0; step < C::stepsPerWarp; ++step)
#pragma unroll
        for (i32 i = 0; i < 2; ++i)
          b[step][half][i] =
              token < live
                  ? pairAt<C::columns>(row, column(slice) + step * 16 + i * 8)
                  : 0;
    }
  }
};

template <typename C>
__device__ void headSettle(const bf16 *input, const bf16 *weight,
                           const f32 *above, const f32 *below, f32 *logits,
                           i32 *winners, i32 *settled, const i32 *live,
                           i32 rows, u8 *scratch) {
  using Settle = HeadSettle<C>;
  extern __shared__ __align__(128) u8 shared[];
  __shared__ u64 ranks[Settle::tokens];
  u8 *flags = shared;
  f32 *sums = reinterpret_cast<f32 *>(shared + Settle::flagBytes);
  i32 warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  waitForEarlierKernels();
  Settle settle = {input, weight, i32(blockIdx.z) * 16, liveRows(live, rows)};
  i32 lives = min(settle.live - settle.firstToken, 16);
  if (lives <= 0)
    return;
  if (threadIdx.x < Settle::tokens)
    ranks[threadIdx.x] = 0;
  for (i32 place = threadIdx.x; place < Settle::flagBytes;
       place += Settle::threads)
    flags[place] = 0;
  __syncthreads();
  for (i32 place = threadIdx.x; place < Settle::most * lives;
       place += Settle::threads) {
    i32 token = settle.firstToken + place / Settle::most;
    i32 index = place % Settle::most;
    i32 tile = Settle::tileAt(index);
    // Also when one of the two is no number.
    if (tile < Settle::tiles &&
        !(above[u64(token) * Settle::tiles + tile] < below[token]))
      flags[index] = 1;
  }
  __syncthreads();

  auto next = [&](i32 index) {
    while (index < Settle::most && !flags[index])
      ++index;
    return index;
  };
  // As mma.cuh draws C: 4 numbers of a lane, those of tokens 8 .. 15 behind.
  i32 inTile = threadIdx.x / 4 % 32 / 4 + threadIdx.x % 4 / 2 * 8;
  i32 token = threadIdx.x / 128 * 8 + threadIdx.x / 4 % 4 * 2 + threadIdx.x % 2;
  bool hasSum = threadIdx.x < Settle::sumThreads && token < lives;
  u64 best = 0;
  u32 count = 0;
  i32 index = next(0), slice = 0;
  typename Settle::Weights a;
  typename Settle::Digits b;
  if (index < Settle::most && warp < C::warps) {
    settle.loadWeights(a, Settle::tileAt(index), 0);
    settle.loadTokens(b, 0);
  }
  f32 sum = 0;
#pragma unroll 1
  while (index < Settle::most) {
    i32 tile = Settle::tileAt(index);
    bool isDone = slice + 1 == C::slices;
    i32 nextIndex = isDone ? next(index + 1) : index;
    i32 nextSlice = isDone ? 0 : slice + 1;
    if (warp < C::warps) {
      f32 mine[2][4] = {};
#pragma unroll
      for (i32 step = 0; step < C::stepsPerWarp; ++step)
#pragma unroll
        for (i32 half = 0; half < 2; ++half)
          multiply(mine[half], a[step], b[step][half][0], b[step][half][1]);
      // These are on their way while sums meet.
      if (nextIndex < Settle::most) {
        settle.loadWeights(a, Settle::tileAt(nextIndex), nextSlice);
        if (C::slices > 1)
          settle.loadTokens(b, nextSlice);
      }
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
        Pack<f32, 4> four = {
            {mine[half][0], mine[half][1], mine[half][2], mine[half][3]}};
        storePack(sums + warp * Settle::sumThreads + half * 128 + lane * 4,
                  four);
      }
    }
    __syncthreads();
    if (hasSum) {
      f32 ofSlice = sums[threadIdx.x];
#pragma unroll
      for (i32 other = 1; other < C::warps; ++other)
        ofSlice += sums[other * Settle::sumThreads + threadIdx.x];
      sum = slice == 0 ? ofSlice : sum + ofSlice;
      i32 output = tile * 16 + inTile;
      if (isDone && output < C::outputs && sum > minusInfinity()) {
        u64 rank = rankOf(sum, output);
        best = rank > best ? rank : best;
      }
    }
    count += isDone;
    index = nextIndex;
    slice = nextSlice;
    __syncthreads();
  }

  if (hasSum)
    atomicMax(ranks + token, best);
  __syncthreads();
  u32 *tickets = reinterpret_cast<u32 *>(scratch);
  u8 *place = scratch + C::ticketBytes + blockIdx.z * Settle::placeBytes;
  u64 *allRanks = reinterpret_cast<u64 *>(place);
  u32 *allCount = reinterpret_cast<u32 *>(place + Settle::tokens * 8);
  if (i32(threadIdx.x) < lives && ranks[threadIdx.x])
    atomicMax(allRanks + threadIdx.x, ranks[threadIdx.x]);
  if (threadIdx.x == 0 && count)
    atomicAdd(allCount, count);
  if (!isLastBlock(tickets + blockIdx.z, gridDim.x))
    return;
  if (i32(threadIdx.x) < lives) {
    u64 rank = atomicExch(allRanks + threadIdx.x, 0ull);
    i32 row = settle.firstToken + threadIdx.x;
    logits[row] = fromOrdered(u32(rank >> 32));
    winners[row] = rank ? i32(~u32(rank)) : 0;
    settled[row] = threadIdx.x ? 0 : i32(atomicExch(allCount, 0u));
  }
}

} // namespace tandem
