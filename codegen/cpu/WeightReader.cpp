//===- WeightReader.cpp - The columns of packed weights -------------------===//

#include "codegen/cpu/WeightReader.h"

#include "codegen/cpu/CodeLayout.h"

#include <limits>

using namespace tandem;
using namespace tandem::codegen;

static constexpr int64_t lanes = KernelBuilder::lanes;
/// How far ahead weights are asked for, in bytes. They are read once, in order,
/// but so slowly that a processor does not guess it.
static constexpr int64_t prefetchDistance = 2048;
static constexpr int64_t cacheLine = 64;

namespace {

/// `#plan.interleaved`.
class DenseWeight : public WeightReader {
public:
  explicit DenseWeight(KernelBuilder &k)
      : k(k), columns(k.spec().getInt("columns")),
        kind(k.spec().getKind("element")) {}

  Memory weight(const Operand &number) const override {
    return k.operand(number, k.typeOf(kind));
  }
  Memory tile(Memory weight, const Operand &number) const override {
    return weight.at(number.as(k, k.i64()) * (columns * lanes));
  }

  Vars emitColumns(llvm::ArrayRef<Memory> tiles, Vars sums,
                   Add add) const override {
    constexpr int64_t unroll = 4;
    int64_t columnBytes = lanes * getByteWidth(kind);
    auto addColumn = [&](Var column, const Vars &before) {
      Vars weights;
      for (const Memory &tile : tiles)
        weights.push_back(tile.loadVectorAsF32(column * lanes));
      return add(column, weights, before);
    };
    int64_t full = columns / unroll * unroll;
    sums = k.loop(0, full, unroll, sums, [&](Var column, const Vars &before) {
      Vars next = before;
      for (const Memory &tile : tiles) {
        Memory bytes = tile.at(column * lanes).as(k.ops().getI8Type());
        for (int64_t line = 0; line < unroll * columnBytes; line += cacheLine)
          bytes.prefetch(prefetchDistance + line);
      }
      for (int64_t i = 0; i < unroll; ++i)
        next = addColumn(column + i, next);
      return next;
    });
    for (int64_t column = full; column < columns; ++column)
      sums = addColumn(k.index(column), sums);
    return sums;
  }

private:
  KernelBuilder &k;
  int64_t columns;
  FloatKind kind;
};

/// `#plan.interleaved_codes`.
class CodedWeight : public WeightReader, CodeLayout {
public:
  explicit CodedWeight(KernelBuilder &k) : CodeLayout(k.spec()), k(k) {}

  Memory weight(const Operand &number) const override {
    return k.operand(number, k.ops().getI8Type());
  }
  Memory tile(Memory weight, const Operand &number) const override {
    return weight.at(number.as(k, k.i64()) * tileBytes);
  }
  Vars emitColumns(llvm::ArrayRef<Memory> tiles, Vars sums,
                   Add add) const override;

private:
  /// What the codes in bits [position, position + bits) of the words mean.
  Var decode(Var words, int64_t position) const;
  /// The same of codes that are e4m3.
  Var decodeFloat(Var words, int64_t position) const;
  /// What the codes of four bits mean: 0 .. 7, -8 .. -1.
  Var codeTable() const;

  KernelBuilder &k;
};

} // namespace

Var CodedWeight::codeTable() const {
  llvm::SmallVector<float> numbers;
  for (int code = 0; code < 16; ++code)
    numbers.push_back(static_cast<float>(code < 8 ? code : code - 16));
  return k.constant(mlir::DenseElementsAttr::get(
      k.vectorOf(k.f32()), llvm::ArrayRef<float>(numbers)));
}

Var CodedWeight::decodeFloat(Var words, int64_t position) const {
  // Exponent and fraction go to where f32 has its smallest exponents; what is
  // left is to make up for the bias, 127 - 7. Small codes are subnormal on the
  // way, which loses nothing.
  int64_t left = 20 - position;
  Var shifted = left < 0 ? words >> -left : words << left;
  Var magnitude = k.bitcast(shifted & 0x07f00000, k.f32()) * 0x1p120;
  Var sign = (position == 24 ? words : words << (24 - position)) &
             std::numeric_limits<int32_t>::min();
  return k.bitcast(k.bitcast(magnitude, k.i32()) | sign, k.f32());
}

Var CodedWeight::decode(Var words, int64_t position) const {
  if (hasFloats)
    return decodeFloat(words, position);
  if (bits == 4 && k.target().hasAvx512()) {
    // A permutation looks at the low four bits of a lane only: it finds the
    // number of a code in a table.
    Var picks = position == 0 ? words : words >> position;
    return k.permute(codeTable(), picks);
  }
  // Moving the code to the top and back down spreads its sign.
  int64_t above = 32 - bits - position;
  Var code = above == 0 ? words : words << above;
  return k.toFloat(code >> (32 - bits));
}

Vars CodedWeight::emitColumns(llvm::ArrayRef<Memory> tiles, Vars sums,
                              Add add) const {
  return k.loop(
      0, columns / group, 1, sums, [&](Var groupNumber, const Vars &before) {
        llvm::SmallVector<Memory> records;
        for (const Memory &tile : tiles)
          records.push_back(tile.at(groupNumber * groupBytes));
        Var firstColumn = groupNumber * group;
        Vars scales, zeros;
        for (const Memory &record : records) {
          scales.push_back(record.as(k.typeOf(scaleKind)).loadVectorAsF32(0));
          if (hasZeros)
            zeros.push_back(
                record.as(k.typeOf(scaleKind)).loadVectorAsF32(lanes));
        }
        // The columns of one word of every output.
        auto addWord = [&](Var word, int64_t count, const Vars &carried) {
          Vars words;
          for (const Memory &record : records) {
            Memory from = record.at(scaleBytes).as(k.i32());
            words.push_back(from.loadVector(word * lanes));
            from.prefetch(word * lanes + prefetchDistance / 4);
          }
          Vars next = carried;
          for (int64_t i = 0; i < count; ++i) {
            Vars weights;
            for (size_t tile = 0; tile < tiles.size(); ++tile) {
              Var code = decode(words[tile], i * bits);
              if (hasZeros)
                code = code - zeros[tile];
              weights.push_back(code * scales[tile]);
            }
            next = add(firstColumn + word * perWord + i, weights, next);
          }
          return next;
        };
        int64_t fullWords = group / perWord;
        Vars next = before;
        if (fullWords == 1)
          next = addWord(k.index(0), perWord, next);
        else
          next = k.loop(0, fullWords, 1, next, [&](Var word, const Vars &left) {
            return addWord(word, perWord, left);
          });
        if (int64_t left = group % perWord)
          next = addWord(k.index(fullWords), left, next);
        return next;
      });
}

std::unique_ptr<WeightReader> WeightReader::create(KernelBuilder &k) {
  if (k.spec().has("bits"))
    return std::make_unique<CodedWeight>(k);
  return std::make_unique<DenseWeight>(k);
}
