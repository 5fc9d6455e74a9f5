//===- rows.cuh - Kernels that move rows and columns ----------------------===//
//
// Nothing is computed; numbers keep their bits.
//
//   last_row         y = row live - 1 of x (row 0 when there is none)
//   drop_rows        y[r] = x[r + first]
//   split            x row: [group 0: part 0 | part 1 | ..][group 1: ..] ..
//                    part j row: [group 0's part j][group 1's part j] ..
//   concat_features  y row: [part 0 | part 1 | ..]
//   copy             bytes
//
// Floor: twice what is moved.
//
// Grid: a block a row; copy: a block for every 16 bytes times threads, at most
// `blocks`. Called by the families of these names.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "common.cuh"

namespace tandem {

/// Copies Width numbers by all threads of a block. Packs are as large as
/// Width and the two offsets (in numbers) allow.
template <i32 Width, i32 FromOffset, i32 ToOffset, typename T>
__device__ void copyColumns(const T *from, T *to) {
  // A power of two divides all three when it divides the bits of all.
  constexpr i32 pack = packSize<T>(Width | FromOffset | ToOffset);
  for (i32 column = threadIdx.x * pack; column < Width;
       column += blockDim.x * pack)
    storePack(to + column, loadPack<pack>(from + column));
}

template <typename C, typename T>
__device__ void lastRow(const T *x, const i32 *count, T *y, i32 rows) {
  i32 row = max(min(*count - 1, rows - 1), 0);
  copyColumns<C::columns, 0, 0>(x + u64(row) * C::columns, y);
}

template <typename C, typename T>
__device__ void dropRows(const T *x, T *y, const i32 *live, i32 rows) {
  i32 row = blockIdx.x;
  if (row >= liveRows(live, rows))
    return;
  copyColumns<C::columns, 0, 0>(x + u64(row + C::first) * C::columns,
                                y + u64(row) * C::columns);
}

/// Part of a split whose columns of a group begin at Offset.
template <typename C, i32 Offset, i32 Width, typename T>
__device__ void splitPart(const T *x, T *y, const i32 *live, i32 rows) {
  i32 row = blockIdx.x;
  if (row >= liveRows(live, rows))
    return;
  constexpr i32 run = Width / C::groups, groupColumns = C::columns / C::groups;
  constexpr i32 pack = packSize<T>(run | Offset | groupColumns | C::columns);
  for (i32 column = threadIdx.x * pack; column < Width;
       column += blockDim.x * pack) {
    i32 from = column / run * groupColumns + Offset + column % run;
    storePack(y + u64(row) * Width + column,
              loadPack<pack>(x + u64(row) * C::columns + from));
  }
}

/// Part of a row of y that begins at column Offset.
template <typename C, i32 Offset, i32 Width, typename T>
__device__ void concatPart(const T *x, T *y, const i32 *live, i32 rows) {
  i32 row = blockIdx.x;
  if (row >= liveRows(live, rows))
    return;
  copyColumns<Width, Offset, C::columns>(x + u64(row) * Width,
                                         y + u64(row) * C::columns + Offset);
}

template <typename C> __device__ void copyBytes(const u8 *from, u8 *to) {
  u64 thread = u64(blockIdx.x) * blockDim.x + threadIdx.x;
  u64 threads = u64(gridDim.x) * blockDim.x;
  constexpr u64 packs = C::bytes / 16;
  for (u64 pack = thread; pack < packs; pack += threads)
    storePack(to + pack * 16, loadPack<16>(from + pack * 16));
  if (thread < C::bytes % 16)
    to[packs * 16 + thread] = from[packs * 16 + thread];
}

} // namespace tandem
