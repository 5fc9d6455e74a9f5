//===- quant_linear.cuh - Rows times a weight of integer codes ------------===//
//
//   y[r, n] = sum_k x[r, k] * (code[n, k] - zero[n, k / group])
//                   * scale[n, k / group]
//
// with zeros where the plan has zero points.
//
// x [rows, columns] bf16, w #plan.fragment_codes; what stands around the
// product is in layer.cuh.
//
// How codes lie and become numbers is in code_units.cuh.
//
// Up to 16 rows, codes of 4 bits with bf16 scales and groups of 32 to 128 are
// not even taken out of their words. A bf16 whose upper byte is 0 is its lower
// byte times 2^-133, without a gap where exponents begin, so the masks 0x000f
// and 0x00f0 leave a code and 16 times a code, the latter for outputs 8 .. 15:
//
//   word & 0x000f000f    word & 0x00f000f0    word >> 8 & ..    word >> 8 & ..
//   a[0]                 16 a[1]              a[2]              16 a[3]
//
// Tokens are multiplied by 2^64 so that sums, 2^-69 and 2^-65 of what they
// should be, are numbers as good as any; a token from 2^64 on, which no model
// has, would become infinite. What a code has too much, 8, is taken off group
// by group with one product more: of the scales and of -8 times the tokens'
// sums over the group, those in three bf16 parts.
//
// Kernels: few_rows.cuh up to 16 rows at a time, many_rows.cuh beyond;
// medium_clusters.cuh or medium_rows.cuh for dozens and wide_rows.cuh for
// hundreds, which take scales into the weights.
//
// Floor: the weight, bits / 8 + 2 / group bytes a code.
//
// Called by quant_linear and fused_quant_linear.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "code_units.cuh"
#include "few_results.cuh"
#include "many_rows.cuh"
#include "medium_clusters.cuh"
#include "medium_rows.cuh"

namespace tandem {

/// Units of codes in few_rows.cuh.
template <typename C> struct FewQuantUnits : QuantUnits<C> {
  using Base = QuantUnits<C>;
  using Layout = UnitLayout<C>;
  /// Tokens come eight by eight.
  static constexpr i32 octets = C::tokens / 8;

  /// Whether codes are multiplied where they lie in their words.
  static constexpr bool isRaw =
      C::bits == 4 && !C::zeroPoints && Layout::holdsGroups &&
      Layout::isDense && Layout::groups <= 4 && kIsBf16<typename C::Scale>;
  static constexpr bool hasExtra = isRaw;
  /// Whether what is held of a unit is all that is needed of it.
  static constexpr bool holdsAll = isRaw;

  /// What a unit takes off its sums: B of a product with the scales, which A
  /// has twice:
  ///
  ///   k 0..3, 4..7     two of three parts of -8 times the sums of a token over
  ///                    groups 0..3
  ///   k 8..11          the third
  struct Extra {
    u32 b[2][2];

    template <typename Load> __device__ void make(Load load) {
      i32 g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
      // Tokens as A: column n of the product is the sum over group n % 4.
      f32 c[4] = {0, 0, 0, 0};
#pragma unroll
      for (i32 step = 0; step < Layout::steps; ++step) {
        u32 tokens[4];
        load(tokens, step);
        u32 a[4] = {tokens[0], tokens[2], tokens[1], tokens[3]};
        // -8 * 2^-133.
        u32 choice = g % 4 == step / Layout::stepsPerGroup ? 0x80088008u : 0;
        multiply(c, a, choice, choice);
      }
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
        f32 low = c[2 * half], high = c[2 * half + 1];
        u32 parts[3];
#pragma unroll
        for (i32 part = 0; part < 3; ++part) {
          parts[part] = packBf16(low, high);
          low -= __uint_as_float(parts[part] << 16);
          high -= __uint_as_float(parts[part] & 0xffff0000u);
        }
        b[half][0] = t < 2 ? parts[0] : parts[1];
        b[half][1] = t < 2 ? parts[2] : 0;
      }
    }
  };

  /// Tokens are times 2^64 in products of codes as they lie.
  static constexpr f32 tokenFactor = isRaw ? 18446744073709551616.0f : 1.0f;
  static constexpr u32 tokenPair = isRaw ? 0x5f805f80u : 0x3f803f80u;
  /// What sums of rows 8 half .. are multiplied by: 2^69 and 2^65.
  __device__ static f32 sumFactor(i32 half) {
    return isRaw ? __uint_as_float(half ? 0x60000000u : 0x62000000u) : 1.0f;
  }

  /// What a lane has of a unit: codes and scales, or where they lie. The scales
  /// of outputs g and g + 8 lie side by side, two a word.
  static constexpr i32 scaleWords = Layout::groups;
  struct Raw {
    u32 words[8], scales[scaleWords];
  };
  struct Place {
    u32 at;
  };
  using Held = Either<isRaw, Raw, Place>;

  /// Reads the codes of the unit at \p at, an address of shared memory; \p lane
  /// is that of the thread.
  __device__ static void holdCodes(Held &held, u32 at, i32 lane) {
    if constexpr (isRaw) {
#pragma unroll
      for (i32 first = 0; first < 8; first += 4) {
        u32 four[4];
        loadAt(four, at + Layout::scaleBytes + lane * 16 + first * kWarp * 4);
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          held.words[first + i] = four[i];
      }
    }
  }
  /// Reads the scales, and where the unit is not held, notes where it lies.
  __device__ static void holdScales(Held &held, u32 at, i32 lane) {
    if constexpr (isRaw)
      loadAt(held.scales, at + lane / 4 * (scaleWords * 4));
    else
      held.at = at;
  }

  /// Adds what is held of a unit to the sums of the tokens. Calls \p during()
  /// while products are on their way, and \p behind() while the last of them
  /// are, when the codes are not needed any more.
  template <typename Load, typename During, typename Behind>
  __device__ static void addHeld(f32 (&sums)[octets][4], Held &held, i32 lane,
                                 const Extra &extra, Load load, During during,
                                 Behind behind) {
    if constexpr (isRaw) {
      addRaw(sums, held, lane, extra, load, during, behind);
    } else {
      Base::template add<octets>(
          sums, static_cast<const u8 *>(__cvta_shared_to_generic(held.at)),
          [&](u32(&b)[4], i32 step, i32) { load(b, step); });
      during();
      behind();
    }
  }

  /// The scale of group \p group for output g + 8 half.
  __device__ static f32 scaleOf(const Raw &held, i32 group, i32 half) {
    i32 number = half * Layout::groups + group;
    u32 two = held.scales[number / 2];
    return __uint_as_float(number % 2 == 0 ? two << 16 : two & 0xffff0000u);
  }

  /// What codes have too much, of all groups.
  __device__ static void addExtra(f32 (&sums)[octets][4], const Raw &held,
                                  i32 lane, const Extra &extra) {
    constexpr i32 groups = Layout::groups;
    u32 pairs[2];
#pragma unroll
    for (i32 half = 0; half < 2; ++half)
      if constexpr (groups == 1)
        pairs[half] =
            half == 0 ? held.scales[0] & 0xffffu : held.scales[0] >> 16;
      else
        pairs[half] = groups == 4 && lane % 2 != 0
                          ? held.scales[(half * 2 + 1) % scaleWords]
                          : held.scales[half * groups / 2];
    // Rows 8 .. 15 are 16 times what they are.
    pairs[1] = multiplyPair(pairs[1], 0x41804180u);
    u32 a[4] = {pairs[0], pairs[1], pairs[0], pairs[1]};
#pragma unroll
    for (i32 j = 0; j < octets; ++j)
      multiply(sums[j], a, extra.b[j][0], extra.b[j][1]);
  }

  template <typename Load, typename During, typename Behind>
  __device__ static void addRaw(f32 (&sums)[octets][4], Raw &held, i32 lane,
                                const Extra &extra, Load load, During during,
                                Behind behind) {
    constexpr i32 groups = Layout::groups;
    // Two runs of products at a time, or each would wait for the one before:
    // two groups, or two halves of one.
    constexpr i32 runs = groups < 2 ? 2 : groups, ofRun = Layout::steps / runs;
#pragma unroll
    for (i32 first = 0; first < runs; first += 2) {
      f32 parts[2][octets][4];
#pragma unroll
      for (i32 i = 0; i < ofRun; ++i)
#pragma unroll
        for (i32 run = 0; run < 2; ++run) {
          i32 step = (first + run) * ofRun + i;
          u32 word = held.words[step];
          u32 codes[4] = {word & 0x000f000fu, word & 0x00f000f0u,
                          word >> 8 & 0x000f000fu, word >> 8 & 0x00f000f0u};
          u32 b[4];
          load(b, step);
#pragma unroll
          for (i32 j = 0; j < octets; ++j)
            if (i == 0)
              multiplyFirst(parts[run][j], codes, b[2 * j], b[2 * j + 1]);
            else
              multiply(parts[run][j], codes, b[2 * j], b[2 * j + 1]);
        }
      if (first == 0)
        during();
      if (first + 2 == runs)
        behind();
#pragma unroll
      for (i32 run = 0; run < 2; ++run)
#pragma unroll
        for (i32 half = 0; half < 2; ++half) {
          f32 scale = scaleOf(held, (first + run) * groups / runs, half);
#pragma unroll
          for (i32 j = 0; j < octets; ++j)
#pragma unroll
            for (i32 i = 2 * half; i < 2 * half + 2; ++i)
              sums[j][i] = fma(scale, parts[run][j][i], sums[j][i]);
        }
      // Not last, or the sums would wait for it.
      if (first == 0)
        addExtra(sums, held, lane, extra);
    }
  }
};

template <typename C>
__device__ void quantLinear(const Layer<C> &layer, const i32 *live, i32 rows,
                            u8 *scratch) {
  if constexpr (C::tokens == kWideTokens) {
    wideRows<C, CodeStage<C>>(layer, live, rows, scratch);
  } else if constexpr (C::tokens == kMediumTokens && C::inClusters) {
    mediumClusters<C, QuantUnits<C>, CodeStage<C>>(layer, live, rows);
  } else if constexpr (C::tokens == kMediumTokens && C::isMedium) {
    mediumRows<C, QuantUnits<C>, CodeStage<C>>(layer, live, rows, scratch);
  } else if constexpr (C::tokens > 16) {
    manyRows<C, QuantUnits<C>>(layer, live, rows, scratch);
  } else {
    ResultSink<C> sink;
    fewRows<C, FewQuantUnits<C>>(layer, live, rows, scratch, sink);
  }
}

} // namespace tandem
