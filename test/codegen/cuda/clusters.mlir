// RUN: qcompile %s --arch sm_90 --emit cuda | FileCheck %s
// RUN: qcompile %s --arch sm_86 --emit cuda \
// RUN:   | FileCheck %s --check-prefix=WITHOUT

// Columns of codes are cut over the blocks of a cluster on sm_90: the fewest
// that leave half of a multiprocessor to the next launch. Narrow layers need
// none, and so few columns that slices are no power of two have none left over.
// Layers that follow each other take different halves: the second is one of
// registers, which the compiler is made to give out, the first one of shared
// memory. Where columns do not fit into halves, blocks take all of one.

// CHECK-LABEL: // quant_linear for sm_90
// CHECK: static constexpr i32 columns = 512,
// CHECK: slices = 1, warps = 4, unitsPerWarp = 1, stages = 16;
// CHECK: sumWarps = 1, cluster = 1, itemTiles = 1;
// CHECK: extern "C" __global__ void __launch_bounds__(192, 2)
// CHECK-NEXT: quant_linear_64x512_
// CHECK-NEXT: tandem::quantLinear<
// CHECK: static constexpr i32 columns = 2560,
// CHECK: slices = 2, warps = 10, unitsPerWarp = 1,
// CHECK: sumWarps = 1, cluster = 2, itemTiles = 1;
// CHECK: extern "C" __global__ void __cluster_dims__(1, 2, 1) __block_size__((384, 1, 1)) __maxnreg__(80)
// CHECK-NEXT: quant_linear_64x2560_
// CHECK-NEXT: tandem::quantLinear<
// CHECK: static constexpr i32 columns = 9216,
// CHECK: slices = 8, warps = 9, unitsPerWarp = 1,
// CHECK: sumWarps = 1, cluster = 8, itemTiles = 1;
// CHECK: extern "C" __global__ void __cluster_dims__(1, 8, 1) __block_size__((352, 1, 1)) __maxnreg__(88)
// CHECK-NEXT: quant_linear_64x9216_
// CHECK-NEXT: if (rows < 0)
// CHECK-NEXT: tandem::needRegisters<81>(scratch);
// CHECK-NEXT: tandem::quantLinear<
// CHECK: static constexpr i32 columns = 12800,
// CHECK: slices = 8, warps = 13, unitsPerWarp = 1,
// CHECK: extern "C" __global__ void __cluster_dims__(1, 8, 1) __launch_bounds__(480, 1)
// CHECK-NEXT: quant_linear_64x12800_
// CHECK-NEXT: tandem::quantLinear<

// WITHOUT-NOT: {{__cluster_dims__|__block_size__|needRegisters}}
// WITHOUT: cluster = 1
// WITHOUT-NOT: {{__cluster_dims__|__block_size__|needRegisters}}
module attributes {lm.checkpoints = {target = "none"}} {
func.func @layers(
    %a: tensor<4x512xbf16> {lm.port = "a"},
    %b: tensor<4x2560xbf16> {lm.port = "b"},
    %c: tensor<4x9216xbf16> {lm.port = "c"},
    %d: tensor<4x12800xbf16> {lm.port = "d"})
    -> (tensor<4x64xbf16> {lm.port = "aa"},
        tensor<4x64xbf16> {lm.port = "bb"},
        tensor<4x64xbf16> {lm.port = "cc"},
        tensor<4x64xbf16> {lm.port = "dd"}) {
  %aCodes = lm.weight "target", "a.codes" : tensor<64x64xi32>
  %aScales = lm.weight "target", "a.scales" : tensor<64x16xbf16>
  %aWeight = lm.dequant %aCodes, %aScales grouped<bits = 4, group = 32>
      : tensor<64x64xi32>, tensor<64x16xbf16> -> tensor<64x512xf32>
  %aResult = lm.linear %a, %aWeight
      : tensor<4x512xbf16>, tensor<64x512xf32> -> tensor<4x64xbf16>
  %bCodes = lm.weight "target", "b.codes" : tensor<64x320xi32>
  %bScales = lm.weight "target", "b.scales" : tensor<64x80xbf16>
  %bWeight = lm.dequant %bCodes, %bScales grouped<bits = 4, group = 32>
      : tensor<64x320xi32>, tensor<64x80xbf16> -> tensor<64x2560xf32>
  %bResult = lm.linear %b, %bWeight
      : tensor<4x2560xbf16>, tensor<64x2560xf32> -> tensor<4x64xbf16>
  %cCodes = lm.weight "target", "c.codes" : tensor<64x1152xi32>
  %cScales = lm.weight "target", "c.scales" : tensor<64x288xbf16>
  %cWeight = lm.dequant %cCodes, %cScales grouped<bits = 4, group = 32>
      : tensor<64x1152xi32>, tensor<64x288xbf16> -> tensor<64x9216xf32>
  %cResult = lm.linear %c, %cWeight
      : tensor<4x9216xbf16>, tensor<64x9216xf32> -> tensor<4x64xbf16>
  %dCodes = lm.weight "target", "d.codes" : tensor<64x1600xi32>
  %dScales = lm.weight "target", "d.scales" : tensor<64x400xbf16>
  %dWeight = lm.dequant %dCodes, %dScales grouped<bits = 4, group = 32>
      : tensor<64x1600xi32>, tensor<64x400xbf16> -> tensor<64x12800xf32>
  %dResult = lm.linear %d, %dWeight
      : tensor<4x12800xbf16>, tensor<64x12800xf32> -> tensor<4x64xbf16>
  return %aResult, %bResult, %cResult, %dResult
      : tensor<4x64xbf16>, tensor<4x64xbf16>, tensor<4x64xbf16>, tensor<4x64xbf16>
}
}
