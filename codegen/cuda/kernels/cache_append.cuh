//===- cache_append.cuh - Write keys and values at positions --------------===//
//
// Position p of a text is slot p mod slots. Both halves of the cache are rows
// of a head's numbers, as attention reads them:
//
//   keys     [head][slot][dim]
//   values   [head][slot][dim]       behind all keys
//
// keys, values [rows, heads * dim], start [1] i32 -> cache. With more rows than
// slots the last rows win.
//
// Floor: four times rows * heads * dim numbers.
//
// Grid: a block a row. Called by cache_append.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "common.cuh"

namespace tandem {

template <typename C, typename T>
__device__ void cacheAppend(const T *keys, const T *values, const i32 *start,
                            T *cache, const i32 *live, i32 rows) {
  i32 row = blockIdx.x, count = liveRows(live, rows);
  // A later row takes the slot of this one.
  if (row >= count || row + C::slots < count)
    return;
  constexpr i32 columns = C::heads * C::dim;
  constexpr u64 half = u64(C::slots) * columns;
  constexpr i32 pack = packSize<T>(C::dim);
  i32 slot = (max(*start, 0) + row) % C::slots;
  for (i32 column = threadIdx.x * pack; column < columns;
       column += blockDim.x * pack) {
    u64 to =
        (u64(column / C::dim) * C::slots + slot) * C::dim + column % C::dim;
    u64 from = u64(row) * columns + column;
    storePack(cache + to, loadPack<pack>(keys + from));
    storePack(cache + half + to, loadPack<pack>(values + from));
  }
}

} // namespace tandem
