//===- few_slices.cuh - Sums of slices of columns -------------------------===//
//
// Where few_rows.cuh cuts columns into slices, each is summed by a block of its
// own, and the sums of a tile are added in the order of slices.
//
// Blocks of a cluster finish the items of their range (the tiles that a sink
// wants together) in turn:
//
//   item    0  1  2  ..  S - 1  S  ..
//   block   0  1  2  ..  S - 1  0  ..
//
// The sum warp sends its sums of an item to a slot of the block that finishes
// it. There the ring warp finishes an item when this block is done with the
// next one: by then the others have mostly sent theirs.
//
//   slots   f32 [slot][tile of the item][slice][256]
//
// Slots are used again without asking. Before a sum warp has item n, the ring
// warp of its block is at most two tiles behind, so it has finished its items
// up to n - 4. One of them is among n - 3 - S .. n - 4, and all blocks had sent
// their part of it, so each of them had finished its items up to four before
// that: all but the last S + 7.
//
// Where slices are no cluster, they leave their sums in scratch, and the block
// that is last of its range adds and writes.
//
//   scratch   f32 [block of tokens][range][slice][tile of the range][256]
//
// Floor: none of its own; sums are 1 KB for every tile and slice.
//
// Used by few_rows.cuh.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "few_tokens.cuh"

namespace tandem {

/// What the blocks of a cluster send to each other.
template <typename C, typename Block> struct ClusterItems {
  static constexpr u32 ofItem = C::itemTiles, slices = C::cluster;
  static_assert(slices > 1 && C::sumWarps == 1);

  const Block &block;
  SumPlace<C> place;

  __device__ static u32 slotOf(u32 item) {
    return item / slices % Block::slots;
  }

  /// Sends the sums of tile \p tile. By the sum warp, in order.
  __device__ void send(i32 tile, const f32 (&sum)[kSums<C>]) const {
    constexpr i32 ofPiece = SumPlace<C>::ofPiece;
    u32 number = tile - block.begin, item = number / ofItem;
    u32 slot = slotOf(item), owner = item % slices;
    u32 to = placeInBlock(
        block.slotSums(slot, number % ofItem, blockIdx.y) + place.first, owner);
    u32 barrier = placeInBlock(block.slotThere(slot), owner);
#pragma unroll
    for (i32 piece = 0; piece < SumPlace<C>::pieces; ++piece) {
      f32 some[ofPiece];
#pragma unroll
      for (i32 i = 0; i < ofPiece; ++i)
        some[i] = sum[piece * ofPiece + i];
      tandem::send(to + piece * 128 * u32(sizeof(f32)), some, barrier);
    }
  }
};

/// Finishes the items of a block. By the ring warp.
template <typename C, typename Block, typename Sink>
struct ClusterFinish : ClusterItems<C, Block> {
  using Base = ClusterItems<C, Block>;
  using Base::block;
  using Base::ofItem;
  using Base::slices;
  static_assert(ofItem == Sink::tiles);

  Sink &sink;
  using Extras = typename Sink::Extra[ofItem];
  /// Of the item that this block finishes next, and of the one behind it, which
  /// would come late where it is the last: nothing hides that one.
  Extras extra, extraBehind;

  __device__ ClusterFinish(const Block &block, Sink &sink)
      : Base{block, {}}, sink(sink) {
    prepare(blockIdx.y, extra);
    prepare(blockIdx.y + slices, extraBehind);
  }

  /// When tile \p tile of this block is done: finishes the item before. Behind
  /// the last tile: finishes the last item, in the same place, whose code has
  /// come by then.
  __device__ void after(i32 tile) {
    u32 number = tile - block.begin;
    if (tile == block.end ||
        (number % ofItem == ofItem - 1 && number >= ofItem))
      finish(number / ofItem - 1);
  }

private:
  __device__ i32 tileOf(u32 item) const {
    return block.begin + i32(item * ofItem);
  }
  /// Asks for what the sink will need of an item.
  __device__ void prepare(u32 item, Extras &extra) {
    if (tileOf(item) < block.end)
#pragma unroll
      for (u32 tile = 0; tile < ofItem; ++tile)
        extra[tile] =
            sink.prepare(block.layer, tileOf(item) + i32(tile), block.end);
  }
  __device__ void finish(u32 item) {
    if (item % slices != blockIdx.y)
      return;
    u32 slot = Base::slotOf(item);
    waitForBarrier(block.slotThere(slot), item / slices / Block::slots % 2);
    if (threadIdx.x % kWarp == 0)
      expectStretches(block.slotThere(slot), Block::slotBytes);
    __syncwarp();
#pragma unroll
    for (u32 tile = 0; tile < ofItem; ++tile) {
      f32 sum[Sink::sums];
#pragma unroll
      for (u32 slice = 0; slice < slices; ++slice)
        sink.place.add(sum, block.slotSums(slot, tile, slice), slice == 0);
      sink.take(block.layer, tileOf(item) + i32(tile), block.end, sum,
                extra[tile]);
    }
#pragma unroll
    for (u32 tile = 0; tile < ofItem; ++tile)
      extra[tile] = extraBehind[tile];
    prepare(item + 2 * slices, extraBehind);
  }
};

/// isLastBlock() for the sum warps.
template <typename C> __device__ bool areLastSums(u32 *ticket, u32 blocks) {
  __shared__ bool last;
  __threadfence();
  meet<kSumsMeet, kSumThreads<C>>();
  if (threadIdx.x == C::warps * kWarp) {
    last = atomicAdd(ticket, 1) == blocks - 1;
    if (last)
      *ticket = 0;
  }
  meet<kSumsMeet, kSumThreads<C>>();
  __threadfence();
  return last;
}

/// Sums of slices in scratch, by the sum warps.
template <typename C, typename Block, typename Sink> struct ScratchSums {
  static constexpr i32 sliceSize = C::rangeTiles * 256;
  static_assert(kSums<C> == 2);

  const Block &block;
  Sink &sink;
  u8 *scratch;

  __device__ static u32 range() { return blockIdx.z * gridDim.x + blockIdx.x; }
  /// The first sums of this thread, of slice 0.
  __device__ f32 *sums() const {
    i32 index = i32(threadIdx.x) - Block::productThreads;
    return reinterpret_cast<f32 *>(scratch + C::ticketBytes) +
           u64(range()) * C::slices * sliceSize + index * 2;
  }

  __device__ void take(i32 tile, const f32 (&sum)[2]) const {
    Pack<f32, 2> pair = {{sum[0], sum[1]}};
    storePack(sums() + blockIdx.y * sliceSize + (tile - block.begin) * 256,
              pair);
  }

  /// In the block that is last of its range: finishes all tiles.
  __device__ void end() {
    if (!areLastSums<C>(reinterpret_cast<u32 *>(scratch) + range(), C::slices))
      return;
    const f32 *from = sums();
    constexpr i32 some = C::slices <= 6 ? 5 : C::slices <= 12 ? 2 : 1;
#pragma unroll 1
    for (i32 first = block.begin; first < block.end; first += some) {
      // All reads first: each of them takes long.
      f32 parts[some][C::slices][2];
      typename Sink::Extra extra[some];
#pragma unroll
      for (i32 i = 0; i < some; ++i)
        if (first + i < block.end) {
#pragma unroll
          for (i32 slice = 0; slice < C::slices; ++slice)
            loadShared(parts[i][slice], from + slice * sliceSize +
                                            (first + i - block.begin) * 256);
          extra[i] = sink.prepare(block.layer, first + i, block.end);
        }
#pragma unroll
      for (i32 i = 0; i < some; ++i)
        if (first + i < block.end) {
          f32 sum[2];
#pragma unroll
          for (i32 j = 0; j < 2; ++j) {
            sum[j] = parts[i][0][j];
#pragma unroll
            for (i32 slice = 1; slice < C::slices; ++slice)
              sum[j] += parts[i][slice][j];
          }
          sink.take(block.layer, first + i, block.end, sum, extra[i]);
        }
    }
  }
};

} // namespace tandem
