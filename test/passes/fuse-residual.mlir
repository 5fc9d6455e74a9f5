// RUN: qopt %s --lm-fuse-residual | FileCheck %s
// RUN: qopt %s --lm-fuse-residual=report 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REPORT

// REPORT: remark: lm-fuse-residual: 3 layers add a residual

// CHECK-LABEL: @fuse
// CHECK-SAME: %[[X:.*]]: tensor<4x64xf32>, %[[R:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<8x64xbf16>
func.func @fuse(%x: tensor<4x64xf32>, %r: tensor<4x8xf32>,
                %w: tensor<8x64xbf16>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[Y:.*]] = lm.fused_linear(%[[X]]) weights(%[[W]]) scales() norm() residual(%[[R]])
  // CHECK-NEXT: return %[[Y]]
  %y = lm.linear %x, %w
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  %h = lm.add %r, %y : tensor<4x8xf32>
  return %h : tensor<4x8xf32>
}

// The sum in the other order.
// CHECK-LABEL: @fuse_other_order
func.func @fuse_other_order(%x: tensor<4x64xf32>, %r: tensor<4x8xf32>,
                            %w: tensor<8x64xbf16>) -> tensor<4x8xf32> {
  // CHECK: residual(%{{.*}})
  // CHECK-NOT: lm.add
  %y = lm.linear %x, %w
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  %h = lm.add %y, %r : tensor<4x8xf32>
  return %h : tensor<4x8xf32>
}

// Two layers are added: one of them takes the other as its residual.
// CHECK-LABEL: @fuse_one_of_two
func.func @fuse_one_of_two(%x: tensor<4x64xf32>, %w: tensor<8x64xbf16>,
                           %v: tensor<8x64xbf16>) -> tensor<4x8xf32> {
  // CHECK: %[[Y:.*]] = lm.linear
  // CHECK: lm.fused_linear{{.*}} residual(%[[Y]])
  %y = lm.linear %x, %w
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  %z = lm.linear %x, %v
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  %h = lm.add %y, %z : tensor<4x8xf32>
  return %h : tensor<4x8xf32>
}

// CHECK-LABEL: @negative_another_reader
func.func @negative_another_reader(%x: tensor<4x64xf32>, %r: tensor<4x8xf32>,
                                   %w: tensor<8x64xbf16>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK: lm.linear
  // CHECK: lm.add
  %y = lm.linear %x, %w
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  %h = lm.add %r, %y : tensor<4x8xf32>
  return %h, %y : tensor<4x8xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: @negative_no_layer
func.func @negative_no_layer(%x: tensor<4x8xf32>, %r: tensor<4x8xf32>)
    -> tensor<4x8xf32> {
  // CHECK: lm.silu
  // CHECK: lm.add
  %y = lm.silu %x : tensor<4x8xf32>
  %h = lm.add %r, %y : tensor<4x8xf32>
  return %h : tensor<4x8xf32>
}

// A sum of a layer and itself: it is read twice.
// CHECK-LABEL: @negative_twice_the_same
func.func @negative_twice_the_same(%x: tensor<4x64xf32>, %w: tensor<8x64xbf16>)
    -> tensor<4x8xf32> {
  // CHECK: lm.add
  %y = lm.linear %x, %w
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  %h = lm.add %y, %y : tensor<4x8xf32>
  return %h : tensor<4x8xf32>
}
