//===- linear.cuh - Rows times a dense weight -----------------------------===//
//
//   y[r, n] = sum_k x[r, k] * w[n, k]
//
// x [rows, columns] bf16, w #plan.rows -> y [rows, outputs].
//
// The weight lies row after row, rows filled up to 16 bytes. A block computes
// 128 outputs of `tokens` tokens over one slice of the columns; per stage 128
// bytes of every row:
//
//   stage   [128 rows: 128 bytes + 16 of gap] [x: tokens x (columns + 8) bf16]
//
// Tensor cores multiply bf16. A weight of another type is the exact sum of bf16
// numbers, each multiplied on its own: f16 of two, f32 of three.
//
// Floor: the weight, once for every `tokens` rows.
//
// Grid: blocks of 128 outputs, slices, blocks of tokens. Called by linear.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "mma.cuh"
#include "outputs.cuh"

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

template <typename C> struct Linear {
  using Element = typename C::Element;
  static constexpr i32 tiles = C::tokens / 8;
  /// Columns of a stage, and what a row of the weight takes in memory.
  static constexpr i32 stageColumns = 128 / sizeof(Element);
  static constexpr i32 rowElements =
      roundUp(C::columns, 16 / i32(sizeof(Element)));
  static constexpr i32 stages = ceilDiv(C::columns, stageColumns);

  static constexpr i32 rowBytes = 128 + 16;
  static constexpr i32 stride = stageColumns + 8;
  static constexpr i32 weightBytes = kLinearOutputs * rowBytes;
  static constexpr i32 stageBytes =
      weightBytes + C::tokens * stride * i32(sizeof(bf16));
  /// Dynamic shared memory of a block.
  static constexpr i32 sharedBytes = C::stages * stageBytes;

  const bf16 *x;
  const Element *weight;
  u8 *shared;
  i32 firstToken, live;

  /// Starts the copies of the columns of stage \p index to stage \p stage.
  __device__ void fetch(i32 index, i32 stage) const {
    u8 *to = shared + stage * stageBytes;
    i32 column = index * stageColumns;
    constexpr i32 pieces = kLinearOutputs * 8;
#pragma unroll
    for (i32 first = 0; first < pieces; first += kLinearThreads) {
      i32 piece = first + threadIdx.x, row = piece / 8;
      i32 at = column + piece % 8 * (16 / i32(sizeof(Element)));
      i32 output = blockIdx.x * kLinearOutputs + row;
      bool exists = output < C::outputs && at < rowElements;
      copyAsync(to + row * rowBytes + piece % 8 * 16,
                exists ? weight + u64(output) * rowElements + at : weight,
                exists);
    }
    copyTile<C::tokens, stageColumns, stride, kLinearThreads,
             C::columns % 8 == 0>(
        reinterpret_cast<bf16 *>(to + weightBytes), C::columns - column,
        [&](i32 row) -> const bf16 * {
          i32 token = firstToken + row;
          return token < live ? x + u64(token) * C::columns + column : nullptr;
        });
  }

  /// A of columns \p k .. \p k + 15, in parts.
  __device__ static void loadWeight(u32 (&a)[kParts<Element>][4],
                                    const u8 *rows, i32 k) {
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

  __device__ void addStage(f32 (&sums)[tiles][4], i32 stage) const {
    const u8 *from = shared + stage * stageBytes;
    const bf16 *tokens = reinterpret_cast<const bf16 *>(from + weightBytes);
    const u8 *rows = from + threadIdx.x / kWarp * 16 * rowBytes;
#pragma unroll
    for (i32 k = 0; k < stageColumns; k += 16) {
      u32 a[kParts<Element>][4];
      loadWeight(a, rows, k);
#pragma unroll
      for (i32 j = 0; j < tiles; j += 2) {
        u32 b[4];
        loadB(b, tokens + j * 8 * stride, stride, k);
#pragma unroll
        for (i32 part = 0; part < kParts<Element>; ++part) {
          multiply(sums[j], a[part], b[0], b[1]);
          multiply(sums[j + 1], a[part], b[2], b[3]);
        }
      }
    }
  }

  /// Sums of the stages [begin, end).
  __device__ void addStages(f32 (&sums)[tiles][4], i32 begin, i32 end) const {
#pragma unroll
    for (i32 i = 0; i < C::stages - 1; ++i) {
      if (begin + i < end)
        fetch(begin + i, i);
      commitCopies();
    }
    i32 stage = 0;
    for (i32 index = begin; index < end; ++index) {
      waitForCopies<C::stages - 2>();
      __syncthreads();
      // The stage that everybody has just left.
      i32 ahead = index + C::stages - 1;
      if (ahead < end)
        fetch(ahead, stage == 0 ? C::stages - 1 : stage - 1);
      commitCopies();
      addStage(sums, stage);
      stage = stage + 1 == C::stages ? 0 : stage + 1;
    }
    waitForCopies<0>();
  }
};

template <typename C>
__device__ void linear(const bf16 *x, const typename C::Element *weight,
                       typename C::Result *y, const i32 *live, i32 rows,
                       f32 *scratch, u32 *tickets) {
  extern __shared__ __align__(128) u8 shared[];
  using Layer = Linear<C>;
  i32 count = liveRows(live, rows);
  i32 firstToken = blockIdx.z * C::tokens;
  if (firstToken >= count)
    return;
  Layer layer = {x, weight, shared, firstToken, count};
  f32 sums[Layer::tiles][4] = {};
  i32 slice = blockIdx.y;
  layer.addStages(sums, slice * Layer::stages / C::slices,
                  (slice + 1) * Layer::stages / C::slices);
  if (addSlices<C::slices>(sums, scratch, tickets))
    writeOutputs<C::outputs>(sums, y, firstToken, count);
}

} // namespace tandem
