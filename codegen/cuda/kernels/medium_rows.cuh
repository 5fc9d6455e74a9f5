//===- medium_rows.cuh - Linear layers of dozens of tokens ----------------===//
//
// Up to 64 tokens where there are no clusters of blocks, of which a block
// computes 128 outputs, 8 tiles of 16. The units of all tiles, 128 columns
// each, lie in one row:
//
//              tiles 0 .. 7               tiles 8 .. 15
//   unit       0    1  ..  n - 1          0    1  ..  n - 1         ..
//   stretches  |------ 0 ------|------ 1 -----|------ 2 ----..
//
// Every block has a stretch of it, as long as those of the others, so that all
// of them read weights until the end. Where a stretch begins within the units
// of its tiles, the block leaves those sums in memory, which is the first thing
// it does. Whoever has the first unit of the tiles, the last ones of a stretch,
// adds them in the order of the columns when they have come. The cut is fixed
// by the shape of the weight and the architecture, so the bits of a row depend
// on nothing else. Stretches are counted from the last block to the first: a
// block waits for nobody who begins behind it.
//
// A unit is a stage of a ring in shared memory, filled by asynchronous copies;
// weights are asked for before earlier kernels have ended:
//
//   stage   [x: 64 tokens x 128 columns bf16] [tile 0] .. [tile 7]
//
// Of eight warps, warp w has tiles 2 (w % 4), 2 (w % 4) + 1 and the columns
// 64 (w / 4) .. 64 (w / 4) + 63 of each unit, for all tokens. The sums of both
// halves of the columns meet in shared memory, C::exchanged tokens at a time:
//
//   exchange   f32 [token: 128 outputs, 4 of gap]
//
// Scratch: tickets, then what is left of a block's tiles at the beginning of
// its stretch:
//
//   u32 [tiles of a block: stretches that have come]
//   f32 [stretch][eight of a thread][first, last 4][thread][4]
//
// A row of numbers is in pieces of 16 bytes; piece p of row r lies where
// p ^ (r % 8) would, so that the 8 rows which a matrix is loaded from are in
// different banks. Norms are not for these layers: every block would normalize
// its tokens again.
//
// Floor: the weights once, or the products: 64 tokens take 8 of 16 x 8 x 16 for
// every 16 x 16 codes. Tokens are read once for every 128 outputs, from the L2.
//
// Grid: stretches, one for each multiprocessor. Used by quant_linear.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "layer.cuh"
#include "mma.cuh"

namespace tandem {

constexpr i32 kMediumTokens = 64, kMediumThreads = 256, kMediumTiles = 8;
constexpr i32 kMediumColumns = 128, kMediumOutputs = kMediumTiles * 16;

/// The units of \p Units, whose halves are the stages of \p Stage.
template <typename C, typename Units, typename Stage> struct MediumRows {
  /// Tiles of a warp: of 16 outputs, and of 8 tokens.
  static constexpr i32 warpTiles = 2, octets = kMediumTokens / 8;
  /// Steps of 16 columns of half a unit.
  static constexpr i32 steps = 4;
  static constexpr i32 units = Units::units;
  /// Of half a unit.
  static constexpr i32 rowBytes = kMediumColumns;
  static constexpr i32 halfBytes = kMediumTokens * rowBytes;
  static constexpr i32 tokenBytes = 2 * halfBytes;
  static constexpr i32 stageBytes = tokenBytes + kMediumTiles * Units::bytes;
  /// Of a token in the exchange.
  static constexpr i32 stride = kMediumOutputs + 4;
  static constexpr i32 phases = kMediumTokens / C::exchanged;
  /// Eights of sums that a thread finishes at a time.
  static constexpr i32 eights =
      C::exchanged * kMediumOutputs / 8 / kMediumThreads;
  /// Dynamic shared memory of a block.
  static constexpr i32 sharedBytes =
      C::stages * stageBytes + C::exchanged * stride * 4;
  /// Stages that are on their way.
  static constexpr i32 ahead = C::stages - 1;
  static_assert(!C::hasNorm && Units::steps == 2 * steps);

  using Sums = f32[warpTiles][octets][4];

  const Layer<C> &layer;
  u8 *shared;
  /// The stretch of this block.
  i32 stretch;

  //===--------------------------------------------------------------------===//
  // Stretches
  //===--------------------------------------------------------------------===//

  __device__ static constexpr u32 all() {
    return u32(ceilDiv(Tiles<C>::count(), kMediumTiles) * units);
  }
  /// Where stretch \p stretch begins.
  __device__ static i32 beginOf(i32 stretch) {
    return i32(u64(stretch) * all() / C::blocks);
  }
  /// The stretch that has \p unit.
  __device__ static i32 stretchOf(i32 unit) {
    return i32((u64(unit + 1) * C::blocks - 1) / all());
  }

  //===--------------------------------------------------------------------===//
  // Copies
  //===--------------------------------------------------------------------===//

  /// The next unit that is asked for: where this warp's tile of it lies, and
  /// how many of its tiles follow.
  struct Next {
    const u8 *weight;
    i32 unit, left;
  };

  __device__ Next findNext(i32 unit) const {
    i32 inTile = unit % units;
    i32 tile = min(unit / units * kMediumTiles + i32(threadIdx.x / kWarp),
                   Tiles<C>::count() - 1);
    Tile found = Tiles<C>::find(tile);
    return {Units::tileOf(weightOf(layer, found.part), found.index) +
                inTile * Units::unitStride,
            unit, units - inTile};
  }
  __device__ void advance(Next &next) const {
    ++next.unit;
    next.weight += Units::unitStride;
    if (--next.left == 0)
      next = findNext(next.unit);
  }

  __device__ u8 *stageAt(i32 index) const {
    return shared + index * stageBytes;
  }

  __device__ void fetchWeights(const Next &next, i32 index) const {
    Units::fetch(next.weight, 0, 0, 0,
                 stageAt(index) + tokenBytes +
                     threadIdx.x / kWarp * Units::bytes);
  }
  __device__ void fetchTokens(const Next &next, i32 index) const {
    constexpr i32 perHalf = rowBytes / 16, perRow = 2 * perHalf,
                  rows = kMediumThreads / perRow;
    i32 row = threadIdx.x / perRow, piece = threadIdx.x % perRow;
    i32 column = (units - next.left) * kMediumColumns + piece * 8;
    bool hasColumn = C::columns % kMediumColumns == 0 || column < C::columns;
    const bf16 *from = layer.input + u64(row) * C::columns + column;
    u8 *to = stageAt(index) + piece / perHalf * halfBytes + row * rowBytes +
             (piece % perHalf ^ row % 8) * 16;
#pragma unroll
    for (i32 i = 0; i < kMediumTokens; i += rows) {
      bool exists = hasColumn && row + i < layer.live;
      copyAsync(to + i * rowBytes, exists ? from + i * C::columns : layer.input,
                exists);
    }
  }

  //===--------------------------------------------------------------------===//
  // Products
  //===--------------------------------------------------------------------===//

  /// Which half of the columns this warp has, and its first tile.
  __device__ static i32 half() { return threadIdx.x / (kMediumThreads / 2); }
  __device__ static i32 warpTile() {
    return threadIdx.x / kWarp % (kMediumTiles / warpTiles) * warpTiles;
  }

  /// B of all tokens and the columns of step \p step of this half.
  using Rows = u32[octets / 2][4];
  __device__ static void loadTokens(Rows &b, const u8 *rows, i32 step) {
    i32 lane = threadIdx.x % kWarp;
    i32 row = lane % 8 + lane / 16 * 8;
    i32 piece = step * 2 + lane / 8 % 2;
    const u8 *from =
        rows + half() * halfBytes + row * rowBytes + (piece ^ row % 8) * 16;
#pragma unroll
    for (i32 j = 0; j < octets / 2; ++j)
      loadMatrices(b[j], from + j * (16 * rowBytes));
  }

  __device__ void add(Sums &sums, i32 index) const {
    const u8 *rows = stageAt(index);
    const u8 *weights = rows + tokenBytes + warpTile() * Units::bytes;
    i32 part = half();
    typename Stage::Held held[warpTiles];
    Rows b[2];
    loadTokens(b[0], rows, 0);
#pragma unroll
    for (i32 tile = 0; tile < warpTiles; ++tile) {
      const u8 *from = weights + tile * Units::bytes;
      Stage::load(held[tile], from + part * Stage::wordBytes);
      Stage::loadScales(held[tile], from, part);
    }
    // A of the next tile is made while the products of this one run.
    u32 a[2][4];
    Stage::begin(held[0], weights, 0, part);
#pragma unroll
    for (i32 i = 0; i < 4; ++i)
      Stage::expand(a[0], held[0], weights, 0, i);
#pragma unroll
    for (i32 number = 0; number < steps * warpTiles; ++number) {
      i32 step = number / warpTiles, tile = number % warpTiles;
      i32 nextStep = (number + 1) / warpTiles, next = (number + 1) % warpTiles;
      bool hasNext = number + 1 < steps * warpTiles;
      const u8 *nextWeights = weights + next * Units::bytes;
      if (tile == 0 && step + 1 < steps)
        loadTokens(b[(step + 1) % 2], rows, step + 1);
      if (hasNext)
        Stage::begin(held[next], nextWeights, nextStep, part);
#pragma unroll
      for (i32 j = 0; j < octets; j += 2) {
        const u32(&pair)[4] = b[step % 2][j / 2];
        multiply(sums[tile][j], a[number % 2], pair[0], pair[1]);
        multiply(sums[tile][j + 1], a[number % 2], pair[2], pair[3]);
        if (hasNext)
          Stage::expand(a[(number + 1) % 2], held[next], nextWeights, nextStep,
                        j / 2);
      }
    }
  }

  //===--------------------------------------------------------------------===//
  // Results
  //===--------------------------------------------------------------------===//

  /// Eight sums of a token that a thread finishes: of eight outputs; of a gated
  /// layer four gates, and their partners.
  struct Place {
    i32 token, output;
  };
  static constexpr i32 toLast = C::gated ? 16 : 4;

  __device__ static Place placeOf(i32 eight) {
    constexpr i32 perToken = kMediumOutputs / 8;
    i32 place = eight * kMediumThreads + threadIdx.x, number = place % perToken;
    return {place / perToken,
            C::gated ? number / 4 * 32 + number % 4 * 4 : number * 8};
  }
  __device__ f32 *exchangeAt(Place place) const {
    return reinterpret_cast<f32 *>(shared + C::stages * stageBytes) +
           place.token * stride + place.output;
  }

  /// Adds the sums of both halves for the tokens of \p phase in the exchange.
  __device__ void exchange(const Sums &sums, i32 phase) const {
    i32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
    f32 *numbers = exchangeAt({2 * t, warpTile() * 16 + g});
    constexpr i32 each = C::exchanged / 8;
    // Everybody has read what was there.
    __syncthreads();
#pragma unroll 1
    for (i32 turn = 0; turn < 2; ++turn) {
      if (half() == turn) {
#pragma unroll
        for (i32 tile = 0; tile < warpTiles; ++tile)
#pragma unroll
          for (i32 j = 0; j < each; ++j)
#pragma unroll
            for (i32 i = 0; i < 4; ++i) {
              f32 *to =
                  numbers + (j * 8 + i % 2) * stride + tile * 16 + i / 2 * 8;
              f32 before = turn == 0 ? 0.0f : *to;
              *to = before + sums[tile][phase * each + j][i];
            }
      }
      __syncthreads();
    }
  }

  /// Writes what is in the exchange as results of the tokens of \p phase and
  /// tiles \p firstTile ..
  __device__ void write(i32 firstTile, i32 phase) const {
#pragma unroll 1
    for (i32 eight = 0; eight < eights; ++eight) {
      Place place = placeOf(eight);
      const f32 *from = exchangeAt(place);
      auto first = loadPack<4>(from), last = loadPack<4>(from + toLast);
      i32 token = phase * C::exchanged + place.token,
          inTile = place.output % 16;
      if constexpr (C::gated) {
        f32 results[4];
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          results[i] = gatedProduct(first.at[i] * Stage::sumFactor,
                                    last.at[i] * Stage::sumFactor);
        writeNumbers(results, {0, firstTile / 2 + place.output / 32}, inTile,
                     token);
      } else {
        f32 results[8];
#pragma unroll
        for (i32 i = 0; i < 8; ++i)
          results[i] =
              (i < 4 ? first.at[i] : last.at[i - 4]) * Stage::sumFactor;
        // A part of no outputs where there is no such tile.
        i32 tile = min(firstTile + place.output / 16, Tiles<C>::count());
        writeNumbers(results, Tiles<C>::find(tile), inTile, token);
      }
    }
  }

  template <i32 Count>
  __device__ void writeNumbers(const f32 (&sums)[Count], Tile tile, i32 first,
                               i32 token) const {
    i32 width = C::width(tile.part), output = tile.index * 16 + first;
    if (token >= layer.live || output >= width)
      return;
    u64 place = u64(token) * width + output;
    if constexpr (sizeof(typename C::Result) == sizeof(bf16)) {
      if (width % Count == 0) {
        Pack<bf16, Count> numbers;
#pragma unroll
        for (i32 i = 0; i < Count; ++i)
          numbers.at[i] = fromFloat<bf16>(sums[i]);
        if constexpr (C::hasResidual) {
          auto residual = loadPack<Count>(layer.residual + place);
#pragma unroll
          for (i32 i = 0; i < Count; ++i)
            numbers.at[i] = fromFloat<bf16>(toFloat(residual.at[i]) +
                                            toFloat(numbers.at[i]));
        }
        storePack(resultOf(layer, tile.part) + place, numbers);
        return;
      }
    }
#pragma unroll
    for (i32 i = 0; i < Count; ++i)
      writeSum(layer, tile.part, output + i, token, sums[i]);
  }

  static constexpr i32 ofFour = kMediumThreads * 4;
  /// What the block of stretch \p stretch has left of the tokens of \p phase.
  __device__ static f32 *leftBy(u8 *scratch, i32 stretch, i32 phase) {
    return reinterpret_cast<f32 *>(scratch + C::ticketBytes) +
           u64(stretch) * (kMediumTokens * kMediumOutputs) +
           phase * (eights * 2 * ofFour) + threadIdx.x * 4;
  }
  /// The numbers \p i of this thread: half of an eight.
  __device__ f32 *fourOf(i32 i) const {
    return exchangeAt(placeOf(i / 2)) + i % 2 * toLast;
  }

  /// Adds what the blocks of the stretches [begin, end) have left to the
  /// numbers of this thread in the exchange.
  __device__ void addLeft(u8 *scratch, i32 begin, i32 end, i32 phase) const {
    f32 sums[eights * 2][4];
#pragma unroll
    for (i32 i = 0; i < eights * 2; ++i) {
      auto own = loadPack<4>(fourOf(i));
#pragma unroll
      for (i32 j = 0; j < 4; ++j)
        sums[i][j] = own.at[j];
    }
#pragma unroll 3
    for (i32 other = begin; other < end; ++other) {
      const f32 *left = leftBy(scratch, other, phase);
      f32 numbers[eights * 2][4];
#pragma unroll
      for (i32 i = 0; i < eights * 2; ++i)
        loadShared(numbers[i], left + i * ofFour);
#pragma unroll
      for (i32 i = 0; i < eights * 8; ++i)
        sums[i / 4][i % 4] += numbers[i / 4][i % 4];
    }
#pragma unroll
    for (i32 i = 0; i < eights * 2; ++i) {
      Pack<f32, 4> four;
#pragma unroll
      for (i32 j = 0; j < 4; ++j)
        four.at[j] = sums[i][j];
      storePack(fourOf(i), four);
    }
  }

  /// Writes the results of the tiles whose first unit is \p first, or leaves
  /// \p sums for whoever will.
  __device__ void finish(const Sums &sums, i32 first, u8 *scratch) const {
    i32 begin = stretchOf(first), end = stretchOf(first + units - 1) + 1;
    u32 *ticket = reinterpret_cast<u32 *>(scratch) + first / units;
    if (begin == stretch && end > begin + 1 && threadIdx.x == 0) {
      while (loadTicket(ticket) != u32(end - begin - 1))
        ;
      *ticket = 0;
    }
#pragma unroll
    for (i32 phase = 0; phase < phases; ++phase) {
      exchange(sums, phase);
      if (begin == stretch) {
        if (end > begin + 1)
          addLeft(scratch, begin + 1, end, phase);
        write(first / units * kMediumTiles, phase);
        continue;
      }
#pragma unroll
      for (i32 i = 0; i < eights * 2; ++i)
        storePack(leftBy(scratch, stretch, phase) + i * ofFour,
                  loadPack<4>(fourOf(i)));
    }
    if (begin == stretch)
      return;
    __syncthreads();
    if (threadIdx.x == 0)
      countTicket(ticket);
  }
};

template <typename C, typename Units, typename Stage>
__device__ void mediumRows(Layer<C> layer, const i32 *live, i32 rows,
                           u8 *scratch) {
  extern __shared__ __align__(128) u8 shared[];
  using Block = MediumRows<C, Units, Stage>;
  i32 stretch = C::blocks - 1 - i32(blockIdx.x);
  Block block = {layer, shared, stretch};
  i32 unit = Block::beginOf(stretch), end = Block::beginOf(stretch + 1);
  typename Block::Next next = block.findNext(unit);
  {
    typename Block::Next first = next;
#pragma unroll 1
    for (i32 i = 0; i < Block::ahead && unit + i < end; ++i) {
      block.fetchWeights(first, i);
      block.advance(first);
    }
  }
  waitForEarlierKernels();
  layer.live = min(liveRows(live, rows), kMediumTokens);
#pragma unroll 1
  for (i32 i = 0; i < Block::ahead; ++i) {
    if (unit + i < end) {
      block.fetchTokens(next, i);
      block.advance(next);
    }
    commitCopies();
  }

  i32 index = 0, free = Block::ahead;
#pragma unroll 1
  while (unit < end) {
    i32 first = unit / Block::units * Block::units;
    i32 last = min(first + Block::units, end);
    typename Block::Sums sums = {};
#pragma unroll 1
    for (; unit < last; ++unit) {
      waitForCopies<Block::ahead - 1>();
      __syncthreads();
      // A stage that everybody has left.
      if (next.unit < end) {
        block.fetchWeights(next, free);
        block.fetchTokens(next, free);
        block.advance(next);
      }
      commitCopies();
      block.add(sums, index);
      index = index + 1 == C::stages ? 0 : index + 1;
      free = free + 1 == C::stages ? 0 : free + 1;
    }
    block.finish(sums, first, scratch);
  }
}

} // namespace tandem
