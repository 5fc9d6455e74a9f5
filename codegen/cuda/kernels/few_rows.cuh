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
// A warp has the same few units of every tile, so its part of the tokens stays
// in its registers, as B of all its products; weights are A. It reads its
// weights from a ring in shared memory, deep enough that the memory never
// waits, and no warp waits for another but where the sums of tiles meet, for
// two tiles at a time. The sums of warps are added in order, then those of
// slices; a block has all tiles of a range, and the block that is last of its
// range adds slices and writes. So the order of sums follows from the shape of
// the weight alone.
//
// Shared memory:
//
//   sums     f32 [warp][tile of two][256 and a gap]
//   ring     [warp][stage][unit], every warp copies for itself; or, where a
//            tile of the slice is one stretch of memory and the processor
//            copies stretches (sm_90):
//            [stage][warp][unit], behind it u64 [stage], its barriers
//
// and in the place of the sums, before there are any: where warps turn tokens,
// and behind that the squares of the norm.
//
// Scratch where there are several slices, f32:
//
//   [block of tokens][range][slice][tile of the range][256]
//
// A sink takes what thread i < 512 has of tile i % 2 of two: the sum of output
// row and token of SumPlace.
//
// The first weights are asked for before the kernels in front have ended, where
// a launch allows that (common.cuh); all others behind the tokens, which would
// stand in one queue with them.
//
// Floor: the weights once for every 16 tokens.
//
// Grid: ranges of tiles, slices, blocks of 16 tokens. Used by linear,
// quant_linear and head.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "layer.cuh"
#include "mma.cuh"

namespace tandem {

/// Threads that have sums of two tiles.
constexpr i32 kSumThreads = 512;

/// Which of a tile's 16 x 16 sums this thread has; as mma.cuh draws C.
struct SumPlace {
  i32 index = threadIdx.x / 2;
  i32 row = index / 4 % 32 / 4 + index % 4 / 2 * 8;
  i32 token = index / 128 * 8 + index / 4 % 4 * 2 + index % 2;
};

template <typename C, typename Units> struct FewRows {
  static constexpr i32 threads =
      C::warps * kWarp < kSumThreads ? kSumThreads : C::warps * kWarp;
  static constexpr i32 shareSteps = C::unitsPerWarp * Units::steps;
  /// Two steps are a block of 32 columns.
  static constexpr i32 blocks = ceilDiv(shareSteps, 2);
  /// Sums of a tile with a gap that keeps the two out of each other's banks.
  static constexpr i32 tileSums = 256 + 16;
  static constexpr i32 sumsBytes = C::warps * 2 * tileSums * i32(sizeof(f32));
  static constexpr i32 shareBytes = C::unitsPerWarp * Units::bytes;
  static constexpr i32 tileBytes = C::warps * shareBytes;
  /// Dynamic shared memory of a block.
  static constexpr i32 sharedBytes =
      C::copiesTiles ? sumsBytes + C::stages * tileBytes + 128
                     : sumsBytes + C::warps * C::stages * Units::bytes;
  static_assert(!C::copiesTiles ||
                (Units::isStretch && kCopiesStretches && C::stages * 8 <= 128));
  /// Whether all warps have all their units.
  static constexpr bool isEven =
      C::slices * C::warps * C::unitsPerWarp == Units::units &&
      threads == C::warps * kWarp;
  /// Whether tokens are read as they lie, 8 columns at a time.
  static constexpr bool isDirect =
      Units::isDense && C::columns % 8 == 0 && Units::steps % 2 == 0;
  /// Whether warps read, each for its products, all that the norm sums, in
  /// whole spans.
  static constexpr bool sumsOwn =
      isDirect && C::slices == 1 && shareSteps * 16 % kNormSpan == 0;

  /// Where a warp turns 16 tokens x 32 columns: rows with a gap that keeps them
  /// out of each other's banks.
  static constexpr i32 turnStride = 32 + 8;
  static constexpr i32 turnBytes = 16 * turnStride * i32(sizeof(bf16));
  static constexpr i32 normFactorBytes = C::hasNorm ? factorBytes<C, 16>() : 0;
  static_assert(C::warps * (turnBytes + (C::hasNorm ? shareSteps * 64 : 0)) +
                    roundUp(normFactorBytes, 16) <=
                sumsBytes);

  const Layer<C> &layer;
  u8 *shared;
  i32 firstToken;
  /// Of this warp: its first unit, and how many it has.
  i32 firstUnit, units;
  /// Tiles of this block.
  i32 begin, end;
  /// B of step s for tokens 8 h .. 8 h + 7: words s % 2 * 2 and the next of
  /// tokens[s / 2][h].
  u32 tokens[blocks][2][4];

  __device__ f32 *sums() const { return reinterpret_cast<f32 *>(shared); }
  /// Weights of the norm for this warp's columns.
  __device__ f32 *normWeights() const {
    return reinterpret_cast<f32 *>(shared + C::warps * turnBytes +
                                   roundUp(normFactorBytes, 16)) +
           threadIdx.x / kWarp * (shareSteps * 16);
  }
  /// Where rowFactors() has its numbers.
  __device__ f32 *factors() const {
    return reinterpret_cast<f32 *>(shared + C::warps * turnBytes);
  }
  __device__ u8 *rings() const { return shared + sumsBytes; }
  __device__ u64 *barriers() const {
    return reinterpret_cast<u64 *>(rings() + C::stages * tileBytes);
  }
  /// The first unit of this warp in stage \p stage.
  __device__ u8 *stageUnits(i32 stage) const {
    i32 warp = threadIdx.x / kWarp;
    return rings() + (C::copiesTiles
                          ? stage * tileBytes + warp * shareBytes
                          : (warp * C::stages + stage) * Units::bytes);
  }
  __device__ bool isWorking() const {
    return isEven || threadIdx.x / kWarp < C::warps;
  }
  __device__ bool hasUnit(i32 unit) const { return isEven || unit < units; }

  //===--------------------------------------------------------------------===//
  // Tokens
  //===--------------------------------------------------------------------===//

  /// The token of this lane in half \p half.
  __device__ i32 token(i32 half) const {
    return firstToken + threadIdx.x % kWarp / 4 + half * 8;
  }
  /// The first of the columns that this lane reads of block \p block.
  __device__ i32 column(i32 block) const {
    return (firstUnit * Units::steps + block * 2) * 16 + threadIdx.x % 4 * 8;
  }

  /// Starts to copy what this warp needs of the weight of the norm.
  __device__ void fetchNorm() const {
    if constexpr (C::hasNorm && isDirect) {
      if (isWorking())
        for (i32 piece = threadIdx.x % kWarp; piece < shareSteps * 4;
             piece += kWarp) {
          i32 first = firstUnit * Units::steps * 16 + piece * 4;
          copyAsync(normWeights() + piece * 4, layer.norm + first,
                    first < C::columns);
        }
      commitCopies();
    }
  }

  __device__ void loadTokens() {
    if constexpr (!isDirect)
      return loadPlaces();
#pragma unroll
    for (i32 block = 0; block < blocks; ++block)
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
        Pack<u32, 4> words = {};
        if (token(half) < layer.live && column(block) < C::columns &&
            hasUnit(block * 2 / Units::steps))
          words = loadPack<4>(reinterpret_cast<const u32 *>(
              layer.input + u64(token(half)) * C::columns + column(block)));
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          tokens[block][half][i] = words.at[i];
      }
  }

  /// Makes B of tokens as loadTokens() has read them.
  __device__ void turnTokens() {
    if constexpr (!isDirect)
      return;
    if constexpr (C::hasNorm)
      normalize();
    if (!isWorking())
      return;
    bf16 *mine =
        reinterpret_cast<bf16 *>(shared + threadIdx.x / kWarp * turnBytes);
    i32 lane = threadIdx.x % kWarp;
#pragma unroll
    for (i32 block = 0; block < blocks; ++block) {
      __syncwarp();
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
        Pack<u32, 4> words = {{tokens[block][half][0], tokens[block][half][1],
                               tokens[block][half][2], tokens[block][half][3]}};
        storePack(reinterpret_cast<u32 *>(
                      mine + (lane / 4 + half * 8) * turnStride + lane % 4 * 8),
                  words);
      }
      __syncwarp();
#pragma unroll
      for (i32 step = 0; step < 2; ++step) {
        u32 b[4];
        loadB(b, mine, turnStride, step * 16);
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          tokens[block][i / 2][step * 2 + i % 2] = b[i];
      }
    }
  }

  /// Normalizes tokens as loadTokens() has read them.
  __device__ void normalize() {
    i32 g = threadIdx.x % kWarp / 4;
    f32 factor[2];
    if constexpr (sumsOwn) {
      f32 ofLane = sumOwn();
      factor[0] = __shfl_sync(~0u, ofLane, g);
      factor[1] = __shfl_sync(~0u, ofLane, g + 8);
    } else {
      rowFactors<C, 16, threads>(layer, firstToken, factors());
      factor[0] = factors()[g];
      factor[1] = factors()[g + 8];
    }
    // All but what is in the ring.
    waitForCopies<C::copiesTiles ? 0 : C::stages>();
    __syncwarp();
    // The others have no weights there, but the ring.
    if (!isWorking())
      return;
#pragma unroll
    for (i32 block = 0; block < blocks; ++block) {
      const f32 *from = normWeights() + block * 32 + threadIdx.x % 4 * 8;
#pragma unroll
      for (i32 i = 0; i < 4; i += 2) {
        auto four = loadPack<4>(from + i * 2);
#pragma unroll
        for (i32 half = 0; half < 2; ++half)
#pragma unroll
          for (i32 k = 0; k < 2; ++k)
            tokens[block][half][i + k] =
                normalizedPair<C>(tokens[block][half][i + k], factor[half],
                                  four.at[2 * k], four.at[2 * k + 1]);
      }
    }
  }

  /// rowFactors() of what the warps hold: lane l gets that of token l % 16.
  __device__ f32 sumOwn() const {
    constexpr i32 spanBlocks = kNormSpan / 32;
    constexpr i32 spans = ceilDiv(C::columns, kNormSpan);
    f32 *squares = factors();
    i32 lane = threadIdx.x % kWarp, g = lane / 4;
#pragma unroll
    for (i32 first = 0; first < blocks; first += spanBlocks)
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
        f32 sum = 0;
#pragma unroll
        for (i32 block = first; block < first + spanBlocks; ++block)
#pragma unroll
          for (i32 i = 0; i < 4; ++i) {
            u32 pair = tokens[block][half][i];
            f32 low = __uint_as_float(pair << 16);
            f32 high = __uint_as_float(pair & 0xffff0000u);
            sum = fma(high, high, fma(low, low, sum));
          }
        sum = sumLanes<4>(sum);
        i32 span = (firstUnit * Units::steps + first * 2) * 16 / kNormSpan;
        if (lane % 4 == 0 && span < spans && threadIdx.x / kWarp < C::warps)
          squares[span * 16 + g + half * 8] = sum;
      }
    __syncthreads();
    return normFactor<C>(addSpans<spans>(squares + lane % 16, 16));
  }

  /// Tokens number by number, where groups have gaps or rows are not aligned.
  __device__ void loadPlaces() {
    if constexpr (C::hasNorm)
      rowFactors<C, 16, threads>(layer, firstToken, factors());
    i32 g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
#pragma unroll
    for (i32 step = 0; step < blocks * 2; ++step)
#pragma unroll
      for (i32 half = 0; half < 2; ++half)
#pragma unroll
        for (i32 i = 0; i < 2; ++i) {
          f32 pair[2];
#pragma unroll
          for (i32 j = 0; j < 2; ++j) {
            pair[j] = 0;
            i32 k = Units::column(firstUnit * Units::steps + step,
                                  i * 8 + 2 * t + j);
            if (step >= shareSteps || !hasUnit(step / Units::steps) || k < 0 ||
                token(half) >= layer.live)
              continue;
            pair[j] = toFloat(layer.input[u64(token(half)) * C::columns + k]);
            if constexpr (C::hasNorm)
              pair[j] = normalized<C>(pair[j], factors()[g + half * 8],
                                      layer.norm[k]);
          }
          tokens[step / 2][half][step % 2 * 2 + i] = packBf16(pair[0], pair[1]);
        }
  }

  //===--------------------------------------------------------------------===//
  // Weights
  //===--------------------------------------------------------------------===//

  /// Where the ring is filled from next.
  struct Ahead {
    /// The first of this warp's units of the tile.
    const u8 *from;
    i32 tile, unit, stage;
    Tile found;
  };

  __device__ void find(Ahead &ahead) const {
    ahead.found = Tiles<C>::find(ahead.tile);
    ahead.from =
        Units::tileOf(weightOf(layer, ahead.found.part), ahead.found.index) +
        firstUnit * Units::unitStride;
  }

  /// Begins with an empty ring. By all threads, before any other call.
  __device__ Ahead start() const {
    Ahead ahead = {nullptr, isEven || units > 0 ? begin : end, 0, 0, {0, 0}};
    if constexpr (!C::copiesTiles) {
      find(ahead);
    } else {
      if (threadIdx.x == 0) {
#pragma unroll 1
        for (i32 stage = 0; stage < C::stages; ++stage)
          makeBarrier(barriers() + stage);
        showBarriers();
      }
      __syncthreads();
    }
    return ahead;
  }

  __device__ void nextTile(Ahead &ahead) const {
    ++ahead.tile;
    if constexpr (C::parts == 1) {
      ahead.from += Units::tileStride;
      ++ahead.found.index;
    } else {
      find(ahead);
    }
  }

  /// Starts the copies of the next unit of this warp, if there is one.
  __device__ void fetchUnit(Ahead &ahead) const {
    if (ahead.tile < end) {
      Units::fetch(ahead.from + ahead.unit * Units::unitStride,
                   C::width(ahead.found.part), ahead.found.index,
                   firstUnit + ahead.unit, stageUnits(ahead.stage));
      ahead.stage = ahead.stage + 1 == C::stages ? 0 : ahead.stage + 1;
      if (++ahead.unit == (isEven ? C::unitsPerWarp : units)) {
        ahead.unit = 0;
        nextTile(ahead);
      }
    }
    commitCopies();
  }

  /// Starts the copy of what this block needs of the next tile, if there is
  /// one. By thread 0, whose first unit is that of the slice.
  __device__ void fetchTile(Ahead &ahead) const {
    if (ahead.tile >= end)
      return;
    i32 count = min(C::warps * C::unitsPerWarp, Units::units - firstUnit);
    find(ahead);
    copyStretch(stageUnits(ahead.stage), ahead.from, count * Units::bytes,
                barriers() + ahead.stage);
    ahead.stage = ahead.stage + 1 == C::stages ? 0 : ahead.stage + 1;
    ++ahead.tile;
  }

  /// Fills stages first .. last - 1 of the ring.
  __device__ void fill(Ahead &ahead, i32 first, i32 last) const {
    if (C::copiesTiles && threadIdx.x != 0)
      return;
#pragma unroll 1
    for (i32 stage = first; stage < last; ++stage)
      if constexpr (C::copiesTiles)
        fetchTile(ahead);
      else
        fetchUnit(ahead);
  }

  /// Waits for the first \p stages copies, which nothing will read.
  __device__ void drain(i32 stages) const {
    if constexpr (C::copiesTiles) {
      if (threadIdx.x == 0)
#pragma unroll 1
        for (i32 stage = 0; stage < min(stages, end - begin); ++stage)
          waitForStretch(barriers() + stage, 0);
    } else {
      waitForCopies<0>();
    }
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

  /// What this warp has of the next tile.
  __device__ void addTile(f32 (&mine)[2][4], Reader &reader,
                          Ahead &ahead) const {
    if constexpr (C::copiesTiles)
      waitForStretch(barriers() + reader.stage, reader.phase);
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
        Units::add(mine, from, [&](u32(&b)[4], i32 inUnit, i32) {
          i32 step = unit * Units::steps + inUnit;
#pragma unroll
          for (i32 i = 0; i < 4; ++i)
            b[i] = tokens[step / 2][i / 2][step % 2 * 2 + i % 2];
        });
        if constexpr (!C::copiesTiles) {
          __syncwarp();
          fetchUnit(ahead);
          reader.next();
        }
      }
    if constexpr (C::copiesTiles)
      reader.next();
  }

  /// Calls \p take(first, sum of this thread) for every two tiles; threads from
  /// kSumThreads on have no sum, and those of a tile from \p end on none that
  /// means anything.
  template <typename Take> __device__ void run(Ahead ahead, Take take) const {
    i32 warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    Reader reader = {0, 0};
#pragma unroll 1
    for (i32 first = begin; first < end; first += 2) {
      f32 mine[2][2][4] = {};
#pragma unroll
      for (i32 i = 0; i < 2; ++i)
        if (first + i < end)
          addTile(mine[i], reader, ahead);
      // The stages and the sums before these have been read by everybody.
      __syncthreads();
      if constexpr (C::copiesTiles)
        fill(ahead, 0, 2);
      if (isWorking())
#pragma unroll
        for (i32 i = 0; i < 4; ++i) {
          const f32(&from)[4] = mine[i / 2][i % 2];
          Pack<f32, 4> four = {{from[0], from[1], from[2], from[3]}};
          storePack(sums() + (warp * 2 + i / 2) * tileSums + i % 2 * 128 +
                        lane * 4,
                    four);
        }
      __syncthreads();
      f32 sum = 0;
      if (threadIdx.x < kSumThreads) {
        const f32 *from = sums() + threadIdx.x % 2 * tileSums + threadIdx.x / 2;
        sum = from[0];
#pragma unroll
        for (i32 other = 1; other < C::warps; ++other)
          sum += from[other * (2 * tileSums)];
      }
      take(first, sum);
    }
  }
};

/// Computes \p layer. \p sink.take(layer, first, end, sum) gets the sums of
/// two tiles at a time, in order in every block, in all its threads; see
/// FewRows::run(). Ranges begin at multiples of \p Sink::tiles.
template <typename C, typename Units, typename Sink>
__device__ void fewRows(Layer<C> layer, const i32 *live, i32 rows, u8 *scratch,
                        Sink &sink) {
  extern __shared__ __align__(128) u8 shared[];
  using Block = FewRows<C, Units>;
  constexpr i32 tiles = Tiles<C>::count();
  constexpr i32 items = ceilDiv(tiles, Sink::tiles);
  i32 slice = blockIdx.y, warp = threadIdx.x / kWarp;
  i32 firstUnit = (slice * C::warps + warp) * C::unitsPerWarp;
  i32 units = warp < C::warps
                  ? max(min(Units::units - firstUnit, C::unitsPerWarp), 0)
                  : 0;
  i32 begin = i32(blockIdx.x) * items / i32(gridDim.x) * Sink::tiles;
  i32 end = (i32(blockIdx.x) + 1) * items / i32(gridDim.x) * Sink::tiles;
  Block block = {layer, shared, i32(blockIdx.z) * 16, firstUnit,
                 units, begin,  min(end, tiles)};
  typename Block::Ahead ahead = block.start();
  block.fetchNorm();
  constexpr i32 early = 1;
  block.fill(ahead, 0, early);
  waitForEarlierKernels();
  layer.live = liveRows(live, rows);
  if (block.firstToken >= layer.live) {
    block.drain(early);
    return;
  }
  sink.begin(block.firstToken);
  block.loadTokens();
  block.fill(ahead, early, C::stages);
  block.turnTokens();
  if constexpr (C::slices == 1) {
    block.run(ahead, [&](i32 first, f32 sum) {
      sink.take(layer, first, block.end, sum);
    });
  } else {
    u32 range = blockIdx.z * gridDim.x + blockIdx.x;
    constexpr i32 sliceSize = C::rangeTiles * 256;
    f32 *sums = reinterpret_cast<f32 *>(scratch + C::ticketBytes) +
                u64(range) * C::slices * sliceSize + threadIdx.x % 2 * 256 +
                threadIdx.x / 2;
    auto isMine = [&](i32 first) {
      return threadIdx.x < kSumThreads &&
             first + i32(threadIdx.x % 2) < block.end;
    };
    block.run(ahead, [&](i32 first, f32 sum) {
      if (isMine(first))
        sums[slice * sliceSize + (first - begin) * 256] = sum;
    });
    if (!isLastBlock(reinterpret_cast<u32 *>(scratch) + range, C::slices))
      return;
    constexpr i32 some = 3;
#pragma unroll 1
    for (i32 first = begin; first < block.end; first += 2 * some) {
      // All reads first: each of them takes long.
      f32 parts[some][C::slices];
#pragma unroll
      for (i32 i = 0; i < some; ++i)
#pragma unroll
        for (i32 other = 0; other < C::slices; ++other)
          parts[i][other] = isMine(first + 2 * i)
                                ? loadShared(sums + other * sliceSize +
                                             (first + 2 * i - begin) * 256)
                                : 0.0f;
#pragma unroll
      for (i32 i = 0; i < some; ++i) {
        f32 sum = parts[i][0];
#pragma unroll
        for (i32 other = 1; other < C::slices; ++other)
          sum += parts[i][other];
        if (first + 2 * i < block.end)
          sink.take(layer, first + 2 * i, block.end, sum);
      }
    }
  }
}

/// Writes the results of a layer.
template <typename C> struct LayerSink {
  static constexpr i32 tiles = C::gated ? 2 : 1;

  SumPlace place;

  __device__ void begin(i32 firstToken) { place.token += firstToken; }

  __device__ void take(const Layer<C> &layer, i32 first, i32 end, f32 sum) {
    if (threadIdx.x >= kSumThreads)
      return;
    i32 number = first + threadIdx.x % 2;
    if constexpr (C::gated) {
      // The two tiles are gate and partner.
      f32 up = __shfl_xor_sync(~0u, sum, 1);
      if (threadIdx.x % 2 == 0)
        writeSum(layer, 0, number / 2 * 16 + place.row, place.token,
                 gatedProduct(sum, up));
    } else if (number < end) {
      Tile tile = Tiles<C>::find(number);
      writeSum(layer, tile.part, tile.index * 16 + place.row, place.token, sum);
    }
  }
};

} // namespace tandem
