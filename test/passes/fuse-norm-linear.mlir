// RUN: qopt %s --lm-fuse-norm-linear | FileCheck %s
// RUN: qopt %s --lm-fuse-norm-linear=report 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REPORT

// REPORT: remark: lm-fuse-norm-linear: 3 layers normalize their input

// CHECK-LABEL: @fuse
// CHECK-SAME: %[[X:.*]]: tensor<4x64xf32>, %[[N:.*]]: tensor<64xbf16>, %[[W:.*]]: tensor<8x64xbf16>
func.func @fuse(%x: tensor<4x64xf32>, %n: tensor<64xbf16>,
                %w: tensor<8x64xbf16>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[Y:.*]] = lm.fused_linear(%[[X]]) weights(%[[W]]) scales() norm(%[[N]]) residual() {norm = #lm.norm<eps = {{.*}}, offset = {{.*}}>}
  // CHECK-NEXT: return %[[Y]]
  %h = lm.rms_norm %x, %n {eps = 1.0e-6 : f32, offset = 1.0 : f32}
      : tensor<4x64xf32>, tensor<64xbf16>
  %y = lm.linear %h, %w
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Packed and dense projections of a delta layer both normalize.
// CHECK-LABEL: @fuse_all_readers
func.func @fuse_all_readers(%x: tensor<4x64xf32>, %n: tensor<64xbf16>,
                            %w: tensor<8x64xbf16>, %c: tensor<8x8xi32>,
                            %s: tensor<8x2xbf16>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK-NOT: lm.rms_norm
  // CHECK-COUNT-2: norm(%{{.*}})
  %h = lm.rms_norm %x, %n {eps = 1.0e-6 : f32}
      : tensor<4x64xf32>, tensor<64xbf16>
  %y = lm.linear %h, %w
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  %z = lm.quant_linear %h, %c, %s grouped<bits = 4, group = 32>
      : tensor<4x64xf32>, tensor<8x8xi32>, tensor<8x2xbf16> -> tensor<4x8xf32>
  return %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
}

// A norm over heads is no norm of the row.
// CHECK-LABEL: @negative_norm_of_parts
func.func @negative_norm_of_parts(%x: tensor<4x64xf32>, %n: tensor<32xbf16>,
                                  %w: tensor<8x64xbf16>) -> tensor<4x8xf32> {
  // CHECK: lm.rms_norm
  // CHECK: lm.linear
  %h = lm.rms_norm %x, %n {eps = 1.0e-6 : f32}
      : tensor<4x64xf32>, tensor<32xbf16>
  %y = lm.linear %h, %w
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// CHECK-LABEL: @negative_another_reader
func.func @negative_another_reader(%x: tensor<4x64xf32>, %n: tensor<64xbf16>,
                                   %w: tensor<8x64xbf16>)
    -> (tensor<4x8xf32>, tensor<4x64xf32>) {
  // CHECK: lm.rms_norm
  // CHECK: lm.linear
  %h = lm.rms_norm %x, %n {eps = 1.0e-6 : f32}
      : tensor<4x64xf32>, tensor<64xbf16>
  %y = lm.linear %h, %w
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  return %y, %h : tensor<4x8xf32>, tensor<4x64xf32>
}

// The norm is the input and the residual of one layer.
// CHECK-LABEL: @negative_residual_is_the_norm
func.func @negative_residual_is_the_norm(%x: tensor<4x64xf32>,
                                         %n: tensor<64xbf16>,
                                         %w: tensor<64x64xbf16>)
    -> tensor<4x64xf32> {
  // CHECK: lm.rms_norm
  %h = lm.rms_norm %x, %n {eps = 1.0e-6 : f32}
      : tensor<4x64xf32>, tensor<64xbf16>
  %y = lm.fused_linear(%h) weights(%w) scales() norm() residual(%h)
      : (tensor<4x64xf32>, tensor<64x64xbf16>, tensor<4x64xf32>)
      -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}
