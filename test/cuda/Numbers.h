//===- Numbers.h - bf16, random numbers, all processors -------------------===//

#ifndef TANDEM_TEST_CUDA_NUMBERS_H
#define TANDEM_TEST_CUDA_NUMBERS_H

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

namespace tandem::gpucheck {

using Bf16 = uint16_t;

inline float fromBf16(Bf16 bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

/// The nearest bf16, the even one of two.
inline Bf16 toBf16(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x))
    return Bf16(bits >> 16 | 0x40);
  return Bf16((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float roundBf16(float x) { return fromBf16(toBf16(x)); }

/// A half that has no more digits than bf16 would hide: all halves are floats.
inline float fromHalf(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16;
  int exponent = bits >> 10 & 31;
  uint32_t mantissa = bits & 0x3ff;
  float value = exponent == 0
                    ? std::ldexp(float(mantissa), -24)
                    : std::ldexp(float(mantissa | 0x400), exponent - 25);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

/// Numbers that depend on their index alone, so that all processors can make
/// them.
class Random {
public:
  explicit Random(uint64_t seed) : seed(seed * 0x9e3779b97f4a7c15u + 1) {}

  uint64_t bits(uint64_t index) const {
    uint64_t x = seed + index * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
  }
  /// Between -1 and 1.
  float uniform(uint64_t index) const {
    return float(int64_t(bits(index) >> 40) - (1 << 23)) / float(1 << 23);
  }
  /// Roughly normal, variance 1.
  float normal(uint64_t index) const {
    float sum = 0;
    for (uint64_t i = 0; i < 4; ++i)
      sum += uniform(index * 4 + i);
    return sum * 0.866f;
  }

private:
  uint64_t seed;
};

/// Calls \p body(i) for all i below \p count, on all processors.
template <typename Body> void parallelFor(int64_t count, Body body) {
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  std::atomic<int64_t> next = 0;
  int64_t piece = std::max<int64_t>(1, count / (threads * 8));
  auto work = [&] {
    for (int64_t begin; (begin = next.fetch_add(piece)) < count;)
      for (int64_t i = begin; i < std::min(begin + piece, count); ++i)
        body(i);
  };
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < threads; ++i)
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();
}

/// \p count roughly normal numbers times \p scale, rounded to bf16.
inline std::vector<Bf16> randomBf16(int64_t count, uint64_t seed,
                                    float scale = 1) {
  std::vector<Bf16> values(count);
  Random random(seed);
  parallelFor(count,
              [&](int64_t i) { values[i] = toBf16(random.normal(i) * scale); });
  return values;
}

inline std::vector<float> randomFloat(int64_t count, uint64_t seed,
                                      float scale = 1) {
  std::vector<float> values(count);
  Random random(seed);
  parallelFor(count, [&](int64_t i) { values[i] = random.normal(i) * scale; });
  return values;
}

inline std::vector<float> toFloats(const std::vector<Bf16> &values) {
  std::vector<float> result(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    result[i] = fromBf16(values[i]);
  return result;
}

} // namespace tandem::gpucheck

#endif // TANDEM_TEST_CUDA_NUMBERS_H
