//===- tokens.cuh - From logits to tokens ---------------------------------===//
//
//   argmax         logits f32 [rows, columns] -> tokens [rows]: where the
//                  largest number of a row stands first
//   argmax_parts   logits f32, tokens i32 [rows, parts] -> tokens [rows]: the
//                  token of the largest logit of a row, the first of equal ones
//   settled_argmax the same; settled i32 [rows, parts] and what else is to be
//                  counted is added to counts i32 [4]: launches, rows, tiles,
//                  launches that computed all tiles
//   mask_block     anchor -> [anchor, mask, mask, ..]
//   unmask         block [size], logits f32 [size - 1, columns] -> block with
//                  the `fill` surest of its masked slots filled
//   concat_tokens  [left], [right] -> [left, right]
//   select_tokens  places [rows], table [entries] -> table at places; a place
//                  outside of it is the first
//   accept         block, decided [rows], start -> accepted, anchor, next
//                  start, context start; results may lie on operands
//   last_position  start, count -> start + count - 1, or start without rows
//
// Tokens are i32. What is not a number is passed over.
//
// Floor: the logits, once (unmask: twice, the second time from the cache).
//
// Grid: argmax, argmax_parts and settled_argmax a block a row, unmask a block a
// slot, the others one block. Called by the families of these names.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "common.cuh"

namespace tandem {

/// A number and where it stands.
struct Largest {
  f32 value;
  i32 column;

  /// The larger of the two, of equal ones the one that stands first.
  __device__ void take(f32 otherValue, i32 otherColumn) {
    if (otherValue > value || (otherValue == value && otherColumn < column)) {
      value = otherValue;
      column = otherColumn;
    }
  }
};

/// The largest of \p Columns numbers, the same in all Threads threads of the
/// block.
template <i32 Columns, i32 Threads>
__device__ Largest findLargest(const f32 *row) {
  Largest best = {minusInfinity(), 0};
  constexpr i32 pack = packSize<f32>(Columns);
  for (i32 first = threadIdx.x * pack; first < Columns;
       first += Threads * pack) {
    auto numbers = loadPack<pack>(row + first);
#pragma unroll
    for (i32 i = 0; i < pack; ++i)
      if (numbers.at[i] > best.value)
        best = {numbers.at[i], first + i};
  }
#pragma unroll
  for (i32 distance = kWarp / 2; distance > 0; distance /= 2) {
    f32 value = __shfl_xor_sync(~0u, best.value, distance);
    i32 column = __shfl_xor_sync(~0u, best.column, distance);
    best.take(value, column);
  }
  __shared__ Largest ofWarp[Threads / kWarp];
  __syncthreads();
  if (threadIdx.x % kWarp == 0)
    ofWarp[threadIdx.x / kWarp] = best;
  __syncthreads();
  best = ofWarp[0];
  for (i32 warp = 1; warp < Threads / kWarp; ++warp)
    best.take(ofWarp[warp].value, ofWarp[warp].column);
  return best;
}

template <typename C>
__device__ void argmax(const f32 *logits, i32 *tokens, const i32 *live,
                       i32 rows) {
  i32 row = blockIdx.x;
  if (row >= liveRows(live, rows))
    return;
  Largest best =
      findLargest<C::columns, C::threads>(logits + u64(row) * C::columns);
  if (threadIdx.x == 0)
    tokens[row] = best.column;
}

template <typename C>
__device__ void argmaxParts(const f32 *logits, const i32 *tokens, i32 *result,
                            const i32 *live, i32 rows) {
  i32 row = blockIdx.x;
  if (row >= liveRows(live, rows))
    return;
  u64 first = u64(row) * C::parts;
  Largest best = findLargest<C::parts, C::threads>(logits + first);
  if (threadIdx.x == 0)
    result[row] = tokens[first + best.column];
}

template <typename C>
__device__ void settledArgmax(const f32 *logits, const i32 *tokens,
                              const i32 *settled, i32 *result, i32 *counts,
                              const i32 *live, i32 rows) {
  argmaxParts<C>(logits, tokens, result, live, rows);
  i32 allLive = liveRows(live, rows);
  if (blockIdx.x != 0 || allLive == 0)
    return;
  i32 sum = 0;
  for (i32 place = threadIdx.x; place < allLive * C::parts; place += C::threads)
    sum += settled[place];
  __shared__ i32 all;
  if (threadIdx.x == 0)
    all = 0;
  __syncthreads();
  atomicAdd(&all, sum);
  __syncthreads();
  if (threadIdx.x == 0) {
    counts[0] += 1;
    counts[1] += allLive;
    counts[2] += all;
    counts[3] += all >= C::tiles;
  }
}

template <typename C>
__device__ void selectTokens(const i32 *places, const i32 *table, i32 *result,
                             const i32 *live, i32 rows) {
  for (i32 row = threadIdx.x; row < liveRows(live, rows); row += blockDim.x) {
    i32 place = places[row];
    result[row] = table[u32(place) < u32(C::entries) ? place : 0];
  }
}

template <typename C> __device__ void maskBlock(const i32 *anchor, i32 *block) {
  for (i32 slot = threadIdx.x; slot < C::size; slot += blockDim.x)
    block[slot] = slot == 0 ? *anchor : C::maskToken;
}

/// Scratch: candidates [size - 1] i32, how sure they are [size - 1] f32.
template <typename C>
__device__ void unmask(const i32 *block, const f32 *logits, i32 *result,
                       u8 *scratch, u32 *ticket) {
  constexpr i32 slots = C::size - 1;
  i32 *candidates = reinterpret_cast<i32 *>(scratch);
  f32 *confidences = reinterpret_cast<f32 *>(candidates + slots);

  i32 slot = blockIdx.x;
  const f32 *row = logits + u64(slot) * C::columns;
  Largest best = findLargest<C::columns, C::threads>(row);
  f32 sum = 0;
  for (i32 column = threadIdx.x; column < C::columns; column += C::threads)
    sum += expf(row[column] - best.value);
  sum = sumBlock<C::threads>(sum);
  if (threadIdx.x == 0) {
    // The softmax probability of the largest; -1 for what is not to be filled.
    f32 confidence = 1.0f / sum;
    candidates[slot] = best.column;
    confidences[slot] = block[slot + 1] != C::maskToken ? -1.0f
                        : confidence >= 0.0f            ? confidence
                                                        : 0.0f;
  }
  if (!isLastBlock(ticket, slots) || threadIdx.x != 0)
    return;

  result[0] = block[0];
  for (i32 i = 0; i < slots; ++i) {
    f32 confidence = loadShared(confidences + i);
    // A slot is filled when few enough others are surer of theirs.
    i32 surer = 0;
    for (i32 j = 0; j < slots; ++j) {
      f32 other = loadShared(confidences + j);
      surer += other > confidence || (other == confidence && j < i);
    }
    i32 candidate = __float_as_int(
        loadShared(reinterpret_cast<const f32 *>(candidates) + i));
    result[i + 1] =
        confidence >= 0.0f && surer < C::fill ? candidate : block[i + 1];
  }
}

template <typename C>
__device__ void concatTokens(const i32 *left, const i32 *right, i32 *result) {
  for (i32 i = threadIdx.x; i < C::left + C::right; i += blockDim.x)
    result[i] = i < C::left ? left[i] : right[i - C::left];
}

__device__ inline void accept(const i32 *block, const i32 *decided,
                              const i32 *start, i32 *accepted, i32 *anchor,
                              i32 *nextStart, i32 *contextStart,
                              const i32 *live, i32 rows) {
  if (threadIdx.x != 0)
    return;
  i32 count = liveRows(live, rows);
  i32 agreed = min(count, 1);
  while (agreed < count && block[agreed] == decided[agreed - 1])
    ++agreed;
  // Everything is read before anything is written.
  i32 position = *start, decision = decided[max(agreed - 1, 0)];
  *accepted = agreed;
  if (agreed > 0)
    *anchor = decision;
  *nextStart = position + agreed;
  *contextStart = position;
}

__device__ inline void lastPosition(const i32 *start, const i32 *count,
                                    i32 *result) {
  if (threadIdx.x == 0)
    *result = *start + max(*count - 1, 0);
}

} // namespace tandem
