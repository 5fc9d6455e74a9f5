// RUN: qopt %s --lm-fuse-delta-norm | FileCheck %s
// RUN: qopt %s --lm-fuse-delta-norm=report 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REPORT

// REPORT: remark: lm-fuse-delta-norm: 2 outputs normalized

!delta = !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8,
                         pending = 4>

// CHECK-LABEL: @fuse
// CHECK-SAME: %[[Z:[a-z0-9]+]]: tensor<4x16xf32>, %[[W:[a-z0-9]+]]: tensor<8xf32>
func.func @fuse(%q: tensor<4x8xf32>, %v: tensor<4x16xf32>, %g: tensor<4x2xf32>,
                %z: tensor<4x16xf32>, %w: tensor<8xf32>, %d: !delta,
                %n: tensor<1xi32>) -> (tensor<4x16xf32>, !delta) {
  // CHECK: %[[Y:.*]], %[[NEW:.*]] = lm.gated_delta {{.*}} norm(%[[Z]], %[[W]] : tensor<4x16xf32>, tensor<8xf32>) {norm_eps = {{.*}}, scale = {{.*}}}
  // CHECK: return %[[Y]], %[[NEW]]
  %o, %d1 = lm.gated_delta %q, %q, %v, %g, %g, %d keep %n {scale = 1.0 : f32}
      : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>, !delta
  %y = lm.gated_rms_norm %o, %z, %w {eps = 1.0e-6 : f32}
      : tensor<4x16xf32>, tensor<8xf32>
  return %y, %d1 : tensor<4x16xf32>, !delta
}

// CHECK-LABEL: @negative_another_reader
func.func @negative_another_reader(
    %q: tensor<4x8xf32>, %v: tensor<4x16xf32>, %g: tensor<4x2xf32>,
    %z: tensor<4x16xf32>, %w: tensor<8xf32>, %d: !delta, %n: tensor<1xi32>)
    -> (tensor<4x16xf32>, tensor<4x16xf32>, !delta) {
  // CHECK: lm.gated_rms_norm
  %o, %d1 = lm.gated_delta %q, %q, %v, %g, %g, %d keep %n {scale = 1.0 : f32}
      : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>, !delta
  %y = lm.gated_rms_norm %o, %z, %w {eps = 1.0e-6 : f32}
      : tensor<4x16xf32>, tensor<8xf32>
  return %o, %y, %d1 : tensor<4x16xf32>, tensor<4x16xf32>, !delta
}

// CHECK-LABEL: @negative_committed
func.func @negative_committed(
    %q: tensor<4x8xf32>, %v: tensor<4x16xf32>, %g: tensor<4x2xf32>,
    %z: tensor<4x16xf32>, %w: tensor<8xf32>, %d: !delta, %n: tensor<1xi32>)
    -> (tensor<4x16xf32>, !delta) {
  // CHECK: lm.gated_rms_norm
  %o, %d1 = lm.gated_delta %q, %q, %v, %g, %g, %d keep %n
      {commit, scale = 1.0 : f32}
      : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>, !delta
  %y = lm.gated_rms_norm %o, %z, %w {eps = 1.0e-6 : f32}
      : tensor<4x16xf32>, tensor<8xf32>
  return %y, %d1 : tensor<4x16xf32>, !delta
}

// CHECK-LABEL: @negative_the_gate_comes_later
func.func @negative_the_gate_comes_later(
    %q: tensor<4x8xf32>, %v: tensor<4x16xf32>, %g: tensor<4x2xf32>,
    %z: tensor<4x16xf32>, %w: tensor<8xf32>, %d: !delta, %n: tensor<1xi32>)
    -> (tensor<4x16xf32>, !delta) {
  // CHECK: lm.gated_rms_norm
  %o, %d1 = lm.gated_delta %q, %q, %v, %g, %g, %d keep %n {scale = 1.0 : f32}
      : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>, !delta
  %gate = lm.silu %z : tensor<4x16xf32>
  %y = lm.gated_rms_norm %o, %gate, %w {eps = 1.0e-6 : f32}
      : tensor<4x16xf32>, tensor<8xf32>
  return %y, %d1 : tensor<4x16xf32>, !delta
}

// Heads are longer than runs of the norm.
// CHECK-LABEL: @negative_other_runs
func.func @negative_other_runs(
    %q: tensor<4x8xf32>, %v: tensor<4x16xf32>, %g: tensor<4x2xf32>,
    %z: tensor<4x16xf32>, %w: tensor<4xf32>, %d: !delta, %n: tensor<1xi32>)
    -> (tensor<4x16xf32>, !delta) {
  // CHECK: lm.gated_rms_norm
  %o, %d1 = lm.gated_delta %q, %q, %v, %g, %g, %d keep %n {scale = 1.0 : f32}
      : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>, !delta
  %y = lm.gated_rms_norm %o, %z, %w {eps = 1.0e-6 : f32}
      : tensor<4x16xf32>, tensor<4xf32>
  return %y, %d1 : tensor<4x16xf32>, !delta
}

// A warp does not read a head at once, so no lane has it in one place.
!long = !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 256,
                        pending = 4>

// CHECK-LABEL: @negative_long_heads
func.func @negative_long_heads(
    %q: tensor<4x8xf32>, %v: tensor<4x512xf32>, %g: tensor<4x2xf32>,
    %z: tensor<4x512xf32>, %w: tensor<256xf32>, %d: !long, %n: tensor<1xi32>)
    -> (tensor<4x512xf32>, !long) {
  // CHECK: lm.gated_rms_norm
  %o, %d1 = lm.gated_delta %q, %q, %v, %g, %g, %d keep %n {scale = 1.0 : f32}
      : tensor<4x8xf32>, tensor<4x512xf32>, tensor<4x2xf32>, !long
  %y = lm.gated_rms_norm %o, %z, %w {eps = 1.0e-6 : f32}
      : tensor<4x512xf32>, tensor<256xf32>
  return %y, %d1 : tensor<4x512xf32>, !long
}

// CHECK-LABEL: @fuse_long_heads_of_bf16
func.func @fuse_long_heads_of_bf16(
    %q: tensor<4x8xbf16>, %v: tensor<4x512xbf16>, %g: tensor<4x2xf32>,
    %z: tensor<4x512xbf16>, %w: tensor<256xf32>, %d: !long, %n: tensor<1xi32>)
    -> (tensor<4x512xbf16>, !long) {
  // CHECK-NOT: lm.gated_rms_norm
  %o, %d1 = lm.gated_delta %q, %q, %v, %g, %g, %d keep %n {scale = 1.0 : f32}
      : tensor<4x8xbf16>, tensor<4x512xbf16>, tensor<4x2xf32>, !long
  %y = lm.gated_rms_norm %o, %z, %w {eps = 1.0e-6 : f32}
      : tensor<4x512xbf16>, tensor<256xf32>
  return %y, %d1 : tensor<4x512xbf16>, !long
}
