//===- few_rows.cuh - Linear layers of up to 16 tokens --------------------===//
//
// What a decoder does all day: every weight is read once for a handful of
// tokens, so nothing but the stream of weights may cost time. A weight is cut
// into units of 16 outputs and `steps` x 16 columns (quant_linear.cuh and
// linear.cuh draw theirs).
//
//   columns   |  slice 0                    |  slice 1 ..
//             |  warp 0  |  warp 1  |  ..   |
//   tile      |  unit unit | unit unit | .. |     one tile after the other
//
// Warps have one of two tasks. A product warp has the same few units of every
// tile, so its part of the tokens stays in its registers, as B of all its
// products; weights are A. It reads its weights from a ring in shared memory,
// deep enough that the memory never waits, leaves its sums of a tile there and
// goes on. Four sum warps add those of all product warps in order and write
// what becomes of them; product warps are up to two tiles ahead of them, and of
// each other, and wait for nothing else.
//
// The sums of warps are added in order, then those of slices; a block has all
// tiles of a range, and the block that is last of its range adds slices and
// writes. So the order of sums follows from the shape of the weight alone.
//
// Shared memory:
//
//   barriers u64: sums are there [2], sums have been read [2], tokens are
//            there, tokens have been read, ring [stage]
//   sums     f32 [warp][tile of two][256]
//   ring     [warp][stage][unit], every warp copies for itself; or, where a
//            tile of the slice is one stretch of memory and the processor
//            copies stretches (sm_90), [stage][warp][unit], and a sum warp
//            copies
//
// and between sums and ring the squares of the norm. In the place of its sums a
// warp has what it turns tokens and normalizes with, before there are any.
//
// Scratch where there are several slices, f32:
//
//   [block of tokens][range][slice][tile of the range][256]
//
// A sink takes two sums of every tile in each thread of the sum warps: those of
// SumPlace.
//
// Weights are asked for before the kernels in front have ended, where a launch
// allows that (common.cuh): a few stages of the ring, and the others into the
// cache of all processors. From there they come behind the tokens, which would
// stand in one queue with them: every block has to have all tokens of its
// columns, a third of what its weights are.
//
// Floor: the weights once for every 16 tokens.
//
// Grid: ranges of tiles, slices, blocks of 16 tokens. Used by linear,
// quant_linear and head.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "few_tokens.cuh"

namespace tandem {

template <typename C, typename Units> struct FewRows : FewTokens<C, Units> {
  using Base = FewTokens<C, Units>;
  using Base::begin;
  using Base::early;
  using Base::end;
  using Base::extra;
  using Base::firstToken;
  using Base::firstUnit;
  using Base::hasUnit;
  using Base::isCopier;
  using Base::isEven;
  using Base::layer;
  using Base::load;
  using Base::productThreads;
  using Base::ringBarrier;
  using Base::rows;
  using Base::shareBytes;
  using Base::shareSteps;
  using Base::stageUnits;
  using Base::sums;
  using Base::sumsRead;
  using Base::sumsThere;
  using Base::tokenRow;
  using Base::tokens;
  using Base::tokensRead;
  using Base::tokensThere;
  using Base::units;
  using Base::warpBytes;

  //===--------------------------------------------------------------------===//
  // Weights
  //===--------------------------------------------------------------------===//

  /// Where the ring is filled from next: a unit of this warp, or the slice of a
  /// tile. No address, which would take registers all the time.
  struct Ahead {
    i32 tile, unit;
  };

  /// Begins with an empty ring.
  __device__ Ahead start() const {
    bool hasAny = isEven || units > 0 || C::copiesTiles;
    return {hasAny ? begin : end, 0};
  }

  /// By the copier, before all warps meet.
  __device__ void makeBarriers() const {
#pragma unroll
    for (i32 which = 0; which < 2; ++which) {
      makeBarrier(sumsThere(which), C::warps);
      makeBarrier(sumsRead(which), kSumWarps);
    }
    makeBarrier(tokensThere(), 1);
    makeBarrier(tokensRead(), C::warps);
    if constexpr (C::copiesTiles)
#pragma unroll
      for (i32 stage = 0; stage < C::stages; ++stage)
        makeBarrier(ringBarrier(stage), 1);
    showBarriers();
  }

  /// Starts the copies of the next unit of this warp to stage \p stage, if
  /// there is one.
  __device__ void fetchUnit(Ahead &ahead, i32 stage) const {
    if (ahead.tile < end) {
      Tile found = Tiles<C>::find(ahead.tile);
      i32 unit = firstUnit + ahead.unit;
      Units::fetch(Units::tileOf(weightOf(layer, found.part), found.index) +
                       unit * Units::unitStride,
                   C::width(found.part), found.index, unit, stageUnits(stage));
      if (++ahead.unit == (isEven ? C::unitsPerWarp : units)) {
        ahead.unit = 0;
        ++ahead.tile;
      }
    }
    commitCopies();
  }

  /// Bytes of a tile that this block needs, where they begin in memory.
  __device__ u32 sliceBytes(i32 sliceUnit) const {
    return min(C::warps * C::unitsPerWarp, Units::units - sliceUnit) *
           Units::bytes;
  }
  __device__ const u8 *sliceOf(i32 tile, i32 sliceUnit) const {
    Tile found = Tiles<C>::find(tile);
    return Units::tileOf(weightOf(layer, found.part), found.index) +
           sliceUnit * Units::unitStride;
  }

  /// Starts the copy of what this block needs of the next tile to stage \p
  /// stage, if there is one. By the copier; \p sliceUnit is the first unit of
  /// the slice.
  __device__ void fetchTile(Ahead &ahead, i32 stage, i32 sliceUnit) const {
    if (ahead.tile >= end)
      return;
    copyStretch(stageUnits(stage) -
                    threadIdx.x / kWarp * (C::copiesTiles ? shareBytes : 0),
                sliceOf(ahead.tile, sliceUnit), sliceBytes(sliceUnit),
                ringBarrier(stage));
    ++ahead.tile;
  }

  /// Fills the ring, by the copier: one tile behind the other, since tokens
  /// stand in one queue with what is on the way; and where tokens lie tiles
  /// come last.
  __device__ void fillRing(Ahead &ahead, i32 sliceUnit) const {
#pragma unroll 1
    for (i32 stage = 0; stage < min(C::stages, end - begin); ++stage) {
      if (stage > 0 && stage <= early)
        waitForBarrier(ringBarrier(stage - 1), 0);
      if (stage == early)
        waitForBarrier(tokensRead(), 0);
      fetchTile(ahead, stage, sliceUnit);
    }
  }

  /// Brings the tokens. By the copier of tokens.
  __device__ void copyTokens(i32 sliceUnit) const {
    i32 first = sliceUnit * Units::steps * 16;
    u32 bytes = min(C::columns - first, C::warps * shareSteps * 16) * 2;
    i32 count = min(rows - firstToken, 16);
    expectStretches(tokensThere(), count * bytes);
    // Every block with another row first: a row for all of them at once is much
    // slower.
    i32 row = blockIdx.x % count;
#pragma unroll 1
    for (i32 i = 0; i < count; ++i) {
      copyExpected(tokenRow(row),
                   layer.input + u64(firstToken + row) * C::columns + first,
                   bytes, tokensThere());
      row = row + 1 == count ? 0 : row + 1;
    }
  }

  /// Waits for a ring that nobody will read.
  __device__ void drain() const {
#pragma unroll 1
    for (i32 stage = 0; stage < min(C::stages, end - begin); ++stage)
      waitForBarrier(ringBarrier(stage), 0);
  }

  //===--------------------------------------------------------------------===//
  // Products
  //===--------------------------------------------------------------------===//

  /// Where the ring is read from next.
  struct Reader {
    i32 stage;
    u32 phase;

    __device__ void next() {
      if (++stage == C::stages) {
        stage = 0;
        phase ^= 1;
      }
    }
  };

  /// What this warp has of tile \p tile.
  __device__ void addTile(f32 (&mine)[2][4], i32 tile, Reader &reader,
                          Ahead &ahead) const {
    if constexpr (C::copiesTiles)
      waitForBarrier(ringBarrier(reader.stage), reader.phase);
#pragma unroll
    for (i32 unit = 0; unit < C::unitsPerWarp; ++unit)
      if (hasUnit(unit)) {
        if constexpr (!C::copiesTiles) {
          waitForCopies<C::stages - 1>();
          __syncwarp();
        }
        const u8 *from = stageUnits(reader.stage);
        if constexpr (C::copiesTiles)
          from += unit * Units::bytes;
        Units::addFew(
            mine, from, extra[unit],
            [&](u32(&b)[4], i32 inUnit, i32) { load(b, unit, inUnit); });
        if constexpr (!C::copiesTiles) {
          __syncwarp();
          // What is known without it takes no registers.
          if constexpr (isEven)
            ahead = {tile + (unit + C::stages) / C::unitsPerWarp,
                     (unit + C::stages) % C::unitsPerWarp};
          fetchUnit(ahead, reader.stage);
          reader.next();
        }
      }
    if constexpr (C::copiesTiles)
      reader.next();
  }

  /// What product warps do.
  __device__ void multiplyTiles(Ahead ahead) const {
    i32 warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    Reader reader = {0, 0};
#pragma unroll 1
    for (i32 tile = begin; tile < end; ++tile) {
      f32 mine[2][4] = {};
      addTile(mine, tile, reader, ahead);
      i32 which = (tile - begin) % 2;
      // The first time there has been nothing to read.
      waitForBarrier(sumsRead(which), ((tile - begin) / 2 + 1) % 2);
#pragma unroll
      for (i32 j = 0; j < 2; ++j) {
        Pack<f32, 4> four = {{mine[j][0], mine[j][1], mine[j][2], mine[j][3]}};
        storePack(sums(warp, which) + j * 128 + lane * 4, four);
      }
      __syncwarp();
      if (lane == 0)
        arrive(sumsThere(which));
    }
  }

  /// What sum warps do: calls \p before(tile) early for every tile, then \p
  /// take(tile, sums of this thread). \p ahead and \p sliceUnit are the
  /// copier's.
  template <typename Before, typename Take>
  __device__ void addTiles(Ahead ahead, i32 sliceUnit, Before before,
                           Take take) const {
    i32 index = threadIdx.x - productThreads;
    f32 factor = Units::sumFactor(index % 2);
    i32 stage = 0;
#pragma unroll 1
    for (i32 tile = begin; tile < end; ++tile) {
      i32 which = (tile - begin) % 2;
      before(tile);
      waitForBarrier(sumsThere(which), (tile - begin) / 2 % 2);
      // Everybody has read the stage of this tile.
      if constexpr (C::copiesTiles) {
        if (isCopier())
          fetchTile(ahead, stage, sliceUnit);
        stage = stage + 1 == C::stages ? 0 : stage + 1;
      }
      const f32 *from = sums(0, which) + index * 2;
      f32 sum[2];
#pragma unroll
      for (i32 warp = 0; warp < C::warps; ++warp) {
        auto pair = loadPack<2>(from + warp * (warpBytes / 4));
#pragma unroll
        for (i32 i = 0; i < 2; ++i)
          sum[i] = warp == 0 ? pair.at[i] : sum[i] + pair.at[i];
      }
      __syncwarp();
      if (threadIdx.x % kWarp == 0)
        arrive(sumsRead(which));
      // The copier and the one that arrives would go on alone.
      __syncwarp();
#pragma unroll
      for (i32 i = 0; i < 2; ++i)
        sum[i] *= factor;
      take(tile, sum);
    }
  }
};

/// isLastBlock() for the sum warps.
template <i32 Threads> __device__ bool areLastSums(u32 *ticket, u32 blocks) {
  __shared__ bool last;
  __threadfence();
  meet<kSumsMeet, kSumThreads>();
  if (threadIdx.x == Threads - kSumThreads) {
    last = atomicAdd(ticket, 1) == blocks - 1;
    if (last)
      *ticket = 0;
  }
  meet<kSumsMeet, kSumThreads>();
  __threadfence();
  return last;
}

/// Computes \p layer. For every tile, in order in every block, \p sink gets in
/// all threads of the sum warps
///
///   extra = sink.prepare(layer, tile, end)
///   sink.take(layer, tile, end, sums of SumPlace, extra)
///
/// where prepare() asks for what take() will need. Ranges begin at multiples of
/// \p Sink::tiles.
template <typename C, typename Units, typename Sink>
__device__ void fewRows(Layer<C> layer, const i32 *live, i32 rows, u8 *scratch,
                        Sink &sink) {
  extern __shared__ __align__(128) u8 shared[];
  using Block = FewRows<C, Units>;
  constexpr i32 tiles = Tiles<C>::count();
  constexpr i32 items = ceilDiv(tiles, Sink::tiles);
  i32 slice = blockIdx.y, warp = threadIdx.x / kWarp;
  i32 sliceUnit = slice * (C::warps * C::unitsPerWarp);
  i32 firstUnit = sliceUnit + warp * C::unitsPerWarp;
  i32 units = max(min(Units::units - firstUnit, C::unitsPerWarp), 0);
  i32 begin = i32(blockIdx.x) * items / i32(gridDim.x) * Sink::tiles;
  i32 end = (i32(blockIdx.x) + 1) * items / i32(gridDim.x) * Sink::tiles;
  Block block = {{layer, shared, rows, i32(blockIdx.z) * 16, firstUnit, units,
                  begin, min(end, tiles)}};
  typename Block::Ahead ahead = block.start();
  layer.live = rows;
  if (Block::isCopier())
    block.makeBarriers();
  __syncthreads();

  if (!Block::isSumWarp()) {
    block.fetchNorm();
    if constexpr (!C::copiesTiles)
      block.fetchUnit(ahead, 0);
    waitForInput<C>();
    block.loadTokens();
    if constexpr (C::hasNorm && !Block::sumsOwn)
      rowFactors<C, 16, Block::productThreads, kProductsMeet>(
          layer, block.firstToken, block.factors());
    if (block.firstToken >= liveRows(live, rows)) {
      block.haveTokens();
      waitForCopies<0>();
      return;
    }
    if constexpr (!C::copiesTiles)
#pragma unroll 1
      for (i32 stage = 1; stage < C::stages; ++stage)
        block.fetchUnit(ahead, stage);
    block.turnTokens();
    block.multiplyTiles(ahead);
    return;
  }

  // Another warp brings tokens, or this one would have to choose which of the
  // two comes first.
  if (C::copiesTiles && Block::isCopier())
    block.fillRing(ahead, sliceUnit);
  waitForInput<C>();
  if (Block::copiesTokens && Block::isTokenCopier())
    block.copyTokens(sliceUnit);
  layer.live = liveRows(live, rows);
  if (block.firstToken >= layer.live) {
    if (C::copiesTiles && Block::isCopier())
      block.drain();
    if (Block::copiesTokens && Block::isTokenCopier())
      waitForBarrier(block.tokensThere(), 0);
    return;
  }
  sink.begin(block.firstToken);
  if constexpr (C::slices == 1) {
    typename Sink::Extra extra;
    block.addTiles(
        ahead, sliceUnit,
        [&](i32 tile) { extra = sink.prepare(layer, tile, block.end); },
        [&](i32 tile, const f32(&sum)[2]) {
          sink.take(layer, tile, block.end, sum, extra);
        });
  } else {
    u32 range = blockIdx.z * gridDim.x + blockIdx.x;
    constexpr i32 sliceSize = C::rangeTiles * 256;
    f32 *sums = reinterpret_cast<f32 *>(scratch + C::ticketBytes) +
                u64(range) * C::slices * sliceSize + SumPlace<C>().index * 2;
    block.addTiles(
        ahead, sliceUnit, [](i32) {},
        [&](i32 tile, const f32(&sum)[2]) {
          Pack<f32, 2> pair = {{sum[0], sum[1]}};
          storePack(sums + slice * sliceSize + (tile - begin) * 256, pair);
        });
    if (!areLastSums<Block::threads>(reinterpret_cast<u32 *>(scratch) + range,
                                     C::slices))
      return;
    constexpr i32 some = C::slices <= 6 ? 5 : C::slices <= 12 ? 2 : 1;
#pragma unroll 1
    for (i32 first = begin; first < block.end; first += some) {
      // All reads first: each of them takes long.
      f32 parts[some][C::slices][2];
      typename Sink::Extra extra[some];
#pragma unroll
      for (i32 i = 0; i < some; ++i)
        if (first + i < block.end) {
#pragma unroll
          for (i32 other = 0; other < C::slices; ++other)
            loadShared(parts[i][other],
                       sums + other * sliceSize + (first + i - begin) * 256);
          extra[i] = sink.prepare(layer, first + i, block.end);
        }
#pragma unroll
      for (i32 i = 0; i < some; ++i)
        if (first + i < block.end) {
          f32 sum[2];
#pragma unroll
          for (i32 j = 0; j < 2; ++j) {
            sum[j] = parts[i][0][j];
#pragma unroll
            for (i32 other = 1; other < C::slices; ++other)
              sum[j] += parts[i][other][j];
          }
          sink.take(layer, first + i, block.end, sum, extra[i]);
        }
    }
  }
}

/// Writes the results of a layer.
template <typename C> struct LayerSink {
  static constexpr i32 tiles = C::gated ? 2 : 1;
  /// Numbers of the residual.
  struct Extra {
    bf16 residual[2];
  };

  SumPlace<C> place;
  /// Of the tile before this one, when they are gate and partner.
  f32 gate[2];

  __device__ void begin(i32 firstToken) { place.token += firstToken; }

  __device__ Extra prepare(const Layer<C> &layer, i32 number, i32) const {
    Extra extra = {};
    i32 output = Tiles<C>::find(number).index * 16 + place.row;
    if constexpr (C::hasResidual)
#pragma unroll
      for (i32 i = 0; i < 2; ++i)
        if (place.token + i < layer.live && output < C::width(0))
          extra.residual[i] =
              layer.residual[u64(place.token + i) * C::width(0) + output];
    return extra;
  }

  __device__ void take(const Layer<C> &layer, i32 number, i32,
                       const f32 (&sum)[2], const Extra &extra) {
    Tile tile = Tiles<C>::find(number);
#pragma unroll
    for (i32 i = 0; i < 2; ++i) {
      if (C::gated && tile.part == 0) {
        gate[i] = sum[i];
        continue;
      }
      f32 result = sum[i];
      if constexpr (C::gated)
        result = gatedProduct(gate[i], sum[i]);
      writeSum(layer, C::gated ? 0 : tile.part, tile.index * 16 + place.row,
               place.token + i, result, [&](u64) { return extra.residual[i]; });
    }
  }
};

} // namespace tandem
