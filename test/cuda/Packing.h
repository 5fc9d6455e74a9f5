//===- Packing.h - The layouts of weights, from their drawings ------------===//
//
// Written from the drawing of #plan.fragment_codes in PlanAttrs.td and nothing
// else: the judge of codegen/WeightPacker.cpp, and what checks on a GPU use.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_CUDA_PACKING_H
#define TANDEM_TEST_CUDA_PACKING_H

#include "test/cuda/Numbers.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tandem::gpucheck {

/// Sizes of #plan.fragment_codes.
struct Fragments {
  int64_t outputs, columns, bits, group;
  /// Bytes of a scale.
  int64_t scaleWidth;
  bool zeroPoints = false;

  int64_t groupSteps() const { return (group + 15) / 16; }
  int64_t unitSteps() const {
    if (8 % groupSteps() == 0)
      return 8;
    for (int64_t steps = 8;; --steps)
      if (groupSteps() % steps == 0)
        return steps;
  }
  int64_t unitGroups() const {
    return 8 % groupSteps() == 0 ? 8 / groupSteps() : 1;
  }
  int64_t steps() const { return columns / group * groupSteps(); }
  int64_t units() const { return (steps() + unitSteps() - 1) / unitSteps(); }
  int64_t words() const { return unitSteps() * bits / 4; }
  /// Where the zero points are, behind the scales.
  int64_t zeroOffset() const { return 16 * unitGroups() * scaleWidth; }
  int64_t scaleBytes() const { return zeroOffset() * (zeroPoints ? 2 : 1); }
  int64_t unitBytes() const { return scaleBytes() + words() * 32 * 4; }
  int64_t tiles() const { return (outputs + 15) / 16; }
  int64_t bytes() const { return tiles() * units() * unitBytes(); }

  /// Where the scale of \p output and \p group is.
  int64_t scaleOffset(int64_t output, int64_t index) const {
    int64_t unit = index * groupSteps() / unitSteps();
    int64_t inUnit = index * groupSteps() % unitSteps() / groupSteps();
    return unitOffset(output, unit) + scalePlace(output, inUnit);
  }
  int64_t scalePlace(int64_t output, int64_t inUnit) const {
    return ((output % 8 * 2 + output % 16 / 8) * unitGroups() + inUnit) *
           scaleWidth;
  }
  int64_t unitOffset(int64_t output, int64_t unit) const {
    return (output / 16 * units() + unit) * unitBytes();
  }

  /// Word and bit of the code at \p output and \p column: byte offset of the
  /// word, lowest bit.
  struct Place {
    int64_t offset;
    int64_t bit;
  };
  Place codePlace(int64_t output, int64_t column) const {
    int64_t inGroup = column % group;
    int64_t step = column / group * groupSteps() + inGroup / 16;
    int64_t k = inGroup % 16;
    // Register i of lane 4 g + t; k = 2 t + 8 (i / 2) + half.
    int64_t lane = output % 8 * 4 + k % 8 / 2;
    int64_t i = k / 8 * 2 + output % 16 / 8, half = k % 2;
    int64_t word = step % unitSteps() * (bits / 4), bit = 0;
    if (bits == 4) {
      bit = 4 * i + 16 * half;
    } else {
      word += i / 2;
      bit = 16 * (i % 2) + 8 * half;
    }
    int64_t vector = words() % 4 == 0 ? 4 : words() % 2 == 0 ? 2 : 1;
    int64_t index = word / vector * vector * 32 + lane * vector + word % vector;
    return {unitOffset(output, step / unitSteps()) + scaleBytes() + index * 4,
            bit};
  }
};

/// \p codes are those of a checkpoint (value plus 2^(bits-1)), \p scales and
/// \p zeros raw bytes, all row after row.
inline std::vector<uint8_t>
packFragments(const Fragments &sizes, const std::vector<uint8_t> &codes,
              const std::vector<uint8_t> &scales,
              const std::vector<uint8_t> &zeros = {}) {
  std::vector<uint8_t> bytes(sizes.bytes());
  int64_t groups = sizes.columns / sizes.group;
  for (int64_t output = 0; output < sizes.outputs; ++output) {
    for (int64_t unit = 0; unit < sizes.units(); ++unit)
      for (int64_t part = 0; part < sizes.unitGroups(); ++part) {
        int64_t index = unit * sizes.unitSteps() / sizes.groupSteps() + part;
        if (index >= groups)
          continue;
        uint8_t *to = bytes.data() + sizes.unitOffset(output, unit) +
                      sizes.scalePlace(output, part);
        int64_t from = (output * groups + index) * sizes.scaleWidth;
        std::memcpy(to, scales.data() + from, sizes.scaleWidth);
        if (sizes.zeroPoints)
          std::memcpy(to + sizes.zeroOffset(), zeros.data() + from,
                      sizes.scaleWidth);
      }
    for (int64_t column = 0; column < sizes.columns; ++column) {
      auto [offset, bit] = sizes.codePlace(output, column);
      uint32_t word;
      std::memcpy(&word, bytes.data() + offset, 4);
      word |= uint32_t(codes[output * sizes.columns + column]) << bit;
      std::memcpy(bytes.data() + offset, &word, 4);
    }
  }
  return bytes;
}

/// #plan.rows: \p width bytes a number.
inline std::vector<uint8_t> packRows(const void *matrix, int64_t outputs,
                                     int64_t columns, int64_t width) {
  int64_t rowBytes = (columns * width + 15) / 16 * 16;
  std::vector<uint8_t> bytes(outputs * rowBytes);
  for (int64_t output = 0; output < outputs; ++output)
    std::memcpy(bytes.data() + output * rowBytes,
                static_cast<const uint8_t *>(matrix) + output * columns * width,
                columns * width);
  return bytes;
}

/// A matrix as #plan.search_codes, with fragments or without,
/// #plan.search_scales and #plan.search_errors.
struct Searched {
  std::vector<uint8_t> codes;
  std::vector<float> scales, errors;
};

inline Searched packSearched(const std::vector<uint16_t> &matrix,
                             int64_t outputs, int64_t columns,
                             bool fragments = true) {
  int64_t tiles = (outputs + 15) / 16;
  int64_t steps = (columns + (fragments ? 31 : 3)) / (fragments ? 32 : 4);
  // What has no sign is zero at 128.
  Searched packed = {
      std::vector<uint8_t>(tiles * steps * (fragments ? 512 : 64),
                           fragments ? 0 : 128),
      std::vector<float>(tiles * 16), std::vector<float>(tiles * 16)};
  parallelFor(outputs, [&](int64_t output) {
    auto entry = [&](int64_t k) {
      return fromBf16(matrix[output * columns + k]);
    };
    float largest = 0;
    for (int64_t k = 0; k < columns; ++k)
      largest = std::fmax(largest, std::fabs(entry(k)));
    float scale = largest / 127;
    if (!(scale > 0) || !std::isfinite(1 / scale))
      scale = 0;
    double length = 0, rounded = 0, difference = 0;
    for (int64_t k = 0; k < columns; ++k) {
      float code = scale > 0 ? std::nearbyint(entry(k) * (1 / scale)) : 0;
      code = std::fmin(std::fmax(code, -127.0f), 127.0f);
      double value = double(scale) * code;
      length += double(entry(k)) * entry(k);
      rounded += value * value;
      difference += (entry(k) - value) * (entry(k) - value);
      if (!fragments) {
        packed.codes[((output / 16 * steps + k / 4) * 16 + output % 16) * 4 +
                     k % 4] = uint8_t(int(code) + 128);
        continue;
      }
      int64_t inStep = k % 32, lane = output % 8 * 4 + inStep % 16 / 4;
      int64_t word = output % 16 / 8 + inStep / 16 * 2;
      packed.codes[((output / 16 * steps + k / 32) * 32 + lane) * 16 +
                   word * 4 + inStep % 4] = uint8_t(int8_t(code));
    }
    double gamma = 2.5 * double(columns + 32) * 0x1p-24;
    packed.scales[output] = scale;
    packed.errors[output] =
        float((std::sqrt(difference) + gamma * std::sqrt(length) +
               (0x1p-11 + 0x1p-20) * std::sqrt(rounded)) *
              (1 + 0x1p-20));
  });
  return packed;
}

/// A matrix as #plan.rounded_rows, and what it then says.
struct Rounded {
  std::vector<uint8_t> packed;
  std::vector<float> values;
};

inline Rounded packRounded(const std::vector<uint16_t> &matrix, int64_t outputs,
                           int64_t columns, int64_t group) {
  int64_t tiles = (outputs + 15) / 16, groups = columns / group;
  int64_t groupBytes = 32 + group * 8;
  Rounded rounded = {std::vector<uint8_t>(tiles * groups * groupBytes),
                     std::vector<float>(outputs * columns)};
  parallelFor(outputs, [&](int64_t output) {
    for (int64_t index = 0; index < groups; ++index) {
      uint8_t *to =
          rounded.packed.data() + (output / 16 * groups + index) * groupBytes;
      int64_t first = output * columns + index * group;
      float largest = 0;
      for (int64_t k = 0; k < group; ++k)
        if (std::fabs(fromBf16(matrix[first + k])) > std::fabs(largest))
          largest = fromBf16(matrix[first + k]);
      Bf16 bits = toBf16(largest / -8);
      float scale = fromBf16(bits);
      std::memcpy(to + (output % 8 * 2 + output % 16 / 8) * 2, &bits, 2);
      for (int64_t k = 0; k < group; ++k) {
        float code = scale == 0
                         ? 0
                         : std::nearbyint(fromBf16(matrix[first + k]) / scale);
        code = std::fmin(std::fmax(code, -8.0f), 7.0f);
        rounded.values[first + k] = scale * code;
        int64_t step = k / 32, inStep = k % 32;
        int64_t lane = output % 8 * 4 + inStep % 16 / 4;
        int64_t word = step % 2 * 2 + output % 16 / 8;
        to[32 + step / 2 * 512 + lane * 16 + word * 4 + inStep % 4] |=
            uint8_t(code + 8) << (inStep / 16 * 4);
      }
    }
  });
  return rounded;
}

} // namespace tandem::gpucheck

#endif // TANDEM_TEST_CUDA_PACKING_H
