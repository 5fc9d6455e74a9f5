//===- elementwise.cuh - silu, sigmoid, add, mul --------------------------===//
//
// One number from one or two, all of the same type, computed in f32. x, y
// [rows, columns]; the live rows are one stretch of memory.
//
// Floor: two or three times rows * columns numbers.
//
// Grid: a block for every threads * pack numbers. Called by silu, sigmoid, add,
// mul.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "common.cuh"

namespace tandem {

// Quotients to two units in the last place.
struct Silu {
  __device__ static f32 apply(f32 x) { return __fdividef(x, 1.0f + expf(-x)); }
};
struct Sigmoid {
  __device__ static f32 apply(f32 x) {
    return __fdividef(1.0f, 1.0f + expf(-x));
  }
};
struct Add {
  __device__ static f32 apply(f32 a, f32 b) { return a + b; }
};
struct Mul {
  __device__ static f32 apply(f32 a, f32 b) { return a * b; }
};

/// The pack of numbers of this thread, or a place behind the live rows.
template <typename C, typename T>
__device__ u64 firstElement(const i32 *live, i32 rows, bool &exists) {
  constexpr i32 pack = packSize<T>(C::columns);
  u64 place = (u64(blockIdx.x) * blockDim.x + threadIdx.x) * pack;
  exists = place < u64(liveRows(live, rows)) * C::columns;
  return place;
}

template <typename C, typename Op, typename T>
__device__ void unary(const T *x, T *y, const i32 *live, i32 rows) {
  constexpr i32 pack = packSize<T>(C::columns);
  bool exists;
  u64 place = firstElement<C, T>(live, rows, exists);
  if (!exists)
    return;
  auto values = loadPack<pack>(x + place);
#pragma unroll
  for (i32 i = 0; i < pack; ++i)
    values.at[i] = fromFloat<T>(Op::apply(toFloat(values.at[i])));
  storePack(y + place, values);
}

template <typename C, typename Op, typename T>
__device__ void binary(const T *a, const T *b, T *y, const i32 *live,
                       i32 rows) {
  constexpr i32 pack = packSize<T>(C::columns);
  bool exists;
  u64 place = firstElement<C, T>(live, rows, exists);
  if (!exists)
    return;
  auto left = loadPack<pack>(a + place);
  auto right = loadPack<pack>(b + place);
#pragma unroll
  for (i32 i = 0; i < pack; ++i)
    left.at[i] =
        fromFloat<T>(Op::apply(toFloat(left.at[i]), toFloat(right.at[i])));
  storePack(y + place, left);
}

} // namespace tandem
