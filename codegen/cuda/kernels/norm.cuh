//===- norm.cuh - Norms of runs of columns --------------------------------===//
//
// Every run of `dim` columns of a row is a vector:
//
//   x   row r: [run 0: dim numbers][run 1: dim numbers] ...
//
//   rms_norm         y = x / sqrt(mean(x^2) + eps) * (w + offset)
//   gated_rms_norm   y = x / sqrt(mean(x^2) + eps) * w * silu(gate)
//   l2_norm          y = x / sqrt(sum(x^2) + eps)
//
// x, gate, y [rows, columns], w f32 [dim]. Everything between load and store is
// f32. A run is summed by one warp, or by a block when it is long: every thread
// its packs in order, then across threads as sumBlock says.
//
// Floor: two (gated: three) times rows * columns numbers. The second read of x
// comes from the cache.
//
// Grid: rows, blocks of runs. Called by rms_norm, gated_rms_norm, l2_norm.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "common.cuh"

namespace tandem {

__device__ inline f32 silu(f32 x) { return x / (1.0f + expf(-x)); }

enum class Norm { Rms, GatedRms, L2 };

template <typename C, Norm Kind, typename T>
__device__ void normalize(const T *x, const T *gate, const f32 *weight, T *y,
                          const i32 *live, i32 rows) {
  constexpr i32 runs = C::columns / C::dim;
  constexpr i32 perBlock = C::threads / C::threadsPerRun;
  constexpr i32 pack = packSize<T>(C::dim);
  i32 row = blockIdx.x;
  i32 run = blockIdx.y * perBlock + threadIdx.x / C::threadsPerRun;
  // A warp or a block as a whole stays or goes.
  if (row >= liveRows(live, rows) || run >= runs)
    return;
  u64 base = u64(row) * C::columns + run * C::dim;
  i32 first = threadIdx.x % C::threadsPerRun * pack;
  constexpr i32 step = C::threadsPerRun * pack;

  f32 squares = 0;
  for (i32 column = first; column < C::dim; column += step) {
    auto values = loadPack<pack>(x + base + column);
#pragma unroll
    for (i32 i = 0; i < pack; ++i)
      squares = fma(toFloat(values.at[i]), toFloat(values.at[i]), squares);
  }
  if constexpr (C::threadsPerRun == kWarp)
    squares = sumLanes(squares);
  else
    squares = sumBlock<C::threadsPerRun>(squares);
  if constexpr (Kind != Norm::L2)
    squares /= f32(C::dim);
  f32 factor = 1.0f / sqrtf(squares + C::eps);

  for (i32 column = first; column < C::dim; column += step) {
    auto values = loadPack<pack>(x + base + column);
    Pack<T, pack> gates;
    if constexpr (Kind == Norm::GatedRms)
      gates = loadPack<pack>(gate + base + column);
#pragma unroll
    for (i32 i = 0; i < pack; ++i) {
      f32 value = toFloat(values.at[i]) * factor;
      if constexpr (Kind == Norm::Rms)
        value *= weight[column + i] + C::offset;
      if constexpr (Kind == Norm::GatedRms)
        value = value * weight[column + i] * silu(toFloat(gates.at[i]));
      values.at[i] = fromFloat<T>(value);
    }
    storePack(y + base + column, values);
  }
}

template <typename C, typename T>
__device__ void rmsNorm(const T *x, const f32 *weight, T *y, const i32 *live,
                        i32 rows) {
  normalize<C, Norm::Rms, T>(x, nullptr, weight, y, live, rows);
}

template <typename C, typename T>
__device__ void gatedRmsNorm(const T *x, const T *gate, const f32 *weight, T *y,
                             const i32 *live, i32 rows) {
  normalize<C, Norm::GatedRms, T>(x, gate, weight, y, live, rows);
}

template <typename C, typename T>
__device__ void l2Norm(const T *x, T *y, const i32 *live, i32 rows) {
  normalize<C, Norm::L2, T>(x, nullptr, nullptr, y, live, rows);
}

} // namespace tandem
