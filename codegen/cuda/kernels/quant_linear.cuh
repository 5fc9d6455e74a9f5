//===- quant_linear.cuh - Rows times a weight of integer codes ------------===//
//
//   y[r, n] = sum_k x[r, k] * code[n, k] * scale[n, k / group]
//
// x [rows, columns] bf16, w #plan.fragment_codes -> y [rows, outputs].
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
// 128 + code + 8, less 136. A group is summed by tensor cores, then times its
// scale added to the output in f32: scales are never rounded into weights.
//
// A block: 8 warps of 16 outputs, `tokens` tokens, one slice of the units. A
// ring of `stages` units in shared memory, filled by asynchronous copies:
//
//   stage   [warp 0: unit] .. [warp 7: unit] [x: tokens x (16 steps + 8) bf16]
//
// Floor: the weight (bits / 8 + 2 / group bytes a code) for every `tokens`
// rows. x is read once for every 128 outputs, from the L2.
//
// Grid: blocks of 128 outputs, slices, blocks of tokens. Called by
// quant_linear.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "mma.cuh"
#include "outputs.cuh"

namespace tandem {

/// Two codes of 4 bits, at bits 0 and 16 of \p word, as bf16.
__device__ inline u32 expandNibbles(u32 word) {
  u32 biased, result;
  // (word & 0x000f000f) | 0x43004300: 128 + nibble.
  asm("lop3.b32 %0, %1, 0x000f000f, 0x43004300, 0xea;"
      : "=r"(biased)
      : "r"(word));
  // 1 * biased - 136.
  asm("fma.rn.bf16x2 %0, %1, %2, %3;"
      : "=r"(result)
      : "r"(biased), "r"(0x3f803f80u), "r"(0xc308c308u));
  return result;
}

/// Bytes \p First and \p First + 1 of \p word, codes of 8 bits, as bf16.
template <u32 First> __device__ u32 expandBytes(u32 word) {
  // 2^23 + byte, less 2^23 + 128.
  f32 low = __uint_as_float(__byte_perm(word, 0x4b000000, 0x7440 | First));
  f32 high = __uint_as_float(__byte_perm(word, 0x4b000000, 0x7441 | First));
  return packBf16(low - 8388736.0f, high - 8388736.0f);
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

  static constexpr i32 scaleBytes = 16 * groups * sizeof(typename C::Scale);
  static constexpr i32 words = steps * C::bits / 4;
  static constexpr i32 bytes = scaleBytes + words * kWarp * 4;
  /// Words of a lane that lie side by side.
  static constexpr i32 vector = words % 4 == 0 ? 4 : words % 2 == 0 ? 2 : 1;

  /// Whether x is read as it lies, without gaps at the ends of groups.
  static constexpr bool isDense = C::group % 16 == 0;
};

template <typename C> struct QuantLinear {
  using Unit = UnitLayout<C>;
  static constexpr i32 warps = kLinearThreads / kWarp;
  static constexpr i32 tiles = C::tokens / 8;
  static constexpr i32 unitColumns = Unit::steps * 16;
  static constexpr i32 stride = unitColumns + 8;
  static constexpr i32 weightBytes = warps * Unit::bytes;
  static constexpr i32 stageBytes =
      weightBytes + C::tokens * stride * i32(sizeof(bf16));
  /// Dynamic shared memory of a block.
  static constexpr i32 sharedBytes = C::stages * stageBytes;

  const bf16 *x;
  const u8 *weight;
  u8 *shared;
  i32 firstToken, live;

  __device__ i32 tile() const {
    return blockIdx.x * warps + threadIdx.x / kWarp;
  }

  /// Starts the copies of unit \p unit to stage \p stage.
  __device__ void fetch(i32 unit, i32 stage) const {
    u8 *to = shared + stage * stageBytes;
    i32 lane = threadIdx.x % kWarp;
    if (tile() < ceilDiv(C::outputs, 16)) {
      const u8 *from =
          weight + (u64(tile()) * Unit::units + unit) * Unit::bytes;
      u8 *mine = to + threadIdx.x / kWarp * Unit::bytes;
#pragma unroll
      for (i32 first = 0; first < Unit::bytes; first += kWarp * 16) {
        i32 offset = first + lane * 16;
        if (Unit::bytes % (kWarp * 16) == 0 || offset < Unit::bytes)
          copyAsync(mine + offset, from + offset);
      }
    }
    fetchTokens(unit, reinterpret_cast<bf16 *>(to + weightBytes));
  }

  __device__ void fetchTokens(i32 unit, bf16 *to) const {
    if constexpr (Unit::isDense) {
      i32 first = unit * unitColumns;
      copyTile<C::tokens, unitColumns, stride, kLinearThreads, true>(
          to, C::columns - first, [&](i32 row) -> const bf16 * {
            i32 token = firstToken + row;
            return token < live ? x + u64(token) * C::columns + first : nullptr;
          });
    } else {
      // Columns of steps that reach beyond their group are zeros.
      for (i32 place = threadIdx.x; place < C::tokens * unitColumns;
           place += kLinearThreads) {
        i32 row = place / unitColumns, column = place % unitColumns;
        i32 step = unit * Unit::steps + column / 16;
        i32 inGroup = step % Unit::groupSteps * 16 + column % 16;
        i32 k = step / Unit::groupSteps * C::group + inGroup;
        i32 token = firstToken + row;
        bf16 value = {0};
        if (token < live && inGroup < C::group && k < C::columns)
          value = x[u64(token) * C::columns + k];
        to[row * stride + column] = value;
      }
    }
  }

  /// A of a step from the words of this lane.
  __device__ static void expand(u32 (&a)[4], const u32 *words) {
    if constexpr (C::bits == 4) {
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        a[i] = expandNibbles(words[0] >> (4 * i));
    } else {
      a[0] = expandBytes<0>(words[0]);
      a[1] = expandBytes<2>(words[0]);
      a[2] = expandBytes<0>(words[1]);
      a[3] = expandBytes<2>(words[1]);
    }
  }

  /// Adds the unit in stage \p stage to \p sums.
  __device__ void addUnit(f32 (&sums)[tiles][4], i32 stage) const {
    const u8 *from = shared + stage * stageBytes;
    const bf16 *tokens = reinterpret_cast<const bf16 *>(from + weightBytes);
    from += threadIdx.x / kWarp * Unit::bytes;
    i32 lane = threadIdx.x % kWarp, g = lane / 4;

    // Of output g all groups, then of output g + 8.
    auto scales = loadPack<Unit::groups>(
        reinterpret_cast<const typename C::Scale *>(from) +
        g * 2 * Unit::groups);
    auto scales8 = loadPack<Unit::groups>(
        reinterpret_cast<const typename C::Scale *>(from) +
        (g * 2 + 1) * Unit::groups);
    const u32 *words = reinterpret_cast<const u32 *>(from + Unit::scaleBytes) +
                       lane * Unit::vector;
    u32 held[Unit::words];
#pragma unroll
    for (i32 i = 0; i < Unit::words / Unit::vector; ++i) {
      auto part = loadPack<Unit::vector>(words + i * Unit::vector * kWarp);
#pragma unroll
      for (i32 j = 0; j < Unit::vector; ++j)
        held[i * Unit::vector + j] = part.at[j];
    }

#pragma unroll
    for (i32 group = 0; group < Unit::groups; ++group) {
      f32 parts[tiles][4] = {};
#pragma unroll
      for (i32 i = 0; i < Unit::stepsPerGroup; ++i) {
        i32 step = group * Unit::stepsPerGroup + i;
        u32 a[4];
        expand(a, held + step * (C::bits / 4));
#pragma unroll
        for (i32 j = 0; j < tiles; j += 2) {
          u32 b[4];
          loadB(b, tokens + j * 8 * stride, stride, step * 16);
          multiply(parts[j], a, b[0], b[1]);
          multiply(parts[j + 1], a, b[2], b[3]);
        }
      }
      f32 scale = toFloat(scales.at[group]),
          scale8 = toFloat(scales8.at[group]);
#pragma unroll
      for (i32 j = 0; j < tiles; ++j)
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          sums[j][i] = fma(i < 2 ? scale : scale8, parts[j][i], sums[j][i]);
    }
  }

  /// Sums of the units [begin, end).
  __device__ void addUnits(f32 (&sums)[tiles][4], i32 begin, i32 end) const {
#pragma unroll
    for (i32 i = 0; i < C::stages - 1; ++i) {
      if (begin + i < end)
        fetch(begin + i, i);
      commitCopies();
    }
    i32 stage = 0;
    for (i32 unit = begin; unit < end; ++unit) {
      waitForCopies<C::stages - 2>();
      __syncthreads();
      // The stage that everybody has just left.
      i32 ahead = unit + C::stages - 1;
      if (ahead < end)
        fetch(ahead, stage == 0 ? C::stages - 1 : stage - 1);
      commitCopies();
      addUnit(sums, stage);
      stage = stage + 1 == C::stages ? 0 : stage + 1;
    }
    waitForCopies<0>();
  }
};

template <typename C>
__device__ void quantLinear(const bf16 *x, const u8 *weight,
                            typename C::Result *y, const i32 *live, i32 rows,
                            f32 *scratch, u32 *tickets) {
  extern __shared__ __align__(128) u8 shared[];
  using Layer = QuantLinear<C>;
  i32 count = liveRows(live, rows);
  i32 firstToken = blockIdx.z * C::tokens;
  if (firstToken >= count)
    return;
  Layer layer = {x, weight, shared, firstToken, count};
  f32 sums[Layer::tiles][4] = {};
  constexpr i32 units = Layer::Unit::units;
  i32 slice = blockIdx.y;
  layer.addUnits(sums, slice * units / C::slices,
                 (slice + 1) * units / C::slices);
  if (addSlices<C::slices>(sums, scratch, tickets))
    writeOutputs<C::outputs>(sums, y, firstToken, count);
}

} // namespace tandem
