//===- HeadKernels.cpp - Heads that are searched --------------------------===//
//
// head_search finds between which numbers the logits of a token are, by codes
// of 8 bits; head_settle computes those that may be the largest; settled_argmax
// takes the largest of them. docs/heads.md has the proof, head_search.cuh the
// same for GPUs.
//
// Tokens are written as whole numbers of 16 bits, q = 256 high + low with
// digits of 8 bits with signs, so that products of bytes add them up: exactly,
// in any order.
//
//===----------------------------------------------------------------------===//

#include "codegen/cpu/Kernels.h"
#include "codegen/cpu/LargestOfLanes.h"
#include "codegen/cpu/RegisterTiles.h"
#include "codegen/cpu/VectorMath.h"

#include <cmath>

using namespace tandem;
using namespace tandem::codegen;

static constexpr int64_t lanes = KernelBuilder::lanes;
/// Rows whose digits are in scratch at a time.
static constexpr int64_t blockRows = 16;
/// As in WeightReader.cpp.
static constexpr int64_t prefetchDistance = 2048;
/// The largest q.
static constexpr double largestDigits = 32512;
/// The most that a proof is for; what covers numbers that are too small to be
/// exact.
static constexpr double mostError = 0x1p100, leastError = 0x1p-100;

namespace {

class HeadSearch {
public:
  explicit HeadSearch(KernelBuilder &k);
  void emit();

private:
  void digestRow(Var firstRow, Var row);
  void emitTile(int64_t rows, Var firstRow, Var live, Var part, Var tile);
  void emitWalk(int64_t rows, Var first, Var firstRow, Var live, Var tile);

  KernelBuilder &k;
  int64_t columns = k.spec().getInt("columns");
  int64_t outputs = k.spec().getInt("outputs");
  int64_t words = (columns + 3) / 4;
  int64_t tiles = (outputs + lanes - 1) / lanes;
  int64_t parts = plan::getHeadParts(outputs, /*forGpu=*/false);
  /// Digits of a row, in words; whole vectors of columns.
  int64_t rowWords = (columns + lanes - 1) / lanes * 4;
  /// Rows that a walk over a tile has accumulators for, two each.
  int64_t walkRows = k.target().hasAvx512() ? 8 : 2;

  Memory x = k.operand(0, k.f32());
  Memory codes = k.operand(1, k.i32());
  Memory scales = k.operand(2, k.f32());
  Memory errors = k.operand(3, k.f32());
  Memory above = k.operand(4, k.f32());
  Memory below = k.operand(5, k.f32());
  /// [row][word] both; and by row: what codes are too large by, times the
  /// digits, the step of the token, its length, the largest `below` so far.
  Memory high, low, highBias, lowBias, steps, lengths, floors;
};

} // namespace

HeadSearch::HeadSearch(KernelBuilder &k) : k(k) {
  high = k.scratch((2 * rowWords + 5) * blockRows * 4, k.i32());
  low = high.at(rowWords * blockRows);
  highBias = low.at(rowWords * blockRows);
  lowBias = highBias.at(blockRows);
  steps = lowBias.at(blockRows).as(k.f32());
  lengths = steps.at(blockRows);
  floors = lengths.at(blockRows);
}

/// Writes the digits of row \p row of a block, and what belongs to it.
void HeadSearch::digestRow(Var firstRow, Var row) {
  Memory from = x.at((firstRow + row) * columns);
  bool rounds = k.spec().arithmetic() == Arithmetic::BF16;
  auto load = [&](Var column, Var mask) {
    Var numbers = from.loadVector(column, mask);
    return rounds ? k.bitcast(roundToBf16(k, numbers), k.f32()) : numbers;
  };
  // What is not a number, times zero, is not a number.
  Vars found = k.loopColumns(columns, {k.splat(0.0), k.splat(0.0)},
                             [&](Var column, Var mask, const Vars &before) {
                               Var numbers = load(column, mask);
                               Var sizes = k.max(numbers, -numbers);
                               return Vars{k.max(sizes, before[0]),
                                           before[1] + numbers * 0.0};
                             });
  Var largest = maxLanes(k, found[0]);
  Var reciprocal = k.number(largestDigits) / largest;
  reciprocal = k.select(largest > 0.0, reciprocal, k.number(0.0));
  // Adding this leaves no room for what is behind the point.
  constexpr double shift = 0x1.8p23;
  constexpr int32_t shiftBits = 0x4b400000;
  Memory highBytes = high.at(row * rowWords), lowBytes = low.at(row * rowWords);
  Vars squares = k.loopColumns(
      columns, {k.splat(0.0)}, [&](Var column, Var mask, const Vars &before) {
        Var moved = load(column, mask) * k.broadcast(reciprocal) + shift;
        Var q = k.bitcast(moved, k.i32()) - shiftBits;
        Var digit = ((q + 128) & 255) - 128;
        lowBytes.storeBytes(column, digit);
        highBytes.storeBytes(column, (q - digit) >> 8);
        Var number = moved - shift;
        return Vars{before[0] + number * number};
      });
  Var step = largest * (1 / largestDigits);
  Var length = sqrt(k, k.broadcast(sumLanes(k, squares[0])));
  double root = std::sqrt(double(columns));
  length = k.max(k.extract(length, 0) + float(0.5101 * root),
                 k.number(float(1045.1 * root)));
  steps.store(row, step);
  // A reciprocal that is too large to be one makes this one infinite or no
  // number, too.
  lengths.store(row, step * length * 1.001f + sumLanes(k, found[1]) +
                         reciprocal * 0.0);
  Vars bias = k.loop(
      0, words, 1,
      {Operand(0).as(k, k.vectorOf(k.i32())),
       Operand(0).as(k, k.vectorOf(k.i32()))},
      [&](Var word, const Vars &before) {
        Var each = Operand(int32_t(0x80808080)).as(k, k.vectorOf(k.i32()));
        return Vars{k.dotBytes(before[0], each, highBytes.loadSplat(word), 256),
                    k.dotBytes(before[1], each, lowBytes.loadSplat(word), 256)};
      });
  highBias.store(row, k.extract(bias[0], 0));
  lowBias.store(row, k.extract(bias[1], 0));
}

/// Adds rows \p first .. first + rows - 1 of the block up with a tile.
void HeadSearch::emitWalk(int64_t rows, Var first, Var firstRow, Var live,
                          Var tile) {
  Memory from = codes.at(tile * (words * lanes));
  Vars sums;
  for (int64_t row = 0; row < rows; ++row) {
    Var none = Operand(0).as(k, k.vectorOf(k.i32()));
    sums.push_back(none - highBias.loadSplat(first + row));
    sums.push_back(none - lowBias.loadSplat(first + row));
  }
  sums = k.loop(0, words, 1, sums, [&](Var word, const Vars &before) {
    from.prefetch(word * lanes + prefetchDistance / 4);
    Var code = from.loadVector(word * lanes);
    Vars next;
    for (int64_t row = 0; row < rows; ++row) {
      Var place = (first + row) * rowWords + word;
      next.push_back(
          k.dotBytes(before[2 * row], code, high.loadSplat(place), 256));
      next.push_back(
          k.dotBytes(before[2 * row + 1], code, low.loadSplat(place), 256));
    }
    return next;
  });
  Var scale = scales.loadVector(tile * lanes);
  Var error = errors.loadVector(tile * lanes);
  Var none = k.splat(-infinity), all = k.splat(infinity);
  for (int64_t row = 0; row < rows; ++row) {
    Var place = first + row;
    Var sum = k.toFloat(sums[2 * row]) * 256.0 + k.toFloat(sums[2 * row + 1]);
    Var logit = sum * (scale * steps.loadSplat(place));
    Var distance = error * lengths.loadSplat(place) + leastError;
    Var isCertain = distance < mostError;
    Var most = k.select(isCertain, logit + distance, all);
    Var least = k.select(isCertain, logit - distance, none);
    if (outputs % lanes != 0) {
      Var exists = k.firstLanes(k.index(outputs) - tile * lanes);
      most = k.select(exists, most, none);
      least = k.select(exists, least, none);
    }
    Var largest = maxLanes(k, most), floor = maxLanes(k, least);
    k.ifThen(place < live, [&] {
      above.store((firstRow + place) * tiles + tile, largest);
      floors.store(place, k.max(floor, floors.load(place)));
    });
  }
}

void HeadSearch::emitTile(int64_t rows, Var firstRow, Var live, Var part,
                          Var tile) {
  int64_t most = std::min(rows, walkRows);
  k.loop(0, rows, most,
         [&](Var first) { emitWalk(most, first, firstRow, live, tile); });
}

void HeadSearch::emit() {
  constexpr int64_t tilesOfPart = plan::kHeadPart / lanes;
  Var blocks = (k.rows() + (blockRows - 1)) / blockRows;
  k.loop(0, blocks, 1, [&](Var block) {
    Var firstRow = block * blockRows;
    Var live = k.min(k.rows() - firstRow, blockRows);
    k.loop(0, live, 1, [&](Var row) { digestRow(firstRow, row); });
    k.loopItems([&](Var part) {
      k.loop(0, live, 1,
             [&](Var row) { floors.store(row, k.number(-infinity)); });
      Var begin = part * tilesOfPart;
      Var end = k.min(begin + tilesOfPart, tiles);
      auto emitTiles = [&](int64_t rows) {
        k.loop(begin, end, 1,
               [&](Var tile) { emitTile(rows, firstRow, live, part, tile); });
        return Vars();
      };
      // Rows behind the live ones are multiplied for nothing, of whatever was
      // there before.
      k.ifElse(
          live > 8, [&] { return emitTiles(16); },
          [&] {
            return k.ifElse(
                live > 4, [&] { return emitTiles(8); },
                [&] {
                  return k.ifElse(
                      live > 1, [&] { return emitTiles(4); },
                      [&] { return emitTiles(1); });
                });
          });
      k.loop(0, live, 1, [&](Var row) {
        below.store((firstRow + row) * parts + part, floors.load(row));
      });
    });
  });
}

void tandem::codegen::buildHeadSearch(KernelBuilder &k) {
  HeadSearch(k).emit();
}

//===----------------------------------------------------------------------===//
// Settling
//===----------------------------------------------------------------------===//

/// As buildHeadArgmax(), of some tiles.
void tandem::codegen::buildHeadSettle(KernelBuilder &k) {
  constexpr int64_t tilesOfPart = plan::kHeadPart / lanes;
  int64_t outputs = k.spec().getInt("outputs");
  int64_t allTiles = (outputs + lanes - 1) / lanes;
  int64_t parts = plan::getHeadParts(outputs, /*forGpu=*/false);
  Memory above = k.operand(2, k.f32());
  Memory below = k.operand(3, k.f32());
  Memory logits = k.operand(4, k.f32());
  Memory tokens = k.operand(5, k.i32());
  Memory settled = k.operand(6, k.i32());

  std::unique_ptr<WeightReader> reader = WeightReader::create(k);
  llvm::ArrayRef<TileShape> shapes = RegisterTiles::shapesOfParts(k);
  int64_t most = shapes.front().rows;
  RegisterTiles rows(k, *reader, k.operand(0, k.f32()),
                     k.spec().getInt("columns"), shapes, std::nullopt,
                     LargestOfLanes::bytes(most) + most * 4);
  LargestOfLanes best(k, rows.extra(), most, outputs);
  // Of every row of a block what its largest logit is not below.
  Memory floors = rows.extra().at(LargestOfLanes::bytes(most) / 4);

  rows.forEachBlock([&](const TileShape &shape, Var firstRow) {
    Var live = k.min(k.rows() - firstRow, shape.rows);
    k.loop(0, live, 1, [&](Var row) {
      Memory from = below.at((firstRow + row) * parts);
      Vars floor = k.loopColumns(parts, {k.splat(-infinity)},
                                 [&](Var column, Var mask, const Vars &before) {
                                   Var next = from.loadVector(
                                       column, mask, k.splat(-infinity));
                                   return Vars{k.max(next, before[0])};
                                 });
      floors.store(row, maxLanes(k, floor[0]));
    });
    TileShape tileShape = {shape.rows, 1};
    k.loopItems([&](Var part) {
      best.clear(shape.rows);
      Var begin = part * tilesOfPart;
      Var end = k.min(begin + tilesOfPart, allTiles);
      Vars count = k.loop(
          begin, end, 1, {k.index(0)}, [&](Var tile, const Vars &before) {
            // Also where one of the two is no number.
            Vars rowsBelow =
                k.loop(0, live, 1, {k.index(0)}, [&](Var row, const Vars &sum) {
                  Var bound = above.load((firstRow + row) * allTiles + tile);
                  Var isBelow = bound < floors.load(row);
                  return Vars{sum[0] + k.select(isBelow, k.index(1), 0)};
                });
            Var mayWin = rowsBelow[0] < live;
            k.ifThen(mayWin, [&] {
              Memory weights = reader->tile(reader->weight(1), tile);
              Vars sums = rows.sum(tileShape, firstRow, {weights});
              for (int64_t row = 0; row < shape.rows; ++row)
                best.take(row, sums[row], tile * lanes);
            });
            return Vars{before[0] + k.select(mayWin, k.index(1), 0)};
          });
      for (int64_t row = 0; row < shape.rows; ++row)
        k.ifThen(firstRow + row < k.rows(), [&] {
          Largest largest = best.find(row);
          Var at = (firstRow + row) * parts + part;
          logits.store(at, largest.value);
          tokens.store(at, largest.column);
          settled.store(at, k.toInt32(row == 0 ? count[0] : k.index(0)));
        });
    });
  });
}

void tandem::codegen::buildSettledArgmax(KernelBuilder &k) {
  int64_t parts = k.spec().getInt("parts");
  Memory settled = k.operand(2, k.i32());
  Memory counts = k.operand(4, k.i32());
  buildArgmaxParts(k, k.operand(3, k.i32()));
  // One item counts for all.
  k.loopItems([&](Var row) {
    k.ifThen(row.isEqual(0), [&] {
      Vars sum = k.loop(0, k.rows() * parts, 1, {k.toInt32(k.index(0))},
                        [&](Var place, const Vars &before) {
                          return Vars{before[0] + settled.load(place)};
                        });
      Var isAll = sum[0] >= k.spec().getInt("tiles");
      Var one = k.toInt32(k.index(1)), zero = k.toInt32(k.index(0));
      counts.store(0, counts.load(0) + 1);
      counts.store(1, counts.load(1) + k.toInt32(k.rows()));
      counts.store(2, counts.load(2) + sum[0]);
      counts.store(3, counts.load(3) + k.select(isAll, one, zero));
    });
  });
}
