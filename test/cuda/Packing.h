//===- Packing.h - The layouts of weights, from their drawings ------------===//
//
// Written from the drawing of #plan.fragment_codes in PlanAttrs.td and nothing
// else: the judge of codegen/WeightPacker.cpp, and what checks on a GPU use.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_CUDA_PACKING_H
#define TANDEM_TEST_CUDA_PACKING_H

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

} // namespace tandem::gpucheck

#endif // TANDEM_TEST_CUDA_PACKING_H
