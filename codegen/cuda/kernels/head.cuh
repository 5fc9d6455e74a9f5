//===- head.cuh - Tokens without logits in memory -------------------------===//
//
// x [rows, columns] bf16, w #plan.rows, as linear multiplies them. The largest
// logit of every part of 128 outputs, 8 tiles, and the token it belongs to, the
// first of equal ones:
//
//   logits   f32 [rows, parts]
//   tokens   i32 [rows, parts]
//
// Logits are f32 and never rounded. What is not a number is passed over.
// argmax_parts (tokens.cuh) takes the rest of the way.
//
// Floor: the weight, once for every 16 rows.
//
// Grid: that of few_rows.cuh. Called by head_argmax.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "linear.cuh"
#include "tokens.cuh"

namespace tandem {

template <typename C> struct HeadSink {
  static constexpr i32 tiles = 8;
  static constexpr i32 parts = ceilDiv(Tiles<C>::count(), tiles);

  f32 *logits;
  i32 *tokens;
  SumPlace place;
  i32 firstToken = 0;
  Largest best = {minusInfinity(), 0};

  __device__ void begin(i32 first) { firstToken = first; }

  __device__ void take(const Layer<C> &layer, i32 first, i32 end, f32 sum) {
    i32 tile = first + threadIdx.x % 2;
    i32 output = tile * 16 + place.row;
    if (tile < end && output < C::width(0) && sum > best.value)
      best = {sum, output};
    if ((first + 2) % tiles == 0 || first + 2 >= Tiles<C>::count())
      finish(layer, first / tiles);
  }

  /// The largest over the rows of tiles. Bits 1, 3, 4 and 8 of a thread's
  /// number are its token, all others its row and tile.
  __device__ void finish(const Layer<C> &layer, i32 part) {
    __shared__ Largest ofWarp[16][8];
    i32 warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
#pragma unroll
    for (i32 distance = 1; distance <= 4; distance *= 4) {
      f32 value = __shfl_xor_sync(~0u, best.value, distance);
      i32 token = __shfl_xor_sync(~0u, best.column, distance);
      best.take(value, token);
    }
    if (warp < 16 && (lane & 5) == 0)
      ofWarp[warp][lane / 8 * 2 + lane / 2 % 2] = best;
    __syncthreads();
    if (threadIdx.x < 16 && firstToken + i32(threadIdx.x) < layer.live) {
      i32 first = threadIdx.x / 8 * 8, column = threadIdx.x % 8;
      best = ofWarp[first][column];
      for (i32 other = 1; other < 8; ++other)
        best.take(ofWarp[first + other][column].value,
                  ofWarp[first + other][column].column);
      u64 to = u64(firstToken + threadIdx.x) * parts + part;
      logits[to] = best.value;
      tokens[to] = best.column;
    }
    best = {minusInfinity(), 0};
    __syncthreads();
  }
};

template <typename C>
__device__ void headArgmax(const Layer<C> &layer, f32 *logits, i32 *tokens,
                           const i32 *live, i32 rows, u8 *scratch) {
  HeadSink<C> sink = {logits, tokens};
  fewRows<C, DenseUnits<C>>(layer, live, rows, scratch, sink);
}

} // namespace tandem
