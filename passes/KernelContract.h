//===- KernelContract.h - What a kernel expects of a launch -----*- C++ -*-===//
//
// KernelFamilies.cpp, which says in comments what every family takes, as
// checks.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_KERNELCONTRACT_H
#define TANDEM_PASSES_KERNELCONTRACT_H

#include "dialects/plan/PlanOps.h"

namespace tandem {

/// Checks that the parameters of \p kernel fit each other, for the processor
/// \p arch (as `plan.arch`). Emits an error at the kernel.
mlir::LogicalResult verifyParameters(plan::KernelOp kernel,
                                     llvm::StringRef arch);

/// Checks the operands, rows and items of \p launch, which runs \p kernel,
/// whose parameters fit each other. Emits an error at the launch.
mlir::LogicalResult verifyLaunch(plan::LaunchOp launch, plan::KernelOp kernel,
                                 llvm::StringRef arch);

} // namespace tandem

#endif // TANDEM_PASSES_KERNELCONTRACT_H
