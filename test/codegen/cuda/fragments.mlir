// RUN: qcompile %s --arch sm_90 --emit cuda | FileCheck %s
// RUN: qcompile %s --arch sm_86 --emit cuda \
// RUN:   | FileCheck %s --check-prefix=WITHOUT
// RUN: qcompile %s --arch sm_90 --emit plan \
// RUN:   | sed 's/plan.arch = "sm_90"/plan.arch = "sm_86"/' > %t.mlir
// RUN: %fails 1 qcompile %t.mlir --emit cuda \
// RUN:   | FileCheck %s --check-prefix=REFUSED

// REFUSED: r8_next': expects clusters of blocks that add 256 columns, to leave tokens in fragments

// Down, gate and up, and down: the first prepares the norm of the second, which
// leaves its result to the third as products take it.

// CHECK-LABEL: // fused_quant_linear for sm_90
// CHECK: static constexpr bool hasResidual = true;
// CHECK-NEXT: static constexpr bool fromFragments = true;
// CHECK-NEXT: static constexpr bool normsSums = false;
// CHECK-NEXT: static constexpr bool toFragments = false;
// CHECK-NEXT: static constexpr bool nextNorm = false;
// CHECK: _r8_from(const bf16 *x, const u8 *weight0, const bf16 *residual, bf16 *y0, const i32 *live, i32 rows, u8 *scratch) {

// CHECK: static constexpr bool hasNorm = false;
// CHECK-NEXT: static constexpr bool hasResidual = true;
// CHECK-NEXT: static constexpr bool fromFragments = false;
// CHECK-NEXT: static constexpr bool normsSums = false;
// CHECK-NEXT: static constexpr bool toFragments = false;
// CHECK-NEXT: static constexpr bool nextNorm = true;
// CHECK: static constexpr f32 nextOffset =
// CHECK: _r8_next(const bf16 *x, const u8 *weight0, const bf16 *residual, const f32 *nextNorm, bf16 *y0, bf16 *next, f32 *nextSquares, const i32 *live, i32 rows, u8 *scratch) {
// CHECK-NEXT: tandem::quantLinear<{{.*}}_choices>({x, {weight0}, nullptr, residual, {y0}, nullptr, nextNorm, next, nextSquares, 0}, live, rows, scratch);

// CHECK: static constexpr bool gated = true;
// CHECK-NEXT: static constexpr bool hasNorm = false;
// CHECK-NEXT: static constexpr bool hasResidual = false;
// CHECK-NEXT: static constexpr bool fromFragments = true;
// CHECK-NEXT: static constexpr bool normsSums = true;
// CHECK-NEXT: static constexpr bool toFragments = true;
// CHECK-NEXT: static constexpr bool nextNorm = false;
// CHECK: _r8_from_to(const bf16 *x, const u8 *weight0, const u8 *weight1, const f32 *squares, bf16 *y0, const i32 *live, i32 rows, u8 *scratch) {
// CHECK-NEXT: tandem::quantLinear<{{.*}}_choices>({x, {weight0, weight1}, nullptr, nullptr, {y0}, squares, nullptr, nullptr, nullptr, 0}, live, rows, scratch);

// WITHOUT-NOT: {{fromFragments = true|toFragments = true|nextNorm = true}}
// WITHOUT: hasNorm = true
// WITHOUT-NOT: {{fromFragments = true|toFragments = true|nextNorm = true}}
module attributes {lm.checkpoints = {target = "none"}} {
func.func @layers(
    %x: tensor<4x256xbf16> {lm.port = "x"},
    %r: tensor<4x128xbf16> {lm.port = "r"})
    -> (tensor<4x128xbf16> {lm.port = "y"}) {
  %norm = lm.weight "target", "norm" : tensor<128xf32>
  %aCodes = lm.weight "target", "a.codes" : tensor<128x32xi32>
  %aScales = lm.weight "target", "a.scales" : tensor<128x8xbf16>
  %aWeight = lm.dequant %aCodes, %aScales grouped<bits = 4, group = 32>
      : tensor<128x32xi32>, tensor<128x8xbf16> -> tensor<128x256xf32>
  %gateCodes = lm.weight "target", "gate.codes" : tensor<256x16xi32>
  %gateScales = lm.weight "target", "gate.scales" : tensor<256x4xbf16>
  %gateWeight = lm.dequant %gateCodes, %gateScales grouped<bits = 4, group = 32>
      : tensor<256x16xi32>, tensor<256x4xbf16> -> tensor<256x128xf32>
  %upCodes = lm.weight "target", "up.codes" : tensor<256x16xi32>
  %upScales = lm.weight "target", "up.scales" : tensor<256x4xbf16>
  %upWeight = lm.dequant %upCodes, %upScales grouped<bits = 4, group = 32>
      : tensor<256x16xi32>, tensor<256x4xbf16> -> tensor<256x128xf32>
  %a = lm.linear %x, %aWeight
      : tensor<4x256xbf16>, tensor<128x256xf32> -> tensor<4x128xbf16>
  %stream = lm.add %r, %a : tensor<4x128xbf16>
  %normed = lm.rms_norm %stream, %norm {eps = 1.0e-6 : f32, offset = 1.0 : f32}
      : tensor<4x128xbf16>, tensor<128xf32>
  %gate = lm.linear %normed, %gateWeight
      : tensor<4x128xbf16>, tensor<256x128xf32> -> tensor<4x256xbf16>
  %up = lm.linear %normed, %upWeight
      : tensor<4x128xbf16>, tensor<256x128xf32> -> tensor<4x256xbf16>
  %open = lm.silu %gate : tensor<4x256xbf16>
  %inner = lm.mul %open, %up : tensor<4x256xbf16>
  %b = lm.linear %inner, %aWeight
      : tensor<4x256xbf16>, tensor<128x256xf32> -> tensor<4x128xbf16>
  %y = lm.add %stream, %b : tensor<4x128xbf16>
  return %y : tensor<4x128xbf16>
}
}
