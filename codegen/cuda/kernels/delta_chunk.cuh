//===- delta_chunk.cuh - The gated delta rule over many rows --------------===//
//
// The rule of gated_delta.cuh for a prefill, 32 rows at a time. With c_t the
// product of the decays of a chunk up to row t, S the state before it, and
//
//   A_tj = beta_t c_t / c_j (k_t . k_j)   for j < t, else 0
//   P_tj = c_t / c_j (q_t . k_j)          for j <= t, else 0
//   R_t  = beta_t (v_t - c_t S k_t)
//
// the deltas U of the rows, their answers and the state behind them are
//
//   (1 + A) U = R      o_t = scale (c_t S q_t + P_t U)
//   S' = c_31 S + sum_t (c_31 / c_t) u_t k_t
//
// Of eight warps two or four have 16 values of the state each, all keys, in
// registers, transposed: values are rows of the products and rows of the text
// columns, so sums of one product are A of the next. The other warps make A, P
// and the inverses T of both diagonal blocks of 1 + A of the next chunk
// meanwhile:
//
//           j 0..15   16..31              six: one each
//   t 0..   T0        0                   four: T0 | T1 | A10, P00 | P10, P11
//   t 16..  -A10      T1
//
// Tensor cores multiply bf16. Keys, queries and values are bf16; everything
// else is the sum of two bf16 numbers, so products are those of f32 to 2^-16.
// Shared memory:
//
//   3 x [keys: 32 x key_dim][queries][values: 32 x 32 or 64]
//                                                  bf16, 8 behind each row
//   2 x [T0, T1, A10][P], each of two parts; c_t, c_31 / c_t, beta
//
// Rows behind the live ones are zeros that leave a decay of 1, so nothing
// depends on them. Pending rows are folded one by one as gated_delta does it:
// the state that a text goes on from is the same, however it was decoded.
//
// Floor: operations, about 9 * key_dim * value_dim * heads a row; and the
// chunks one behind the other.
//
// Grid: heads, blocks of 32 or 64 values. Called by gated_delta.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "gated_delta.cuh"
#include "mma.cuh"

namespace tandem {

constexpr i32 kChunkRows = 32;
constexpr i32 kChunkStages = 3;

/// A matrix of two parts: number (row, column) is that of both added.
template <i32 Rows, i32 Columns> struct Parts {
  static constexpr i32 stride = Columns + 8;
  bf16 high[Rows * stride], low[Rows * stride];

  /// Puts two numbers side by side.
  __device__ void store(i32 row, i32 column, f32 left, f32 right) {
    u32 first = packBf16(left, right);
    *reinterpret_cast<u32 *>(high + row * stride + column) = first;
    *reinterpret_cast<u32 *>(low + row * stride + column) =
        packBf16(left - __uint_as_float(first << 16),
                 right - __uint_as_float(first & 0xffff0000u));
  }
  __device__ void store(i32 row, i32 column, f32 x) {
    bf16 first = fromFloat<bf16>(x);
    high[row * stride + column] = first;
    low[row * stride + column] = fromFloat<bf16>(x - toFloat(first));
  }
};

/// A of two parts.
struct SplitA {
  u32 high[4], low[4];

  /// Of the sums of two neighbouring tiles.
  __device__ SplitA(const f32 (&left)[4], const f32 (&right)[4]) {
    split(0, left[0], left[1]);
    split(1, left[2], left[3]);
    split(2, right[0], right[1]);
    split(3, right[2], right[3]);
  }
  __device__ void split(i32 i, f32 x, f32 y) {
    high[i] = packBf16(x, y);
    low[i] = packBf16(x - __uint_as_float(high[i] << 16),
                      y - __uint_as_float(high[i] & 0xffff0000u));
  }
};

/// Adds a times B to the tiles of columns 0..7 and 8..15.
__device__ inline void multiplyPair(f32 (&left)[4], f32 (&right)[4],
                                    const SplitA &a, const u32 (&b)[4]) {
  multiply(left, a.high, b[0], b[1]);
  multiply(right, a.high, b[2], b[3]);
  multiply(left, a.low, b[0], b[1]);
  multiply(right, a.low, b[2], b[3]);
}

/// The same with a B of two parts: rows \p row .. + 15 of \p matrix are the
/// columns of B, its columns \p column .. + 15 are k.
template <i32 Rows, i32 Columns>
__device__ void multiplyParts(f32 (&left)[4], f32 (&right)[4], const SplitA &a,
                              const Parts<Rows, Columns> &matrix, i32 row,
                              i32 column) {
  constexpr i32 stride = Parts<Rows, Columns>::stride;
  u32 high[4], low[4];
  loadB(high, matrix.high + row * stride, stride, column);
  loadB(low, matrix.low + row * stride, stride, column);
  multiplyPair(left, right, a, high);
  multiply(left, a.high, low[0], low[1]);
  multiply(right, a.high, low[2], low[3]);
}

template <typename C> struct DeltaChunks {
  static constexpr i32 keyTiles = C::keyDim / 8, keySteps = C::keyDim / 16;
  static constexpr i32 keyStride = C::keyDim + 8;
  static constexpr i32 valueStride = C::chunkValues + 8;
  /// Warps that have a part of the state.
  static constexpr i32 stateWarps = C::chunkValues / 16;
  static_assert(stateWarps == 2 || stateWarps == 4);

  /// Rows of a chunk as they come.
  struct Stage {
    bf16 keys[kChunkRows * keyStride], queries[kChunkRows * keyStride];
    bf16 values[kChunkRows * valueStride];
  };
  /// What is made of them.
  struct Made {
    Parts<16, 16> inverse[2], below;
    Parts<kChunkRows, kChunkRows> answers;
    /// c_t, c_31 / c_t.
    f32 decay[kChunkRows], rest[kChunkRows], beta[kChunkRows];
  };
  struct Shared {
    Stage stages[kChunkStages];
    Made made[2];
    /// A diagonal block, its columns as rows.
    f32 diagonal[2][16][20];
  };
  static constexpr i32 sharedBytes = i32(sizeof(Shared));
  static_assert(sizeof(typename GatedDelta<C, bf16>::Keys) +
                    sizeof(typename GatedDelta<C, bf16>::Queries) <=
                sizeof(Shared));

  Shared &shared;
  DeltaRows<bf16> rows;
  bf16 *output;
  i32 count, head, keyHead, firstValue;

  __device__ Stage &stage(i32 chunk) const {
    return shared.stages[chunk % kChunkStages];
  }
  __device__ i32 chunks() const { return ceilDiv(count, kChunkRows); }

  //===--------------------------------------------------------------------===//
  // Copies
  //===--------------------------------------------------------------------===//

  /// Starts the copies of chunk \p chunk, if there is one.
  __device__ void fetch(i32 chunk) const {
    if (chunk < chunks()) {
      Stage &to = stage(chunk);
      i32 first = chunk * kChunkRows;
      auto address = [&](const bf16 *from, i32 row, i32 columns, i32 skipped) {
        return first + row < count ? from + u64(first + row) * columns + skipped
                                   : nullptr;
      };
      constexpr i32 keyColumns = C::keyHeads * C::keyDim;
      copyTile<kChunkRows, C::keyDim, keyStride, kDeltaThreads, true>(
          to.keys, C::keyDim, [&](i32 row) {
            return address(rows.key, row, keyColumns, keyHead * C::keyDim);
          });
      copyTile<kChunkRows, C::keyDim, keyStride, kDeltaThreads, true>(
          to.queries, C::keyDim, [&](i32 row) {
            return address(rows.query, row, keyColumns, keyHead * C::keyDim);
          });
      copyTile<kChunkRows, C::chunkValues, valueStride, kDeltaThreads, true>(
          to.values, C::valueDim - firstValue, [&](i32 row) {
            return address(rows.value, row, C::heads * C::valueDim,
                           head * C::valueDim + firstValue);
          });
    }
    commitCopies();
  }

  //===--------------------------------------------------------------------===//
  // What does not depend on the state
  //===--------------------------------------------------------------------===//

  /// decay and beta of row `lane` of a chunk.
  struct Gates {
    f32 decay, beta;
  };
  __device__ Gates loadGates(i32 chunk) const {
    i32 row = chunk * kChunkRows + threadIdx.x % kWarp;
    if (row >= count)
      return {0, 0};
    u64 from = u64(row) * C::heads + head;
    return {rows.decay[from], rows.beta[from]};
  }

  /// Blocks of 16 x 16 that make() makes, in the order of the warps: both that
  /// are inverted, P10, P11, A10, P00.
  enum Task { inverse0, inverse1, answers10, answers11, below10, answers00 };

  /// Makes block \p task: queries or keys times keys, each number times
  /// c_t / c_j and zero where j > t. All blocks by the same code: that of a
  /// chunk is more than what is kept of instructions close to the warps.
  __device__ void makeBlock(Made &made, const Stage &from, i32 task, f32 sum,
                            f32 beta) const {
    bool isAnswer = task == answers10 || task == answers11 || task == answers00;
    i32 row = task == inverse0 || task == answers00 ? 0 : 16;
    i32 column = task == inverse1 || task == answers11 ? 16 : 0;
    const bf16 *left = isAnswer ? from.queries : from.keys;
    // All loads first, and two sums of every number: each waits for the one in
    // front.
    u32 a[keySteps][4], b[keySteps][4];
#pragma unroll
    for (i32 k = 0; k < keySteps; ++k) {
      loadA(a[k], left + row * keyStride, keyStride, k * 16);
      loadB(b[k], from.keys + column * keyStride, keyStride, k * 16);
    }
    f32 numbers[2][4] = {}, odd[2][4] = {};
#pragma unroll
    for (i32 k = 0; k < keySteps; ++k) {
      f32(&sums)[2][4] = k % 2 ? odd : numbers;
      multiply(sums[0], a[k], b[k][0], b[k][1]);
      multiply(sums[1], a[k], b[k][2], b[k][3]);
    }
    i32 lane = threadIdx.x % kWarp;
#pragma unroll
    for (i32 side = 0; side < 2; ++side) {
      i32 t = row + lane / 4 + side * 8;
      f32 upTo = __shfl_sync(~0u, sum, t), ofRow = __shfl_sync(~0u, beta, t);
#pragma unroll
      for (i32 n = 0; n < 2; ++n) {
        i32 j = column + n * 8 + lane % 4 * 2;
        f32 pair[2];
#pragma unroll
        for (i32 i = 0; i < 2; ++i) {
          f32 before = __shfl_sync(~0u, sum, j + i);
          f32 number = numbers[n][side * 2 + i] + odd[n][side * 2 + i];
          pair[i] = j + i <= t ? expf(upTo - before) * number : 0.0f;
        }
        if (isAnswer)
          made.answers.store(t, j, pair[0], pair[1]);
        else if (task == below10)
          made.below.store(t - 16, j, -ofRow * pair[0], -ofRow * pair[1]);
        else
#pragma unroll
          for (i32 i = 0; i < 2; ++i)
            shared.diagonal[task][j + i - row][t - row] =
                j + i < t ? ofRow * pair[i] : 0.0f;
      }
    }
  }

  /// Inverts what is in diagonal block \p block.
  __device__ void invert(Made &made, i32 block) const {
    f32(&columns)[16][20] = shared.diagonal[block];
    __syncwarp();
    // Each lane a column of the inverse.
    i32 column = threadIdx.x % 16;
    f32 numbers[16];
#pragma unroll
    for (i32 i = 0; i < 16; ++i)
      numbers[i] = i == column ? 1.0f : 0.0f;
#pragma unroll
    for (i32 m = 0; m < 15; ++m)
#pragma unroll
      for (i32 first = (m + 1) / 4 * 4; first < 16; first += 4) {
        auto four = loadPack<4>(&columns[m][first]);
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          if (first + i > m)
            numbers[first + i] =
                fma(-four.at[i], numbers[m], numbers[first + i]);
      }
    if (threadIdx.x % kWarp < 16)
#pragma unroll
      for (i32 i = 0; i < 16; ++i)
        made.inverse[block].store(i, column, numbers[i]);
  }

  __device__ void make(i32 chunk, const Gates &gates) const {
    const Stage &from = stage(chunk);
    Made &made = shared.made[chunk % 2];
    i32 lane = threadIdx.x % kWarp;
    // Less is nothing, too, and differences of sums stay exact enough.
    f32 sum = fmaxf(gates.decay, -100.0f);
#pragma unroll
    for (i32 distance = 1; distance < kWarp; distance *= 2) {
      f32 before = __shfl_up_sync(~0u, sum, distance);
      if (lane >= distance)
        sum += before;
    }
    i32 warp = i32(threadIdx.x) / kWarp - stateWarps;
    // Of four warps the last two have two blocks each.
    i32 first = stateWarps == 2 || warp < 2 ? warp : warp * 2 - 2;
    i32 end = stateWarps == 2 || warp < 2 ? first + 1 : first + 2;
#pragma unroll 1
    for (i32 task = first; task < end; ++task)
      makeBlock(made, from, task, sum, gates.beta);
    if (first > inverse1)
      return;
    invert(made, first);
    if (first == inverse0) {
      made.decay[lane] = expf(sum);
      made.rest[lane] = expf(__shfl_sync(~0u, sum, kChunkRows - 1) - sum);
      made.beta[lane] = gates.beta;
    }
  }

  //===--------------------------------------------------------------------===//
  // The state
  //===--------------------------------------------------------------------===//

  using State = f32[keyTiles][4];

  __device__ static i32 warpValue() { return threadIdx.x / kWarp * 16; }
  __device__ bool exists() const {
    return firstValue + warpValue() < C::valueDim;
  }

  /// Calls \p move(place in the cache, two numbers) for those of this thread.
  template <typename Move>
  __device__ void forState(State &state, Move move) const {
    i32 lane = threadIdx.x % kWarp;
#pragma unroll
    for (i32 n = 0; n < keyTiles; ++n)
#pragma unroll
      for (i32 side = 0; side < 2; ++side) {
        i32 value = firstValue + warpValue() + lane / 4 + side * 8;
        move((u64(head) * C::valueDim + value) * C::keyDim + n * 8 +
                 lane % 4 * 2,
             state[n][side * 2], state[n][side * 2 + 1]);
      }
  }

  __device__ void step(i32 chunk, State &state) const {
    Stage &from = stage(chunk);
    const Made &made = shared.made[chunk % 2];
    i32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
    constexpr i32 tiles = kChunkRows / 8;
    // Of tile j: rows of the text 8 j + 2 t and behind it.
    f32 deltas[tiles][4] = {}, answers[tiles][4] = {};
    // B of a step is on its way while the products of the step before run, and
    // products of one sum are far from each other.
    u32 keys[2][tiles / 2][4], queries[2][tiles / 2][4];
    auto load = [&](i32 k) {
#pragma unroll
      for (i32 j = 0; j < tiles / 2; ++j) {
        loadB(keys[k % 2][j], from.keys + j * 16 * keyStride, keyStride,
              k * 16);
        loadB(queries[k % 2][j], from.queries + j * 16 * keyStride, keyStride,
              k * 16);
      }
    };
    load(0);
#pragma unroll
    for (i32 k = 0; k < keySteps; ++k) {
      if (k + 1 < keySteps)
        load(k + 1);
      SplitA a(state[2 * k], state[2 * k + 1]);
#pragma unroll
      for (i32 part = 0; part < 2; ++part)
#pragma unroll
        for (i32 j = 0; j < tiles; ++j) {
          const u32(&ofState)[4] = part ? a.low : a.high;
          const u32(&key)[4] = keys[k % 2][j / 2];
          const u32(&query)[4] = queries[k % 2][j / 2];
          i32 first = j % 2 * 2;
          multiply(deltas[j], ofState, key[first], key[first + 1]);
          multiply(answers[j], ofState, query[first], query[first + 1]);
        }
    }
    bf16 *values = from.values + warpValue();
#pragma unroll
    for (i32 j = 0; j < tiles; ++j)
#pragma unroll
      for (i32 i = 0; i < 4; ++i) {
        i32 row = j * 8 + 2 * t + i % 2;
        f32 value = toFloat(values[row * valueStride + g + i / 2 * 8]);
        deltas[j][i] =
            made.beta[row] * fma(-made.decay[row], deltas[j][i], value);
        answers[j][i] *= made.decay[row];
      }

    f32 solved[tiles][4] = {};
    SplitA right0(deltas[0], deltas[1]);
    multiplyParts(solved[0], solved[1], right0, made.inverse[0], 0, 0);
    SplitA first(solved[0], solved[1]);
    multiplyParts(deltas[2], deltas[3], first, made.below, 0, 0);
    SplitA right1(deltas[2], deltas[3]);
    multiplyParts(solved[2], solved[3], right1, made.inverse[1], 0, 0);
    SplitA second(solved[2], solved[3]);
    multiplyParts(answers[0], answers[1], first, made.answers, 0, 0);
    multiplyParts(answers[2], answers[3], first, made.answers, 16, 0);
    multiplyParts(answers[2], answers[3], second, made.answers, 16, 16);

    f32 all = made.decay[kChunkRows - 1];
#pragma unroll
    for (i32 n = 0; n < keyTiles; ++n)
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        state[n][i] *= all;
#pragma unroll
    for (i32 block = 0; block < 2; ++block) {
#pragma unroll
      for (i32 j = 0; j < 2; ++j)
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          solved[block * 2 + j][i] *=
              made.rest[block * 16 + j * 8 + 2 * t + i % 2];
      SplitA a(solved[block * 2], solved[block * 2 + 1]);
      u32 b[keyTiles / 2][4];
#pragma unroll
      for (i32 n = 0; n < keyTiles / 2; ++n)
        loadBTransposed(b[n], from.keys + block * 16 * keyStride, keyStride,
                        n * 16);
#pragma unroll
      for (i32 part = 0; part < 2; ++part)
#pragma unroll
        for (i32 n = 0; n < keyTiles; ++n) {
          const u32(&ofRows)[4] = part ? a.low : a.high;
          i32 first = n % 2 * 2;
          multiply(state[n], ofRows, b[n / 2][first], b[n / 2][first + 1]);
        }
    }

    // Answers take the place of this warp's values.
    __syncwarp();
#pragma unroll
    for (i32 j = 0; j < tiles; ++j)
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        values[(j * 8 + 2 * t + i % 2) * valueStride + g + i / 2 * 8] =
            fromFloat<bf16>(answers[j][i] * C::scaleBy);
    __syncwarp();
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      i32 row = lane / 2 + half * 16, piece = lane % 2 * 8;
      i32 place = chunk * kChunkRows + row;
      if (place < count)
        storePack(output + (u64(place) * C::heads + head) * C::valueDim +
                      firstValue + warpValue() + piece,
                  loadPack<8>(values + row * valueStride + piece));
    }
  }

  /// Steps over all rows.
  __device__ void run(f32 *cache) const {
    bool hasState = i32(threadIdx.x) < stateWarps * kWarp;
    fetch(0);
    fetch(1);
    Gates gates = loadGates(0);
    State state = {};
    if (hasState && exists())
      forState(state, [&](u64 place, f32 &left, f32 &right) {
        auto pair = loadPack<2>(cache + place);
        left = pair.at[0];
        right = pair.at[1];
      });
    waitForCopies<1>();
    __syncthreads();
    if (!hasState) {
      make(0, gates);
      gates = loadGates(1);
    }
#pragma unroll 1
    for (i32 chunk = 0; chunk < chunks(); ++chunk) {
      waitForCopies<0>();
      __syncthreads();
      fetch(chunk + 2);
      if (hasState) {
        if (exists())
          step(chunk, state);
      } else if (chunk + 1 < chunks()) {
        Gates next = loadGates(chunk + 2);
        make(chunk + 1, gates);
        gates = next;
      }
    }
    waitForCopies<0>();
    if (hasState && exists())
      forState(state, [&](u64 place, f32 &left, f32 &right) {
        storePack(cache + place, Pack<f32, 2>{{left, right}});
      });
  }
};

/// Steps the state over the pending rows \p rows before \p kept.
template <typename C>
__device__ void foldPending(u8 *shared, i32 head, i32 firstValue,
                            const DeltaRows<bf16> &rows, i32 kept, f32 *state) {
  using Rule = GatedDelta<C, bf16>;
  auto &keys = *reinterpret_cast<typename Rule::Keys *>(shared);
  // Pending rows have no queries.
  auto &queries = *reinterpret_cast<typename Rule::Queries *>(
      shared + sizeof(typename Rule::Keys));
  Rule rule = {head, head / (C::heads / C::keyHeads), firstValue};
  rule.load(state);
  Rule::clear(keys.key);
  for (i32 first = 0; first < kept; first += kDeltaRows) {
    typename Rule::Held held;
    rule.hold(held, rows, first, kept);
    // Everybody is done with what is there.
    __syncthreads();
    rule.store(held, keys, queries);
    __syncthreads();
    rule.stepOver(keys, queries, held.count);
  }
  rule.save(state);
}

template <typename C>
__device__ void deltaChunks(const bf16 *query, const bf16 *key,
                            const bf16 *value, const f32 *decay,
                            const f32 *beta, const i32 *accepted, bf16 *output,
                            u8 *cacheBytes, const i32 *live, i32 rows) {
  extern __shared__ __align__(128) u8 shared[];
  using Block = DeltaChunks<C>;
  static_assert(C::commit);
  DeltaCache<C, bf16> cache(cacheBytes);
  i32 head = blockIdx.x, firstValue = blockIdx.y * C::chunkValues;
  i32 kept = min(max(*accepted, 0), C::pending);
  if (kept > 0) {
    DeltaRows<bf16> pending = {nullptr, cache.key, cache.value, cache.decay,
                               cache.beta};
    for (i32 first = 0; first < C::chunkValues; first += kDeltaValues)
      foldPending<C>(shared, head, firstValue + first, pending, kept,
                     cache.state);
    __syncthreads();
  }
  Block block = {*reinterpret_cast<typename Block::Shared *>(shared),
                 {query, key, value, decay, beta},
                 output,
                 liveRows(live, rows),
                 head,
                 head / (C::heads / C::keyHeads),
                 firstValue};
  block.run(cache.state);
}

} // namespace tandem
