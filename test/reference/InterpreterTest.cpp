//===- InterpreterTest.cpp - Import and passes compute the goldens --------===//
//
// Imports a pair and runs its programs on the reference ops, as they are and
// after all passes on lm. What differs from the golden here is a fault of the
// importer, of a pass or of the reference, not of a kernel.
//
//===----------------------------------------------------------------------===//

#include "test/reference/Interpreter.h"
#include "dialects/plan/PlanDialect.h"
#include "models/Importer.h"
#include "passes/Pipelines.h"
#include "test/Golden.h"

#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <memory>

using namespace tandem;
using namespace tandem::reference;
using namespace tandem::test;

namespace {

constexpr const char *kInputs = TANDEM_SOURCE_DIR "/test/Inputs/";

/// Which module is run.
enum class Stage { Imported, Lowered };

/// An imported pair and the memory of one text.
class Machine {
public:
  static constexpr int64_t kChunk = 64, kScoreChunk = 16;

  Machine(const std::string &targetDir, const std::string &drafterDir,
          Stage stage, int64_t denoiseSteps = 1) {
    models::ImportOptions options;
    options.targetDir = targetDir;
    options.drafterDir = drafterDir;
    options.maxContext = 512;
    options.chunk = kChunk;
    options.scoreChunk = kScoreChunk;
    options.denoiseSteps = denoiseSteps;
    auto imported = models::importPair(context, options);
    EXPECT_TRUE(static_cast<bool>(imported))
        << llvm::toString(imported.takeError());
    module = std::move(*imported);
    if (stage == Stage::Lowered)
      lower();
    auto created = Interpreter::create(*module);
    EXPECT_TRUE(static_cast<bool>(created))
        << llvm::toString(created.takeError());
    interpreter.emplace(std::move(*created));
  }

  void run(llvm::StringRef program) {
    llvm::Error error = interpreter->run(program, memory);
    EXPECT_FALSE(error) << program.str() << ": "
                        << llvm::toString(std::move(error));
  }

  void set(llvm::StringRef port, int32_t value) {
    memory.insert_or_assign(port, Value(IntTensor::of({value})));
  }
  int32_t get(llvm::StringRef port) {
    return std::get<IntTensor>(memory.find(port)->second).data[0];
  }
  const std::vector<int32_t> &ints(llvm::StringRef port) {
    return std::get<IntTensor>(memory.find(port)->second).data;
  }
  const Tensor &tensor(llvm::StringRef port) {
    return std::get<Tensor>(memory.find(port)->second);
  }

  /// Gives tokens [begin, begin + count) of \p ids to port \p port, filled up
  /// to
  /// \p size with a token that no result may depend on.
  void setTokens(llvm::StringRef port, llvm::ArrayRef<uint32_t> ids,
                 int64_t begin, int64_t count, int64_t size) {
    std::vector<int32_t> tokens(size, 7);
    std::copy_n(ids.begin() + begin, count, tokens.begin());
    memory.insert_or_assign(port, Value(IntTensor::of(std::move(tokens))));
  }

  /// Forgets the text.
  void reset() { memory.clear(); }

  /// Runs `score` over \p ids: all logits and features.
  std::pair<std::vector<float>, std::vector<float>>
  score(llvm::ArrayRef<uint32_t> ids) {
    std::vector<float> logits, features;
    auto append = [](std::vector<float> &to, const Tensor &rows,
                     int64_t count) {
      to.insert(to.end(), rows.data.begin(),
                rows.data.begin() + count * rows.columns());
    };
    for (int64_t begin = 0, end = ids.size(); begin < end;
         begin += kScoreChunk) {
      int64_t count = std::min(kScoreChunk, end - begin);
      setTokens("score_tokens", ids, begin, count, kScoreChunk);
      set("score_count", count);
      set("start", begin);
      set("accepted", 0);
      run("score");
      append(logits, tensor("score_logits"), count);
      if (memory.contains("score_features"))
        append(features, tensor("score_features"), count);
    }
    return {logits, features};
  }

  /// Runs `prefill` and, with a drafter, `context` over \p ids.
  void prefill(llvm::ArrayRef<uint32_t> ids, bool withDrafter) {
    for (int64_t begin = 0, end = ids.size(); begin < end; begin += kChunk) {
      int64_t count = std::min(kChunk, end - begin);
      setTokens("chunk", ids, begin, count, kChunk);
      set("chunk_count", count);
      set("start", begin);
      set("accepted", 0);
      run("prefill");
      if (withDrafter)
        run("context");
    }
    set("start", ids.size());
    set("accepted", 0);
    set("context_start", ids.size());
  }

private:
  /// Everything that happens on lm.
  void lower() {
    context.loadDialect<plan::PlanDialect>();
    mlir::PassManager passes(&context);
    buildImportPipeline(passes);
    buildFusionPipeline(passes, {});
    buildLoweringPipeline(passes, {});
    EXPECT_TRUE(mlir::succeeded(passes.run(*module)));
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<Interpreter> interpreter;
  Memory memory;
};

class TinyPairTest : public testing::TestWithParam<Stage> {
protected:
  static void SetUpTestSuite() {
    golden = std::make_unique<Golden>(std::string(kInputs) + "tiny");
  }
  static void TearDownTestSuite() { golden.reset(); }

  static std::unique_ptr<Golden> golden;
  Machine pair{std::string(kInputs) + "tiny/target-w4a16",
               std::string(kInputs) + "tiny/drafter-w4a16", GetParam()};
};
std::unique_ptr<Golden> TinyPairTest::golden;

INSTANTIATE_TEST_SUITE_P(Stages, TinyPairTest,
                         testing::Values(Stage::Imported, Stage::Lowered),
                         [](const auto &info) {
                           return info.param == Stage::Imported ? "Imported"
                                                                : "Lowered";
                         });

TEST_P(TinyPairTest, ScoresThePrompts) {
  for (size_t i = 0; i < golden->prompts().size(); ++i) {
    SCOPED_TRACE("prompt " + std::to_string(i));
    pair.reset();
    auto [logits, features] = pair.score(golden->prompts()[i].ids);
    EXPECT_TRUE(isClose(logits, *golden->tensor(i, "logits")));
    EXPECT_TRUE(isClose(features, *golden->tensor(i, "features")));
  }
}

TEST_P(TinyPairTest, DraftsTheFirstBlock) {
  for (size_t i = 0; i < golden->prompts().size(); ++i) {
    SCOPED_TRACE("prompt " + std::to_string(i));
    pair.reset();
    const GoldenPrompt &prompt = golden->prompts()[i];
    pair.prefill(prompt.ids, /*withDrafter=*/true);
    EXPECT_EQ(pair.get("anchor"), static_cast<int32_t>(prompt.greedy[0]));
    pair.run("score_draft");
    EXPECT_TRUE(isClose(pair.tensor("draft_logits").data,
                        *golden->tensor(i, "draft_logits")));
  }
}

// Rounds of draft, verify and accept write what the golden writes, in as many
// tokens a round.
TEST_P(TinyPairTest, WritesInRounds) {
  const GoldenPrompt &prompt = golden->prompts()[0];
  pair.prefill(prompt.ids, /*withDrafter=*/true);
  std::vector<uint32_t> written = {static_cast<uint32_t>(pair.get("anchor"))};
  pair.set("block_count", 16);
  for (size_t round = 0; round < 12; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    pair.run("draft");
    pair.run("verify");
    pair.run("accept");
    EXPECT_EQ(pair.get("accepted"),
              static_cast<int32_t>(prompt.acceptLengths[round]));
    const std::vector<int32_t> &decided = pair.ints("decided");
    written.insert(written.end(), decided.begin(),
                   decided.begin() + pair.get("accepted"));
  }
  EXPECT_EQ(written,
            std::vector<uint32_t>(prompt.greedy.begin(),
                                  prompt.greedy.begin() + written.size()));
}

// The rows of a step stay pending until the next one keeps them.
TEST_P(TinyPairTest, WritesStepByStep) {
  const GoldenPrompt &prompt = golden->prompts()[1];
  pair.prefill(prompt.ids, /*withDrafter=*/false);
  std::vector<uint32_t> written = {static_cast<uint32_t>(pair.get("anchor"))};
  while (written.size() < 16) {
    pair.run("step");
    written.push_back(pair.get("anchor"));
  }
  EXPECT_EQ(written, std::vector<uint32_t>(prompt.greedy.begin(),
                                           prompt.greedy.begin() + 16));
}

// lm-lower-denoise spells out what lm.denoise says: the very same bits.
TEST(DenoiseStepsTest, LoweredStepsAreTheSteps) {
  std::string inputs = kInputs;
  const std::vector<uint32_t> prompt = {317, 25, 306, 551, 66};
  std::vector<int32_t> blocks[2];
  std::vector<float> logits[2];
  for (Stage stage : {Stage::Imported, Stage::Lowered}) {
    Machine pair(inputs + "tiny/target-w4a16", inputs + "tiny/drafter-w4a16",
                 stage, /*denoiseSteps=*/4);
    pair.prefill(prompt, /*withDrafter=*/true);
    pair.run("score_draft");
    blocks[static_cast<int>(stage)] = pair.ints("block");
    logits[static_cast<int>(stage)] = pair.tensor("draft_logits").data;
  }
  EXPECT_EQ(blocks[0], blocks[1]);
  EXPECT_EQ(logits[0], logits[1]);
}

TEST(Bf16TargetTest, ScoresThePrompt) {
  std::string inputs = kInputs;
  Golden golden(inputs + "tiny");
  Machine target(inputs + "tiny/target-bf16", "", Stage::Imported);
  auto logits = target.score(golden.prompts()[0].ids).first;
  EXPECT_TRUE(isClose(logits, *golden.tensor(0, "teacher_logits")));
}

} // namespace
