//===- Bf16Pairs.cpp - Rows and weights as pairs of bf16 ------------------===//

#include "codegen/cpu/Bf16Pairs.h"

#include "codegen/cpu/VectorMath.h"

using namespace tandem;
using namespace tandem::codegen;

static constexpr int64_t lanes = KernelBuilder::lanes;

static Var makeHalves(KernelBuilder &k, llvm::ArrayRef<int16_t> halves) {
  return k.constant(mlir::DenseElementsAttr::get(
      mlir::VectorType::get({2 * lanes}, k.ops().getI16Type()), halves));
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

Bf16Rows::Bf16Rows(KernelBuilder &k, int64_t columns, int64_t blockColumns)
    : k(k), columns(columns), blockColumns(blockColumns),
      distance(k.spec().has("bits") && k.spec().getInt("bits") == 4 ? 4 : 1) {
  assert(columns % blockColumns == 0 && blockColumns % lanes == 0);
}

/// The column, of a few that are packed together, at half \p index of the
/// words.
static int64_t columnOf(int64_t index, int64_t distance) {
  int64_t pair = index / 2, second = index % 2 * distance;
  return (distance == 4 ? pair / 4 * 8 + pair % 4 : 2 * pair) + second;
}

void Bf16Rows::pack(llvm::ArrayRef<Memory> rows, Memory packed) const {
  auto count = static_cast<int64_t>(rows.size());
  Memory to = packed.as(k.i32());
  if (blockColumns % (2 * lanes) == 0) {
    llvm::SmallVector<int16_t> order;
    for (int64_t index = 0; index < 2 * lanes; ++index)
      order.push_back(static_cast<int16_t>(columnOf(index, distance)));
    Var picks = makeHalves(k, order);
    return k.loop(0, columns, 2 * lanes, [&](Var column) {
      for (int64_t row = 0; row < count; ++row) {
        Var first = rows[row].loadVector(column);
        Var second = rows[row].loadVector(column + lanes);
        to.storeVector(placeOf(column, row, count),
                       k.narrowToBf16(first, second, picks));
      }
    });
  }
  constexpr int64_t pairs = lanes / 2;
  llvm::SmallVector<int64_t> low, high;
  for (int64_t pair = 0; pair < lanes; ++pair) {
    // The second half is not stored.
    low.push_back(columnOf(pair % pairs * 2, distance));
    high.push_back(columnOf(pair % pairs * 2 + 1, distance));
  }
  k.loop(0, columns, lanes, [&](Var column) {
    for (int64_t row = 0; row < count; ++row) {
      Var bits = roundToBf16(k, rows[row].loadVector(column));
      Var pairOf = ((k.shuffle(bits, bits, low) >> 16) & 0xffff) |
                   k.shuffle(bits, bits, high);
      to.storeVector(placeOf(column, row, count), pairOf, k.firstLanes(pairs));
    }
  });
}

Var Bf16Rows::placeOf(Var column, int64_t row, int64_t rows) const {
  int64_t rowPairs = blockColumns / 2;
  return column / blockColumns * (rows * rowPairs) + column % blockColumns / 2 +
         row * rowPairs;
}

Var Bf16Rows::load(Memory packed, int64_t rows, Var block, int64_t row,
                   int64_t pair) const {
  int64_t rowPairs = blockColumns / 2;
  return packed.as(k.i32()).loadSplat(block * (rows * rowPairs) +
                                      (row * rowPairs + pair));
}

Memory Bf16Rows::block(Memory packed, int64_t rows, Var block) const {
  return packed.as(k.ops().getI8Type()).at(block * (rows * blockColumns * 2));
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// What codes of 4 bits mean. Twice, since the permutation looks at five bits.
static Var makeCodeTable(KernelBuilder &k) {
  llvm::SmallVector<int16_t> numbers;
  for (int index = 0; index < 2 * lanes; ++index) {
    int code = index % 16;
    float value = static_cast<float>(code < 8 ? code : code - 16);
    // An integer below 16: the upper half of its f32 is exact.
    numbers.push_back(
        static_cast<int16_t>(llvm::bit_cast<uint32_t>(value) >> 16));
  }
  return makeHalves(k, numbers);
}

Vars tandem::codegen::unpackPairs(KernelBuilder &k, const CodeLayout &codes,
                                  Memory words, int64_t columns) {
  Vars weights;
  Memory from = words.as(k.i32());
  for (int64_t word = 0; word < columns / codes.perWord; ++word) {
    Var codesOfWord = from.loadVector(word * lanes);
    if (codes.bits == 4) {
      for (int64_t i = 0; i < 4; ++i)
        weights.push_back(k.permuteHalves(
            makeCodeTable(k), i == 0 ? codesOfWord : codesOfWord >> (4 * i)));
      continue;
    }
    Vars numbers;
    for (int64_t i = 0; i < 4; ++i)
      numbers.push_back(k.bitcast(
          k.toFloat((i == 3 ? codesOfWord : codesOfWord << (24 - 8 * i)) >> 24),
          k.i32()));
    for (int64_t i = 0; i < 4; i += 2)
      weights.push_back(((numbers[i] >> 16) & 0xffff) | numbers[i + 1]);
  }
  return weights;
}

Var tandem::codegen::loadDensePair(KernelBuilder &k, Memory columns) {
  // Two columns of 16 outputs each, to 16 outputs of two columns each.
  llvm::SmallVector<int16_t> order;
  for (int16_t output = 0; output < lanes; ++output)
    order.append({output, static_cast<int16_t>(output + lanes)});
  return k.pickHalves(columns.as(k.i32()).loadVector(0), makeHalves(k, order));
}
