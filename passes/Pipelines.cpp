//===- Pipelines.cpp - The order of everything ----------------------------===//

#include "passes/Pipelines.h"
#include "dialects/plan/PlanDialect.h"
#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace tandem;

ArrayRef<StringLiteral> tandem::getOptionalPasses() {
  static constexpr StringLiteral passes[] = {
      "lm-hoist-last-row",      "lm-fuse-gated-mlp",
      "lm-fuse-projections",    "lm-fuse-norm-linear",
      "lm-fuse-residual",       "lm-fuse-delta-inputs",
      "lm-fuse-head-argmax",    "lm-fuse-attention-inputs",
      "lm-fuse-attention-gate", "lm-fuse-delta-norm",
      "lm-fuse-delta-layer",
  };
  return passes;
}

/// Adds `pass` unless it is left out.
static void addOptionalPass(OpPassManager &manager,
                            const PipelineOptions &options,
                            std::unique_ptr<Pass> pass) {
  if (!llvm::is_contained(options.disabledPasses, pass->getArgument()))
    manager.addPass(std::move(pass));
}

void tandem::buildImportPipeline(OpPassManager &manager) {
  manager.addPass(createVerifyImportPass());
}

void tandem::buildFusionPipeline(OpPassManager &manager,
                                 const PipelineOptions &options) {
  // No processor has a kernel that only dequantizes.
  manager.addPass(createFuseDequantLinearPass());
  manager.addPass(createCSEPass());
  // Layers are told apart by their readers, so the row that is used is found
  // first; a gate and its partner are found before they are projections.
  addOptionalPass(manager, options, createHoistLastRowPass());
  addOptionalPass(manager, options, createFuseGatedMlpPass());
  addOptionalPass(manager, options, createFuseProjectionsPass());
  // Before the norm: a head that normalizes could not find the argmax.
  addOptionalPass(manager, options, createFuseHeadArgmaxPass());
  addOptionalPass(manager, options, createFuseNormLinearPass());
  addOptionalPass(manager, options, createFuseResidualPass());
  addOptionalPass(manager, options, createFuseDeltaInputsPass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createVerifyImportPass());
}

void tandem::buildLoweringPipeline(OpPassManager &manager,
                                   const PipelineOptions &options) {
  manager.addPass(createLowerDenoisePass());
  manager.addPass(createLowerSlidingWindowPass());
  manager.addPass(createCSEPass());
  manager.addPass(createCanonicalizerPass());
  addOptionalPass(manager, options, createFuseHeadArgmaxPass());
  if (!options.draftTokens.empty()) {
    RestrictDraftVocabularyPassOptions restriction;
    restriction.tokens = options.draftTokens;
    manager.addPass(createRestrictDraftVocabularyPass(restriction));
  }
  if (options.searchesTarget || options.searchesDraft) {
    SearchHeadsPassOptions search;
    search.target = options.searchesTarget;
    search.draft = options.searchesDraft;
    manager.addPass(createSearchHeadsPass(search));
  }
  if (options.roundsDraft)
    manager.addPass(createRoundDraftHeadPass());
  // Behind rings and the blocks of drafts; processors have no kernels for it.
  if (plan::isGpu(options.arch)) {
    addOptionalPass(manager, options, createFuseAttentionInputsPass());
    addOptionalPass(manager, options, createFuseAttentionGatePass());
    addOptionalPass(manager, options, createFuseDeltaNormPass());
  }
  manager.addPass(createLowerSpeculatePass());
  // What it marks has to stay as it is.
  if (plan::isGpu(options.arch))
    addOptionalPass(manager, options, createFuseDeltaLayerPass());
}

void tandem::buildPlanPipeline(OpPassManager &manager,
                               const PipelineOptions &options) {
  ConvertLmToPlanPassOptions conversion;
  conversion.arch = options.arch;
  manager.addPass(createConvertLmToPlanPass(conversion));
  manager.addPass(createCanonicalizerPass());
  // Not one that can be left out: what it makes sums in an order of its own.
  if (plan::hasClusters(options.arch))
    manager.addPass(createFuseAttentionLayerPass());
  SelectKernelsPassOptions selection;
  selection.arithmetic = options.arithmetic;
  manager.addPass(createSelectKernelsPass(selection));
  // Nor this one, which rounds where layers of rows do not.
  if (plan::hasClusters(options.arch))
    manager.addPass(createArrangeTokensPass());
  manager.addPass(createAssignBuffersPass());
  manager.addPass(createVerifyPlanPass());
}

//===----------------------------------------------------------------------===//
// For qopt
//===----------------------------------------------------------------------===//

namespace {
/// The options on the command line of qopt.
struct CommandLine : PassPipelineOptions<CommandLine> {
  Option<std::string> arch{*this, "arch", llvm::cl::init("native"),
                           llvm::cl::desc("Processor the plan is for")};
  Option<std::string> arithmetic{
      *this, "arithmetic", llvm::cl::init("f32"),
      llvm::cl::desc("What linear layers of a processor multiply")};
  Option<bool> searchTarget{*this, "search-target", llvm::cl::init(false),
                            llvm::cl::desc("Search the heads of the target")};
  Option<bool> searchDraft{*this, "search-draft", llvm::cl::init(false),
                           llvm::cl::desc("Search the head of the drafter")};
  Option<bool> roundDraft{*this, "round-draft", llvm::cl::init(false),
                          llvm::cl::desc("Round the head of the drafter")};
  ListOption<int64_t> draftTokens{
      *this, "draft-tokens",
      llvm::cl::desc("Tokens that the drafter knows, ascending")};
  ListOption<std::string> disable{
      *this, "disable", llvm::cl::desc("Flags of passes to leave out")};

  PipelineOptions get() const {
    return {arch,
            arithmetic,
            searchTarget,
            searchDraft,
            roundDraft,
            llvm::SmallVector<int64_t>(draftTokens.begin(), draftTokens.end()),
            std::vector<std::string>(disable.begin(), disable.end())};
  }
};
} // namespace

void tandem::registerPipelines() {
  PassPipelineRegistration<>("tandem-import-pipeline",
                             "Verify what the import made",
                             buildImportPipeline);
  PassPipelineRegistration<CommandLine>(
      "tandem-fusion-pipeline", "Fuse ops of lm",
      [](OpPassManager &manager, const CommandLine &options) {
        buildFusionPipeline(manager, options.get());
      });
  PassPipelineRegistration<CommandLine>(
      "tandem-lowering-pipeline", "Lower diffusion steps, windows and the loop",
      [](OpPassManager &manager, const CommandLine &options) {
        buildLoweringPipeline(manager, options.get());
      });
  PassPipelineRegistration<CommandLine>(
      "tandem-plan-pipeline", "From lm to plan",
      [](OpPassManager &manager, const CommandLine &options) {
        buildPlanPipeline(manager, options.get());
      });
  PassPipelineRegistration<CommandLine>(
      "tandem-pipeline", "All phases in order",
      [](OpPassManager &manager, const CommandLine &options) {
        buildImportPipeline(manager);
        buildFusionPipeline(manager, options.get());
        buildLoweringPipeline(manager, options.get());
        buildPlanPipeline(manager, options.get());
      });
}
