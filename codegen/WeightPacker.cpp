//===- WeightPacker.cpp - Weights in the layout of the kernels ------------===//

#include "codegen/WeightPacker.h"
#include "dialects/plan/KernelFamilies.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace llvm;
using namespace tandem;
using namespace tandem::codegen;
using models::DType;
using models::TensorView;
using plan::kTile;

namespace {

/// The element type of tensors that hold \p type, one of f32, bf16 and f16.
DType getDType(mlir::Type type) {
  return type.isF32() ? DType::F32 : type.isBF16() ? DType::BF16 : DType::F16;
}

bool isFloat(DType dtype) {
  return dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// Where \p tensor is, for the begin of a message.
std::string describe(const TensorView &tensor) {
  std::string text;
  raw_string_ostream os(text);
  os << tensor.file << ": tensor '";
  printEscapedString(tensor.name, os);
  os << "'";
  return text;
}

/// An error at \p tensor, which is not \p expected.
Error refuse(const TensorView &tensor, const Twine &expected) {
  std::string found;
  raw_string_ostream(found) << tensor;
  return createStringError(describe(tensor) + " is " + found + ", expected " +
                           expected);
}

std::string toText(ArrayRef<int64_t> shape) {
  std::string text = "[";
  raw_string_ostream os(text);
  llvm::interleaveComma(shape, os);
  os << "]";
  return text;
}

Error expectTensor(const TensorView &tensor, DType dtype,
                   ArrayRef<int64_t> shape) {
  if (tensor.dtype == dtype && ArrayRef<int64_t>(tensor.shape) == shape)
    return Error::success();
  return refuse(tensor, models::toString(dtype) + " " + toText(shape));
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

/// Entry \p index of an array of \p T at \p bytes, which need not be aligned.
template <typename T> T load(const uint8_t *bytes, int64_t index) {
  return support::endian::read<T, endianness::little>(
      bytes + index * static_cast<int64_t>(sizeof(T)));
}

template <typename T> void store(uint8_t *bytes, int64_t index, T value) {
  support::endian::write<T, endianness::little>(
      bytes + index * static_cast<int64_t>(sizeof(T)), value);
}

void storeFloat(uint8_t *bytes, int64_t index, float value) {
  store<uint32_t>(bytes, index, bit_cast<uint32_t>(value));
}

/// Entry \p index of \p tensor, whose elements are floats.
float loadFloat(const TensorView &tensor, int64_t index) {
  const uint8_t *bytes = tensor.bytes.data();
  switch (tensor.dtype) {
  case DType::F32:
    return bit_cast<float>(load<uint32_t>(bytes, index));
  case DType::BF16:
    return bit_cast<float>(uint32_t(load<uint16_t>(bytes, index)) << 16);
  default:
    return APFloat(APFloat::IEEEhalf(), APInt(16, load<uint16_t>(bytes, index)))
        .convertToFloat();
  }
}

/// Whether entry \p index of \p tensor, whose elements are floats, is neither
/// infinite nor a NaN: its exponent is not all ones.
bool isFinite(const TensorView &tensor, int64_t index) {
  const uint8_t *bytes = tensor.bytes.data();
  if (tensor.dtype == DType::F32)
    return (~load<uint32_t>(bytes, index) & 0x7f800000) != 0;
  uint16_t exponent = tensor.dtype == DType::BF16 ? 0x7f80 : 0x7c00;
  return (~load<uint16_t>(bytes, index) & exponent) != 0;
}

//===----------------------------------------------------------------------===//
// One layout each
//===----------------------------------------------------------------------===//

/// Writes rows [first, first + live) of a matrix side by side into \p tile,
/// which has been filled with zeros.
template <typename T>
void interleave(const uint8_t *matrix, int64_t columns, int64_t first,
                int64_t live, uint8_t *tile) {
  for (int64_t column = 0; column < columns; ++column)
    for (int64_t lane = 0; lane < live; ++lane)
      store<T>(tile, column * kTile + lane,
               load<T>(matrix, (first + lane) * columns + column));
}

Error packInterleaved(plan::InterleavedAttr packing, const TensorView &matrix,
                      ByteSink sink) {
  int64_t width = models::getByteWidth(matrix.dtype);
  std::vector<uint8_t> tile(kTile * packing.getColumns() * width);
  for (int64_t first = 0; first < packing.getOutputs(); first += kTile) {
    int64_t live = std::min(kTile, packing.getOutputs() - first);
    if (live < kTile)
      llvm::fill(tile, 0);
    auto *write = width == 4 ? interleave<uint32_t> : interleave<uint16_t>;
    write(matrix.bytes.data(), packing.getColumns(), first, live, tile.data());
    if (Error error = sink(tile))
      return error;
  }
  return Error::success();
}

/// Checks that the scale of group \p index of row \p row, one of \p groups, is
/// finite.
Error checkScale(const TensorView &scales, int64_t row, int64_t index,
                 int64_t groups) {
  int64_t entry = row * groups + index;
  if (isFinite(scales, entry))
    return Error::success();
  return createStringError(
      describe(scales) + " at [" + Twine(row) + ", " + Twine(index) + "] is " +
      std::to_string(loadFloat(scales, entry)) + ", expected a finite scale");
}

/// Packs the codes of `#lm.grouped` with their scales.
class CodePacker {
public:
  CodePacker(plan::InterleavedCodesAttr packing, const TensorView &codes,
             const TensorView &scales)
      : packing(packing), codes(codes), scales(scales),
        perWord(32 / packing.getBits()), group(packing.getGroup()),
        groups(packing.getColumns() / group),
        wordsPerGroup(packing.getWordsPerGroup()),
        wordsPerRow(divideCeil(packing.getColumns(), perWord)),
        wholeWords(group % perWord == 0),
        // In the checkpoint a code is the value plus 2^(bits - 1). Taking that
        // off again flips the top bit. A float is what it is.
        signs(packing.getFloatCodes()  ? 0
              : packing.getBits() == 4 ? 0x88888888
                                       : 0x80808080) {}

  /// Writes outputs [first, first + live) into \p tile, which has been filled
  /// with zeros.
  Error packTile(int64_t first, int64_t live, uint8_t *tile) const {
    for (int64_t index = 0; index < groups; ++index) {
      uint8_t *record = tile + index * packing.getGroupBytes();
      if (Error error = packScales(first, live, index, record))
        return error;
      uint8_t *words = record + packing.getScaleBytes();
      for (int64_t word = 0; word < wordsPerGroup; ++word)
        for (int64_t lane = 0; lane < live; ++lane)
          store<uint32_t>(words, word * kTile + lane,
                          makeWord(first + lane, index, word));
    }
    return Error::success();
  }

private:
  Error packScales(int64_t first, int64_t live, int64_t index,
                   uint8_t *record) const {
    int64_t width = models::getByteWidth(scales.dtype);
    // A scale, and maybe the zero point behind it.
    int64_t parts = packing.getScalesPerGroup();
    for (int64_t lane = 0; lane < live; ++lane)
      for (int64_t part = 0; part < parts; ++part) {
        int64_t row = first + lane, place = index * parts + part;
        if (Error error = checkScale(scales, row, place, groups * parts))
          return error;
        std::memcpy(record + (part * kTile + lane) * width,
                    scales.bytes.data() +
                        (row * groups * parts + place) * width,
                    width);
      }
    return Error::success();
  }

  /// Word \p word of group \p index of output \p row.
  uint32_t makeWord(int64_t row, int64_t index, int64_t word) const {
    const uint8_t *words = codes.bytes.data() + row * wordsPerRow * 4;
    // Groups that are whole words lie in the checkpoint as they will here.
    if (wholeWords)
      return load<uint32_t>(words, index * wordsPerGroup + word) ^ signs;

    uint32_t bits = packing.getBits();
    uint32_t result = 0;
    int64_t begin = word * perWord;
    int64_t end = std::min(begin + perWord, group);
    for (int64_t place = begin; place < end; ++place) {
      int64_t column = index * group + place;
      uint32_t code = ((load<uint32_t>(words, column / perWord) ^ signs) >>
                       (column % perWord * bits)) &
                      maskTrailingOnes<uint32_t>(bits);
      result |= code << ((place - begin) * bits);
    }
    return result;
  }

  plan::InterleavedCodesAttr packing;
  const TensorView &codes;
  const TensorView &scales;
  /// Codes in a word, columns in a group, groups in a row.
  int64_t perWord;
  int64_t group;
  int64_t groups;
  int64_t wordsPerGroup;
  int64_t wordsPerRow;
  /// Whether no word holds codes of two groups.
  bool wholeWords;
  /// The top bits of the codes of a word.
  uint32_t signs;
};

Error packCodes(plan::InterleavedCodesAttr packing, const TensorView &codes,
                const TensorView &scales, ByteSink sink) {
  CodePacker packer(packing, codes, scales);
  std::vector<uint8_t> tile(packing.getTileBytes());
  for (int64_t first = 0; first < packing.getOutputs(); first += kTile) {
    int64_t live = std::min(kTile, packing.getOutputs() - first);
    if (live < kTile)
      llvm::fill(tile, 0);
    if (Error error = packer.packTile(first, live, tile.data()))
      return error;
    if (Error error = sink(tile))
      return error;
  }
  return Error::success();
}

/// An error at an entry of \p matrix that is not finite.
Error refuseNumber(const TensorView &matrix, int64_t row, int64_t column,
                   int64_t columns) {
  return createStringError(
      describe(matrix) + " at [" + Twine(row) + ", " + Twine(column) + "] is " +
      std::to_string(loadFloat(matrix, row * columns + column)) +
      ", expected a finite number");
}

/// A row of a bf16 matrix, rounded as `#plan.search_codes` says.
class RoundedRow {
public:
  explicit RoundedRow(int64_t columns) : numbers(columns), codes(columns) {}

  /// Rounds row \p row of \p matrix. Errors: numbers that are none.
  Error round(const TensorView &matrix, int64_t row) {
    auto columns = static_cast<int64_t>(numbers.size());
    float largest = 0;
    for (int64_t column = 0; column < columns; ++column) {
      int64_t entry = row * columns + column;
      if (!isFinite(matrix, entry))
        return refuseNumber(matrix, row, column, columns);
      numbers[column] = loadFloat(matrix, entry);
      largest = std::max(largest, std::abs(numbers[column]));
    }
    rowScale = largest / kMostCode;
    // A row so small that its scale is none is zero, and its error all of it.
    float reciprocal = rowScale > 0 ? 1 / rowScale : 0;
    if (!std::isfinite(reciprocal))
      rowScale = reciprocal = 0;
    for (int64_t column = 0; column < columns; ++column)
      codes[column] = static_cast<int8_t>(std::clamp(
          std::nearbyint(numbers[column] * reciprocal), -kMostCode, kMostCode));
    return Error::success();
  }

  float scale() const { return rowScale; }
  /// The code of \p column; zero where there is no such column.
  int8_t code(int64_t column) const {
    return column < static_cast<int64_t>(codes.size()) ? codes[column] : 0;
  }

  /// The number of `#plan.search_errors`.
  float error() const {
    double exact = 0, rounded = 0, difference = 0;
    for (auto [number, code] : zip_equal(numbers, codes)) {
      double value = double(rowScale) * code;
      exact += double(number) * number;
      rounded += value * value;
      difference += (number - value) * (number - value);
    }
    double columns = double(numbers.size());
    double gamma = 2.5 * (columns + 32) * 0x1p-24;
    double bound = std::sqrt(difference) + gamma * std::sqrt(exact) +
                   (0x1p-11 + 0x1p-20) * std::sqrt(rounded);
    // Rounded up, and so much that the sums above may have been rounded, too.
    return static_cast<float>(bound * (1 + 0x1p-20));
  }

private:
  static constexpr float kMostCode = 127;
  std::vector<float> numbers;
  std::vector<int8_t> codes;
  float rowScale = 0;
};

Error packSearchCodes(plan::SearchCodesAttr packing, const TensorView &matrix,
                      ByteSink sink) {
  RoundedRow row(packing.getColumns());
  std::vector<uint8_t> tile(packing.getTileBytes());
  for (int64_t first = 0; first < packing.getOutputs(); first += kTile) {
    // What is no number multiplies zeros; on a processor codes have no sign.
    llvm::fill(tile, packing.getFragments() ? 0 : 128);
    int64_t live = std::min(kTile, packing.getOutputs() - first);
    for (int64_t lane = 0; lane < live; ++lane) {
      if (Error error = row.round(matrix, first + lane))
        return error;
      for (int64_t column = 0; column < packing.getColumns(); ++column) {
        auto code = static_cast<uint8_t>(row.code(column));
        if (!packing.getFragments()) {
          tile[column / 4 * 64 + lane * 4 + column % 4] = code ^ 0x80;
          continue;
        }
        int64_t inStep = column % 32;
        int64_t word = inStep / 16 * 2 + lane / 8;
        tile[column / 32 * 512 + (lane % 8 * 4 + inStep % 16 / 4) * 16 +
             word * 4 + inStep % 4] = code;
      }
    }
    if (Error error = sink(tile))
      return error;
  }
  return Error::success();
}

/// Writes \p number of every rounded row.
Error packRowNumbers(int64_t outputs, int64_t columns, const TensorView &matrix,
                     function_ref<float(const RoundedRow &)> number,
                     ByteSink sink) {
  RoundedRow row(columns);
  std::vector<uint8_t> tile(kTile * 4);
  for (int64_t first = 0; first < outputs; first += kTile) {
    llvm::fill(tile, 0);
    for (int64_t lane = 0; lane < std::min(kTile, outputs - first); ++lane) {
      if (Error error = row.round(matrix, first + lane))
        return error;
      storeFloat(tile.data(), lane, number(row));
    }
    if (Error error = sink(tile))
      return error;
  }
  return Error::success();
}

/// Writes the codes of output \p row of a tile as `#plan.rounded_rows` says.
Error packRoundedRow(plan::RoundedRowsAttr packing, const TensorView &matrix,
                     int64_t row, int64_t lane, uint8_t *tile) {
  int64_t columns = packing.getColumns(), size = packing.getGroup();
  constexpr int64_t scaleBytes = kTile * 2, blockColumns = 64, blockBytes = 512;
  for (int64_t first = 0; first < columns; first += size) {
    uint8_t *group = tile + first / size * packing.getGroupBytes();
    float largest = 0;
    for (int64_t k = first; k < first + size; ++k) {
      if (!isFinite(matrix, row * columns + k))
        return refuseNumber(matrix, row, k, columns);
      float number = loadFloat(matrix, row * columns + k);
      if (std::abs(number) > std::abs(largest))
        largest = number;
    }
    // To the nearest bf16, the even one of two.
    auto bits = bit_cast<uint32_t>(largest / -8);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    auto scale = bit_cast<float>(bits);
    store<uint16_t>(group, lane % 8 * 2 + lane / 8,
                    static_cast<uint16_t>(bits >> 16));
    for (int64_t k = 0; k < size; ++k) {
      float number = loadFloat(matrix, row * columns + first + k);
      float code = scale == 0 ? 0 : std::nearbyint(number / scale);
      auto biased = static_cast<uint8_t>(std::clamp(code, -8.0f, 7.0f) + 8);
      int64_t inBlock = k % blockColumns, inStep = inBlock % 32;
      int64_t word = inBlock / 32 * 2 + lane / 8;
      int64_t place = scaleBytes + k / blockColumns * blockBytes +
                      (lane % 8 * 4 + inStep % 16 / 4) * 16 + word * 4 +
                      inStep % 4;
      group[place] |= biased << (inStep / 16 * 4);
    }
  }
  return Error::success();
}

Error packRoundedRows(plan::RoundedRowsAttr packing, const TensorView &matrix,
                      ByteSink sink) {
  std::vector<uint8_t> tile(packing.getTileBytes());
  for (int64_t first = 0; first < packing.getOutputs(); first += kTile) {
    llvm::fill(tile, 0);
    int64_t live = std::min(kTile, packing.getOutputs() - first);
    for (int64_t lane = 0; lane < live; ++lane)
      if (Error error =
              packRoundedRow(packing, matrix, first + lane, lane, tile.data()))
        return error;
    if (Error error = sink(tile))
      return error;
  }
  return Error::success();
}

Error packRows(plan::RowsAttr packing, const TensorView &matrix,
               ByteSink sink) {
  int64_t columnBytes =
      packing.getColumns() * models::getByteWidth(matrix.dtype);
  std::vector<uint8_t> row(packing.getRowBytes());
  for (int64_t output = 0; output < packing.getOutputs(); ++output) {
    std::memcpy(row.data(), matrix.bytes.data() + output * columnBytes,
                columnBytes);
    if (Error error = sink(row))
      return error;
  }
  return Error::success();
}

/// Packs the codes of `#lm.grouped` with their scales as operands of tensor
/// cores.
class FragmentPacker {
public:
  FragmentPacker(plan::FragmentCodesAttr packing, const TensorView &codes,
                 const TensorView &scales)
      : packing(packing), codes(codes), scales(scales),
        bits(static_cast<uint32_t>(packing.getBits())), perWord(32 / bits),
        group(packing.getGroup()), groups(packing.getColumns() / group),
        groupSteps(packing.getGroupSteps()),
        wordsPerRow(divideCeil(packing.getColumns(), perWord)),
        unitWords(packing.getUnitWords()), vector(unitWords % 4 == 0   ? 4
                                                  : unitWords % 2 == 0 ? 2
                                                                       : 1) {}

  /// Writes outputs from \p first on into \p tile, which has been filled with
  /// zeros.
  Error packTile(int64_t first, uint8_t *tile) const {
    for (int64_t unit = 0; unit < packing.getUnits(); ++unit) {
      uint8_t *record = tile + unit * packing.getUnitBytes();
      if (Error error = packScales(first, unit, record))
        return error;
      uint8_t *words = record + packing.getScaleBytes();
      for (int64_t lane = 0; lane < 32; ++lane)
        for (int64_t word = 0; word < unitWords; ++word)
          store<uint32_t>(words,
                          word / vector * vector * 32 + lane * vector +
                              word % vector,
                          makeWord(first, unit, lane, word));
    }
    return Error::success();
  }

private:
  Error packScales(int64_t first, int64_t unit, uint8_t *record) const {
    int64_t width = models::getByteWidth(scales.dtype);
    int64_t unitGroups = packing.getUnitGroups();
    // A scale, and maybe the zero point behind it, which go to two blocks.
    int64_t kinds = packing.getScalesPerGroup();
    for (int64_t lane = 0; lane < kTile; ++lane)
      for (int64_t part = 0; part < unitGroups; ++part) {
        int64_t row = first + lane;
        int64_t index = unit * packing.getUnitSteps() / groupSteps + part;
        if (row >= packing.getOutputs() || index >= groups)
          continue;
        for (int64_t kind = 0; kind < kinds; ++kind) {
          int64_t column = index * kinds + kind;
          if (Error error = checkScale(scales, row, column, groups * kinds))
            return error;
          // Output g, then output g + 8.
          int64_t place =
              (kind * kTile + lane % 8 * 2 + lane / 8) * unitGroups + part;
          std::memcpy(record + place * width,
                      scales.bytes.data() +
                          (row * groups * kinds + column) * width,
                      width);
        }
      }
    return Error::success();
  }

  /// Word \p word of lane \p lane in unit \p unit.
  uint32_t makeWord(int64_t first, int64_t unit, int64_t lane,
                    int64_t word) const {
    int64_t wordsPerStep = bits / 4;
    int64_t step = unit * packing.getUnitSteps() + word / wordsPerStep;
    // The registers that this word holds, each two columns.
    int64_t begin = bits == 4 ? 0 : word % wordsPerStep * 2;
    int64_t end = bits == 4 ? 4 : begin + 2;
    uint32_t result = 0;
    for (int64_t i = begin; i < end; ++i) {
      int64_t row = first + lane / 4 + i % 2 * 8;
      int64_t inStep = lane % 4 * 2 + i / 2 * 8;
      for (int64_t half = 0; half < 2; ++half) {
        uint32_t place =
            bits == 4 ? 4 * i + 16 * half : 16 * (i - begin) + 8 * half;
        result |= getCode(row, step, inStep + half) << place;
      }
    }
    return result;
  }

  /// The code of column \p inStep of step \p step; that of zero where there is
  /// none.
  uint32_t getCode(int64_t row, int64_t step, int64_t inStep) const {
    int64_t inGroup = step % groupSteps * 16 + inStep;
    int64_t column = step / groupSteps * group + inGroup;
    if (row >= packing.getOutputs() || inGroup >= group ||
        column >= packing.getColumns())
      return 1u << (bits - 1);
    uint32_t word = load<uint32_t>(codes.bytes.data(),
                                   row * wordsPerRow + column / perWord);
    return word >> (column % perWord * bits) & maskTrailingOnes<uint32_t>(bits);
  }

  plan::FragmentCodesAttr packing;
  const TensorView &codes;
  const TensorView &scales;
  uint32_t bits;
  /// Codes in a word, columns in a group, groups in a row, steps in a group.
  int64_t perWord;
  int64_t group;
  int64_t groups;
  int64_t groupSteps;
  int64_t wordsPerRow;
  /// Words of a lane in a unit, and how many of them lie side by side.
  int64_t unitWords;
  int64_t vector;
};

Error packFragments(plan::FragmentCodesAttr packing, const TensorView &codes,
                    const TensorView &scales, ByteSink sink) {
  FragmentPacker packer(packing, codes, scales);
  std::vector<uint8_t> tile(packing.getUnits() * packing.getUnitBytes());
  for (int64_t first = 0; first < packing.getOutputs(); first += kTile) {
    llvm::fill(tile, 0);
    if (Error error = packer.packTile(first, tile.data()))
      return error;
    if (Error error = sink(tile))
      return error;
  }
  return Error::success();
}

Error packVector(const TensorView &vector, ByteSink sink) {
  std::vector<uint8_t> bytes(vector.getNumElements() * 4);
  for (int64_t index = 0; index < vector.getNumElements(); ++index)
    storeFloat(bytes.data(), index, loadFloat(vector, index));
  return sink(bytes);
}

Error packTaps(plan::TapsAttr packing, const TensorView &weights,
               ByteSink sink) {
  int64_t taps = packing.getTaps(), channels = packing.getChannels();
  std::vector<uint8_t> bytes(packing.getSizeInBytes());
  for (int64_t channel = 0; channel < channels; ++channel)
    for (int64_t tap = 0; tap < taps; ++tap)
      storeFloat(bytes.data(), tap * channels + channel,
                 loadFloat(weights, channel * taps + tap));
  return sink(bytes);
}

Error packRopeTable(plan::RopeTableAttr packing, ByteSink sink) {
  int64_t half = packing.getDims() / 2;
  std::vector<float> frequencies;
  double theta = packing.getTheta().getValueAsDouble();
  for (int64_t j = 0; j < half; ++j)
    frequencies.push_back(static_cast<float>(
        std::pow(theta, -2.0 * double(j) / double(packing.getDims()))));

  std::vector<uint8_t> row(packing.getDims() * 4);
  for (int64_t position = 0; position < packing.getPositions(); ++position) {
    for (int64_t j = 0; j < half; ++j) {
      float angle = static_cast<float>(position) * frequencies[j];
      storeFloat(row.data(), j, static_cast<float>(std::cos(double(angle))));
      storeFloat(row.data(), half + j,
                 static_cast<float>(std::sin(double(angle))));
    }
    if (Error error = sink(row))
      return error;
  }
  return Error::success();
}

} // namespace

Error codegen::checkSources(plan::PackingAttrInterface packing,
                            ArrayRef<const TensorView *> sources) {
  if (static_cast<int64_t>(sources.size()) != packing.getSourceCount())
    return createStringError("expected " + Twine(packing.getSourceCount()) +
                             " tensors to pack, got " + Twine(sources.size()));
  return TypeSwitch<mlir::Attribute, Error>(packing)
      .Case<plan::InterleavedAttr, plan::RowsAttr>([&](auto dense) {
        return expectTensor(*sources[0], getDType(dense.getElement()),
                            {dense.getOutputs(), dense.getColumns()});
      })
      .Case<plan::SearchCodesAttr, plan::SearchScalesAttr,
            plan::SearchErrorsAttr>([&](auto search) {
        return expectTensor(*sources[0], DType::BF16,
                            {search.getOutputs(), search.getColumns()});
      })
      .Case<plan::InterleavedCodesAttr, plan::FragmentCodesAttr>(
          [&](auto grouped) -> Error {
            int64_t words =
                divideCeil(grouped.getColumns(), 32 / grouped.getBits());
            if (Error error = expectTensor(*sources[0], DType::I32,
                                           {grouped.getOutputs(), words}))
              return error;
            int64_t scales = grouped.getColumns() / grouped.getGroup() *
                             grouped.getScalesPerGroup();
            return expectTensor(*sources[1], getDType(grouped.getScale()),
                                {grouped.getOutputs(), scales});
          })
      .Case([&](plan::RoundedRowsAttr rounded) -> Error {
        const TensorView &matrix = *sources[0];
        if (matrix.dtype == DType::BF16 && matrix.shape.size() == 2 &&
            matrix.shape[0] >= rounded.getOutputs() &&
            matrix.shape[1] == rounded.getColumns())
          return Error::success();
        return refuse(matrix, "BF16 with at least " +
                                  Twine(rounded.getOutputs()) + " rows of " +
                                  Twine(rounded.getColumns()));
      })
      .Case([&](plan::VectorAttr vector) -> Error {
        if (isFloat(sources[0]->dtype) &&
            sources[0]->getNumElements() == vector.getLength())
          return Error::success();
        return refuse(*sources[0], "F32, BF16 or F16 with " +
                                       Twine(vector.getLength()) + " entries");
      })
      .Case([&](plan::TapsAttr taps) -> Error {
        int64_t shape[] = {taps.getChannels(), 1, taps.getTaps()};
        if (isFloat(sources[0]->dtype) &&
            ArrayRef<int64_t>(sources[0]->shape) == ArrayRef<int64_t>(shape))
          return Error::success();
        return refuse(*sources[0], "F32, BF16 or F16 " + toText(shape));
      })
      .Case([](plan::RopeTableAttr) { return Error::success(); });
}

Error codegen::packWeight(plan::PackingAttrInterface packing,
                          ArrayRef<const TensorView *> sources, ByteSink sink) {
  return TypeSwitch<mlir::Attribute, Error>(packing)
      .Case([&](plan::InterleavedAttr dense) {
        return packInterleaved(dense, *sources[0], sink);
      })
      .Case([&](plan::InterleavedCodesAttr grouped) {
        return packCodes(grouped, *sources[0], *sources[1], sink);
      })
      .Case([&](plan::RowsAttr dense) {
        return packRows(dense, *sources[0], sink);
      })
      .Case([&](plan::FragmentCodesAttr grouped) {
        return packFragments(grouped, *sources[0], *sources[1], sink);
      })
      .Case([&](plan::SearchCodesAttr search) {
        return packSearchCodes(search, *sources[0], sink);
      })
      .Case([&](plan::SearchScalesAttr search) {
        return packRowNumbers(
            search.getOutputs(), search.getColumns(), *sources[0],
            [](const RoundedRow &row) { return row.scale(); }, sink);
      })
      .Case([&](plan::SearchErrorsAttr search) {
        return packRowNumbers(
            search.getOutputs(), search.getColumns(), *sources[0],
            [](const RoundedRow &row) { return row.error(); }, sink);
      })
      .Case([&](plan::RoundedRowsAttr rounded) {
        return packRoundedRows(rounded, *sources[0], sink);
      })
      .Case([&](plan::VectorAttr) { return packVector(*sources[0], sink); })
      .Case([&](plan::TapsAttr taps) {
        return packTaps(taps, *sources[0], sink);
      })
      .Case(
          [&](plan::RopeTableAttr rope) { return packRopeTable(rope, sink); });
}
