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
// weights through a ring of its own in shared memory, deep enough that the
// memory never waits, and no warp waits for another but where the sums of a
// tile meet, once a tile. The sums of warps are added in order, then those of
// slices; a block has all tiles of a range, and the block that is last of its
// range adds slices and writes. So the order of sums follows from the shape of
// the weight alone.
//
// Shared memory:
//
//   sums     f32 [2][warps][256], the norm's factors before
//   rings    [warp][stage][unit]
//   barriers u64 [warp][stage], of sm_90's copies
//
// Scratch where there are several slices, f32:
//
//   [block of tokens][range][slice][tile of the range][256]
//
// A sink takes what thread i < 256 has of a tile: the sum of output
// SumPlace(i).row and token SumPlace(i).token.
//
// The first weights are asked for before the kernels in front have ended, where
// a launch allows that (common.cuh).
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

/// Which of a tile's 16 x 16 sums a thread has; as mma.cuh draws C.
struct SumPlace {
  i32 row, token;

  __device__ explicit SumPlace(i32 thread) {
    i32 lane = thread / 4 % kWarp;
    row = lane / 4 + thread % 4 / 2 * 8;
    token = thread / 128 * 8 + lane % 4 * 2 + thread % 2;
  }
};

template <typename C, typename Units> struct FewRows {
  static constexpr i32 threads = (C::warps < 8 ? 8 : C::warps) * kWarp;
  static constexpr i32 shareSteps = C::unitsPerWarp * Units::steps;
  /// Two steps are a block of 32 columns.
  static constexpr i32 blocks = ceilDiv(shareSteps, 2);
  static constexpr i32 ringBytes = C::stages * Units::bytes;
  static constexpr i32 sumsBytes = 2 * C::warps * 256 * i32(sizeof(f32));
  /// A barrier for every stage of every ring, where copies need them.
  static constexpr bool copiesStretches = kCopiesStretches && Units::isStretch;
  static constexpr i32 barrierBytes = roundUp(C::warps * C::stages * 8, 128);
  /// Dynamic shared memory of a block.
  static constexpr i32 sharedBytes =
      sumsBytes + C::warps * ringBytes + barrierBytes;
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
  static_assert(!C::hasNorm || factorBytes<C, 16>() <= sumsBytes);

  /// Where a warp turns 16 tokens x 32 columns: rows with a gap that keeps them
  /// out of each other's banks.
  static constexpr i32 turnStride = 32 + 8;
  static constexpr i32 turnBytes = 16 * turnStride * i32(sizeof(bf16));
  static_assert(turnBytes <= 2 * 256 * i32(sizeof(f32)));

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

  __device__ f32 *factors() const { return reinterpret_cast<f32 *>(shared); }
  __device__ f32 *sums(i32 tile) const {
    return factors() + tile % 2 * (C::warps * 256);
  }
  __device__ u8 *ring() const {
    return shared + sumsBytes + threadIdx.x / kWarp * ringBytes;
  }
  __device__ u64 *barriers() const {
    return reinterpret_cast<u64 *>(shared + sumsBytes + C::warps * ringBytes) +
           threadIdx.x / kWarp * C::stages;
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

  /// What this lane needs of the weight of the norm.
  struct NormWeights {
    Pack<f32, 4> at[blocks][2];
  };

  __device__ void load(NormWeights &weights) const {
    if constexpr (C::hasNorm && isDirect)
#pragma unroll
      for (i32 block = 0; block < blocks; ++block)
#pragma unroll
        for (i32 i = 0; i < 2; ++i) {
          weights.at[block][i] = {};
          if (column(block) < C::columns && hasUnit(block * 2 / Units::steps))
            weights.at[block][i] =
                loadPack<4>(layer.norm + column(block) + i * 4);
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
  __device__ void turnTokens(const NormWeights &weights) {
    if constexpr (!isDirect)
      return;
    if constexpr (C::hasNorm)
      normalize(weights);
    if (!isEven && threadIdx.x / kWarp >= C::warps)
      return;
    bf16 *mine = reinterpret_cast<bf16 *>(
        shared + threadIdx.x / kWarp * (2 * 256 * i32(sizeof(f32))));
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
  __device__ void normalize(const NormWeights &weights) {
    if constexpr (sumsOwn)
      sumOwn();
    else
      rowFactors<C, 16, threads>(layer, firstToken, factors());
    i32 g = threadIdx.x % kWarp / 4;
    f32 factor[2] = {factors()[g], factors()[g + 8]};
#pragma unroll
    for (i32 block = 0; block < blocks; ++block)
#pragma unroll
      for (i32 half = 0; half < 2; ++half)
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          tokens[block][half][i] =
              normalizedPair<C>(tokens[block][half][i], factor[half],
                                weights.at[block][i / 2].at[i % 2 * 2],
                                weights.at[block][i / 2].at[i % 2 * 2 + 1]);
    // The factors lie where tokens turn.
    __syncthreads();
  }

  /// rowFactors() of what the warps hold.
  __device__ void sumOwn() const {
    constexpr i32 spanBlocks = kNormSpan / 32;
    constexpr i32 spans = ceilDiv(C::columns, kNormSpan);
    f32 *squares = factors() + 16;
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
    if (threadIdx.x < 16)
      factors()[threadIdx.x] =
          normFactor<C>(addSpans<spans>(squares + threadIdx.x, 16));
    __syncthreads();
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

  __device__ Ahead start() const {
    Ahead ahead = {nullptr, isEven || units > 0 ? begin : end, 0, 0, {0, 0}};
    find(ahead);
    if constexpr (copiesStretches) {
      if (threadIdx.x % kWarp == 0 &&
          (isEven || threadIdx.x / kWarp < C::warps)) {
#pragma unroll 1
        for (i32 stage = 0; stage < C::stages; ++stage)
          makeBarrier(barriers() + stage);
        showBarriers();
      }
      __syncwarp();
    }
    return ahead;
  }

  /// Starts the copies of the next unit, if there is one.
  __device__ void fetch(Ahead &ahead) const {
    if (ahead.tile < end) {
      const u8 *from = ahead.from + ahead.unit * Units::unitStride;
      u8 *to = ring() + ahead.stage * Units::bytes;
      if constexpr (!copiesStretches)
        Units::fetch(from, C::width(ahead.found.part), ahead.found.index,
                     firstUnit + ahead.unit, to);
      else if (threadIdx.x % kWarp == 0)
        copyStretch(to, from, Units::bytes, barriers() + ahead.stage);
      ahead.stage = ahead.stage + 1 == C::stages ? 0 : ahead.stage + 1;
      if (++ahead.unit == (isEven ? C::unitsPerWarp : units)) {
        ahead.unit = 0;
        ++ahead.tile;
        if constexpr (C::parts == 1) {
          ahead.from += Units::tileStride;
          ++ahead.found.index;
        } else {
          find(ahead);
        }
      }
    }
    if constexpr (!copiesStretches)
      commitCopies();
  }

  /// Waits for the first \p stages copies.
  __device__ void drain(i32 stages) const {
    if constexpr (copiesStretches) {
      i32 count =
          min(stages, (end - begin) * (isEven ? C::unitsPerWarp : units));
#pragma unroll 1
      for (i32 stage = 0; stage < count; ++stage)
        waitForStretch(barriers() + stage, 0);
    } else {
      waitForCopies<0>();
    }
  }

  /// Adds what this warp has of all tiles, and calls \p take(tile, sum of this
  /// thread) for each; threads from 256 on get none.
  template <typename Take> __device__ void run(Ahead ahead, Take take) const {
    i32 warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    i32 stage = 0;
    u32 phase = 0;
#pragma unroll 1
    for (i32 tile = begin; tile < end; ++tile) {
      f32 mine[2][4] = {};
#pragma unroll
      for (i32 unit = 0; unit < C::unitsPerWarp; ++unit)
        if (hasUnit(unit)) {
          if constexpr (copiesStretches)
            waitForStretch(barriers() + stage, phase);
          else
            waitForCopies<C::stages - 1>();
          __syncwarp();
          Units::add(mine, ring() + stage * Units::bytes,
                     [&](u32(&b)[4], i32 inUnit, i32) {
                       i32 step = unit * Units::steps + inUnit;
#pragma unroll
                       for (i32 i = 0; i < 4; ++i)
                         b[i] = tokens[step / 2][i / 2][step % 2 * 2 + i % 2];
                     });
          __syncwarp();
          fetch(ahead);
          if (++stage == C::stages) {
            stage = 0;
            phase ^= 1;
          }
        }
      f32 *meeting = sums(tile);
      if (isEven || warp < C::warps)
#pragma unroll
        for (i32 half = 0; half < 2; ++half) {
          Pack<f32, 4> four = {
              {mine[half][0], mine[half][1], mine[half][2], mine[half][3]}};
          storePack(meeting + warp * 256 + half * 128 + lane * 4, four);
        }
      __syncthreads();
      f32 sum = 0;
      if (threadIdx.x < 256) {
        sum = meeting[threadIdx.x];
#pragma unroll
        for (i32 other = 1; other < C::warps; ++other)
          sum += meeting[other * 256 + threadIdx.x];
      }
      take(tile, sum);
    }
  }
};

/// Computes \p layer. \p sink.take(tile, sum) gets the sums of all tiles, in
/// order in every block, and takes them in all its threads; threads from 256 on
/// have none. Ranges begin at multiples of \p Sink::tiles.
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
  // Weights are there whatever ran before; nothing else is. Where tokens stand
  // in the same queue to memory as weights, few of them first.
  constexpr i32 early = Block::copiesStretches ? C::stages : 1;
#pragma unroll 1
  for (i32 stage = 0; stage < early; ++stage)
    block.fetch(ahead);
  typename Block::NormWeights weights;
  block.load(weights);
  waitForEarlierKernels();
  layer.live = liveRows(live, rows);
  if (block.firstToken >= layer.live) {
    block.drain(early);
    return;
  }
  sink.begin(layer, block.firstToken);
  block.loadTokens();
#pragma unroll 1
  for (i32 stage = early; stage < C::stages; ++stage)
    block.fetch(ahead);
  block.turnTokens(weights);
  // Where tokens turned, sums meet.
  __syncthreads();
  if constexpr (C::slices == 1) {
    block.run(ahead, [&](i32 tile, f32 sum) { sink.take(layer, tile, sum); });
  } else {
    u32 range = blockIdx.z * gridDim.x + blockIdx.x;
    f32 *sums = reinterpret_cast<f32 *>(scratch + C::ticketBytes) +
                u64(range) * C::slices * C::rangeTiles * 256 + threadIdx.x;
    constexpr i32 sliceSize = C::rangeTiles * 256;
    block.run(ahead, [&](i32 tile, f32 sum) {
      if (threadIdx.x < 256)
        sums[slice * sliceSize + (tile - begin) * 256] = sum;
    });
    if (!isLastBlock(reinterpret_cast<u32 *>(scratch) + range, C::slices))
      return;
    constexpr i32 some = 4;
    for (i32 first = begin; first < block.end; first += some) {
      // All reads first: each of them takes long.
      f32 parts[some][C::slices];
#pragma unroll
      for (i32 i = 0; i < some; ++i)
#pragma unroll
        for (i32 other = 0; other < C::slices; ++other)
          parts[i][other] = threadIdx.x < 256 && first + i < block.end
                                ? loadShared(sums + other * sliceSize +
                                             (first + i - begin) * 256)
                                : 0.0f;
#pragma unroll
      for (i32 i = 0; i < some; ++i) {
        f32 sum = parts[i][0];
#pragma unroll
        for (i32 other = 1; other < C::slices; ++other)
          sum += parts[i][other];
        if (first + i < block.end)
          sink.take(layer, first + i, sum);
      }
    }
  }
}

/// Writes the results of a layer.
template <typename C> struct LayerSink {
  static constexpr i32 tiles = C::gated ? 2 : 1;

  SumPlace place = SumPlace(threadIdx.x);
  /// The sum of the gate that waits for its partner.
  f32 gate = 0;

  __device__ void begin(const Layer<C> &, i32 firstToken) {
    place.token += firstToken;
  }

  __device__ void take(const Layer<C> &layer, i32 number, f32 sum) {
    if (threadIdx.x >= 256)
      return;
    Tile tile = Tiles<C>::find(number);
    i32 output = tile.index * 16 + place.row;
    if constexpr (!C::gated)
      writeSum(layer, tile.part, output, place.token, sum);
    else if (tile.part == 0)
      gate = sum;
    else
      writeSum(layer, 0, output, place.token, gatedProduct(gate, sum));
  }
};

} // namespace tandem
