//===- Benchmarks.h - Kernels that are measured, and how ------------------===//

#ifndef TANDEM_TEST_CUDA_BENCHMARKS_H
#define TANDEM_TEST_CUDA_BENCHMARKS_H

#include "test/cuda/Suite.h"

namespace tandem::gpucheck {

/// An operand of a kernel that is measured.
struct BenchOperand {
  int64_t bytes;
  /// Comes from the memory, not from a cache: every launch gets another copy.
  bool isCold = false;
  /// Not random bytes, but this number, as i32.
  int32_t number = 0;
  bool isNumber = false;
  /// Every byte, where it is not negative.
  int fill = -1;
};

/// A launch that is measured.
struct Benchmark {
  std::string title, kernel;
  int rows;
  std::vector<BenchOperand> operands;
  /// Bytes that it cannot do without.
  int64_t bytes;
};

/// Adds the kernels of Qwen3.5-4B and its drafter to \p suite, and says how
/// they are launched.
std::vector<Benchmark> addBenchmarks(Suite &suite);

/// Measures \p benchmarks and prints a table: time of a launch in a graph of
/// many, GB/s, share of the bandwidth of a copy in the same run.
void runBenchmarks(Run &run, const std::vector<Benchmark> &benchmarks);

} // namespace tandem::gpucheck

#endif // TANDEM_TEST_CUDA_BENCHMARKS_H
