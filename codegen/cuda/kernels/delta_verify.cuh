//===- delta_verify.cuh - The gated delta rule over a block to verify -----===//
//
// gated_delta.cuh without commit, for pending rows and rows of up to 16, with
// what stands behind it:
//
//   output = gated_rms_norm(gated_delta(..), gate)     when normed
//   the pending rows of the cache become the rows of this call, as delta_save
//   leaves them
//
// each as it is on its own and rounded where it would write to memory. Where
// rows come from is a source: memory here, the convolution in delta_layer.cuh.
//
//   registers   the state, 16 numbers a thread
//   shared      pending rows [keys, values, gates] rows [.., queries]
//               answers T [16 rows][32 values]            when normed
//
// The cache is not what the two kernels in front write, so pending rows are
// folded before those have ended, where the launch allows that.
//
// Blocks share what is pending and overwrite it, so they count: the values of a
// block are its own, the keys of a key head and the gates of its heads are
// written by the block that is last to have read them, when it is done with its
// steps.
//
// A norm takes the values of all blocks of a head. Each norms its own, and gets
// from the others what their lanes have of the sum of squares, which it adds up
// as one warp with all values would:
//
//   scratch   u32 [key head][blocks that have read]
//             f32 [head][to block][from block][16 rows][lanes]
//
// A number there is its own flag: it is zero before, written once with its sign
// set, and cleared by the block that reads it, so there are no fences and no
// counters. Blocks of a head wait for each other and for no others. Their
// numbers are consecutive, so where one of them runs and another does not yet,
// those in front of them are whole heads, which end and make room.
//
// Floor: the state read once and, when rows were accepted, written once.
//
// Grid: blocks of 32 values, heads. Called by gated_delta.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "gated_delta.cuh"
#include "norm.cuh"

namespace tandem {

template <typename C, typename T> struct DeltaVerify {
  using Rule = GatedDelta<C, T>;
  using Held = typename Rule::Held;
  static constexpr i32 valueBlocks = ceilDiv(C::valueDim, kDeltaValues);
  static constexpr i32 group = C::heads / C::keyHeads;
  static_assert(!C::commit && C::pending <= kDeltaRows);

  /// Counts this block for the pending rows of a key head; says in thread 0 how
  /// many came before.
  __device__ static u32 countReader(u8 *scratch, i32 keyHead) {
    if (threadIdx.x != 0)
      return 0;
    // What has been read is in shared memory: there is nothing to wait for.
    return atomicAdd(reinterpret_cast<u32 *>(scratch) + keyHead, 1);
  }
};

/// The norm of what a block answers, which other blocks have a part in.
template <typename C, typename T> struct DeltaNorm {
  using Rule = GatedDelta<C, T>;
  static constexpr i32 blocks = DeltaVerify<C, T>::valueBlocks;
  /// Numbers of a lane, as norm.cuh has them, and lanes of a row of this block.
  static constexpr i32 pack = packSize<T>(C::valueDim);
  static constexpr i32 lanes = kDeltaValues / pack;
  static constexpr i32 runs = ceilDiv(kDeltaRows * lanes, kDeltaThreads);

  /// What this block answers, as memory would hold it.
  struct alignas(16) Answers {
    T value[kDeltaRows][kDeltaValues];
  };

  const Rule &rule;
  i32 count;
  /// Of this thread.
  Pack<T, pack> gates[runs];

  __device__ static i32 row(i32 run) {
    return (run * kDeltaThreads + threadIdx.x) / lanes;
  }
  /// The first of this lane's values in its block.
  __device__ static i32 inBlock() { return threadIdx.x % lanes * pack; }
  __device__ bool exists(i32 run) const {
    return row(run) < count && rule.firstValue + inBlock() < C::valueDim;
  }
  __device__ u64 place(i32 run) const {
    return (u64(row(run)) * C::heads + rule.head) * C::valueDim +
           rule.firstValue + inBlock();
  }

  __device__ void readGates(const T *gate) {
#pragma unroll
    for (i32 run = 0; run < runs; ++run)
      if (exists(run))
        gates[run] = loadPack<pack>(gate + place(run));
  }

  /// Where block \p from of a head leaves the squares of this thread's lane for
  /// block \p to.
  __device__ f32 *slot(u8 *scratch, i32 to, i32 from, i32 run) const {
    u64 box = (u64(rule.head) * blocks + to) * blocks + from;
    return reinterpret_cast<f32 *>(scratch + C::ticketBytes) +
           box * (kDeltaRows * lanes) + run * kDeltaThreads + threadIdx.x;
  }

  /// Gives the squares \p own of this lane to the other blocks of the head, and
  /// gets theirs.
  __device__ void exchange(f32 (&squares)[blocks], f32 own, u8 *scratch,
                           i32 run) const {
    i32 mine = rule.firstValue / kDeltaValues;
    // No sum of squares is zero with its sign set.
    f32 given = -own;
#pragma unroll
    for (i32 block = 0; block < blocks; ++block)
      if (block != mine)
        storeRelaxed(slot(scratch, block, mine, run), given);
    bool isComplete;
    do {
      isComplete = true;
#pragma unroll
      for (i32 block = 0; block < blocks; ++block) {
        squares[block] = block == mine
                             ? given
                             : loadRelaxed(slot(scratch, mine, block, run));
        isComplete &= __float_as_uint(squares[block]) != 0;
      }
    } while (!isComplete);
#pragma unroll
    for (i32 block = 0; block < blocks; ++block) {
      squares[block] = -squares[block];
      if (block != mine)
        *slot(scratch, mine, block, run) = 0;
    }
  }

  /// gated_rms_norm of what this block has answered. By whole warps, as many
  /// as have rows.
  __device__ void write(const Answers &answers, const f32 *weight, T *output,
                        u8 *scratch) const {
    static_assert(C::valueDim <= kWarp * pack, "a lane has one pack of a row");
#pragma unroll
    for (i32 run = 0; run < runs; ++run) {
      if (run * kDeltaThreads + threadIdx.x / kWarp * kWarp >= count * lanes)
        return;
      Pack<T, pack> values;
      f32 weights[pack], gated[pack], squares[kWarp / lanes] = {};
      if (exists(run)) {
        values = loadPack<pack>(&answers.value[row(run)][inBlock()]);
#pragma unroll
        for (i32 i = 0; i < pack; ++i) {
          f32 value = toFloat(values.at[i]);
          squares[0] = fma(value, value, squares[0]);
          weights[i] = weight[rule.firstValue + inBlock() + i];
          gated[i] = Silu::apply(toFloat(gates[run].at[i]));
        }
      }
      if constexpr (blocks > 1) {
        f32 all[blocks] = {};
        if (row(run) < count)
          exchange(all, squares[0], scratch, run);
#pragma unroll
        for (i32 block = 0; block < blocks; ++block)
          squares[block] = all[block];
      }
      // As sumLanes() adds up the lanes of a warp that has all values.
#pragma unroll
      for (i32 distance = kWarp / lanes / 2; distance > 0; distance /= 2)
#pragma unroll
        for (i32 i = 0; i < distance; ++i)
          squares[i] += squares[i + distance];
      f32 mean = sumLanes<lanes>(squares[0]) / f32(C::valueDim);
      f32 factor = 1.0f / sqrtf(mean + C::eps);
      if (!exists(run))
        continue;
#pragma unroll
      for (i32 i = 0; i < pack; ++i) {
        f32 value = toFloat(values.at[i]) * factor;
        values.at[i] = fromFloat<T>(value * weights[i] * gated[i]);
      }
      storePack(output + place(run), values);
    }
  }
};

/// Rows that lie in memory.
template <typename C, typename T> struct MemoryRows {
  using Rule = GatedDelta<C, T>;

  DeltaRows<T> rows;
  typename Rule::Held held;

  /// Reads what is there before the kernels in front have ended.
  __device__ void prepare(const Rule &, i32) {}
  __device__ void finishPreparing() {}
  /// Reads the first \p count rows.
  __device__ void read(const Rule &rule, i32 count) {
    rule.hold(held, rows, 0, count);
  }
  __device__ void store(const Rule &rule, typename Rule::Keys &keys,
                        typename Rule::Queries &queries) const {
    rule.store(held, keys, queries);
  }

  /// Makes the values of this block pending.
  __device__ void saveValues(const Rule &rule, const DeltaCache<C, T> &cache,
                             i32 count) const {
#pragma unroll
    for (i32 i = 0; i < Rule::Held::values; ++i) {
      i32 place = i * kDeltaThreads + threadIdx.x;
      i32 row = place / kDeltaValues;
      i32 value = rule.firstValue + place % kDeltaValues;
      if (row < count && value < C::valueDim)
        cache.value[(u64(row) * C::heads + rule.head) * C::valueDim + value] =
            held.value[i];
    }
  }

  /// Makes the keys of a key head, and the gates of its heads, pending.
  __device__ void saveKeys(const Rule &rule, const DeltaCache<C, T> &cache,
                           const typename Rule::Keys &, i32 count) const {
    constexpr i32 group = C::heads / C::keyHeads;
    Rule::forPieces(count, [&](i32 i, i32 row, i32 key) {
      storePack(cache.key +
                    (u64(row) * C::keyHeads + rule.keyHead) * C::keyDim + key,
                held.key[i]);
    });
    for (i32 place = threadIdx.x; place < count * group;
         place += kDeltaThreads) {
      i32 at = place / group * C::heads + rule.keyHead * group + place % group;
      cache.decay[at] = rows.decay[at];
      cache.beta[at] = rows.beta[at];
    }
  }
};

/// The rule over the rows of \p source, and what stands behind it.
template <typename C, typename T, typename Source>
__device__ void verifyRows(Source source, const i32 *accepted, const T *gate,
                           const f32 *weight, T *output, u8 *cacheBytes,
                           const i32 *live, i32 rows, u8 *scratch) {
  using Verify = DeltaVerify<C, T>;
  using Rule = GatedDelta<C, T>;
  using Norm = DeltaNorm<C, T>;
  __shared__ typename Rule::Keys pendingKeys, keys;
  __shared__ typename Rule::Queries queries;
  __shared__ typename Norm::Answers answers;
  __shared__ bool isLastReader;
  i32 head = blockIdx.y;
  Rule rule = {head, head / Verify::group, i32(blockIdx.x) * kDeltaValues};
  DeltaCache<C, T> cache(cacheBytes);
  i32 kept = min(max(*accepted, 0), C::pending);

  // The rows of before, and what they leave.
  typename Verify::Held pending;
  rule.hold(pending, cache.pendingRows(), 0, C::pending);
  rule.load(cache.state);
  source.prepare(rule, kept);
  Rule::clear(pendingKeys.key);
  Rule::clear(keys.key);
  Rule::clear(queries.query);
  if constexpr (C::keyDim != Rule::paddedKeys)
    __syncthreads();
  rule.store(pending, pendingKeys, queries);
  __syncthreads();
  rule.stepOver(pendingKeys, queries, kept);
  if (kept > 0)
    rule.save(cache.state);
  source.finishPreparing();

  // Those of this call. The next kernel's weights would stand in one queue with
  // them, so it begins when they have come. Few of them take less time than its
  // beginning, and it finds room only when the kernels in front have ended.
  constexpr i32 fewRows = 8;
  if (rows <= fewRows)
    letNextKernelBegin();
  waitForEarlierKernels</*LetsNextBegin=*/false>();
  source.read(rule, min(rows, C::pending));
  i32 count = min(liveRows(live, rows), C::pending);
  Norm norm = {rule, count};
  if constexpr (C::normed)
    norm.readGates(gate);
  source.store(rule, keys, queries);
  __syncthreads();
  letNextKernelBegin();
  u32 readers = Verify::countReader(scratch, rule.keyHead);
  source.saveValues(rule, cache, count);
  Rule::multiply(keys, queries, count);
  __syncthreads();
  rule.answer(keys, queries, count, [&](i32 row, i32 value, f32 answer) {
    if constexpr (C::normed)
      answers.value[row][value] = fromFloat<T>(answer);
    else if (rule.firstValue + value < C::valueDim)
      output[(u64(row) * C::heads + head) * C::valueDim + rule.firstValue +
             value] = fromFloat<T>(answer);
  });

  if (threadIdx.x == 0) {
    isLastReader = readers == Verify::group * Verify::valueBlocks - 1;
    if (isLastReader)
      reinterpret_cast<u32 *>(scratch)[rule.keyHead] = 0;
  }
  __syncthreads();
  if constexpr (C::normed)
    norm.write(answers, weight, output, scratch);
  if (isLastReader)
    source.saveKeys(rule, cache, keys, count);
}

template <typename C, typename T>
__device__ void deltaVerify(const T *query, const T *key, const T *value,
                            const f32 *decay, const f32 *beta,
                            const i32 *accepted, const T *gate,
                            const f32 *weight, T *output, u8 *cacheBytes,
                            const i32 *live, i32 rows, u8 *scratch) {
  MemoryRows<C, T> source = {{query, key, value, decay, beta}};
  verifyRows<C, T>(source, accepted, gate, weight, output, cacheBytes, live,
                   rows, scratch);
}

} // namespace tandem
