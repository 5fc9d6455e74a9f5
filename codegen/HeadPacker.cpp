//===- HeadPacker.cpp - Heads that are rounded ----------------------------===//

#include "codegen/HeadPacker.h"
#include "codegen/TensorElements.h"
#include "dialects/plan/KernelFamilies.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;
using namespace tandem;
using namespace tandem::codegen;
using models::TensorView;
using plan::kTile;

namespace {

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

/// A group of columns of one output, rounded to codes of 4 bits as `rounding`
/// of `lm.head_argmax` says.
class RoundedGroup {
public:
  explicit RoundedGroup(int64_t columns) : codes(columns) {}

  /// Rounds the columns of row \p row of \p matrix from \p first on. Errors:
  /// numbers that are none.
  Error round(const TensorView &matrix, int64_t row, int64_t first) {
    int64_t columns = matrix.shape[1], begin = row * columns + first;
    float largest = 0;
    for (int64_t k = 0; k < size(); ++k) {
      if (!isFinite(matrix, begin + k))
        return refuseNumber(matrix, row, first + k, columns);
      float number = loadFloat(matrix, begin + k);
      if (std::abs(number) > std::abs(largest))
        largest = number;
    }
    // To the nearest bf16, the even one of two.
    auto bits = bit_cast<uint32_t>(largest / -8);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    auto scale = bit_cast<float>(bits);
    scaleBits = static_cast<uint16_t>(bits >> 16);
    for (int64_t k = 0; k < size(); ++k) {
      float number = loadFloat(matrix, begin + k);
      float code = scale == 0 ? 0 : std::nearbyint(number / scale);
      codes[k] = static_cast<int8_t>(std::clamp(code, -8.0f, 7.0f));
    }
    return Error::success();
  }

  int64_t size() const { return static_cast<int64_t>(codes.size()); }
  /// The scale, a bf16.
  uint16_t scale() const { return scaleBits; }
  int8_t code(int64_t column) const { return codes[column]; }

private:
  std::vector<int8_t> codes;
  uint16_t scaleBits = 0;
};

/// Rounds all of \p matrix tile by tile. \p place puts a group where it belongs
/// in a tile that has been filled with zeros; it is given the group, its
/// number, and which of the 16 outputs it is of.
Error packRounded(int64_t outputs, int64_t columns, int64_t size,
                  int64_t tileBytes, const TensorView &matrix,
                  function_ref<void(const RoundedGroup &, int64_t index,
                                    int64_t lane, uint8_t *tile)>
                      place,
                  ByteSink sink) {
  RoundedGroup group(size);
  std::vector<uint8_t> tile(tileBytes);
  for (int64_t first = 0; first < outputs; first += kTile) {
    llvm::fill(tile, 0);
    for (int64_t lane = 0; lane < std::min(kTile, outputs - first); ++lane)
      for (int64_t index = 0; index < columns / size; ++index) {
        if (Error error = group.round(matrix, first + lane, index * size))
          return error;
        place(group, index, lane, tile.data());
      }
    if (Error error = sink(tile))
      return error;
  }
  return Error::success();
}

} // namespace

Error codegen::packSearchCodes(plan::SearchCodesAttr packing,
                               const TensorView &matrix, ByteSink sink) {
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

Error codegen::packSearchScales(plan::SearchScalesAttr packing,
                                const TensorView &matrix, ByteSink sink) {
  return packRowNumbers(
      packing.getOutputs(), packing.getColumns(), matrix,
      [](const RoundedRow &row) { return row.scale(); }, sink);
}

Error codegen::packSearchErrors(plan::SearchErrorsAttr packing,
                                const TensorView &matrix, ByteSink sink) {
  return packRowNumbers(
      packing.getOutputs(), packing.getColumns(), matrix,
      [](const RoundedRow &row) { return row.error(); }, sink);
}

Error codegen::packRoundedRows(plan::RoundedRowsAttr packing,
                               const TensorView &matrix, ByteSink sink) {
  auto place = [&](const RoundedGroup &group, int64_t index, int64_t lane,
                   uint8_t *tile) {
    constexpr int64_t scaleBytes = kTile * 2, blockColumns = 64,
                      blockBytes = 512;
    uint8_t *to = tile + index * packing.getGroupBytes();
    store<uint16_t>(to, lane % 8 * 2 + lane / 8, group.scale());
    for (int64_t k = 0; k < group.size(); ++k) {
      auto biased = static_cast<uint8_t>(group.code(k) + 8);
      int64_t inBlock = k % blockColumns, inStep = inBlock % 32;
      int64_t word = inBlock / 32 * 2 + lane / 8;
      int64_t byte = scaleBytes + k / blockColumns * blockBytes +
                     (lane % 8 * 4 + inStep % 16 / 4) * 16 + word * 4 +
                     inStep % 4;
      to[byte] |= biased << (inStep / 16 * 4);
    }
  };
  return packRounded(packing.getOutputs(), packing.getColumns(),
                     packing.getGroup(), packing.getTileBytes(), matrix, place,
                     sink);
}

Error codegen::packRoundedCodes(plan::RoundedCodesAttr packing,
                                const TensorView &matrix, ByteSink sink) {
  plan::InterleavedCodesAttr codes = packing.getCodes();
  auto place = [&](const RoundedGroup &group, int64_t index, int64_t lane,
                   uint8_t *tile) {
    uint8_t *to = tile + index * codes.getGroupBytes();
    store<uint16_t>(to, lane, group.scale());
    uint8_t *words = to + codes.getScaleBytes();
    for (int64_t k = 0; k < group.size(); ++k)
      words[(k / 8 * kTile + lane) * 4 + k % 8 / 2] |= (group.code(k) & 15)
                                                       << (k % 2 * 4);
  };
  return packRounded(packing.getOutputs(), packing.getColumns(),
                     packing.getGroup(), codes.getTileBytes(), matrix, place,
                     sink);
}
