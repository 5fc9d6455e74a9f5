//===- CostModelTest.cpp - Costs against numbers worked out by hand -------===//
//
// The pair of "Quantize the Target, Quantize the Drafter" (arXiv 2607.04244):
// Qwen3.5-4B with 4-bit weights in groups of 32, and a drafter of 5 layers with
// 4-bit weights in groups of 128, from their configurations alone. What the
// model of costs says is compared with sums over the shapes, which were worked
// out from the papers and not from a plan. They agree within 2%.
//
//===----------------------------------------------------------------------===//

#include "codegen/CostModel.h"
#include "dialects/plan/PlanDialect.h"
#include "models/Importer.h"
#include "passes/Pipelines.h"

#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <memory>

using namespace tandem;
using namespace tandem::codegen;

namespace {

/// The plan of the pair. The first row of the last layer is not hoisted: the
/// sums below count all rows of all layers.
class CostModelTest : public testing::Test {
protected:
  static void SetUpTestSuite() {
    context = std::make_unique<mlir::MLIRContext>(
        mlir::MLIRContext::Threading::DISABLED);
    context->loadDialect<plan::PlanDialect>();
    models::ImportOptions options;
    std::string pair = TANDEM_SOURCE_DIR "/test/Inputs/qwen3.5-4b/";
    options.targetDir = pair + "target-w4a16";
    options.drafterDir = pair + "drafter-w4a16";
    options.draftWindow = 1024;
    options.maxContext = 8448;
    options.syntheticSeed = 1;
    module = llvm::cantFail(models::importPair(*context, options));
    PipelineOptions pipeline;
    pipeline.disabledPasses = {"lm-hoist-last-row"};
    mlir::PassManager manager(context.get());
    buildImportPipeline(manager);
    buildFusionPipeline(manager, pipeline);
    buildLoweringPipeline(manager, pipeline);
    buildPlanPipeline(manager, pipeline);
    ASSERT_TRUE(mlir::succeeded(manager.run(*module)));
    costs = std::make_unique<PlanCosts>(*module, *findMachine("a10g"));
  }
  static void TearDownTestSuite() {
    costs.reset();
    module = {};
    context.reset();
  }

  static Cost getRound(llvm::StringRef program, int64_t tokens) {
    return getTotal(costs->getRound(program, tokens));
  }

  static void expectClose(double actual, double expected) {
    EXPECT_NEAR(actual / expected, 1, 0.02) << actual << ", not " << expected;
  }

  static std::unique_ptr<mlir::MLIRContext> context;
  static mlir::OwningOpRef<mlir::ModuleOp> module;
  static std::unique_ptr<PlanCosts> costs;
};
std::unique_ptr<mlir::MLIRContext> CostModelTest::context;
mlir::OwningOpRef<mlir::ModuleOp> CostModelTest::module;
std::unique_ptr<PlanCosts> CostModelTest::costs;

// MB: body 2005.4 in int4 and 9.8 in bf16, the head 1271.4 in bf16 (twice, once
// for the drafter), drafter 277.1, its keys and values of the context once more
// 13.5.
TEST_F(CostModelTest, WeightsOfARound) {
  expectClose(getRound("verify", 128).weights, (2005.4 + 9.8 + 1271.4) * 1e6);
  expectClose(getRound("draft", 128).weights, (277.1 + 13.5 + 1271.4) * 1e6);
}

// A round of draft and verify: 4943, 5028 and 5229 MB behind 128, 2176 and 8320
// tokens. The sums have keys, values and waiting rows in bf16, so those of this
// plan, which are in f32, count half.
TEST_F(CostModelTest, BytesOfARound) {
  for (auto [tokens, megabytes] :
       {std::pair(128, 4943.), std::pair(2176, 5028.),
        std::pair(8320, 5229.)}) {
    Cost round = getRound("verify", tokens);
    round += getRound("draft", tokens);
    expectClose(round.weights + round.states + round.keyValues / 2,
                megabytes * 1e6);
  }
}

// 16 rows: 134 billion in verify, 38 in draft.
TEST_F(CostModelTest, OperationsOfARound) {
  expectClose(getRound("verify", 128).operations +
                  getRound("draft", 128).operations,
              (134 + 38) * 1e9);
}

// Linear layers 2 operations a weight and token. The sums compute the drafter's
// context for the last 1024 tokens of a prompt, the plan for all of them: 59 M
// weights.
TEST_F(CostModelTest, OperationsOfAPrompt) {
  struct Prompt {
    int64_t tokens;
    double linear, attention, total;
  };
  for (const Prompt &prompt : {Prompt{64, 0.46e12, 0, 0.47e12},
                               Prompt{2048, 14.6e12, 0.28e12, 15.3e12},
                               Prompt{8192, 58.4e12, 4.4e12, 64.1e12}}) {
    SCOPED_TRACE(prompt.tokens);
    Cost cost = getTotal(costs->getPrefill(prompt.tokens));
    double context = 2 * 59e6 * prompt.tokens;
    expectClose(cost.linearOperations - context, prompt.linear);
    if (prompt.attention)
      expectClose(cost.attentionOperations, prompt.attention);
    expectClose(cost.operations, prompt.total);
  }
}

// All bytes of a short prompt take 6.3 ms at 517 GB/s, all operations 6.8 ms at
// 70 Tops. The body waits for the one, the head for the other, so the floor
// lies above both and below their sum.
TEST_F(CostModelTest, FloorOfAShortPrompt) {
  double floor = getTotal(costs->getPrefill(64)).floor;
  EXPECT_GT(floor, 6.8e-3);
  EXPECT_LT(floor, 6.3e-3 + 6.8e-3);
}

TEST(MachineTest, Defaults) {
  EXPECT_EQ(getDefaultMachine("native").name, "cpu");
  EXPECT_EQ(getDefaultMachine("sm_86").name, "a10g");
  EXPECT_EQ(getDefaultMachine("sm_90").name, "h200");
  EXPECT_EQ(findMachine("rtx3090")->name, "rtx3090");
  EXPECT_EQ(findMachine("abacus"), nullptr);
}

} // namespace
