//===- rope.cuh - Rotary position embedding -------------------------------===//
//
// Row r stands at position start + r. Of every head the first `dims` columns
// turn, column j with column j + dims / 2; the others pass.
//
//   x row     [head 0: dims turned | rest] [head 1: ..] ..
//   table     f32 [position][cos 0 .. cos dims/2-1 | sin 0 .. sin dims/2-1]
//
// x, y [rows, columns], start [1] i32. Positions beyond the table take its last
// row. Products and sum are f32, rounded once.
//
// Floor: twice rows * columns numbers, rows * dims * 4 bytes of the table.
//
// Grid: a block a row. Called by rope.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "common.cuh"

namespace tandem {

template <typename C, typename T>
__device__ void rope(const T *x, const i32 *start, const f32 *table, T *y,
                     const i32 *live, i32 rows) {
  i32 row = blockIdx.x;
  if (row >= liveRows(live, rows))
    return;
  constexpr i32 half = C::dims / 2;
  i32 position = min(max(*start, 0) + row, C::positions - 1);
  const f32 *cosines = table + u64(position) * C::dims;
  x += u64(row) * C::columns;
  y += u64(row) * C::columns;
  for (i32 column = threadIdx.x; column < C::columns; column += blockDim.x) {
    i32 j = column % C::headDim;
    if (j >= C::dims) {
      y[column] = x[column];
    } else if (j < half) {
      f32 cosine = cosines[j], sine = cosines[half + j];
      f32 left = toFloat(x[column]), right = toFloat(x[column + half]);
      y[column] = fromFloat<T>(left * cosine - right * sine);
      y[column + half] = fromFloat<T>(right * cosine + left * sine);
    }
  }
}

} // namespace tandem
