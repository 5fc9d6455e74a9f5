//===- CudaCompiler.h - plan.kernel to cubins and PTX -----------*- C++ -*-===//
//
// The CUDA backend from the outside: the kernels of each family become one
// cubin for the architecture that was asked for, and PTX for devices that came
// later.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_CUDA_CUDACOMPILER_H
#define TANDEM_CODEGEN_CUDA_CUDACOMPILER_H

#include "codegen/cuda/CudaEmitter.h"

namespace tandem::codegen {

/// A source that has been compiled.
struct CudaUnit {
  CudaSource source;
  std::vector<char> cubin;
  std::vector<char> ptx;
  /// What the compiler said: registers and spills of each kernel.
  std::string log;
};

struct CudaImage {
  CudaTarget target;
  std::vector<CudaUnit> units;
  /// Version of NVRTC, 13000 for 13.0.
  int compilerVersion = 0;

  /// The kernel \p symbol; null when there is none.
  const CudaKernel *find(llvm::StringRef symbol) const;
};

struct CudaOptions {
  /// Threads that compile; 0: one per core. The result does not depend on it.
  unsigned threads = 0;
};

/// Compiles every `plan.kernel` of \p planModule. Takes no GPU. Errors: NVRTC
/// is not installed, parameters no kernel can be made for.
llvm::Expected<CudaImage> compileCudaKernels(mlir::ModuleOp planModule,
                                             const CudaTarget &target,
                                             const CudaOptions &options = {});

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CUDA_CUDACOMPILER_H
