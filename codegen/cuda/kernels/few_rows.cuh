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

#include "layer.cuh"
#include "mma.cuh"

namespace tandem {

/// Warps that add sums, behind those that multiply.
constexpr i32 kSumWarps = 4;
constexpr i32 kSumThreads = kSumWarps * kWarp;

/// Which two of a tile's 16 x 16 sums a thread of the sum warps has, those of
/// tokens `token` and `token + 1`; as mma.cuh draws C.
template <typename C> struct SumPlace {
  i32 index = threadIdx.x - C::warps * kWarp;
  i32 half = index % 2;
  i32 row = index / 8 % 8 + half * 8;
  i32 token = index / 64 * 8 + index / 2 % 4 * 2;
};

/// Barriers for some of the warps of a block, by number.
enum Meeting { kProductsMeet = 1, kSumsMeet };

template <typename C, typename Units> struct FewRows {
  static constexpr i32 productThreads = C::warps * kWarp;
  static constexpr i32 threads = productThreads + kSumThreads;
  static constexpr i32 shareSteps = C::unitsPerWarp * Units::steps;
  /// Two steps are a block of 32 columns.
  static constexpr i32 blocks = ceilDiv(shareSteps, 2);
  static constexpr i32 barrierBytes = 256;
  /// Of a warp: its sums of two tiles, before that its place for tokens.
  static constexpr i32 warpBytes = 2 * 256 * i32(sizeof(f32));
  static constexpr i32 sumsBytes = C::warps * warpBytes;
  static constexpr i32 normBytes =
      C::hasNorm ? roundUp(factorBytes<C, 16>(), 128) : 0;
  static constexpr i32 shareBytes = C::unitsPerWarp * Units::bytes;
  static constexpr i32 tileBytes = C::warps * shareBytes;
  /// Dynamic shared memory of a block.
  static constexpr i32 sharedBytes =
      barrierBytes + sumsBytes + normBytes +
      C::stages * (C::copiesTiles ? tileBytes : C::warps * Units::bytes);
  static_assert(!C::copiesTiles || (Units::isStretch && kCopiesStretches));
  static_assert((6 + C::stages) * 8 <= barrierBytes);
  /// Whether all warps have all their units.
  static constexpr bool isEven =
      C::slices * C::warps * C::unitsPerWarp == Units::units;
  /// Whether tokens are read as they lie, 8 columns at a time.
  static constexpr bool isDirect =
      Units::isDense && C::columns % 8 == 0 && Units::steps % 2 == 0;
  /// Whether warps read, each for its products, all that the norm sums, in
  /// whole spans.
  static constexpr bool sumsOwn =
      isDirect && C::slices == 1 && shareSteps * 16 % kNormSpan == 0;

  /// Where a warp turns 16 tokens x 32 columns, some at a time.
  static constexpr i32 turnBytes = 16 * 64;
  /// What lies in front of it.
  static constexpr i32 normWeightBytes = C::hasNorm ? turnBytes : 0;
  static constexpr i32 turns = (warpBytes - normWeightBytes) / turnBytes;
  static_assert(!C::hasNorm || shareSteps * 64 <= normWeightBytes);

  /// Whether the copier brings the tokens, to the end of the ring: rows of what
  /// the slice has of a token, with a gap that keeps them out of each other's
  /// banks.
  static constexpr bool copiesTokens = C::copiesTiles && isDirect;
  static constexpr i32 tokenStride = C::warps * shareSteps * 32 + 16;
  static constexpr i32 tokenStages = ceilDiv(16 * tokenStride, tileBytes);
  /// Stages that are filled before there are tokens.
  static constexpr i32 early =
      !copiesTokens              ? C::stages / 2
      : tokenStages < C::stages ? C::stages - tokenStages
                                : 0;
  static constexpr i32 ringBytes =
      C::stages * (C::copiesTiles ? tileBytes : C::warps * Units::bytes);
  static_assert(!copiesTokens || 16 * tokenStride <= ringBytes);

  const Layer<C> &layer;
  u8 *shared;
  i32 rows, firstToken;
  /// Of this warp: its first unit, and how many it has.
  i32 firstUnit, units;
  /// Tiles of this block.
  i32 begin, end;
  /// B of step s for tokens 8 h .. 8 h + 7: words s % 2 * 2 and the next of
  /// tokens[s / 2][h].
  u32 tokens[blocks][2][4];
  typename Units::Extra extra[C::unitsPerWarp];

  __device__ static bool isSumWarp() { return threadIdx.x >= productThreads; }
  /// The thread that copies tiles.
  __device__ static bool isCopier() { return threadIdx.x == productThreads; }
  __device__ static bool isTokenCopier() {
    return threadIdx.x == productThreads + kWarp;
  }
  __device__ u64 *sumsThere(i32 which) const {
    return reinterpret_cast<u64 *>(shared) + which;
  }
  __device__ u64 *sumsRead(i32 which) const {
    return reinterpret_cast<u64 *>(shared) + 2 + which;
  }
  __device__ u64 *ringBarrier(i32 stage) const {
    return reinterpret_cast<u64 *>(shared) + 6 + stage;
  }
  __device__ u64 *tokensThere() const {
    return reinterpret_cast<u64 *>(shared) + 4;
  }
  __device__ u64 *tokensRead() const {
    return reinterpret_cast<u64 *>(shared) + 5;
  }
  /// Row \p row of the tokens that the copier brings.
  __device__ u8 *tokenRow(i32 row) const {
    return shared + sharedBytes - (16 - row) * tokenStride;
  }
  /// Says that this warp has its tokens.
  __device__ void haveTokens() const {
    __syncwarp();
    if (C::copiesTiles && threadIdx.x % kWarp == 0)
      arrive(tokensRead());
  }
  __device__ f32 *sums(i32 warp, i32 which) const {
    return reinterpret_cast<f32 *>(shared + barrierBytes + warp * warpBytes) +
           which * 256;
  }
  /// The place for tokens of this warp.
  __device__ u8 *ownPlace() const {
    return shared + barrierBytes + threadIdx.x / kWarp * warpBytes;
  }
  /// Weights of the norm for this warp's columns.
  __device__ f32 *normWeights() const {
    return reinterpret_cast<f32 *>(ownPlace());
  }
  /// Where rowFactors() has its numbers.
  __device__ f32 *factors() const {
    return reinterpret_cast<f32 *>(shared + barrierBytes + sumsBytes);
  }
  /// The first unit of this warp in stage \p stage.
  __device__ u8 *stageUnits(i32 stage) const {
    i32 warp = threadIdx.x / kWarp;
    return shared + barrierBytes + sumsBytes + normBytes +
           (C::copiesTiles ? stage * tileBytes + warp * shareBytes
                           : (warp * C::stages + stage) * Units::bytes);
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
      for (i32 piece = threadIdx.x % kWarp; piece < shareSteps * 4;
           piece += kWarp) {
        i32 first = firstUnit * Units::steps * 16 + piece * 4;
        copyAsync(normWeights() + piece * 4, layer.norm + first,
                  first < C::columns);
      }
      commitCopies();
    }
  }

  /// Asks for tokens. Those behind the live ones are other numbers, which harm
  /// nobody: a token's sums are its own.
  __device__ void loadTokens() {
    if constexpr (isDirect && !copiesTokens)
#pragma unroll
      for (i32 block = 0; block < blocks; ++block)
#pragma unroll
        for (i32 half = 0; half < 2; ++half) {
          Pack<u32, 4> words = {};
          if (token(half) < rows && column(block) < C::columns &&
              hasUnit(block * 2 / Units::steps))
            words = loadPack<4>(reinterpret_cast<const u32 *>(
                layer.input + u64(token(half)) * C::columns + column(block)));
#pragma unroll
          for (i32 i = 0; i < 4; ++i)
            tokens[block][half][i] = words.at[i];
        }
  }

  /// Makes B of tokens as loadTokens() has read them. By product warps.
  __device__ void turnTokens() {
    if constexpr (!isDirect) {
      loadPlaces();
      haveTokens();
    } else if constexpr (copiesTokens) {
      takeTokens();
    } else {
      turn();
      if constexpr (!(C::hasNorm && sumsOwn))
        haveTokens();
    }
    if constexpr (Units::hasExtra) {
#pragma unroll
      for (i32 unit = 0; unit < C::unitsPerWarp; ++unit)
        extra[unit].make([&](u32(&b)[4], i32 inUnit) { load(b, unit, inUnit); });
    }
  }

  /// B of step \p inUnit of unit \p unit.
  __device__ void load(u32 (&b)[4], i32 unit, i32 inUnit) const {
    i32 step = unit * Units::steps + inUnit;
#pragma unroll
    for (i32 i = 0; i < 4; ++i)
      b[i] = tokens[step / 2][i / 2][step % 2 * 2 + i % 2];
  }

  /// Two numbers of a token as products take them.
  __device__ static u32 scaled(u32 pair) {
    if constexpr (C::hasNorm || Units::tokenFactor == 1)
      return pair;
    return multiplyPair(pair, Units::tokenPair);
  }

  /// Whether the layer has columns for block \p block of this warp.
  __device__ bool hasBlock(i32 block) const {
    return (isEven && C::columns % (Units::steps * 16) == 0) ||
           (firstUnit * Units::steps + block * 2) * 16 < C::columns;
  }

  /// Normalizes tokens that the copier has brought and makes B of them.
  __device__ void takeTokens() {
    i32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
    i32 own = threadIdx.x / kWarp * (shareSteps * 32);
    waitForBarrier(tokensThere(), 0);
    f32 factor[2];
    if constexpr (C::hasNorm) {
      if constexpr (sumsOwn)
#pragma unroll
        for (i32 block = 0; block < blocks; ++block)
#pragma unroll
          for (i32 half = 0; half < 2; ++half) {
            auto words = loadPack<4>(reinterpret_cast<const u32 *>(
                tokenRow(g + half * 8) + own + block * 64 + t * 16));
#pragma unroll
            for (i32 i = 0; i < 4; ++i)
              tokens[block][half][i] = hasBlock(block) ? words.at[i] : 0;
          }
      findFactors(factor);
    }
    const u8 *row = tokenRow(lane % 8 + lane / 16 * 8) + own + lane / 8 % 2 * 16;
#pragma unroll
    for (i32 block = 0; block < blocks; ++block)
#pragma unroll
      for (i32 step = 0; step < 2; ++step) {
        u32 b[4];
        loadMatrices(b, row + block * 64 + step * 32);
#pragma unroll
        for (i32 i = 0; i < 2; ++i) {
          Pack<f32, 2> weights;
          if constexpr (C::hasNorm)
            weights = loadPack<2>(normWeights() + block * 32 + step * 16 +
                                  i * 8 + t * 2);
#pragma unroll
          for (i32 half = 0; half < 2; ++half) {
            u32 word = hasBlock(block) ? b[half * 2 + i] : 0;
            if constexpr (C::hasNorm)
              word = normalizedPair<C>(word, factor[half], weights.at[0],
                                       weights.at[1]);
            tokens[block][half][step * 2 + i] = scaled(word);
          }
        }
      }
    haveTokens();
  }

  /// Normalizes tokens and makes B of them.
  ///
  /// 16 bytes of a lane are eight columns of a token, and should be two of each
  /// eight: by way of shared memory, where rows of 32 columns have their pieces
  /// of 16 bytes in an order that keeps them out of each other's banks.
  __device__ void turn() {
    f32 factor[2];
    if constexpr (C::hasNorm) {
      findFactors(factor);
      // The compiler forgets what it took apart for squares, which is more than
      // there are registers for.
#pragma unroll
      for (i32 block = 0; block < blocks; ++block)
#pragma unroll
        for (i32 i = 0; i < 8; ++i)
          asm volatile("" : "+r"(tokens[block][i / 4][i % 4]));
    }
    u8 *place = ownPlace() + normWeightBytes;
    i32 lane = threadIdx.x % kWarp;
    auto at = [&](i32 block, i32 row, i32 piece) {
      return place + block % turns * turnBytes + row * 64 +
             (piece ^ row / 2 % 4) * 16;
    };
#pragma unroll
    for (i32 first = 0; first < blocks; first += turns) {
      __syncwarp();
#pragma unroll
      for (i32 block = first; block < first + turns; ++block) {
        if constexpr (C::hasNorm)
          if (block < blocks)
            normalize(block < blocks ? block : 0, factor);
#pragma unroll
        for (i32 half = 0; half < 2; ++half)
          if (block < blocks) {
            u32(&from)[4] = tokens[block < blocks ? block : 0][half];
#pragma unroll
            for (i32 i = 0; i < 4; ++i)
              from[i] = scaled(from[i]);
            Pack<u32, 4> words = {{from[0], from[1], from[2], from[3]}};
            storePack(reinterpret_cast<u32 *>(
                          at(block, lane / 4 + half * 8, lane % 4)),
                      words);
          }
      }
      __syncwarp();
#pragma unroll
      for (i32 block = first; block < first + turns; ++block)
#pragma unroll
        for (i32 step = 0; step < 2; ++step)
          if (block < blocks) {
            u32 b[4];
            loadMatrices(b, at(block, lane % 8 + lane / 16 * 8,
                               step * 2 + lane / 8 % 2));
#pragma unroll
            for (i32 i = 0; i < 4; ++i)
              tokens[block < blocks ? block : 0][i / 2][step * 2 + i % 2] =
                  b[i];
          }
    }
    // The place becomes that of sums.
    __syncwarp();
  }

  /// The factors of the norm of this lane's tokens.
  __device__ void findFactors(f32 (&factor)[2]) const {
    i32 g = threadIdx.x % kWarp / 4;
    if constexpr (sumsOwn) {
      f32 ofLane = sumOwn();
      factor[0] = __shfl_sync(~0u, ofLane, g);
      factor[1] = __shfl_sync(~0u, ofLane, g + 8);
    } else {
      factor[0] = factors()[g];
      factor[1] = factors()[g + 8];
    }
    // A power of two, so a number may be times it before or afterwards.
    factor[0] *= Units::tokenFactor;
    factor[1] *= Units::tokenFactor;
    // The weights of the norm: all but what is in the ring.
    waitForCopies<C::copiesTiles ? 0 : C::stages>();
    __syncwarp();
  }

  /// Normalizes what this lane has of block \p block.
  __device__ void normalize(i32 block, const f32 (&factor)[2]) {
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
        if (lane % 4 == 0 && span < spans)
          squares[span * 16 + g + half * 8] = sum;
      }
    if constexpr (!copiesTokens)
      haveTokens();
    meet<kProductsMeet, productThreads>();
    return normFactor<C>(addSpans<spans>(squares + lane % 16, 16));
  }

  /// Tokens number by number, where groups have gaps or rows are not aligned.
  __device__ void loadPlaces() {
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
                token(half) >= rows)
              continue;
            pair[j] = toFloat(layer.input[u64(token(half)) * C::columns + k]);
            if constexpr (C::hasNorm)
              pair[j] = normalized<C>(pair[j], factors()[g + half * 8],
                                      layer.norm[k]);
          }
          tokens[step / 2][half][step % 2 * 2 + i] =
              packBf16(pair[0] * Units::tokenFactor, pair[1] * Units::tokenFactor);
        }
  }

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

  /// Starts the copies of the next unit of this warp to stage \p stage, if there
  /// is one.
  __device__ void fetchUnit(Ahead &ahead, i32 stage) const {
    if (ahead.tile < end) {
      Tile found = Tiles<C>::find(ahead.tile);
      i32 unit = firstUnit + ahead.unit;
      Units::fetch(Units::tileOf(weightOf(layer, found.part), found.index) +
                       unit * Units::unitStride,
                   C::width(found.part), found.index, unit,
                   stageUnits(stage));
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
  /// stand in one queue with what is on the way; and where tokens lie tiles come
  /// last.
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
        Units::addFew(mine, from, extra[unit], [&](u32(&b)[4], i32 inUnit, i32) {
          load(b, unit, inUnit);
        });
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
  Block block = {layer, shared, rows,  i32(blockIdx.z) * 16, firstUnit,
                 units, begin,  min(end, tiles)};
  typename Block::Ahead ahead = block.start();
  layer.live = rows;
  if (Block::isCopier())
    block.makeBarriers();
  __syncthreads();

  if (!Block::isSumWarp()) {
    block.fetchNorm();
    if constexpr (!C::copiesTiles)
      block.fetchUnit(ahead, 0);
    waitForEarlierKernels();
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
  waitForEarlierKernels();
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
                u64(range) * C::slices * sliceSize +
                SumPlace<C>().index * 2;
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
               place.token + i, result,
               [&](u64) { return extra.residual[i]; });
    }
  }
};

} // namespace tandem
