//===- attention_inputs.cuh - What attention reads ------------------------===//
//
// split, rms_norm, rope and cache_append in one kernel, each as it is on its
// own and rounded where it would write to memory:
//
//   query row       [head 0: dim | its gate: dim] [head 1: ..] ..
//   rotated, gate   rope(rms_norm(query head)), the gate as it is
//   cache           keys [head][slot][dim], values [head][slot][dim] behind
//                   them; position p in slot p mod slots:
//                   rope(rms_norm(key head)), the value as it is
//
// without a gate and without a query where there is none. query [rows,
// query_heads * dim or twice that], keys, values [rows, heads * dim], norms f32
// [dim], start [1] i32, table as in rope. With more rows than slots the last
// rows win.
//
// A warp has a run, one head of one row of queries, keys or values, in its
// registers, a pack of numbers a lane and `steps` of them; a key or a query
// passes through f32 [dim] in shared memory, where lanes find the other number
// of a pair that turns. What does not depend on the kernels in front, weights
// and angles, is read before they have ended. The next kernel may begin when
// this one has waited; or, where it reads the cache before it waits
// (LaunchOrder.h), when everything is written.
//
// Floor: twice what is read.
//
// Grid: blocks of runs, rows, caches. Called by attention_inputs.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "norm.cuh"

namespace tandem {

constexpr i32 kInputsThreads = 256;
constexpr i32 kInputsWarps = kInputsThreads / kWarp;

template <typename C, typename T> struct AttentionInputs {
  static constexpr i32 pack = packSize<T>(C::dim), step = kWarp * pack;
  static constexpr i32 steps = ceilDiv(C::dim, step);

  /// The first number of this lane in step \p i; from dim on there are none.
  __device__ static i32 column(i32 i) {
    return threadIdx.x % kWarp * pack + i * step;
  }

  __device__ static void copyHead(const T *from, T *to) {
#pragma unroll
    for (i32 i = 0; i < steps; ++i)
      if (column(i) < C::dim)
        storePack(to + column(i), loadPack<pack>(from + column(i)));
  }

  /// The sum of the squares of a head, in the order of rms_norm: a head that is
  /// a row has that of rows.
  template <bool IsRow>
  __device__ static f32 sumSquares(const T *from,
                                   const Pack<T, pack> (&values)[steps]) {
    if constexpr (IsRow) {
      constexpr i32 spans = ceilDiv(C::dim, kNormSpan);
      static_assert(spans * 4 <= kWarp);
      i32 span = threadIdx.x % kWarp / 4;
      f32 ofSpan = sumLanes<4>(
          span < spans ? laneSquares<C::dim>(from, span, threadIdx.x % 4)
                       : 0.0f);
      f32 sum = __shfl_sync(~0u, ofSpan, 0);
      for (i32 other = 1; other < spans; ++other)
        sum += __shfl_sync(~0u, ofSpan, other * 4);
      return sum;
    }
    f32 sum = 0;
#pragma unroll
    for (i32 i = 0; i < steps; ++i)
      if (column(i) < C::dim)
#pragma unroll
        for (i32 j = 0; j < pack; ++j)
          sum = fma(toFloat(values[i].at[j]), toFloat(values[i].at[j]), sum);
    return sumLanes(sum);
  }

  static constexpr i32 half = C::dims / 2;

  /// What a lane's numbers of a head are multiplied by.
  struct Turn {
    f32 norm[steps][pack], cosine[steps][pack], sine[steps][pack];
  };

  /// Reads the weights \p norm, and of \p angles, the cosines and sines of a
  /// row.
  __device__ static void readTurn(Turn &turn, const f32 *norm,
                                  const f32 *angles) {
#pragma unroll
    for (i32 i = 0; i < steps; ++i)
      if (column(i) < C::dim)
#pragma unroll
        for (i32 j = 0; j < pack; ++j) {
          i32 k = column(i) + j;
          turn.norm[i][j] = norm[k];
          if (k < C::dims) {
            turn.cosine[i][j] = angles[k % half];
            turn.sine[i][j] = angles[half + k % half];
          }
        }
  }

  /// Normalizes and turns the head \p from; \p shared is this warp's.
  template <bool IsRow>
  __device__ static void turnHead(const T *from, const Turn &turn, f32 *shared,
                                  T *to) {
    Pack<T, pack> values[steps];
#pragma unroll
    for (i32 i = 0; i < steps; ++i)
      if (column(i) < C::dim)
        values[i] = loadPack<pack>(from + column(i));
    f32 squares = sumSquares<IsRow>(from, values);
    f32 factor = 1.0f / sqrtf(squares / f32(C::dim) + C::eps);
#pragma unroll
    for (i32 i = 0; i < steps; ++i)
      if (column(i) < C::dim)
#pragma unroll
        for (i32 j = 0; j < pack; ++j) {
          f32 value = toFloat(values[i].at[j]) * factor;
          value *= turn.norm[i][j] + C::offset;
          values[i].at[j] = fromFloat<T>(value);
          shared[column(i) + j] = toFloat(values[i].at[j]);
        }
    __syncwarp();
#pragma unroll
    for (i32 i = 0; i < steps; ++i)
      if (column(i) < C::dim) {
#pragma unroll
        for (i32 j = 0; j < pack; ++j) {
          i32 k = column(i) + j;
          if (k >= C::dims)
            continue;
          f32 cosine = turn.cosine[i][j], sine = turn.sine[i][j];
          f32 left = shared[k % half], right = shared[half + k % half];
          values[i].at[j] =
              fromFloat<T>(k < half ? left * cosine - right * sine
                                    : right * cosine + left * sine);
        }
        storePack(to + column(i), values[i]);
      }
  }
};

template <typename C, typename T>
__device__ void attentionInputs(const T *query, const f32 *queryNorm,
                                const T *keys, const T *values,
                                const f32 *keyNorm, const i32 *start,
                                const f32 *table, T *rotated, T *gate, T *cache,
                                const i32 *live, i32 rows) {
  using Head = AttentionInputs<C, T>;
  __shared__ f32 shared[kInputsWarps][C::dim];
  if constexpr (!C::knowsStart)
    waitForEarlierKernels<!C::writesFirst>();
  i32 row = blockIdx.y, count = liveRows(live, rows);
  i32 run = blockIdx.x * kInputsWarps + threadIdx.x / kWarp;
  i32 begin = max(*start, 0);
  bool isQuery = run < C::queryHeads;
  typename Head::Turn turn;
  if (run < C::queryHeads + C::heads)
    Head::readTurn(turn, isQuery ? queryNorm : keyNorm,
                   table + u64(min(begin + row, C::positions - 1)) * C::dims);
  if constexpr (C::knowsStart)
    waitForEarlierKernels<!C::writesFirst>();
  f32 *mine = shared[threadIdx.x / kWarp];
  if (row < count && isQuery) {
    if constexpr (C::queryHeads > 0) {
      constexpr i32 width = C::gated ? 2 * C::dim : C::dim;
      u64 head = u64(row) * C::queryHeads + run;
      Head::template turnHead<C::queryHeads == 1>(
          query + head * width, turn, mine, rotated + head * C::dim);
      if constexpr (C::gated)
        Head::copyHead(query + head * width + C::dim, gate + head * C::dim);
    }
  } else if (row < count && row + C::slots >= count &&
             run < C::queryHeads + 2 * C::heads) {
    // No later row takes the slot of this one.
    run -= C::queryHeads;
    bool isKey = run < C::heads;
    i32 head = isKey ? run : run - C::heads;
    u64 from = (u64(row) * C::heads + head) * C::dim;
    u64 to = (u64(run) * C::slots + (begin + row) % C::slots) * C::dim;
    if (isKey)
      Head::template turnHead<C::heads == 1>(keys + from, turn, mine,
                                             cache + to);
    else
      Head::copyHead(values + from, cache + to);
  }
  if constexpr (C::writesFirst) {
    __threadfence();
    __syncthreads();
    letNextKernelBegin();
  }
}

} // namespace tandem
