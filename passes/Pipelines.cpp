//===- Pipelines.cpp - The order of everything ----------------------------===//

#include "passes/Pipelines.h"
#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace tandem;

void tandem::buildImportPipeline(OpPassManager &manager) {
  manager.addPass(createVerifyImportPass());
}

void tandem::buildFusionPipeline(OpPassManager &manager) {
  manager.addPass(createFuseDequantLinearPass());
  manager.addPass(createCSEPass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createVerifyImportPass());
}

void tandem::buildLoweringPipeline(OpPassManager &manager) {
  manager.addPass(createLowerDenoisePass());
  manager.addPass(createLowerSlidingWindowPass());
  manager.addPass(createCSEPass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createLowerSpeculatePass());
}

void tandem::buildPlanPipeline(OpPassManager &manager, StringRef arch) {
  ConvertLmToPlanPassOptions options;
  options.arch = arch.str();
  manager.addPass(createConvertLmToPlanPass(options));
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createAssignBuffersPass());
  manager.addPass(createVerifyPlanPass());
}

void tandem::registerPipelines() {
  PassPipelineRegistration<>("tandem-import-pipeline",
                             "Verify what the import made",
                             buildImportPipeline);
  PassPipelineRegistration<>("tandem-fusion-pipeline", "Fuse ops of lm",
                             buildFusionPipeline);
  PassPipelineRegistration<>("tandem-lowering-pipeline",
                             "Lower diffusion steps, windows and the loop",
                             buildLoweringPipeline);
  PassPipelineRegistration<>(
      "tandem-plan-pipeline", "From lm to plan",
      [](OpPassManager &manager) { buildPlanPipeline(manager, "native"); });
  PassPipelineRegistration<>("tandem-pipeline", "All phases in order",
                             [](OpPassManager &manager) {
                               buildImportPipeline(manager);
                               buildFusionPipeline(manager);
                               buildLoweringPipeline(manager);
                               buildPlanPipeline(manager, "native");
                             });
}
