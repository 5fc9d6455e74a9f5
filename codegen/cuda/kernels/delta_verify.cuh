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
//
// The cache is not what the two kernels in front write, so pending rows are
// folded before those have ended, where the launch allows that.
//
// Blocks share what is pending and overwrite it, so they count: the values of a
// block are its own, the keys of a key head and the gates of its heads are
// written by the block that is last to have read them, when it is done with its
// steps. A norm takes the values of all blocks of a head,
// so the block that is last to be done with them computes it:
//
//   scratch   u32 [key head][blocks that have read]
//             u32 [head][blocks that are done]
//             T   [16 rows][heads * value_dim]      outputs before the norm
//
// Floor: the state read once and, when rows were accepted, written once.
//
// Grid: heads, blocks of 32 values. Called by gated_delta.
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

  /// What the lanes of a warp have of a run of the norm.
  static constexpr i32 pack = packSize<T>(C::valueDim), step = kWarp * pack;
  static constexpr i32 steps = ceilDiv(C::valueDim, step);
  /// Runs of a warp.
  static constexpr i32 runs = kDeltaRows / (kDeltaThreads / kWarp);

  /// Counts this block for the pending rows of a key head; says in thread 0 how
  /// many came before.
  __device__ static u32 countReader(u8 *scratch, i32 keyHead) {
    if (threadIdx.x != 0)
      return 0;
    // What has been read is in shared memory: there is nothing to wait for.
    return atomicAdd(reinterpret_cast<u32 *>(scratch) + keyHead, 1);
  }

  __device__ static i32 normRow(i32 run) {
    return threadIdx.x / kWarp + run * (kDeltaThreads / kWarp);
  }
  __device__ static i32 normColumn(i32 i) {
    return threadIdx.x % kWarp * pack + i * step;
  }
  /// Where a row of head \p head begins.
  __device__ static u64 base(i32 row, i32 head) {
    return (u64(row) * C::heads + head) * C::valueDim;
  }

  using Runs = Pack<T, pack>[runs][steps];

  __device__ static void loadRuns(Runs &to, const T *from, i32 head,
                                  i32 count) {
#pragma unroll
    for (i32 run = 0; run < runs; ++run)
#pragma unroll
      for (i32 i = 0; i < steps; ++i)
        if (normRow(run) < count && normColumn(i) < C::valueDim)
          to[run][i] =
              loadPack<pack>(from + base(normRow(run), head) + normColumn(i));
  }

  /// gated_rms_norm of one head.
  __device__ static void normalize(Runs &values, const Runs &gates,
                                   const f32 *weight, T *output, i32 head,
                                   i32 count) {
#pragma unroll
    for (i32 run = 0; run < runs; ++run) {
      // A warp as a whole stays or goes.
      if (normRow(run) >= count)
        continue;
      f32 squares = 0;
#pragma unroll
      for (i32 i = 0; i < steps; ++i)
        if (normColumn(i) < C::valueDim)
#pragma unroll
          for (i32 j = 0; j < pack; ++j) {
            f32 value = toFloat(values[run][i].at[j]);
            squares = fma(value, value, squares);
          }
      squares = sumLanes(squares) / f32(C::valueDim);
      f32 factor = 1.0f / sqrtf(squares + C::eps);
#pragma unroll
      for (i32 i = 0; i < steps; ++i)
        if (normColumn(i) < C::valueDim) {
#pragma unroll
          for (i32 j = 0; j < pack; ++j) {
            f32 value = toFloat(values[run][i].at[j]) * factor;
            value = value * weight[normColumn(i) + j] *
                    Silu::apply(toFloat(gates[run][i].at[j]));
            values[run][i].at[j] = fromFloat<T>(value);
          }
          storePack(output + base(normRow(run), head) + normColumn(i),
                    values[run][i]);
        }
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
                           i32 count) const {
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
  __shared__ typename Rule::Keys pendingKeys, keys;
  __shared__ typename Rule::Queries queries;
  __shared__ bool isLastReader;
  i32 head = blockIdx.x;
  Rule rule = {head, head / Verify::group, i32(blockIdx.y) * kDeltaValues};
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

  // Those of this call.
  waitForEarlierKernels();
  source.read(rule, min(rows, C::pending));
  i32 count = min(liveRows(live, rows), C::pending);
  typename Verify::Runs gates;
  if constexpr (C::normed)
    Verify::loadRuns(gates, gate, head, count);
  source.store(rule, keys, queries);
  __syncthreads();
  u32 readers = Verify::countReader(scratch, rule.keyHead);
  source.saveValues(rule, cache, count);
  Rule::multiply(keys, queries, count);
  __syncthreads();
  T *to = output;
  if constexpr (C::normed)
    to = reinterpret_cast<T *>(scratch + C::ticketBytes);
  rule.answer(keys, queries, count, [&](i32 row, i32 value, f32 answer) {
    if (rule.firstValue + value < C::valueDim)
      to[Verify::base(row, head) + rule.firstValue + value] =
          fromFloat<T>(answer);
  });

  if (threadIdx.x == 0) {
    isLastReader = readers == Verify::group * Verify::valueBlocks - 1;
    if (isLastReader)
      reinterpret_cast<u32 *>(scratch)[rule.keyHead] = 0;
  }
  __syncthreads();
  if (isLastReader)
    source.saveKeys(rule, cache, count);
  if constexpr (C::normed) {
    typename Verify::Runs values;
    if (!isLastBlock(reinterpret_cast<u32 *>(scratch) + C::keyHeads + head,
                     Verify::valueBlocks))
      return;
    Verify::loadRuns(values, to, head, count);
    Verify::normalize(values, gates, weight, output, head, count);
  }
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
