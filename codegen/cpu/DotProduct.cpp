//===- DotProduct.cpp - Products of narrow numbers ------------------------===//

#include "codegen/cpu/DotProduct.h"

#include "codegen/cpu/Bf16Pairs.h"
#include "codegen/cpu/CodeLayout.h"
#include "codegen/cpu/TileProduct.h"
#include "codegen/cpu/VectorMath.h"

using namespace tandem;
using namespace tandem::codegen;

static constexpr int64_t lanes = KernelBuilder::lanes;
/// How far ahead weights are asked for, in bytes, as in WeightReader.cpp.
static constexpr int64_t prefetchDistance = 2048;
/// Columns whose codes are unpacked at a time: as many registers as a tile of
/// rows leaves.
static constexpr int64_t stepColumns = 32;
/// Rows that a walk over a tile can keep sums for: of a group, and of all.
static constexpr int64_t rowsOfWalk = 8;
/// Pairs of columns in a vector of them.
static constexpr int64_t pairs = lanes / 2;

/// Combines all lanes of each of \p vectors, whose number is a power of two up
/// to 16; lane i of the result is that of vector i.
template <typename Combine>
static Var reduceEach(KernelBuilder &k, Vars vectors, Combine combine) {
  llvm::SmallVector<int64_t> low, high;
  for (int64_t lane = 0; lane < lanes / 2; ++lane) {
    low.append({lane, lane + lanes});
    high.append({lane + lanes / 2, lane + lanes / 2 + lanes});
  }
  auto count = static_cast<int64_t>(vectors.size());
  for (int64_t left = count; left > 1; left /= 2) {
    Vars next;
    for (int64_t i = 0; i < left / 2; ++i) {
      Var first = vectors[i], second = vectors[i + left / 2];
      next.push_back(combine(k.shuffle(first, second, low),
                             k.shuffle(first, second, high)));
    }
    vectors = next;
  }
  Var result = vectors[0];
  for (int64_t distance = lanes / 2; distance >= count; distance /= 2) {
    llvm::SmallVector<int64_t> rotated;
    for (int64_t lane = 0; lane < lanes; ++lane)
      rotated.push_back((lane + distance) % lanes);
    result = combine(result, k.shuffle(result, result, rotated));
  }
  return result;
}

namespace {

/// What both kinds of arithmetic do with codes: walks over the groups of a
/// tile, rowsOfWalk rows at a time, a few columns of a group at a time.
class CodeDot : public DotProduct {
public:
  explicit CodeDot(KernelBuilder &k) : k(k), codes(k.spec()) {}

  Vars sum(int64_t rows, Memory packed,
           llvm::ArrayRef<Memory> tiles) const override;

protected:
  /// Weights of `step()` columns, from the words at \p words on.
  virtual Vars unpack(Memory words) const = 0;
  /// What the sum of a group begins with, and adding a step to it: \p position
  /// is (group, step in the group).
  struct Position {
    Var group;
    Var step;
  };
  virtual Var begin(Memory packed, int64_t rows, Var group,
                    int64_t row) const = 0;
  virtual Var add(Var sum, const Vars &weights, Memory packed, int64_t rows,
                  const Position &position, int64_t row) const = 0;
  /// total + sum * scale, and whatever else belongs to a group.
  virtual Var finish(Var total, Var sum, Var scale, Memory packed, int64_t rows,
                     Var group, int64_t row) const = 0;

  int64_t step() const { return std::min(codes.group, stepColumns); }
  int64_t stepsPerGroup() const { return codes.group / step(); }

  KernelBuilder &k;
  CodeLayout codes;

private:
  Vars walk(int64_t firstRow, int64_t count, int64_t rows, Memory packed,
            llvm::ArrayRef<Memory> tiles) const;
};

class Int8CodeDot final : public CodeDot {
public:
  using CodeDot::CodeDot;

  int64_t packedBytes(int64_t rows) const override {
    return rows * (codes.columns + 2 * codes.groups * 4);
  }
  void pack(llvm::ArrayRef<Memory> rows, Memory packed) const override;

protected:
  Vars unpack(Memory words) const override;
  Var begin(Memory packed, int64_t rows, Var group, int64_t row) const override;
  Var add(Var sum, const Vars &weights, Memory packed, int64_t rows,
          const Position &position, int64_t row) const override;
  Var finish(Var total, Var sum, Var scale, Memory packed, int64_t rows,
             Var group, int64_t row) const override;

private:
  // Packed rows: numbers i8 [group][row][column], then f32 [group][row], their
  // scales, then i32 [group][row], what the offset of the codes adds to a sum.
  Memory numbers(Memory packed) const { return packed.as(k.ops().getI8Type()); }
  Memory scales(Memory packed, int64_t rows) const {
    return numbers(packed).at(rows * codes.columns).as(k.f32());
  }
  Memory offsets(Memory packed, int64_t rows) const {
    return scales(packed, rows).at(rows * codes.groups).as(k.i32());
  }
  /// Weights are the codes plus this: instructions want them unsigned.
  int64_t codeOffset() const { return int64_t(1) << (codes.bits - 1); }
};

class Bf16CodeDot final : public CodeDot {
public:
  explicit Bf16CodeDot(KernelBuilder &k)
      : CodeDot(k), narrow(k, codes.columns, lanes) {}

  int64_t packedBytes(int64_t rows) const override {
    return narrow.packedBytes(rows);
  }
  void pack(llvm::ArrayRef<Memory> rows, Memory packed) const override {
    narrow.pack(rows, packed);
  }

protected:
  Vars unpack(Memory words) const override {
    return unpackPairs(k, codes, words, step());
  }
  Var begin(Memory, int64_t, Var, int64_t) const override {
    return k.splat(0.0);
  }
  Var add(Var sum, const Vars &weights, Memory packed, int64_t rows,
          const Position &position, int64_t row) const override;
  Var finish(Var total, Var sum, Var scale, Memory, int64_t, Var,
             int64_t) const override {
    return k.fma(sum, scale, total);
  }

private:
  Bf16Rows narrow;
};

/// Weights that are bf16 themselves.
class Bf16DenseDot final : public DotProduct {
public:
  explicit Bf16DenseDot(KernelBuilder &k)
      : k(k), columns(k.spec().getInt("columns")), narrow(k, columns, lanes) {}

  int64_t packedBytes(int64_t rows) const override {
    return narrow.packedBytes(rows);
  }
  void pack(llvm::ArrayRef<Memory> rows, Memory packed) const override {
    narrow.pack(rows, packed);
  }
  Vars sum(int64_t rows, Memory packed,
           llvm::ArrayRef<Memory> tiles) const override;

private:
  KernelBuilder &k;
  int64_t columns;
  Bf16Rows narrow;
};

} // namespace

//===----------------------------------------------------------------------===//
// Codes
//===----------------------------------------------------------------------===//

Vars CodeDot::walk(int64_t firstRow, int64_t count, int64_t rows, Memory packed,
                   llvm::ArrayRef<Memory> tiles) const {
  auto numTiles = static_cast<int64_t>(tiles.size());
  int64_t stepBytes = step() / codes.perWord * lanes * 4;
  return k.loop(
      0, codes.groups, 1, Vars(count * numTiles, k.splat(0.0)),
      [&](Var group, const Vars &before) {
        Vars totals = before;
        for (int64_t tile = 0; tile < numTiles; ++tile) {
          Memory record = tiles[tile].at(group * codes.groupBytes);
          for (int64_t line = 0; line < codes.groupBytes; line += 64)
            record.prefetch(prefetchDistance + line);
          Vars sums;
          for (int64_t row = 0; row < count; ++row)
            sums.push_back(begin(packed, rows, group, firstRow + row));
          auto addStep = [&](Var number, const Vars &carried) {
            Vars weights =
                unpack(record.at(number * stepBytes + codes.scaleBytes));
            Vars next;
            for (int64_t row = 0; row < count; ++row)
              next.push_back(add(carried[row], weights, packed, rows,
                                 {group, number}, firstRow + row));
            return next;
          };
          if (stepsPerGroup() == 1)
            sums = addStep(k.index(0), sums);
          else
            sums = k.loop(0, stepsPerGroup(), 1, sums, addStep);
          Var scale = record.as(k.typeOf(codes.scaleKind)).loadVectorAsF32(0);
          for (int64_t row = 0; row < count; ++row) {
            Var &total = totals[row * numTiles + tile];
            total = finish(total, sums[row], scale, packed, rows, group,
                           firstRow + row);
          }
        }
        return totals;
      });
}

Vars CodeDot::sum(int64_t rows, Memory packed,
                  llvm::ArrayRef<Memory> tiles) const {
  auto numTiles = static_cast<int64_t>(tiles.size());
  // With few rows all tiles together; with many, a tile stays in the cache
  // while it is walked over again.
  if (rows * numTiles <= rowsOfWalk)
    return walk(0, rows, rows, packed, tiles);
  Vars sums(rows * numTiles);
  for (int64_t tile = 0; tile < numTiles; ++tile)
    for (int64_t first = 0; first < rows; first += rowsOfWalk) {
      int64_t count = std::min(rowsOfWalk, rows - first);
      Vars some = walk(first, count, rows, packed, tiles[tile]);
      for (int64_t row = 0; row < count; ++row)
        sums[(first + row) * numTiles + tile] = some[row];
    }
  return sums;
}

//===----------------------------------------------------------------------===//
// i8
//===----------------------------------------------------------------------===//

void Int8CodeDot::pack(llvm::ArrayRef<Memory> rows, Memory packed) const {
  auto count = static_cast<int64_t>(rows.size());
  constexpr double steps = 127, shift = 12582912.0;
  /// Below this a group counts as zeros: its steps have no f32 inverse.
  constexpr double smallest = 1e-30;
  // The order in which unpack() gives the columns of 4 bits: even ones of a
  // word, then odd ones.
  llvm::SmallVector<int64_t> order;
  for (int64_t lane = 0; lane < lanes; ++lane)
    order.push_back(codes.bits == 4 ? lane / 8 * 8 + lane % 4 * 2 + lane / 4 % 2
                                    : lane);
  int64_t vectors = codes.group / lanes;
  Memory bytes = numbers(packed);
  Memory rowScales = scales(packed, count);
  Memory rowOffsets = offsets(packed, count);
  Var storedRows = k.firstLanes(count);
  auto overGroup = [&](Var group, const Memory &row, Var initial,
                       llvm::function_ref<Var(Var x, Var index, Var)> add) {
    Memory from = row.at(group * codes.group);
    Vars sums = {initial};
    for (int64_t i = 0; i < vectors; ++i)
      sums[0] = add(from.loadVector(i * lanes), k.index(i * lanes), sums[0]);
    return sums[0];
  };
  Var zeros = Operand(0).as(k, k.vectorOf(k.i32()));

  k.loop(0, codes.groups, 1, [&](Var group) {
    Vars largest;
    for (const Memory &row : rows)
      largest.push_back(overGroup(group, row, zeros, [&](Var x, Var, Var most) {
        // As integers, what is not a number is larger than all others.
        return k.max(k.bitcast(x, k.i32()) & 0x7fffffff, most);
      }));
    Var most = k.bitcast(
        reduceEach(k, largest, [&](Var a, Var b) { return k.max(a, b); }),
        k.f32());
    Var isNothing = most < smallest;
    Var scale = k.select(isNothing, k.splat(0.0), most * (1.0 / steps));
    Var inverse = k.select(most >= smallest, k.splat(steps) / most, 0.0);
    rowScales.storeVector(group * count, scale, storedRows);
    // For a moment, where the offsets will be.
    Memory inverses = rowOffsets.as(k.f32());
    inverses.storeVector(group * count, inverse, storedRows);

    Vars totals;
    for (int64_t number = 0; number < count; ++number) {
      Var factor = inverses.loadSplat(group * count + number);
      Memory to = bytes.at((group * count + number) * codes.group);
      totals.push_back(overGroup(
          group, rows[number], zeros, [&](Var x, Var index, Var total) {
            // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low
            // bits.
            Var rounded = k.bitcast(k.fma(x, factor, k.splat(shift)), k.i32()) -
                          k.bitcast(k.splat(shift), k.i32());
            to.storeBytes(index, k.shuffle(rounded, rounded, order));
            return total + rounded;
          }));
    }
    Var total = reduceEach(k, totals, [](Var a, Var b) { return a + b; });
    rowOffsets.storeVector(group * count, zeros - total * codeOffset(),
                           storedRows);
  });
}

Vars Int8CodeDot::unpack(Memory words) const {
  Vars weights;
  Memory from = words.as(k.i32());
  for (int64_t word = 0; word < step() / codes.perWord; ++word) {
    Var codesOfWord = from.loadVector(word * lanes);
    if (codes.bits == 8) {
      weights.push_back(codesOfWord ^ int32_t(0x80808080));
      continue;
    }
    weights.push_back((codesOfWord ^ int32_t(0x88888888)) & 0x0f0f0f0f);
    weights.push_back(((codesOfWord >> 4) ^ int32_t(0x88888888)) & 0x0f0f0f0f);
  }
  return weights;
}

Var Int8CodeDot::begin(Memory packed, int64_t rows, Var group,
                       int64_t row) const {
  return offsets(packed, rows).loadSplat(group * rows + row);
}

Var Int8CodeDot::add(Var sum, const Vars &weights, Memory packed, int64_t rows,
                     const Position &position, int64_t row) const {
  Memory words = numbers(packed).as(k.i32());
  Var first = (position.group * rows + row) * (codes.group / 4) +
              position.step * (step() / 4);
  for (size_t i = 0; i < weights.size(); ++i)
    sum = k.dotBytes(sum, weights[i], words.loadSplat(first + i),
                     2 * codeOffset());
  return sum;
}

Var Int8CodeDot::finish(Var total, Var sum, Var scale, Memory packed,
                        int64_t rows, Var group, int64_t row) const {
  Var rowScale = scales(packed, rows).loadSplat(group * rows + row);
  return k.fma(k.toFloat(sum), scale * rowScale, total);
}

//===----------------------------------------------------------------------===//
// bf16
//===----------------------------------------------------------------------===//

Var Bf16CodeDot::add(Var sum, const Vars &weights, Memory packed, int64_t rows,
                     const Position &position, int64_t row) const {
  Var firstBlock =
      position.group * (codes.group / lanes) + position.step * (step() / lanes);
  for (size_t i = 0; i < weights.size(); ++i)
    sum = k.dotBf16(
        sum, weights[i],
        narrow.load(packed, rows, firstBlock + i / pairs, row, i % pairs));
  return sum;
}

Vars Bf16DenseDot::sum(int64_t rows, Memory packed,
                       llvm::ArrayRef<Memory> tiles) const {
  auto numTiles = static_cast<int64_t>(tiles.size());
  auto walk = [&](llvm::ArrayRef<Memory> some) {
    auto count = static_cast<int64_t>(some.size());
    return k.loop(
        0, columns / lanes, 1, Vars(rows * count, k.splat(0.0)),
        [&](Var block, const Vars &before) {
          Vars sums = before;
          llvm::SmallVector<Memory> words;
          for (const Memory &tile : some) {
            // A column of a tile is 8 words.
            words.push_back(tile.as(k.i32()).at(block * (lanes * lanes / 2)));
            for (int64_t line = 0; line < pairs; ++line)
              words.back().prefetch(line * lanes + prefetchDistance / 4);
          }
          for (int64_t pair = 0; pair < pairs; ++pair)
            for (int64_t tile = 0; tile < count; ++tile) {
              Var weight = loadDensePair(k, words[tile].at(pair * lanes));
              for (int64_t row = 0; row < rows; ++row) {
                Var &sum = sums[row * count + tile];
                sum = k.dotBf16(sum, weight,
                                narrow.load(packed, rows, block, row, pair));
              }
            }
          return sums;
        });
  };
  if (rows * numTiles <= lanes)
    return walk(tiles);
  Vars sums(rows * numTiles);
  for (int64_t tile = 0; tile < numTiles; ++tile) {
    Vars some = walk(tiles[tile]);
    for (int64_t row = 0; row < rows; ++row)
      sums[row * numTiles + tile] = some[row];
  }
  return sums;
}

llvm::ArrayRef<TileShape> DotProduct::shapes(int64_t weights) const {
  // Sums of many rows are not all in registers at once: a tile is walked over
  // more than once.
  static constexpr TileShape one[] = {{16, 1}, {8, 1}, {4, 2}, {2, 4}, {1, 4}};
  static constexpr TileShape two[] = {{16, 2}, {8, 2}, {4, 2}, {2, 2}, {1, 2}};
  static constexpr TileShape parts[] = {{16, 1}, {8, 1}, {4, 1}, {1, 4}};
  switch (weights) {
  case 0:
    return parts;
  case 1:
    return one;
  default:
    return two;
  }
}

std::unique_ptr<DotProduct> DotProduct::create(KernelBuilder &k) {
  switch (k.spec().arithmetic()) {
  case Arithmetic::F32:
    return nullptr;
  case Arithmetic::I8:
    return std::make_unique<Int8CodeDot>(k);
  case Arithmetic::BF16:
    if (k.target().hasBf16Tiles())
      return createTileProduct(k);
    if (!k.target().hasBf16Dots())
      return nullptr;
    if (k.spec().has("bits"))
      return std::make_unique<Bf16CodeDot>(k);
    return std::make_unique<Bf16DenseDot>(k);
  }
  llvm_unreachable("an arithmetic");
}
