// RUN: qopt %s --lm-fuse-gated-mlp | FileCheck %s
// RUN: qopt %s --lm-fuse-gated-mlp=report 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REPORT

// REPORT: remark: lm-fuse-gated-mlp: 2 gated layers fused

// CHECK-LABEL: @fuse_packed
// CHECK-SAME: %[[X:.*]]: tensor<4x64xf32>, %[[G:.*]]: tensor<8x8xi32>, %[[GS:.*]]: tensor<8x2xbf16>, %[[U:.*]]: tensor<8x8xi32>, %[[US:.*]]: tensor<8x2xbf16>
func.func @fuse_packed(%x: tensor<4x64xf32>, %g: tensor<8x8xi32>,
                       %gs: tensor<8x2xbf16>, %u: tensor<8x8xi32>,
                       %us: tensor<8x2xbf16>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[Y:.*]] = lm.fused_linear(%[[X]]) weights(%[[G]], %[[U]]) scales(%[[GS]], %[[US]]) norm() residual() {gated, quantization = #lm.grouped<bits = 4, group = 32>}
  // CHECK-NEXT: return %[[Y]]
  %gate = lm.quant_linear %x, %g, %gs grouped<bits = 4, group = 32>
      : tensor<4x64xf32>, tensor<8x8xi32>, tensor<8x2xbf16> -> tensor<4x8xf32>
  %up = lm.quant_linear %x, %u, %us grouped<bits = 4, group = 32>
      : tensor<4x64xf32>, tensor<8x8xi32>, tensor<8x2xbf16> -> tensor<4x8xf32>
  %s = lm.silu %gate : tensor<4x8xf32>
  %y = lm.mul %s, %up : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// The product in the other order, of dense weights: the gate is still first.
// CHECK-LABEL: @fuse_dense_other_order
// CHECK-SAME: %[[X:.*]]: tensor<4x64xf32>, %[[G:.*]]: tensor<8x64xbf16>, %[[U:.*]]: tensor<8x64xbf16>
func.func @fuse_dense_other_order(%x: tensor<4x64xf32>, %g: tensor<8x64xbf16>,
                                  %u: tensor<8x64xbf16>) -> tensor<4x8xf32> {
  // CHECK: lm.fused_linear(%[[X]]) weights(%[[G]], %[[U]]) scales() {{.*}} {gated}
  %gate = lm.linear %x, %g
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  %up = lm.linear %x, %u
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  %s = lm.silu %gate : tensor<4x8xf32>
  %y = lm.mul %up, %s : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// CHECK-LABEL: @negative_formats_differ
func.func @negative_formats_differ(%x: tensor<4x64xf32>, %g: tensor<8x64xbf16>,
                                   %u: tensor<8x64xf16>) -> tensor<4x8xf32> {
  // CHECK-NOT: lm.fused_linear
  // CHECK: lm.mul
  %gate = lm.linear %x, %g
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  %up = lm.linear %x, %u
      : tensor<4x64xf32>, tensor<8x64xf16> -> tensor<4x8xf32>
  %s = lm.silu %gate : tensor<4x8xf32>
  %y = lm.mul %s, %up : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// CHECK-LABEL: @negative_inputs_differ
func.func @negative_inputs_differ(%x: tensor<4x64xf32>, %z: tensor<4x64xf32>,
                                  %w: tensor<8x64xbf16>) -> tensor<4x8xf32> {
  // CHECK-NOT: lm.fused_linear
  // CHECK: lm.mul
  %gate = lm.linear %x, %w
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  %up = lm.linear %z, %w
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  %s = lm.silu %gate : tensor<4x8xf32>
  %y = lm.mul %s, %up : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// CHECK-LABEL: @negative_gate_is_read_elsewhere
func.func @negative_gate_is_read_elsewhere(%x: tensor<4x64xf32>,
                                           %g: tensor<8x64xbf16>,
                                           %u: tensor<8x64xbf16>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK-NOT: lm.fused_linear
  // CHECK: lm.mul
  %gate = lm.linear %x, %g
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  %up = lm.linear %x, %u
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  %s = lm.silu %gate : tensor<4x8xf32>
  %y = lm.mul %s, %up : tensor<4x8xf32>
  return %y, %gate : tensor<4x8xf32>, tensor<4x8xf32>
}

// An output gate multiplies an attention, not a layer.
// CHECK-LABEL: @negative_product_of_no_layers
func.func @negative_product_of_no_layers(%a: tensor<4x8xf32>,
                                         %b: tensor<4x8xf32>)
    -> tensor<4x8xf32> {
  // CHECK: lm.silu
  // CHECK: lm.mul
  %s = lm.silu %a : tensor<4x8xf32>
  %y = lm.mul %s, %b : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
