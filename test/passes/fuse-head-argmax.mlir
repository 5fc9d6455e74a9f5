// RUN: qopt %s --lm-fuse-head-argmax | FileCheck %s
// RUN: qopt %s --lm-fuse-head-argmax=report 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REPORT

// REPORT: remark: lm-fuse-head-argmax: 1 heads write no logits

// CHECK-LABEL: @fuse
// CHECK-SAME: %[[X:.*]]: tensor<4x64xf32>, %[[W:.*]]: tensor<100x64xbf16>
func.func @fuse(%x: tensor<4x64xf32>, %w: tensor<100x64xbf16>)
    -> tensor<4xi32> {
  // CHECK-NEXT: %[[T:.*]] = lm.head_argmax %[[X]], %[[W]]
  // CHECK-NEXT: return %[[T]]
  %l = lm.linear %x, %w
      : tensor<4x64xf32>, tensor<100x64xbf16> -> tensor<4x100xf32>
  %t = lm.argmax %l : tensor<4x100xf32> -> tensor<4xi32>
  return %t : tensor<4xi32>
}

// Scoring returns the logits.
// CHECK-LABEL: @negative_logits_are_returned
func.func @negative_logits_are_returned(%x: tensor<4x64xf32>,
                                        %w: tensor<100x64xbf16>)
    -> (tensor<4xi32>, tensor<4x100xf32>) {
  // CHECK: lm.linear
  // CHECK: lm.argmax
  %l = lm.linear %x, %w
      : tensor<4x64xf32>, tensor<100x64xbf16> -> tensor<4x100xf32>
  %t = lm.argmax %l : tensor<4x100xf32> -> tensor<4xi32>
  return %t, %l : tensor<4xi32>, tensor<4x100xf32>
}

// CHECK-LABEL: @negative_logits_are_an_argument
func.func @negative_logits_are_an_argument(%l: tensor<4x100xf32>)
    -> tensor<4xi32> {
  // CHECK: lm.argmax
  %t = lm.argmax %l : tensor<4x100xf32> -> tensor<4xi32>
  return %t : tensor<4xi32>
}
