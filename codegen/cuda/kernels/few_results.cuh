//===- few_results.cuh - Results of the layers of few_rows.cuh ------------===//
//
// Who finishes a tile of 16 outputs writes them. Where several warps do, they
// have sums as mma.cuh draws C, and write number by number. Where it is one
// (the ring warp of a cluster, few_slices.cuh, or the only sum warp) it reads
// sums from shared memory as it likes, so each lane has a run of outputs of one
// token, which it reads and writes at once:
//
//   16 tokens   lane l   token l % 16   outputs l / 16 * 8 .. + 7
//    8 tokens   lane l   token l % 8    outputs l / 8 * 4 .. + 3
//
// A block of a cluster finishes a tile or two, the last one when all others
// wait for it, so what counts is how few instructions there are.
//
// Floor: two bytes a result, to the L2.
//
// Used by quant_linear.cuh and linear.cuh.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "few_rows.cuh"

namespace tandem {

/// Writes the results of a layer of which several warps finish a tile.
template <typename C> struct LayerSink {
  static constexpr i32 tiles = C::gated ? 2 : 1;
  static constexpr i32 sums = kSums<C>;
  static_assert(!C::toFragments && !C::nextNorm);
  /// Numbers of the residual.
  struct Extra {
    bf16 residual[sums];
  };

  SumPlace<C> place;
  /// Of the tile before this one, when they are gate and partner.
  f32 gate[sums];

  __device__ void begin(i32 firstToken) { place.token += firstToken; }

  __device__ Extra prepare(const Layer<C> &layer, i32 number, i32) const {
    Extra extra = {};
    i32 first = Tiles<C>::find(number).index * 16;
    if constexpr (C::hasResidual)
#pragma unroll
      for (i32 i = 0; i < sums; ++i) {
        i32 output = first + place.rowOf(i), token = place.tokenOf(i);
        if (token < layer.live && output < C::width(0))
          extra.residual[i] = layer.residual[u64(token) * C::width(0) + output];
      }
    return extra;
  }

  __device__ void take(const Layer<C> &layer, i32 number, i32,
                       const f32 (&sum)[sums], const Extra &extra) {
    Tile tile = Tiles<C>::find(number);
#pragma unroll
    for (i32 i = 0; i < sums; ++i) {
      if (C::gated && tile.part == 0) {
        gate[i] = sum[i];
        continue;
      }
      f32 result = sum[i];
      if constexpr (C::gated)
        result = gatedProduct(gate[i], sum[i]);
      writeSum(layer, C::gated ? 0 : tile.part,
               tile.index * 16 + place.rowOf(i), place.tokenOf(i), result,
               [&](u64) { return extra.residual[i]; });
    }
  }
};

/// Writes the results of a layer of which one warp finishes a tile.
template <typename C> struct RunSink {
  static constexpr i32 tiles = C::gated ? 2 : 1;
  using Place = RunPlace<C>;
  static constexpr i32 sums = Place::count;
  /// Words of two numbers of the residual, and the weight of the next norm.
  struct Extra {
    u32 residual[sums / 2];
    Pack<f32, 4> nextNorm[sums / 4];
  };

  Place place;
  /// Of the tile before this one, when they are gate and partner.
  f32 gate[sums];

  __device__ void begin(i32 firstToken) { place.token += firstToken; }

  __device__ Extra prepare(const Layer<C> &layer, i32 number, i32) const {
    Extra extra = {};
    i32 first = Tiles<C>::find(number).index * 16 + place.first;
    if constexpr (C::hasResidual) {
      const bf16 *from =
          layer.residual + u64(place.token) * C::width(0) + first;
      if (place.token >= layer.live)
        ;
      else if constexpr (isWhole()) {
        auto words = loadPack<sums / 2>(reinterpret_cast<const u32 *>(from));
#pragma unroll
        for (i32 i = 0; i < sums / 2; ++i)
          extra.residual[i] = words.at[i];
      } else {
#pragma unroll
        for (i32 i = 0; i < sums; ++i)
          if (first + i < C::width(0))
            extra.residual[i / 2] |= u32(from[i].bits) << i % 2 * 16;
      }
    }
    if constexpr (C::nextNorm)
#pragma unroll
      for (i32 i = 0; i < sums / 4; ++i)
        extra.nextNorm[i] = loadPack<4>(layer.nextNorm + first + i * 4);
    return extra;
  }

  __device__ void take(const Layer<C> &layer, i32 number, i32,
                       const f32 (&sum)[sums], const Extra &extra) {
    Tile tile = Tiles<C>::find(number);
    if (C::gated && tile.part == 0) {
#pragma unroll
      for (i32 i = 0; i < sums; ++i)
        gate[i] = sum[i];
      return;
    }
    f32 result[sums];
#pragma unroll
    for (i32 i = 0; i < sums; ++i) {
      result[i] = sum[i];
      if constexpr (C::gated)
        result[i] = gatedProduct(gate[i], sum[i]);
      if constexpr (C::hasResidual) {
        u32 two = extra.residual[i / 2];
        result[i] =
            __uint_as_float(i % 2 == 0 ? two << 16 : two & 0xffff0000u) +
            rounded(result[i]);
      }
    }
    i32 part = C::gated ? 0 : tile.part;
    i32 first = tile.index * 16 + place.first;
    if constexpr (kIsBf16<typename C::Result> && isWhole()) {
      u32 words[sums / 2];
#pragma unroll
      for (i32 i = 0; i < sums / 2; ++i)
        words[i] = packBf16(result[2 * i], result[2 * i + 1]);
      if constexpr (C::toFragments)
        writeFragments(layer, resultOf(layer, part), first, words);
      else if (place.token < layer.live) {
        Pack<u32, sums / 2> pack;
#pragma unroll
        for (i32 i = 0; i < sums / 2; ++i)
          pack.at[i] = words[i];
        storePack(reinterpret_cast<u32 *>(resultOf(layer, part) +
                                          u64(place.token) * C::width(part) +
                                          first),
                  pack);
      }
      if constexpr (C::nextNorm)
        prepareNext(layer, first, words, extra);
    } else if (place.token < layer.live) {
#pragma unroll
      for (i32 i = 0; i < sums; ++i)
        if (first + i < C::width(part))
          resultOf(layer, part)[u64(place.token) * C::width(part) + first + i] =
              fromFloat<typename C::Result>(result[i]);
    }
  }

private:
  /// Whether all tiles have 16 outputs.
  __device__ static constexpr bool isWhole() {
    for (i32 part = 0; part < C::parts; ++part)
      if (C::width(part) % 16 != 0)
        return false;
    return true;
  }

  /// Writes \p words, two numbers each, of the outputs from \p first on as the
  /// next layer takes them.
  __device__ void writeFragments(const Layer<C> &layer, bf16 *to, i32 first,
                                 const u32 (&words)[sums / 2]) const {
    static_assert(isWhole());
    if (place.token >= layer.live)
      return;
    u32 *place0 = reinterpret_cast<u32 *>(
        to + fragmentPlace<C::tokens>(first, place.token));
#pragma unroll
    for (i32 i = 0; i < sums / 2; ++i)
      place0[i * kFragmentWords] = multiplyPair(words[i], kFragmentPair);
  }

  /// Writes what a layer with a norm takes of the same outputs.
  __device__ void prepareNext(const Layer<C> &layer, i32 first,
                              const u32 (&words)[sums / 2],
                              const Extra &extra) const {
    static_assert(C::hasResidual && !C::gated);
    u32 weighed[sums / 2];
    f32 squares = 0;
#pragma unroll
    for (i32 four = 0; four < sums / 4; ++four) {
      f32 sum = 0;
#pragma unroll
      for (i32 i = 0; i < 4; i += 2) {
        u32 pair = words[four * 2 + i / 2];
        f32 low = __uint_as_float(pair << 16),
            high = __uint_as_float(pair & 0xffff0000u);
        sum = fma(high, high, fma(low, low, sum));
        weighed[four * 2 + i / 2] =
            packBf16(low * (extra.nextNorm[four].at[i] + C::nextOffset),
                     high * (extra.nextNorm[four].at[i + 1] + C::nextOffset));
      }
      squares += sum;
    }
    writeFragments(layer, layer.next, first, weighed);
    // The runs of a token, four outputs each or eight, two by two.
#pragma unroll
    for (i32 distance = C::tokens; distance < kWarp; distance *= 2)
      squares += __shfl_xor_sync(~0u, squares, distance);
    if (threadIdx.x % kWarp < C::tokens)
      layer.nextSquares[first / kSquareColumns * C::tokens + place.token] =
          squares;
  }
};

template <typename C>
using ResultSink = Either<finishesRuns<C>(), RunSink<C>, LayerSink<C>>;

} // namespace tandem
