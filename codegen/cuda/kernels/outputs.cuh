//===- outputs.cuh - Sums of slices ---------------------------------------===//
//
// A block computes 128 outputs of `tokens` tokens: warp w the outputs
// 16 w .. 16 w + 15, in the fragments that mma.cuh draws as C, one for every 8
// tokens:
//
//   sums[j][0], [1]   output 16 w + g        tokens 8 j + 2 t, 8 j + 2 t + 1
//   sums[j][2], [3]   output 16 w + g + 8    the same tokens
//
// The columns are cut into slices, a block each where there are too few outputs
// to keep the machine busy. The cut is fixed by the shape of the weight. Each
// slice is summed on its own, and slices are added in order by whichever block
// is the last of its tile. Scratch, f32:
//
//   [tile][slice][number of the sum in its thread][thread]
//
// Floor: slices * outputs * tokens * 4 bytes, written and read once, in the L2.
//
// Used by many_rows.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "common.cuh"

namespace tandem {

constexpr i32 kLinearThreads = 256;
constexpr i32 kLinearOutputs = kLinearThreads / kWarp * 16;

/// Makes \p sums of slice blockIdx.y those of all slices in one of the blocks
/// of this tile, and says in which.
template <i32 Slices, i32 Tiles>
__device__ bool addSlices(f32 (&sums)[Tiles][4], f32 *scratch, u32 *tickets) {
  if constexpr (Slices == 1)
    return true;
  constexpr u64 sliceSize = Tiles * 4 * kLinearThreads;
  u32 tile = blockIdx.z * gridDim.x + blockIdx.x;
  f32 *tileScratch = scratch + tile * (Slices * sliceSize) + threadIdx.x;
  f32 *mine = tileScratch + blockIdx.y * sliceSize;
#pragma unroll
  for (i32 j = 0; j < Tiles; ++j)
#pragma unroll
    for (i32 i = 0; i < 4; ++i)
      mine[(j * 4 + i) * kLinearThreads] = sums[j][i];
  if (!isLastBlock(tickets + tile, Slices))
    return false;
#pragma unroll
  for (i32 j = 0; j < Tiles; ++j)
#pragma unroll
    for (i32 i = 0; i < 4; ++i) {
      const f32 *from = tileScratch + (j * 4 + i) * kLinearThreads;
      f32 sum = loadShared(from);
      for (i32 slice = 1; slice < Slices; ++slice)
        sum += loadShared(from + slice * sliceSize);
      sums[j][i] = sum;
    }
  return true;
}

} // namespace tandem
