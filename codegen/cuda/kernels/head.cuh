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
  struct Extra {};

  f32 *logits;
  i32 *tokens;
  SumPlace<C> place;
  i32 firstToken = 0;
  Largest best[2] = {{minusInfinity(), 0}, {minusInfinity(), 0}};

  __device__ void begin(i32 first) { firstToken = first; }

  __device__ Extra prepare(const Layer<C> &, i32, i32) const { return {}; }

  __device__ void take(const Layer<C> &layer, i32 tile, i32,
                       const f32 (&sum)[2], const Extra &) {
    i32 output = tile * 16 + place.row;
#pragma unroll
    for (i32 i = 0; i < 2; ++i)
      if (output < C::width(0) && sum[i] > best[i].value)
        best[i] = {sum[i], output};
    if ((tile + 1) % tiles == 0 || tile + 1 == Tiles<C>::count())
      finish(layer, tile / tiles);
  }

  /// The largest over rows: bits 0, 3, 4 and 5 of a thread's place.
  __device__ void finish(const Layer<C> &layer, i32 part) {
    static_assert(kSums<C> == 2 && C::sumWarps == 4);
    __shared__ Largest ofWarp[C::sumWarps][8];
    i32 warp = place.index / kWarp, lane = place.index % kWarp;
#pragma unroll
    for (i32 i = 0; i < 2; ++i) {
#pragma unroll
      for (i32 distance = 1; distance <= 16;
           distance *= distance == 1 ? 8 : 2) {
        f32 value = __shfl_xor_sync(~0u, best[i].value, distance);
        i32 token = __shfl_xor_sync(~0u, best[i].column, distance);
        best[i].take(value, token);
      }
      if (lane % 2 == 0 && lane < 8)
        ofWarp[warp][lane + i] = best[i];
      best[i] = {minusInfinity(), 0};
    }
    meet<kSumsMeet, kSumThreads<C>>();
    if (place.index < 16 && firstToken + place.index < layer.live) {
      i32 first = place.index / 8 * 2, column = place.index % 8;
      Largest all = ofWarp[first][column], other = ofWarp[first + 1][column];
      all.take(other.value, other.column);
      u64 to = u64(firstToken + place.index) * parts + part;
      logits[to] = all.value;
      tokens[to] = all.column;
    }
    meet<kSumsMeet, kSumThreads<C>>();
  }
};

template <typename C>
__device__ void headArgmax(const Layer<C> &layer, f32 *logits, i32 *tokens,
                           const i32 *live, i32 rows, u8 *scratch) {
  HeadSink<C> sink = {logits, tokens};
  fewRows<C, DenseUnits<C>>(layer, live, rows, scratch, sink);
}

} // namespace tandem
