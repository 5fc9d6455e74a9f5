//===- attention_layer.cuh - Attention that makes what it reads -----------===//
//
// attention_inputs and attention of up to 16 rows in one kernel: new keys and
// values are appended, queries go nowhere but into shared memory. An item is
// one row and one of the query heads that share a head of the cache:
//
//   items of a head   row 0: head 0, 1 .. group - 1 | row 1: .. | ..
//
// Positions lie in spans from multiples of `span` on. Of the blocks of a head,
// chunk c adds up spans c, c + chunks, c + 2 chunks .., in order, so what an
// item's chunks are does not depend on the rows beside it. Of 8 warps warp w
// has the 16 items of tile w / parts; of scores part w % parts of the keys, of
// outputs that part of the columns:
//
//   [queries: items x dim] [keys: span x dim] [values]   bf16, rows
//   [probabilities: items x span]                        bf16, rows
//   [maxima: parts x items] [sums: span / 16 x items]    f32
//
// with 8 numbers of gap behind each row. Before they are there, probabilities
// are the weights of both norms and the rows of the table of rope. Keys and
// values of a new row are in the cache and, where the first span is theirs, in
// the tile; the chunk whose span it is has them alone.
//
// Chunks of a cluster send each other their sums, in slices of one rank each
// (two or more warps' numbers), in the place of queries and keys:
//
//   slots   f32 [from rank][unit: 4 columns of an item][4], [from rank][16][2]
//
// where unit 32 w + l of a slice are the numbers that lane l has of an item in
// a step of a warp. What a cluster has of a slice goes to the other clusters of
// the head through memory, in groups of 32 units, each to be added by one warp:
//
//   scratch   u32 [head][rank][group][cluster][lane][4], then [..][lane][2]
//
// outputs, and the maximum and sum of the item. A number there is its own flag:
// it is zero before, written with its bits inverted (no number has all of them
// set) and cleared by the thread that reads it. So blocks of a head wait for
// each other. Their numbers are consecutive: where one of them runs and another
// does not yet, those in front of them are whole heads, which end and make
// room; a GPU has to have room for those of a head.
//
// What the cache has of positions in front of `start` is fetched before the
// kernels in front have ended, where those do not write it (LaunchOrder.h). A
// block has room beside a layer of codes of either half (few_rows.cuh).
//
// Floor: keys and values seen, 4 * heads * dim bytes a position.
//
// Grid: clusters, blocks of one, heads. Called by attention. sm_90.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "cluster.cuh"
#include "elementwise.cuh"

namespace tandem {

constexpr i32 kAttentionLayerThreads = 256;
constexpr i32 kAttentionLayerWarps = kAttentionLayerThreads / kWarp;

/// Numbers of 32 bits that other blocks read and write at the same time.
__device__ inline void loadFlags(u32 (&words)[4], const u32 *from) {
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "l"(from)
               : "memory");
}
__device__ inline void loadFlags(u32 (&words)[2], const u32 *from) {
  asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(words[0]), "=r"(words[1])
               : "l"(from)
               : "memory");
}
__device__ inline void storeFlags(u32 *to, const u32 (&words)[4]) {
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to),
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}
__device__ inline void storeFlags(u32 *to, const u32 (&words)[2]) {
  asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(to),
               "r"(words[0]), "r"(words[1])
               : "memory");
}

template <typename C> struct AttentionLayer {
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

  //===--------------------------------------------------------------------===//
  // A span
  //===--------------------------------------------------------------------===//

  /// What a warp has of its items g and g + 8 (mma.cuh): the largest score and
  /// the sum of all, and its part of the outputs before the division.
  struct Sums {
    f32 largest[2], sum[2];
    f32 out[dimTiles][4];
  };

  /// Scores of this warp's keys as base-2 logarithms; minus infinity for what
  /// an item does not see. Their maxima go to shared memory.
  __device__ void score(f32 (&scores)[keyTiles][4], i32 index) const {
    i32 g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
    const bf16 *mine = keyTile() + part() * (span / parts) * stride;
    const bf16 *ours = queries + tile() * 16 * stride;
#pragma unroll
    for (i32 j = 0; j < keyTiles; ++j)
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        scores[j][i] = 0;
#pragma unroll 4
    for (i32 k = 0; k < dim; k += 16) {
      u32 a[4];
      loadA(a, ours, stride, k);
#pragma unroll
      for (i32 j = 0; j < keyTiles; j += 2) {
        u32 b[4];
        loadB(b, mine + j * 8 * stride, stride, k);
        multiply(scores[j], a, b[0], b[1]);
        multiply(scores[j + 1], a, b[2], b[3]);
      }
    }
    constexpr f32 toBase2 = C::scaleBy * 1.44269504088896340736f;
    i32 first = index * span + part() * (span / parts) + 2 * t;
#pragma unroll
    for (i32 side = 0; side < 2; ++side) {
      i32 item = tile() * 16 + g + side * 8, low, high;
      findVisible(item, low, high);
      f32 largest = minusInfinity();
#pragma unroll
      for (i32 j = 0; j < keyTiles; ++j)
#pragma unroll
        for (i32 i = 0; i < 2; ++i) {
          i32 position = first + j * 8 + i;
          f32 &number = scores[j][side * 2 + i];
          number = position >= low && position <= high ? number * toBase2
                                                       : minusInfinity();
          largest = fmaxf(largest, number);
        }
      largest = maxLanes<4>(largest);
      if (t == 0)
        maxima()[part() * mostItems + item] = largest;
    }
  }

  /// Makes probabilities of \p scores, less the factor that the division takes
  /// off, and puts them and the sums of 16 of them to shared memory. \p largest
  /// becomes the largest of itself and of all parts.
  __device__ void exponentiate(const f32 (&scores)[keyTiles][4],
                               f32 (&largest)[2]) const {
    i32 g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
#pragma unroll
    for (i32 side = 0; side < 2; ++side) {
      i32 item = tile() * 16 + g + side * 8;
#pragma unroll
      for (i32 other = 0; other < parts; ++other)
        largest[side] =
            fmaxf(largest[side], maxima()[other * mostItems + item]);
      // Nothing seen: any finite number does.
      f32 shift = largest[side] == minusInfinity() ? 0.0f : largest[side];
      u32 *to =
          reinterpret_cast<u32 *>(probabilities() + item * probabilityStride +
                                  part() * (span / parts) + 2 * t);
#pragma unroll
      for (i32 j = 0; j < keyTiles; j += 2) {
        f32 sum = 0;
#pragma unroll
        for (i32 i = 0; i < 2; ++i) {
          f32 low = exp2Fast(scores[j + i][side * 2] - shift);
          f32 high = exp2Fast(scores[j + i][side * 2 + 1] - shift);
          sum += low;
          sum += high;
          to[(j + i) * 4] = packBf16(low, high);
        }
        sum = sumLanes<4>(sum);
        if (t == 0)
          sums()[(part() * (keyTiles / 2) + j / 2) * mostItems + item] = sum;
      }
    }
  }

  /// Makes what \p total holds a part of a sum with the maxima \p largest, and
  /// adds the sums of the probabilities.
  __device__ void rescale(Sums &total, const f32 (&largest)[2]) const {
#pragma unroll
    for (i32 side = 0; side < 2; ++side) {
      i32 item = tile() * 16 + threadIdx.x % kWarp / 4 + side * 8;
      f32 sum = sums()[item];
#pragma unroll
      for (i32 i = 1; i < sumGroups; ++i)
        sum += sums()[i * mostItems + item];
      f32 factor = total.largest[side] == minusInfinity()
                       ? 0.0f
                       : exp2Fast(total.largest[side] - largest[side]);
#pragma unroll
      for (i32 n = 0; n < dimTiles; ++n) {
        total.out[n][side * 2] *= factor;
        total.out[n][side * 2 + 1] *= factor;
      }
      total.sum[side] = fma(total.sum[side], factor, sum);
      total.largest[side] = largest[side];
    }
  }

  /// Adds probabilities times values to \p out.
  __device__ void addValues(f32 (&out)[dimTiles][4]) const {
    const bf16 *mine = valueTile() + part() * (dim / parts);
    const bf16 *ours = probabilities() + tile() * 16 * probabilityStride;
#pragma unroll 1
    for (i32 k = 0; k < span; k += 16) {
      u32 a[4];
      loadA(a, ours, probabilityStride, k);
#pragma unroll
      for (i32 n = 0; n < dimTiles; n += 2) {
        u32 b[4];
        loadBTransposed(b, mine + k * stride, stride, n * 8);
        multiply(out[n], a, b[0], b[1]);
        multiply(out[n + 1], a, b[2], b[3]);
      }
    }
  }

  //===--------------------------------------------------------------------===//
  // Chunks
  //===--------------------------------------------------------------------===//

  /// The tile of the slice of \p rank, and where its part of a row begins.
  __device__ static i32 sliceTile(i32 rank) {
    return rank * sliceWarps / parts;
  }

  /// How many items a slice has.
  __device__ i32 sliceItems(i32 rank) const {
    return min(max(items() - sliceTile(rank) * 16, 0), 16);
  }

  /// Sends the sums of a warp to the block that adds them.
  __device__ void send(const Sums &total) const {
    i32 g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
    i32 owner = warp() / sliceWarps, local = warp() % sliceWarps;
    u32 there = placeInBlock(barrier(), owner);
    u32 to = placeInBlock(slotUnits(rank) + local * (pieces * 2 * kWarp * 4) +
                              threadIdx.x % kWarp * 4,
                          owner);
    u32 pairs = placeInBlock(slotPairs(rank), owner);
#pragma unroll
    for (i32 side = 0; side < 2; ++side) {
      i32 ofTile = g + side * 8;
      if (tile() * 16 + ofTile >= items())
        continue;
#pragma unroll
      for (i32 n = 0; n < dimTiles; n += 2) {
        f32 four[4] = {total.out[n][side * 2], total.out[n][side * 2 + 1],
                       total.out[n + 1][side * 2],
                       total.out[n + 1][side * 2 + 1]};
        tandem::send(to + (n + side) * (kWarp * 16), four, there);
      }
      if (t == 0 && local == 0) {
        tandem::send(pairs + ofTile * 8, total.largest[side], there);
        tandem::send(pairs + ofTile * 8 + 4, total.sum[side], there);
      }
    }
  }

  /// What all that is sent to this block is.
  __device__ u32 sentBytes() const {
    return sliceItems(rank) *
           (C::cluster * (sliceWarps * (dim / parts) * 4 + 8));
  }

  /// Where the units of this slice are in the scratch that cluster \p from has
  /// written, of group \p index.
  __device__ u32 *unitsOf(i32 index, i32 from) const {
    u32 place =
        ((u32(head) * C::cluster + rank) * sliceGroups + index) * C::clusters +
        from;
    return scratch + (place * kWarp + threadIdx.x % kWarp) * 4;
  }
  __device__ u32 *pairsOf(i32 index, i32 from) const {
    constexpr u32 all =
        u32(C::heads) * C::cluster * sliceGroups * C::clusters * kWarp;
    u32 place =
        ((u32(head) * C::cluster + rank) * sliceGroups + index) * C::clusters +
        from;
    return scratch + all * 4 + (place * kWarp + threadIdx.x % kWarp) * 2;
  }

  /// Adds what the cluster has sent, in order, and writes it for the others.
  __device__ void addCluster() const {
    // Groups of a thread are of one side.
    i32 item = threadIdx.x % kWarp / 4 + warp() % 2 * 8;
    if (item >= sliceItems(rank))
      return;
    f32 largest = minusInfinity(), sum = 0, factor[C::cluster];
#pragma unroll
    for (i32 from = 0; from < C::cluster; ++from)
      largest = fmaxf(largest, slotPairs(from)[item * 2]);
    f32 shift = largest == minusInfinity() ? 0.0f : largest;
#pragma unroll
    for (i32 from = 0; from < C::cluster; ++from) {
      factor[from] = exp2Fast(slotPairs(from)[item * 2] - shift);
      sum = fma(slotPairs(from)[item * 2 + 1], factor[from], sum);
    }
    u32 pair[2] = {~__float_as_uint(largest), ~__float_as_uint(sum)};
#pragma unroll 1
    for (i32 index = warp(); index < sliceGroups;
         index += kAttentionLayerWarps) {
      f32 out[4] = {};
#pragma unroll
      for (i32 from = 0; from < C::cluster; ++from) {
        Pack<f32, 4> four = loadPack<4>(
            slotUnits(from) + (index * kWarp + threadIdx.x % kWarp) * 4);
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          out[i] = fma(four.at[i], factor[from], out[i]);
      }
      u32 words[4];
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        words[i] = ~__float_as_uint(out[i]);
      storeFlags(unitsOf(index, blockIdx.x), words);
      storeFlags(pairsOf(index, blockIdx.x), pair);
    }
  }

  /// How far the gate of number \p column of a head is open.
  __device__ static f32 getOpen(const bf16 *gate, i32 column) {
    if constexpr (C::gated)
      return toFloat(fromFloat<bf16>(Sigmoid::apply(toFloat(gate[column]))));
    return 1;
  }

  /// Adds what clusters have of the groups that this one finishes, in order,
  /// and writes outputs.
  __device__ void finish() const {
    i32 t = threadIdx.x % 4;
#pragma unroll 1
    for (i32 index = blockIdx.x + C::clusters * warp(); index < sliceGroups;
         index += C::clusters * kAttentionLayerWarps) {
      i32 item = threadIdx.x % kWarp / 4 + index % 2 * 8;
      if (item >= sliceItems(rank))
        continue;
      i32 local = index / (2 * pieces), piece = index / 2 % pieces;
      i32 column = (rank * sliceWarps + local) % parts * (dim / parts) +
                   piece * 16 + 2 * t;
      item += sliceTile(rank) * 16;
      u64 place =
          u64(item / group) * C::queryHeads + head * group + item % group;
      f32 open[4];
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        open[i] =
            getOpen(query + place * width + dim, column + i / 2 * 8 + i % 2);
      u32 words[C::clusters][4], pairs[C::clusters][2];
      bool there;
      do {
        there = true;
#pragma unroll
        for (i32 from = 0; from < C::clusters; ++from) {
          loadFlags(words[from], unitsOf(index, from));
          loadFlags(pairs[from], pairsOf(index, from));
        }
#pragma unroll
        for (i32 from = 0; from < C::clusters; ++from) {
#pragma unroll
          for (i32 i = 0; i < 4; ++i)
            there &= words[from][i] != 0;
          there &= pairs[from][0] != 0 && pairs[from][1] != 0;
        }
      } while (!there);
      f32 largest = minusInfinity(), sum = 0, out[4] = {};
#pragma unroll
      for (i32 from = 0; from < C::clusters; ++from)
        largest = fmaxf(largest, __uint_as_float(~pairs[from][0]));
      f32 shift = largest == minusInfinity() ? 0.0f : largest;
#pragma unroll
      for (i32 from = 0; from < C::clusters; ++from) {
        f32 factor = exp2Fast(__uint_as_float(~pairs[from][0]) - shift);
        sum = fma(__uint_as_float(~pairs[from][1]), factor, sum);
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          out[i] = fma(__uint_as_float(~words[from][i]), factor, out[i]);
      }
      f32 scale = sum > 0 ? 1.0f / sum : 0.0f;
#pragma unroll
      for (i32 i = 0; i < 4; ++i) {
        bf16 number = fromFloat<bf16>(out[i] * scale);
        if constexpr (C::gated)
          number = fromFloat<bf16>(toFloat(number) * open[i]);
        output[place * dim + column + i / 2 * 8 + i % 2] = number;
      }
      u32 none[4] = {}, noPair[2] = {};
#pragma unroll 1
      for (i32 from = 0; from < C::clusters; ++from) {
        storeFlags(unitsOf(index, from), none);
        storeFlags(pairsOf(index, from), noPair);
      }
    }
  }
};

template <typename C>
__device__ void attentionLayer(const bf16 *query, const f32 *queryNorm,
                               const bf16 *keys, const bf16 *values,
                               const f32 *keyNorm, const i32 *start,
                               const f32 *table, bf16 *output, bf16 *cache,
                               const i32 *live, i32 rows, u8 *scratch) {
  extern __shared__ __align__(128) u8 shared[];
  using Block = AttentionLayer<C>;
  // Positions that no text has.
  constexpr i32 most = 1 << 30;
  if constexpr (!C::knowsStart)
    waitForEarlierKernels();
  Block block = {query,
                 keys,
                 values,
                 queryNorm,
                 keyNorm,
                 table,
                 cache,
                 output,
                 reinterpret_cast<u32 *>(scratch),
                 reinterpret_cast<bf16 *>(shared),
                 min(max(*start, 0), most),
                 min(liveRows(live, rows), C::rows),
                 i32(blockIdx.z),
                 i32(blockIdx.x * C::cluster + blockIdx.y),
                 i32(blockIdx.y)};
  if (threadIdx.x == 0) {
    makeBarrier(block.barrier());
    showBarriers();
    expectStretches(block.barrier(), block.sentBytes());
  }
  i32 low, high;
  block.findVisible(0, low, high);
  block.seenLow = low;
  block.findVisible(max(block.items() - 1, 0), low, high);
  block.seenHigh = high;
  // Whatever it is told, a kernel stays inside the cache; only a window reads a
  // ring.
  if constexpr (C::window > 0)
    block.seenLow = max(block.seenLow, block.seenHigh - (C::slots - 1));
  else
    block.seenHigh = min(block.seenHigh, C::slots - 1);
  i32 firstSpan = block.seenLow / C::span, lastSpan = block.seenHigh / C::span;
  i32 ahead = (block.chunk - firstSpan) % Block::chunks;
  firstSpan += ahead < 0 ? ahead + Block::chunks : ahead;
  if (block.live == 0)
    lastSpan = firstSpan - 1;

  if (firstSpan <= lastSpan)
    block.copyKeys(firstSpan, true);
  commitCopies();
  if (firstSpan <= lastSpan)
    block.copyValues(firstSpan, true);
  commitCopies();
  block.readWeights();
  if constexpr (C::knowsStart)
    waitForEarlierKernels();
  __syncthreads();
  block.makeInputs(firstSpan);

  typename Block::Sums total = {};
  total.largest[0] = total.largest[1] = minusInfinity();
  bool hasItems = block.hasItems();
#pragma unroll 1
  for (i32 index = firstSpan; index <= lastSpan; index += Block::chunks) {
    i32 next = index + Block::chunks;
    f32 scores[Block::keyTiles][4];
    waitForCopies<1>();
    __syncthreads();
    if (hasItems)
      block.score(scores, index);
    __syncthreads();
    if (next <= lastSpan)
      block.copyKeys(next, false);
    commitCopies();
    f32 largest[2] = {total.largest[0], total.largest[1]};
    if (hasItems)
      block.exponentiate(scores, largest);
    waitForCopies<1>();
    __syncthreads();
    if (hasItems) {
      block.rescale(total, largest);
      block.addValues(total.out);
    }
    if (next <= lastSpan) {
      __syncthreads();
      block.copyValues(next, false);
    }
    commitCopies();
  }
  waitForCopies<0>();
  // Queries and keys of all blocks have been read.
  comeToCluster();
  waitForCluster();
  if (hasItems)
    block.send(total);
  waitForBarrier(block.barrier(), 0);
  block.addCluster();
  block.finish();
}

} // namespace tandem
