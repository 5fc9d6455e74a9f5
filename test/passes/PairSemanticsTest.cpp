//===- PairSemanticsTest.cpp - Passes keep what the tiny pair computes ----===//
//
// Runs a text through the programs of the tiny pair on the reference ops: after
// every pass of the pipeline in its order, and after every fusion alone. What
// the programs leave in ports and states is the same, bit for bit: passes move
// arithmetic, they do not change it.
//
//===----------------------------------------------------------------------===//

#include "dialects/plan/PlanOps.h"
#include "models/Importer.h"
#include "passes/Pipelines.h"
#include "test/passes/Comparison.h"

#include <memory>

using namespace tandem;
using namespace tandem::reference;
using namespace tandem::test;

namespace {

/// The pair in one context, imported once.
class TinyPair {
public:
  static constexpr int64_t kChunk = 8, kBlock = 5;

  TinyPair() {
    context.loadDialect<plan::PlanDialect>();
    models::ImportOptions options;
    std::string tiny = TANDEM_SOURCE_DIR "/test/Inputs/tiny/";
    options.targetDir = tiny + "target-w4a16";
    options.drafterDir = tiny + "drafter-w4a16";
    options.maxContext = 96;
    options.chunk = kChunk;
    options.scoreChunk = kChunk;
    options.block = kBlock;
    options.draftWindow = 12;
    options.denoiseSteps = 2;
    module = llvm::cantFail(models::importPair(context, options));
  }

  mlir::OwningOpRef<mlir::ModuleOp> clone() { return module->clone(); }

private:
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// A text of two chunks, a round, a step and a scored block: every program.
Memory runText(mlir::ModuleOp module) {
  Interpreter machine = llvm::cantFail(Interpreter::create(module));
  Memory memory;
  auto run = [&](llvm::StringRef program) {
    llvm::Error error = machine.run(program, memory);
    EXPECT_FALSE(error) << program.str() << ": "
                        << llvm::toString(std::move(error));
  };
  auto set = [&](llvm::StringRef port, std::vector<int32_t> values) {
    memory.insert_or_assign(port, Value(IntTensor::of(std::move(values))));
  };
  // A full chunk, and one that ends early.
  for (auto [start, count] : {std::pair(0, 8), std::pair(8, 5)}) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < TinyPair::kChunk; ++i)
      tokens.push_back(3 + 37 * (start + i) % 500);
    set("chunk", tokens);
    set("chunk_count", {count});
    set("start", {start});
    set("accepted", {0});
    run("prefill");
    run("context");
  }
  set("start", {13});
  set("context_start", {13});
  set("block_count", {TinyPair::kBlock});
  for (int round = 0; round < 2; ++round)
    for (const char *program : {"draft", "verify", "accept"})
      run(program);
  run("score_draft");
  run("step");
  set("score_tokens", {5, 6, 7, 8, 9, 10, 11, 12});
  set("score_count", {3});
  run("score");
  return memory;
}

class PairSemanticsTest : public testing::Test {
protected:
  static void SetUpTestSuite() {
    pair = std::make_unique<TinyPair>();
    imported = std::make_unique<Memory>(runText(*pair->clone()));
  }
  static void TearDownTestSuite() {
    imported.reset();
    pair.reset();
  }

  /// Runs the text in \p module; \p withRings when caches have become rings,
  /// which hold other positions.
  static void expectSame(mlir::ModuleOp module, bool withRings) {
    Memory memory = runText(module);
    for (const auto &entry : *imported) {
      SCOPED_TRACE(entry.getKey().str());
      auto found = memory.find(entry.getKey());
      ASSERT_NE(found, memory.end());
      if (withRings && std::holds_alternative<KvCache>(entry.getValue()))
        continue;
      EXPECT_TRUE(isSame(found->second, entry.getValue()));
    }
  }

  static std::unique_ptr<TinyPair> pair;
  /// What the import leaves behind.
  static std::unique_ptr<Memory> imported;
};
std::unique_ptr<TinyPair> PairSemanticsTest::pair;
std::unique_ptr<Memory> PairSemanticsTest::imported;

TEST_F(PairSemanticsTest, EveryPassInItsOrder) { // P3.02
  // As in Pipelines.cpp.
  const char *passes[] = {"lm-verify-import",
                          "lm-fuse-dequant-linear",
                          "cse",
                          "lm-hoist-last-row",
                          "lm-fuse-gated-mlp",
                          "lm-fuse-projections",
                          "lm-fuse-head-argmax",
                          "lm-fuse-norm-linear",
                          "lm-fuse-residual",
                          "lm-fuse-delta-inputs",
                          "canonicalize",
                          "lm-lower-denoise",
                          "lm-lower-sliding-window",
                          "lm-fuse-head-argmax",
                          "lm-fuse-attention-inputs",
                          "lm-fuse-attention-gate",
                          "lm-fuse-delta-norm",
                          "lm-search-heads",
                          "lm-lower-speculate",
                          "lm-fuse-delta-layer"};
  mlir::OwningOpRef<mlir::ModuleOp> module = pair->clone();
  bool withRings = false;
  for (const char *pass : passes) {
    SCOPED_TRACE(pass);
    ASSERT_TRUE(runPasses(*module, pass));
    withRings |= llvm::StringRef(pass) == "lm-lower-sliding-window";
    expectSame(*module, withRings);
  }
}

TEST_F(PairSemanticsTest, EveryFusionAlone) {
  for (llvm::StringRef pass : getOptionalPasses()) {
    SCOPED_TRACE(pass.str());
    mlir::OwningOpRef<mlir::ModuleOp> module = pair->clone();
    ASSERT_TRUE(runPasses(*module, "lm-fuse-dequant-linear,cse," + pass.str()));
    expectSame(*module, /*withRings=*/false);
  }
}

TEST_F(PairSemanticsTest, PipelinesWithAndWithoutAPass) {
  std::vector<std::vector<std::string>> choices = {{}};
  for (llvm::StringRef pass : getOptionalPasses()) {
    choices.push_back({pass.str()});
    choices[0].push_back(pass.str());
  }
  choices.push_back({});
  for (const std::vector<std::string> &disabled : choices) {
    SCOPED_TRACE(testing::PrintToString(disabled));
    mlir::OwningOpRef<mlir::ModuleOp> module = pair->clone();
    PipelineOptions options;
    options.disabledPasses = disabled;
    // All fusions there are.
    options.arch = "sm_90";
    mlir::PassManager manager(module->getContext());
    buildImportPipeline(manager);
    buildFusionPipeline(manager, options);
    buildLoweringPipeline(manager, options);
    ASSERT_TRUE(mlir::succeeded(manager.run(*module)));
    expectSame(*module, /*withRings=*/true);
  }
}

} // namespace
