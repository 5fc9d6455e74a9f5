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

#include "attention_layer_inputs.cuh"

namespace tandem {

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

template <typename C> struct AttentionLayer : AttentionLayerInputs<C> {
  using Base = AttentionLayerInputs<C>;
  using Base::barrier;
  using Base::dim;
  using Base::dimTiles;
  using Base::findVisible;
  using Base::group;
  using Base::head;
  using Base::items;
  using Base::keyTile;
  using Base::keyTiles;
  using Base::maxima;
  using Base::mostItems;
  using Base::output;
  using Base::part;
  using Base::parts;
  using Base::pieces;
  using Base::probabilities;
  using Base::probabilityStride;
  using Base::queries;
  using Base::query;
  using Base::rank;
  using Base::scratch;
  using Base::sliceGroups;
  using Base::sliceWarps;
  using Base::slotPairs;
  using Base::slotUnits;
  using Base::span;
  using Base::stride;
  using Base::sumGroups;
  using Base::sums;
  using Base::tile;
  using Base::valueTile;
  using Base::warp;
  using Base::width;

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
  Block block = {{query, keys, values, queryNorm, keyNorm, table, cache, output,
                  reinterpret_cast<u32 *>(scratch),
                  reinterpret_cast<bf16 *>(shared), min(max(*start, 0), most),
                  min(liveRows(live, rows), C::rows), i32(blockIdx.z),
                  i32(blockIdx.x * C::cluster + blockIdx.y), i32(blockIdx.y)}};
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
