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
// Two columns of S take sixteen lanes, each every sixteenth pack of four keys
// of both, in registers from the first row to the last, so that a number of a
// row is read once for both:
//
//   keys      0..3   4..7   8..11  ..  60..63  64..67 ..
//   lane      0      1      2      ..  15      0      ..
//
// Sums of both columns, predicted and answered, are added across lanes at once:
// a lane gives half of what it has to its partner and goes on with the other
// half.
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
/// Lanes that share columns of the state, and how many.
constexpr i32 kDeltaLanes = 16;
constexpr i32 kDeltaColumns = 2;
/// Columns of the state in a block, and rows that it holds at a time.
constexpr i32 kDeltaValues = kDeltaThreads / kDeltaLanes * kDeltaColumns;
constexpr i32 kDeltaRows = 16;

template <typename C, typename T> struct GatedDelta {
  static constexpr i32 packs = ceilDiv(C::keyDim, 4 * kDeltaLanes);
  static constexpr i32 paddedKeys = packs * 4 * kDeltaLanes;

  /// What a row has one of.
  struct alignas(16) Scalars {
    f32 decay, beta;
    /// Key times query.
    f32 product, unused;
  };
  /// A few rows, as f32, read 16 bytes at a time; keys beyond key_dim are
  /// zeros.
  struct alignas(16) Keys {
    f32 key[kDeltaRows][paddedKeys];
    f32 value[kDeltaRows][kDeltaValues];
    Scalars scalars[kDeltaRows];
  };
  struct alignas(16) Queries {
    f32 query[kDeltaRows][paddedKeys];
  };

  i32 head, keyHead, firstValue;
  f32 state[kDeltaColumns][packs][4];

  __device__ static i32 lane() { return threadIdx.x % kDeltaLanes; }
  /// The first of this thread's columns.
  __device__ static i32 column() {
    return threadIdx.x / kDeltaLanes * kDeltaColumns;
  }
  /// Which of them is summed in this lane, with queries and without, and
  /// whether it is the answer.
  template <bool HasQuery> __device__ static i32 summed() {
    return lane() / (HasQuery ? 4 : 8) % 2;
  }
  __device__ static bool isAnswer() { return lane() >= 8; }
  __device__ bool exists(i32 which) const {
    return firstValue + column() + which < C::valueDim;
  }
  /// First key of pack \p pack of this lane.
  __device__ static i32 firstKey(i32 pack) {
    return (pack * kDeltaLanes + lane()) * 4;
  }
  __device__ static constexpr bool isKey(i32 key) {
    return C::keyDim == paddedKeys || key < C::keyDim;
  }

  //===--------------------------------------------------------------------===//
  // State
  //===--------------------------------------------------------------------===//

  /// Calls \p move(place in memory, numbers) for every pack of the state in
  /// this thread that there is.
  template <typename Move> __device__ void forState(Move move) {
#pragma unroll
    for (i32 which = 0; which < kDeltaColumns; ++which)
      if (exists(which)) {
        u64 base = (u64(head) * C::valueDim + firstValue + column() + which) *
                   C::keyDim;
#pragma unroll
        for (i32 pack = 0; pack < packs; ++pack)
          move(base + firstKey(pack), state[which][pack], firstKey(pack));
      }
  }

  __device__ void load(const f32 *from) {
#pragma unroll
    for (i32 which = 0; which < kDeltaColumns; ++which)
#pragma unroll
      for (i32 pack = 0; pack < packs; ++pack)
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          state[which][pack][i] = 0;
    forState([&](u64 place, f32(&numbers)[4], i32 key) {
      if constexpr (C::keyDim % 4 == 0) {
        if (!isKey(key))
          return;
        auto four = loadPack<4>(from + place);
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          numbers[i] = four.at[i];
      } else {
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          if (isKey(key + i))
            numbers[i] = from[place + i];
      }
    });
  }

  __device__ void save(f32 *to) {
    forState([&](u64 place, f32(&numbers)[4], i32 key) {
      if constexpr (C::keyDim % 4 == 0) {
        Pack<f32, 4> four = {{numbers[0], numbers[1], numbers[2], numbers[3]}};
        if (isKey(key))
          storePack(to + place, four);
      } else {
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          if (isKey(key + i))
            to[place + i] = numbers[i];
      }
    });
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
      keys.scalars[threadIdx.x].decay = expf(held.decay);
      keys.scalars[threadIdx.x].beta = held.beta;
    }
  }

  /// Multiplies keys and queries of \p count rows.
  __device__ static void multiply(Keys &keys, const Queries &queries,
                                  i32 count) {
    for (i32 row = threadIdx.x / kWarp; row < count;
         row += kDeltaThreads / kWarp) {
      f32 sum = 0;
#pragma unroll
      for (i32 key = threadIdx.x % kWarp; key < paddedKeys; key += kWarp)
        sum = fma(keys.key[row][key], queries.query[row][key], sum);
      sum = sumLanes(sum);
      if (threadIdx.x % kWarp == 0)
        keys.scalars[row].product = sum;
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
    Scalars scalars;
    f32 value;
  };

  __device__ static Pack<f32, 4> loadNow(const f32 *from) {
    Pack<f32, 4> four;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(four.at[0]), "=f"(four.at[1]), "=f"(four.at[2]),
                   "=f"(four.at[3])
                 : "r"(static_cast<u32>(__cvta_generic_to_shared(from))));
    return four;
  }

  template <bool HasQuery>
  __device__ static void fetch(Row &to, const Keys &rows,
                               const Queries &queries, i32 row) {
    // Volatile, or they would be read when they are needed.
#pragma unroll
    for (i32 pack = 0; pack < packs; ++pack) {
      to.keys[pack] = loadNow(rows.key[row] + firstKey(pack));
      if constexpr (HasQuery)
        to.query[pack] = loadNow(queries.query[row] + firstKey(pack));
    }
    auto scalars = loadNow(&rows.scalars[row].decay);
    to.scalars = {scalars.at[0], scalars.at[1], scalars.at[2], 0};
    to.value = rows.value[row][column() + summed<HasQuery>()];
  }

  /// This thread's part of a product with column \p which.
  __device__ f32 multiplyColumn(i32 which,
                                const Pack<f32, 4> (&row)[packs]) const {
    f32 sums[4];
#pragma unroll
    for (i32 pack = 0; pack < packs; ++pack)
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        sums[i] = pack == 0
                      ? row[0].at[i] * state[which][0][i]
                      : fma(row[pack].at[i], state[which][pack][i], sums[i]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  /// Adds \p low in lanes without bit \p Distance, \p high in those with it:
  /// what this lane and its partner have of it.
  template <i32 Distance> __device__ static f32 halve(f32 low, f32 high) {
    bool takesHigh = threadIdx.x & Distance;
    f32 given = takesHigh ? low : high, kept = takesHigh ? high : low;
    return kept + __shfl_xor_sync(~0u, given, Distance);
  }
  /// The delta that lane \p lane of sixteen has.
  __device__ static f32 deltaOf(f32 delta, i32 lane) {
    return __shfl_sync(~0u, delta, lane, kDeltaLanes);
  }

  /// One step. With a query, says what it is answered, in the lanes of the
  /// answers for the column that is summed there.
  template <bool HasQuery> __device__ f32 step(const Row &row) {
    static_assert(kDeltaColumns == 2 && kDeltaLanes == 16);
    f32 predicted[2] = {multiplyColumn(0, row.keys),
                        multiplyColumn(1, row.keys)};
    f32 sum;
    // Lane i and lane i ^ 8, then i ^ 4 and so on, whatever is summed.
    if constexpr (HasQuery)
      sum = halve<4>(halve<8>(predicted[0], multiplyColumn(0, row.query)),
                     halve<8>(predicted[1], multiplyColumn(1, row.query)));
    else
      sum = sumDistance<4>(halve<8>(predicted[0], predicted[1]));
    sum = row.scalars.decay * sumDistance<1>(sumDistance<2>(sum));
    f32 delta = row.scalars.beta * (row.value - sum);
    f32 deltas[2] = {deltaOf(delta, 0), deltaOf(delta, HasQuery ? 4 : 8)};
#pragma unroll
    for (i32 which = 0; which < kDeltaColumns; ++which)
#pragma unroll
      for (i32 pack = 0; pack < packs; ++pack)
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          state[which][pack][i] =
              fma(row.keys[pack].at[i], deltas[which],
                  row.scalars.decay * state[which][pack][i]);
    if constexpr (!HasQuery)
      return 0;
    return fma(row.scalars.product, summed<HasQuery>() ? deltas[1] : deltas[0],
               sum);
  }
  template <i32 Distance> __device__ static f32 sumDistance(f32 x) {
    return x + __shfl_xor_sync(~0u, x, Distance);
  }

  /// Calls \p take(row, answer) behind each of the first \p count steps; a row
  /// is fetched while the rule steps over the one in front.
  template <bool HasQuery, typename Take>
  __device__ void forRows(const Keys &rows, const Queries &queries, i32 count,
                          Take take) {
    // Long keys leave no room for two rows, and short ones need none.
    if constexpr (packs > 2) {
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

  /// The same with queries; calls \p write(row, value of this block, answer)
  /// for what they are answered.
  template <typename Write>
  __device__ void answer(const Keys &rows, const Queries &queries, i32 count,
                         Write write) {
    forRows<true>(rows, queries, count, [&](i32 row, f32 answer) {
      if (isAnswer() && lane() % 4 == 0)
        write(row, column() + summed<true>(), answer);
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
      i32 first = (chunk - pendingChunks) * kDeltaRows;
      rule.answer(keys, queries, some, [&](i32 row, i32 value, f32 answer) {
        if (rule.firstValue + value < C::valueDim)
          output[(u64(first + row) * C::heads + head) * C::valueDim +
                 rule.firstValue + value] = fromFloat<T>(answer);
      });
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
