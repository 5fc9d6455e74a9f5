//===- CudaEmitter.h - plan.kernel to CUDA C++ ------------------*- C++ -*-===//
//
// Kernels are templates, written by hand in kernels/*.cuh. What is generated
// only names the choices: one struct of numbers and types for every
// `plan.kernel`, and a __global__ function that hands it to the template of its
// family. Kernels of one family share a source file.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_CUDA_CUDAEMITTER_H
#define TANDEM_CODEGEN_CUDA_CUDAEMITTER_H

#include "codegen/cuda/CudaTarget.h"
#include "dialects/plan/PlanOps.h"

#include "mlir/IR/BuiltinOps.h"

#include <vector>

namespace tandem::codegen {

/// Blocks of a launch, or clusters of a kernel with __block_size__.
struct CudaGrid {
  uint32_t x = 1, y = 1, z = 1;
  bool operator==(const CudaGrid &) const = default;
};

/// How the blocks of a grid follow from the rows of a launch.
struct CudaGridRule {
  struct Direction {
    /// Blocks where rows do not matter.
    int64_t fixed = 1;
    /// Times `ceil(perRow * rows / divisor)` blocks, unless zero.
    int64_t perRow = 0;
    int64_t divisor = 1;
    /// But no more than so many, unless zero: blocks take several rows.
    int64_t most = 0;
    /// And one for more rows than so many, unless zero.
    int64_t mostRows = 0;

    int64_t get(int64_t rows) const;
  };
  Direction x, y, z;

  CudaGrid get(int64_t rows) const;
};

/// A kernel that has been emitted. All kernels say that the next one may begin,
/// at once or when they have asked for their input, and wait for those in front
/// before they touch what those write, so launches with programmatic stream
/// serialization may follow each other.
struct CudaKernel {
  /// Symbol of the function: the name of the `plan.kernel`.
  std::string symbol;
  plan::KernelFamily family = plan::KernelFamily::copy;
  /// Threads of a block.
  uint32_t block = 0;
  /// Dynamic shared memory of a block, in bytes.
  uint32_t shared = 0;
  /// Scratch of the largest launch, in bytes. Zero before the first launch;
  /// every launch leaves the part that counts blocks at zero.
  uint64_t scratch = 0;
  CudaGridRule grid;
  /// Whether a launch may begin before those in front have ended, for which the
  /// kernel waits itself.
  bool startsEarly = false;
};

/// Kernels of one family.
struct CudaSource {
  /// Name of the family.
  std::string name;
  /// The `.cu`.
  std::string text;
  /// In the order of the `plan.kernel`s of the module.
  std::vector<CudaKernel> kernels;
};

/// Emits all kernels of \p planModule for \p target, families in their order.
/// The text depends on the module and the target alone. Errors: parameters no
/// kernel can be made for, a launch that needs more blocks than a grid can
/// have.
llvm::Expected<std::vector<CudaSource>>
emitCudaKernels(mlir::ModuleOp planModule, const CudaTarget &target);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CUDA_CUDAEMITTER_H
