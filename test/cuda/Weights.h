//===- Weights.h - Random weights of linear layers ------------------------===//

#ifndef TANDEM_TEST_CUDA_WEIGHTS_H
#define TANDEM_TEST_CUDA_WEIGHTS_H

#include "test/cuda/Numbers.h"
#include "test/cuda/Packing.h"

#include <cmath>
#include <string>

namespace tandem::gpucheck {

/// Type of weights or scales.
struct Element {
  std::string name;
  int64_t width;
};
inline const Element kBf16 = {"bf16", 2}, kF16 = {"f16", 2}, kF32 = {"f32", 4};

/// Random numbers of a type: raw bytes, and what they say.
struct Numbers {
  std::vector<uint8_t> bytes;
  std::vector<float> values;

  Numbers(const Element &element, int64_t count, uint64_t seed, float scale)
      : bytes(count * element.width), values(count) {
    Random random(seed);
    parallelFor(count, [&](int64_t i) {
      float value = random.normal(i) * scale;
      if (element.name == "bf16") {
        Bf16 bits = toBf16(value);
        std::memcpy(bytes.data() + i * 2, &bits, 2);
        value = fromBf16(bits);
      } else if (element.name == "f16") {
        // Any bits below those of infinity.
        uint16_t bits = uint16_t(random.bits(i) & 0x83ff) | 0x2000 |
                        uint16_t(random.bits(i) >> 20 & 0x0c00);
        std::memcpy(bytes.data() + i * 2, &bits, 2);
        value = fromHalf(bits);
      } else {
        std::memcpy(bytes.data() + i * 4, &value, 4);
      }
      values[i] = value;
    });
  }
};

/// A weight as the kernels read it, and its numbers, row after row.
struct Weight {
  std::vector<uint8_t> packed;
  std::vector<float> values;
};

/// What codes mean.
enum class CodeKind { Integers, ZeroPoints, Floats };

/// The f8E4M3FN \p bits, which are a number.
inline float fromFloat8(uint8_t bits) {
  int exponent = bits >> 3 & 15, fraction = bits & 7;
  float size = exponent ? std::ldexp(float(8 + fraction), exponent - 10)
                        : std::ldexp(float(fraction), -9);
  return bits & 0x80 ? -size : size;
}

inline Weight makeCodes(int64_t outputs, int64_t columns, int64_t bits,
                        int64_t group, const Element &scale, uint64_t seed,
                        CodeKind kind = CodeKind::Integers) {
  std::vector<uint8_t> codes(outputs * columns);
  Random random(seed);
  parallelFor(outputs * columns, [&](int64_t i) {
    codes[i] = uint8_t(random.bits(i) >> 7 & ((1 << bits) - 1));
    // Numbers of about the size of integers' codes, and none that is not one.
    if (kind == CodeKind::Floats && (codes[i] & 0x7f) >= 0x68)
      codes[i] &= 0x87;
  });
  int64_t groups = columns / group;
  Numbers scales(scale, outputs * groups, seed + 1, 0.02f);
  // Whole numbers of the type of the scales.
  bool hasZeros = kind == CodeKind::ZeroPoints;
  std::vector<uint8_t> zeros(hasZeros ? outputs * groups * scale.width : 0);
  std::vector<float> zeroValues(outputs * groups);
  for (int64_t i = 0; hasZeros && i < outputs * groups; ++i) {
    float zero = float(int64_t(random.bits(i) >> 9 & ((1 << bits) - 1)) -
                       (1 << (bits - 1)));
    zeroValues[i] = zero;
    uint32_t word;
    std::memcpy(&word, &zero, 4);
    Bf16 half = toBf16(zero);
    if (scale.width == 4)
      std::memcpy(zeros.data() + i * 4, &word, 4);
    else
      std::memcpy(zeros.data() + i * 2, &half, 2);
  }
  std::vector<float> values(outputs * columns);
  parallelFor(outputs, [&](int64_t output) {
    for (int64_t k = 0; k < columns; ++k)
      values[output * columns + k] =
          (kind == CodeKind::Floats
               ? fromFloat8(codes[output * columns + k])
               : float(codes[output * columns + k] - (1 << (bits - 1))) -
                     zeroValues[output * groups + k / group]) *
          scales.values[output * groups + k / group];
  });
  Fragments sizes = {outputs, columns, bits, group, scale.width, hasZeros};
  return {packFragments(sizes, codes, scales.bytes, zeros), std::move(values)};
}

inline Weight makeDense(int64_t outputs, int64_t columns,
                        const Element &element, uint64_t seed) {
  Numbers numbers(element, outputs * columns, seed, 0.05f);
  return {packRows(numbers.bytes.data(), outputs, columns, element.width),
          std::move(numbers.values)};
}

/// x times the transposed \p weight for the first \p rows rows.
inline std::vector<double> multiply(const std::vector<Bf16> &x,
                                    const std::vector<float> &weight,
                                    int64_t rows, int64_t outputs,
                                    int64_t columns) {
  std::vector<float> numbers = toFloats(x);
  std::vector<double> y(rows * outputs);
  parallelFor(outputs, [&](int64_t output) {
    const float *w = weight.data() + output * columns;
    for (int64_t row = 0; row < rows; ++row) {
      const float *from = numbers.data() + row * columns;
      double sums[4] = {};
      int64_t k = 0;
      for (; k + 4 <= columns; k += 4)
        for (int64_t i = 0; i < 4; ++i)
          sums[i] += double(from[k + i]) * w[k + i];
      for (; k < columns; ++k)
        sums[0] += double(from[k]) * w[k];
      y[row * outputs + output] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
  });
  return y;
}

} // namespace tandem::gpucheck

#endif // TANDEM_TEST_CUDA_WEIGHTS_H
