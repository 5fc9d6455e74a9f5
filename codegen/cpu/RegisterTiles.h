//===- RegisterTiles.h - Rows times tiles of outputs ------------*- C++ -*-===//
//
// What all products share. A product is computed by register tiles: a few rows
// times one or more tiles of 16 outputs, over all columns. Every output has one
// accumulator and adds its columns in order, so its bits do not depend on the
// shape of the register tile it is in.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_CPU_REGISTERTILES_H
#define TANDEM_CODEGEN_CPU_REGISTERTILES_H

#include "codegen/cpu/DotProduct.h"
#include "codegen/cpu/WeightReader.h"

namespace tandem::codegen {

/// Rows that come out of a norm: `x / sqrt(mean(x^2) + eps) * (w + offset)`.
struct RowNorm {
  Memory weight;
  float eps, offset;
};

/// Walks over the live rows of a launch in blocks.
class RegisterTiles {
public:
  /// Rows of \p columns numbers at \p x. The shapes go from most rows to one.
  /// \p extraScratch bytes are at extra().
  RegisterTiles(KernelBuilder &k, const WeightReader &reader, Memory x,
                int64_t columns, llvm::ArrayRef<TileShape> shapes,
                std::optional<RowNorm> norm = std::nullopt,
                int64_t extraScratch = 0);

  /// The shapes for products of one weight. Accumulators take most registers:
  /// 32 of 512 bits, or 16 of 256, of which a vector needs two.
  static llvm::ArrayRef<TileShape> shapesOfOne(KernelBuilder &k);
  /// The shapes for products of a gate and its partner: always two tiles.
  static llvm::ArrayRef<TileShape> shapesOfTwo(KernelBuilder &k);
  /// The shapes for products that keep more than their sums: few registers.
  static llvm::ArrayRef<TileShape> shapesOfParts(KernelBuilder &k);

  /// Emits body(shape, firstRow) for blocks of rows that together are all live
  /// ones; the last block may have fewer rows than its shape.
  using Body = llvm::function_ref<void(const TileShape &shape, Var firstRow)>;
  void forEachBlock(Body body);

  /// Emits body(tiles, first) for the tiles from \p begin to \p end: as many at
  /// a time as the shape has, then one by one.
  void forEachTile(const TileShape &shape, Var begin, Var end,
                   llvm::function_ref<void(int64_t tiles, Var first)> body);

  /// The sums of the rows of a block with \p tiles: [row][tile].
  Vars sum(const TileShape &shape, Var firstRow, llvm::ArrayRef<Memory> tiles);

  /// Lanes of \p row of a block that starts at \p firstRow that are results:
  /// the first \p count, and none behind the last live row. No mask when all
  /// are; \p isFull says that the count is 16 or more.
  Var mask(const TileShape &shape, Var firstRow, int64_t row, Var count,
           bool isFull);

  /// Scratch beside what the rows need.
  Memory extra() const { return extraMemory; }

private:
  void emitBlock(const TileShape &shape, Var firstRow, Body body);
  void emitRest(size_t shape, Var firstRow, Body body);
  void prepareRows(int64_t count, Var firstRow);
  void packRows(int64_t count, Var firstRow);
  /// Row \p row of a block that starts at \p firstRow; behind the last live row
  /// that one again.
  Memory rowOf(Var firstRow, const Operand &row) const;

  KernelBuilder &k;
  const WeightReader &reader;
  Memory x;
  int64_t columns;
  llvm::ArrayRef<TileShape> shapes;
  std::optional<RowNorm> norm;
  /// Narrow products in place of f32 ones, if any.
  std::unique_ptr<DotProduct> dots;
  /// Products are in f32, of rows that were rounded to bf16: on a processor
  /// that cannot multiply those.
  bool roundsRows;
  /// Rows of a register tile, side by side: [column][row]; or as `dots` packs
  /// them.
  Memory packed;
  /// Rows of a register tile behind the norm, and rounded: [row][column].
  Memory prepared;
  Memory extraMemory;
};

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CPU_REGISTERTILES_H
