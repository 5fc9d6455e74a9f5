//===- KernelHarness.h - Compile kernels and call them ----------*- C++ -*-===//

#ifndef TANDEM_TEST_CODEGEN_CPU_KERNELHARNESS_H
#define TANDEM_TEST_CODEGEN_CPU_KERNELHARNESS_H

#include "codegen/cpu/CpuCompiler.h"
#include "runtime/KernelAbi.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace tandem::test {

/// Memory of an operand, aligned as the runtime's, between guards that are
/// checked when it dies.
class Buffer {
public:
  explicit Buffer(size_t bytes);
  Buffer(Buffer &&) = delete;
  ~Buffer();

  size_t size() const { return bytes; }
  std::byte *data() { return start; }
  /// A copy of the content.
  std::vector<std::byte> save() const { return {start, start + bytes}; }
  void restore(const std::vector<std::byte> &content) {
    std::copy(content.begin(), content.end(), start);
  }

private:
  static constexpr size_t guardBytes = 256;
  std::byte *block;
  std::byte *start;
  size_t bytes;
};

/// A buffer of `count` elements.
template <typename T> class Array : public Buffer {
public:
  explicit Array(size_t count, T value = T())
      : Buffer(count * sizeof(T)), count(count) {
    for (size_t i = 0; i < count; ++i)
      (*this)[i] = value;
  }
  Array(const std::vector<T> &values) : Array(values.size()) {
    if (!values.empty())
      std::memcpy(data(), values.data(), size());
  }
  size_t length() const { return count; }
  T &operator[](size_t i) { return reinterpret_cast<T *>(data())[i]; }

private:
  size_t count;
};

/// Numbers from a normal distribution, the same ones in every run.
class Random {
public:
  explicit Random(uint32_t seed = 1) : engine(seed) {}
  float number(float scale = 1.0f) {
    return std::normal_distribution<float>(0.0f, scale)(engine);
  }
  /// A number in [low, high].
  int64_t integer(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  }
  void fill(Array<float> &array, float scale = 1.0f) {
    for (size_t i = 0; i < array.length(); ++i)
      array[i] = number(scale);
  }

private:
  std::mt19937 engine;
};

/// Fills memory that a kernel must not touch, or must not read.
inline constexpr float poison = 12345.0f;

/// Kernels that are compiled together and loaded.
class Kernels {
public:
  explicit Kernels(std::string arch) : arch(std::move(arch)) {}
  ~Kernels();

  /// Adds `plan.kernel @symbol family {parameters}`; \p parameters as MLIR
  /// prints them, without the i64 of integers.
  void add(const std::string &symbol, const std::string &family,
           const std::map<std::string, std::string> &parameters);
  bool has(const std::string &symbol) const { return known.count(symbol); }
  /// Compiles and loads all.
  void compile();

  /// Runs \p items items of a kernel twice: at once, and in pieces, last
  /// piece first, which must leave the same bytes. Operands are written in
  /// place.
  void run(const std::string &symbol, const std::vector<Buffer *> &operands,
           int64_t rows, int64_t items);
  /// One call for items [begin, end).
  void call(const std::string &symbol, const std::vector<void *> &operands,
            int64_t rows, int64_t begin, int64_t end);

private:
  std::string arch;
  std::string text;
  std::map<std::string, TandemKernel> known;
  std::map<std::string, uint64_t> scratchBytes;
  void *handle = nullptr;
  int file = -1;
};

/// Loads an image; null with a test failure when that does not work.
void *loadImage(const std::vector<char> &image, int &file);

/// Expects two numbers to be near each other, relative to \p scale.
inline void expectNear(double expected, float got, double scale,
                       const std::string &what, double tolerance = 2e-6) {
  EXPECT_NEAR(expected, got, tolerance * (std::fabs(scale) + 1e-30)) << what;
}

/// The levels that tests run on: those of this processor.
std::vector<std::string> getTestedLevels();

/// Tests that run on every level.
class KernelTest : public testing::TestWithParam<std::string> {
protected:
  KernelTest() : kernels(GetParam()) {}
  Kernels kernels;
  Random random;
};

#define TANDEM_TEST_ALL_LEVELS(Name)                                           \
  INSTANTIATE_TEST_SUITE_P(Levels, Name,                                       \
                           testing::ValuesIn(tandem::test::getTestedLevels()), \
                           [](const auto &info) {                              \
                             std::string name = info.param;                    \
                             std::replace(name.begin(), name.end(), '-', '_'); \
                             return name;                                      \
                           })

} // namespace tandem::test

#endif // TANDEM_TEST_CODEGEN_CPU_KERNELHARNESS_H
