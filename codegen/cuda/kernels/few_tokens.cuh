//===- few_tokens.cuh - Tokens of the layers of few_rows.cuh
//---------------===//
//
// How a product warp of few_rows.cuh, which draws the block, comes by its part
// of up to 16 tokens: as B of all its products, normalized where the layer
// says so,
//
//   tokens   u32 [block of 32 columns][8 tokens][step, B's word]
//
// On sm_90 a sum warp copies the rows of all tokens to the end of the ring, in
// which there is nothing yet. Elsewhere a warp reads 16 bytes of a token in
// each lane and turns them in shared memory, and where groups of codes have
// gaps or rows are not aligned it reads number by number.
//
// Floor: every block has all tokens of its columns.
//
// Used by few_rows.cuh.
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

/// What a block has in shared memory, and in the registers of a product warp.
template <typename C, typename Units> struct FewTokens {
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
  static constexpr i32 early = !copiesTokens ? C::stages / 2
                               : tokenStages < C::stages
                                   ? C::stages - tokenStages
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
        extra[unit].make(
            [&](u32(&b)[4], i32 inUnit) { load(b, unit, inUnit); });
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
    const u8 *row =
        tokenRow(lane % 8 + lane / 16 * 8) + own + lane / 8 % 2 * 16;
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
          tokens[step / 2][half][step % 2 * 2 + i] = packBf16(
              pair[0] * Units::tokenFactor, pair[1] * Units::tokenFactor);
        }
  }
};

} // namespace tandem
