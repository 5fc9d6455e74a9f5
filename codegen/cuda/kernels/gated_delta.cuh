//===- gated_delta.cuh - The gated delta rule, token by token -------------===//
//
// Per head, with S [key_dim x value_dim] in f32:
//
//   S = exp(decay) S;  d = beta (v - S^T k);  S = S + k d^T;
//   o = S^T (scale q)
//
// query, key [rows, key_heads * key_dim], value [rows, heads * value_dim] (T),
// decay, beta [rows, heads] f32, accepted [1] i32 -> output like value, cache:
//
//   state      f32 [head][value][key_dim]
//   pending    T   key   [pending][key_heads * key_dim]
//              T   value [pending][heads * value_dim]    each part filled up to
//              f32 decay [pending][heads]                4 bytes
//              f32 beta  [pending][heads]
//
// A call folds the accepted pending rows into the state and writes it back,
// then steps over its rows. Without commit the state in memory stays as it was
// before those rows, and delta_save, a launch of its own because all blocks of
// this one read the pending rows, remembers them. Folding, verifying and
// decoding are the same step, so the state's bits are those of plain decoding.
//
// A column of S takes four lanes, each every fourth pack of four keys, in
// registers from the first row to the last:
//
//   keys      0..3   4..7   8..11  12..15  16..19 ..
//   lane      0      1      2      3       0      ..
//
// Floor: the state read once and, when rows were accepted or are committed,
// written once: 8 * heads * key_dim * value_dim bytes.
//
// Grid: heads, blocks of 32 values. Called by delta_gate, gated_delta and
// delta_save.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "common.cuh"

namespace tandem {

/// -exp(log rate) softplus(x + bias).
__device__ inline f32 decayOf(f32 x, f32 logRate, f32 bias) {
  f32 step = x + bias;
  f32 softplus = step > 20.0f ? step : log1pf(expf(step));
  return -(expf(logRate) * softplus);
}

template <typename C, typename T>
__device__ void deltaGate(const T *x, const f32 *logRate, const f32 *bias,
                          f32 *y, const i32 *live, i32 rows) {
  u64 place = u64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (place >= u64(liveRows(live, rows)) * C::columns)
    return;
  i32 column = place % C::columns;
  y[place] = decayOf(toFloat(x[place]), logRate[column], bias[column]);
}

/// Where the parts of a cache begin.
template <typename C, typename T> struct DeltaCache {
  static constexpr i32 keyColumns = C::keyHeads * C::keyDim;
  static constexpr i32 valueColumns = C::heads * C::valueDim;
  static constexpr u64 stateBytes =
      u64(C::heads) * C::valueDim * C::keyDim * sizeof(f32);

  __device__ static constexpr u64 fill(u64 bytes) {
    return (bytes + 3) / 4 * 4;
  }

  f32 *state;
  T *key, *value;
  f32 *decay, *beta;

  __device__ explicit DeltaCache(u8 *cache) {
    state = reinterpret_cast<f32 *>(cache);
    cache += stateBytes;
    key = reinterpret_cast<T *>(cache);
    cache += fill(u64(C::pending) * keyColumns * sizeof(T));
    value = reinterpret_cast<T *>(cache);
    cache += fill(u64(C::pending) * valueColumns * sizeof(T));
    decay = reinterpret_cast<f32 *>(cache);
    beta = decay + C::pending * C::heads;
  }
};

/// Rows that the rule steps over.
template <typename T> struct DeltaRows {
  const T *query, *key, *value;
  const f32 *decay, *beta;
};

constexpr i32 kDeltaThreads = 128;
/// Columns of the state in a block, and rows that it holds at a time.
constexpr i32 kDeltaValues = kDeltaThreads / 4;
constexpr i32 kDeltaRows = 8;

template <typename C, typename T> struct GatedDelta {
  static constexpr i32 packs = ceilDiv(C::keyDim, 16);
  static constexpr i32 paddedKeys = packs * 16;

  /// A few rows, as f32; keys beyond key_dim are zeros.
  struct Shared {
    f32 key[kDeltaRows][paddedKeys];
    f32 query[kDeltaRows][paddedKeys];
    f32 value[kDeltaRows][kDeltaValues];
    f32 decay[kDeltaRows], beta[kDeltaRows];
  };

  Shared &shared;
  i32 head, keyHead, firstValue;
  f32 state[packs][4];

  __device__ i32 lane() const { return threadIdx.x % 4; }
  __device__ i32 column() const { return threadIdx.x / 4; }
  __device__ bool exists() const { return firstValue + column() < C::valueDim; }
  /// First key of pack \p pack of this lane.
  __device__ i32 firstKey(i32 pack) const { return pack * 16 + lane() * 4; }

  /// Calls \p move(key, number) for every number of the state in this thread.
  template <typename Move> __device__ void forState(Move move) {
    if (!exists())
      return;
#pragma unroll
    for (i32 pack = 0; pack < packs; ++pack)
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        if (C::keyDim % 16 == 0 || firstKey(pack) + i < C::keyDim)
          move(firstKey(pack) + i, state[pack][i]);
  }

  __device__ u64 stateBase() const {
    return (u64(head) * C::valueDim + firstValue + column()) * C::keyDim;
  }

  __device__ void load(const f32 *from) {
#pragma unroll
    for (i32 pack = 0; pack < packs; ++pack)
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        state[pack][i] = 0;
    if constexpr (C::keyDim % 16 == 0) {
      if (exists())
#pragma unroll
        for (i32 pack = 0; pack < packs; ++pack) {
          auto four = loadPack<4>(from + stateBase() + firstKey(pack));
#pragma unroll
          for (i32 i = 0; i < 4; ++i)
            state[pack][i] = four.at[i];
        }
    } else {
      forState([&](i32 key, f32 &number) { number = from[stateBase() + key]; });
    }
  }

  __device__ void save(f32 *to) {
    if constexpr (C::keyDim % 16 == 0) {
      if (exists())
#pragma unroll
        for (i32 pack = 0; pack < packs; ++pack) {
          Pack<f32, 4> four;
#pragma unroll
          for (i32 i = 0; i < 4; ++i)
            four.at[i] = state[pack][i];
          storePack(to + stateBase() + firstKey(pack), four);
        }
    } else {
      forState([&](i32 key, f32 &number) { to[stateBase() + key] = number; });
    }
  }

  /// Brings rows first .. first + count - 1 to shared memory.
  __device__ void fetch(const DeltaRows<T> &rows, i32 first, i32 count) {
    __syncthreads();
    for (i32 place = threadIdx.x; place < count * paddedKeys;
         place += kDeltaThreads) {
      i32 row = place / paddedKeys, key = place % paddedKeys;
      u64 from = (u64(first + row) * C::keyHeads + keyHead) * C::keyDim + key;
      bool real = key < C::keyDim;
      shared.key[row][key] = real ? toFloat(rows.key[from]) : 0.0f;
      if (rows.query)
        shared.query[row][key] =
            real ? toFloat(rows.query[from]) * C::scaleBy : 0.0f;
    }
    for (i32 place = threadIdx.x; place < count * kDeltaValues;
         place += kDeltaThreads) {
      i32 row = place / kDeltaValues, value = firstValue + place % kDeltaValues;
      shared.value[row][place % kDeltaValues] =
          value < C::valueDim
              ? toFloat(rows.value[(u64(first + row) * C::heads + head) *
                                       C::valueDim +
                                   value])
              : 0.0f;
    }
    for (i32 row = threadIdx.x; row < count; row += kDeltaThreads) {
      shared.decay[row] = expf(rows.decay[u64(first + row) * C::heads + head]);
      shared.beta[row] = rows.beta[u64(first + row) * C::heads + head];
    }
    __syncthreads();
  }

  /// Sum over all keys of \p vector times state.
  __device__ f32 dot(const f32 *vector) const {
    f32 sums[4] = {};
#pragma unroll
    for (i32 pack = 0; pack < packs; ++pack) {
      auto four = loadPack<4>(vector + firstKey(pack));
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        sums[i] = fma(four.at[i], state[pack][i], sums[i]);
    }
    return sumLanes<4>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  }

  /// One step of the rule with row \p row of shared memory.
  __device__ void step(i32 row) {
#pragma unroll
    for (i32 pack = 0; pack < packs; ++pack)
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        state[pack][i] *= shared.decay[row];
    f32 predicted = dot(shared.key[row]);
    f32 delta = shared.beta[row] * (shared.value[row][column()] - predicted);
#pragma unroll
    for (i32 pack = 0; pack < packs; ++pack) {
      auto four = loadPack<4>(shared.key[row] + firstKey(pack));
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        state[pack][i] = fma(four.at[i], delta, state[pack][i]);
    }
  }

  /// Steps over \p count rows; writes what they say to \p output unless null.
  __device__ void stepOver(const DeltaRows<T> &rows, i32 count, T *output) {
    for (i32 first = 0; first < count; first += kDeltaRows) {
      i32 some = min(kDeltaRows, count - first);
      fetch(rows, first, some);
      for (i32 row = 0; row < some; ++row) {
        step(row);
        if (!output)
          continue;
        f32 result = dot(shared.query[row]);
        if (lane() == 0 && exists())
          output[(u64(first + row) * C::heads + head) * C::valueDim +
                 firstValue + column()] = fromFloat<T>(result);
      }
    }
  }
};

template <typename C, typename T>
__device__ void gatedDelta(const T *query, const T *key, const T *value,
                           const f32 *decay, const f32 *beta,
                           const i32 *accepted, T *output, u8 *cacheBytes,
                           const i32 *live, i32 rows) {
  using Rule = GatedDelta<C, T>;
  __shared__ typename Rule::Shared shared;
  i32 head = blockIdx.x;
  Rule rule = {shared, head, head / (C::heads / C::keyHeads),
               i32(blockIdx.y) * kDeltaValues};
  DeltaCache<C, T> cache(cacheBytes);
  i32 kept = min(max(*accepted, 0), C::pending);

  rule.load(cache.state);
  rule.stepOver({nullptr, cache.key, cache.value, cache.decay, cache.beta},
                kept, nullptr);
  if (!C::commit && kept > 0)
    rule.save(cache.state);
  rule.stepOver({query, key, value, decay, beta}, liveRows(live, rows), output);
  if (C::commit)
    rule.save(cache.state);
}

template <typename T>
__device__ void saveRow(T *to, const T *from, i32 row, i32 columns) {
  for (i32 column = threadIdx.x; column < columns; column += blockDim.x)
    to[row * columns + column] = from[row * columns + column];
}

template <typename C, typename T>
__device__ void deltaSave(const T *key, const T *value, const f32 *decay,
                          const f32 *beta, u8 *cacheBytes, const i32 *live,
                          i32 rows) {
  i32 row = blockIdx.x;
  if (row >= min(liveRows(live, rows), C::pending))
    return;
  DeltaCache<C, T> cache(cacheBytes);
  saveRow(cache.key, key, row, cache.keyColumns);
  saveRow(cache.value, value, row, cache.valueColumns);
  saveRow(cache.decay, decay, row, C::heads);
  saveRow(cache.beta, beta, row, C::heads);
}

} // namespace tandem
