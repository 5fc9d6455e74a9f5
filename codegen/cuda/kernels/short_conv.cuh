//===- short_conv.cuh - Causal depthwise convolution with a cache ---------===//
//
//   y[r, c] = sum_j w[j, c] * u[r + j - (taps - 1), c]
//
// u are the rows before this call and then those of x:
//
//   cache   [taps - 1 committed rows][pending rows of the last call]
//            `--- slides by the accepted pending rows ---'
//
// x, y [rows, channels], w f32 [taps][channels], accepted [1] i32, cache
// [taps - 1 + pending][channels] in the type of x. The cache is left with the
// taps - 1 rows before x and the rows of x as pending; with commit, with the
// last taps - 1 rows of all. Sums are f32, first tap first.
//
// Floor: twice rows * channels numbers, and the cache.
//
// Grid: a thread a channel, which walks down the rows. Called by short_conv.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "common.cuh"

namespace tandem {

template <typename C, typename T>
__device__ void shortConv(const T *x, const f32 *weight, const i32 *accepted,
                          T *y, T *cache, const i32 *live, i32 rows) {
  i32 channel = blockIdx.x * blockDim.x + threadIdx.x;
  if (channel >= C::channels)
    return;
  constexpr i32 before = C::taps - 1;
  i32 count = liveRows(live, rows);
  i32 kept = min(max(*accepted, 0), C::pending);

  f32 taps[C::taps];
#pragma unroll
  for (i32 tap = 0; tap < C::taps; ++tap)
    taps[tap] = weight[tap * C::channels + channel];
  // One more than is needed, so that one tap is no special case.
  T window[C::taps];
#pragma unroll
  for (i32 i = 0; i < before; ++i)
    window[i] = cache[(kept + i) * C::channels + channel];
  auto keepWindow = [&] {
#pragma unroll
    for (i32 i = 0; i < before; ++i)
      cache[i * C::channels + channel] = window[i];
  };
  if constexpr (!C::commit)
    keepWindow();

  for (i32 row = 0; row < count; ++row) {
    T here = x[u64(row) * C::channels + channel];
    window[before] = here;
    f32 sum = taps[0] * toFloat(window[0]);
#pragma unroll
    for (i32 tap = 1; tap < C::taps; ++tap)
      sum = fma(taps[tap], toFloat(window[tap]), sum);
    y[u64(row) * C::channels + channel] = fromFloat<T>(sum);
    if constexpr (!C::commit)
      cache[(before + row) * C::channels + channel] = here;
#pragma unroll
    for (i32 i = 0; i < before; ++i)
      window[i] = window[i + 1];
  }
  if constexpr (C::commit)
    keepWindow();
}

} // namespace tandem
