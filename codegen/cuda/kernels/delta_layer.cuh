//===- delta_layer.cuh - Inputs, rule and norm of a delta layer -----------===//
//
// delta_inputs and the gated_delta that reads it, saves its rows and norms what
// it says, in one kernel: delta_verify.cuh whose rows come from x,
//
//   x row      [q: key heads x key dim][k: the same][v: heads x value dim]
//   conv cache [taps - 1 committed rows][pending rows of the last call]
//
// as delta_inputs.cuh makes them and rounds them. A block makes what it needs
// of 16 rows: the query and the key of its head, which other blocks of the key
// head make too, 32 of the values, and the gates of all heads of the key head.
//
//   warp      0         1         ..  7
//   rows      0, 1      2, 3          14, 15      of query and key
//   lanes     0 .. 15: 8 numbers of the query, 16 .. 31: of the key
//   values    two of a row in each thread
//
// What is read of the convolution's cache stays in this block until it is
// written back: channels of values are the block's own, those of queries and
// keys are written by the block that is last to have read them, with the
// pending keys.
//
// On sm_90 a block lies beside one of the layer in front, and of that behind it
// (few_rows.cuh), which leaves 120 registers a thread. So weights and what will
// be written much later are in shared memory.
//
// Floor: that of delta_verify.cuh, x and the cache of the convolution.
//
// Grid: as delta_verify.cuh. Called by gated_delta.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "delta_verify.cuh"
#include "mma.cuh"

namespace tandem {

/// What delta_inputs reads.
template <typename T> struct DeltaLayerInputs {
  const T *x;
  const f32 *decayInput, *betaInput, *weight, *logRate, *bias;
  T *cache;
};

/// Rows that a block makes itself.
template <typename C, typename T> struct ConvolvedRows {
  using Rule = GatedDelta<C, T>;
  static constexpr i32 before = C::taps - 1;
  static constexpr i32 group = C::heads / C::keyHeads;
  static constexpr i32 keyColumns = C::keyHeads * C::keyDim;
  static constexpr i32 channels = 2 * keyColumns + C::heads * C::valueDim;
  /// Numbers of a lane side by side, of a head and of values.
  static constexpr i32 pack = 8, lanes = kWarp / 2, pair = 2;
  static_assert(packSize<T>(C::keyDim | C::heads * C::valueDim) == pack &&
                C::keyDim <= lanes * pack && C::valueDim % pack == 0);
  static constexpr i32 warps = kDeltaThreads / kWarp, rowsOfWarp = 2;
  static_assert(warps * rowsOfWarp == kDeltaRows && before <= warps);
  static_assert(kDeltaThreads / kDeltaRows * pair == kDeltaValues);
  static_assert(group * kDeltaRows <= kDeltaThreads);

  /// What would take registers for too long.
  struct alignas(16) Shared {
    /// Weights of the convolution, oldest first, of the query, of the key and
    /// of values.
    f32 headWeights[C::taps][2][lanes * pack];
    f32 valueWeights[C::taps][kDeltaValues];
    /// What the cache has of queries and keys in front of the rows of this
    /// call.
    Pack<u32, pack / 2> kept[before > 0 ? before : 1][kWarp];
    /// What the cache will have: the inputs of every thread's own rows.
    Pack<u32, pack / 2> inputs[rowsOfWarp][kDeltaThreads];
  };

  /// Numbers side by side, in as few registers as hold them: the compiler
  /// gives every number of a Pack<T> a register of its own.
  template <i32 Count> using Words = Pack<u32, Count / 2>;
  template <i32 Count, typename From>
  __device__ static Words<Count> loadWords(const From *from) {
    return *reinterpret_cast<const Words<Count> *>(from);
  }
  template <i32 Count>
  __device__ static void storeWords(T *to, const Pack<u32, Count> &words) {
    *reinterpret_cast<Pack<u32, Count> *>(to) = words;
  }
  template <i32 Count>
  __device__ static f32 numberOf(const Words<Count> &words, i32 i) {
    u32 word = words.at[i / 2];
    return __uint_as_float(i % 2 ? word & 0xffff0000u : word << 16);
  }

  DeltaLayerInputs<T> from;
  Shared &shared;

  /// Numbers of the convolution for a head and for values, oldest first; the
  /// values that the cache has in front of the rows of this call.
  Words<pack> headNumbers[before + rowsOfWarp];
  Words<pair> valueNumbers[before + 1], valueKept;
  f32 decay, beta, logRate, bias;
  /// What becomes pending.
  Pack<T, pair> values;

  __device__ static i32 firstRow() { return threadIdx.x / kWarp * rowsOfWarp; }
  __device__ static bool isKey() { return threadIdx.x % kWarp >= lanes; }
  /// The first of this lane's numbers in its head.
  __device__ static i32 inHead() { return threadIdx.x % lanes * pack; }
  __device__ static bool hasHead() { return inHead() < C::keyDim; }
  __device__ static i32 headChannel(const Rule &rule) {
    return (isKey() ? keyColumns : 0) + rule.keyHead * C::keyDim + inHead();
  }
  __device__ static i32 valueRow() {
    return threadIdx.x / (kDeltaValues / pair);
  }
  /// The first of this thread's values in its block.
  __device__ static i32 inValues() {
    return threadIdx.x % (kDeltaValues / pair) * pair;
  }
  __device__ static bool hasValue(const Rule &rule) {
    return rule.firstValue + inValues() < C::valueDim;
  }
  __device__ static i32 valueChannel(const Rule &rule) {
    return 2 * keyColumns + rule.head * C::valueDim + rule.firstValue +
           inValues();
  }
  /// The row and the head, of all heads, of this thread's gates.
  __device__ static i32 gateRow() { return threadIdx.x / group; }
  __device__ static i32 gateHead(const Rule &rule) {
    return rule.keyHead * group + threadIdx.x % group;
  }

  /// Asks for weights and for what the cache has in front of the rows of this
  /// call.
  __device__ void prepare(const Rule &rule, i32 kept) {
    const T *cache = from.cache + u64(kept) * channels;
    constexpr i32 four = 4, ofHead = lanes * pack, ofTap = 2 * ofHead / four;
    for (i32 piece = threadIdx.x; piece < C::taps * ofTap;
         piece += kDeltaThreads) {
      i32 tap = piece / ofTap, which = piece % ofTap * four / ofHead;
      i32 key = piece * four % ofHead;
      copyAsync(&shared.headWeights[tap][which][key],
                from.weight + tap * channels + which * keyColumns +
                    rule.keyHead * C::keyDim + key,
                key < C::keyDim);
    }
    constexpr i32 ofValues = kDeltaValues / four;
    for (i32 piece = threadIdx.x; piece < C::taps * ofValues;
         piece += kDeltaThreads) {
      i32 tap = piece / ofValues, value = piece % ofValues * four;
      copyAsync(&shared.valueWeights[tap][value],
                from.weight + tap * channels + 2 * keyColumns +
                    rule.head * C::valueDim + rule.firstValue + value,
                rule.firstValue + value < C::valueDim);
    }
    i32 warp = threadIdx.x / kWarp;
    if (warp < before && hasHead())
      copyAsync(&shared.kept[warp][threadIdx.x % kWarp],
                cache + u64(warp) * channels + headChannel(rule));
    commitCopies();
    if (hasValue(rule)) {
      i32 channel = valueChannel(rule);
#pragma unroll
      for (i32 i = 0; i < before; ++i)
        if (valueRow() + i < before)
          valueNumbers[i] =
              loadWords<pair>(cache + u64(valueRow() + i) * channels + channel);
      if (valueRow() < before)
        valueKept =
            loadWords<pair>(cache + u64(valueRow()) * channels + channel);
    }
    if (gateRow() < kDeltaRows) {
      logRate = from.logRate[gateHead(rule)];
      bias = from.bias[gateHead(rule)];
    }
  }

  /// Takes what has come.
  __device__ void finishPreparing() {
    waitForCopies<0>();
    __syncthreads();
#pragma unroll
    for (i32 i = 0; i < before + rowsOfWarp; ++i) {
      headNumbers[i] = {};
      if (firstRow() + i < before)
        headNumbers[i] = shared.kept[firstRow() + i][threadIdx.x % kWarp];
    }
  }

  template <i32 Count>
  __device__ static void takeWeights(f32 (&to)[Count], const f32 *numbers) {
    constexpr i32 some = Count < 4 ? Count : 4;
#pragma unroll
    for (i32 i = 0; i < Count; ++i)
      to[i] = loadPack<some>(numbers + i / some * some).at[i % some];
  }

  /// Reads rows before \p count.
  __device__ void read(const Rule &rule, i32 count) {
    if (hasHead()) {
      const T *x = from.x + headChannel(rule);
#pragma unroll
      for (i32 i = 0; i < before + rowsOfWarp; ++i) {
        i32 row = firstRow() + i - before;
        if (row >= 0 && row < count)
          headNumbers[i] = loadWords<pack>(x + u64(row) * channels);
      }
    }
    if (hasValue(rule)) {
      const T *x = from.x + valueChannel(rule);
#pragma unroll
      for (i32 i = 0; i <= before; ++i) {
        i32 row = valueRow() + i - before;
        if (row >= 0 && row < count)
          valueNumbers[i] = loadWords<pair>(x + u64(row) * channels);
      }
    }
    if (gateRow() < count) {
      i32 place = gateRow() * C::heads + gateHead(rule);
      decay = from.decayInput[place];
      beta = from.betaInput[place];
    }
  }

  /// silu of the convolution of the row behind \p First numbers, as memory
  /// would hold it.
  template <i32 Count>
  __device__ static void convolve(f32 (&result)[Count],
                                  const f32 (&weights)[C::taps][Count],
                                  const Words<Count> *numbers) {
#pragma unroll
    for (i32 i = 0; i < Count; ++i) {
      f32 sum = weights[0][i] * numberOf<Count>(numbers[0], i);
#pragma unroll
      for (i32 tap = 1; tap < C::taps; ++tap)
        sum = fma(weights[tap][i], numberOf<Count>(numbers[tap], i), sum);
      result[i] =
          toFloat(fromFloat<T>(Silu::apply(toFloat(fromFloat<T>(sum)))));
    }
  }

  /// Makes rows and brings them to shared memory.
  __device__ void store(const Rule &rule, typename Rule::Keys &toKeys,
                        typename Rule::Queries &toQueries) {
    f32 headWeights[C::taps][pack], valueWeights[C::taps][pair];
#pragma unroll
    for (i32 tap = 0; tap < C::taps; ++tap) {
      takeWeights(headWeights[tap],
                  &shared.headWeights[tap][isKey()][inHead()]);
      takeWeights(valueWeights[tap], &shared.valueWeights[tap][inValues()]);
    }
#pragma unroll
    for (i32 i = 0; i < rowsOfWarp; ++i) {
      f32 numbers[pack], squares = 0;
      convolve(numbers, headWeights, headNumbers + i);
      if (hasHead())
#pragma unroll
        for (i32 j = 0; j < pack; ++j)
          squares = fma(numbers[j], numbers[j], squares);
      f32 factor = 1.0f / sqrtf(sumLanes<lanes>(squares) + C::inputEps);
      i32 row = firstRow() + i;
#pragma unroll
      for (i32 j = 0; j < pack; ++j) {
        if (!hasHead())
          continue;
        f32 number = toFloat(fromFloat<T>(numbers[j] * factor));
        if (isKey())
          toKeys.key[row][inHead() + j] = number;
        else
          toQueries.query[row][inHead() + j] = number * C::scaleBy;
      }
      shared.inputs[i][threadIdx.x] = headNumbers[before + i];
    }
    f32 numbers[pair];
    convolve(numbers, valueWeights, valueNumbers);
#pragma unroll
    for (i32 j = 0; j < pair; ++j) {
      values.at[j] = fromFloat<T>(numbers[j]);
      toKeys.value[valueRow()][inValues() + j] =
          hasValue(rule) ? toFloat(values.at[j]) : 0.0f;
    }
    if (gateRow() < kDeltaRows) {
      decay = decayOf(decay, logRate, bias);
      beta = Sigmoid::apply(beta);
      if (gateHead(rule) == rule.head) {
        toKeys.scalars[gateRow()].decay = expf(decay);
        toKeys.scalars[gateRow()].beta = beta;
      }
    }
  }

  /// Makes the values of this block pending, here and for the convolution.
  __device__ void saveValues(const Rule &rule, const DeltaCache<C, T> &cache,
                             i32 count) const {
    if (!hasValue(rule))
      return;
    i32 channel = valueChannel(rule), row = valueRow();
    if (row < before)
      storeWords(from.cache + u64(row) * channels + channel, valueKept);
    if (row >= count)
      return;
    storeWords(from.cache + u64(before + row) * channels + channel,
               valueNumbers[before]);
    storePack(cache.value + (u64(row) * C::heads + rule.head) * C::valueDim +
                  rule.firstValue + inValues(),
              values);
  }

  /// The same of a key head's queries and keys, and of the gates of its heads.
  __device__ void saveKeys(const Rule &rule, const DeltaCache<C, T> &cache,
                           const typename Rule::Keys &made, i32 count) const {
    if (hasHead()) {
      i32 channel = headChannel(rule), warp = threadIdx.x / kWarp;
      if (warp < before)
        storeWords(from.cache + u64(warp) * channels + channel,
                   shared.kept[warp][threadIdx.x % kWarp]);
#pragma unroll
      for (i32 i = 0; i < rowsOfWarp; ++i) {
        i32 row = firstRow() + i;
        if (row >= count)
          continue;
        storeWords(from.cache + u64(before + row) * channels + channel,
                   shared.inputs[i][threadIdx.x]);
        if (!isKey())
          continue;
        // Rounded before, so they are what they were.
        Pack<T, pack> key;
#pragma unroll
        for (i32 j = 0; j < pack; ++j)
          key.at[j] = fromFloat<T>(made.key[row][inHead() + j]);
        storePack(cache.key +
                      (u64(row) * C::keyHeads + rule.keyHead) * C::keyDim +
                      inHead(),
                  key);
      }
    }
    if (gateRow() < count) {
      i32 at = gateRow() * C::heads + gateHead(rule);
      cache.decay[at] = decay;
      cache.beta[at] = beta;
    }
  }
};

template <typename C, typename T>
__device__ void deltaLayer(const DeltaLayerInputs<T> &inputs,
                           const i32 *accepted, const T *gate,
                           const f32 *weight, T *output, u8 *cacheBytes,
                           const i32 *live, i32 rows, u8 *scratch) {
  __shared__ typename ConvolvedRows<C, T>::Shared shared;
  ConvolvedRows<C, T> source = {inputs, shared};
  verifyRows<C, T>(source, accepted, gate, weight, output, cacheBytes, live,
                   rows, scratch);
}

} // namespace tandem
