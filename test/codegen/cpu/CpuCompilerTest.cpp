//===- CpuCompilerTest.cpp - Targets, errors, the image as a whole --------===//

#include "test/codegen/cpu/KernelHarness.h"

#include "dialects/plan/PlanOps.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"

#include <dlfcn.h>
#include <unistd.h>

using namespace tandem;
using namespace tandem::codegen;
using namespace tandem::test;

namespace {

class CpuCompiler : public testing::Test {
protected:
  CpuCompiler() { context.loadDialect<plan::PlanDialect>(); }

  llvm::Expected<CpuImage> compile(llvm::StringRef text,
                                   const CpuOptions &options = {},
                                   llvm::StringRef arch = "x86-64-v4") {
    // Errors that the verifier of the dialect finds as well are reached.
    auto module = mlir::parseSourceString<mlir::ModuleOp>(
        text, mlir::ParserConfig(&context, /*verifyAfterParse=*/false));
    EXPECT_TRUE(module);
    return compileCpuKernels(*module, llvm::cantFail(getCpuTarget(arch)),
                             options);
  }

  mlir::MLIRContext context;
};

const char *const threeKernels = R"(
  plan.kernel @silu_17 silu {columns = 17 : i64}
  plan.kernel @accept accept {}
  plan.kernel @down quant_linear {bits = 4 : i64, columns = 64 : i64,
                                  group = 32 : i64, outputs = 20 : i64,
                                  scale = bf16}
)";

TEST(CpuTargetTest, levels) {
  CpuTarget three = llvm::cantFail(getCpuTarget("x86-64-v3"));
  EXPECT_EQ(three.cpu, "x86-64-v3");
  EXPECT_TRUE(three.features.empty());
  EXPECT_TRUE(llvm::is_contained(three.requiredFeatures, "avx2"));
  EXPECT_FALSE(llvm::is_contained(three.requiredFeatures, "avx512f"));
  CpuTarget four = llvm::cantFail(getCpuTarget("x86-64-v4"));
  EXPECT_TRUE(llvm::is_contained(four.requiredFeatures, "avx512f"));
  EXPECT_FALSE(four.hasTiles());
  CpuTarget sapphireRapids = llvm::cantFail(getCpuTarget("sapphirerapids"));
  EXPECT_TRUE(sapphireRapids.hasAvx512());
  EXPECT_TRUE(sapphireRapids.hasBf16Tiles());
  EXPECT_TRUE(llvm::is_contained(sapphireRapids.requiredFeatures, "amx-tile"));
  for (const char *wrong : {"x86-64-v2", "sm_86", ""}) {
    llvm::Expected<CpuTarget> none = getCpuTarget(wrong);
    ASSERT_FALSE(static_cast<bool>(none));
    EXPECT_EQ(llvm::toString(none.takeError()),
              "expects x86-64-v3, x86-64-v4, sapphirerapids or native as CPU, "
              "but got '" +
                  std::string(wrong) + "'");
  }
}

TEST_F(CpuCompiler, image) {
  auto image = compile(threeKernels);
  ASSERT_TRUE(static_cast<bool>(image)) << llvm::toString(image.takeError());
  ASSERT_EQ(image->kernels.size(), 3u);
  EXPECT_EQ(image->kernels[0].symbol, "silu_17");
  EXPECT_EQ(image->kernels[0].family, "silu");
  EXPECT_EQ(image->kernels[0].scratchBytes, 0u);
  EXPECT_EQ(image->kernels[2].symbol, "down");
  EXPECT_GT(image->kernels[2].scratchBytes, 0u);
  EXPECT_TRUE(image->mlirText.empty());

  // Loading needs no AVX-512: nothing is run.
  int file = -1;
  void *handle = loadImage(image->sharedObject, file);
  ASSERT_TRUE(handle);
  auto *version = static_cast<int32_t *>(dlsym(handle, "tandem_kernel_abi"));
  ASSERT_TRUE(version);
  EXPECT_EQ(*version, TANDEM_KERNEL_ABI_VERSION);
  for (const CpuKernel &kernel : image->kernels)
    EXPECT_TRUE(dlsym(handle, kernel.symbol.c_str())) << kernel.symbol;
  dlclose(handle);
  close(file);
}

TEST_F(CpuCompiler, noKernels) {
  auto image = compile("module {}");
  ASSERT_TRUE(static_cast<bool>(image)) << llvm::toString(image.takeError());
  EXPECT_TRUE(image->kernels.empty());
  EXPECT_FALSE(image->sharedObject.empty());
}

TEST_F(CpuCompiler, sameBytesForAnyThreads) { // P7.16
  CpuOptions options;
  options.threads = 1;
  auto one = compile(threeKernels, options);
  options.threads = 3;
  options.keepMlir = true;
  auto three = compile(threeKernels, options);
  ASSERT_TRUE(static_cast<bool>(one)) << llvm::toString(one.takeError());
  ASSERT_TRUE(static_cast<bool>(three)) << llvm::toString(three.takeError());
  EXPECT_TRUE(one->sharedObject == three->sharedObject);
  EXPECT_NE(three->mlirText.find("llvm.func @silu_17"), std::string::npos);
}

// What is compiled here can be run elsewhere.
TEST_F(CpuCompiler, tileRegisters) {
  const char *text = "plan.kernel @k quant_linear {arithmetic = bf16, "
                     "bits = 4 : i64, columns = 64 : i64, group = 32 : i64, "
                     "outputs = 20 : i64, scale = bf16}";
  CpuOptions options;
  options.keepMlir = true;
  for (llvm::StringRef arch : {"x86-64-v4", "sapphirerapids"}) {
    auto image = compile(text, options, arch);
    ASSERT_TRUE(static_cast<bool>(image)) << llvm::toString(image.takeError());
    for (const char *intrinsic : {"ldtilecfg", "tdpbf16ps", "tilerelease"})
      EXPECT_EQ(image->mlirText.find(intrinsic) != std::string::npos,
                arch == "sapphirerapids")
          << arch.str() << ", " << intrinsic;
  }
}

TEST_F(CpuCompiler, wrongParameters) {
  const std::pair<const char *, const char *> cases[] = {
      {"plan.kernel @k silu {columns = 0 : i64}",
       "kernel 'k': expects columns between 1 and 16777216, but got 0"},
      {"plan.kernel @k l2_norm {columns = 10 : i64, dim = 4 : i64, "
       "eps = 0.0 : f32}",
       "kernel 'k': expects dim to divide 10 columns, but got 4"},
      {"plan.kernel @k cache_append {dim = 4 : i64, heads = 1 : i64, "
       "slots = 20 : i64}",
       "kernel 'k': expects slots to be a multiple of 16, but got 20"},
      {"plan.kernel @k linear {columns = 4 : i64, element = f64, "
       "outputs = 4 : i64}",
       "kernel 'k': expects f32, bf16 or f16 as element, but got 'f64'"},
      {"plan.kernel @k quant_linear {bits = 3 : i64, columns = 4 : i64, "
       "group = 4 : i64, outputs = 4 : i64, scale = bf16}",
       "kernel 'k': expects 4 or 8 bits, but got 3"},
      {"plan.kernel @k silu {activations = bf16, columns = 4 : i64}",
       "kernel 'k': expects f32 as activations on a processor, but got bf16"},
  };
  for (auto [text, message] : cases) {
    auto image = compile(text);
    ASSERT_FALSE(static_cast<bool>(image)) << text;
    EXPECT_EQ(llvm::toString(image.takeError()), message);
  }
}

} // namespace
