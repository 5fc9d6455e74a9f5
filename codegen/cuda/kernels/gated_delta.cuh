//===- gated_delta.cuh - The gated delta rule, token by token -------------===//
//
// Per head, with S [key_dim x value_dim] in f32:
//
//   S = exp(decay) S;  d = beta (v - S^T k);  S = S + k d^T;
//   o = S^T (scale q)
//
// What is multiplied by the new S is taken from the old one, so that both
// products with S are one pass over it:
//
//   d = beta (v - exp(decay) S^T k);  o = exp(decay) S^T q + (k . q) d
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
// A column of S takes eight lanes, each every eighth pack of four keys, in
// registers from the first row to the last:
//
//   keys      0..3   4..7   8..11  ..  28..31  32..35 ..
//   lane      0      1      2      ..  7       0      ..
//
// Rows come 16 at a time through shared memory, the next ones on their way
// while the rule steps over these.
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

/// Rows that the rule steps over.
template <typename T> struct DeltaRows {
  const T *query, *key, *value;
  const f32 *decay, *beta;
};

/// Where the parts of a cache begin.
template <typename C, typename T> struct DeltaCache {
  static constexpr i32 keyColumns = C::keyHeads * C::keyDim;
  static constexpr i32 valueColumns = C::heads * C::valueDim;
  static constexpr u64 stateBytes =
      u64(C::heads) * C::valueDim * C::keyDim * sizeof(f32);

  __device__ static constexpr u64 fill(u64 bytes) {
    return (bytes + 3) / 4 * 4;
  }

  static constexpr u64 valueBytes =
      stateBytes + fill(u64(C::pending) * keyColumns * sizeof(T));
  static constexpr u64 decayBytes =
      valueBytes + fill(u64(C::pending) * valueColumns * sizeof(T));
  static constexpr u64 betaBytes =
      decayBytes + u64(C::pending) * C::heads * sizeof(f32);

  f32 *state;
  T *key, *value;
  f32 *decay, *beta;

  __device__ explicit DeltaCache(u8 *cache)
      : state(reinterpret_cast<f32 *>(cache)),
        key(reinterpret_cast<T *>(cache + stateBytes)),
        value(reinterpret_cast<T *>(cache + valueBytes)),
        decay(reinterpret_cast<f32 *>(cache + decayBytes)),
        beta(reinterpret_cast<f32 *>(cache + betaBytes)) {}

  __device__ DeltaRows<T> pendingRows() const {
    return {nullptr, key, value, decay, beta};
  }
};

constexpr i32 kDeltaThreads = 256;
constexpr i32 kDeltaLanes = 8;
/// Columns of the state in a block, and rows that it holds at a time.
constexpr i32 kDeltaValues = kDeltaThreads / kDeltaLanes;
constexpr i32 kDeltaRows = 16;

template <typename C, typename T> struct GatedDelta {
  static constexpr i32 packs = ceilDiv(C::keyDim, 4 * kDeltaLanes);
  static constexpr i32 paddedKeys = packs * 4 * kDeltaLanes;

  /// A few rows, as f32, read 16 bytes at a time; keys beyond key_dim are
  /// zeros.
  struct alignas(16) Keys {
    f32 key[kDeltaRows][paddedKeys];
    f32 value[kDeltaRows][kDeltaValues];
    f32 decay[kDeltaRows], beta[kDeltaRows];
  };
  struct alignas(16) Queries {
    f32 query[kDeltaRows][paddedKeys];
    /// Key times query.
    f32 product[kDeltaRows];
  };

  i32 head, keyHead, firstValue;
  f32 state[packs][4];

  __device__ i32 lane() const { return threadIdx.x % kDeltaLanes; }
  __device__ i32 column() const { return threadIdx.x / kDeltaLanes; }
  __device__ bool exists() const { return firstValue + column() < C::valueDim; }
  /// First key of pack \p pack of this lane.
  __device__ i32 firstKey(i32 pack) const {
    return (pack * kDeltaLanes + lane()) * 4;
  }
  __device__ static constexpr bool isKey(i32 key) {
    return C::keyDim == paddedKeys || key < C::keyDim;
  }

  //===--------------------------------------------------------------------===//
  // State
  //===--------------------------------------------------------------------===//

  /// Calls \p move(key, number) for every number of the state in this thread.
  template <typename Move> __device__ void forState(Move move) {
    if (!exists())
      return;
#pragma unroll
    for (i32 pack = 0; pack < packs; ++pack)
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        if (isKey(firstKey(pack) + i))
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
    if constexpr (C::keyDim % 4 == 0) {
      if (exists())
#pragma unroll
        for (i32 pack = 0; pack < packs; ++pack)
          if (isKey(firstKey(pack))) {
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
    if constexpr (C::keyDim % 4 == 0) {
      if (exists())
#pragma unroll
        for (i32 pack = 0; pack < packs; ++pack)
          if (isKey(firstKey(pack))) {
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

  //===--------------------------------------------------------------------===//
  // Rows
  //===--------------------------------------------------------------------===//

  /// Some rows, on their way through the registers of all threads.
  struct Held {
    static constexpr i32 pack = packSize<T>(C::keyDim);
    static constexpr i32 pieces =
        ceilDiv(kDeltaRows * C::keyDim / pack, kDeltaThreads);
    static constexpr i32 values = kDeltaRows * kDeltaValues / kDeltaThreads;
    Pack<T, pack> key[pieces], query[pieces];
    T value[values];
    f32 decay, beta;
    i32 count;
    bool hasQuery;
  };

  /// Calls \p move(piece, row, key) for this thread's packs of keys of the rows
  /// before \p count.
  template <typename Move>
  __device__ static void forPieces(i32 count, Move move) {
    constexpr i32 perRow = C::keyDim / Held::pack;
#pragma unroll
    for (i32 i = 0; i < Held::pieces; ++i) {
      i32 piece = i * kDeltaThreads + threadIdx.x;
      if (piece < count * perRow)
        move(i, piece / perRow, piece % perRow * Held::pack);
    }
  }

  /// Starts to read rows first .. first + 15 of \p rows, those before \p end.
  __device__ void hold(Held &held, const DeltaRows<T> &rows, i32 first,
                       i32 end) const {
    held.count = min(kDeltaRows, end - first);
    held.hasQuery = rows.query;
    forPieces(held.count, [&](i32 i, i32 row, i32 key) {
      u64 from = (u64(first + row) * C::keyHeads + keyHead) * C::keyDim + key;
      held.key[i] = loadPack<Held::pack>(rows.key + from);
      if (rows.query)
        held.query[i] = loadPack<Held::pack>(rows.query + from);
    });
#pragma unroll
    for (i32 i = 0; i < Held::values; ++i) {
      i32 place = i * kDeltaThreads + threadIdx.x;
      // Without a condition, for which a half of a register would have to wait.
      i32 row = min(place / kDeltaValues, held.count - 1);
      i32 value = min(firstValue + place % kDeltaValues, C::valueDim - 1);
      held.value[i] =
          rows.value[(u64(first + row) * C::heads + head) * C::valueDim +
                     value];
    }
    if (i32(threadIdx.x) < held.count) {
      u64 from = u64(first + threadIdx.x) * C::heads + head;
      held.decay = rows.decay[from];
      held.beta = rows.beta[from];
    }
  }

  /// Brings what has been read to shared memory, where nobody reads any more.
  __device__ void store(const Held &held, Keys &keys, Queries &queries) const {
    forPieces(held.count, [&](i32 i, i32 row, i32 key) {
#pragma unroll
      for (i32 j = 0; j < Held::pack; ++j) {
        keys.key[row][key + j] = toFloat(held.key[i].at[j]);
        if (held.hasQuery)
          queries.query[row][key + j] =
              toFloat(held.query[i].at[j]) * C::scaleBy;
      }
    });
#pragma unroll
    for (i32 i = 0; i < Held::values; ++i) {
      i32 place = i * kDeltaThreads + threadIdx.x;
      i32 row = place / kDeltaValues, value = place % kDeltaValues;
      if (row < held.count)
        keys.value[row][value] =
            firstValue + value < C::valueDim ? toFloat(held.value[i]) : 0.0f;
    }
    if (i32(threadIdx.x) < held.count) {
      keys.decay[threadIdx.x] = expf(held.decay);
      keys.beta[threadIdx.x] = held.beta;
    }
  }

  /// Multiplies keys and queries of \p count rows.
  __device__ static void multiply(const Keys &keys, Queries &queries,
                                  i32 count) {
    for (i32 row = threadIdx.x / kWarp; row < count;
         row += kDeltaThreads / kWarp) {
      f32 sum = 0;
#pragma unroll
      for (i32 key = threadIdx.x % kWarp; key < paddedKeys; key += kWarp)
        sum = fma(keys.key[row][key], queries.query[row][key], sum);
      sum = sumLanes(sum);
      if (threadIdx.x % kWarp == 0)
        queries.product[row] = sum;
    }
  }

  /// Keys behind the last are zeros from the start.
  __device__ static void clear(f32 (&numbers)[kDeltaRows][paddedKeys]) {
    if constexpr (C::keyDim != paddedKeys)
      for (i32 place = threadIdx.x; place < kDeltaRows * paddedKeys;
           place += kDeltaThreads)
        (&numbers[0][0])[place] = 0;
  }

  //===--------------------------------------------------------------------===//
  // The rule
  //===--------------------------------------------------------------------===//

  /// What this thread needs of a row.
  struct Row {
    Pack<f32, 4> keys[packs], query[packs];
    f32 decay, beta, value, product;
  };

  template <bool HasQuery>
  __device__ void fetch(Row &to, const Keys &rows, const Queries &queries,
                        i32 row) const {
#pragma unroll
    for (i32 pack = 0; pack < packs; ++pack) {
      to.keys[pack] = loadPack<4>(rows.key[row] + firstKey(pack));
      if constexpr (HasQuery)
        to.query[pack] = loadPack<4>(queries.query[row] + firstKey(pack));
    }
    to.decay = rows.decay[row];
    to.beta = rows.beta[row];
    to.value = rows.value[row][column()];
    if constexpr (HasQuery)
      to.product = queries.product[row];
  }

  /// One step. With a query, says what it is answered.
  template <bool HasQuery> __device__ f32 step(const Row &row) {
    f32 predicted[4] = {}, answer[4] = {};
#pragma unroll
    for (i32 pack = 0; pack < packs; ++pack)
#pragma unroll
      for (i32 i = 0; i < 4; ++i) {
        predicted[i] = fma(row.keys[pack].at[i], state[pack][i], predicted[i]);
        if constexpr (HasQuery)
          answer[i] = fma(row.query[pack].at[i], state[pack][i], answer[i]);
      }
    f32 before =
        row.decay * sumLanes<kDeltaLanes>((predicted[0] + predicted[1]) +
                                          (predicted[2] + predicted[3]));
    f32 delta = row.beta * (row.value - before);
#pragma unroll
    for (i32 pack = 0; pack < packs; ++pack)
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        state[pack][i] =
            fma(row.keys[pack].at[i], delta, row.decay * state[pack][i]);
    if constexpr (!HasQuery)
      return 0;
    f32 kept = row.decay * sumLanes<kDeltaLanes>((answer[0] + answer[1]) +
                                                 (answer[2] + answer[3]));
    return fma(row.product, delta, kept);
  }

  /// Calls \p take(row, answer) behind each of the first \p count steps; a row
  /// is fetched while the rule steps over the one in front.
  template <bool HasQuery, typename Take>
  __device__ void forRows(const Keys &rows, const Queries &queries, i32 count,
                          Take take) {
    // Long keys leave no room for two rows, and short ones need none.
    if constexpr (packs < 2 || packs > 4) {
      for (i32 row = 0; row < count; ++row) {
        Row here;
        fetch<HasQuery>(here, rows, queries, row);
        take(row, step<HasQuery>(here));
      }
      return;
    }
    Row even, odd;
    fetch<HasQuery>(even, rows, queries, 0);
    i32 row = 0;
#pragma unroll 1
    for (; row + 1 < count; row += 2) {
      fetch<HasQuery>(odd, rows, queries, row + 1);
      take(row, step<HasQuery>(even));
      fetch<HasQuery>(even, rows, queries, min(row + 2, kDeltaRows - 1));
      take(row + 1, step<HasQuery>(odd));
    }
    if (row < count)
      take(row, step<HasQuery>(even));
  }

  /// Steps over the first \p count rows.
  __device__ void stepOver(const Keys &rows, const Queries &queries,
                           i32 count) {
    forRows<false>(rows, queries, count, [](i32, f32) {});
  }

  /// The same with queries; row 0 is row \p first of \p output, which gets
  /// what they are answered.
  __device__ void answer(const Keys &rows, const Queries &queries, i32 count,
                         i32 first, T *output) {
    forRows<true>(rows, queries, count, [&](i32 row, f32 answer) {
      if (lane() == 0 && exists())
        output[(u64(first + row) * C::heads + head) * C::valueDim + firstValue +
               column()] = fromFloat<T>(answer);
    });
  }
};

template <typename C, typename T>
__device__ void gatedDelta(const T *query, const T *key, const T *value,
                           const f32 *decay, const f32 *beta,
                           const i32 *accepted, T *output, u8 *cacheBytes,
                           const i32 *live, i32 rows) {
  using Rule = GatedDelta<C, T>;
  __shared__ typename Rule::Keys keys;
  __shared__ typename Rule::Queries queries;
  i32 head = blockIdx.x;
  Rule rule = {head, head / (C::heads / C::keyHeads),
               i32(blockIdx.y) * kDeltaValues};
  DeltaCache<C, T> cache(cacheBytes);
  i32 kept = min(max(*accepted, 0), C::pending);
  i32 count = liveRows(live, rows);

  rule.load(cache.state);
  rule.clear(keys.key);
  rule.clear(queries.query);
  // First the pending rows, then those of this call.
  i32 pendingChunks = ceilDiv(kept, kDeltaRows);
  i32 chunks = pendingChunks + ceilDiv(count, kDeltaRows);
  typename Rule::Held held;
  auto hold = [&](i32 chunk) {
    if (chunk < pendingChunks)
      rule.hold(held, cache.pendingRows(), chunk * kDeltaRows, kept);
    else if (chunk < chunks)
      rule.hold(held, {query, key, value, decay, beta},
                (chunk - pendingChunks) * kDeltaRows, count);
  };
  hold(0);
#pragma unroll 1
  for (i32 chunk = 0; chunk < chunks; ++chunk) {
    // Everybody is done with what is there.
    __syncthreads();
    rule.store(held, keys, queries);
    __syncthreads();
    i32 some = held.count;
    hold(chunk + 1);
    if (chunk < pendingChunks) {
      rule.stepOver(keys, queries, some);
    } else {
      rule.multiply(keys, queries, some);
      __syncthreads();
      rule.answer(keys, queries, some, (chunk - pendingChunks) * kDeltaRows,
                  output);
    }
    if (!C::commit && chunk + 1 == pendingChunks)
      rule.save(cache.state);
  }
  if (C::commit)
    rule.save(cache.state);
}

/// Copies row \p row to the part of a cache that begins at byte \p Offset.
template <i32 Columns, u64 Offset, typename T>
__device__ void saveRow(T *to, const T *from, i32 row) {
  constexpr i32 pack = packSize<T>(Columns | i32(Offset / sizeof(T) % 8));
  for (i32 column = threadIdx.x * pack; column < Columns;
       column += blockDim.x * pack)
    storePack(to + row * Columns + column,
              loadPack<pack>(from + row * Columns + column));
}

template <typename C, typename T>
__device__ void deltaSave(const T *key, const T *value, const f32 *decay,
                          const f32 *beta, u8 *cacheBytes, const i32 *live,
                          i32 rows) {
  i32 row = blockIdx.x;
  if (row >= min(liveRows(live, rows), C::pending))
    return;
  DeltaCache<C, T> cache(cacheBytes);
  using Cache = DeltaCache<C, T>;
  saveRow<Cache::keyColumns, Cache::stateBytes>(cache.key, key, row);
  saveRow<Cache::valueColumns, Cache::valueBytes>(cache.value, value, row);
  saveRow<C::heads, Cache::decayBytes>(cache.decay, decay, row);
  saveRow<C::heads, Cache::betaBytes>(cache.beta, beta, row);
}

} // namespace tandem
