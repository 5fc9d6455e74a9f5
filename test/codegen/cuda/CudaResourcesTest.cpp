//===- CudaResourcesTest.cpp - What kernels take of a multiprocessor ------===//
//
// Compiles every kernel of the pairs with NVRTC, which takes no GPU, and reads
// registers, spills and shared memory from what the compiler says.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/CudaCompiler.h"
#include "models/Importer.h"
#include "passes/Pipelines.h"

#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <regex>

using namespace tandem;
using namespace tandem::codegen;

namespace {

struct Resources {
  int registers = 0, spilledBytes = 0, sharedBytes = 0;
};

/// What \p log says of each kernel.
std::map<std::string, Resources> readResources(const std::string &log) {
  static const std::regex entry("Compiling entry function '([^']+)'");
  static const std::regex spills(
      "([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads");
  static const std::regex used("Used ([0-9]+) registers");
  static const std::regex shared("([0-9]+) bytes smem");
  std::map<std::string, Resources> result;
  Resources *kernel = nullptr;
  std::istringstream lines(log);
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, entry))
      kernel = &result[match[1]];
    if (!kernel)
      continue;
    if (std::regex_search(line, match, spills))
      kernel->spilledBytes = std::stoi(match[1]) + std::stoi(match[2]);
    if (std::regex_search(line, match, used))
      kernel->registers = std::stoi(match[1]);
    if (std::regex_search(line, match, shared))
      kernel->sharedBytes = std::stoi(match[1]);
  }
  return result;
}

mlir::OwningOpRef<mlir::ModuleOp> makePlan(mlir::MLIRContext &context,
                                           const std::string &name,
                                           const std::string &arch) {
  const std::string inputs = TANDEM_SOURCE_DIR "/test/Inputs/";
  models::ImportOptions options;
  options.bf16Activations = true;
  if (name == "demo") {
    options.targetDir = TANDEM_SOURCE_DIR "/models/demo/target";
    options.drafterDir = TANDEM_SOURCE_DIR "/models/demo/drafter";
  } else {
    options.targetDir = inputs + name + "/target-w4a16";
    options.drafterDir = inputs + name + "/drafter-w4a16";
  }
  if (name == "qwen3.5-4b") {
    options.syntheticSeed = 1;
    options.draftWindow = 1024;
    options.maxContext = 8448;
  }
  auto module = llvm::cantFail(models::importPair(context, options));
  PipelineOptions pipeline;
  pipeline.arch = arch;
  pipeline.searchesTarget = pipeline.roundsDraft = true;
  mlir::PassManager manager(&context);
  buildImportPipeline(manager);
  buildFusionPipeline(manager, pipeline);
  buildLoweringPipeline(manager, pipeline);
  buildPlanPipeline(manager, pipeline);
  if (failed(manager.run(*module)))
    ADD_FAILURE() << "no plan of " << name;
  return module;
}

class CudaResourcesTest : public testing::TestWithParam<const char *> {};

INSTANTIATE_TEST_SUITE_P(Archs, CudaResourcesTest,
                         testing::Values("sm_86", "sm_90"),
                         [](const auto &info) {
                           return std::string(info.param);
                         });

TEST_P(CudaResourcesTest, KernelsFitIntoAMultiprocessor) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<plan::PlanDialect>();
  CudaTarget target = llvm::cantFail(getCudaTarget(GetParam()));
  size_t kernels = 0;
  for (const char *name : {"tiny", "demo", "qwen3.5-4b"}) {
    mlir::OwningOpRef<mlir::ModuleOp> plan =
        makePlan(context, name, target.arch);
    llvm::Expected<CudaImage> image = compileCudaKernels(*plan, target);
    ASSERT_TRUE(bool(image)) << llvm::toString(image.takeError());
    for (const CudaUnit &unit : image->units) {
      EXPECT_FALSE(unit.cubin.empty());
      EXPECT_FALSE(unit.ptx.empty());
      std::map<std::string, Resources> resources = readResources(unit.log);
      for (const CudaKernel &kernel : unit.source.kernels) {
        SCOPED_TRACE(std::string(name) + ": " + kernel.symbol);
        const Resources &used = resources[kernel.symbol];
        EXPECT_GT(used.registers, 0) << "the log does not mention it";
        // A multiprocessor has so many.
        EXPECT_LE(used.registers * kernel.block, 65536u);
        EXPECT_EQ(used.spilledBytes, 0);
        // Less of it on A10G than on H200.
        uint32_t most = (target.arch == "sm_90" ? 227 : 99) << 10;
        EXPECT_LE(used.sharedBytes + kernel.shared, most);
        ++kernels;
      }
    }
  }
  EXPECT_GT(kernels, 150u);
}

} // namespace
