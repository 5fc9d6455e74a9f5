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
// A block has a run of channels for 16 rows, a warp two rows that follow each
// other: of a head, or of up to 256 channels of v; the last block of a row
// block has the gates. Rows are independent: a row reads the taps - 1 rows in
// front of it. Only the first row block touches the cache, all of it, and reads
// before it writes. The weights of the convolution, which no kernel writes, are
// there before earlier kernels have ended.
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
/// Rows of a warp.
constexpr i32 kDeltaInputOwn = kDeltaInputRows / (kDeltaInputThreads / kWarp);

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

  /// Packs of a lane in a head.
  static constexpr i32 headStep = kWarp * pack,
                       headPacks = ceilDiv(C::keyDim, headStep);

  /// Weights of a pack, tap by tap.
  using Taps = f32[C::taps][pack];
  __device__ void loadTaps(Taps &taps, i32 channel) const {
    constexpr i32 some = pack < 4 ? pack : 4;
#pragma unroll
    for (i32 tap = 0; tap < C::taps; ++tap)
#pragma unroll
      for (i32 i = 0; i < pack; i += some) {
        auto part = loadPack<some>(weight + tap * C::channels + channel + i);
#pragma unroll
        for (i32 j = 0; j < some; ++j)
          taps[tap][i + j] = part.at[j];
      }
  }

  /// The rows of a warp and those in front, of a pack.
  using Window = Pack<T, pack>[before + kDeltaInputOwn];
  __device__ void loadWindow(Window &window, i32 first, i32 end,
                             i32 channel) const {
#pragma unroll
    for (i32 i = 0; i < before + kDeltaInputOwn; ++i)
      if (first + i - before < end)
        window[i] = input(first + i - before, channel);
  }

  /// silu of the convolution of row \p index of this warp, as memory would hold
  /// it.
  __device__ static void convolve(f32 (&result)[pack], const Window &window,
                                  i32 index, const Taps &taps) {
    f32 sums[pack];
#pragma unroll
    for (i32 tap = 0; tap < C::taps; ++tap)
#pragma unroll
      for (i32 i = 0; i < pack; ++i) {
        f32 number = toFloat(window[index + tap].at[i]);
        sums[i] = tap == 0 ? taps[tap][i] * number
                           : fma(taps[tap][i], number, sums[i]);
      }
#pragma unroll
    for (i32 i = 0; i < pack; ++i)
      result[i] =
          toFloat(fromFloat<T>(Silu::apply(toFloat(fromFloat<T>(sums[i])))));
  }

  /// Rows [first, end) of a head of queries or keys that begins at \p channel
  /// of x, by a warp.
  __device__ void writeHead(i32 first, i32 end, i32 channel,
                            const Taps (&taps)[headPacks], T *to) const {
    i32 lane = threadIdx.x % kWarp * pack;
    Window windows[headPacks];
#pragma unroll
    for (i32 i = 0; i < headPacks; ++i)
      if (lane + i * headStep < C::keyDim)
        loadWindow(windows[i], first, end, channel + lane + i * headStep);
#pragma unroll
    for (i32 own = 0; own < kDeltaInputOwn; ++own) {
      if (first + own >= end)
        break;
      f32 numbers[headPacks][pack];
      f32 squares = 0;
#pragma unroll
      for (i32 i = 0; i < headPacks; ++i)
        if (lane + i * headStep < C::keyDim) {
          convolve(numbers[i], windows[i], own, taps[i]);
#pragma unroll
          for (i32 j = 0; j < pack; ++j)
            squares = fma(numbers[i][j], numbers[i][j], squares);
        }
      f32 factor = 1.0f / sqrtf(sumLanes(squares) + C::eps);
#pragma unroll
      for (i32 i = 0; i < headPacks; ++i)
        if (lane + i * headStep < C::keyDim) {
          Pack<T, pack> result;
#pragma unroll
          for (i32 j = 0; j < pack; ++j)
            result.at[j] = fromFloat<T>(numbers[i][j] * factor);
          storePack(to + u64(first + own) * keyColumns + lane + i * headStep,
                    result);
        }
    }
  }

  /// Rows [first, end) of the channels of v from \p column on.
  __device__ void writeValues(i32 first, i32 end, i32 column,
                              const Taps &taps) const {
    Window window;
    loadWindow(window, first, end, 2 * keyColumns + column);
#pragma unroll
    for (i32 own = 0; own < kDeltaInputOwn; ++own) {
      if (first + own >= end)
        break;
      f32 numbers[pack];
      convolve(numbers, window, own, taps);
      Pack<T, pack> result;
#pragma unroll
      for (i32 i = 0; i < pack; ++i)
        result.at[i] = fromFloat<T>(numbers[i]);
      storePack(value + u64(first + own) * valueColumns + column, result);
    }
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
  constexpr i32 heads = 2 * C::keyHeads, runs = heads + Inputs::valueRuns;
  i32 run = blockIdx.x, begin = blockIdx.y * kDeltaInputRows;
  if (run == runs) {
    waitForEarlierKernels();
    return writeGates<C>(decayInput, betaInput, logRate, bias, decay, beta,
                         begin,
                         min(begin + kDeltaInputRows, liveRows(live, rows)));
  }
  Inputs inputs = {x, weight, query, key, value, cache, 0, 0};
  i32 lane = threadIdx.x % kWarp * Inputs::pack;
  i32 column = (run - heads) * Inputs::valueRun + lane;
  typename Inputs::Taps taps[Inputs::headPacks];
  if (run < heads) {
#pragma unroll
    for (i32 i = 0; i < Inputs::headPacks; ++i)
      if (lane + i * Inputs::headStep < C::keyDim)
        inputs.loadTaps(taps[i], run * C::keyDim + lane + i * Inputs::headStep);
  } else if (column < Inputs::valueColumns) {
    inputs.loadTaps(taps[0], 2 * Inputs::keyColumns + column);
  }
  waitForEarlierKernels();
  i32 kept = *accepted;
  inputs.count = liveRows(live, rows);
  inputs.kept = min(max(kept, 0), C::pending);
  i32 first = begin + i32(threadIdx.x / kWarp) * kDeltaInputOwn;
  if (first < inputs.count) {
    if (run >= heads) {
      if (column < Inputs::valueColumns)
        inputs.writeValues(first, inputs.count, column, taps[0]);
    } else {
      bool isKey = run >= C::keyHeads;
      inputs.writeHead(first, inputs.count, run * C::keyDim, taps,
                       (isKey ? key : query) +
                           (isKey ? run - C::keyHeads : run) * C::keyDim);
    }
  }
  // Also without rows: what was accepted leaves the pending rows.
  if (blockIdx.y > 0)
    return;
  __syncthreads();
  i32 channel = run < heads
                    ? run * C::keyDim
                    : 2 * Inputs::keyColumns + (run - heads) * Inputs::valueRun;
  i32 width = run < heads ? C::keyDim : Inputs::valueRun;
  inputs.keep(channel, min(channel + width, C::channels));
}

} // namespace tandem
