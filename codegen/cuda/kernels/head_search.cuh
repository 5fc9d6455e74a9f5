//===- head_search.cuh - Where the largest logit of a token may be --------===//
//
// x [rows, columns] bf16, codes #plan.search_codes with fragments, scales and
// errors f32 by output. With c(n) the codes of output n, s(n) its scale and
// e(n) its error,
//
//   x          = t q       q whole numbers of 16 bits, t the step of the token
//   a(n)       = s(n) t sum_k c(n, k) q(k)
//   above(n)   = a(n) + e(n) X                  X the length of the token,
//   below(n)   = a(n) - e(n) X                  a little more than |x|
//
// The logit that head_settle would compute of n is between the two;
// docs/heads.md has the proof.
//
//   above      f32 [rows, tiles]   the largest of a tile of 16 outputs
//   below      f32 [rows, 1]       the largest of all outputs
//
// What is not a number, or too large for the proof, is above everything and
// below everything: head_settle then computes it.
//
// Tensor cores of whole numbers multiply codes as they lie in memory with the
// digits of q, and sums are exact in any order. A warp has tiles of its own,
// all columns of them:
//
//   block b, warp w   tiles (b * 16 + w) + i * gridDim.x * 16
//
// and reads them from memory to registers, `chunk` steps of 32 columns ahead.
//
// Tokens are digits in shared memory: head_digits.cuh.
//
// Scratch: counters of blocks, then u32 [block of tokens][16], the largest
// `below` so far, as ordered() has it; zero between launches.
//
// Floor: codes, 1 byte each, once for every 16 tokens.
//
// Grid: blocks, 1, blocks of 16 tokens; 512 threads. Called by head_search.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "head_digits.cuh"

namespace tandem {

template <typename C> struct HeadSearch {
  static constexpr i32 tiles = ceilDiv(C::outputs, 16);
  static constexpr i32 sharedBytes = TokenDigits<C>::sharedBytes;
  static_assert(TokenDigits<C>::phaseSteps % C::chunk == 0);
  /// The most that a proof is for.
  static constexpr f32 mostError = 1.2676506e30f;
  /// Covers numbers that are too small to be exact.
  static constexpr f32 leastError = 7.8886091e-31f;
};

template <typename C>
__device__ void headSearch(const bf16 *input, const u8 *codes,
                           const f32 *scales, const f32 *errors, f32 *above,
                           f32 *below, const i32 *live, i32 rows, u8 *scratch) {
  using Search = HeadSearch<C>;
  using Digits = TokenDigits<C>;
  constexpr i32 chunk = C::chunk;
  extern __shared__ __align__(128) u8 shared[];
  __shared__ f32 stepOf[Digits::tokens], reciprocalOf[Digits::tokens],
      lengthOf[Digits::tokens];
  __shared__ u32 floors[Digits::tokens];
  i32 warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  i32 g = lane / 4, t = lane % 4;
  i32 stride = i32(gridDim.x) * Digits::warps;
  i32 tile = i32(blockIdx.x) * Digits::warps + warp;

  // The first codes are asked for before the kernels in front have ended.
  const u32 *words = reinterpret_cast<const u32 *>(codes) + lane * 4;
  auto from = [&](i32 ofTile, i32 step) {
    return words + (u64(ofTile) * Digits::steps + step) * (kWarp * 4);
  };
  Pack<u32, 4> ahead[chunk];
  if (tile < Search::tiles)
#pragma unroll
    for (i32 i = 0; i < chunk; ++i)
      ahead[i] = loadOnce(from(tile, i));
  waitForEarlierKernels();
  Digits digits = {input,
                   i32(blockIdx.z) * Digits::tokens,
                   liveRows(live, rows),
                   shared,
                   stepOf,
                   reciprocalOf,
                   lengthOf};
  if (digits.firstToken >= digits.live)
    return;
  if (threadIdx.x < Digits::tokens)
    floors[threadIdx.x] = 0;
  digits.measure();
  if (C::phases == 1)
    digits.digest(0);

  bool hasSecond = digits.firstToken + 8 < digits.live;
  // Of tokens 2 t, 2 t + 1, and of those 8 further on.
  f32 floor[4];
#pragma unroll
  for (i32 i = 0; i < 4; ++i)
    floor[i] = minusInfinity();
  i32 rounds = ceilDiv(Search::tiles, stride);
#pragma unroll 1
  for (i32 round = 0; round < rounds; ++round, tile += stride) {
    bool exists = tile < Search::tiles;
    i32 high[2][4] = {}, low[2][4] = {};
#pragma unroll 1
    for (i32 phase = 0; phase < C::phases; ++phase) {
      if (C::phases > 1) {
        __syncthreads();
        digits.digest(phase * Digits::phaseSteps);
      }
      if (!exists)
        continue;
#pragma unroll 1
      for (i32 step = 0; step < Digits::phaseSteps; step += chunk) {
        Pack<u32, 4> a[chunk];
#pragma unroll
        for (i32 i = 0; i < chunk; ++i)
          a[i] = ahead[i];
        i32 next = phase * Digits::phaseSteps + step + chunk;
        bool isLast = next == Digits::steps;
        i32 nextTile = isLast ? tile + stride : tile;
        if (nextTile < Search::tiles) {
          const u32 *begin = from(nextTile, isLast ? 0 : next);
#pragma unroll
          for (i32 i = 0; i < chunk; ++i)
            ahead[i] = loadOnce(begin + i * (kWarp * 4));
        }
        const u32 *b0 =
            reinterpret_cast<const u32 *>(shared + step * Digits::stepBytes) +
            lane * 4;
#pragma unroll
        for (i32 i = 0; i < chunk; ++i) {
          auto b = loadPack<4>(b0 + i * (Digits::stepBytes / 4));
          auto c = loadPack<4>(b0 + i * (Digits::stepBytes / 4) + kWarp * 4);
          multiplyBytes(high[0], a[i], b.at[0], b.at[1]);
          multiplyBytes(low[0], a[i], c.at[0], c.at[1]);
          if (hasSecond) {
            multiplyBytes(high[1], a[i], b.at[2], b.at[3]);
            multiplyBytes(low[1], a[i], c.at[2], c.at[3]);
          }
        }
      }
    }
    if (!exists)
      continue;
    f32 scale[2], error[2];
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      scale[half] = scales[tile * 16 + half * 8 + g];
      error[half] = errors[tile * 16 + half * 8 + g];
    }
#pragma unroll
    for (i32 i = 0; i < 4; ++i) {
      i32 token = i / 2 * 8 + t * 2 + i % 2;
      f32 most = minusInfinity(), least = minusInfinity();
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
        i32 place = half * 2 + i % 2;
        f32 sum = f32(high[i / 2][place]) * 256.0f + f32(low[i / 2][place]);
        f32 logit = sum * (scale[half] * stepOf[token]);
        f32 distance = error[half] * lengthOf[token] + Search::leastError;
        if (tile * 16 + half * 8 + g < C::outputs) {
          bool isCertain = distance < Search::mostError;
          most = fmaxf(most, isCertain ? logit + distance : -minusInfinity());
          least = fmaxf(least, isCertain ? logit - distance : minusInfinity());
        }
      }
#pragma unroll
      for (i32 distance = 4; distance < kWarp; distance *= 2) {
        most = fmaxf(most, __shfl_xor_sync(~0u, most, distance));
        least = fmaxf(least, __shfl_xor_sync(~0u, least, distance));
      }
      floor[i] = fmaxf(floor[i], least);
      if (g == 0 && digits.firstToken + token < digits.live)
        above[u64(digits.firstToken + token) * Search::tiles + tile] = most;
    }
  }

  if (g == 0)
#pragma unroll
    for (i32 i = 0; i < 4; ++i)
      atomicMax(floors + (i / 2 * 8 + t * 2 + i % 2), ordered(floor[i]));
  __syncthreads();
  u32 *tickets = reinterpret_cast<u32 *>(scratch);
  u32 *all = tickets + C::ticketBytes / 4 + blockIdx.z * Digits::tokens;
  if (threadIdx.x < Digits::tokens)
    atomicMax(all + threadIdx.x, floors[threadIdx.x]);
  if (!isLastBlock(tickets + blockIdx.z, gridDim.x))
    return;
  if (threadIdx.x < Digits::tokens) {
    f32 floorOfToken = fromOrdered(atomicExch(all + threadIdx.x, 0u));
    i32 token = digits.firstToken + threadIdx.x;
    if (token < digits.live)
      below[token] = floorOfToken;
  }
}

} // namespace tandem
