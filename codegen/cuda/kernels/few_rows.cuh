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
// Warps have one of three tasks. A product warp has the same few units of every
// tile, so its part of the tokens stays in its registers, as B of all its
// products; weights are A. It reads its weights from a ring in shared memory,
// deep enough that the memory never waits, leaves its sums of a tile there and
// goes on. Sum warps, one or four, add those of all product warps in order and
// hand them on; product warps are up to two tiles ahead of them, and of each
// other, and wait for nothing else. Where tiles are copied as a whole, one more
// warp fills the ring.
//
// The sums of warps are added in order, then those of slices (few_slices.cuh).
// So the order of sums follows from the shape of the weight alone, and from how
// its columns are cut for the kind of processor.
//
// Shared memory:
//
//   barriers u64: sums are there [2], sums have been read [2], squares are
//            there, slots are there [slot], ring [stage]
//   sums     f32 [warp][tile of two][256]
//   squares  f32 [16 + span of 128 columns x 16]
//   slots    of slices in a cluster
//   ring     [warp][stage][unit], every warp copies for itself; or, where a
//            tile of the slice is one stretch of memory and the processor
//            copies stretches (sm_90), [stage][warp][unit]
//
// In the place of its sums a warp has what it turns tokens and normalizes with,
// before there are any.
//
// A sink takes two, four or eight sums of every tile in each thread of the
// warps that finish tiles: those of SumPlace.
//
// Weights are asked for before the kernels in front have ended, where a launch
// allows that (common.cuh): as many stages as the ring has. On sm_90 two blocks
// have room in a multiprocessor, so the next launch fills its ring while this
// one multiplies; it may begin when this one has its tokens, which would stand
// in one queue with its weights, and has asked for all but C::restTiles of its
// own tiles, which would, too. A block of few tokens whose ring holds all of
// its tiles may let it begin at once. A multiprocessor must not take two blocks
// of one launch: the first to be free would, and others would get none. So
// layers that follow each other take different halves, one more than half of
// the shared memory and the other more than half of the registers. Registers
// belong to four parts of a multiprocessor, 16384 to each: three warps of a
// block in each part, of 80 registers a thread or of 88.
//
// Floor: the weights once for all tokens of a block, 8 or 16.
//
// Grid: ranges of tiles, slices, blocks of tokens. Used by linear, quant_linear
// and head.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "few_slices.cuh"
#include "few_tokens.cuh"

namespace tandem {

/// What the norm multiplies rows by, of the tokens that a thread has at \p
/// Place; nothing unless sums are to be multiplied.
template <typename C, typename Place> struct RowFactors {
  f32 ofToken[Place::ofTokens];

  __device__ RowFactors(const Layer<C> &layer, const Place &place) {
    if constexpr (C::normsSums) {
      // Lanes have four tokens each, adders of a token lie `quads` apart.
      constexpr i32 quads = C::tokens / 4, adders = 8;
      i32 lane = threadIdx.x % kWarp;
      f32 four[4] = {0, 0, 0, 0};
#pragma unroll 10
      for (i32 entry = lane / quads % adders;
           entry < C::columns / kSquareColumns; entry += adders) {
        auto some =
            loadPack<4>(layer.squares + entry * C::tokens + lane % quads * 4);
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          four[i] += some.at[i];
      }
#pragma unroll
      for (i32 distance = adders / 2 * quads; distance >= quads; distance /= 2)
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          four[i] += __shfl_xor_sync(~0u, four[i], distance);
#pragma unroll
      for (i32 number = 0; number < Place::ofTokens; ++number) {
        i32 token = place.tokenOf(Place::sumOf(number));
        f32 squares = 0;
#pragma unroll
        for (i32 i = 0; i < 4; ++i) {
          f32 other = __shfl_sync(~0u, four[i], token / 4);
          if (token % 4 == i)
            squares = other;
        }
        ofToken[number] = normFactor<C>(squares);
      }
    }
  }

  /// Sum \p i of the thread, \p sum, times the factor of its token.
  __device__ f32 multiply(f32 sum, i32 i) const {
    if constexpr (C::normsSums)
      return sum * ofToken[Place::numberOf(i)];
    else
      return sum;
  }
};

template <typename C, typename Units> struct FewRows : FewTokens<C, Units> {
  using Base = FewTokens<C, Units>;
  using Base::begin;
  using Base::end;
  using Base::extra;
  using Base::firstUnit;
  using Base::hasUnit;
  using Base::isCopier;
  using Base::isEven;
  using Base::kReadBarrier;
  using Base::kRingBarrier;
  using Base::kThereBarrier;
  using Base::layer;
  using Base::load;
  using Base::octets;
  using Base::ringBarrier;
  using Base::shared;
  using Base::slotThere;
  using Base::squaresThere;
  using Base::stageTile;
  using Base::stageUnits;
  using Base::sums;
  using Base::sumsRead;
  using Base::sumsThere;
  using Base::tileBytes;
  using Base::units;

  /// Whether the ring warp lets the next kernel begin.
  static constexpr bool letsBeginLate =
      C::copiesTiles && C::rangeTiles > C::stages + C::restTiles;

  //===--------------------------------------------------------------------===//
  // Weights
  //===--------------------------------------------------------------------===//

  /// The unit of this warp that the ring is filled from next. No address, which
  /// would take registers all the time.
  struct Ahead {
    i32 tile, unit;
  };

  /// Begins with an empty ring.
  __device__ Ahead start() const {
    return {isEven || units > 0 ? begin : end, 0};
  }

  /// By the copier, before all warps meet.
  __device__ void makeBarriers() const {
#pragma unroll
    for (i32 which = 0; which < 2; ++which) {
      makeBarrier(sumsThere(which), C::warps);
      makeBarrier(sumsRead(which), C::sumWarps + C::copiesTiles);
    }
    if constexpr (C::cluster > 1) {
      makeBarrier(squaresThere());
      expectStretches(squaresThere(),
                      ceilDiv(C::columns, kNormSpan) * C::tokens * sizeof(f32));
#pragma unroll
      for (i32 slot = 0; slot < Base::slots; ++slot) {
        makeBarrier(slotThere(slot));
        expectStretches(slotThere(slot), Base::slotBytes);
      }
    }
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
                   C::width(found.part), found.index, unit,
                   stageUnits(stage, threadIdx.x / kWarp));
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

  /// Starts the copy of what this block needs of tile \p tile to stage \p
  /// stage, by one thread; \p sliceUnit is the first unit of the slice.
  __device__ void fetchTile(i32 tile, i32 stage, i32 sliceUnit) const {
    if (tile < end)
      copyStretch(stageTile(stage), sliceOf(tile, sliceUnit),
                  sliceBytes(sliceUnit), ringBarrier(stage));
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

  /// A product warp, and where it reads the ring.
  struct Worker {
    /// Of shared memory: the barriers, the first unit of this warp in the ring,
    /// and its sums.
    u32 barriers, ring, mine;
    i32 lane, stage = 0;
    u32 phase = 0;

    __device__ Worker(const FewRows &block) {
      i32 warp = threadIdx.x / kWarp;
      lane = threadIdx.x % kWarp;
      barriers = sharedAddress(block.shared);
      ring = sharedAddress(block.stageUnits(0, warp));
      mine = sharedAddress(block.sums(warp, 0));
      // Warps that copy for themselves have no registers for that.
      if constexpr (C::copiesTiles) {
        lane = i32(kept(lane, lane));
        barriers = kept(barriers, 0);
        ring = kept(ring, 0);
        mine = kept(mine, 0);
      }
    }
    __device__ u32 barrier(i32 number) const { return barriers + number * 8; }
    __device__ u32 stageBarrier() const {
      return barrier(kRingBarrier + stage);
    }
    /// Unit \p unit of this warp in the stage, where a stage is a tile.
    __device__ u32 unitAt(i32 unit) const {
      return ring + stage * tileBytes + unit * Units::bytes;
    }
    __device__ void next() {
      if (++stage == C::stages) {
        stage = 0;
        phase ^= 1;
      }
    }
  };
  using Held = typename Units::Held;

  /// Adds unit \p unit of this warp, which is held, and calls \p during() and
  /// \p behind() as addHeld() does.
  template <typename During, typename Behind>
  __device__ void addUnit(f32 (&mine)[octets][4], Held &held, i32 unit,
                          const Worker &worker, During during,
                          Behind behind) const {
    Units::addHeld(
        mine, held, worker.lane, extra[unit],
        [&](u32(&b)[4], i32 inUnit) { load(b, unit, inUnit); }, during, behind);
  }

  /// What this warp has of tile \p tile, by copies of its own.
  __device__ void addCopied(f32 (&mine)[octets][4], i32 tile, Worker &worker,
                            Ahead &ahead) const {
#pragma unroll
    for (i32 unit = 0; unit < C::unitsPerWarp; ++unit)
      if (hasUnit(unit)) {
        waitForCopies<C::stages - 1>();
        __syncwarp();
        Held held;
        u32 at = worker.ring + worker.stage * Units::bytes;
        Units::holdCodes(held, at, worker.lane);
        Units::holdScales(held, at, worker.lane);
        addUnit(mine, held, unit, worker, [] {}, [] {});
        __syncwarp();
        // What is known without it takes no registers.
        if constexpr (isEven)
          ahead = {tile + (unit + C::stages) / C::unitsPerWarp,
                   (unit + C::stages) % C::unitsPerWarp};
        fetchUnit(ahead, worker.stage);
        worker.next();
      }
  }

  /// Holds the codes that this warp has of the next tile of the ring.
  __device__ void holdCodes(Held (&held)[C::unitsPerWarp],
                            const Worker &worker) const {
#pragma unroll
    for (i32 unit = 0; unit < C::unitsPerWarp; ++unit)
      if (hasUnit(unit))
        Units::holdCodes(held[unit], worker.unitAt(unit), worker.lane);
  }
  /// Holds the scales of that tile.
  __device__ void holdScales(Held (&held)[C::unitsPerWarp],
                             const Worker &worker) const {
#pragma unroll
    for (i32 unit = 0; unit < C::unitsPerWarp; ++unit)
      if (hasUnit(unit))
        Units::holdScales(held[unit], worker.unitAt(unit), worker.lane);
  }

  /// What product warps do.
  __device__ void multiplyTiles(Ahead ahead) const {
    Worker worker(*this);
    Held held[C::unitsPerWarp];
    if constexpr (C::copiesTiles) {
      waitForBarrier(worker.stageBarrier(), worker.phase);
      holdCodes(held, worker);
      holdScales(held, worker);
      worker.next();
    }
#pragma unroll 1
    for (i32 number = 0; number < end - begin; ++number) {
      f32 mine[octets][4] = {};
      u32 which = u32(number) % 2;
      // The first time there has been nothing to read.
      u32 place = worker.barrier(kReadBarrier + which),
          placePhase = u32(number) / 2 % 2 ^ 1;
      bool hasPlace = false;
      if constexpr (C::copiesTiles) {
        // Barriers answer, and codes come, while products are on their way.
        bool isThere = true;
#pragma unroll
        for (i32 unit = 0; unit < C::unitsPerWarp; ++unit)
          if (hasUnit(unit)) {
            bool isLast = unit + 1 == C::unitsPerWarp || !hasUnit(unit + 1);
            addUnit(
                mine, held[unit], unit, worker,
                [&] {
                  if (!isLast)
                    return;
                  isThere = isComplete(worker.stageBarrier(), worker.phase);
                  hasPlace = isComplete(place, placePhase);
                },
                [&] {
                  if (!isLast)
                    return;
                  // Behind the last tile it does not matter what is held.
                  if (!isThere && number + 1 < end - begin)
                    waitForBarrier(worker.stageBarrier(), worker.phase);
                  holdCodes(held, worker);
                });
          }
        holdScales(held, worker);
        worker.next();
      } else {
        addCopied(mine, begin + number, worker, ahead);
      }
      if (!hasPlace)
        waitForBarrier(place, placePhase);
#pragma unroll
      for (i32 j = 0; j < octets; ++j)
        storeAt(worker.mine + which * 1024 + j * 512 + worker.lane * 16,
                mine[j]);
      __syncwarp();
      if (worker.lane == 0)
        arrive(worker.barrier(kThereBarrier + which));
    }
  }

  /// What the ring warp does: fills the stages that all warps have read, and
  /// calls \p after(tile), also behind the last one. \p sliceUnit is the first
  /// unit of the slice.
  template <typename After>
  __device__ void fillRing(i32 sliceUnit, After after) const {
    // The first tile that is not asked for yet when the next kernel may begin.
    i32 rest = end - C::restTiles;
    // Warps that have given their sums of a tile hold what they need of the
    // next one.
    constexpr i32 held = Units::holdsAll;
    if constexpr (letsBeginLate)
      if (begin + held + C::stages >= rest)
        letNextKernelBegin();
#pragma unroll 1
    for (i32 tile = begin; tile <= end; ++tile) {
      u32 number = tile - begin, which = number % 2;
      if (tile < end)
        waitForBarrier(sumsThere(which), number / 2 % 2);
      if (tile < end && isCopier()) {
        arrive(sumsRead(which));
        if (held > 0 && number == 0)
          fetchTile(tile + C::stages, 0, sliceUnit);
        fetchTile(tile + held + C::stages, (number + held) % C::stages,
                  sliceUnit);
        if constexpr (letsBeginLate)
          if (tile + held + C::stages + 1 == rest)
            letNextKernelBegin();
      }
      __syncwarp();
      after(tile);
    }
  }

  /// What sum warps do: calls \p before(tile) early for every tile, then \p
  /// take(tile, sums of this thread).
  template <typename Before, typename Take>
  __device__ void addTiles(Before before, Take take) const {
    AddPlace<C> place;
    RowFactors<C, AddPlace<C>> factors(layer, place);
#pragma unroll 1
    for (i32 tile = begin; tile < end; ++tile) {
      u32 number = tile - begin, which = number % 2;
      before(tile);
      waitForBarrier(sumsThere(which), number / 2 % 2);
      f32 sum[kSums<C>];
#pragma unroll
      for (i32 warp = 0; warp < C::warps; ++warp)
        place.add(sum, sums(warp, which), warp == 0);
      __syncwarp();
      if (threadIdx.x % kWarp == 0)
        arrive(sumsRead(which));
#pragma unroll
      for (i32 i = 0; i < kSums<C>; ++i)
        sum[i] =
            factors.multiply(sum[i] * Units::sumFactor(place.rowOf(i) / 8), i);
      take(tile, sum);
    }
  }
};

/// Computes \p layer. For every tile, in order in every block, \p sink gets in
/// all threads of the sum warps, or of the ring warp of a cluster
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
  Block block = {{layer, shared, rows, i32(blockIdx.z) * C::tokens, firstUnit,
                  units, begin, min(end, tiles)}};
  typename Block::Ahead ahead = block.start();
  layer.live = rows;
  if (threadIdx.x == (C::copiesTiles ? Block::copier : 0)) {
    block.makeBarriers();
    if constexpr (C::copiesTiles)
#pragma unroll 1
      for (i32 stage = 0; stage < C::stages; ++stage)
        block.fetchTile(begin + stage, stage, sliceUnit);
  }
  __syncwarp();
  if constexpr (C::cluster > 1) {
    // Nobody sends to a block that has not begun.
    comeWithBarriers();
    waitForCluster();
  } else {
    __syncthreads();
  }

  if (Block::isProductWarp()) {
    block.fetchNorm();
    if constexpr (!C::copiesTiles)
      block.fetchUnit(ahead, 0);
    if constexpr (C::letsBeginEarly)
      letNextKernelBegin();
    waitForInput<C>();
    block.loadTokens();
    if constexpr (C::copiesTiles && !Block::letsBeginLate && !C::letsBeginEarly)
      letNextKernelBegin();
    if constexpr (C::hasNorm && !Block::sumsOwn)
      rowFactors<C, 16, Block::productThreads, kProductsMeet>(
          layer, block.firstToken, block.factors());
    if (block.firstToken >= liveRows(live, rows)) {
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

  waitForInput<C>();
  layer.live = liveRows(live, rows);
  if (block.firstToken >= layer.live) {
    if (C::copiesTiles && Block::isCopier())
      block.drain();
    return;
  }
  sink.begin(block.firstToken);
  if constexpr (C::slices == 1) {
    if (Block::isRingWarp())
      return block.fillRing(sliceUnit, [](i32) {});
    typename Sink::Extra extra;
    block.addTiles(
        [&](i32 tile) { extra = sink.prepare(layer, tile, block.end); },
        [&](i32 tile, const f32(&sum)[kSums<C>]) {
          sink.take(layer, tile, block.end, sum, extra);
        });
  } else if constexpr (C::cluster > 1) {
    if (Block::isRingWarp()) {
      ClusterFinish<C, Block, Sink> items(block, sink);
      block.fillRing(sliceUnit, [&](i32 tile) { items.after(tile); });
    } else {
      ClusterItems<C, Block> items = {block, {}};
      block.addTiles(
          [](i32) {},
          [&](i32 tile, const f32(&sum)[kSums<C>]) { items.send(tile, sum); });
    }
  } else {
    if (Block::isRingWarp())
      return block.fillRing(sliceUnit, [](i32) {});
    ScratchSums<C, Block, Sink> slices = {block, sink, scratch};
    block.addTiles(
        [](i32) {},
        [&](i32 tile, const f32(&sum)[kSums<C>]) { slices.take(tile, sum); });
    slices.end();
  }
}

} // namespace tandem
