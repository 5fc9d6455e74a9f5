// RUN: qcompile %s --arch sm_90 --emit cuda | FileCheck %s
// RUN: qcompile %s --arch sm_86 --emit cuda \
// RUN:   | FileCheck %s --check-prefix=ALONE

// Layers of codes of more than 64 rows. Where four warps multiply together, a
// block has 16 tiles and a multiprocessor to itself; elsewhere 8 tiles, and two
// blocks share one where two stages of both fit.

// CHECK-LABEL: // quant_linear for sm_90
// CHECK: static constexpr i32 columns = 2560,
// CHECK: static constexpr i32 tokens = 128, blockTiles = 16, stages = 8;
// CHECK-NEXT: static constexpr i32 slots = 132, mostSlices = 10;
// CHECK: static_assert(WideRows<
// CHECK: extern "C" __global__ void __launch_bounds__(256, 1)
// CHECK-NEXT: quant_linear_12288x2560_{{.*}}_r128(
// CHECK-NEXT: tandem::quantLinear<

// ALONE-LABEL: // quant_linear for sm_86
// ALONE: tokens = 128, blockTiles = 8, stages = 2;
// ALONE-NEXT: static constexpr i32 slots = 160, mostSlices = 10;
// ALONE: extern "C" __global__ void __launch_bounds__(128, 2)
// ALONE-NEXT: quant_linear_12288x2560_{{.*}}_r128(
module attributes {lm.checkpoints = {target = "none"}} {
func.func @layer(%x: tensor<300x2560xbf16> {lm.port = "x"})
    -> (tensor<300x12288xbf16> {lm.port = "y"}) {
  %codes = lm.weight "target", "codes" : tensor<12288x320xi32>
  %scales = lm.weight "target", "scales" : tensor<12288x80xbf16>
  %weight = lm.dequant %codes, %scales grouped<bits = 4, group = 32>
      : tensor<12288x320xi32>, tensor<12288x80xbf16> -> tensor<12288x2560xf32>
  %y = lm.linear %x, %weight
      : tensor<300x2560xbf16>, tensor<12288x2560xf32> -> tensor<300x12288xbf16>
  return %y : tensor<300x12288xbf16>
}
}
