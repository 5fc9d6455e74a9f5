//===- medium_clusters.cuh - Dozens of tokens by clusters of blocks -------===//
//
// Up to 64 tokens where blocks come in clusters (sm_90). A cluster computes
// C::blockTiles tiles of 16 outputs, each of its blocks a slice of the columns:
//
//                      tiles 0 .. T - 1     tiles T .. 2 T - 1
//   units 0 .. n - 1   cluster 0, block 0   cluster 1, block 0   ..
//   units n ..         cluster 0, block 1   cluster 1, block 1   ..
//   ..
//
// The cut is fixed by the shape of the weight and the architecture, so the bits
// of a row depend on nothing else.
//
// A unit, 128 columns, is a stage of a ring in shared memory, filled by four
// warps that do nothing else: tiles as stretches of memory, asked for before
// earlier kernels have ended, tokens by asynchronous copies.
//
//   stage   [x: 64 tokens x columns 0..63 bf16] [x: columns 64..127]
//           [tile 0] .. [tile T - 1]
//
// A row of 64 numbers is 8 pieces of 16 bytes; piece p of row r lies where
// p ^ (r % 8) would, as warpgroup.cuh wants them. Of the other warps, a
// multiple of four, each has a tile; behind the last tile they compute it once
// more, for nobody, because four warps multiply together.
//
// Sums of the slices meet in the memory of the ring. Every block finishes
// 64 / slices of the tokens: each warp sends its sums of them there, as its
// lanes hold them, and they are added in the order of the slices.
//
//   sums    f32 [slice][eight of the block's tokens][tile][lane][4]
//
// Floor: the weights once; the tokens come from the L2 once for every cluster.
//
// Grid: clusters x slices. Used by quant_linear.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "cluster.cuh"
#include "medium_rows.cuh"
#include "warpgroup.cuh"

namespace tandem {

/// The units of \p Units, whose halves are the stages of \p Stage.
template <typename C, typename Units, typename Stage> struct MediumClusters {
  static constexpr i32 tiles = C::blockTiles, octets = kMediumTokens / 8;
  /// Warps that multiply, and the threads of those that copy.
  static constexpr i32 warps = roundUp(tiles, 4), copyWarps = 4,
                       copyThreads = copyWarps * kWarp;
  static constexpr i32 units = Units::units;
  /// Steps of 16 columns of half a unit, and of those whose A is made at once:
  /// fewer where threads have fewer registers.
  static constexpr i32 steps = 4, batch = warps > 12 ? 1 : 4;
  /// Of half a unit.
  static constexpr i32 rowBytes = kMediumColumns;
  static constexpr i32 halfBytes = kMediumTokens * rowBytes;
  static constexpr i32 tokenBytes = 2 * halfBytes;
  static constexpr i32 stageBytes =
      roundUp(tokenBytes + tiles * Units::bytes, kGroupBytes);
  /// Eights of tokens that a block finishes.
  static constexpr i32 ownOctets = octets / C::slices;
  /// Of the sums of a slice.
  static constexpr i32 fragmentBytes = kWarp * 16,
                       sliceBytes = ownOctets * tiles * fragmentBytes;
  static constexpr i32 ringBytes = C::stages * stageBytes;
  /// Dynamic shared memory of a block.
  static constexpr i32 sharedBytes = ringBytes + C::stages * 16 + 16;
  /// Units whose tiles are asked for before the tokens of the first one: more
  /// would stand in front of them.
  static constexpr i32 early = 2;
  static_assert(!C::hasNorm && Units::steps == 2 * steps && Units::isStretch);
  static_assert(C::stages >= 3 && C::slices * sliceBytes <= ringBytes);
  static_assert(!C::gated || tiles % 2 == 0);

  using Sums = f32[octets][4];

  Layer<C> &layer;
  u8 *shared;
  i32 firstTile, begin, end;

  __device__ MediumClusters(Layer<C> &layer, u8 *shared)
      : layer(layer), shared(shared), firstTile(blockIdx.x * tiles),
        begin(slice() * units / C::slices),
        end((slice() + 1) * units / C::slices) {}

  /// The slice of this block, which is its rank in the cluster.
  __device__ static i32 slice() { return blockIdx.y; }
  __device__ static i32 warp() { return threadIdx.x / kWarp; }
  __device__ static bool copies() { return warp() >= warps; }

  /// The stage of a unit, and how often the ring has been filled before.
  struct Turn {
    i32 index = 0;
    u32 phase = 0;
    __device__ void advance() {
      if (++index == C::stages) {
        index = 0;
        phase ^= 1;
      }
    }
  };
  __device__ u8 *stageAt(i32 index) const {
    return shared + index * stageBytes;
  }
  /// Complete when the unit of a stage is there, and when all have left it.
  __device__ u64 *filled(i32 index) const {
    return reinterpret_cast<u64 *>(shared + ringBytes) + index;
  }
  __device__ u64 *emptied(i32 index) const { return filled(index) + C::stages; }
  /// Complete when the sums of all slices are there.
  __device__ u64 *sumsThere() const { return filled(2 * C::stages); }

  /// Before anything else, by all threads.
  __device__ void makeBarriers() const {
    if (threadIdx.x == 0) {
      for (i32 i = 0; i < C::stages; ++i) {
        // Every warp that copies comes with its tiles, every thread of it with
        // its tokens.
        makeBarrier(filled(i), copyWarps + copyThreads);
        makeBarrier(emptied(i), warps);
      }
      makeBarrier(sumsThere());
      showBarriers();
      expectStretches(sumsThere(), C::slices * sliceBytes);
    }
    __syncthreads();
  }

  //===--------------------------------------------------------------------===//
  // Copies
  //===--------------------------------------------------------------------===//

  /// What a lane of the warps that copy asks for: a tile, and the pieces of
  /// rows r, r + 8 ..
  struct Source {
    const u8 *weight;
    const bf16 *input;
    i32 tile, row, piece;
  };

  __device__ Source findSource() const {
    i32 lane = threadIdx.x % kWarp, copier = warp() - warps,
        number = threadIdx.x - warps * kWarp;
    Source source;
    source.tile = copier + lane * copyWarps;
    Tile found =
        Tiles<C>::find(min(firstTile + source.tile, Tiles<C>::count() - 1));
    source.weight = Units::tileOf(weightOf(layer, found.part), found.index) +
                    u64(begin) * Units::unitStride;
    constexpr i32 perRow = 2 * rowBytes / 16;
    source.row = number / perRow;
    source.piece = number % perRow;
    source.input = layer.input + u64(source.row) * C::columns +
                   begin * kMediumColumns + source.piece * 8;
    return source;
  }

  __device__ void fetchTiles(Source &source, i32 index) const {
    if (source.tile < tiles) {
      u8 *to = stageAt(index) + tokenBytes + source.tile * Units::bytes;
      startStretch(to, source.weight, Units::bytes, filled(index));
    }
    source.weight += Units::unitStride;
  }
  /// Says how many bytes come with fetchTiles().
  __device__ void expectTiles(i32 index) const {
    i32 copier = warp() - warps;
    if (threadIdx.x % kWarp == 0)
      expectStretches(filled(index),
                      ceilDiv(tiles - copier, copyWarps) * Units::bytes);
    __syncwarp();
  }

  /// Rows that are not live are copied, too: what they become is not written.
  __device__ void fetchTokens(Source &source, i32 unit, i32 rows,
                              i32 index) const {
    constexpr i32 perHalf = rowBytes / 16,
                  rowStep = copyThreads / (2 * perHalf);
    i32 column = unit * kMediumColumns + source.piece * 8;
    i32 left = rows - source.row;
    if (C::columns % kMediumColumns != 0 && column >= C::columns)
      left = 0;
    u8 *to = stageAt(index) + source.piece / perHalf * halfBytes +
             source.row * rowBytes +
             (source.piece % perHalf ^ source.row % 8) * 16;
#pragma unroll
    for (i32 i = 0; i < kMediumTokens; i += rowStep)
      copyAsync(to + i * rowBytes, source.input + i * C::columns, i < left);
    source.input += kMediumColumns;
  }

  /// Fills the ring from \p rows rows; by the warps that copy.
  __device__ void fill(i32 rows) const {
    Source source = findSource();
    i32 ahead = min(early, end - begin);
#pragma unroll 1
    for (i32 i = 0; i < ahead; ++i) {
      expectTiles(i);
      fetchTiles(source, i);
    }
    waitForEarlierKernels();
    Turn turn;
#pragma unroll 1
    for (i32 i = 0; i < end - begin; ++i) {
      if (i >= ahead) {
        // Phase 1 of a new barrier is behind it.
        waitForBarrier(emptied(turn.index), turn.phase ^ 1);
        expectTiles(turn.index);
        fetchTiles(source, turn.index);
      }
      fetchTokens(source, begin + i, rows, turn.index);
      arriveWithCopies(filled(turn.index));
      turn.advance();
    }
  }

  //===--------------------------------------------------------------------===//
  // Products
  //===--------------------------------------------------------------------===//

  /// A of the steps of a batch.
  using Batch = u32[batch][4];

  __device__ static void prepare(Batch &a, typename Stage::Held &held,
                                 const u8 *tile, i32 firstStep, i32 half) {
#pragma unroll
    for (i32 i = 0; i < batch; ++i) {
      Stage::begin(held, tile, firstStep + i, half);
#pragma unroll
      for (i32 j = 0; j < 4; ++j)
        Stage::expand(a[i], held, tile, firstStep + i, j);
    }
  }

  /// Starts the products of a batch whose tokens are \p rows, half a unit.
  __device__ static void multiplyBatch(Sums &sums, const Batch &a,
                                       const u8 *rows, i32 firstStep) {
    if constexpr (kWarpgroups) {
      u64 b = groupRows(rows) + firstStep * kGroupStep;
      beginProducts();
#pragma unroll
      for (i32 i = 0; i < batch; ++i)
        multiplyGroup(sums, a[i], b + i * kGroupStep);
      endProducts();
    } else {
      i32 lane = threadIdx.x % kWarp;
      i32 row = lane % 8 + lane / 16 * 8;
#pragma unroll
      for (i32 i = 0; i < batch; ++i) {
        i32 piece = (firstStep + i) * 2 + lane / 8 % 2;
        const u8 *from = rows + row * rowBytes + (piece ^ row % 8) * 16;
#pragma unroll
        for (i32 j = 0; j < octets; j += 2) {
          u32 b[4];
          loadMatrices(b, from + j * (8 * rowBytes));
          multiply(sums[j], a[i], b[0], b[1]);
          multiply(sums[j + 1], a[i], b[2], b[3]);
        }
      }
    }
  }

  /// Sums of all units of this block; by the warps that multiply. A of a batch
  /// is made while the products of the one in front run.
  __device__ void add(Sums &sums) const {
    i32 tile = min(warp(), tiles - 1);
    Turn turn;
    i32 left = 0;
    Batch a[2];
#pragma unroll 1
    for (i32 unit = begin; unit < end; ++unit) {
      waitForBarrier(filled(turn.index), turn.phase);
      showToGroup();
      const u8 *rows = stageAt(turn.index);
      const u8 *from = rows + tokenBytes + tile * Units::bytes;
      typename Stage::Held held[2];
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
        Stage::load(held[half], from + half * Stage::wordBytes);
        Stage::loadScales(held[half], from, half);
      }
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
#pragma unroll
        for (i32 step = 0; step < steps; step += batch) {
          Batch &now = a[(half * steps + step) / batch % 2];
          prepare(now, held[half], from, step, half);
          multiplyBatch(sums, now, rows + half * halfBytes, step);
          waitForProducts<1>();
          // The products of the unit in front have ended.
          if (half == 0 && step == 0 && unit > begin &&
              threadIdx.x % kWarp == 0)
            arrive(emptied(left));
        }
      }
      left = turn.index;
      turn.advance();
    }
    waitForProducts<0>();
  }

  //===--------------------------------------------------------------------===//
  // Results
  //===--------------------------------------------------------------------===//

  /// Where this thread puts the sums of an octet.
  __device__ u8 *ownPlace() const {
    return shared + slice() * sliceBytes + warp() * fragmentBytes +
           threadIdx.x % kWarp * 16;
  }
  static constexpr i32 octetBytes = tiles * fragmentBytes;

  /// Sends the sums of this warp to the blocks that finish them.
  __device__ void send(const Sums &sums) const {
    if (warp() >= tiles)
      return;
#pragma unroll
    for (i32 rank = 0; rank < C::slices; ++rank) {
      u32 to = placeInBlock(ownPlace(), rank),
          there = placeInBlock(sumsThere(), rank);
#pragma unroll
      for (i32 i = 0; i < ownOctets; ++i)
        tandem::send(to + i * octetBytes, sums[rank * ownOctets + i], there);
    }
  }
  /// Keeps them here.
  __device__ void keep(const Sums &sums) const {
    if (warp() >= tiles)
      return;
#pragma unroll
    for (i32 i = 0; i < octets; ++i)
      storeAt(sharedAddress(ownPlace()) + i * octetBytes, sums[i]);
  }

  /// Has the sums of all slices where they are finished, when nobody needs the
  /// rings any more.
  __device__ void exchange(const Sums &sums) const {
    if constexpr (C::slices == 1) {
      constexpr i32 barrier = 1, threads = warps * kWarp;
      meet<barrier, threads>();
      keep(sums);
      meet<barrier, threads>();
    } else {
      meetCluster();
      send(sums);
      waitForBarrier(sumsThere(), 0);
    }
  }
  /// By all threads.
  __device__ static void meetCluster() {
    comeWithBarriers();
    waitForCluster();
  }

  /// The sums of \p tile and the eight \p octet of this block's tokens, of all
  /// slices.
  __device__ void addSlices(f32 (&sums)[4], i32 octet, i32 tile) const {
    const u8 *from = shared + (octet * tiles + tile) * fragmentBytes +
                     threadIdx.x % kWarp * 16;
    f32 parts[C::slices][4];
#pragma unroll
    for (i32 i = 0; i < C::slices; ++i) {
      auto part =
          loadPack<4>(reinterpret_cast<const f32 *>(from + i * sliceBytes));
#pragma unroll
      for (i32 j = 0; j < 4; ++j)
        parts[i][j] = part.at[j];
    }
#pragma unroll
    for (i32 j = 0; j < 4; ++j) {
      f32 sum = parts[0][j];
#pragma unroll
      for (i32 i = 1; i < C::slices; ++i)
        sum += parts[i][j];
      sums[j] = sum * Stage::sumFactor;
    }
  }

  /// Finishes this block's tokens, by all warps that multiply.
  __device__ void finish() const {
    constexpr i32 together = C::gated ? 2 : 1,
                  items = tiles / together * ownOctets;
#pragma unroll 1
    for (i32 item = warp(); item < items; item += warps) {
      i32 octet = item % ownOctets, tile = item / ownOctets * together;
      f32 sums[4];
      addSlices(sums, octet, tile);
      Tile found;
      if constexpr (C::gated) {
        f32 others[4];
        addSlices(others, octet, tile + 1);
#pragma unroll
        for (i32 i = 0; i < 4; ++i)
          sums[i] = gatedProduct(sums[i], others[i]);
        found = {0, (firstTile + tile) / 2};
      } else {
        // A part of no outputs where there is no such tile.
        found = Tiles<C>::find(min(firstTile + tile, Tiles<C>::count()));
      }
      write(sums, found, (slice() * ownOctets + octet) * 8);
    }
  }

  /// Writes sums of \p tile and the tokens \p firstToken .. + 7, as a lane has
  /// C of a product.
  __device__ void write(const f32 (&sums)[4], Tile tile, i32 firstToken) const {
    i32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
    i32 width = C::width(tile.part);
    if constexpr (sizeof(typename C::Result) == sizeof(bf16)) {
      if (width % 2 == 0) {
        // Two outputs of token g.
        u32 pairs[2] = {transposed(packBf16(sums[0], sums[1])),
                        transposed(packBf16(sums[2], sums[3]))};
        i32 token = firstToken + g;
        bf16 *to = resultOf(layer, tile.part);
#pragma unroll
        for (i32 i = 0; i < 2; ++i) {
          i32 output = tile.index * 16 + i * 8 + 2 * t;
          if (token >= layer.live || output >= width)
            continue;
          u64 place = u64(token) * width + output;
          Pack<bf16, 2> numbers = {{{u16(pairs[i])}, {u16(pairs[i] >> 16)}}};
          if constexpr (C::hasResidual) {
            auto residual = loadPack<2>(layer.residual + place);
#pragma unroll
            for (i32 j = 0; j < 2; ++j)
              numbers.at[j] = fromFloat<bf16>(toFloat(residual.at[j]) +
                                              toFloat(numbers.at[j]));
          }
          storePack(to + place, numbers);
        }
        return;
      }
    }
#pragma unroll
    for (i32 i = 0; i < 4; ++i)
      writeSum(layer, tile.part, tile.index * 16 + g + i / 2 * 8,
               firstToken + 2 * t + i % 2, sums[i]);
  }
};

template <typename C, typename Units, typename Stage>
__device__ void mediumClusters(Layer<C> layer, const i32 *live, i32 rows) {
  using Block = MediumClusters<C, Units, Stage>;
  Block block(layer, groupShared());
  block.makeBarriers();
  if (Block::copies()) {
    block.fill(rows);
    if constexpr (C::slices > 1)
      Block::meetCluster();
    return;
  }
  waitForEarlierKernels();
  layer.live = liveRows(live, rows);
  typename Block::Sums sums = {};
  block.add(sums);
  block.exchange(sums);
  block.finish();
}

} // namespace tandem
