//===- code_units.cuh - Weights of integer codes --------------------------===//
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
// bf16 by moving their bits.
//
// Two ways to add them: QuantUnits sums a group by tensor cores, then adds it
// times its scale to the output in f32, so scales are never rounded into
// weights. CodeStage, half a unit, has numbers times their scales as weights,
// rounded to bf16, for kernels whose many tokens make that the cheaper way.
//
// Used by quant_linear.
//
//===----------------------------------------------------------------------===//

#pragma once

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

/// Half a unit of a tile, as a stage of wide_rows.cuh and those for dozens: the
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

  /// Whether a code becomes a number where it lies in its word, by one
  /// instruction: the bf16 that its bits are, 2^-133 times the code or 16 times
  /// that, times the scale, which is so many times larger that the product is
  /// 2^-37 of what it should be, less eight times the scale. It is rounded like
  /// the product itself for scales from 2^-89 to 2^31, as those of all models
  /// are.
  static constexpr bool isRaw = C::bits == 4 && !C::zeroPoints && hasBf16Scales;
  /// What sums are multiplied by: 2^37.
  static constexpr f32 sumFactor = isRaw ? 137438953472.0f : 1.0f;

  struct Held {
    u32 words[CodeStage::words];
    /// Of outputs g and g + 8: both halves bf16, or one f32.
    u32 scales[2];
    /// What is added to codes as they lie: -8 times the scale, twice.
    u32 less[2];
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
        enlarge(held, i);
        continue;
      }
      i32 place = placeOfScale(half, i) + step / Layout::stepsPerGroup;
      Scale scale = reinterpret_cast<const Scale *>(from)[place];
      if constexpr (hasBf16Scales)
        held.scales[i] = scale.bits * 0x10001u;
      else
        held.scales[i] = __float_as_uint(toFloat(scale));
      enlarge(held, i);
      if constexpr (C::zeroPoints)
        held.zeros[i] = toFloat(
            reinterpret_cast<const Scale *>(from + Layout::zeroOffset)[place]);
    }
  }

  /// Prepares the scale of output g + 8 \p i for codes as they lie: 2^96 times
  /// the scale, 2^92 times it for codes that are 16 times themselves.
  __device__ static void enlarge(Held &held, i32 i) {
    if constexpr (isRaw) {
      held.scales[i] =
          multiplyPair(held.scales[i], i == 0 ? 0x6f806f80u : 0x6d806d80u);
      // -2^-130, -2^-126.
      held.less[i] =
          multiplyPair(held.scales[i], i == 0 ? 0x80088008u : 0x80808080u);
    }
  }

  /// Register \p i of A of step \p step.
  __device__ static void expand(u32 (&a)[4], const Held &held, const u8 *,
                                i32 step, i32 i) {
    if constexpr (isRaw) {
      u32 word = held.words[step];
      u32 codes =
          (i < 2 ? word : word >> 8) & (i % 2 == 0 ? 0x000f000fu : 0x00f000f0u);
      asm("fma.rn.bf16x2 %0, %1, %2, %3;"
          : "=r"(a[i])
          : "r"(codes), "r"(held.scales[i % 2]), "r"(held.less[i % 2]));
    } else {
      u32 all[4];
      // What is not asked for is not computed.
      QuantUnits<C>::expand(all, held.words + step * (C::bits / 4), held.zeros);
      u32 scale = held.scales[i % 2], codes = all[i];
      if constexpr (hasBf16Scales)
        a[i] = multiplyPair(codes, scale);
      else
        a[i] = packBf16(__uint_as_float(codes << 16) * __uint_as_float(scale),
                        __uint_as_float(codes & 0xffff0000u) *
                            __uint_as_float(scale));
    }
  }
};

} // namespace tandem
