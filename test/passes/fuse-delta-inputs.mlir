// RUN: qopt %s --lm-fuse-delta-inputs | FileCheck %s
// RUN: qopt %s --lm-fuse-delta-inputs=report 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REPORT

// REPORT: remark: lm-fuse-delta-inputs: 1 delta layers fused

!conv = !lm.conv_cache<taps = 4, channels = 32, pending = 4>
!delta = !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8,
                         pending = 4>

// CHECK-LABEL: @fuse
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x32xf32>, %[[A:[a-z0-9]+]]: tensor<4x2xf32>, %[[B:[a-z0-9]+]]: tensor<4x2xf32>
// CHECK-SAME: %[[N:[a-z0-9]+]]: tensor<1xi32>
func.func @fuse(%x: tensor<4x32xf32>, %a: tensor<4x2xf32>, %b: tensor<4x2xf32>,
                %w: tensor<32x1x4xbf16>, %al: tensor<2xf32>, %dt: tensor<2xf32>,
                %c: !conv, %d: !delta, %n: tensor<1xi32>)
    -> (tensor<4x16xf32>, !conv, !delta) {
  // CHECK: %[[Q:.*]], %[[K:.*]], %[[V:.*]], %[[G:.*]], %[[BETA:.*]], %[[CONV:.*]] = lm.delta_inputs %[[X]], %[[A]], %[[B]], {{.*}} keep %[[N]] {eps = {{.*}}, key_dim = 8 : i64}
  // CHECK: %[[O:.*]], %[[DELTA:.*]] = lm.gated_delta %[[Q]], %[[K]], %[[V]], %[[G]], %[[BETA]]
  // CHECK: return %[[O]], %[[CONV]], %[[DELTA]]
  %u, %c1 = lm.short_conv %x, %w, %c keep %n
      : tensor<4x32xf32>, tensor<32x1x4xbf16>, !conv
  %s = lm.silu %u : tensor<4x32xf32>
  %q0, %k0, %v = lm.split %s
      : tensor<4x32xf32> -> tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>
  %q = lm.l2_norm %q0 {dim = 8 : i64, eps = 1.0e-6 : f32} : tensor<4x8xf32>
  %k = lm.l2_norm %k0 {dim = 8 : i64, eps = 1.0e-6 : f32} : tensor<4x8xf32>
  %g = lm.delta_gate %a, %al, %dt
      : tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  %beta = lm.sigmoid %b : tensor<4x2xf32>
  %o, %d1 = lm.gated_delta %q, %k, %v, %g, %beta, %d keep %n
      {scale = 1.0 : f32}
      : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>, !delta
  return %o, %c1, %d1 : tensor<4x16xf32>, !conv, !delta
}

// The convolution commits its rows, the recurrence does not.
// CHECK-LABEL: @negative_rows_are_kept_differently
func.func @negative_rows_are_kept_differently(
    %x: tensor<4x32xf32>, %a: tensor<4x2xf32>, %b: tensor<4x2xf32>,
    %w: tensor<32x1x4xbf16>, %al: tensor<2xf32>, %dt: tensor<2xf32>, %c: !conv,
    %d: !delta, %n: tensor<1xi32>) -> (tensor<4x16xf32>, !conv, !delta) {
  // CHECK-NOT: lm.delta_inputs
  // CHECK: lm.gated_delta
  %u, %c1 = lm.short_conv %x, %w, %c keep %n {commit}
      : tensor<4x32xf32>, tensor<32x1x4xbf16>, !conv
  %s = lm.silu %u : tensor<4x32xf32>
  %q0, %k0, %v = lm.split %s
      : tensor<4x32xf32> -> tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>
  %q = lm.l2_norm %q0 {dim = 8 : i64, eps = 1.0e-6 : f32} : tensor<4x8xf32>
  %k = lm.l2_norm %k0 {dim = 8 : i64, eps = 1.0e-6 : f32} : tensor<4x8xf32>
  %g = lm.delta_gate %a, %al, %dt
      : tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  %beta = lm.sigmoid %b : tensor<4x2xf32>
  %o, %d1 = lm.gated_delta %q, %k, %v, %g, %beta, %d keep %n
      {scale = 1.0 : f32}
      : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>, !delta
  return %o, %c1, %d1 : tensor<4x16xf32>, !conv, !delta
}

// The value is read elsewhere too.
// CHECK-LABEL: @negative_another_reader
func.func @negative_another_reader(
    %x: tensor<4x32xf32>, %a: tensor<4x2xf32>, %b: tensor<4x2xf32>,
    %w: tensor<32x1x4xbf16>, %al: tensor<2xf32>, %dt: tensor<2xf32>, %c: !conv,
    %d: !delta, %n: tensor<1xi32>)
    -> (tensor<4x16xf32>, tensor<4x16xf32>, !conv, !delta) {
  // CHECK-NOT: lm.delta_inputs
  // CHECK: lm.gated_delta
  %u, %c1 = lm.short_conv %x, %w, %c keep %n
      : tensor<4x32xf32>, tensor<32x1x4xbf16>, !conv
  %s = lm.silu %u : tensor<4x32xf32>
  %q0, %k0, %v = lm.split %s
      : tensor<4x32xf32> -> tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>
  %q = lm.l2_norm %q0 {dim = 8 : i64, eps = 1.0e-6 : f32} : tensor<4x8xf32>
  %k = lm.l2_norm %k0 {dim = 8 : i64, eps = 1.0e-6 : f32} : tensor<4x8xf32>
  %g = lm.delta_gate %a, %al, %dt
      : tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  %beta = lm.sigmoid %b : tensor<4x2xf32>
  %o, %d1 = lm.gated_delta %q, %k, %v, %g, %beta, %d keep %n
      {scale = 1.0 : f32}
      : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>, !delta
  return %o, %v, %c1, %d1
      : tensor<4x16xf32>, tensor<4x16xf32>, !conv, !delta
}

// Query and key are arguments.
// CHECK-LABEL: @negative_operands_from_elsewhere
func.func @negative_operands_from_elsewhere(
    %q: tensor<4x8xf32>, %v: tensor<4x16xf32>, %g: tensor<4x2xf32>, %d: !delta,
    %n: tensor<1xi32>) -> (tensor<4x16xf32>, !delta) {
  // CHECK: lm.gated_delta
  %o, %d1 = lm.gated_delta %q, %q, %v, %g, %g, %d keep %n {scale = 1.0 : f32}
      : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>, !delta
  return %o, %d1 : tensor<4x16xf32>, !delta
}
