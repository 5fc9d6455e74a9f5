//===- Lowering.h - From MLIR to an object file -----------------*- C++ -*-===//

#ifndef TANDEM_CODEGEN_CPU_LOWERING_H
#define TANDEM_CODEGEN_CPU_LOWERING_H

#include "codegen/cpu/CpuTarget.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <memory>

namespace tandem::codegen {

/// Makes the dialects that kernels consist of, and their translation to LLVM
/// IR, known to a context.
void registerKernelDialects(mlir::DialectRegistry &registry);

/// Lowers \p module, which holds kernels, to the LLVM dialect and translates
/// it to LLVM IR. Errors: an operation that has no lowering.
llvm::Expected<std::unique_ptr<llvm::Module>>
lowerToLlvm(mlir::ModuleOp module, llvm::LLVMContext &context);

/// An object file for \p target. Errors: the code calls something that is not
/// in the module.
llvm::Expected<std::vector<char>> compileToObject(llvm::Module &module,
                                                  const CpuTarget &target);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CPU_LOWERING_H
