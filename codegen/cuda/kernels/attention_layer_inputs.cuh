//===- attention_layer_inputs.cuh - What a block of attention makes -------===//
//
// How a block of attention_layer.cuh, which draws it, comes by queries, keys
// and values: it copies what the cache has to its tiles, norms and turns the
// rows of its head, and appends those that it owns.
//
// Floor: keys and values seen, 4 * heads * dim bytes a position.
//
// Used by attention_layer.cuh.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "cluster.cuh"
#include "elementwise.cuh"

namespace tandem {

constexpr i32 kAttentionLayerThreads = 256;
constexpr i32 kAttentionLayerWarps = kAttentionLayerThreads / kWarp;

template <typename C> struct AttentionLayerInputs {
  static constexpr i32 dim = C::dim, span = C::span, slots = C::slots;
  static constexpr i32 group = C::queryHeads / C::heads;
  static constexpr i32 tiles = C::itemTiles, mostItems = tiles * 16;
  static constexpr i32 parts = kAttentionLayerWarps / tiles;
  static constexpr i32 stride = dim + 8, probabilityStride = span + 8;
  /// Of a warp: tiles of 8 keys in scores, of 8 columns in outputs.
  static constexpr i32 keyTiles = span / parts / 8, dimTiles = dim / parts / 8;
  static constexpr i32 sumGroups = span / 16;
  static_assert(keyTiles % 2 == 0 && dimTiles % 2 == 0);
  static constexpr u64 halfCache = u64(C::heads) * slots * dim;
  static constexpr i32 width = C::gated ? 2 * dim : dim;
  static constexpr i32 chunks = C::clusters * C::cluster;

  /// Of a slice: its warps, units, and groups of 32 units.
  static constexpr i32 sliceWarps = kAttentionLayerWarps / C::cluster;
  static constexpr i32 pieces = dimTiles / 2;
  static constexpr i32 sliceGroups = sliceWarps * pieces * 2;
  static constexpr i32 units = sliceGroups * kWarp;
  static_assert(sliceWarps <= parts && units % kAttentionLayerThreads == 0);

  static constexpr i32 tilesBytes =
      (mostItems + 2 * span) * stride * i32(sizeof(bf16));
  static constexpr i32 weightBytes =
      (2 * dim + C::rows * C::dims) * i32(sizeof(f32));
  static constexpr i32
      probabilityBytes = mostItems * probabilityStride * i32(sizeof(bf16)) >
                                 weightBytes
                             ? mostItems * probabilityStride * i32(sizeof(bf16))
                             : weightBytes;
  static constexpr i32 sharedBytes =
      tilesBytes + probabilityBytes +
      (parts + sumGroups) * mostItems * i32(sizeof(f32)) + 16;
  static constexpr i32 slotBytes = C::cluster * (units * 16 + 16 * 8);
  static_assert(slotBytes <= (mostItems + span) * stride * i32(sizeof(bf16)));

  const bf16 *query, *keys, *values;
  const f32 *queryNorm, *keyNorm, *table;
  bf16 *cache, *output;
  u32 *scratch;
  bf16 *queries;
  i32 start, live;
  /// Of the block: head of the cache, chunk, rank in the cluster.
  i32 head, chunk, rank;
  /// Positions that any item sees.
  i32 seenLow, seenHigh;

  __device__ bf16 *keyTile() const { return queries + mostItems * stride; }
  __device__ bf16 *valueTile() const { return keyTile() + span * stride; }
  __device__ bf16 *probabilities() const { return valueTile() + span * stride; }
  __device__ f32 *maxima() const {
    return reinterpret_cast<f32 *>(probabilities()) + probabilityBytes / 4;
  }
  __device__ f32 *sums() const { return maxima() + parts * mostItems; }
  __device__ u64 *barrier() const {
    return reinterpret_cast<u64 *>(sums() + sumGroups * mostItems);
  }
  /// Weights and table, where probabilities will be.
  __device__ f32 *norms() const {
    return reinterpret_cast<f32 *>(probabilities());
  }
  __device__ f32 *angles() const { return norms() + 2 * dim; }
  __device__ f32 *slotUnits(i32 from) const {
    return reinterpret_cast<f32 *>(queries) + from * (units * 4);
  }
  __device__ f32 *slotPairs(i32 from) const {
    return slotUnits(C::cluster) + from * (16 * 2);
  }

  __device__ static i32 warp() { return threadIdx.x / kWarp; }
  __device__ static i32 tile() { return warp() / parts; }
  __device__ static i32 part() { return warp() % parts; }
  __device__ i32 items() const { return live * group; }
  /// Whether this warp's tile has an item.
  __device__ bool hasItems() const { return tile() * 16 < items(); }

  /// Positions that \p item sees, from \p low to \p high.
  __device__ void findVisible(i32 item, i32 &low, i32 &high) const {
    i32 position = start + item / group;
    low = 0;
    high = C::causal ? position : start + live - 1;
    if constexpr (C::window > 0) {
      low = max(position - (C::window - 1), 0);
      high = min(high, position + (C::window - 1));
    }
  }

  //===--------------------------------------------------------------------===//
  // Memory
  //===--------------------------------------------------------------------===//

  /// Copies the numbers of the norms and of the rows of the table.
  __device__ void readWeights() const {
    for (i32 i = threadIdx.x; i < dim; i += kAttentionLayerThreads) {
      norms()[i] = queryNorm[i] + C::offset;
      norms()[dim + i] = keyNorm[i] + C::offset;
    }
    for (i32 i = threadIdx.x; i < C::rows * C::dims;
         i += kAttentionLayerThreads) {
      i32 position = min(start + i / C::dims, C::positions - 1);
      angles()[i] = table[u64(position) * C::dims + i % C::dims];
    }
  }

  /// Starts copies of the rows of span \p index from \p from, keys or values of
  /// the head, to \p to; positions that nothing sees become zeros. \p
  /// leavesNew: new rows are left alone.
  __device__ void copySpan(bf16 *to, const bf16 *from, i32 index,
                           bool leavesNew) const {
    constexpr i32 perRow = dim / 8, step = kAttentionLayerThreads / perRow;
    i32 firstRow = threadIdx.x / perRow, column = threadIdx.x % perRow * 8;
    i32 first = index * span, begin = C::window > 0 ? first % slots : first;
    u32 lastSeen = seenHigh - seenLow;
#pragma unroll
    for (i32 i = 0; i < span; i += step) {
      i32 row = firstRow + i, slot = begin + row;
      if (C::window > 0 && slot >= slots)
        slot -= slots;
      bool isSeen = u32(first + row - seenLow) <= lastSeen;
      if (!leavesNew || u32(first + row - start) >= u32(live))
        copyAsync(to + row * stride + column,
                  from + (isSeen ? u32(slot) * u32(dim) : 0) + column, isSeen);
    }
  }
  __device__ void copyKeys(i32 index, bool leavesNew) const {
    copySpan(keyTile(), cache + u64(head) * slots * dim, index, leavesNew);
  }
  __device__ void copyValues(i32 index, bool leavesNew) const {
    copySpan(valueTile(), cache + halfCache + u64(head) * slots * dim, index,
             leavesNew);
  }

  //===--------------------------------------------------------------------===//
  // What is read
  //===--------------------------------------------------------------------===//

  /// Eight numbers, past the cache of this processor.
  __device__ static void loadPiece(u32 (&piece)[4], const bf16 *from) {
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(piece[0]), "=r"(piece[1]), "=r"(piece[2]),
                   "=r"(piece[3])
                 : "l"(from)
                 : "memory");
  }
  __device__ static void storePiece(bf16 *to, const u32 (&piece)[4]) {
    Pack<u32, 4> pack = {{piece[0], piece[1], piece[2], piece[3]}};
    *reinterpret_cast<Pack<u32, 4> *>(to) = pack;
  }
  /// Number \p i of a piece.
  __device__ static f32 numberOf(const u32 (&piece)[4], i32 i) {
    return __uint_as_float(i % 2 ? piece[i / 2] & 0xffff0000u
                                 : piece[i / 2] << 16);
  }

  /// Normalizes and turns eight heads, lanes 4 g .. 4 g + 3 the one at \p from,
  /// as attention_inputs does: lane t has its pieces of 8 numbers t, t + 4 ..
  /// The head goes to \p place and \p other, where they are not null.
  __device__ void turnHeads(const bf16 *from, const f32 *norm, const f32 *angle,
                            bf16 *place, bf16 *other) const {
    constexpr i32 count = dim / 32, halfPieces = C::dims / 64;
    i32 t = threadIdx.x % 4;
    u32 piece[count][4];
#pragma unroll
    for (i32 j = 0; j < count; ++j)
      loadPiece(piece[j], from + (4 * j + t) * 8);
    // In the order of sumLanes() over lanes with eight numbers each.
    f32 squares[count];
#pragma unroll
    for (i32 j = 0; j < count; ++j) {
      squares[j] = 0;
#pragma unroll
      for (i32 i = 0; i < 8; ++i)
        squares[j] =
            fma(numberOf(piece[j], i), numberOf(piece[j], i), squares[j]);
    }
#pragma unroll
    for (i32 distance = count / 2; distance > 0; distance /= 2)
#pragma unroll
      for (i32 j = 0; j < distance; ++j)
        squares[j] += squares[j + distance];
    f32 sum = sumLanes<4>(squares[0]);
    f32 factor = 1.0f / sqrtf(sum / f32(dim) + C::eps);
#pragma unroll
    for (i32 j = 0; j < count; ++j)
#pragma unroll
      for (i32 i = 0; i < 8; i += 4) {
        Pack<f32, 4> weights = loadPack<4>(norm + (4 * j + t) * 8 + i);
#pragma unroll
        for (i32 k = 0; k < 4; k += 2)
          piece[j][(i + k) / 2] = packBf16(
              numberOf(piece[j], i + k) * factor * weights.at[k],
              numberOf(piece[j], i + k + 1) * factor * weights.at[k + 1]);
      }
#pragma unroll
    for (i32 j = 0; j < halfPieces; ++j)
#pragma unroll
      for (i32 i = 0; i < 8; i += 4) {
        const f32 *cosines = angle + (4 * j + t) * 8 + i;
        Pack<f32, 4> cosine = loadPack<4>(cosines);
        Pack<f32, 4> sine = loadPack<4>(cosines + C::dims / 2);
#pragma unroll
        for (i32 k = 0; k < 4; k += 2) {
          f32 low[2], high[2];
#pragma unroll
          for (i32 l = 0; l < 2; ++l) {
            f32 left = numberOf(piece[j], i + k + l);
            f32 right = numberOf(piece[j + halfPieces], i + k + l);
            low[l] = left * cosine.at[k + l] - right * sine.at[k + l];
            high[l] = right * cosine.at[k + l] + left * sine.at[k + l];
          }
          piece[j][(i + k) / 2] = packBf16(low[0], low[1]);
          piece[j + halfPieces][(i + k) / 2] = packBf16(high[0], high[1]);
        }
      }
    if (place)
#pragma unroll
      for (i32 j = 0; j < count; ++j)
        storePiece(place + (4 * j + t) * 8, piece[j]);
    if (other)
#pragma unroll
      for (i32 j = 0; j < count; ++j)
        storePiece(other + (4 * j + t) * 8, piece[j]);
  }

  /// Whether a new row \p row is in a span of this chunk.
  __device__ bool owns(i32 row) const {
    return row < live && (start + row) / span % chunks == chunk;
  }
  /// Row \p row of the tile \p of, if its span is \p firstSpan.
  __device__ bf16 *placeInTile(bf16 *of, i32 row, i32 firstSpan) const {
    i32 position = start + row;
    return position / span == firstSpan ? of + position % span * stride
                                        : nullptr;
  }
  __device__ bf16 *placeInCache(i32 row) const {
    return cache + (u64(head) * slots + (start + row) % slots) * dim;
  }

  /// Makes queries, and appends the rows of this chunk.
  __device__ void makeInputs(i32 firstSpan) const {
    constexpr i32 queryTasks = mostItems / 8, keyTasks = ceilDiv(C::rows, 8);
    i32 g = threadIdx.x % kWarp / 4;
#pragma unroll 1
    for (i32 task = warp(); task < queryTasks + keyTasks;
         task += kAttentionLayerWarps) {
      bool isQuery = task < queryTasks;
      i32 index = (isQuery ? task : task - queryTasks) * 8 + g;
      i32 row = isQuery ? index / group : index;
      bool exists = isQuery ? row < live : owns(row);
      if (!__any_sync(~0u, exists))
        continue;
      if (!exists)
        row = 0;
      const bf16 *from = isQuery ? query + (u64(row) * C::queryHeads +
                                            head * group + index % group) *
                                               width
                                 : keys + (u64(row) * C::heads + head) * dim;
      bf16 *place = nullptr, *other = nullptr;
      if (exists && isQuery)
        place = queries + index * stride;
      else if (exists) {
        place = placeInTile(keyTile(), row, firstSpan);
        other = placeInCache(row);
      }
      turnHeads(from, norms() + (isQuery ? 0 : dim), angles() + row * C::dims,
                place, other);
    }
    // Values, by lanes in order.
    constexpr i32 perRow = dim / 8;
#pragma unroll 1
    for (i32 i = threadIdx.x; i < C::rows * perRow;
         i += kAttentionLayerThreads) {
      i32 row = i / perRow, column = i % perRow * 8;
      if (!owns(row))
        continue;
      u32 piece[4];
      loadPiece(piece, values + (u64(row) * C::heads + head) * dim + column);
      storePiece(placeInCache(row) + halfCache + column, piece);
      if (bf16 *place = placeInTile(valueTile(), row, firstSpan))
        storePiece(place + column, piece);
    }
  }
};

} // namespace tandem
