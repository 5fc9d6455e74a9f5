//===- wide_rows.cuh - Linear layers of hundreds of tokens ----------------===//
//
// A block computes 128 outputs, 8 tiles of 16, of 128 tokens, or of 64 when no
// more are live; each of its four warps its part of them in registers, in the
// fragments that mma.cuh draws as C:
//
//             tokens 0..63   64..127                 tokens 0..63
//   tiles 0..3     warp 0     warp 1    tiles 0, 1     warp 0
//   tiles 4..7     warp 2     warp 3    tiles 2, 3     warp 1 ..
//
// Where four warps multiply together (warpgroup.cuh), a block has 16 tiles and
// two groups of warps, and each warp two tiles of all its tokens: 128, 64, or
// 160 where blocks of so many go through the rows in fewer turns. Products are
// so fast there that the L2 would be what they wait for, if two blocks of 8
// tiles read the same tokens.
//
// Columns come 64 at a time through a ring of `stages` in shared memory, filled
// by asynchronous copies:
//
//   stage   [x: 128 tokens x 64 columns bf16] [tile 0] .. [tile 7 or 15]
//
// Stages of 64 tokens are smaller, so more of them are on their way: so few
// tokens wait for memory, not for products.
//
// A row of 64 numbers is 8 pieces of 16 bytes; piece p of row r lies where
// p ^ (r % 8) would, so that the 8 rows which a matrix is loaded from are in 32
// different banks. What a tile is belongs to the weight: `Stage` has its copies
// and its fragments of A.
//
// Blocks that run together share the columns of all tokens and of a few weights
// in the L2: the tokens of an output block are neighbours. Where few tokens are
// live, as many blocks as the machine holds share the columns of a tile, in
// slices that the last one adds in order. How many follows from the live rows,
// so the bits of a row depend on how many tiles of 128 tokens are live, and on
// nothing else: not on how many tokens a block has.
//
//   scratch   u32 [tile of the output: slices that have come]
//             f32 [tile of the output][slice][number in its thread][thread]
//
// Norms are not for these layers: every block would normalize its tokens again.
//
// Floor: operations. 2 * outputs * columns a token.
//
// Grid: output blocks x blocks of tokens x slices, in one row. Used by
// quant_linear.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "layer.cuh"
#include "warpgroup.cuh"

namespace tandem {

constexpr i32 kWideTokens = 128, kWidestTokens = 160;
constexpr i32 kWideColumns = 64, kWideSteps = kWideColumns / 16;
/// Threads that copy a tile, each from one address on.
constexpr i32 kTileCopiers = 16;

/// Where piece \p piece of row \p row of 64 numbers lies, in bytes.
__device__ inline i32 placeOf(i32 row, i32 piece) {
  return row * (kWideColumns * 2) + (piece ^ row % 8) * 16;
}

/// A block's part of the work.
struct WideWork {
  i32 firstTile, firstToken;
  i32 slice, slices;
  /// Counts tiles of the output.
  i32 place;
};

/// A block of \p Tokens tokens: 64, 128, or 160 where warps multiply together.
template <typename C, typename Stage, i32 Tokens = kWideTokens>
struct WideRows {
  /// Whether a warp has half of the tokens of its block, and twice the tiles.
  static constexpr bool halvesTokens = Tokens == kWideTokens && !kWarpgroups;
  /// Tiles of a warp: of 16 outputs, and of 8 tokens.
  static constexpr i32 warpTiles = halvesTokens ? 4 : 2;
  static constexpr i32 warpTokens = Tokens / (halvesTokens ? 16 : 8);
  static constexpr i32 threads = C::blockTiles * kTileCopiers;
  /// Of a stage's tokens.
  static constexpr i32 tokenBytes = Tokens * kWideColumns * 2;
  static constexpr i32 stageBytes =
      roundUp(tokenBytes + C::blockTiles * Stage::bytes, kGroupBytes);
  /// Dynamic shared memory of a block, of however many tokens.
  static constexpr i32 sharedBytes =
      C::stages *
      roundUp(kWideTokens * kWideColumns * 2 + C::blockTiles * Stage::bytes,
              kGroupBytes);
  static constexpr i32 stages = sharedBytes / stageBytes;
  /// Stages that are on their way.
  static constexpr i32 ahead = stages - 1;
  static constexpr i32 outputs = C::blockTiles * 16 / (C::gated ? 2 : 1);
  static_assert(!C::hasNorm);

  using Sums = f32[warpTiles][warpTokens][4];

  const Layer<C> &layer;
  u8 *shared;
  WideWork work;

  __device__ static i32 outputBlocks() {
    return ceilDiv(Tiles<C>::count(), C::blockTiles);
  }

  /// The work of this block, if there is any for \p live rows.
  __device__ static bool findWork(WideWork &work, i32 live) {
    work.slices = slicesOf(live);
    if (work.slices == 0)
      return false;
    i32 tokenBlocks = ceilDiv(live, Tokens);
    work.slice = blockIdx.x % work.slices;
    work.place = blockIdx.x / work.slices;
    work.firstTile = work.place / tokenBlocks * C::blockTiles;
    work.firstToken = work.place % tokenBlocks * Tokens;
    return work.place < tokenBlocks * outputBlocks();
  }

  /// Slices of the columns for \p live rows, however many tokens a block has;
  /// 0 where there are none.
  __device__ static i32 slicesOf(i32 live) {
    i32 blocks = ceilDiv(live, kWideTokens) * outputBlocks();
    return blocks == 0 ? 0 : min(max(C::slots / blocks, 1), C::mostSlices);
  }

  /// Tokens that a multiprocessor goes through, block after block, until the
  /// last one has ended.
  __device__ static i32 tokensInTurn(i32 live) {
    return ceilDiv(ceilDiv(live, Tokens) * outputBlocks(), C::slots) * Tokens;
  }

  //===--------------------------------------------------------------------===//
  // Copies
  //===--------------------------------------------------------------------===//

  /// What this thread copies from: a part of a tile, or null, and pieces of the
  /// rows r, r + 16 .. of the tokens.
  struct Source {
    const u8 *weight;
    const bf16 *input;
    i32 width, tileIndex;
  };

  __device__ Source findSource() const {
    Source source;
    i32 tile = work.firstTile + threadIdx.x / kTileCopiers;
    Tile found = Tiles<C>::find(min(tile, Tiles<C>::count() - 1));
    source.weight = Stage::tileOf(weightOf(layer, found.part), found.index);
    source.width = tile < Tiles<C>::count() ? C::width(found.part) : 0;
    source.tileIndex = found.index;
    source.input = layer.input +
                   u64(work.firstToken + threadIdx.x / 8) * C::columns +
                   threadIdx.x % 8 * 8;
    return source;
  }

  __device__ u8 *stageAt(i32 index) const {
    return shared + index * stageBytes;
  }

  /// Starts the copies of columns 64 \p number .. to stage \p index.
  __device__ void fetch(const Source &source, i32 number, i32 index) const {
    u8 *to = stageAt(index);
    Stage::fetch(source.weight, source.width, source.tileIndex, number,
                 to + tokenBytes + threadIdx.x / kTileCopiers * Stage::bytes,
                 threadIdx.x % kTileCopiers);
    i32 row = threadIdx.x / 8;
    i32 column = number * kWideColumns + i32(threadIdx.x % 8) * 8;
    const bf16 *from = source.input + number * kWideColumns;
    u8 *place = to + placeOf(row, threadIdx.x % 8);
    i32 rows = layer.live - work.firstToken - row;
    if (C::columns % kWideColumns != 0 && column >= C::columns)
      rows = 0;
#pragma unroll
    for (i32 i = 0; i < Tokens; i += threads / 8)
      copyAsync(place + i * (kWideColumns * 2), from + i * C::columns,
                i < rows);
  }

  //===--------------------------------------------------------------------===//
  // Products
  //===--------------------------------------------------------------------===//

  __device__ static i32 warpTile() {
    i32 warp = threadIdx.x / kWarp;
    return (halvesTokens ? warp / 2 : warp) * warpTiles;
  }
  __device__ static i32 warpToken() {
    i32 warp = threadIdx.x / kWarp;
    return halvesTokens ? warp % 2 * (warpTokens * 8) : 0;
  }

  /// B of the tokens of this warp and the columns of step \p step.
  using Rows = u32[warpTokens / 2][4];
  __device__ static void loadTokens(Rows &b, const u8 *rows, i32 step) {
    i32 lane = threadIdx.x % kWarp;
    i32 row = lane % 8 + lane / 16 * 8, piece = step * 2 + lane / 8 % 2;
    const u8 *from = rows + placeOf(warpToken() + row, piece);
#pragma unroll
    for (i32 j = 0; j < warpTokens / 2; ++j)
      loadMatrices(b[j], from + j * (16 * kWideColumns * 2));
  }

  __device__ void add(Sums &sums, i32 index, i32 half) const {
    const u8 *rows = stageAt(index);
    const u8 *weights = rows + tokenBytes + warpTile() * Stage::bytes;
    typename Stage::Held held[warpTiles];
    Rows b[2];
    loadTokens(b[0], rows, 0);
#pragma unroll
    for (i32 tile = 0; tile < warpTiles; ++tile) {
      Stage::load(held[tile], weights + tile * Stage::bytes);
      Stage::loadScales(held[tile], weights + tile * Stage::bytes, half);
    }
    // A of the next tile is made while the products of this one run.
    u32 a[2][4];
    Stage::begin(held[0], weights, 0, half);
#pragma unroll
    for (i32 i = 0; i < 4; ++i)
      Stage::expand(a[0], held[0], weights, 0, i);
#pragma unroll
    for (i32 number = 0; number < kWideSteps * warpTiles; ++number) {
      i32 step = number / warpTiles, tile = number % warpTiles;
      i32 nextStep = (number + 1) / warpTiles, next = (number + 1) % warpTiles;
      bool hasNext = number + 1 < kWideSteps * warpTiles;
      const u8 *nextWeights = weights + next * Stage::bytes;
      if (tile == 0 && step + 1 < kWideSteps)
        loadTokens(b[(step + 1) % 2], rows, step + 1);
      if (hasNext)
        Stage::begin(held[next], nextWeights, nextStep, half);
#pragma unroll
      for (i32 j = 0; j < warpTokens; j += 2) {
        const u32(&pair)[4] = b[step % 2][j / 2];
        multiply(sums[tile][j], a[number % 2], pair[0], pair[1]);
        multiply(sums[tile][j + 1], a[number % 2], pair[2], pair[3]);
        if (hasNext)
          Stage::expand(a[(number + 1) % 2], held[next], nextWeights, nextStep,
                        j / 2);
      }
    }
  }

  /// Sums of the columns of stages [begin, end) by warps that multiply
  /// together.
  ///
  /// Products of two steps are on their way at any time: A of a step is made
  /// while those of the step in front run, and blocks meet for the next stage
  /// in the middle of this one.
  __device__ void addTogether(Sums &sums, i32 begin, i32 end) const {
    static_assert(stages >= 4 && kWideSteps == 4);
    Source source = findSource();
    auto fetchNext = [&](i32 number, i32 index) {
      if (number < end)
        fetch(source, number, index);
      commitCopies();
    };
#pragma unroll 1
    for (i32 i = 0; i < ahead; ++i)
      fetchNext(begin + i, i);
    waitForCopies<ahead - 1>();
    showToGroup();
    __syncthreads();

    GroupWeights<Stage, warpTiles, Stage::bytes> weights;
    const u8 *from = stageAt(0) + tokenBytes + warpTile() * Stage::bytes;
    weights.load(from, begin % 2);
    weights.prepare(from, 0, begin % 2);
    i32 index = 0, free = ahead;
#pragma unroll 1
    for (i32 number = begin; number < end; ++number) {
      u64 rows = groupRows(stageAt(index));
      i32 next = index + 1 == stages ? 0 : index + 1;
#pragma unroll
      for (i32 step = 0; step < kWideSteps; ++step) {
        weights.multiply(sums, rows, step);
        if (step == 2) {
          fetchNext(number + ahead, free);
          free = index;
        }
        waitForProducts<1>();
        if (step == 1) {
          // Everybody has left the stage in front, and will see the next one.
          waitForCopies<ahead - 2>();
          showToGroup();
          __syncthreads();
        }
        if (step + 1 < kWideSteps)
          weights.prepare(from, step + 1, number % 2);
        else
          weights.prepare(from, 0, (number + 1) % 2);
        if (step == 2) {
          // Behind the last stage it does not matter what is loaded.
          from = stageAt(next) + tokenBytes + warpTile() * Stage::bytes;
          weights.load(from, (number + 1) % 2);
        }
      }
      index = next;
    }
    waitForProducts<0>();
    waitForCopies<0>();
  }

  /// The same by every warp for itself.
  __device__ void addAlone(Sums &sums, i32 begin, i32 end) const {
    Source source = findSource();
#pragma unroll 1
    for (i32 i = 0; i < ahead; ++i) {
      if (begin + i < end)
        fetch(source, begin + i, i);
      commitCopies();
    }
    bool hasTokens = work.firstToken + warpToken() < layer.live;
    i32 index = 0, free = ahead;
#pragma unroll 1
    for (i32 number = begin; number < end; ++number) {
      waitForCopies<ahead - 1>();
      __syncthreads();
      // A stage that everybody has left.
      if (number + ahead < end)
        fetch(source, number + ahead, free);
      commitCopies();
      if (hasTokens)
        add(sums, index, number % 2);
      index = index + 1 == stages ? 0 : index + 1;
      free = free + 1 == stages ? 0 : free + 1;
    }
    waitForCopies<0>();
  }

  /// Sums of the columns of stages [begin, end).
  __device__ void addStages(Sums &sums, i32 begin, i32 end) const {
    if constexpr (kWarpgroups)
      addTogether(sums, begin, end);
    else
      addAlone(sums, begin, end);
  }

  /// Makes \p sums those of all slices in one of the blocks that share them,
  /// and says in which.
  __device__ bool addSlices(Sums &sums, u8 *scratch) const {
    if (work.slices == 1)
      return true;
    constexpr i32 numbers = warpTiles * warpTokens * 4;
    constexpr u64 sliceSize = u64(numbers) * threads;
    f32 *ofTile = reinterpret_cast<f32 *>(scratch + C::ticketBytes) +
                  u64(work.place) * work.slices * sliceSize + threadIdx.x;
    f32 *mine = ofTile + work.slice * sliceSize;
#pragma unroll
    for (i32 i = 0; i < numbers; ++i)
      mine[i * threads] = sums[i / (warpTokens * 4)][i / 4 % warpTokens][i % 4];
    if (!isLastBlock(reinterpret_cast<u32 *>(scratch) + work.place,
                     work.slices))
      return false;
#pragma unroll
    for (i32 i = 0; i < numbers; ++i)
      sums[i / (warpTokens * 4)][i / 4 % warpTokens][i % 4] = 0;
#pragma unroll 1
    for (i32 slice = 0; slice < work.slices; ++slice)
#pragma unroll
      for (i32 i = 0; i < numbers; ++i)
        sums[i / (warpTokens * 4)][i / 4 % warpTokens][i % 4] +=
            loadShared(ofTile + slice * sliceSize + i * threads);
    return true;
  }

  //===--------------------------------------------------------------------===//
  // Results
  //===--------------------------------------------------------------------===//

  /// Calls \p take(tile in the block, output in the tile, token in the block,
  /// sum) for the results of this thread; those of a gated layer count its
  /// pairs of tiles.
  template <typename Take>
  __device__ static void forResults(const Sums &sums, Take take) {
    i32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
    constexpr i32 step = C::gated ? 2 : 1;
#pragma unroll
    for (i32 tile = 0; tile < warpTiles; tile += step)
#pragma unroll
      for (i32 j = 0; j < warpTokens; ++j)
#pragma unroll
        for (i32 i = 0; i < 4; ++i) {
          f32 sum = sums[tile][j][i] * Stage::sumFactor;
          if constexpr (C::gated)
            sum = gatedProduct(sum, sums[tile + 1][j][i] * Stage::sumFactor);
          take((warpTile() + tile) / step, g + i / 2 * 8,
               warpToken() + j * 8 + 2 * t + i % 2, sum);
        }
  }

  /// Part and index in it of tile \p tile of the results of this block; a part
  /// of no outputs where there is no such tile.
  __device__ Tile findResult(i32 tile) const {
    if constexpr (C::gated)
      return {0, work.firstTile / 2 + tile};
    return Tiles<C>::find(min(work.firstTile + tile, Tiles<C>::count()));
  }

  __device__ void write(const Sums &sums) const {
    if constexpr (sizeof(typename C::Result) != sizeof(bf16)) {
      forResults(sums, [&](i32 tile, i32 output, i32 token, f32 sum) {
        Tile found = findResult(tile);
        writeSum(layer, found.part, found.index * 16 + output,
                 work.firstToken + token, sum);
      });
    } else {
      // Through shared memory, so that what is written lies side by side.
      constexpr i32 stride = outputs + 8;
      static_assert(Tokens * stride * 2 <= sharedBytes);
      bf16 *numbers = reinterpret_cast<bf16 *>(shared);
      __syncthreads();
      forResults(sums, [&](i32 tile, i32 output, i32 token, f32 sum) {
        numbers[token * stride + tile * 16 + output] = fromFloat<bf16>(sum);
      });
      __syncthreads();
      constexpr i32 perToken = outputs / 8;
      for (i32 piece = threadIdx.x; piece < Tokens * perToken;
           piece += threads) {
        i32 token = piece / perToken, inToken = piece % perToken;
        if (work.firstToken + token < layer.live)
          writePiece(work.firstToken + token, inToken / 2, inToken % 2 * 8,
                     loadPack<8>(numbers + token * stride + inToken * 8));
      }
    }
  }

  /// Writes 8 results, which are the numbers \p first .. of tile \p tile.
  __device__ void writePiece(i32 token, i32 tile, i32 first,
                             Pack<bf16, 8> numbers) const {
    Tile found = findResult(tile);
    i32 width = C::width(found.part), output = found.index * 16 + first;
    u64 place = u64(token) * width + output;
    bf16 *to = resultOf(layer, found.part) + place;
    if (width % 8 == 0) {
      if (output >= width)
        return;
      if constexpr (C::hasResidual) {
        auto residual = loadPack<8>(layer.residual + place);
#pragma unroll
        for (i32 i = 0; i < 8; ++i)
          numbers.at[i] =
              fromFloat<bf16>(toFloat(residual.at[i]) + toFloat(numbers.at[i]));
      }
      storePack(to, numbers);
      return;
    }
#pragma unroll
    for (i32 i = 0; i < 8; ++i)
      if (output + i < width) {
        f32 number = toFloat(numbers.at[i]);
        if constexpr (C::hasResidual)
          number += toFloat(layer.residual[place + i]);
        to[i] = fromFloat<bf16>(number);
      }
  }
};

template <typename C, typename Stage, i32 Tokens>
__device__ void wideRows(const Layer<C> &layer, u8 *shared, u8 *scratch) {
  using Block = WideRows<C, Stage, Tokens>;
  Block block = {layer, shared, {}};
  if (!Block::findWork(block.work, layer.live))
    return;
  typename Block::Sums sums = {};
  block.addStages(sums, block.work.slice * Stage::count / block.work.slices,
                  (block.work.slice + 1) * Stage::count / block.work.slices);
  if (block.addSlices(sums, scratch))
    block.write(sums);
}

template <typename C, typename Stage>
__device__ void wideRows(Layer<C> layer, const i32 *live, i32 rows,
                         u8 *scratch) {
  u8 *shared = groupShared();
  waitForEarlierKernels();
  layer.live = liveRows(live, rows);
  using Wide = WideRows<C, Stage>;
  if (layer.live <= kWideTokens / 2)
    return wideRows<C, Stage, kWideTokens / 2>(layer, shared, scratch);
  if constexpr (kWarpgroups)
    if (Wide::slicesOf(layer.live) == 1 &&
        WideRows<C, Stage, kWidestTokens>::tokensInTurn(layer.live) <
            Wide::tokensInTurn(layer.live))
      return wideRows<C, Stage, kWidestTokens>(layer, shared, scratch);
  wideRows<C, Stage, kWideTokens>(layer, shared, scratch);
}

} // namespace tandem
