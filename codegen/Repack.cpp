//===- Repack.cpp - Codes in the order that packings take -----------------===//

#include "codegen/Repack.h"
#include "dialects/plan/CodePacking.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace tandem;
using namespace tandem::codegen;
using lm::PackOrder;
using models::DType;
using models::TensorView;

/// The scales' own type in a packing.
static DType getDType(mlir::Type type) {
  return type.isF32() ? DType::F32 : type.isBF16() ? DType::BF16 : DType::F16;
}

static Error expectTensor(const TensorView &tensor, DType dtype,
                          std::array<int64_t, 2> shape) {
  ArrayRef<int64_t> found = tensor.shape;
  bool isOne =
      shape[0] == 1 && shape[1] == 1 && found.size() == 1 && found[0] == 1;
  if (tensor.dtype == dtype && (found == ArrayRef<int64_t>(shape) || isOne))
    return Error::success();
  std::string message;
  raw_string_ostream os(message);
  os << tensor.file << ": tensor '";
  printEscapedString(tensor.name, os);
  os << "' is " << tensor << ", expected " << models::toString(dtype) << " ["
     << shape[0] << ", " << shape[1] << "]";
  return createStringError(message);
}

Error codegen::checkRepack(lm::SourceAttr source,
                           plan::PackingAttrInterface packing,
                           ArrayRef<const TensorView *> sources) {
  plan::InterleavedCodesAttr coded = plan::getCodesOf(packing);
  int64_t rows = coded.getOutputs();
  int64_t perWord = 32 / source.getBits();
  if (source.getOrder() != PackOrder::by_row &&
      (rows % perWord != 0 || source.getColumns() % perWord != 0))
    return createStringError(
        sources[0]->file + ": tensor '" + sources[0]->name + "' has " +
        Twine(rows) + " rows and " + Twine(source.getColumns()) +
        " columns, expected multiples of " + Twine(perWord));
  bool floatCodes = coded.getFloatCodes();
  if (Error error =
          expectTensor(*sources[0], floatCodes ? DType::F8E4M3 : DType::I32,
                       source.getCodesShape(rows, floatCodes)))
    return error;
  if (Error error = expectTensor(*sources[1], getDType(coded.getScale()),
                                 source.getScalesShape(rows)))
    return error;
  if (source.getZeroPoints())
    return expectTensor(*sources[2], DType::I32, source.getZerosShape(rows));
  return Error::success();
}

namespace {

/// Reads and writes the codes of a matrix of 32-bit words.
class Words {
public:
  Words(const uint8_t *bytes, int64_t width, int64_t bits)
      : bytes(bytes), width(width), bits(bits) {}

  /// The code in part \p slot of the word at \p row and \p column.
  uint32_t get(int64_t row, int64_t column, int64_t slot) const {
    uint32_t word =
        support::endian::read32le(bytes + (row * width + column) * 4);
    return word >> (slot * bits) & maskTrailingOnes<uint32_t>(bits);
  }

private:
  const uint8_t *bytes;
  int64_t width, bits;
};

} // namespace

/// Part of a word that holds row \p row of eight in the order `interleaved`.
static int64_t getInterleavedSlot(int64_t row) {
  return row % 2 == 0 ? row / 2 : row / 2 + 4;
}

/// The code at [\p row, \p column] of \p tensor.
static uint32_t getCode(lm::SourceAttr source, const Words &words, int64_t row,
                        int64_t column) {
  int64_t perWord = 32 / source.getBits();
  switch (source.getOrder()) {
  case PackOrder::by_row:
    return words.get(row, column / perWord, column % perWord);
  case PackOrder::by_column:
    return words.get(column / perWord, row, column % perWord);
  case PackOrder::interleaved:
    return words.get(column, row / perWord, getInterleavedSlot(row % perWord));
  }
  llvm_unreachable("all orders are handled");
}

/// The zero point of group \p group of \p row, less the `2^(bits-1)` that codes
/// of value zero have.
static int64_t getZero(lm::SourceAttr source, const Words &words, int64_t row,
                       int64_t group) {
  int64_t bits = source.getBits(), perWord = 32 / bits;
  int64_t word = row / perWord, slot = row % perWord;
  if (source.getOrder() == PackOrder::interleaved)
    slot = getInterleavedSlot(slot);
  uint32_t stored = source.getOrder() == PackOrder::by_row
                        ? words.get(word, group, slot)
                        : words.get(group, word, slot);
  int64_t zero =
      (stored + source.getZeroOffset()) & maskTrailingOnes<uint32_t>(bits);
  return zero - (int64_t(1) << (bits - 1));
}

/// Writes \p value, a small whole number, as \p dtype. All of them hold it.
static void storeWhole(uint8_t *bytes, DType dtype, int64_t value) {
  auto number = static_cast<float>(value);
  auto bits = bit_cast<uint32_t>(number);
  switch (dtype) {
  case DType::F32:
    return support::endian::write32le(bytes, bits);
  case DType::BF16:
    return support::endian::write16le(bytes, bits >> 16);
  default: {
    APFloat half(number);
    bool losesInfo;
    half.convert(APFloat::IEEEhalf(), APFloat::rmNearestTiesToEven, &losesInfo);
    support::endian::write16le(
        bytes, static_cast<uint16_t>(half.bitcastToAPInt().getZExtValue()));
  }
  }
}

Repacked::Repacked(lm::SourceAttr source, plan::PackingAttrInterface packing,
                   ArrayRef<const TensorView *> sources)
    : codes(*sources[0]), scales(*sources[1]) {
  plan::InterleavedCodesAttr coded = plan::getCodesOf(packing);
  int64_t rows = coded.getOutputs(), columns = coded.getColumns();
  int64_t bits = coded.getBits(), perWord = 32 / bits;
  int64_t wordsPerRow = divideCeil(columns, perWord);
  codes.dtype = DType::I32;
  codes.shape = {rows, wordsPerRow};
  if (coded.getFloatCodes()) {
    codeBytes.resize(rows * wordsPerRow * 4);
    for (int64_t row = 0; row < rows; ++row)
      std::memcpy(codeBytes.data() + row * wordsPerRow * 4,
                  sources[0]->bytes.data() + row * columns, columns);
    codes.bytes = codeBytes;
  } else if (source.getOrder() != PackOrder::by_row) {
    codeBytes.resize(rows * wordsPerRow * 4);
    Words words(sources[0]->bytes.data(),
                source.getCodesShape(rows, /*floatCodes=*/false)[1], bits);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t word = 0; word < wordsPerRow; ++word) {
        uint32_t result = 0;
        for (int64_t slot = 0; slot < perWord; ++slot)
          result |= getCode(source, words, row, word * perWord + slot)
                    << (slot * bits);
        support::endian::write32le(
            codeBytes.data() + (row * wordsPerRow + word) * 4, result);
      }
    codes.bytes = codeBytes;
  }

  int64_t width = models::getByteWidth(scales.dtype);
  int64_t groups = columns / coded.getGroup();
  int64_t parts = coded.getScalesPerGroup();
  int64_t sourceWidth = source.getScalesShape(rows)[1];
  bool byRow = source.getOrder() == PackOrder::by_row;
  scales.shape = {rows, groups * parts};
  scaleBytes.resize(rows * groups * parts * width);
  Words zeros(source.getZeroPoints() ? sources[2]->bytes.data() : nullptr,
              source.getZerosShape(rows)[1], bits);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t group = 0; group < groups; ++group) {
      int64_t block = row / source.getBlockRows();
      int64_t from = group * coded.getGroup() / source.getGroup();
      int64_t entry =
          byRow ? block * sourceWidth + from : from * sourceWidth + block;
      uint8_t *scale =
          scaleBytes.data() + (row * groups + group) * parts * width;
      std::memcpy(scale, sources[1]->bytes.data() + entry * width, width);
      if (source.getZeroPoints())
        storeWhole(scale + width, scales.dtype,
                   getZero(source, zeros, row, group));
    }
  scales.bytes = scaleBytes;
}
