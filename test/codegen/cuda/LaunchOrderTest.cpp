//===- LaunchOrderTest.cpp - What stands in front of a kernel -------------===//

#include "codegen/cuda/LaunchOrder.h"
#include "dialects/plan/PlanDialect.h"

#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <string>

using namespace tandem;
using namespace tandem::codegen;

namespace {

/// Kernels, and a program that begins with buffers for them: h is what both
/// layers read, y is the result of the large one and g that of the small one.
constexpr const char *kKernels = R"(
  plan.kernel @large fused_quant_linear {activations = bf16, bits = 4 : i64,
      columns = 64 : i64, eps = 0.0 : f32, gated = 0 : i64, group = 32 : i64,
      norm = 0 : i64, offset = 0.0 : f32, residual = 0 : i64, row_tile = 16 : i64,
      scale = bf16, widths = array<i64: 4096>}
  plan.kernel @wide fused_quant_linear {activations = bf16, bits = 4 : i64,
      columns = 64 : i64, eps = 0.0 : f32, gated = 0 : i64, group = 32 : i64,
      norm = 0 : i64, offset = 0.0 : f32, residual = 0 : i64, row_tile = 128 : i64,
      scale = bf16, widths = array<i64: 4096>}
  plan.kernel @small fused_linear {activations = bf16, columns = 64 : i64,
      element = bf16, eps = 0.0 : f32, gated = 0 : i64, norm = 0 : i64,
      offset = 0.0 : f32, residual = 0 : i64, row_tile = 16 : i64,
      widths = array<i64: 8, 8>}
  plan.kernel @copy copy {bytes = 2048 : i64}
  plan.kernel @delta gated_delta {activations = bf16, commit = 0 : i64,
      heads = 1 : i64, key_dim = 16 : i64, key_heads = 1 : i64,
      pending = 16 : i64, saves = 1 : i64, scale_by = 1.0 : f32,
      value_dim = 16 : i64}
  plan.kernel @maker gated_delta {activations = bf16, channels = 48 : i64,
      commit = 0 : i64, eps = 0.0 : f32, heads = 1 : i64, key_dim = 16 : i64,
      key_heads = 1 : i64, norm_eps = 0.0 : f32, normed = 1 : i64,
      pending = 16 : i64, saves = 1 : i64, scale_by = 1.0 : f32, taps = 4 : i64,
      value_dim = 16 : i64}
  plan.kernel @inputs attention_inputs {activations = bf16, caches = 1 : i64,
      dim = 16 : i64, dims = 16 : i64, eps = 0.0 : f32, gated = 0 : i64,
      heads = 1 : i64, offset = 0.0 : f32, positions = 64 : i64,
      query_heads = 1 : i64, slots = 64 : i64}
  plan.kernel @attention attention {activations = bf16, causal = 1 : i64,
      dim = 16 : i64, heads = 1 : i64, query_heads = 1 : i64,
      scale_by = 1.0 : f32, slots = 64 : i64, window = 0 : i64}
  plan.kernel @layer attention {activations = bf16, causal = 1 : i64,
      dim = 16 : i64, dims = 16 : i64, eps = 0.0 : f32, heads = 1 : i64,
      offset = 0.0 : f32, positions = 64 : i64, query_heads = 1 : i64,
      scale_by = 1.0 : f32, slots = 64 : i64, window = 0 : i64}
  %k = plan.state "k" kind "key_value" at 4608 : memref<2x1x64x16xbf16>
  %last = plan.port "last" at 128 : memref<1xi32>
  %c = plan.state "c" kind "delta" at 0 : memref<2304xi8>
  %v = plan.state "v" kind "conv" at 2304 : memref<19x48xbf16>
  %n = plan.port "n" at 0 : memref<1xi32>
  %w = plan.port "w" at 64 : memref<64xi8>
)";
constexpr const char *kBuffers = R"(
    %h = plan.buffer at 0 : memref<16x64xbf16>
    %y = plan.buffer at 2048 : memref<16x4096xbf16>
    %g = plan.buffer at 133120 : memref<16x16xf32>
)";

/// A layer of codes of up to 16 rows.
std::string codesKernel(char name) {
  return std::string("plan.kernel @") + name +
         " fused_quant_linear {activations = bf16, bits = 4 : i64, columns = "
         "64 : i64, eps = 0.0 : f32, gated = 0 : i64, group = 32 : i64, norm = "
         "0 : i64, offset = 0.0 : f32, residual = 0 : i64, row_tile = 16 : "
         "i64, scale = bf16, widths = array<i64: 4096>}\n";
}

class LaunchOrderTest : public testing::Test {
protected:
  LaunchOrderTest() { context.loadDialect<plan::PlanDialect>(); }

  /// The order of the launches in each of \p programs.
  LaunchOrder read(std::initializer_list<std::string> programs) {
    std::string text = kKernels;
    for (char name : {'a', 'b', 'd', 'e', 'f'})
      text += codesKernel(name);
    int count = 0;
    for (const std::string &launches : programs)
      text += "plan.program @p" + std::to_string(count++) + "() -> () {" +
              kBuffers + launches + "}\n";
    mlir::ParserConfig config(&context, /*verifyAfterParse=*/false);
    module = mlir::parseSourceString<mlir::ModuleOp>(text, config);
    EXPECT_TRUE(module);
    return LaunchOrder(*module);
  }

  /// Launches of the layers of codes that \p names has a letter for, one
  /// behind the other.
  static std::string layers(const std::string &names) {
    std::string launches;
    for (char name : names)
      launches += std::string("plan.launch @") + name +
                  " ins(%h, %w : memref<16x64xbf16>, memref<64xi8>) outs(%y : "
                  "memref<16x4096xbf16>) rows 16 items 256\n";
    return launches;
  }

  /// Whether two layers that follow each other in \p names take one half.
  static bool anyMeet(const LaunchOrder &order, const std::string &names) {
    for (size_t i = 1; i < names.size(); ++i)
      if (order.takesSecondHalf({&names[i - 1], 1}) ==
          order.takesSecondHalf({&names[i], 1}))
        return true;
    return false;
  }

  static std::string copyTo(const std::string &memory,
                            const std::string &type) {
    return "plan.launch @copy ins(%h : memref<16x64xbf16>) outs(" + memory +
           " : " + type + ") rows 16 items 1\n";
  }

  const std::string large =
      "plan.launch @large ins(%h, %w : memref<16x64xbf16>, memref<64xi8>) "
      "outs(%y : memref<16x4096xbf16>) rows 16 items 256\n";
  const std::string wide =
      "plan.launch @wide ins(%h, %w : memref<16x64xbf16>, memref<64xi8>) "
      "outs(%y : memref<16x4096xbf16>) rows 16 items 256\n";
  const std::string small =
      "plan.launch @small ins(%h, %w : memref<16x64xbf16>, memref<64xi8>) "
      "outs(%g : memref<16x16xf32>) rows 16 items 1\n";
  const std::string delta =
      "plan.launch @delta ins(%h, %h, %h, %g, %g, %n : memref<16x64xbf16>, "
      "memref<16x64xbf16>, memref<16x64xbf16>, memref<16x16xf32>, "
      "memref<16x16xf32>, memref<1xi32>) outs(%y, %c : "
      "memref<16x4096xbf16>, memref<2304xi8>) rows 16 items 1\n";

  const std::string maker =
      "plan.launch @maker ins(%y, %g, %g, %w, %w, %w, %n, %h, %w : "
      "memref<16x4096xbf16>, memref<16x16xf32>, memref<16x16xf32>, "
      "memref<64xi8>, memref<64xi8>, memref<64xi8>, memref<1xi32>, "
      "memref<16x64xbf16>, memref<64xi8>) outs(%h, %v, %c : "
      "memref<16x64xbf16>, memref<19x48xbf16>, memref<2304xi8>) rows 16 "
      "items 1\n";

  /// The inputs of attention from \p start on, and attention.
  static std::string inputs(const std::string &start) {
    return "plan.launch @inputs ins(%h, %w, %h, %h, %w, " + start +
           ", %w : memref<16x64xbf16>, memref<64xi8>, memref<16x64xbf16>, "
           "memref<16x64xbf16>, memref<64xi8>, memref<1xi32>, memref<64xi8>) "
           "outs(%y, %k : memref<16x4096xbf16>, memref<2x1x64x16xbf16>) rows "
           "16 items 1 per_row\n";
  }
  static std::string attention(const std::string &start,
                               const std::string &live = "") {
    return "plan.launch @attention ins(%y, %k, " + start +
           " : memref<16x4096xbf16>, memref<2x1x64x16xbf16>, memref<1xi32>) "
           "outs(%h : memref<16x64xbf16>) rows 16 " +
           live + " items 1 per_row\n";
  }

  /// Attention that makes its inputs.
  static std::string attentionLayer(const std::string &start,
                                    const std::string &live = "") {
    return "plan.launch @layer ins(%h, %w, %h, %h, %w, " + start +
           ", %w : memref<16x64xbf16>, memref<64xi8>, memref<16x64xbf16>, "
           "memref<16x64xbf16>, memref<64xi8>, memref<1xi32>, memref<64xi8>) "
           "outs(%y, %k : memref<16x4096xbf16>, memref<2x1x64x16xbf16>) rows "
           "16 " +
           live + " items 1 per_row\n";
  }

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(LaunchOrderTest, SmallLayersStandBesideLargeOnes) {
  LaunchOrder order = read({large + small + delta});
  EXPECT_TRUE(order.isBeside("small"));
  EXPECT_TRUE(order.hasBeside("large"));
  EXPECT_FALSE(order.isBeside("large"));
  EXPECT_FALSE(order.hasBeside("small"));
  EXPECT_FALSE(order.isBeside("delta"));
}

TEST_F(LaunchOrderTest, WhatReadsALayerWaitsForIt) {
  LaunchOrder order =
      read({large + "plan.launch @small ins(%y, %w : memref<16x4096xbf16>, "
                    "memref<64xi8>) outs(%g : memref<16x16xf32>) rows 16 "
                    "items 1\n"});
  EXPECT_FALSE(order.isBeside("small"));
  EXPECT_FALSE(order.hasBeside("large"));
}

TEST_F(LaunchOrderTest, WhatWritesOverTheInputOfALayerWaitsForIt) {
  // The buffer of the result lies where the large layer reads.
  LaunchOrder order =
      read({large + "%o = plan.buffer at 1024 : memref<16x16xf32>\n"
                    "%i = plan.buffer at 200000 : memref<16x64xbf16>\n"
                    "plan.launch @small ins(%i, %w : memref<16x64xbf16>, "
                    "memref<64xi8>) outs(%o : memref<16x16xf32>) rows 16 "
                    "items 1\n"});
  EXPECT_FALSE(order.isBeside("small"));
}

TEST_F(LaunchOrderTest, OnePlaceIsThatOfAllPrograms) {
  EXPECT_TRUE(read({large + small, large + small}).isBeside("small"));
  // First in a program, behind what is no layer, and behind many rows.
  EXPECT_FALSE(read({large + small, small}).isBeside("small"));
  EXPECT_FALSE(
      read({large + small, copyTo("%y", "memref<16x4096xbf16>") + small})
          .isBeside("small"));
  EXPECT_FALSE(read({large + small, wide + small}).isBeside("small"));
  EXPECT_FALSE(read({large + small, small}).hasBeside("large"));
}

TEST_F(LaunchOrderTest, EarlierRowsAreThereUnlessOneOfTwoLaunchesWritesThem) {
  LaunchOrder order = read({large + wide + inputs("%n") + attention("%n")});
  EXPECT_TRUE(order.knowsStart("inputs"));
  EXPECT_TRUE(order.knowsStart("attention"));
  EXPECT_FALSE(order.writesFirst("inputs"));
  // Where the rows begin, and how many there are.
  std::string accepts = copyTo("%n", "memref<1xi32>");
  order = read({accepts + wide + inputs("%n") + attention("%n")});
  EXPECT_FALSE(order.knowsStart("inputs"));
  EXPECT_TRUE(order.knowsStart("attention"));
  order = read({wide + accepts + inputs("%last") +
                attention("%last", "live %n : memref<1xi32>")});
  EXPECT_FALSE(order.knowsStart("attention"));
  // The cache itself.
  order = read({large + copyTo("%k", "memref<2x1x64x16xbf16>") + wide +
                attention("%n")});
  EXPECT_FALSE(order.knowsStart("attention"));
  // The program in front may end with what writes them.
  order = read({wide + inputs("%n") + attention("%n")});
  EXPECT_FALSE(order.knowsStart("inputs"));
  EXPECT_TRUE(order.knowsStart("attention"));
  EXPECT_FALSE(read({inputs("%n") + attention("%n")}).knowsStart("attention"));
  // Kernels alone, as they are measured.
  EXPECT_TRUE(read({"plan.launch @attention rows 16 items 1\n"})
                  .knowsStart("attention"));
}

TEST_F(LaunchOrderTest, AttentionThatMakesItsInputsKnowsEarlierRows) {
  EXPECT_TRUE(read({large + wide + attentionLayer("%n")}).knowsStart("layer"));
  // Where the rows begin, how many there are, and the cache.
  std::string accepts = copyTo("%n", "memref<1xi32>");
  EXPECT_FALSE(
      read({accepts + wide + attentionLayer("%n")}).knowsStart("layer"));
  EXPECT_FALSE(read({wide + accepts +
                     attentionLayer("%last", "live %n : memref<1xi32>")})
                   .knowsStart("layer"));
  EXPECT_FALSE(
      read({large + copyTo("%k", "memref<2x1x64x16xbf16>") + wide + wide +
            attentionLayer("%n") + copyTo("%k", "memref<2x1x64x16xbf16>") +
            attentionLayer("%n")})
          .knowsStart("layer"));
  // Rows from the same start on, of a prefill.
  EXPECT_TRUE(read({large + inputs("%n") + wide + attentionLayer("%n")})
                  .knowsStart("layer"));
  EXPECT_FALSE(read({large + inputs("%last") + wide + attentionLayer("%n")})
                   .knowsStart("layer"));
}

TEST_F(LaunchOrderTest, RowsInFrontOfAnotherStartAreWrittenFirst) {
  LaunchOrder order = read({large + wide + inputs("%n") + attention("%n"),
                            large + wide + inputs("%n") + attention("%last")});
  EXPECT_TRUE(order.writesFirst("inputs"));
  EXPECT_TRUE(order.knowsStart("attention"));
  // Not if something is between them.
  order = read({large + inputs("%n") + wide + attention("%last")});
  EXPECT_FALSE(order.writesFirst("inputs"));
  EXPECT_FALSE(order.knowsStart("attention"));
}

TEST_F(LaunchOrderTest, StateIsThereUnlessOneOfTwoLaunchesWritesIt) {
  EXPECT_TRUE(read({large + small + delta}).hasState("delta"));
  std::string accepts = copyTo("%n", "memref<1xi32>");
  EXPECT_FALSE(read({accepts + delta}).hasState("delta"));
  EXPECT_FALSE(read({accepts + small + delta}).hasState("delta"));
  EXPECT_TRUE(read({accepts + large + small + delta}).hasState("delta"));
  EXPECT_FALSE(read({delta + delta}).hasState("delta"));
  // The program in front may end with what writes it.
  EXPECT_FALSE(read({delta}).hasState("delta"));
  EXPECT_FALSE(read({large + delta}).hasState("delta"));
  EXPECT_FALSE(read({large + small + delta, large + delta}).hasState("delta"));
  EXPECT_FALSE(read({large + maker}).hasState("maker"));
  // Kernels alone, as they are measured.
  EXPECT_TRUE(read({"plan.launch @delta rows 16 items 1\n"}).hasState("delta"));
  // The same with the cache of a convolution.
  EXPECT_TRUE(read({large + small + maker}).hasState("maker"));
  EXPECT_FALSE(read({accepts + maker}).hasState("maker"));
  EXPECT_FALSE(read({copyTo("%v", "memref<19x48xbf16>") + small + maker})
                   .hasState("maker"));
  EXPECT_FALSE(read({delta + large + maker}).hasState("maker"));
  EXPECT_FALSE(read({copyTo("%c", "memref<2304xi8>") + delta, large + delta})
                   .hasState("delta"));
}

TEST_F(LaunchOrderTest, LayersThatFollowEachOtherTakeDifferentHalves) {
  LaunchOrder order = read({layers("abdeabde")});
  EXPECT_TRUE(order.takesSecondHalf("a"));
  EXPECT_FALSE(anyMeet(order, "abdea"));
  // One alone, and one behind itself, which can have but one.
  EXPECT_TRUE(read({layers("b")}).takesSecondHalf("b"));
  EXPECT_TRUE(read({layers("bb")}).takesSecondHalf("b"));
  EXPECT_FALSE(anyMeet(read({layers("aabb")}), "ab"));
}

TEST_F(LaunchOrderTest, HalvesAreThoseOfAllPrograms) {
  // Each program for itself would begin with the second half.
  LaunchOrder order = read({layers("ab"), layers("de"), layers("ad")});
  for (const char *names : {"ab", "de", "ad"})
    EXPECT_FALSE(anyMeet(order, names)) << names;
  order = read({layers("de"), layers("fab"), layers("ed"), layers("be")});
  for (const char *names : {"de", "fab", "be"})
    EXPECT_FALSE(anyMeet(order, names)) << names;
  // The end of one program is not in front of the next one.
  order = read({layers("abd"), layers("d"), layers("ed")});
  EXPECT_FALSE(anyMeet(order, "abd"));
  EXPECT_FALSE(anyMeet(order, "ed"));
}

TEST_F(LaunchOrderTest, LayersOfCodesKnowWhetherOneStandsRightBehind) {
  LaunchOrder order =
      read({layers("ab") + delta + layers("d") + small, layers("eb")});
  for (const char *name : {"a", "e"})
    EXPECT_TRUE(order.hasLayerBehind(name)) << name;
  // In front of something else, or at the end.
  for (const char *name : {"b", "d", "delta", "small"})
    EXPECT_FALSE(order.hasLayerBehind(name)) << name;
  // One program is enough.
  EXPECT_TRUE(read({layers("a") + delta, layers("ab")}).hasLayerBehind("a"));
  // Many rows have no ring to fill.
  EXPECT_FALSE(read({layers("a") + wide}).hasLayerBehind("a"));
  EXPECT_FALSE(read({wide + layers("a")}).hasLayerBehind("wide"));

  // Wherever it is; another program comes behind the last launch.
  EXPECT_TRUE(
      read({layers("ab"), layers("ab") + delta}).hasOnlyLayersBehind("a"));
  EXPECT_FALSE(
      read({layers("ab"), layers("a") + delta}).hasOnlyLayersBehind("a"));
  EXPECT_FALSE(read({layers("ab"), layers("a")}).hasOnlyLayersBehind("a"));
  EXPECT_FALSE(read({layers("ab")}).hasOnlyLayersBehind("b"));
}

TEST_F(LaunchOrderTest, OtherLaunchesBetweenLayersChangeNoHalf) {
  std::string copy = copyTo("%c", "memref<2304xi8>");
  LaunchOrder order = read({layers("a") + delta + layers("b") + wide + copy +
                            layers("d") + small + layers("e")});
  EXPECT_FALSE(anyMeet(order, "abde"));
  // Neither many rows nor weights without codes have halves.
  for (const char *name : {"wide", "small", "delta", "copy"})
    EXPECT_FALSE(order.takesSecondHalf(name)) << name;
  EXPECT_FALSE(read({wide + small + layers("ab")}).takesSecondHalf("wide"));
  EXPECT_FALSE(read({layers("a") + large}).takesSecondHalf("large"));
}

TEST_F(LaunchOrderTest, InAnOddCircleOnePairMeets) {
  LaunchOrder order = read({layers("abda")});
  EXPECT_TRUE(anyMeet(order, "abda"));
  EXPECT_EQ(anyMeet(order, "ab") + anyMeet(order, "bd") + anyMeet(order, "da"),
            1);
  // What hangs on it is as it would be.
  order = read({layers("abda"), layers("def")});
  EXPECT_FALSE(anyMeet(order, "def"));
}

} // namespace
