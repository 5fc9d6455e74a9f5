// RUN: qopt %s --lm-fuse-projections | FileCheck %s
// RUN: qopt %s --lm-fuse-projections=report 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REPORT

// REPORT: remark: lm-fuse-projections: 8 linear layers share a launch

// The small dense layers of a delta net share an input with the packed ones,
// but not their format.
// CHECK-LABEL: @fuse_by_format
// CHECK-SAME: %[[X:.*]]: tensor<4x64xf32>
func.func @fuse_by_format(%x: tensor<4x64xf32>)
    -> (tensor<4x16xf32>, tensor<4x8xf32>, tensor<4x2xf32>, tensor<4x2xf32>) {
  // CHECK-DAG: %[[QC:.*]] = lm.weight "target", "qkv.weight_packed"
  // CHECK-DAG: %[[ZC:.*]] = lm.weight "target", "z.weight_packed"
  // CHECK-DAG: %[[QS:.*]] = lm.weight "target", "qkv.weight_scale"
  // CHECK-DAG: %[[ZS:.*]] = lm.weight "target", "z.weight_scale"
  // CHECK: %[[P:.*]]:2 = lm.fused_linear(%[[X]]) weights(%[[QC]], %[[ZC]]) scales(%[[QS]], %[[ZS]])
  // CHECK: %[[D:.*]]:2 = lm.fused_linear(%[[X]]) weights(%{{.*}}, %{{.*}}) scales()
  // CHECK: return %[[P]]#0, %[[P]]#1, %[[D]]#0, %[[D]]#1
  %qc = lm.weight "target", "qkv.weight_packed" : tensor<16x8xi32>
  %qs = lm.weight "target", "qkv.weight_scale" : tensor<16x2xbf16>
  %qkv = lm.quant_linear %x, %qc, %qs grouped<bits = 4, group = 32>
      : tensor<4x64xf32>, tensor<16x8xi32>, tensor<16x2xbf16>
      -> tensor<4x16xf32>
  %aw = lm.weight "target", "a.weight" : tensor<2x64xbf16>
  %a = lm.linear %x, %aw
      : tensor<4x64xf32>, tensor<2x64xbf16> -> tensor<4x2xf32>
  %zc = lm.weight "target", "z.weight_packed" : tensor<8x8xi32>
  %zs = lm.weight "target", "z.weight_scale" : tensor<8x2xbf16>
  %z = lm.quant_linear %x, %zc, %zs grouped<bits = 4, group = 32>
      : tensor<4x64xf32>, tensor<8x8xi32>, tensor<8x2xbf16> -> tensor<4x8xf32>
  %bw = lm.weight "target", "b.weight" : tensor<2x64xbf16>
  %b = lm.linear %x, %bw
      : tensor<4x64xf32>, tensor<2x64xbf16> -> tensor<4x2xf32>
  return %qkv, %z, %a, %b
      : tensor<4x16xf32>, tensor<4x8xf32>, tensor<4x2xf32>, tensor<4x2xf32>
}

// Where each of the four has a format of its own, all stay apart: other bits
// or another type.
// CHECK-LABEL: @negative_delta_net_of_four_formats
func.func @negative_delta_net_of_four_formats(%x: tensor<4x64xf32>)
    -> (tensor<4x16xf32>, tensor<4x8xf32>, tensor<4x2xf32>, tensor<4x2xf32>) {
  // CHECK-NOT: lm.fused_linear
  // CHECK: return
  %qc = lm.weight "target", "qkv.weight_packed" : tensor<16x8xi32>
  %qs = lm.weight "target", "qkv.weight_scale" : tensor<16x2xbf16>
  %qkv = lm.quant_linear %x, %qc, %qs grouped<bits = 4, group = 32>
      : tensor<4x64xf32>, tensor<16x8xi32>, tensor<16x2xbf16>
      -> tensor<4x16xf32>
  %zc = lm.weight "target", "z.weight_packed" : tensor<8x16xi32>
  %zs = lm.weight "target", "z.weight_scale" : tensor<8x2xbf16>
  %z = lm.quant_linear %x, %zc, %zs grouped<bits = 8, group = 32>
      : tensor<4x64xf32>, tensor<8x16xi32>, tensor<8x2xbf16> -> tensor<4x8xf32>
  %aw = lm.weight "target", "a.weight" : tensor<2x64xbf16>
  %a = lm.linear %x, %aw
      : tensor<4x64xf32>, tensor<2x64xbf16> -> tensor<4x2xf32>
  %bw = lm.weight "target", "b.weight" : tensor<2x64xf32>
  %b = lm.linear %x, %bw
      : tensor<4x64xf32>, tensor<2x64xf32> -> tensor<4x2xf32>
  return %qkv, %z, %a, %b
      : tensor<4x16xf32>, tensor<4x8xf32>, tensor<4x2xf32>, tensor<4x2xf32>
}

// What gates read is f32, whatever their neighbours write.
// CHECK-LABEL: @negative_results_differ
func.func @negative_results_differ(%x: tensor<4x64xbf16>)
    -> (tensor<4x2xbf16>, tensor<4x2xf32>) {
  // CHECK-NOT: fused_linear
  %zw = lm.weight "target", "z.weight" : tensor<2x64xbf16>
  %z = lm.linear %x, %zw
      : tensor<4x64xbf16>, tensor<2x64xbf16> -> tensor<4x2xbf16>
  %aw = lm.weight "target", "a.weight" : tensor<2x64xbf16>
  %a = lm.linear %x, %aw
      : tensor<4x64xbf16>, tensor<2x64xbf16> -> tensor<4x2xf32>
  return %z, %a : tensor<4x2xbf16>, tensor<4x2xf32>
}

// CHECK-LABEL: @negative_inputs_differ
func.func @negative_inputs_differ(%x: tensor<4x64xf32>, %y: tensor<4x64xf32>)
    -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  // CHECK-NOT: lm.fused_linear
  // CHECK: return
  %w = lm.weight "target", "w.weight" : tensor<2x64xbf16>
  %a = lm.linear %x, %w
      : tensor<4x64xf32>, tensor<2x64xbf16> -> tensor<4x2xf32>
  %b = lm.linear %y, %w
      : tensor<4x64xf32>, tensor<2x64xbf16> -> tensor<4x2xf32>
  return %a, %b : tensor<4x2xf32>, tensor<4x2xf32>
}

// Groups of another size are another format.
// CHECK-LABEL: @negative_groups_differ
func.func @negative_groups_differ(%x: tensor<4x64xf32>, %c: tensor<8x8xi32>,
                                  %s2: tensor<8x2xbf16>, %s1: tensor<8x1xbf16>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK-NOT: lm.fused_linear
  // CHECK: return
  %a = lm.quant_linear %x, %c, %s2 grouped<bits = 4, group = 32>
      : tensor<4x64xf32>, tensor<8x8xi32>, tensor<8x2xbf16> -> tensor<4x8xf32>
  %b = lm.quant_linear %x, %c, %s1 grouped<bits = 4, group = 64>
      : tensor<4x64xf32>, tensor<8x8xi32>, tensor<8x1xbf16> -> tensor<4x8xf32>
  return %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
}

// A weight that is computed stands behind the first layer; it is left alone.
// CHECK-LABEL: @negative_weight_is_computed
func.func @negative_weight_is_computed(%x: tensor<4x64xf32>,
                                       %w: tensor<2x64xf32>,
                                       %c: tensor<2x8xi32>,
                                       %s: tensor<2x2xbf16>)
    -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  // CHECK-NOT: lm.fused_linear
  // CHECK: return
  %a = lm.linear %x, %w
      : tensor<4x64xf32>, tensor<2x64xf32> -> tensor<4x2xf32>
  %d = lm.dequant %c, %s grouped<bits = 4, group = 32>
      : tensor<2x8xi32>, tensor<2x2xbf16> -> tensor<2x64xf32>
  %b = lm.linear %x, %d
      : tensor<4x64xf32>, tensor<2x64xf32> -> tensor<4x2xf32>
  return %a, %b : tensor<4x2xf32>, tensor<4x2xf32>
}

// Weights that are repacked move as others do.
// CHECK-LABEL: @repacked
func.func @repacked(%x: tensor<4x16xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK-COUNT-2: lm.repack
  // CHECK: lm.fused_linear
  // CHECK-NEXT: return
  %q = lm.weight "target", "q.qweight" : tensor<2x8xi32>
  %qs = lm.weight "target", "q.scales" : tensor<1x8xf16>
  %qc, %qt = lm.repack %q, %qs
      as <order = by_column, bits = 4, columns = 16, group = 16>
      : (tensor<2x8xi32>, tensor<1x8xf16>) -> (tensor<8x2xi32>, tensor<8x1xf16>)
  %a = lm.quant_linear %x, %qc, %qt grouped<bits = 4, group = 16>
      : tensor<4x16xf32>, tensor<8x2xi32>, tensor<8x1xf16> -> tensor<4x8xf32>
  %k = lm.weight "target", "k.qweight" : tensor<2x8xi32>
  %ks = lm.weight "target", "k.scales" : tensor<1x8xf16>
  %kc, %kt = lm.repack %k, %ks
      as <order = by_column, bits = 4, columns = 16, group = 16>
      : (tensor<2x8xi32>, tensor<1x8xf16>) -> (tensor<8x2xi32>, tensor<8x1xf16>)
  %b = lm.quant_linear %x, %kc, %kt grouped<bits = 4, group = 16>
      : tensor<4x16xf32>, tensor<8x2xi32>, tensor<8x1xf16> -> tensor<4x8xf32>
  return %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
}

// A layer with a launch of its own keeps it.
// CHECK-LABEL: @negative_single_layer
func.func @negative_single_layer(%x: tensor<4x64xf32>, %w: tensor<2x64xbf16>)
    -> tensor<4x2xf32> {
  // CHECK: lm.linear
  %a = lm.linear %x, %w
      : tensor<4x64xf32>, tensor<2x64xbf16> -> tensor<4x2xf32>
  return %a : tensor<4x2xf32>
}

// Weights that are arguments are there already.
// CHECK-LABEL: @fuse_arguments
func.func @fuse_arguments(%x: tensor<4x64xf32>, %v: tensor<2x64xbf16>,
                          %w: tensor<3x64xbf16>)
    -> (tensor<4x3xf32>, tensor<4x2xf32>) {
  // CHECK: lm.fused_linear
  %a = lm.linear %x, %v
      : tensor<4x64xf32>, tensor<2x64xbf16> -> tensor<4x2xf32>
  %b = lm.linear %x, %w
      : tensor<4x64xf32>, tensor<3x64xbf16> -> tensor<4x3xf32>
  return %b, %a : tensor<4x3xf32>, tensor<4x2xf32>
}
