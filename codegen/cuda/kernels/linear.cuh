//===- linear.cuh - Rows times a dense weight -----------------------------===//
//
//   y[r, n] = sum_k x[r, k] * w[n, k]
//
// x [rows, columns] bf16, w #plan.rows; what stands around the product is in
// layer.cuh.
//
// The weight lies row after row, rows filled up to 16 bytes. A unit is 128
// bytes of each of 16 rows, in shared memory with 16 bytes of gap:
//
//   unit   [row 0: 128 bytes + 16] [row 1] .. [row 15]
//
// Tensor cores multiply bf16. A weight of another type is the exact sum of bf16
// numbers, each multiplied on its own: f16 of two, f32 of three.
//
// Kernels: few_rows.cuh up to 16 rows at a time, many_rows.cuh beyond.
//
// Floor: the weight.
//
// Called by linear and fused_linear.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "few_results.cuh"
#include "many_rows.cuh"

namespace tandem {

template <typename Element> constexpr i32 kParts = 1;
template <> constexpr i32 kParts<f16> = 2;
template <> constexpr i32 kParts<f32> = 3;

/// The bf16 parts of two numbers: \p parts[i] holds part i of both.
template <i32 Parts>
__device__ void splitParts(u32 (&parts)[Parts], f32 low, f32 high) {
#pragma unroll
  for (i32 part = 0; part < Parts; ++part) {
    parts[part] = packBf16(low, high);
    low -= __uint_as_float(parts[part] << 16);
    high -= __uint_as_float(parts[part] & 0xffff0000u);
  }
}

/// Units of a dense weight.
template <typename C> struct DenseUnits {
  using Element = typename C::Element;
  static constexpr i32 steps = 128 / i32(sizeof(Element)) / 16;
  static constexpr i32 units = ceilDiv(C::columns, steps * 16);
  /// What a row takes in memory, and what one of a unit does in shared memory.
  static constexpr i32 rowElements =
      roundUp(C::columns, 16 / i32(sizeof(Element)));
  static constexpr i32 rowBytes = 128 + 16;
  static constexpr i32 bytes = 16 * rowBytes;
  static constexpr bool isDense = true;

  /// Column \p inStep of step \p step of the layer; -1 where there is none.
  __device__ static i32 column(i32 step, i32 inStep) {
    i32 k = step * 16 + inStep;
    return k < C::columns ? k : -1;
  }

  static constexpr bool isStretch = false;
  /// Bytes from one unit and tile to the next, and where those of tile \p tile
  /// begin.
  static constexpr i32 unitStride = 128;
  static constexpr i32 tileStride = 16 * rowElements * i32(sizeof(Element));
  __device__ static const u8 *tileOf(const u8 *weight, i32 tile) {
    return weight + u64(tile) * tileStride;
  }

  /// Starts the copies of unit \p unit of tile \p tile, which is at \p from, by
  /// a warp. Outputs from \p width on and columns behind the last are zeros.
  __device__ static void fetch(const u8 *from, i32 width, i32 tile, i32 unit,
                               u8 *to) {
    constexpr i32 ofRow = rowElements * i32(sizeof(Element));
#pragma unroll
    for (i32 first = 0; first < 16 * 8; first += kWarp) {
      i32 piece = first + threadIdx.x % kWarp, row = piece / 8;
      i32 inRow = piece % 8 * 16;
      bool exists = tile * 16 + row < width && unit * 128 + inRow < ofRow;
      copyAsync(to + row * rowBytes + inRow,
                exists ? from + row * ofRow + inRow : from, exists);
    }
  }

  /// A of columns \p k .. \p k + 15, in parts.
  __device__ static void expand(u32 (&a)[kParts<Element>][4], const u8 *rows,
                                i32 k) {
    constexpr i32 parts = kParts<Element>;
    if constexpr (parts == 1) {
      loadA(a[0], reinterpret_cast<const bf16 *>(rows), rowBytes / 2, k);
    } else {
      i32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
#pragma unroll
      for (i32 i = 0; i < 4; ++i) {
        auto from = reinterpret_cast<const Element *>(rows + (g + i % 2 * 8) *
                                                                 rowBytes);
        auto pair = loadPack<2>(from + k + 2 * t + i / 2 * 8);
        u32 split[parts];
        splitParts(split, toFloat(pair.at[0]), toFloat(pair.at[1]));
#pragma unroll
        for (i32 part = 0; part < parts; ++part)
          a[part][i] = split[part];
      }
    }
  }

  /// Nothing else is known of units.
  static constexpr bool hasExtra = false;
  static constexpr bool holdsAll = false;
  struct Extra {};
  /// Tokens and sums are what they are, unless others have left the tokens.
  static constexpr f32 tokenFactor = C::fromFragments ? kFragmentFactor : 1;
  static constexpr u32 tokenPair = 0x3f803f80u;
  __device__ static f32 sumFactor(i32) { return 1 / tokenFactor; }
  /// Where a unit lies, which is all that is held of it.
  struct Held {
    u32 at;
  };
  __device__ static void holdCodes(Held &, u32, i32) {}
  __device__ static void holdScales(Held &held, u32 at, i32) { held.at = at; }
  /// As that of quant_linear.cuh.
  template <i32 Octets, typename Load, typename During, typename Behind>
  __device__ static void addHeld(f32 (&sums)[Octets][4], const Held &held, i32,
                                 const Extra &, Load load, During during,
                                 Behind behind) {
    add(sums, static_cast<const u8 *>(__cvta_shared_to_generic(held.at)),
        [&](u32(&b)[4], i32 step, i32) { load(b, step); });
    during();
    behind();
  }

  /// Adds the unit at \p from to \p sums. \p load(b, step, j) gives B of a
  /// step of the unit for the tokens of sums[j] and sums[j + 1].
  template <i32 Tiles, typename Load>
  __device__ static void add(f32 (&sums)[Tiles][4], const u8 *from, Load load) {
#pragma unroll
    for (i32 step = 0; step < steps; ++step) {
      u32 a[kParts<Element>][4];
      expand(a, from, step * 16);
#pragma unroll
      for (i32 j = 0; j < Tiles; j += 2) {
        u32 b[4];
        load(b, step, j);
#pragma unroll
        for (i32 part = 0; part < kParts<Element>; ++part)
#pragma unroll
          for (i32 k = 0; k < 2 && k < Tiles; ++k)
            multiply(sums[j + k], a[part], b[2 * k], b[2 * k + 1]);
      }
    }
  }
};

template <typename C>
__device__ void linear(const Layer<C> &layer, const i32 *live, i32 rows,
                       u8 *scratch) {
  if constexpr (C::tokens > 16) {
    manyRows<C, DenseUnits<C>>(layer, live, rows, scratch);
  } else {
    ResultSink<C> sink;
    fewRows<C, DenseUnits<C>>(layer, live, rows, scratch, sink);
    if constexpr (C::isBeside)
      waitForEarlierKernels();
  }
}

} // namespace tandem
