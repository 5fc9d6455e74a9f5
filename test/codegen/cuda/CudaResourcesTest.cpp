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

#include <optional>
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

//===----------------------------------------------------------------------===//
// Halves of a multiprocessor (few_rows.cuh)
//===----------------------------------------------------------------------===//

/// What a multiprocessor of sm_90 has: shared memory, of which every block
/// takes something beside its own, and the registers of each of its four parts.
constexpr int kAllShared = 228 << 10, kBlockShared = 1 << 10, kParts = 4,
              kPartRegisters = 16384;

/// A kernel that takes one.
struct Half {
  std::string symbol;
  bool isSecond = false;
  /// Registers of a thread, as they are given out.
  int registers = 0;
  int warps = 0;
  /// Shared memory of a block.
  int sharedBytes = 0;
};

/// The half that \p kernel of \p source takes, if it is made for one.
std::optional<Half> getHalf(const CudaSource &source, const CudaKernel &kernel,
                            const Resources &used) {
  // From its attributes to its end.
  size_t name = source.text.find("\n" + kernel.symbol + "("),
         begin = source.text.rfind('\n', name - 1) + 1;
  EXPECT_NE(name, std::string::npos);
  std::string text =
      source.text.substr(begin, source.text.find("\n}\n", name) - begin);
  if (text.find("__block_size__") == text.npos)
    return std::nullopt;
  return Half{kernel.symbol, text.find("needRegisters") != text.npos,
              (used.registers + 7) / 8 * 8, int(kernel.block / 32),
              int(used.sharedBytes + kernel.shared)};
}

size_t countOf(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos;
       at = text.find(part, at + part.size()))
    ++count;
  return count;
}

/// Registers of the part of a multiprocessor that has most warps, when warps
/// of \p halves have been given to the parts in turn.
int registersOfAPart(std::initializer_list<const Half *> halves) {
  int registers = 0;
  for (const Half *half : halves)
    registers += (half->warps + kParts - 1) / kParts * 32 * half->registers;
  return registers;
}

/// Checks that each of \p halves has no room beside itself, and all that
/// differ have it beside each other.
void expectHalves(const std::vector<Half> &halves) {
  for (const Half &half : halves) {
    SCOPED_TRACE(half.symbol);
    if (half.isSecond) {
      EXPECT_EQ(half.registers, 88);
      // Two blocks of it have twice as many warps, spread evenly.
      int mostWarps = (2 * half.warps + kParts - 1) / kParts;
      EXPECT_GT(mostWarps * 32 * half.registers, kPartRegisters);
    } else {
      EXPECT_LE(half.registers, 80);
      EXPECT_GT(2 * (half.sharedBytes + kBlockShared), kAllShared);
    }
    for (const Half &other : halves) {
      if (half.isSecond == other.isSecond)
        continue;
      EXPECT_LE(half.sharedBytes + other.sharedBytes + 2 * kBlockShared,
                kAllShared)
          << other.symbol;
      EXPECT_LE(registersOfAPart({&half, &other}), kPartRegisters)
          << other.symbol;
    }
  }
}

/// Checks that \p rule, a delta rule or attention that makes its inputs, has
/// room beside each of \p halves.
void expectBeside(const Half &rule, const std::vector<Half> &halves) {
  for (const Half &half : halves) {
    SCOPED_TRACE(rule.symbol + " beside " + half.symbol);
    EXPECT_LE(rule.sharedBytes + half.sharedBytes + 2 * kBlockShared,
              kAllShared);
    EXPECT_LE(registersOfAPart({&rule, &half}), kPartRegisters);
  }
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
    std::vector<Half> halves, rules, attentions;
    for (const CudaUnit &unit : image->units) {
      EXPECT_FALSE(unit.cubin.empty());
      EXPECT_FALSE(unit.ptx.empty());
      // Later GPUs read it, which have not all instructions of this one.
      EXPECT_EQ(countOf({unit.ptx.begin(), unit.ptx.end()},
                        "\n.target " + target.arch + "\n"),
                1u);
      // Tokens of warps that multiply together begin at multiples of 1024,
      // which the first declaration of an array decides.
      if (unit.source.text.find("WideRows<") != std::string::npos)
        EXPECT_EQ(countOf({unit.ptx.begin(), unit.ptx.end()},
                          ".extern .shared .align 1024"),
                  1u);
      std::map<std::string, Resources> resources = readResources(unit.log);
      size_t gridsOfClusters = 0;
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

        if (unit.source.text.find("tandem::deltaLayer<" + kernel.symbol) !=
            std::string::npos)
          rules.push_back({kernel.symbol, false, (used.registers + 7) / 8 * 8,
                           int(kernel.block / 32),
                           int(used.sharedBytes + kernel.shared)});
        std::optional<Half> half = getHalf(unit.source, kernel, used);
        if (!half)
          continue;
        EXPECT_EQ(kernel.grid.get(1).y, 1u) << "not counted in clusters";
        ++gridsOfClusters;
        bool isAttention =
            unit.source.text.find("tandem::attentionLayer<" + kernel.symbol) !=
            std::string::npos;
        (isAttention ? attentions : halves).push_back(*half);
      }
      EXPECT_EQ(
          countOf({unit.ptx.begin(), unit.ptx.end()}, ".blocksareclusters"),
          gridsOfClusters);
    }
    if (target.arch != "sm_90")
      EXPECT_TRUE(halves.empty());
    // Small models have layers of few warps, two of which have room.
    else if (std::string(name) == "qwen3.5-4b") {
      EXPECT_GE(halves.size(), 8u);
      expectHalves(halves);
      ASSERT_EQ(rules.size(), 1u);
      expectBeside(rules.front(), halves);
      // Of verified blocks, steps and drafts.
      ASSERT_EQ(attentions.size(), 3u);
      for (const Half &attention : attentions)
        expectBeside(attention, halves);
    }
  }
  EXPECT_GT(kernels, 150u);
}

} // namespace
