//===- many_rows.cuh - Linear layers of 32 and more tokens ----------------===//
//
// A block computes 128 outputs of `tokens` tokens over one slice of the units:
// warp w one tile of 16 outputs (of a gated layer warps 0..3 tiles of the gate
// and warps 4..7 their partners), in the fragments that outputs.cuh draws. A
// ring of `stages` units in shared memory, filled by asynchronous copies:
//
//   stage   [warp 0: unit] .. [warp 7: unit] [x: tokens x (16 steps + 8) bf16]
//
// With a norm the factors of the tokens stand in front, and tokens are read to
// registers a stage ahead, normalized, and stored.
//
// Floor: the weights once for every `tokens` rows; x is read once for every 128
// outputs, from the L2.
//
// Grid: blocks of 128 outputs, slices, blocks of tokens. Used by linear and
// quant_linear.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "layer.cuh"
#include "mma.cuh"
#include "outputs.cuh"

namespace tandem {

template <typename C, typename Units> struct ManyRows {
  static constexpr i32 warps = kLinearThreads / kWarp;
  static constexpr i32 tiles = C::tokens / 8;
  static constexpr i32 unitColumns = Units::steps * 16;
  static constexpr i32 stride = unitColumns + 8;
  static constexpr i32 weightBytes = warps * Units::bytes;
  static constexpr i32 stageBytes =
      weightBytes + C::tokens * stride * i32(sizeof(bf16));
  static constexpr i32 normBytes =
      C::hasNorm ? roundUp(factorBytes<C, C::tokens>(), 128) : 0;
  /// Dynamic shared memory of a block.
  static constexpr i32 sharedBytes = normBytes + C::stages * stageBytes;
  static constexpr bool isDirect = Units::isDense && C::columns % 8 == 0;

  const Layer<C> &layer;
  u8 *shared;
  i32 firstToken;
  i32 tile;

  /// Of this warp.
  __device__ static i32 findTile() {
    i32 warp = threadIdx.x / kWarp, block = blockIdx.x;
    return C::gated ? (block * (warps / 2) + warp % (warps / 2)) * 2 +
                          warp / (warps / 2)
                    : block * warps + warp;
  }
  __device__ bool exists() const { return tile < Tiles<C>::count(); }

  __device__ u8 *stage(i32 index) const {
    return shared + normBytes + index * stageBytes;
  }
  __device__ bf16 *tokens(i32 index) const {
    return reinterpret_cast<bf16 *>(stage(index) + weightBytes);
  }

  /// Starts the copies of unit \p unit to stage \p index; tokens only where
  /// they come as they lie.
  __device__ void fetch(i32 unit, i32 index) const {
    if (exists()) {
      Tile found = Tiles<C>::find(tile);
      Units::fetch(Units::tileOf(weightOf(layer, found.part), found.index) +
                       unit * Units::unitStride,
                   C::width(found.part), found.index, unit,
                   stage(index) + threadIdx.x / kWarp * Units::bytes);
    }
    if constexpr (isDirect && !C::hasNorm) {
      i32 first = unit * unitColumns;
      copyTile<C::tokens, unitColumns, stride, kLinearThreads, true>(
          tokens(index), C::columns - first, [&](i32 row) -> const bf16 * {
            i32 token = firstToken + row;
            return token < layer.live
                       ? layer.input + u64(token) * C::columns + first
                       : nullptr;
          });
    } else if constexpr (!isDirect) {
      fetchPlaces(unit, tokens(index));
    }
  }

  /// Tokens number by number, where groups have gaps or rows are not aligned.
  __device__ void fetchPlaces(i32 unit, bf16 *to) const {
    for (i32 place = threadIdx.x; place < C::tokens * unitColumns;
         place += kLinearThreads) {
      i32 row = place / unitColumns, column = place % unitColumns;
      i32 k = Units::column(unit * Units::steps + column / 16, column % 16);
      i32 token = firstToken + row;
      bf16 value = {0};
      if (token < layer.live && k >= 0) {
        value = layer.input[u64(token) * C::columns + k];
        if constexpr (C::hasNorm)
          value = fromFloat<bf16>(normalized<C>(
              toFloat(value), reinterpret_cast<const f32 *>(shared)[row],
              layer.norm[k]));
      }
      to[row * stride + column] = value;
    }
  }

  /// Tokens of a unit on their way through this thread's registers.
  static constexpr i32 pieces =
      ceilDiv(C::tokens * Units::steps * 2, kLinearThreads);
  struct Held {
    Pack<u32, 4> words[pieces];
  };

  /// Calls \p move(piece, row, column in the unit, column) for the pieces of 8
  /// columns of this thread.
  template <typename Move>
  __device__ void forPieces(i32 unit, Move move) const {
    constexpr i32 perRow = unitColumns / 8;
#pragma unroll
    for (i32 i = 0; i < pieces; ++i) {
      i32 piece = i * kLinearThreads + threadIdx.x;
      if (piece < C::tokens * perRow)
        move(i, piece / perRow, piece % perRow * 8,
             unit * unitColumns + piece % perRow * 8);
    }
  }

  __device__ void hold(Held &held, i32 unit) const {
    forPieces(unit, [&](i32 i, i32 row, i32, i32 column) {
      held.words[i] = {};
      i32 token = firstToken + row;
      if (token < layer.live && column < C::columns)
        held.words[i] = loadPack<4>(reinterpret_cast<const u32 *>(
            layer.input + u64(token) * C::columns + column));
    });
  }

  __device__ void store(const Held &held, i32 unit, bf16 *to) const {
    forPieces(unit, [&](i32 i, i32 row, i32 inUnit, i32 column) {
      Pack<u32, 4> words = {};
      if (column < C::columns) {
        f32 factor = reinterpret_cast<const f32 *>(shared)[row];
        const f32 *weights = layer.norm + column;
#pragma unroll
        for (i32 j = 0; j < 4; ++j)
          words.at[j] = normalizedPair<C>(held.words[i].at[j], factor,
                                          weights[2 * j], weights[2 * j + 1]);
      }
      storePack(reinterpret_cast<u32 *>(to + row * stride + inUnit), words);
    });
  }

  __device__ void add(f32 (&sums)[tiles][4], i32 index) const {
    const bf16 *rows = tokens(index);
    Units::add(sums, stage(index) + threadIdx.x / kWarp * Units::bytes,
               [&](u32(&b)[4], i32 step, i32 j) {
                 loadB(b, rows + j * 8 * stride, stride, step * 16);
               });
  }

  /// Sums of the units [begin, end).
  __device__ void addUnits(f32 (&sums)[tiles][4], i32 begin, i32 end) const {
    constexpr bool holds = isDirect && C::hasNorm;
    if constexpr (C::hasNorm)
      rowFactors<C, C::tokens, kLinearThreads>(layer, firstToken,
                                               reinterpret_cast<f32 *>(shared));
    Held held;
#pragma unroll 1
    for (i32 i = 0; i < C::stages - 1; ++i) {
      if (begin + i < end) {
        fetch(begin + i, i);
        if constexpr (holds) {
          hold(held, begin + i);
          store(held, begin + i, tokens(i));
        }
      }
      commitCopies();
    }
    i32 index = 0;
#pragma unroll 1
    for (i32 unit = begin; unit < end; ++unit) {
      waitForCopies<C::stages - 2>();
      __syncthreads();
      // The stage that everybody has just left.
      i32 ahead = unit + C::stages - 1;
      i32 free = index == 0 ? C::stages - 1 : index - 1;
      if (ahead < end) {
        fetch(ahead, free);
        if constexpr (holds)
          hold(held, ahead);
      }
      commitCopies();
      add(sums, index);
      if constexpr (holds)
        if (ahead < end)
          store(held, ahead, tokens(free));
      index = index + 1 == C::stages ? 0 : index + 1;
    }
    waitForCopies<0>();
  }

  /// Makes the sums of gates and of their partners one, in the warps of the
  /// gates, and says in which.
  __device__ bool joinGates(f32 (&sums)[tiles][4]) const {
    i32 warp = threadIdx.x / kWarp;
    f32 *meeting =
        reinterpret_cast<f32 *>(shared) + threadIdx.x % (kLinearThreads / 2);
    static_assert(tiles * 4 * kLinearThreads / 2 * i32(sizeof(f32)) <=
                  sharedBytes);
    __syncthreads();
    bool isGate = warp < warps / 2;
#pragma unroll
    for (i32 i = 0; i < tiles * 4; ++i)
      if (!isGate)
        meeting[i * (kLinearThreads / 2)] = sums[i / 4][i % 4];
    __syncthreads();
    if (!isGate)
      return false;
#pragma unroll
    for (i32 i = 0; i < tiles * 4; ++i)
      sums[i / 4][i % 4] =
          gatedProduct(sums[i / 4][i % 4], meeting[i * (kLinearThreads / 2)]);
    return true;
  }

  __device__ void write(const f32 (&sums)[tiles][4]) const {
    if (!exists())
      return;
    Tile found = Tiles<C>::find(tile);
    i32 part = C::gated ? 0 : found.part;
    i32 lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
#pragma unroll
    for (i32 j = 0; j < tiles; ++j)
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        writeSum(layer, part, found.index * 16 + g + i / 2 * 8,
                 firstToken + j * 8 + 2 * t + i % 2, sums[j][i]);
  }
};

template <typename C, typename Units>
__device__ void manyRows(Layer<C> layer, const i32 *live, i32 rows,
                         u8 *scratch) {
  extern __shared__ __align__(128) u8 shared[];
  using Block = ManyRows<C, Units>;
  waitForEarlierKernels();
  layer.live = liveRows(live, rows);
  i32 firstToken = blockIdx.z * C::tokens;
  if (firstToken >= layer.live)
    return;
  Block block = {layer, shared, firstToken, Block::findTile()};
  f32 sums[Block::tiles][4] = {};
  i32 slice = blockIdx.y;
  block.addUnits(sums, slice * Units::units / C::slices,
                 (slice + 1) * Units::units / C::slices);
  if (!addSlices<C::slices>(sums,
                            reinterpret_cast<f32 *>(scratch + C::ticketBytes),
                            reinterpret_cast<u32 *>(scratch)))
    return;
  if constexpr (C::gated)
    if (!block.joinGates(sums))
      return;
  block.write(sums);
}

} // namespace tandem
