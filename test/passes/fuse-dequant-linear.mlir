// RUN: qopt %s --lm-fuse-dequant-linear --canonicalize | FileCheck %s
// RUN: qopt %s --lm-fuse-dequant-linear=report 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REPORT

// REPORT: remark: lm-fuse-dequant-linear: 5 linear layers read a packed weight

// CHECK-LABEL: @fuse_one_user
// CHECK-SAME: %[[INPUT:.*]]: tensor<4x64xf32>, %[[CODES:.*]]: tensor<8x8xi32>, %[[SCALES:.*]]: tensor<8x2xbf16>
func.func @fuse_one_user(%input: tensor<4x64xf32>, %codes: tensor<8x8xi32>,
                         %scales: tensor<8x2xbf16>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[RESULT:.*]] = lm.quant_linear %[[INPUT]], %[[CODES]], %[[SCALES]] grouped<bits = 4, group = 32>
  // CHECK-NEXT: return %[[RESULT]]
  %weight = lm.dequant %codes, %scales grouped<bits = 4, group = 32>
      : tensor<8x8xi32>, tensor<8x2xbf16> -> tensor<8x64xf32>
  %result = lm.linear %input, %weight
      : tensor<4x64xf32>, tensor<8x64xf32> -> tensor<4x8xf32>
  return %result : tensor<4x8xf32>
}

// Context and block read the same key projection.
// CHECK-LABEL: @fuse_every_user
func.func @fuse_every_user(%a: tensor<4x64xf32>, %b: tensor<2x64xf32>,
                           %codes: tensor<8x8xi32>, %scales: tensor<8x2xbf16>)
    -> (tensor<4x8xf32>, tensor<2x8xf32>) {
  // CHECK-COUNT-2: lm.quant_linear
  // CHECK-NOT: lm.dequant
  %weight = lm.dequant %codes, %scales grouped<bits = 4, group = 32>
      : tensor<8x8xi32>, tensor<8x2xbf16> -> tensor<8x64xf32>
  %0 = lm.linear %a, %weight
      : tensor<4x64xf32>, tensor<8x64xf32> -> tensor<4x8xf32>
  %1 = lm.linear %b, %weight
      : tensor<2x64xf32>, tensor<8x64xf32> -> tensor<2x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<2x8xf32>
}

// CHECK-LABEL: @negative_dense_weight
func.func @negative_dense_weight(%input: tensor<4x64xf32>,
                                 %weight: tensor<8x64xbf16>)
    -> tensor<4x8xf32> {
  // CHECK: lm.linear
  %result = lm.linear %input, %weight
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  return %result : tensor<4x8xf32>
}

// quant_linear multiplies exact values; this weight is rounded to bf16.
// CHECK-LABEL: @negative_rounded_weight
func.func @negative_rounded_weight(%input: tensor<4x64xf32>,
                                   %codes: tensor<8x8xi32>,
                                   %scales: tensor<8x2xbf16>)
    -> tensor<4x8xf32> {
  // CHECK: lm.dequant
  // CHECK: lm.linear
  %weight = lm.dequant %codes, %scales grouped<bits = 4, group = 32>
      : tensor<8x8xi32>, tensor<8x2xbf16> -> tensor<8x64xbf16>
  %result = lm.linear %input, %weight
      : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4x8xf32>
  return %result : tensor<4x8xf32>
}

// A table that is looked up is not a linear layer.
// CHECK-LABEL: @negative_embedding
func.func @negative_embedding(%tokens: tensor<4xi32>, %codes: tensor<8x8xi32>,
                              %scales: tensor<8x2xbf16>) -> tensor<4x64xf32> {
  // CHECK: lm.dequant
  // CHECK: lm.embed
  %table = lm.dequant %codes, %scales grouped<bits = 4, group = 32>
      : tensor<8x8xi32>, tensor<8x2xbf16> -> tensor<8x64xf32>
  %result = lm.embed %tokens, %table
      : tensor<4xi32>, tensor<8x64xf32> -> tensor<4x64xf32>
  return %result : tensor<4x64xf32>
}

// Keeps one fusion whose dequantized weight has another user.
// CHECK-LABEL: @fuse_beside_another_user
func.func @fuse_beside_another_user(%input: tensor<4x64xf32>,
                                    %tokens: tensor<4xi32>,
                                    %codes: tensor<8x8xi32>,
                                    %scales: tensor<8x2xbf16>)
    -> (tensor<4x8xf32>, tensor<4x64xf32>) {
  // CHECK: %[[TABLE:.*]] = lm.dequant
  // CHECK: lm.quant_linear
  // CHECK: lm.embed %{{.*}}, %[[TABLE]]
  %table = lm.dequant %codes, %scales grouped<bits = 4, group = 32>
      : tensor<8x8xi32>, tensor<8x2xbf16> -> tensor<8x64xf32>
  %0 = lm.linear %input, %table
      : tensor<4x64xf32>, tensor<8x64xf32> -> tensor<4x8xf32>
  %1 = lm.embed %tokens, %table
      : tensor<4xi32>, tensor<8x64xf32> -> tensor<4x64xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x64xf32>
}

// What follows the layer stays behind it.
// CHECK-LABEL: @fuse_before_a_bias
func.func @fuse_before_a_bias(%input: tensor<4x64xf32>,
                              %codes: tensor<8x8xi32>,
                              %scales: tensor<8x2xbf16>,
                              %bias: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[Y:.*]] = lm.quant_linear
  // CHECK-NEXT: lm.add %[[Y]], %{{.*}}
  %weight = lm.dequant %codes, %scales grouped<bits = 4, group = 32>
      : tensor<8x8xi32>, tensor<8x2xbf16> -> tensor<8x64xf32>
  %0 = lm.linear %input, %weight
      : tensor<4x64xf32>, tensor<8x64xf32> -> tensor<4x8xf32>
  %result = lm.add %0, %bias : tensor<4x8xf32>
  return %result : tensor<4x8xf32>
}

// A correction of the weight is in no packed tensor.
// CHECK-LABEL: @negative_bias_on_the_weight
func.func @negative_bias_on_the_weight(%input: tensor<4x64xf32>,
                                       %codes: tensor<8x8xi32>,
                                       %scales: tensor<8x2xbf16>,
                                       %bias: tensor<8x64xf32>)
    -> tensor<4x8xf32> {
  // CHECK: lm.dequant
  // CHECK: lm.add
  // CHECK: lm.linear
  %0 = lm.dequant %codes, %scales grouped<bits = 4, group = 32>
      : tensor<8x8xi32>, tensor<8x2xbf16> -> tensor<8x64xf32>
  %weight = lm.add %0, %bias : tensor<8x64xf32>
  %result = lm.linear %input, %weight
      : tensor<4x64xf32>, tensor<8x64xf32> -> tensor<4x8xf32>
  return %result : tensor<4x8xf32>
}

// `lm.linear x, w` is x w^T. The other way round it is the transpose, and the
// packed tensor is what is multiplied from the left: no weight.
// CHECK-LABEL: @negative_transposed
func.func @negative_transposed(%input: tensor<4x64xf32>,
                               %codes: tensor<8x8xi32>,
                               %scales: tensor<8x2xbf16>) -> tensor<8x4xf32> {
  // CHECK: lm.dequant
  // CHECK: lm.linear
  %weight = lm.dequant %codes, %scales grouped<bits = 4, group = 32>
      : tensor<8x8xi32>, tensor<8x2xbf16> -> tensor<8x64xf32>
  %result = lm.linear %weight, %input
      : tensor<8x64xf32>, tensor<4x64xf32> -> tensor<8x4xf32>
  return %result : tensor<8x4xf32>
}
