//===- norm.cuh - Norms of runs of columns --------------------------------===//
//
// Every run of `dim` columns of a row is a vector:
//
//   x   row r: [run 0: dim numbers][run 1: dim numbers] ...
//
//   rms_norm         y = x / sqrt(mean(x^2) + eps) * (w + offset)
//   gated_rms_norm   y = x / sqrt(mean(x^2) + eps) * w * silu(gate)
//   l2_norm          y = x / sqrt(sum(x^2) + eps)
//
// x, gate, y [rows, columns], w f32 [dim]. Everything between load and store is
// f32. Squares of a head's run are summed by a warp: every lane its packs in
// order, then across lanes. A run that is a row is summed by a block, in the
// order that a linear layer that normalizes its own input sums in too: spans
// of 128 columns, four lanes a span,
//
//   columns   0..7   8..15  16..23  24..31  32..39 ..
//   lane      0      1      2       3       0      ..
//
// each its columns in order, then across the four, then spans in order.
//
// Floor: two (gated: three) times rows * columns numbers. The second read of x
// comes from the cache.
//
// Grid: rows, of which a block has those that lie gridDim.x apart, so that many
// rows that are not live are few blocks; blocks of runs. Called by rms_norm,
// gated_rms_norm, l2_norm.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "elementwise.cuh"

namespace tandem {

enum class Norm { Rms, GatedRms, L2 };

/// Columns that are summed on their own.
constexpr i32 kNormSpan = 128;

/// Sum of the squares of what lane \p lane of four has of span \p span of \p
/// row.
template <i32 Columns, typename T>
__device__ f32 laneSquares(const T *row, i32 span, i32 lane) {
  constexpr i32 most = packSize<T>(Columns), pack = most < 8 ? most : 8;
  f32 sum = 0;
#pragma unroll
  for (i32 block = 0; block < kNormSpan; block += 32)
#pragma unroll
    for (i32 i = 0; i < 8; i += pack) {
      i32 column = span * kNormSpan + block + lane * 8 + i;
      if (Columns % kNormSpan != 0 && column >= Columns)
        break;
      auto values = loadPack<pack>(row + column);
#pragma unroll
      for (i32 j = 0; j < pack; ++j)
        sum = fma(toFloat(values.at[j]), toFloat(values.at[j]), sum);
    }
  return sum;
}

/// Sum of \p Spans sums that lie \p stride numbers apart.
template <i32 Spans> __device__ f32 addSpans(const f32 *sums, i32 stride) {
  f32 sum = sums[0];
  for (i32 span = 1; span < Spans; ++span)
    sum += sums[span * stride];
  return sum;
}

/// What a row with the sum of squares \p squares is multiplied by.
template <typename C> __device__ f32 normFactor(f32 squares) {
  return 1.0f / sqrtf(squares / f32(C::columns) + C::eps);
}

/// The same of the row that \p row points to, in all threads of a block.
template <typename C, typename T> __device__ f32 rowFactor(const T *row) {
  constexpr i32 spans = ceilDiv(C::columns, kNormSpan);
  __shared__ f32 squares[spans];
  for (i32 span = threadIdx.x / 4; span < roundUp(spans, 8);
       span += C::threads / 4) {
    f32 sum = span < spans ? laneSquares<C::columns>(row, span, threadIdx.x % 4)
                           : 0.0f;
    sum = sumLanes<4>(sum);
    if (threadIdx.x % 4 == 0 && span < spans)
      squares[span] = sum;
  }
  __syncthreads();
  return normFactor<C>(addSpans<spans>(squares, 1));
}

/// A run, as the threads have it that share one: packs of columns, `step`
/// numbers apart.
template <typename C, Norm Kind, typename T> struct NormRun {
  static constexpr i32 pack = packSize<T>(C::dim);
  static constexpr i32 step = C::threadsPerRun * pack;
  static constexpr i32 packs = ceilDiv(C::dim, step);
  /// Whether a block sums it, in the order of linear layers.
  static constexpr bool isRow = Kind == Norm::Rms && C::columns == C::dim;
  static constexpr bool hasWeight = Kind != Norm::L2;
  static constexpr bool hasGate = Kind == Norm::GatedRms;

  const T *x, *gate;
  const f32 *weight;
  T *y;

  __device__ static i32 column(i32 index) {
    return threadIdx.x % C::threadsPerRun * pack + index * step;
  }
  /// Whether this thread has pack \p index.
  __device__ static bool has(i32 index) {
    return C::dim % step == 0 || column(index) < C::dim;
  }

  /// The numbers of pack \p index: of the weight, and of a run.
  struct Weights {
    f32 at[pack];
  };
  struct Numbers {
    Pack<T, pack> values, gates;
  };
  __device__ void loadWeights(Weights &weights, i32 index) const {
    constexpr i32 some = pack < 4 ? pack : 4;
    if constexpr (hasWeight)
#pragma unroll
      for (i32 i = 0; i < pack; i += some) {
        auto part = loadPack<some>(weight + column(index) + i);
#pragma unroll
        for (i32 j = 0; j < some; ++j)
          weights.at[i + j] = part.at[j];
      }
  }
  __device__ void loadNumbers(Numbers &numbers, i32 index, u64 base) const {
    u64 place = base + column(index);
    numbers.values = loadPack<pack>(x + place);
    if constexpr (hasGate)
      numbers.gates = loadPack<pack>(gate + place);
  }

  /// What the run at \p base is multiplied by; \p values(index) is a pack.
  template <typename Values>
  __device__ f32 findFactor(u64 base, Values values) const {
    if constexpr (isRow) {
      return rowFactor<C>(x + base);
    } else {
      f32 squares = 0;
#pragma unroll 4
      for (i32 index = 0; index < packs && has(index); ++index) {
        Pack<T, pack> some = values(index);
#pragma unroll
        for (i32 i = 0; i < pack; ++i)
          squares = fma(toFloat(some.at[i]), toFloat(some.at[i]), squares);
      }
      if constexpr (C::threadsPerRun == kWarp)
        squares = sumLanes(squares);
      else
        squares = sumBlock<C::threadsPerRun>(squares);
      if constexpr (Kind != Norm::L2)
        squares /= f32(C::dim);
      return 1.0f / sqrtf(squares + C::eps);
    }
  }

  __device__ void write(Numbers &numbers, const Weights &weights, i32 index,
                        u64 base, f32 factor) const {
#pragma unroll
    for (i32 i = 0; i < pack; ++i) {
      f32 value = toFloat(numbers.values.at[i]) * factor;
      if constexpr (Kind == Norm::Rms)
        value *= weights.at[i] + C::offset;
      if constexpr (hasGate)
        value =
            value * weights.at[i] * Silu::apply(toFloat(numbers.gates.at[i]));
      numbers.values.at[i] = fromFloat<T>(value);
    }
    storePack(y + base + column(index), numbers.values);
  }
};

/// Normalizes the runs of a thread whose packs are few: what is read stays in
/// registers, the weight, which no kernel writes, from before earlier ones have
/// ended, and a row is asked for before it is known to be live.
template <typename C, typename Run>
__device__ void normalizeHeld(const Run &norm, u64 run, const i32 *live,
                              i32 rows) {
  typename Run::Weights weights[Run::packs];
#pragma unroll
  for (i32 index = 0; index < Run::packs; ++index)
    if (norm.has(index))
      norm.loadWeights(weights[index], index);
  waitForEarlierKernels();
  typename Run::Numbers numbers[Run::packs];
  auto load = [&](u64 base) {
#pragma unroll
    for (i32 index = 0; index < Run::packs; ++index)
      if (norm.has(index))
        norm.loadNumbers(numbers[index], index, base);
  };
  auto baseOf = [&](i32 row) { return u64(row) * C::columns + run * C::dim; };
  load(baseOf(blockIdx.x));
  i32 end = liveRows(live, rows);
#pragma unroll 1
  for (i32 row = blockIdx.x; row < end; row += gridDim.x) {
    u64 base = baseOf(row);
    if (row > i32(blockIdx.x))
      load(base);
    f32 factor =
        norm.findFactor(base, [&](i32 index) { return numbers[index].values; });
#pragma unroll
    for (i32 index = 0; index < Run::packs; ++index)
      if (norm.has(index))
        norm.write(numbers[index], weights[index], index, base, factor);
    // What a block adds stands in the same place for every row.
    if constexpr (C::threadsPerRun > kWarp)
      __syncthreads();
  }
}

template <typename C, Norm Kind, typename T>
__device__ void normalize(const T *x, const T *gate, const f32 *weight, T *y,
                          const i32 *live, i32 rows) {
  using Run = NormRun<C, Kind, T>;
  constexpr i32 runs = C::columns / C::dim;
  constexpr i32 perBlock = C::threads / C::threadsPerRun;
  i32 run = blockIdx.y * perBlock + threadIdx.x / C::threadsPerRun;
  // A warp or a block as a whole stays or goes.
  if (run >= runs)
    return waitForEarlierKernels();
  Run norm = {x, gate, weight, y};
  constexpr i32 fewPacks = 2;
  if constexpr (Run::packs <= fewPacks)
    return normalizeHeld<C>(norm, run, live, rows);
  waitForEarlierKernels();
  i32 end = liveRows(live, rows);
#pragma unroll 1
  for (i32 row = blockIdx.x; row < end; row += gridDim.x) {
    u64 base = u64(row) * C::columns + run * C::dim;
    f32 factor = norm.findFactor(base, [&](i32 index) {
      return loadPack<Run::pack>(x + base + norm.column(index));
    });
    for (i32 index = 0; index < Run::packs && norm.has(index); ++index) {
      typename Run::Weights weights;
      typename Run::Numbers numbers;
      norm.loadWeights(weights, index);
      norm.loadNumbers(numbers, index, base);
      norm.write(numbers, weights, index, base, factor);
    }
    if constexpr (C::threadsPerRun > kWarp)
      __syncthreads();
  }
}

template <typename C, typename T>
__device__ void rmsNorm(const T *x, const f32 *weight, T *y, const i32 *live,
                        i32 rows) {
  normalize<C, Norm::Rms, T>(x, nullptr, weight, y, live, rows);
}

template <typename C, typename T>
__device__ void gatedRmsNorm(const T *x, const T *gate, const f32 *weight, T *y,
                             const i32 *live, i32 rows) {
  normalize<C, Norm::GatedRms, T>(x, gate, weight, y, live, rows);
}

template <typename C, typename T>
__device__ void l2Norm(const T *x, T *y, const i32 *live, i32 rows) {
  normalize<C, Norm::L2, T>(x, nullptr, nullptr, y, live, rows);
}

} // namespace tandem
