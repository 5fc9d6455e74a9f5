//===- few_tokens.cuh - Tokens of the layers of few_rows.cuh --------------===//
//
// How a product warp of few_rows.cuh, which draws the block, comes by its part
// of up to 16 tokens: as B of all its products, normalized where the layer
// says so,
//
//   tokens   u32 [block of 32 columns][8 tokens][step, B's word]
//
// Tokens that lie so are read as they are (fragments.cuh). Of others a warp
// reads 16 bytes of a token in each lane and turns them in shared memory; where
// groups of codes have gaps or rows are not aligned it reads number by number.
// The squares of a norm are those of what the warps have read, each of its
// columns; blocks of a cluster send them to each other.
//
// Floor: every block has all tokens of its columns.
//
// Used by few_rows.cuh.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "cluster.cuh"
#include "fragments.cuh"
#include "layer.cuh"

namespace tandem {

/// Threads that add sums, in warps behind those that multiply, the sums of a
/// tile of 16 outputs and 8 or 16 tokens, and how many each of them has.
template <typename C> constexpr i32 kSumThreads = C::sumWarps * kWarp;
template <typename C> constexpr i32 kTileSums = 16 * C::tokens;
template <typename C> constexpr i32 kSums = kTileSums<C> / kSumThreads<C>;

/// Which of a tile's sums a thread of the sum warps has; as mma.cuh draws C:
///
///   two     of output `row`, tokens `token` and `token + 1`
///   four    those, and the same two tokens of output `row + 8`
///   eight   those, the same two tokens of output `row + 8`, then the same of
///           tokens `token + 8` and `token + 9`
template <typename C> struct SumPlace {
  static constexpr i32 count = kSums<C>;
  static_assert(count == 2 || count == 4 || count == 8);
  /// They lie in pieces, 128 sums apart.
  static constexpr i32 ofPiece = count < 4 ? count : 4;
  static constexpr i32 pieces = count / ofPiece;

  i32 index = (threadIdx.x - C::warps * kWarp) % kSumThreads<C>;
  /// The first of its sums in those of a tile.
  i32 first = index * ofPiece;
  i32 row = first / 16 % 8 + first / 2 % 2 * 8;
  i32 token = first / 128 * 8 + first / 4 % 4 * 2;

  __device__ i32 rowOf(i32 sum) const { return row + sum / 2 % 2 * 8; }
  __device__ i32 tokenOf(i32 sum) const {
    return token + sum % 2 + sum / 4 * 8;
  }
  /// How many tokens its sums are of, which one a sum is, and a sum of each.
  static constexpr i32 ofTokens = count < 4 ? 2 : count / 2;
  __device__ static i32 numberOf(i32 sum) { return sum / 4 * 2 + sum % 2; }
  __device__ static i32 sumOf(i32 number) {
    return number / 2 * 4 + number % 2;
  }

  /// Adds this thread's sums of a tile at \p tile to \p sums, or makes them
  /// those.
  __device__ void add(f32 (&sums)[count], const f32 *tile, bool isFirst) const {
#pragma unroll
    for (i32 piece = 0; piece < pieces; ++piece) {
      auto some = loadPack<ofPiece>(tile + first + piece * 128);
#pragma unroll
      for (i32 i = 0; i < ofPiece; ++i) {
        f32 &sum = sums[piece * ofPiece + i];
        sum = isFirst ? some.at[i] : sum + some.at[i];
      }
    }
  }
};

/// Which of a tile's sums a lane has that finishes it from a slot: a run of
/// outputs of one token (few_results.cuh).
template <typename C> struct RunPlace {
  static constexpr i32 count = kTileSums<C> / kWarp;

  i32 token = threadIdx.x % C::tokens;
  i32 first = threadIdx.x % kWarp / C::tokens * count;
  /// The first of its sums in those of a tile.
  i32 inTile = first % 8 * 16 + token % 8 / 2 * 4 + first / 8 * 2 + token % 2 +
               token / 8 * 128;

  __device__ i32 rowOf(i32 sum) const { return first + sum; }
  __device__ i32 tokenOf(i32) const { return token; }
  static constexpr i32 ofTokens = 1;
  __device__ static i32 numberOf(i32) { return 0; }
  __device__ static i32 sumOf(i32) { return 0; }

  /// As SumPlace::add().
  __device__ void add(f32 (&sums)[count], const f32 *tile, bool isFirst) const {
#pragma unroll
    for (i32 i = 0; i < count; ++i) {
      f32 number = tile[inTile + i * 16];
      sums[i] = isFirst ? number : sums[i] + number;
    }
  }
};

/// Whether one warp finishes a tile, in runs.
template <typename C> __device__ constexpr bool finishesRuns() {
  return C::sumWarps == 1;
}
/// The sums that sum warps have of a tile.
template <typename C>
using AddPlace =
    Either<finishesRuns<C>() && C::cluster == 1, RunPlace<C>, SumPlace<C>>;

/// Barriers for some of the warps of a block, by number.
enum Meeting { kProductsMeet = 1, kSumsMeet };

/// What a block has in shared memory, and in the registers of a product warp.
template <typename C, typename Units> struct FewTokens {
  static constexpr i32 productThreads = C::warps * kWarp;
  /// The thread that copies tiles, behind the sum warps.
  static constexpr i32 copier = productThreads + kSumThreads<C>;
  static constexpr i32 shareSteps = C::unitsPerWarp * Units::steps;
  /// Two steps are a block of 32 columns.
  static constexpr i32 blocks = ceilDiv(shareSteps, 2);
  /// Tokens come eight by eight.
  static constexpr i32 octets = C::tokens / 8;
  static_assert(octets == 1 || octets == 2);
  static constexpr i32 barrierBytes = 256;
  /// Of a warp: its sums of two tiles, before that its place for tokens.
  static constexpr i32 warpBytes = 2 * 256 * i32(sizeof(f32));
  static constexpr i32 sumsBytes = C::warps * warpBytes;
  static constexpr i32 normBytes =
      C::hasNorm ? roundUp(factorBytes<C, 16>(), 128) : 0;
  static constexpr i32 shareBytes = C::unitsPerWarp * Units::bytes;
  static constexpr i32 tileBytes = C::warps * shareBytes;
  /// Of blocks of a cluster: places for an item of all slices (few_slices.cuh).
  static constexpr i32 slots = C::cluster > 1
                                   ? ceilDiv(C::cluster + 7, C::cluster)
                                   : 0;
  static constexpr i32 slotBytes =
      C::itemTiles * C::cluster * kTileSums<C> * i32(sizeof(f32));
  static constexpr i32 fixedBytes =
      barrierBytes + sumsBytes + normBytes + slots * slotBytes;
  /// Dynamic shared memory of a block.
  static constexpr i32 sharedBytes =
      fixedBytes +
      C::stages * (C::copiesTiles ? tileBytes : C::warps * Units::bytes);
  static_assert(!C::copiesTiles || (Units::isStretch && kCopiesStretches));
  // A stage is filled while two tiles are read and one is waited for.
  static_assert(!C::copiesTiles || C::stages >= 4);
  static_assert(C::cluster == 1 || C::cluster == C::slices);
  static_assert((5 + slots + C::stages) * 8 <= barrierBytes);
  /// Whether all warps have all their units.
  static constexpr bool isEven =
      C::slices * C::warps * C::unitsPerWarp == Units::units;
  /// Whether tokens are read as they lie, 8 columns at a time.
  static constexpr bool isDirect =
      Units::isDense && C::columns % 8 == 0 && Units::steps % 2 == 0;
  /// Whether warps read, each for its products, all that the norm sums, in
  /// whole spans.
  static constexpr bool sumsOwn =
      isDirect && C::slices == C::cluster && shareSteps * 16 % kNormSpan == 0;

  /// Where a warp turns 16 tokens x 32 columns, some at a time.
  static constexpr i32 turnBytes = 16 * 64;
  /// What lies in front of it.
  static constexpr i32 normWeightBytes = C::hasNorm ? turnBytes : 0;
  static constexpr i32 turns = (warpBytes - normWeightBytes) / turnBytes;
  static_assert(!C::hasNorm || shareSteps * 64 <= normWeightBytes);
  static_assert(!C::fromFragments || (isDirect && !C::hasNorm &&
                                      Units::tokenFactor == kFragmentFactor &&
                                      C::columns % kFragmentColumns == 0));

  const Layer<C> &layer;
  u8 *shared;
  i32 rows, firstToken;
  /// Of this warp: its first unit, and how many it has.
  i32 firstUnit, units;
  /// Tiles of this block.
  i32 begin, end;
  /// B of step s for tokens 8 h .. 8 h + 7: words s % 2 * 2 and the next of
  /// tokens[s / 2][h].
  u32 tokens[blocks][octets][4];
  typename Units::Extra extra[C::unitsPerWarp];

  __device__ static bool isProductWarp() {
    return threadIdx.x < productThreads;
  }
  __device__ static bool isCopier() { return threadIdx.x == copier; }
  /// The warp of the copier.
  __device__ static bool isRingWarp() {
    return C::copiesTiles && threadIdx.x >= copier;
  }
  /// The barriers, by number.
  static constexpr i32 kThereBarrier = 0, kReadBarrier = 2, kSquaresBarrier = 4,
                       kSlotBarrier = 5, kRingBarrier = kSlotBarrier + slots;
  __device__ u64 *barrier(i32 number) const {
    return reinterpret_cast<u64 *>(shared) + number;
  }
  __device__ u64 *sumsThere(i32 which) const {
    return barrier(kThereBarrier + which);
  }
  __device__ u64 *sumsRead(i32 which) const {
    return barrier(kReadBarrier + which);
  }
  /// Where squares of the norm come, and where those of slot \p slot.
  __device__ u64 *squaresThere() const { return barrier(kSquaresBarrier); }
  __device__ u64 *slotThere(i32 slot) const {
    return barrier(kSlotBarrier + slot);
  }
  __device__ u64 *ringBarrier(i32 stage) const {
    return barrier(kRingBarrier + stage);
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
  /// Sums of tile \p tile of the item in slot \p slot, of slice \p slice.
  __device__ f32 *slotSums(i32 slot, i32 tile, i32 slice) const {
    return reinterpret_cast<f32 *>(shared + barrierBytes + sumsBytes +
                                   normBytes + slot * slotBytes) +
           (tile * C::cluster + slice) * kTileSums<C>;
  }
  /// Stage \p stage where a tile is one, and the first unit of warp \p warp in
  /// a stage.
  __device__ u8 *stageTile(i32 stage) const {
    return shared + fixedBytes + stage * tileBytes;
  }
  __device__ u8 *stageUnits(i32 stage, i32 warp) const {
    if constexpr (C::copiesTiles)
      return stageTile(stage) + warp * shareBytes;
    return shared + fixedBytes + (warp * C::stages + stage) * Units::bytes;
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
    if constexpr (C::fromFragments)
      loadFragments();
    else if constexpr (isDirect)
#pragma unroll
      for (i32 block = 0; block < blocks; ++block)
#pragma unroll
        for (i32 half = 0; half < octets; ++half) {
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

  /// The same where they lie as B.
  __device__ void loadFragments() {
    i32 firstBlock = firstUnit * Units::steps / 2;
    const u32 *from =
        reinterpret_cast<const u32 *>(layer.input) +
        (u64(firstBlock) * octets * kWarp + threadIdx.x % kWarp) * 4;
#pragma unroll
    for (i32 block = 0; block < blocks; ++block)
#pragma unroll
      for (i32 half = 0; half < octets; ++half) {
        Pack<u32, 4> words = {};
        if (hasUnit(block * 2 / Units::steps) &&
            (firstBlock + block) * kFragmentColumns < C::columns)
          words = loadPack<4>(from + (block * octets + half) * kWarp * 4);
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          tokens[block][half][i] = words.at[i];
      }
  }

  /// Makes B of tokens as loadTokens() has read them. By product warps.
  __device__ void turnTokens() {
    if constexpr (C::fromFragments)
      ;
    else if constexpr (isDirect)
      turn();
    else
      loadPlaces();
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
      b[i] = i < 2 * octets
                 ? tokens[step / 2][i / 2 % octets][step % 2 * 2 + i % 2]
                 : 0;
  }

  /// Two numbers of a token as products take them.
  __device__ static u32 scaled(u32 pair) {
    if constexpr (C::hasNorm || Units::tokenFactor == 1)
      return pair;
    return multiplyPair(pair, Units::tokenPair);
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
        for (i32 i = 0; i < 4 * octets; ++i)
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
        for (i32 half = 0; half < octets; ++half)
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
            for (i32 i = 0; i < 2 * octets; ++i)
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
      for (i32 half = 0; half < octets; ++half)
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
      for (i32 half = 0; half < octets; ++half) {
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
        if (lane % 4 == 0 && span < spans) {
          f32 *to = squares + span * 16 + g + half * 8;
          if constexpr (C::cluster == 1)
            *to = sum;
          else
#pragma unroll
            for (i32 rank = 0; rank < C::cluster; ++rank)
              send(placeInBlock(to, rank), sum,
                   placeInBlock(squaresThere(), rank));
        }
      }
    if constexpr (C::cluster == 1)
      meet<kProductsMeet, productThreads>();
    else
      waitForBarrier(squaresThere(), 0);
    return normFactor<C>(addSpans<spans>(squares + lane % 16, 16));
  }

  /// Tokens number by number, where groups have gaps or rows are not aligned.
  __device__ void loadPlaces() {
    i32 g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
#pragma unroll
    for (i32 step = 0; step < blocks * 2; ++step)
#pragma unroll
      for (i32 half = 0; half < octets; ++half)
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
