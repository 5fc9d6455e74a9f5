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

struct PipelineOptions {
  /// Processor the plan is for, as `--arch`.
  std::string arch = "native";
  /// What linear layers of a processor multiply: f32, bf16 or i8.
  std::string arithmetic = "f32";
  /// Whether heads of the target, and that of the drafter, are searched.
  bool searchesTarget = false, searchesDraft = false;
  /// Whether the head of the drafter is rounded.
  bool roundsDraft = false;
  /// The tokens that are drafted, ascending; all when there are none.
  llvm::SmallVector<int64_t> draftTokens = {};
  /// Flags of optional passes to leave out.
  std::vector<std::string> disabledPasses = {};
};

/// Flags of the passes that may be left out: they change time, never results.
llvm::ArrayRef<llvm::StringLiteral> getOptionalPasses();

/// Contract of the import: only `lm`, every weight resolved, shapes known.
void buildImportPipeline(mlir::OpPassManager &manager);

/// Fusions on `lm`.
void buildFusionPipeline(mlir::OpPassManager &manager,
                         const PipelineOptions &options);

/// Lowerings on `lm`: diffusion step, sliding windows, the loop; and the
/// fusions that the lowerings make possible.
void buildLoweringPipeline(mlir::OpPassManager &manager,
                           const PipelineOptions &options);

/// `lm` to `plan`: kernels, launches, memory.
void buildPlanPipeline(mlir::OpPassManager &manager,
                       const PipelineOptions &options);

/// Makes the four phases known to `qopt` as `--tandem-import-pipeline`,
/// `--tandem-fusion-pipeline`, `--tandem-lowering-pipeline` and
/// `--tandem-plan-pipeline`, and all of them as `--tandem-pipeline`.
void registerPipelines();

} // namespace tandem

#endif // TANDEM_PASSES_PIPELINES_H
