//===- RegisterTiles.cpp - Rows times tiles of outputs --------------------===//

#include "codegen/cpu/RegisterTiles.h"
#include "codegen/cpu/Kernels.h"
#include "codegen/cpu/VectorMath.h"

using namespace tandem;
using namespace tandem::codegen;

static constexpr int64_t lanes = KernelBuilder::lanes;

RegisterTiles::RegisterTiles(KernelBuilder &k, const WeightReader &reader,
                             Memory x, int64_t columns,
                             llvm::ArrayRef<TileShape> shapes,
                             std::optional<RowNorm> norm, int64_t extraScratch)
    : k(k), reader(reader), x(x), columns(columns), shapes(shapes), norm(norm),
      dots(DotProduct::create(k)),
      roundsRows(!dots && k.spec().arithmetic() == Arithmetic::BF16) {
  int64_t rows = shapes.front().rows;
  int64_t paddedColumns = (columns + lanes - 1) / lanes * lanes;
  int64_t packedSize = rows * paddedColumns;
  if (dots)
    packedSize = (dots->packedBytes(rows) + 63) / 64 * 16;
  int64_t preparedSize = norm || roundsRows ? rows * paddedColumns : 0;
  packed = k.scratch((packedSize + preparedSize) * 4 + extraScratch, k.f32());
  prepared = packed.at(packedSize);
  extraMemory = packed.at(packedSize + preparedSize);
}

llvm::ArrayRef<TileShape> RegisterTiles::shapesOfOne(KernelBuilder &k) {
  if (auto dots = DotProduct::create(k))
    return dots->shapes(1);
  static constexpr TileShape wide[] = {{16, 1}, {8, 2}, {4, 2}, {1, 4}};
  static constexpr TileShape narrow[] = {{4, 1}, {1, 2}};
  return k.target().hasAvx512() ? llvm::ArrayRef<TileShape>(wide)
                                : llvm::ArrayRef<TileShape>(narrow);
}

llvm::ArrayRef<TileShape> RegisterTiles::shapesOfTwo(KernelBuilder &k) {
  if (auto dots = DotProduct::create(k))
    return dots->shapes(2);
  static constexpr TileShape wide[] = {{8, 2}, {4, 2}, {1, 2}};
  static constexpr TileShape narrow[] = {{2, 2}, {1, 2}};
  return k.target().hasAvx512() ? llvm::ArrayRef<TileShape>(wide)
                                : llvm::ArrayRef<TileShape>(narrow);
}

llvm::ArrayRef<TileShape> RegisterTiles::shapesOfParts(KernelBuilder &k) {
  if (auto dots = DotProduct::create(k))
    return dots->shapes(0);
  static constexpr TileShape wide[] = {{16, 1}, {4, 2}, {1, 4}};
  static constexpr TileShape narrow[] = {{4, 1}, {1, 2}};
  return k.target().hasAvx512() ? llvm::ArrayRef<TileShape>(wide)
                                : llvm::ArrayRef<TileShape>(narrow);
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void RegisterTiles::forEachBlock(Body body) {
  // Blocks of the largest shape until the rest fits the next one.
  int64_t most = shapes[0].rows;
  Var blocks = (k.rows() + (most - shapes[1].rows - 1)) / most;
  k.loop(0, blocks, 1,
         [&](Var block) { emitBlock(shapes[0], block * most, body); });
  emitRest(1, blocks * most, body);
}

/// Rows from \p firstRow on, fewer than `shapes[shape - 1]` is good for.
void RegisterTiles::emitRest(size_t shape, Var firstRow, Body body) {
  Var left = k.rows() - firstRow;
  if (shape + 1 == shapes.size())
    return k.ifThen(left > 0,
                    [&] { emitBlock(shapes[shape], firstRow, body); });
  k.ifElse(
      left > shapes[shape + 1].rows,
      [&] {
        emitBlock(shapes[shape], firstRow, body);
        return Vars();
      },
      [&] {
        emitRest(shape + 1, firstRow, body);
        return Vars();
      });
}

void RegisterTiles::emitBlock(const TileShape &shape, Var firstRow, Body body) {
  if (norm || roundsRows)
    prepareRows(shape.rows, firstRow);
  if (shape.rows > 1 || dots)
    packRows(shape.rows, firstRow);
  body(shape, firstRow);
  if (dots)
    dots->release();
}

Memory RegisterTiles::rowOf(Var firstRow, const Operand &row) const {
  return x.at(k.min(firstRow + row, k.rows() - 1) * columns);
}

void RegisterTiles::prepareRows(int64_t count, Var firstRow) {
  k.loop(0, count, 1, [&](Var row) {
    Memory from = rowOf(firstRow, row), to = prepared.at(row * columns);
    if (norm) {
      emitNorm(k, from, to, columns,
               {true, norm->eps, norm->offset, norm->weight, Memory()});
      from = to;
    }
    if (roundsRows)
      k.loopColumns(columns, [&](Var column, Var mask) {
        Var bits = roundToBf16(k, from.loadVector(column, mask));
        to.storeVector(column, k.bitcast(bits, k.f32()), mask);
      });
  });
}

/// Puts \p count rows side by side, so that a column of them is one stretch of
/// memory. Behind the last row it stands once more: what is computed from that
/// is not stored.
void RegisterTiles::packRows(int64_t count, Var firstRow) {
  llvm::SmallVector<int64_t> low, high;
  for (int64_t lane = 0; lane < lanes / 2; ++lane) {
    low.append({lane, lane + lanes});
    high.append({lane + lanes / 2, lane + lanes / 2 + lanes});
  }
  llvm::SmallVector<Memory> rows;
  for (int64_t row = 0; row < count; ++row)
    rows.push_back(norm || roundsRows ? prepared.at(row * columns)
                                      : rowOf(firstRow, row));
  if (dots)
    return dots->pack(rows, packed);
  k.loopColumns(columns, [&](Var column, Var mask) {
    Vars parts;
    for (const Memory &row : rows)
      parts.push_back(row.loadVector(column, mask));
    // Interleaving the first half of the vectors with the second half, as
    // often as the rows can be halved, ends with [column][row].
    for (int64_t width = count; width > 1; width /= 2) {
      Vars next;
      for (int64_t i = 0; i < count / 2; ++i) {
        next.push_back(k.shuffle(parts[i], parts[i + count / 2], low));
        next.push_back(k.shuffle(parts[i], parts[i + count / 2], high));
      }
      parts = next;
    }
    for (int64_t i = 0; i < count; ++i)
      packed.storeVector(column * count + i * lanes, parts[i]);
  });
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

void RegisterTiles::forEachTile(
    const TileShape &shape, Var begin, Var end,
    llvm::function_ref<void(int64_t tiles, Var first)> body) {
  Var middle = begin + (end - begin) / shape.tiles * shape.tiles;
  k.loop(begin, middle, shape.tiles,
         [&](Var tile) { body(shape.tiles, tile); });
  if (shape.tiles > 1)
    k.loop(middle, end, 1, [&](Var tile) { body(1, tile); });
}

Vars RegisterTiles::sum(const TileShape &shape, Var firstRow,
                        llvm::ArrayRef<Memory> tiles) {
  if (dots)
    return dots->sum(shape.rows, packed, tiles);
  auto addColumn = [&](Var column, const Vars &weights, const Vars &before) {
    Vars sums = before;
    for (int64_t row = 0; row < shape.rows; ++row) {
      Var value = shape.rows > 1 ? packed.loadSplat(column * shape.rows + row)
                  : norm || roundsRows
                      ? prepared.loadSplat(column)
                      : x.loadSplat(firstRow * columns + column);
      for (size_t i = 0; i < tiles.size(); ++i) {
        Var &sum = sums[row * tiles.size() + i];
        sum = k.fma(value, weights[i], sum);
      }
    }
    return sums;
  };
  return reader.emitColumns(
      tiles, Vars(shape.rows * tiles.size(), k.splat(0.0)), addColumn);
}

Var RegisterTiles::mask(const TileShape &shape, Var firstRow, int64_t row,
                        Var count, bool isFull) {
  if (shape.rows == 1)
    return isFull ? Var() : k.firstLanes(count);
  return k.firstLanes(k.select(firstRow + row < k.rows(), count, 0));
}
