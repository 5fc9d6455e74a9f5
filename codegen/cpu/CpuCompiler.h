//===- CpuCompiler.h - plan.kernel to a shared object -----------*- C++ -*-===//
//
// The CPU backend from the outside: all kernels of a module become one shared
// object in memory, which the runtime loads as KernelAbi.h says.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_CPU_CPUCOMPILER_H
#define TANDEM_CODEGEN_CPU_CPUCOMPILER_H

#include "codegen/cpu/CpuTarget.h"

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>

namespace tandem::codegen {

/// A compiled kernel.
struct CpuKernel {
  /// Exported symbol: the name of the `plan.kernel`.
  std::string symbol;
  /// Its family, as the plan prints it.
  std::string family;
  /// Scratch that a thread needs to run it, in bytes.
  uint64_t scratchBytes = 0;
};

struct CpuImage {
  /// ELF; exports the kernels and `tandem_kernel_abi`, needs nothing.
  std::vector<char> sharedObject;
  /// In the order of the `plan.kernel`s of the module.
  std::vector<CpuKernel> kernels;
  /// The kernels before they are lowered; empty unless asked for.
  std::string mlirText;
};

struct CpuOptions {
  /// Fill in `CpuImage::mlirText`.
  bool keepMlir = false;
  /// Threads that compile; 0: one per core. The result does not depend on it.
  unsigned threads = 0;
};

/// Compiles every `plan.kernel` of \p planModule. The same module and target
/// give the same bytes. Errors: parameters no kernel can be made for, code
/// that would call a library.
llvm::Expected<CpuImage> compileCpuKernels(mlir::ModuleOp planModule,
                                           const CpuTarget &target,
                                           const CpuOptions &options = {});

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CPU_CPUCOMPILER_H
