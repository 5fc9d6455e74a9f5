//===- Pipelines.h - The order of everything --------------------*- C++ -*-===//
//
// One function per phase. Each phase ends with a pass that verifies what the
// next one may assume.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_PIPELINES_H
#define TANDEM_PASSES_PIPELINES_H

#include "mlir/Pass/PassManager.h"

namespace tandem {

/// Contract of the import: only `lm`, every weight resolved, shapes known.
void buildImportPipeline(mlir::OpPassManager &manager);

/// Fusions on `lm`: what changes time, never results.
void buildFusionPipeline(mlir::OpPassManager &manager);

/// Lowerings on `lm`: diffusion step, sliding windows, the loop.
void buildLoweringPipeline(mlir::OpPassManager &manager);

/// `lm` to `plan` for `arch` (as `--arch`): kernels, launches, memory.
void buildPlanPipeline(mlir::OpPassManager &manager, llvm::StringRef arch);

/// Makes the four phases known to `qopt` as `--tandem-import-pipeline`,
/// `--tandem-fusion-pipeline`, `--tandem-lowering-pipeline` and
/// `--tandem-plan-pipeline`, and all of them as `--tandem-pipeline`.
void registerPipelines();

} // namespace tandem

#endif // TANDEM_PASSES_PIPELINES_H
