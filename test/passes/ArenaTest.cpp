//===- ArenaTest.cpp - The arena is hardly larger than it has to be -------===//

#include "dialects/lm/LmDialect.h"
#include "models/Importer.h"
#include "passes/Lifetimes.h"
#include "passes/Pipelines.h"

#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

using namespace tandem;

namespace {

/// The largest set of buffers of \p program that are alive at once, in bytes:
/// no arena is smaller.
int64_t getLargestLiveSet(plan::ProgramOp program) {
  llvm::SmallVector<BufferLifetime> buffers = getLifetimes(program);
  int64_t largest = 0;
  // It is reached where a buffer begins to live.
  for (const BufferLifetime &moment : buffers) {
    int64_t alive = 0;
    for (const BufferLifetime &buffer : buffers)
      if (buffer.first <= moment.first && moment.first <= buffer.last)
        alive += buffer.bytes;
    largest = std::max(largest, alive);
  }
  return largest;
}

/// Plans the pair in two folders; from configurations alone with a seed.
void checkArena(const std::string &target, const std::string &drafter,
                const PipelineOptions &pipeline, std::optional<uint64_t> seed) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<plan::PlanDialect>();
  models::ImportOptions options;
  options.targetDir = TANDEM_SOURCE_DIR "/" + target;
  options.drafterDir = TANDEM_SOURCE_DIR "/" + drafter;
  options.syntheticSeed = seed;
  mlir::OwningOpRef<mlir::ModuleOp> module =
      llvm::cantFail(models::importPair(context, options));
  mlir::PassManager manager(&context);
  buildImportPipeline(manager);
  buildFusionPipeline(manager, pipeline);
  buildLoweringPipeline(manager, pipeline);
  buildPlanPipeline(manager, pipeline);
  ASSERT_TRUE(mlir::succeeded(manager.run(*module)));

  int64_t needed = 0;
  for (auto program : module->getOps<plan::ProgramOp>())
    needed = std::max(needed, getLargestLiveSet(program));
  auto arena = (*module)->getAttrOfType<mlir::IntegerAttr>(
      plan::PlanDialect::kArenaSizeAttrName);
  ASSERT_TRUE(arena);
  EXPECT_GE(arena.getInt(), needed);
  EXPECT_LE(arena.getInt() * 10, needed * 11);
}

/// With all fusions and without any: buffers of all sizes.
void checkArena(const std::string &target, const std::string &drafter,
                std::optional<uint64_t> seed = std::nullopt) {
  checkArena(target, drafter, {}, seed);
  PipelineOptions unfused;
  for (llvm::StringRef pass : getOptionalPasses())
    unfused.disabledPasses.push_back(pass.str());
  checkArena(target, drafter, unfused, seed);
}

TEST(ArenaTest, TinyPair) {
  checkArena("test/Inputs/tiny/target-w4a16", "test/Inputs/tiny/drafter-w4a16");
}

TEST(ArenaTest, DemoPair) {
  checkArena("models/demo/target", "models/demo/drafter");
}

// Of the size of a real one.
TEST(ArenaTest, Qwen4B) {
  checkArena("test/Inputs/qwen3.5-4b/target-w4a16",
             "test/Inputs/qwen3.5-4b/drafter-w4a16", /*seed=*/1);
}

} // namespace
