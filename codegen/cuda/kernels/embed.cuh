//===- embed.cuh - Look tokens up in a table ------------------------------===//
//
//   y[r, :] = scale * table[tokens[r], :]
//
// tokens [rows] i32, table #plan.rows (rows filled up to 16 bytes), the one
// that the head multiplies with too -> y [rows, columns]. A token outside of
// the table reads row 0.
//
// Floor: rows * columns * (bytes of an element + bytes of a result).
//
// Grid: a block a row. Called by embed.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "common.cuh"

namespace tandem {

template <typename C>
__device__ void embed(const i32 *tokens, const typename C::Element *table,
                      typename C::Result *y, const i32 *live, i32 rows) {
  i32 row = blockIdx.x;
  if (row >= liveRows(live, rows))
    return;
  constexpr i32 rowElements =
      roundUp(C::columns, 16 / i32(sizeof(typename C::Element)));
  i32 token = tokens[row];
  if (token < 0 || token >= C::vocabulary)
    token = 0;
  const typename C::Element *from = table + u64(token) * rowElements;
  typename C::Result *to = y + u64(row) * C::columns;
  for (i32 column = threadIdx.x; column < C::columns; column += blockDim.x)
    to[column] =
        fromFloat<typename C::Result>(toFloat(from[column]) * C::scaleBy);
}

} // namespace tandem
