//===- head_draft.cuh - Likely tokens by a rounded head -------------------===//
//
// x [rows, columns] bf16, w #plan.rounded_rows: codes of 4 bits and a scale in
// bf16 for every group of columns. The token of the largest product,
//
//   logit(n)   = sum over groups of s(n, group) * sum_k c(n, k) q(k)
//   result     i32 [rows]: the first of equal ones
//
// with q the whole numbers of head_digits.cuh; the step of a token does not
// change which logit is the largest. Sums of a group are exact, those of groups
// are f32, in order. What is not a number is passed over.
//
// A warp has tiles of its own, as in head_search.cuh, and reads them `chunk`
// groups ahead. Codes come with 8 added, two to a byte: two instructions make
// two words of A of one word. What that adds is the same for all outputs, so
// sums begin with 8 times the digits taken off.
//
// Shared memory: the digits, then i32 [group][16 tokens], what is taken off.
//
// Scratch: counters of blocks, then u64 [block of tokens][16], the largest
// logit so far and its token as rankOf() has them; zero between launches.
//
// Floor: w, half a byte and 2 / group bytes a number.
//
// Grid: blocks, 1, blocks of 16 tokens; 512 threads. Called by head_draft.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "head_digits.cuh"
#include "tokens.cuh"

namespace tandem {

template <typename C> struct HeadDraft {
  static constexpr i32 tiles = ceilDiv(C::outputs, 16);
  /// Of a tile and of a phase.
  static constexpr i32 groups = C::columns / C::group;
  static constexpr i32 phaseGroups = groups / C::phases;
  static constexpr i32 groupSteps = C::group / 32;
  static constexpr i32 blocks = groupSteps / 2;
  static constexpr i32 groupBytes = 32 + blocks * 512;
  static constexpr i32 sharedBytes =
      TokenDigits<C>::sharedBytes + phaseGroups * 16 * 4;
  static_assert(C::columns % C::group == 0 && C::group % 64 == 0 &&
                groups % C::phases == 0 && phaseGroups % C::chunk == 0);

  /// What a lane has of a group of a tile.
  struct Group {
    u32 scales;
    Pack<u32, 4> words[blocks];
  };

  __device__ static void load(Group &to, const u8 *codes, i32 tile, i32 group) {
    i32 lane = threadIdx.x % kWarp;
    const u8 *from = codes + (u64(tile) * groups + group) * groupBytes;
    to.scales = reinterpret_cast<const u32 *>(from)[lane / 4];
#pragma unroll
    for (i32 block = 0; block < blocks; ++block)
      to.words[block] = loadOnce(
          reinterpret_cast<const u32 *>(from + 32 + block * 512) + lane * 4);
  }

  /// c += a * b, a without signs.
  __device__ static void multiply(i32 (&c)[4], const u32 (&a)[4], u32 b0,
                                  u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }

  /// Writes 8 times the digits of every group and token of a phase to \p
  /// biases.
  __device__ static void addDigits(const u8 *shared, i32 *biases) {
    for (i32 place = threadIdx.x; place < phaseGroups * 16;
         place += TokenDigits<C>::threads) {
      i32 token = place % 16, sums[2] = {};
      for (i32 step = 0; step < groupSteps; ++step)
#pragma unroll
        for (i32 digit = 0; digit < 2; ++digit) {
          const u32 *from =
              reinterpret_cast<const u32 *>(shared +
                                            (place / 16 * groupSteps + step) *
                                                TokenDigits<C>::stepBytes) +
              digit * (kWarp * 4) + token % 8 * 16 + token / 8 * 2;
#pragma unroll
          for (i32 word = 0; word < 8; ++word)
            sums[digit] = __dp4a(i32(from[word / 2 * 4 + word % 2]), 0x01010101,
                                 sums[digit]);
        }
      biases[place] = 8 * (256 * sums[0] + sums[1]);
    }
    __syncthreads();
  }
};

template <typename C>
__device__ void headDraft(const bf16 *input, const u8 *codes, i32 *result,
                          const i32 *live, i32 rows, u8 *scratch) {
  using Draft = HeadDraft<C>;
  using Digits = TokenDigits<C>;
  constexpr i32 chunk = C::chunk;
  extern __shared__ __align__(128) u8 shared[];
  __shared__ f32 stepOf[Digits::tokens], reciprocalOf[Digits::tokens],
      lengthOf[Digits::tokens];
  __shared__ u64 ranks[Digits::tokens];
  i32 *biases = reinterpret_cast<i32 *>(shared + Digits::sharedBytes);
  i32 warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  i32 g = lane / 4, t = lane % 4;
  i32 stride = i32(gridDim.x) * Digits::warps;
  i32 tile = i32(blockIdx.x) * Digits::warps + warp;

  typename Draft::Group ahead[chunk];
  if (tile < Draft::tiles)
#pragma unroll
    for (i32 i = 0; i < chunk; ++i)
      Draft::load(ahead[i], codes, tile, i);
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
    ranks[threadIdx.x] = 0;
  digits.measure();
  if (C::phases == 1) {
    digits.digest(0);
    Draft::addDigits(shared, biases);
  }

  bool hasSecond = digits.firstToken + 8 < digits.live;
  i32 rounds = ceilDiv(Draft::tiles, stride);
#pragma unroll 1
  for (i32 round = 0; round < rounds; ++round, tile += stride) {
    bool exists = tile < Draft::tiles;
    f32 sums[2][4] = {};
#pragma unroll 1
    for (i32 phase = 0; phase < C::phases; ++phase) {
      if (C::phases > 1) {
        __syncthreads();
        digits.digest(phase * Digits::phaseSteps);
        Draft::addDigits(shared, biases);
      }
      if (!exists)
        continue;
#pragma unroll 1
      for (i32 first = 0; first < Draft::phaseGroups; first += chunk) {
        i32 next = phase * Draft::phaseGroups + first + chunk;
        bool isLast = next == Draft::groups;
        i32 nextTile = isLast ? tile + stride : tile;
#pragma unroll
        for (i32 i = 0; i < chunk; ++i) {
          typename Draft::Group group = ahead[i];
          if (nextTile < Draft::tiles)
            Draft::load(ahead[i], codes, nextTile, isLast ? i : next + i);
          i32 high[2][4] = {}, low[2][4];
#pragma unroll
          for (i32 half = 0; half < 2; ++half) {
            auto bias =
                loadPack<2>(biases + (first + i) * 16 + half * 8 + t * 2);
#pragma unroll
            for (i32 place = 0; place < 4; ++place)
              low[half][place] = -bias.at[place % 2];
          }
#pragma unroll
          for (i32 step = 0; step < Draft::groupSteps; ++step) {
            const Pack<u32, 4> &words = group.words[step / 2];
            u32 a[4];
#pragma unroll
            for (i32 half = 0; half < 2; ++half) {
              u32 word = words.at[step % 2 * 2 + half];
              a[half] = word & 0x0f0f0f0fu;
              a[half + 2] = word >> 4 & 0x0f0f0f0fu;
            }
            const u32 *from =
                reinterpret_cast<const u32 *>(
                    shared + ((first + i) * Draft::groupSteps + step) *
                                 Digits::stepBytes) +
                lane * 4;
            auto b = loadPack<4>(from), c = loadPack<4>(from + kWarp * 4);
            Draft::multiply(high[0], a, b.at[0], b.at[1]);
            Draft::multiply(low[0], a, c.at[0], c.at[1]);
            if (hasSecond) {
              Draft::multiply(high[1], a, b.at[2], b.at[3]);
              Draft::multiply(low[1], a, c.at[2], c.at[3]);
            }
          }
          f32 scale = __uint_as_float(group.scales << 16);
          f32 scale8 = __uint_as_float(group.scales & 0xffff0000u);
#pragma unroll
          for (i32 half = 0; half < 2; ++half)
#pragma unroll
            for (i32 place = 0; place < 4; ++place)
              sums[half][place] =
                  fma(place < 2 ? scale : scale8,
                      f32(high[half][place] * 256 + low[half][place]),
                      sums[half][place]);
        }
      }
    }
    if (!exists)
      continue;
    // Of tokens 2 t, 2 t + 1, and of those 8 further on.
#pragma unroll
    for (i32 i = 0; i < 4; ++i) {
      Largest best = {minusInfinity(), 0};
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
        i32 output = tile * 16 + half * 8 + g;
        f32 logit = sums[i / 2][half * 2 + i % 2];
        if (output < C::outputs)
          best.take(logit, output);
      }
#pragma unroll
      for (i32 distance = 4; distance < kWarp; distance *= 2) {
        f32 value = __shfl_xor_sync(~0u, best.value, distance);
        i32 column = __shfl_xor_sync(~0u, best.column, distance);
        best.take(value, column);
      }
      if (g == 0 && best.value > minusInfinity())
        atomicMax(ranks + (i / 2 * 8 + t * 2 + i % 2),
                  rankOf(best.value, best.column));
    }
  }

  __syncthreads();
  u32 *tickets = reinterpret_cast<u32 *>(scratch);
  u64 *all = reinterpret_cast<u64 *>(scratch + C::ticketBytes) +
             blockIdx.z * Digits::tokens;
  if (threadIdx.x < Digits::tokens)
    atomicMax(all + threadIdx.x, ranks[threadIdx.x]);
  if (!isLastBlock(tickets + blockIdx.z, gridDim.x))
    return;
  if (threadIdx.x < Digits::tokens) {
    u64 rank = atomicExch(all + threadIdx.x, 0ull);
    i32 token = digits.firstToken + threadIdx.x;
    if (token < digits.live)
      result[token] = rank ? i32(~u32(rank)) : 0;
  }
}

} // namespace tandem
