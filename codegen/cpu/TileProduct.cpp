//===- TileProduct.cpp - Products in tile registers -----------------------===//
//
// For 16 outputs and a block of 32 columns:
//
//   weights   16 pairs of columns x 16 outputs     unpacked into scratch, 1 KB
//   rows      rows x 16 pairs of columns           as Bf16Rows packs them
//   sums      rows x 16 outputs                    f32
//
// A group of codes is summed in a tile register, over its blocks, and goes
// through scratch into vectors, where its scales are:
// total += sum * scale. Dense weights are one group without scales.
//
// What is in scratch is read behind the stores of some more groups, so that no
// load waits for the store before it.
//
//===----------------------------------------------------------------------===//

#include "codegen/cpu/TileProduct.h"

#include "codegen/cpu/Bf16Pairs.h"
#include "codegen/cpu/TileRegisters.h"

using namespace tandem;
using namespace tandem::codegen;

static constexpr int64_t lanes = KernelBuilder::lanes;
/// How far ahead weights are asked for, in bytes, as in WeightReader.cpp.
static constexpr int64_t prefetchDistance = 2048;
static constexpr int64_t cacheLine = 64;
/// Columns of a full tile register of rows; where they do not divide a group,
/// half as many.
static constexpr int64_t fullBlock = 32;
/// Blocks that are unpacked before the first of them is multiplied.
static constexpr int64_t blocksAtOnce = 4;
/// Bytes of a row of a register, and of 16 of them.
static constexpr int64_t rowBytes = 64, tileBytes = 16 * rowBytes;

namespace {

/// Numbers of the registers: sums, then rows and weights in turns.
struct Registers {
  static constexpr int64_t sums = 0, rows = 4, weights = 6;
};

class TileProduct : public DotProduct {
public:
  TileProduct(KernelBuilder &k, int64_t columns, int64_t group)
      : k(k), registers(k), group(group), groups(columns / group),
        block(group % fullBlock == 0 ? fullBlock : lanes),
        narrow(k, columns, block), blocks(group / block) {}

  llvm::ArrayRef<TileShape> shapes(int64_t weights) const override;
  int64_t packedBytes(int64_t rows) const override {
    return rowsBytes(rows) + blocksAtOnce * (tileBytes + rows * rowBytes) +
           TileRegisters::configurationBytes;
  }
  void pack(llvm::ArrayRef<Memory> rows, Memory packed) const override;
  Vars sum(int64_t rows, Memory packed,
           llvm::ArrayRef<Memory> tiles) const override;
  void release() const override { registers.release(); }

protected:
  /// Bytes of a group of 16 outputs.
  virtual int64_t groupBytes() const = 0;
  /// Pairs of block \p number of the group at \p record.
  virtual Vars unpack(Memory record, Var number) const = 0;
  /// Adds the sums of the group at \p record to the total of a row.
  virtual Var addScaled(Var total, Var sum, Memory record) const = 0;

  KernelBuilder &k;
  TileRegisters registers;
  int64_t group, groups;
  /// Columns of a block.
  int64_t block;

private:
  /// Scratch: packed rows, weights of blocksAtOnce blocks, sums of as many
  /// groups, the configuration.
  int64_t rowsBytes(int64_t rows) const {
    return (narrow.packedBytes(rows) + cacheLine - 1) / cacheLine * cacheLine;
  }
  Memory weights(Memory packed, int64_t rows, int64_t number) const {
    return packed.as(k.ops().getI8Type())
        .at(rowsBytes(rows) + number * tileBytes);
  }
  Memory sums(Memory packed, int64_t rows, int64_t number) const {
    return weights(packed, rows, blocksAtOnce).at(number * rows * rowBytes);
  }

  Vars walk(int64_t rows, Memory packed, Memory tile) const;
  /// Adds \p count groups from \p first on to \p totals.
  Vars addGroups(Var first, int64_t count, int64_t rows, Memory packed,
                 Memory tile, const Vars &totals) const;
  /// Adds \p count blocks from block \p first of the group on to the sums of a
  /// register. They were unpacked to \p unpacked and behind it.
  void addBlocks(Var group, Var first, int64_t count, int64_t unpacked,
                 int64_t rows, Memory packed, int64_t sumRegister) const;
  void unpackBlocks(Memory record, Var first, int64_t count, int64_t to,
                    int64_t rows, Memory packed) const;

  Bf16Rows narrow;
  /// Blocks of a group.
  int64_t blocks;
};

class CodeTileProduct final : public TileProduct {
public:
  CodeTileProduct(KernelBuilder &k, const CodeLayout &codes)
      : TileProduct(k, codes.columns, codes.group), codes(codes) {}

protected:
  int64_t groupBytes() const override { return codes.groupBytes; }
  Vars unpack(Memory record, Var number) const override {
    int64_t blockBytes = block / codes.perWord * lanes * 4;
    return unpackPairs(
        k, codes, record.at(number * blockBytes + codes.scaleBytes), block);
  }
  Var addScaled(Var total, Var sum, Memory record) const override {
    Var scale = record.as(k.typeOf(codes.scaleKind)).loadVectorAsF32(0);
    return k.fma(sum, scale, total);
  }

private:
  CodeLayout codes;
};

class DenseTileProduct final : public TileProduct {
public:
  DenseTileProduct(KernelBuilder &k, int64_t columns)
      : TileProduct(k, columns, columns) {}

protected:
  int64_t groupBytes() const override { return group * lanes * 2; }
  Vars unpack(Memory record, Var number) const override;
  Var addScaled(Var, Var sum, Memory) const override { return sum; }
};

} // namespace

llvm::ArrayRef<TileShape> TileProduct::shapes(int64_t weights) const {
  static constexpr TileShape one[] = {{16, 1}, {8, 1}, {1, 1}};
  static constexpr TileShape two[] = {{16, 2}, {8, 2}, {1, 2}};
  return weights == 2 ? two : one;
}

void TileProduct::pack(llvm::ArrayRef<Memory> rows, Memory packed) const {
  auto count = static_cast<int64_t>(rows.size());
  narrow.pack(rows, packed);
  TileRegisters::Shape sumShape = {count, lanes * 4};
  TileRegisters::Shape rowShape = {count, block * 2};
  TileRegisters::Shape weightShape = {block / 2, lanes * 4};
  TileRegisters::Shape all[] = {sumShape, sumShape, sumShape,    sumShape,
                                rowShape, rowShape, weightShape, weightShape};
  registers.configure(all, sums(packed, count, blocksAtOnce));
}

Vars TileProduct::sum(int64_t rows, Memory packed,
                      llvm::ArrayRef<Memory> tiles) const {
  Vars result(rows * tiles.size());
  for (size_t tile = 0; tile < tiles.size(); ++tile) {
    Vars some = walk(rows, packed, tiles[tile].as(k.ops().getI8Type()));
    for (int64_t row = 0; row < rows; ++row)
      result[row * tiles.size() + tile] = some[row];
  }
  return result;
}

Vars TileProduct::walk(int64_t rows, Memory packed, Memory tile) const {
  int64_t atOnce = std::max<int64_t>(blocksAtOnce / blocks, 1);
  int64_t full = groups / atOnce * atOnce;
  auto add = [&](int64_t count) {
    return [&, count](Var first, const Vars &totals) {
      return addGroups(first, count, rows, packed, tile, totals);
    };
  };
  Vars totals(rows, k.splat(0.0));
  if (full == atOnce)
    totals = add(atOnce)(k.index(0), totals);
  else
    totals = k.loop(0, full, atOnce, totals, add(atOnce));
  if (full < groups)
    totals = add(groups - full)(k.index(full), totals);
  return totals;
}

Vars TileProduct::addGroups(Var first, int64_t count, int64_t rows,
                            Memory packed, Memory tile,
                            const Vars &totals) const {
  llvm::SmallVector<Memory> records;
  for (int64_t i = 0; i < count; ++i)
    records.push_back(tile.at((first + i) * groupBytes()));
  if (blocks <= blocksAtOnce) {
    for (int64_t i = 0; i < count; ++i)
      unpackBlocks(records[i], k.index(0), blocks, i * blocks, rows, packed);
    for (int64_t i = 0; i < count; ++i) {
      registers.zero(Registers::sums + i);
      addBlocks(first + i, k.index(0), blocks, i * blocks, rows, packed,
                Registers::sums + i);
      registers.store(Registers::sums + i, sums(packed, rows, i), rowBytes);
    }
  } else {
    // A group alone, some of its blocks at a time.
    registers.zero(Registers::sums);
    auto add = [&](Var block, int64_t some) {
      unpackBlocks(records[0], block, some, 0, rows, packed);
      addBlocks(first, block, some, 0, rows, packed, Registers::sums);
    };
    int64_t full = blocks / blocksAtOnce * blocksAtOnce;
    k.loop(0, full, blocksAtOnce, [&](Var block) { add(block, blocksAtOnce); });
    if (full < blocks)
      add(k.index(full), blocks - full);
    registers.store(Registers::sums, sums(packed, rows, 0), rowBytes);
  }
  Vars next = totals;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t row = 0; row < rows; ++row) {
      Var sum = sums(packed, rows, i).as(k.f32()).loadVector(row * lanes);
      next[row] = addScaled(next[row], sum, records[i]);
    }
  return next;
}

void TileProduct::unpackBlocks(Memory record, Var first, int64_t count,
                               int64_t to, int64_t rows, Memory packed) const {
  int64_t blockBytes = (groupBytes() + blocks - 1) / blocks;
  for (int64_t i = 0; i < count; ++i) {
    Var number = first + i;
    for (int64_t line = 0; line < blockBytes; line += cacheLine)
      record.prefetch(number * blockBytes + (line + prefetchDistance));
    Memory unpacked = weights(packed, rows, to + i).as(k.i32());
    Vars pairs = unpack(record, number);
    for (size_t pair = 0; pair < pairs.size(); ++pair)
      unpacked.storeVector(pair * lanes, pairs[pair]);
  }
}

void TileProduct::addBlocks(Var group, Var first, int64_t count,
                            int64_t unpacked, int64_t rows, Memory packed,
                            int64_t sumRegister) const {
  for (int64_t i = 0; i < count; ++i) {
    int64_t turn = (unpacked + i) % 2;
    registers.load(Registers::rows + turn,
                   narrow.block(packed, rows, group * blocks + first + i),
                   block * 2);
    registers.load(Registers::weights + turn,
                   weights(packed, rows, unpacked + i), rowBytes);
    registers.dotBf16(sumRegister, Registers::rows + turn,
                      Registers::weights + turn);
  }
}

Vars DenseTileProduct::unpack(Memory record, Var number) const {
  Vars pairs;
  for (int64_t pair = 0; pair < block / 2; ++pair)
    pairs.push_back(loadDensePair(
        k, record.at(number * (block * lanes * 2) + pair * rowBytes)));
  return pairs;
}

std::unique_ptr<DotProduct>
tandem::codegen::createTileProduct(KernelBuilder &k) {
  if (k.spec().has("bits"))
    return std::make_unique<CodeTileProduct>(k, CodeLayout(k.spec()));
  return std::make_unique<DenseTileProduct>(k, k.spec().getInt("columns"));
}
