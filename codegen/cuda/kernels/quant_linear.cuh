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
// The weight comes as the tensor cores want it (the drawing is at
// #plan.fragment_codes): tiles of 16 outputs, each one stream of units of
// `steps` x 16 columns; in a unit the scales, then per step one word (8 bits:
// two) for every lane that holds its part of A:
//
//   4 bits   bits 4 i, 4 i + 16 of the word: low and high half of a[i]
//   8 bits   bytes 0..3 of word 0: a[0], a[1]; of word 1: a[2], a[3]
//
// Weights are A and tokens B, so 16 tokens waste nothing. Codes become bf16 by
// two instructions a pair, exactly: 4 bits under the exponent of 128 are
// 128 + code + 8, less 136. Zero points, small whole numbers, are taken off in
// the same instruction, and just as exactly. Codes that are 8-bit floats become
// bf16 by moving their bits. A group is summed by tensor cores, then times its
// scale added to the output in f32: scales are never rounded into weights.
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
// Kernels: few_rows.cuh up to 16 rows at a time, many_rows.cuh beyond,
// medium_rows.cuh for dozens and wide_rows.cuh for hundreds, which take scales
// into the weights.
//
// Floor: the weight, bits / 8 + 2 / group bytes a code.
//
// Called by quant_linear and fused_quant_linear.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "few_results.cuh"
#include "many_rows.cuh"
#include "medium_rows.cuh"
#include "wide_rows.cuh"

namespace tandem {

/// What expandNibbles() adds for the zero point \p zero, and expandBytes()
/// takes off.
__device__ inline u32 nibbleBias(f32 zero) {
  return packBf16(-136.0f - zero, -136.0f - zero);
}
__device__ inline f32 byteBias(f32 zero) { return 8388736.0f + zero; }

/// Two codes of 4 bits, at bits 0 and 16 of \p word, as bf16; \p bias is
/// -136 twice, less the zero point.
__device__ inline u32 expandNibbles(u32 word, u32 bias) {
  u32 biased, result;
  // (word & 0x000f000f) | 0x43004300: 128 + nibble.
  asm("lop3.b32 %0, %1, 0x000f000f, 0x43004300, 0xea;"
      : "=r"(biased)
      : "r"(word));
  // 1 * biased + bias.
  asm("fma.rn.bf16x2 %0, %1, %2, %3;"
      : "=r"(result)
      : "r"(biased), "r"(0x3f803f80u), "r"(bias));
  return result;
}

/// Bytes \p First and \p First + 1 of \p word, codes of 8 bits, as bf16; \p
/// bias is 2^23 + 128, and the zero point.
template <u32 First> __device__ u32 expandBytes(u32 word, f32 bias) {
  // 2^23 + byte, less the bias.
  f32 low = __uint_as_float(__byte_perm(word, 0x4b000000, 0x7440 | First));
  f32 high = __uint_as_float(__byte_perm(word, 0x4b000000, 0x7441 | First));
  return packBf16(low - bias, high - bias);
}

/// Bytes \p First and \p First + 1 of \p word, f8E4M3FN, as bf16: the same
/// sign, exponent and fraction, but for the exponent's bias, which is 7 and not
/// 127.
template <u32 First> __device__ u32 expandFloats(u32 word) {
  u32 spread = __byte_perm(word, 0, First << 4 | (First + 1) << 12 | 0x0404);
  u32 bits = (spread & 0x80008000u) | (spread >> 4 & 0x07f007f0u);
  u32 result;
  // Times 2^120; what has no exponent becomes exact, too.
  asm("fma.rn.bf16x2 %0, %1, %2, %3;"
      : "=r"(result)
      : "r"(bits), "r"(0x7b807b80u), "r"(0x80008000u));
  return result;
}

/// How the columns of a group of codes lie in units.
template <typename C> struct UnitLayout {
  /// Steps of 16 columns that a group takes, the last one filled up.
  static constexpr i32 groupSteps = ceilDiv(C::group, 16);
  /// Whether a unit holds whole groups; otherwise a group takes several units.
  static constexpr bool holdsGroups = 8 % groupSteps == 0;

  __device__ static constexpr i32 largestDivisor() {
    for (i32 divisor = 8; divisor > 1; --divisor)
      if (groupSteps % divisor == 0)
        return divisor;
    return 1;
  }

  static constexpr i32 steps = holdsGroups ? 8 : largestDivisor();
  static constexpr i32 groups = holdsGroups ? 8 / groupSteps : 1;
  static constexpr i32 stepsPerGroup = steps / groups;
  static constexpr i32 units =
      ceilDiv(C::columns / C::group * groupSteps, steps);

  /// Bytes of the scales, and of the zero points, which are as many.
  static constexpr i32 zeroOffset = 16 * groups * sizeof(typename C::Scale);
  static constexpr i32 scaleBytes = zeroOffset * (C::zeroPoints ? 2 : 1);
  static constexpr i32 words = steps * C::bits / 4;
  static constexpr i32 bytes = scaleBytes + words * kWarp * 4;
  /// Words of a lane that lie side by side.
  static constexpr i32 vector = words % 4 == 0 ? 4 : words % 2 == 0 ? 2 : 1;

  /// Whether x is read as it lies, without gaps at the ends of groups.
  static constexpr bool isDense = C::group % 16 == 0;
};

/// Units of a weight of codes.
template <typename C> struct QuantUnits : UnitLayout<C> {
  using Layout = UnitLayout<C>;

  /// Column \p inStep of step \p step of the layer; -1 where there is none.
  __device__ static i32 column(i32 step, i32 inStep) {
    i32 inGroup = step % Layout::groupSteps * 16 + inStep;
    i32 k = step / Layout::groupSteps * C::group + inGroup;
    return inGroup < C::group && k < C::columns ? k : -1;
  }

  /// Units are copied as they lie, as a whole.
  static constexpr bool isStretch = Layout::bytes % 16 == 0;
  /// Bytes from one unit and tile to the next, and where those of tile \p tile
  /// begin.
  static constexpr i32 unitStride = Layout::bytes;
  static constexpr i32 tileStride = Layout::units * Layout::bytes;
  __device__ static const u8 *tileOf(const u8 *weight, i32 tile) {
    return weight + u64(tile) * tileStride;
  }

  /// Starts the copies of the unit at \p from, by a warp.
  __device__ static void fetch(const u8 *from, i32, i32, i32, u8 *to) {
#pragma unroll
    for (i32 first = 0; first < Layout::bytes; first += kWarp * 16) {
      i32 offset = first + threadIdx.x % kWarp * 16;
      if (first + kWarp * 16 <= Layout::bytes || offset < Layout::bytes)
        copyAsync(to + offset, from + offset);
    }
  }

  /// A of a step from the words of this lane; zero points are those of outputs
  /// g and g + 8.
  __device__ static void expand(u32 (&a)[4], const u32 *words,
                                const f32 (&zeros)[2]) {
    if constexpr (C::floatCodes) {
      a[0] = expandFloats<0>(words[0]);
      a[1] = expandFloats<2>(words[0]);
      a[2] = expandFloats<0>(words[1]);
      a[3] = expandFloats<2>(words[1]);
    } else if constexpr (C::bits == 4) {
      u32 biases[2] = {0xc308c308u, 0xc308c308u};
      if constexpr (C::zeroPoints) {
        biases[0] = nibbleBias(zeros[0]);
        biases[1] = nibbleBias(zeros[1]);
      }
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        a[i] = expandNibbles(words[0] >> (4 * i), biases[i % 2]);
    } else {
      f32 biases[2] = {byteBias(zeros[0]), byteBias(zeros[1])};
      a[0] = expandBytes<0>(words[0], biases[0]);
      a[1] = expandBytes<2>(words[0], biases[1]);
      a[2] = expandBytes<0>(words[1], biases[0]);
      a[3] = expandBytes<2>(words[1], biases[1]);
    }
  }

  using Scales = Pack<typename C::Scale, Layout::groups>;
  /// Of output g all groups, then of output g + 8.
  __device__ static Scales loadScales(const u8 *from, i32 half) {
    i32 g = threadIdx.x % kWarp / 4;
    return loadPack<Layout::groups>(
        reinterpret_cast<const typename C::Scale *>(from) +
        (g * 2 + half) * Layout::groups);
  }

  /// Adds the unit at \p from to \p sums. \p load(b, step, j) gives B of a
  /// step of the unit for the tokens of sums[j] and sums[j + 1].
  template <i32 Tiles, typename Load>
  __device__ static void add(f32 (&sums)[Tiles][4], const u8 *from, Load load) {
    i32 lane = threadIdx.x % kWarp;
    Scales scales = loadScales(from, 0), scales8 = loadScales(from, 1);
    Scales zeros, zeros8;
    if constexpr (C::zeroPoints) {
      zeros = loadScales(from + Layout::zeroOffset, 0);
      zeros8 = loadScales(from + Layout::zeroOffset, 1);
    }
    const u32 *words =
        reinterpret_cast<const u32 *>(from + Layout::scaleBytes) +
        lane * Layout::vector;
    u32 held[Layout::words];
#pragma unroll
    for (i32 i = 0; i < Layout::words / Layout::vector; ++i) {
      auto part = loadPack<Layout::vector>(words + i * Layout::vector * kWarp);
#pragma unroll
      for (i32 j = 0; j < Layout::vector; ++j)
        held[i * Layout::vector + j] = part.at[j];
    }

#pragma unroll
    for (i32 group = 0; group < Layout::groups; ++group) {
      f32 parts[Tiles][4];
      f32 zero[2] = {0, 0};
      if constexpr (C::zeroPoints) {
        zero[0] = toFloat(zeros.at[group]);
        zero[1] = toFloat(zeros8.at[group]);
      }
#pragma unroll
      for (i32 i = 0; i < Layout::stepsPerGroup; ++i) {
        i32 step = group * Layout::stepsPerGroup + i;
        u32 a[4];
        expand(a, held + step * (C::bits / 4), zero);
#pragma unroll
        for (i32 j = 0; j < Tiles; j += 2) {
          u32 b[4];
          load(b, step, j);
#pragma unroll
          for (i32 k = 0; k < 2 && k < Tiles; ++k)
            if (i == 0)
              multiplyFirst(parts[j + k], a, b[2 * k], b[2 * k + 1]);
            else
              multiply(parts[j + k], a, b[2 * k], b[2 * k + 1]);
        }
      }
      f32 scale = toFloat(scales.at[group]),
          scale8 = toFloat(scales8.at[group]);
#pragma unroll
      for (i32 j = 0; j < Tiles; ++j)
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          sums[j][i] = fma(i < 2 ? scale : scale8, parts[j][i], sums[j][i]);
    }
  }
};

/// Half a unit of a tile, as a stage of wide_rows.cuh and medium_rows.cuh: the
/// scales and zero points of the whole unit, then the words of 4 steps. Codes
/// become numbers times their scales, rounded to bf16.
template <typename C> struct CodeStage {
  using Layout = UnitLayout<C>;
  using Scale = typename C::Scale;
  static constexpr i32 words = Layout::words / 2;
  static constexpr i32 wordBytes = words * kWarp * 4;
  static constexpr i32 bytes = Layout::scaleBytes + wordBytes;
  static constexpr i32 count = ceilDiv(C::columns, kWideColumns);
  static constexpr bool hasBf16Scales = kIsBf16<Scale>;

  __device__ static const u8 *tileOf(const u8 *weight, i32 tile) {
    return QuantUnits<C>::tileOf(weight, tile);
  }

  /// Starts the copies of this one of 16 threads; nothing where there are no
  /// \p outputs.
  __device__ static void fetch(const u8 *tile, i32 outputs, i32, i32 number,
                               u8 *to, i32 copier) {
    constexpr i32 each = kTileCopiers * 16;
    const u8 *scales = tile + u32(number / 2 * Layout::bytes + copier * 16);
    const u8 *words = scales + u32(number % 2 * wordBytes);
    to += copier * 16;
#pragma unroll
    for (i32 first = 0; first < bytes; first += each) {
      bool isScale = first + copier * 16 < Layout::scaleBytes;
      if (first + each <= bytes || first + copier * 16 < bytes)
        copyAsync(to + first, (isScale ? scales : words) + first, outputs > 0);
    }
  }

  struct Held {
    u32 words[CodeStage::words];
    /// Of outputs g and g + 8: both halves bf16, or one f32.
    u32 scales[2];
    /// The scales of both groups of this half of the unit.
    u32 pairs[2];
    f32 zeros[2];
  };

  __device__ static void load(Held &held, const u8 *from) {
    const u32 *lane = reinterpret_cast<const u32 *>(from + Layout::scaleBytes) +
                      threadIdx.x % kWarp * Layout::vector;
#pragma unroll
    for (i32 i = 0; i < words / Layout::vector; ++i) {
      auto part = loadPack<Layout::vector>(lane + i * Layout::vector * kWarp);
#pragma unroll
      for (i32 j = 0; j < Layout::vector; ++j)
        held.words[i * Layout::vector + j] = part.at[j];
    }
  }

  /// Whether half a unit has two groups, whose scales are read at once.
  static constexpr bool hasPairs =
      hasBf16Scales && Layout::groups == 4 && !C::zeroPoints;
  /// Where the scale of the first group of half \p half lies, for output g + 8
  /// i.
  __device__ static i32 placeOfScale(i32 half, i32 i) {
    i32 g = threadIdx.x % kWarp / 4;
    return (g * 2 + i) * Layout::groups +
           half * kWideSteps / Layout::stepsPerGroup;
  }

  /// Reads what is held of the scales of half \p half of the unit at \p from.
  __device__ static void loadScales(Held &held, const u8 *from, i32 half) {
    if constexpr (hasPairs)
#pragma unroll
      for (i32 i = 0; i < 2; ++i)
        held.pairs[i] = *reinterpret_cast<const u32 *>(
            from + placeOfScale(half, i) * sizeof(Scale));
  }

  /// Prepares step \p step of half \p half of the unit at \p from.
  __device__ static void begin(Held &held, const u8 *from, i32 step, i32 half) {
    constexpr i32 steps =
        Layout::stepsPerGroup < kWideSteps ? Layout::stepsPerGroup : kWideSteps;
    if (step % steps != 0)
      return;
#pragma unroll
    for (i32 i = 0; i < 2; ++i) {
      held.zeros[i] = 0;
      if constexpr (hasPairs) {
        held.scales[i] =
            __byte_perm(held.pairs[i], 0, step == 0 ? 0x1010 : 0x3232);
        continue;
      }
      i32 place = placeOfScale(half, i) + step / Layout::stepsPerGroup;
      Scale scale = reinterpret_cast<const Scale *>(from)[place];
      if constexpr (hasBf16Scales)
        held.scales[i] = scale.bits * 0x10001u;
      else
        held.scales[i] = __float_as_uint(toFloat(scale));
      if constexpr (C::zeroPoints)
        held.zeros[i] = toFloat(
            reinterpret_cast<const Scale *>(from + Layout::zeroOffset)[place]);
    }
  }

  /// Register \p i of A of step \p step.
  __device__ static void expand(u32 (&a)[4], const Held &held, const u8 *,
                                i32 step, i32 i) {
    u32 all[4];
    // What is not asked for is not computed.
    QuantUnits<C>::expand(all, held.words + step * (C::bits / 4), held.zeros);
    u32 scale = held.scales[i % 2], codes = all[i];
    if constexpr (hasBf16Scales)
      // Plus minus zero.
      asm("fma.rn.bf16x2 %0, %1, %2, %3;"
          : "=r"(a[i])
          : "r"(codes), "r"(scale), "r"(0x80008000u));
    else
      a[i] = packBf16(__uint_as_float(codes << 16) * __uint_as_float(scale),
                      __uint_as_float(codes & 0xffff0000u) *
                          __uint_as_float(scale));
  }
};

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
