//===- layer.cuh - What linear layers have in common ----------------------===//
//
//   x = input, or rms_norm(input) with `hasNorm`
//   y[j][r, n] = sum_k x[r, k] * w[j][n, k]     for each part j: a weight of
//                                               its own
//   y = silu(y[0]) * y[1]                       when gated
//   y = residual + y                            with a residual
//
// input [rows, columns] bf16, norm weight f32 [columns], residual and y
// [rows, width] bf16 (y f32 where the plan says so).
//
// Between layers of up to 16 rows tokens may lie as products take them
// (fragments.cuh). Then
//
//   fromFragments   x lies so
//   normsSums       and has the weight of its norm, but not yet the factors of
//                   its rows, which sums are multiplied by; squares has what
//                   they follow from
//   toFragments     y lies so
//   nextNorm        beside y, next is y times the weight of the norm of the
//                   layer that comes next, and lies so; nextSquares are the
//                   squares of y
//
// Outputs come in tiles of 16, those of one part behind those of another, the
// last tile of a part filled up; of a gated layer the tiles of the two parts
// alternate:
//
//   tile   0: part 0, 0..15 | 1: part 0, 16..31 | .. | n: part 1, 0..15 | ..
//   gated  0: part 0, 0..15 | 1: part 1, 0..15 | 2: part 0, 16..31 | ..
//
// Everything is rounded where separate kernels would write it to memory, and a
// norm sums as rms_norm does (norm.cuh), so a fusion does not change a bit. But
// with `normsSums` factors are not rounded into tokens.
//
// Used by linear, quant_linear, head and what computes them.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "norm.cuh"

namespace tandem {

/// What a layer reads and writes. C::parts weights, C::results results.
template <typename C> struct Layer {
  const bf16 *input;
  const u8 *weights[C::parts];
  const f32 *norm;
  const bf16 *residual;
  typename C::Result *results[C::results];
  const f32 *squares;
  const f32 *nextNorm;
  bf16 *next;
  f32 *nextSquares;
  i32 live;
};

/// Returns when the input is there. What a layer that is beside another reads
/// is there when it begins: it has to wait for the other one at its end, so
/// that whoever waits for this one has both. Layers whose tiles are copied let
/// the next kernel begin themselves, once they have asked for their tokens.
template <typename C> __device__ void waitForInput() {
  if constexpr (C::isBeside)
    letNextKernelBegin();
  else
    waitForEarlierKernels<!C::copiesTiles>();
}

/// A tile of 16 outputs.
struct Tile {
  i32 part;
  /// Of its part.
  i32 index;
};

template <typename C> struct Tiles {
  __device__ static constexpr i32 ofPart(i32 part) {
    return ceilDiv(C::width(part), 16);
  }
  __device__ static constexpr i32 count() {
    i32 sum = 0;
    for (i32 part = 0; part < C::parts; ++part)
      sum += ofPart(part);
    return sum;
  }

  __device__ static Tile find(i32 tile) {
    if constexpr (C::gated)
      return {tile % 2, tile / 2};
    Tile result = {0, tile};
#pragma unroll
    for (i32 part = 1; part < C::parts; ++part)
      if (result.part == part - 1 && result.index >= ofPart(part - 1)) {
        result.part = part;
        result.index -= ofPart(part - 1);
      }
    return result;
  }
};

/// The weight of \p part. No array in memory: the choice is a few selects.
template <typename C>
__device__ const u8 *weightOf(const Layer<C> &layer, i32 part) {
  const u8 *weight = layer.weights[0];
#pragma unroll
  for (i32 i = 1; i < C::parts; ++i)
    if (part == i)
      weight = layer.weights[i];
  return weight;
}

template <typename C>
__device__ typename C::Result *resultOf(const Layer<C> &layer, i32 part) {
  typename C::Result *result = layer.results[0];
#pragma unroll
  for (i32 i = 1; i < C::results; ++i)
    if (part == i)
      result = layer.results[i];
  return result;
}

/// What a number of memory is, bf16, of a sum that a kernel of its own would
/// have written there.
__device__ inline f32 rounded(f32 x) { return toFloat(fromFloat<bf16>(x)); }

/// silu(gate) * up of two sums.
__device__ inline f32 gatedProduct(f32 gate, f32 up) {
  return rounded(rounded(Silu::apply(rounded(gate))) * rounded(up));
}

/// Writes \p sum as the number \p output of \p token. \p sum is that of a gated
/// layer when the layer is one; \p residual() is the number to add to it.
template <typename C, typename Residual>
__device__ void writeSum(const Layer<C> &layer, i32 part, i32 output, i32 token,
                         f32 sum, Residual residual) {
  if (token >= layer.live || output >= C::width(part))
    return;
  u64 place = u64(token) * C::width(part) + output;
  if constexpr (C::hasResidual)
    sum = toFloat(residual(place)) + rounded(sum);
  resultOf(layer, part)[place] = fromFloat<typename C::Result>(sum);
}

template <typename C>
__device__ void writeSum(const Layer<C> &layer, i32 part, i32 output, i32 token,
                         f32 sum) {
  writeSum(layer, part, output, token, sum,
           [&](u64 place) { return layer.residual[place]; });
}

/// A normalized number: of \p x, the factor of its row, the weight of its
/// column.
template <typename C> __device__ f32 normalized(f32 x, f32 factor, f32 weight) {
  return x * factor * (weight + C::offset);
}

/// Two numbers of a row side by side in \p pair, normalized.
template <typename C>
__device__ u32 normalizedPair(u32 pair, f32 factor, f32 weight0, f32 weight1) {
  return packBf16(
      normalized<C>(__uint_as_float(pair << 16), factor, weight0),
      normalized<C>(__uint_as_float(pair & 0xffff0000u), factor, weight1));
}

/// Bytes of shared memory that rowFactors() takes for \p Tokens tokens.
template <typename C, i32 Tokens> __device__ constexpr i32 factorBytes() {
  return (ceilDiv(C::columns, kNormSpan) + 1) * Tokens * i32(sizeof(f32));
}

/// The factors of the norm of tokens \p firstToken .. + Tokens - 1, in \p
/// shared [Tokens], by the \p Threads threads of a block that meet at \p
/// Barrier.
template <typename C, i32 Tokens, i32 Threads, i32 Barrier = 0>
__device__ void rowFactors(const Layer<C> &layer, i32 firstToken, f32 *shared) {
  constexpr i32 spans = ceilDiv(C::columns, kNormSpan);
  f32 *squares = shared + Tokens;
  // Four lanes a span of a token, some of them at a time.
#pragma unroll 4
  for (i32 place = threadIdx.x / 4; place < roundUp(Tokens * spans, 8);
       place += Threads / 4) {
    i32 token = place % Tokens, span = place / Tokens;
    bool exists = span < spans && firstToken + token < layer.live;
    f32 sum = exists ? laneSquares<C::columns>(
                           layer.input + u64(firstToken + token) * C::columns,
                           span, threadIdx.x % 4)
                     : 0.0f;
    sum = sumLanes<4>(sum);
    if (threadIdx.x % 4 == 0 && span < spans)
      squares[span * Tokens + token] = sum;
  }
  meet<Barrier, Threads>();
  if (threadIdx.x < Tokens)
    shared[threadIdx.x] =
        normFactor<C>(addSpans<spans>(squares + threadIdx.x, Tokens));
  meet<Barrier, Threads>();
}

} // namespace tandem
