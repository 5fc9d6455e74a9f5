//===- delta_inputs.cuh - What the delta rule reads -----------------------===//
//
// short_conv, silu, split, l2_norm, delta_gate and sigmoid in one kernel, each
// as it is on its own and rounded where it would write to memory:
//
//   x row      [q: key heads x key dim][k: the same][v]
//   u          silu(short_conv(x)), the cache as short_conv.cuh has it
//   query, key l2_norm of every head of u
//   value      the rest of u
//   decay      -exp(log rate) softplus(decay input + bias)
//   beta       sigmoid(beta input)
//
// A block has a run of channels for 16 rows, a warp a row at a time: a head, or
// up to 256 channels of v; the last block of a row block has the gates. Rows
// are independent: a row reads the taps - 1 rows in front of it. Only the first
// row block touches the cache, all of it, and reads before it writes.
//
// Floor: twice rows * channels numbers, and the cache.
//
// Grid: runs and one, blocks of 16 rows. Called by delta_inputs.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "elementwise.cuh"
#include "gated_delta.cuh"
#include "norm.cuh"

namespace tandem {

constexpr i32 kDeltaInputRows = 16;
constexpr i32 kDeltaInputThreads = 256;

template <typename C, typename T> struct DeltaInputs {
  static constexpr i32 before = C::taps - 1;
  static constexpr i32 keyColumns = C::keyHeads * C::keyDim;
  static constexpr i32 valueColumns = C::channels - 2 * keyColumns;
  /// Numbers of a lane side by side; one number is a pack of a head's norm.
  static constexpr i32 pack = packSize<T>(C::keyDim | valueColumns);
  /// Channels of v in a run.
  static constexpr i32 valueRun = kWarp * pack;
  static constexpr i32 valueRuns = ceilDiv(valueColumns, valueRun);

  const T *x;
  const f32 *weight;
  T *query, *key, *value, *cache;
  i32 count, kept;

  /// Row \p row of x, those before the first from the cache, at \p channel.
  __device__ Pack<T, pack> input(i32 row, i32 channel) const {
    const T *from = row >= 0 ? x + u64(row) * C::channels
                             : cache + u64(kept + before + row) * C::channels;
    return loadPack<pack>(from + channel);
  }

  /// silu of the convolution of a row, as memory would hold it.
  __device__ void convolve(f32 (&result)[pack], i32 row, i32 channel) const {
    constexpr i32 some = pack < 4 ? pack : 4;
    f32 sums[pack];
#pragma unroll
    for (i32 tap = 0; tap < C::taps; ++tap) {
      auto numbers = input(row + tap - before, channel);
      auto weights = loadPack<some>(weight + tap * C::channels + channel);
#pragma unroll
      for (i32 i = 0; i < pack; ++i) {
        if (i > 0 && i % some == 0)
          weights = loadPack<some>(weight + tap * C::channels + channel + i);
        f32 taken = weights.at[i % some], number = toFloat(numbers.at[i]);
        sums[i] = tap == 0 ? taken * number : fma(taken, number, sums[i]);
      }
    }
#pragma unroll
    for (i32 i = 0; i < pack; ++i)
      result[i] =
          toFloat(fromFloat<T>(Silu::apply(toFloat(fromFloat<T>(sums[i])))));
  }

  /// A head of queries or keys that begins at \p channel of x, by a warp.
  __device__ void writeHead(i32 row, i32 channel, T *to) const {
    constexpr i32 step = kWarp * pack, steps = ceilDiv(C::keyDim, step);
    i32 first = threadIdx.x % kWarp * pack;
    f32 numbers[steps][pack];
    f32 squares = 0;
#pragma unroll
    for (i32 i = 0; i < steps; ++i)
      if (first + i * step < C::keyDim) {
        convolve(numbers[i], row, channel + first + i * step);
#pragma unroll
        for (i32 j = 0; j < pack; ++j)
          squares = fma(numbers[i][j], numbers[i][j], squares);
      }
    f32 factor = 1.0f / sqrtf(sumLanes(squares) + C::eps);
#pragma unroll
    for (i32 i = 0; i < steps; ++i)
      if (first + i * step < C::keyDim) {
        Pack<T, pack> result;
#pragma unroll
        for (i32 j = 0; j < pack; ++j)
          result.at[j] = fromFloat<T>(numbers[i][j] * factor);
        storePack(to + first + i * step, result);
      }
  }

  /// What run \p run has of row \p row.
  __device__ void write(i32 run, i32 row) const {
    if (run < 2 * C::keyHeads) {
      bool isKey = run >= C::keyHeads;
      i32 column = (isKey ? run - C::keyHeads : run) * C::keyDim;
      writeHead(row, run * C::keyDim,
                (isKey ? key : query) + u64(row) * keyColumns + column);
      return;
    }
    i32 column =
        (run - 2 * C::keyHeads) * valueRun + threadIdx.x % kWarp * pack;
    if (column >= valueColumns)
      return;
    f32 numbers[pack];
    convolve(numbers, row, 2 * keyColumns + column);
    Pack<T, pack> result;
#pragma unroll
    for (i32 i = 0; i < pack; ++i)
      result.at[i] = fromFloat<T>(numbers[i]);
    storePack(value + u64(row) * valueColumns + column, result);
  }

  /// Leaves the cache of channels [begin, end) as short_conv does.
  __device__ void keep(i32 begin, i32 end) const {
    // What is read of the cache is in registers before anything is written.
    for (i32 channel = begin + threadIdx.x; channel < end;
         channel += kDeltaInputThreads) {
      T window[before + 1];
#pragma unroll
      for (i32 i = 0; i < before; ++i) {
        i32 row = (C::commit ? count : 0) + i - before;
        window[i] =
            row >= 0 ? x[u64(row) * C::channels + channel]
                     : cache[u64(kept + before + row) * C::channels + channel];
      }
#pragma unroll
      for (i32 i = 0; i < before; ++i)
        cache[u64(i) * C::channels + channel] = window[i];
      if constexpr (!C::commit)
        for (i32 row = 0; row < min(count, C::pending); ++row)
          cache[u64(before + row) * C::channels + channel] =
              x[u64(row) * C::channels + channel];
    }
  }
};

/// decay and beta of rows [begin, end), by all threads of a block.
template <typename C>
__device__ void writeGates(const f32 *decayInput, const f32 *betaInput,
                           const f32 *logRate, const f32 *bias, f32 *decay,
                           f32 *beta, i32 begin, i32 end) {
  for (i32 place = begin * C::heads + threadIdx.x; place < end * C::heads;
       place += kDeltaInputThreads) {
    i32 column = place % C::heads;
    decay[place] = decayOf(decayInput[place], logRate[column], bias[column]);
    beta[place] = Sigmoid::apply(betaInput[place]);
  }
}

template <typename C, typename T>
__device__ void
deltaInputs(const T *x, const f32 *decayInput, const f32 *betaInput,
            const f32 *weight, const f32 *logRate, const f32 *bias,
            const i32 *accepted, T *query, T *key, T *value, f32 *decay,
            f32 *beta, T *cache, const i32 *live, i32 rows) {
  using Inputs = DeltaInputs<C, T>;
  constexpr i32 runs = 2 * C::keyHeads + Inputs::valueRuns;
  i32 count = liveRows(live, rows), run = blockIdx.x;
  i32 begin = blockIdx.y * kDeltaInputRows;
  i32 end = min(begin + kDeltaInputRows, count);
  if (run == runs)
    return writeGates<C>(decayInput, betaInput, logRate, bias, decay, beta,
                         begin, end);
  Inputs inputs = {x,     weight, query, key,
                   value, cache,  count, min(max(*accepted, 0), C::pending)};
  for (i32 row = begin + threadIdx.x / kWarp; row < end;
       row += kDeltaInputThreads / kWarp)
    inputs.write(run, row);
  // Also without rows: what was accepted leaves the pending rows.
  if (blockIdx.y > 0)
    return;
  __syncthreads();
  i32 first =
      run < 2 * C::keyHeads
          ? run * C::keyDim
          : 2 * Inputs::keyColumns + (run - 2 * C::keyHeads) * Inputs::valueRun;
  i32 width = run < 2 * C::keyHeads ? C::keyDim : Inputs::valueRun;
  inputs.keep(first, min(first + width, C::channels));
}

} // namespace tandem
