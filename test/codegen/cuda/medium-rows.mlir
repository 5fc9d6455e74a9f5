// RUN: qcompile %s --arch sm_90 --emit cuda | FileCheck %s
// RUN: qcompile %s --arch sm_86 --emit cuda \
// RUN:   | FileCheck %s --check-prefix=LESS

// Layers of codes of 33 to 64 rows. Where there are clusters, one has some
// tiles and each of its blocks a slice of the columns: two slices where outputs
// are many, eight where they are few. Elsewhere every multiprocessor has a
// stretch of the units of all tiles, unless there are fewer units; where a
// block has less shared memory, fewer of them are on their way, and the sums of
// 16 tokens are exchanged at a time. Weights that are no codes and have few
// outputs are blocks of 16 rows.

// CHECK-LABEL: // linear for sm_90
// CHECK: static constexpr i32 columns = 2560,
// CHECK: static constexpr i32 tokens = 16,
// CHECK: linear_64x2560_{{.*}}_r64(

// CHECK-LABEL: // quant_linear for sm_90
// CHECK: static constexpr i32 columns = 2560,
// CHECK: static constexpr bool inClusters = true;
// CHECK-NEXT: static constexpr i32 tokens = 64, stages = 6;
// CHECK-NEXT: static constexpr i32 blockTiles = 18, slices = 2;
// CHECK: static_assert(MediumClusters<
// CHECK: extern "C" __global__ void __cluster_dims__(1, 2, 1) __launch_bounds__(768, 1)
// CHECK-NEXT: quant_linear_18432x2560_{{.*}}_r64(
// CHECK-NEXT: tandem::quantLinear<
// CHECK: static constexpr i32 columns = 9216,
// CHECK: static constexpr bool inClusters = true;
// CHECK: blockTiles = 11, slices = 8;
// CHECK: __cluster_dims__(1, 8, 1)
// CHECK: quant_linear_2560x9216_{{.*}}_r64(
// CHECK: static constexpr i32 columns = 320,
// CHECK: static constexpr bool isMedium = false;
// CHECK-NOT: MediumClusters
// CHECK: quant_linear_64x320_{{.*}}_r32(
// CHECK: static constexpr i32 columns = 320,
// CHECK: static constexpr bool inClusters = true;
// CHECK: quant_linear_64x320_{{.*}}_r64(

// LESS-LABEL: // quant_linear for sm_86
// LESS: static constexpr i32 columns = 2560,
// LESS: static constexpr bool inClusters = false;
// LESS-NEXT: static constexpr i32 tokens = 64, stages = 3, blocks = 80;
// LESS-NEXT: static constexpr i32 exchanged = 16,
module attributes {lm.checkpoints = {target = "none"}} {
func.func @layers(
    %a: tensor<64x2560xbf16> {lm.port = "a"},
    %b: tensor<64x9216xbf16> {lm.port = "b"},
    %c: tensor<64x320xbf16> {lm.port = "c"},
    %d: tensor<32x320xbf16> {lm.port = "d"},
    %e: tensor<64x2560xbf16> {lm.port = "e"})
    -> (tensor<64x18432xbf16> {lm.port = "aa"},
        tensor<64x2560xbf16> {lm.port = "bb"},
        tensor<64x64xbf16> {lm.port = "cc"},
        tensor<32x64xbf16> {lm.port = "dd"},
        tensor<64x64xbf16> {lm.port = "ee"}) {
  %aCodes = lm.weight "target", "a.codes" : tensor<18432x320xi32>
  %aScales = lm.weight "target", "a.scales" : tensor<18432x80xbf16>
  %aWeight = lm.dequant %aCodes, %aScales grouped<bits = 4, group = 32>
      : tensor<18432x320xi32>, tensor<18432x80xbf16> -> tensor<18432x2560xf32>
  %aResult = lm.linear %a, %aWeight
      : tensor<64x2560xbf16>, tensor<18432x2560xf32> -> tensor<64x18432xbf16>
  %bCodes = lm.weight "target", "b.codes" : tensor<2560x1152xi32>
  %bScales = lm.weight "target", "b.scales" : tensor<2560x288xbf16>
  %bWeight = lm.dequant %bCodes, %bScales grouped<bits = 4, group = 32>
      : tensor<2560x1152xi32>, tensor<2560x288xbf16> -> tensor<2560x9216xf32>
  %bResult = lm.linear %b, %bWeight
      : tensor<64x9216xbf16>, tensor<2560x9216xf32> -> tensor<64x2560xbf16>
  %cCodes = lm.weight "target", "c.codes" : tensor<64x40xi32>
  %cScales = lm.weight "target", "c.scales" : tensor<64x10xbf16>
  %cWeight = lm.dequant %cCodes, %cScales grouped<bits = 4, group = 32>
      : tensor<64x40xi32>, tensor<64x10xbf16> -> tensor<64x320xf32>
  %cResult = lm.linear %c, %cWeight
      : tensor<64x320xbf16>, tensor<64x320xf32> -> tensor<64x64xbf16>
  %dResult = lm.linear %d, %cWeight
      : tensor<32x320xbf16>, tensor<64x320xf32> -> tensor<32x64xbf16>
  %eWeight = lm.weight "target", "e" : tensor<64x2560xbf16>
  %eResult = lm.linear %e, %eWeight
      : tensor<64x2560xbf16>, tensor<64x2560xbf16> -> tensor<64x64xbf16>
  return %aResult, %bResult, %cResult, %dResult, %eResult
      : tensor<64x18432xbf16>, tensor<64x2560xbf16>, tensor<64x64xbf16>, tensor<32x64xbf16>, tensor<64x64xbf16>
}
}
