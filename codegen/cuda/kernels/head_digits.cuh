//===- head_digits.cuh - Tokens as whole numbers --------------------------===//
//
//   x  is about  t q      q = 256 high + low, whole numbers of 16 bits; t the
//                         step of the token
//
// high and low have 8 bits and a sign, so tensor cores of whole numbers
// multiply codes with them; 127 * 256 is the largest |q|. With C::steps steps
// of 32 columns in C::phases phases, where there are too many columns for the
// shared memory, it holds the digits of 16 tokens as B of all products:
//
//   [step of 32 columns][high, low][lane][4 words]
//   words 0, 1   B of tokens 0..7:  columns 4 t .. + 3, and + 16, of token g
//   words 2, 3   the same of tokens 8..15
//
// Used by head_search and head_draft, by blocks of 512 threads.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "common.cuh"

namespace tandem {

/// Bits of \p x as a number that is larger for a larger x, and never zero.
__device__ inline u32 ordered(f32 x) {
  u32 bits = __float_as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
/// The x of ordered(x); minus infinity for zero.
__device__ inline f32 fromOrdered(u32 bits) {
  if (bits == 0)
    return minusInfinity();
  return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
}

/// The number of a logit and its token: larger for a larger logit, and of equal
/// ones for the token that stands first. Never zero.
__device__ inline u64 rankOf(f32 logit, i32 token) {
  // Zero has two signs and is one number.
  return u64(ordered(logit + 0.0f)) << 32 | u32(~token);
}

/// c += a * b for a of 16 x 32, b of 32 x 8 bytes with signs. Lanes hold of A
/// what #plan.search_codes draws, of B columns 4 t .. 4 t + 3 and the same from
/// 16 on, of token g, of C what mma.cuh draws.
__device__ inline void multiplyBytes(i32 (&c)[4], const Pack<u32, 4> &a, u32 b0,
                                     u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
               : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]),
                 "r"(b0), "r"(b1));
}

/// 16 bytes that are read once.
__device__ inline Pack<u32, 4> loadOnce(const u32 *from) {
  Pack<u32, 4> words;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.at[0]), "=r"(words.at[1]), "=r"(words.at[2]),
                 "=r"(words.at[3])
               : "l"(from));
  return words;
}

template <typename C> struct TokenDigits {
  static constexpr i32 warps = 16, threads = warps * kWarp, tokens = 16;
  /// Steps of 32 columns of a tile, and of a phase.
  static constexpr i32 steps = ceilDiv(C::columns, 32);
  static constexpr i32 phaseSteps = ceilDiv(steps, C::phases);
  static_assert(steps % C::phases == 0);
  static constexpr i32 stepBytes = 2 * kWarp * 16;
  static constexpr i32 sharedBytes = phaseSteps * stepBytes;
  static constexpr f32 largestDigits = 32512.0f;

  const bf16 *input;
  i32 firstToken, live;
  u8 *shared;
  /// Of the tokens: the step, one divided by it, the length.
  f32 *stepOf, *reciprocalOf, *lengthOf;

  __device__ static f32 number(const bf16 *row, i32 column) {
    return column < C::columns ? toFloat(row[column]) : 0.0f;
  }

  /// Columns \p first .. first + 3 of \p row.
  __device__ static void four(f32 (&numbers)[4], const bf16 *row, i32 first) {
    if constexpr (C::columns % 4 == 0) {
      if (first < C::columns) {
        auto pack = loadPack<4>(row + first);
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          numbers[i] = toFloat(pack.at[i]);
        return;
      }
    }
#pragma unroll
    for (i32 i = 0; i < 4; ++i)
      numbers[i] = number(row, first + i);
  }

  /// Steps and lengths of the tokens, a warp each. A length is more than the
  /// square root of the sum of squares; docs/heads.md.
  __device__ void measure() const {
    i32 token = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    f32 largest = 0, squares = 0;
    bool isLive = firstToken + token < live;
    const bf16 *row = input + u64(isLive ? firstToken + token : 0) * C::columns;
    // What is not a number must not get lost.
    bool isFinite = true;
    // Several reads at once: each of them takes long.
    if (isLive)
#pragma unroll 10
      for (i32 first = lane * 4; first < C::columns; first += kWarp * 4) {
        f32 numbers[4];
        four(numbers, row, first);
#pragma unroll
        for (i32 i = 0; i < 4; ++i) {
          largest = fmaxf(largest, fabsf(numbers[i]));
          isFinite &= fabsf(numbers[i]) < 1e38f;
        }
      }
    largest = maxLanes(largest);
    isFinite = __all_sync(~0u, isFinite);
    f32 reciprocal = largest > 0 ? largestDigits / largest : 0.0f;
    if (isLive)
#pragma unroll 10
      for (i32 first = lane * 4; first < C::columns; first += kWarp * 4) {
        f32 numbers[4];
        four(numbers, row, first);
#pragma unroll
        for (i32 i = 0; i < 4; ++i) {
          f32 q = rintf(numbers[i] * reciprocal);
          squares = fma(q, q, squares);
        }
      }
    squares = sumLanes(squares);
    if (lane == 0) {
      f32 step = largest / largestDigits;
      f32 length = fmaxf(sqrtf(squares) + C::halfSteps, C::leastSteps);
      stepOf[token] = step;
      reciprocalOf[token] = reciprocal;
      // Numbers so small that their reciprocal is none are no less certain
      // than infinite ones.
      lengthOf[token] = isFinite && reciprocal < 1e38f ? step * length * 1.001f
                                                       : -minusInfinity();
    }
    __syncthreads();
  }

  /// The digits of steps \p first on, of all tokens.
  __device__ void digest(i32 first) const {
    // Four columns of a token are a word of either digit.
    constexpr i32 words = phaseSteps * 8;
#pragma unroll 5
    for (i32 place = threadIdx.x; place < words * tokens; place += threads) {
      i32 token = place / words, word = place % words;
      f32 numbers[4] = {};
      if (firstToken + token < live)
        four(numbers, input + u64(firstToken + token) * C::columns,
             first * 32 + word * 4);
      f32 reciprocal = reciprocalOf[token];
      u32 high = 0, low = 0;
#pragma unroll
      for (i32 i = 0; i < 4; ++i) {
        f32 bounded =
            fminf(fmaxf(rintf(numbers[i] * reciprocal), -largestDigits),
                  largestDigits);
        i32 q = i32(bounded);
        i32 digit = (q + 128 & 255) - 128;
        low |= (u32(digit) & 255u) << (8 * i);
        high |= (u32(q - digit >> 8) & 255u) << (8 * i);
      }
      i32 inStep = word % 8, lane = token % 8 * 4 + inStep % 4;
      u32 *to = reinterpret_cast<u32 *>(shared + word / 8 * stepBytes) +
                lane * 4 + token / 8 * 2 + inStep / 4;
      to[0] = high;
      to[kWarp * 4] = low;
    }
    __syncthreads();
  }
};

} // namespace tandem
