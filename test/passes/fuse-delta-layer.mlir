// RUN: qopt %s --lm-fuse-delta-layer | FileCheck %s
// RUN: qopt %s --lm-fuse-delta-layer=report 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REPORT

// REPORT: remark: lm-fuse-delta-layer: 1 rules make what they read

// CHECK-LABEL: @fuse
func.func @fuse(
    %x: tensor<4x32xf32>, %a: tensor<4x2xf32>, %z: tensor<4x16xf32>,
    %w: tensor<32x1x4xbf16>, %al: tensor<2xf32>, %dt: tensor<2xf32>,
    %norm: tensor<8xf32>, %n: tensor<1xi32>,
    %c: !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
    %d: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>)
    -> (tensor<4x16xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>) {
  // CHECK: lm.delta_inputs
  // CHECK: lm.gated_delta {{.*}} {lm.makes_inputs, 
  %q, %k, %v, %g, %beta, %c1 = lm.delta_inputs %x, %a, %a, %w, %al, %dt, %c
      keep %n {eps = 1.0e-6 : f32, key_dim = 8 : i64}
      : (tensor<4x32xf32>, tensor<4x2xf32>, tensor<4x2xf32>,
         tensor<32x1x4xbf16>, tensor<2xf32>, tensor<2xf32>,
         !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>,
          tensor<4x2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
  %y, %d1 = lm.gated_delta %q, %k, %v, %g, %beta, %d keep %n
      norm(%z, %norm : tensor<4x16xf32>, tensor<8xf32>)
      {norm_eps = 1.0e-5 : f32, scale = 0.5 : f32}
      : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
  return %y, %c1, %d1 : tensor<4x16xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
      !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
}

// CHECK-LABEL: @negative_another_reader
func.func @negative_another_reader(
    %x: tensor<4x32xf32>, %a: tensor<4x2xf32>, %z: tensor<4x16xf32>,
    %w: tensor<32x1x4xbf16>, %al: tensor<2xf32>, %dt: tensor<2xf32>,
    %norm: tensor<8xf32>, %n: tensor<1xi32>,
    %c: !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
    %d: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>)
    -> (tensor<4x16xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>, tensor<4x8xf32>) {
  // CHECK-NOT: lm.makes_inputs
  // CHECK: return
  %q, %k, %v, %g, %beta, %c1 = lm.delta_inputs %x, %a, %a, %w, %al, %dt, %c
      keep %n {eps = 1.0e-6 : f32, key_dim = 8 : i64}
      : (tensor<4x32xf32>, tensor<4x2xf32>, tensor<4x2xf32>,
         tensor<32x1x4xbf16>, tensor<2xf32>, tensor<2xf32>,
         !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>,
          tensor<4x2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
  %y, %d1 = lm.gated_delta %q, %k, %v, %g, %beta, %d keep %n
      norm(%z, %norm : tensor<4x16xf32>, tensor<8xf32>)
      {norm_eps = 1.0e-5 : f32, scale = 0.5 : f32}
      : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
  return %y, %c1, %d1, %q : tensor<4x16xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
      !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>, tensor<4x8xf32>
}

// A lane makes eight numbers of a head.
// CHECK-LABEL: @negative_odd_heads
func.func @negative_odd_heads(
    %x: tensor<4x40xf32>, %a: tensor<4x2xf32>, %z: tensor<4x16xf32>,
    %w: tensor<40x1x4xbf16>, %al: tensor<2xf32>, %dt: tensor<2xf32>,
    %norm: tensor<8xf32>, %n: tensor<1xi32>,
    %c: !lm.conv_cache<taps = 4, channels = 40, pending = 4>,
    %d: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 12, value_dim = 8, pending = 4>)
    -> (tensor<4x16xf32>, !lm.conv_cache<taps = 4, channels = 40, pending = 4>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 12, value_dim = 8, pending = 4>) {
  // CHECK-NOT: lm.makes_inputs
  // CHECK: return
  %q, %k, %v, %g, %beta, %c1 = lm.delta_inputs %x, %a, %a, %w, %al, %dt, %c
      keep %n {eps = 1.0e-6 : f32, key_dim = 12 : i64}
      : (tensor<4x40xf32>, tensor<4x2xf32>, tensor<4x2xf32>,
         tensor<40x1x4xbf16>, tensor<2xf32>, tensor<2xf32>,
         !lm.conv_cache<taps = 4, channels = 40, pending = 4>)
      -> (tensor<4x12xf32>, tensor<4x12xf32>, tensor<4x16xf32>, tensor<4x2xf32>,
          tensor<4x2xf32>, !lm.conv_cache<taps = 4, channels = 40, pending = 4>)
  %y, %d1 = lm.gated_delta %q, %k, %v, %g, %beta, %d keep %n
      norm(%z, %norm : tensor<4x16xf32>, tensor<8xf32>)
      {norm_eps = 1.0e-5 : f32, scale = 0.5 : f32}
      : tensor<4x12xf32>, tensor<4x16xf32>, tensor<4x2xf32>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 12, value_dim = 8, pending = 4>
  return %y, %c1, %d1 : tensor<4x16xf32>, !lm.conv_cache<taps = 4, channels = 40, pending = 4>,
      !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 12, value_dim = 8, pending = 4>
}

// A head is a half of a warp.
// CHECK-LABEL: @negative_long_heads
func.func @negative_long_heads(
    %x: tensor<4x288xf32>, %a: tensor<4x2xf32>, %z: tensor<4x16xf32>,
    %w: tensor<288x1x4xbf16>, %al: tensor<2xf32>, %dt: tensor<2xf32>,
    %norm: tensor<8xf32>, %n: tensor<1xi32>,
    %c: !lm.conv_cache<taps = 4, channels = 288, pending = 4>,
    %d: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 136, value_dim = 8, pending = 4>)
    -> (tensor<4x16xf32>, !lm.conv_cache<taps = 4, channels = 288, pending = 4>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 136, value_dim = 8, pending = 4>) {
  // CHECK-NOT: lm.makes_inputs
  // CHECK: return
  %q, %k, %v, %g, %beta, %c1 = lm.delta_inputs %x, %a, %a, %w, %al, %dt, %c
      keep %n {eps = 1.0e-6 : f32, key_dim = 136 : i64}
      : (tensor<4x288xf32>, tensor<4x2xf32>, tensor<4x2xf32>,
         tensor<288x1x4xbf16>, tensor<2xf32>, tensor<2xf32>,
         !lm.conv_cache<taps = 4, channels = 288, pending = 4>)
      -> (tensor<4x136xf32>, tensor<4x136xf32>, tensor<4x16xf32>, tensor<4x2xf32>,
          tensor<4x2xf32>, !lm.conv_cache<taps = 4, channels = 288, pending = 4>)
  %y, %d1 = lm.gated_delta %q, %k, %v, %g, %beta, %d keep %n
      norm(%z, %norm : tensor<4x16xf32>, tensor<8xf32>)
      {norm_eps = 1.0e-5 : f32, scale = 0.5 : f32}
      : tensor<4x136xf32>, tensor<4x16xf32>, tensor<4x2xf32>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 136, value_dim = 8, pending = 4>
  return %y, %c1, %d1 : tensor<4x16xf32>, !lm.conv_cache<taps = 4, channels = 288, pending = 4>,
      !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 136, value_dim = 8, pending = 4>
}

// CHECK-LABEL: @negative_other_pending_rows
func.func @negative_other_pending_rows(
    %x: tensor<4x32xf32>, %a: tensor<4x2xf32>, %z: tensor<4x16xf32>,
    %w: tensor<32x1x4xbf16>, %al: tensor<2xf32>, %dt: tensor<2xf32>,
    %norm: tensor<8xf32>, %n: tensor<1xi32>,
    %c: !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
    %d: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 8>)
    -> (tensor<4x16xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 8>) {
  // CHECK-NOT: lm.makes_inputs
  // CHECK: return
  %q, %k, %v, %g, %beta, %c1 = lm.delta_inputs %x, %a, %a, %w, %al, %dt, %c
      keep %n {eps = 1.0e-6 : f32, key_dim = 8 : i64}
      : (tensor<4x32xf32>, tensor<4x2xf32>, tensor<4x2xf32>,
         tensor<32x1x4xbf16>, tensor<2xf32>, tensor<2xf32>,
         !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>,
          tensor<4x2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
  %y, %d1 = lm.gated_delta %q, %k, %v, %g, %beta, %d keep %n
      norm(%z, %norm : tensor<4x16xf32>, tensor<8xf32>)
      {norm_eps = 1.0e-5 : f32, scale = 0.5 : f32}
      : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 8>
  return %y, %c1, %d1 : tensor<4x16xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
      !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 8>
}

// CHECK-LABEL: @negative_rows_are_committed
func.func @negative_rows_are_committed(
    %x: tensor<4x32xf32>, %a: tensor<4x2xf32>, %z: tensor<4x16xf32>,
    %w: tensor<32x1x4xbf16>, %al: tensor<2xf32>, %dt: tensor<2xf32>,
    %norm: tensor<8xf32>, %n: tensor<1xi32>,
    %c: !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
    %d: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>)
    -> (tensor<4x16xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>) {
  // CHECK-NOT: lm.makes_inputs
  // CHECK: return
  %q, %k, %v, %g, %beta, %c1 = lm.delta_inputs %x, %a, %a, %w, %al, %dt, %c
      keep %n {commit, eps = 1.0e-6 : f32, key_dim = 8 : i64}
      : (tensor<4x32xf32>, tensor<4x2xf32>, tensor<4x2xf32>,
         tensor<32x1x4xbf16>, tensor<2xf32>, tensor<2xf32>,
         !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>,
          tensor<4x2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
  %y, %d1 = lm.gated_delta %q, %k, %v, %g, %beta, %d keep %n
      norm(%z, %norm : tensor<4x16xf32>, tensor<8xf32>)
      {norm_eps = 1.0e-5 : f32, scale = 0.5 : f32}
      : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
  return %y, %c1, %d1 : tensor<4x16xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
      !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
}

// CHECK-LABEL: @negative_no_norm
func.func @negative_no_norm(
    %x: tensor<4x32xf32>, %a: tensor<4x2xf32>, %z: tensor<4x16xf32>,
    %w: tensor<32x1x4xbf16>, %al: tensor<2xf32>, %dt: tensor<2xf32>,
    %norm: tensor<8xf32>, %n: tensor<1xi32>,
    %c: !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
    %d: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>)
    -> (tensor<4x16xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>) {
  // CHECK-NOT: lm.makes_inputs
  // CHECK: return
  %q, %k, %v, %g, %beta, %c1 = lm.delta_inputs %x, %a, %a, %w, %al, %dt, %c
      keep %n {eps = 1.0e-6 : f32, key_dim = 8 : i64}
      : (tensor<4x32xf32>, tensor<4x2xf32>, tensor<4x2xf32>,
         tensor<32x1x4xbf16>, tensor<2xf32>, tensor<2xf32>,
         !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>,
          tensor<4x2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
  %y, %d1 = lm.gated_delta %q, %k, %v, %g, %beta, %d keep %n {scale = 0.5 : f32}
      : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
  return %y, %c1, %d1 : tensor<4x16xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
      !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
}

// CHECK-LABEL: @negative_other_rows_count
func.func @negative_other_rows_count(
    %x: tensor<4x32xf32>, %a: tensor<4x2xf32>, %z: tensor<4x16xf32>,
    %w: tensor<32x1x4xbf16>, %al: tensor<2xf32>, %dt: tensor<2xf32>,
    %norm: tensor<8xf32>, %n: tensor<1xi32>, %m: tensor<1xi32>,
    %c: !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
    %d: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>)
    -> (tensor<4x16xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>) {
  // CHECK-NOT: lm.makes_inputs
  // CHECK: return
  %q, %k, %v, %g, %beta, %c1 = lm.delta_inputs %x, %a, %a, %w, %al, %dt, %c
      keep %n {eps = 1.0e-6 : f32, key_dim = 8 : i64}
      : (tensor<4x32xf32>, tensor<4x2xf32>, tensor<4x2xf32>,
         tensor<32x1x4xbf16>, tensor<2xf32>, tensor<2xf32>,
         !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>,
          tensor<4x2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
  %y, %d1 = lm.gated_delta %q, %k, %v, %g, %beta, %d keep %m
      norm(%z, %norm : tensor<4x16xf32>, tensor<8xf32>)
      {norm_eps = 1.0e-5 : f32, scale = 0.5 : f32}
      : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
  return %y, %c1, %d1 : tensor<4x16xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
      !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
}

// What the convolution leaves would not be there.
// CHECK-LABEL: @negative_the_window_is_read_before
func.func @negative_the_window_is_read_before(
    %x: tensor<4x32xf32>, %a: tensor<4x2xf32>, %z: tensor<4x16xf32>,
    %w: tensor<32x1x4xbf16>, %al: tensor<2xf32>, %dt: tensor<2xf32>,
    %norm: tensor<8xf32>, %n: tensor<1xi32>,
    %c: !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
    %d: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>)
    -> (tensor<4x16xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>, tensor<4x32xf32>) {
  // CHECK-NOT: lm.makes_inputs
  // CHECK: return
  %q, %k, %v, %g, %beta, %c1 = lm.delta_inputs %x, %a, %a, %w, %al, %dt, %c
      keep %n {eps = 1.0e-6 : f32, key_dim = 8 : i64}
      : (tensor<4x32xf32>, tensor<4x2xf32>, tensor<4x2xf32>,
         tensor<32x1x4xbf16>, tensor<2xf32>, tensor<2xf32>,
         !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>,
          tensor<4x2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
  %u, %c2 = lm.short_conv %x, %w, %c1 keep %n
      : tensor<4x32xf32>, tensor<32x1x4xbf16>,
        !lm.conv_cache<taps = 4, channels = 32, pending = 4>
  %y, %d1 = lm.gated_delta %q, %k, %v, %g, %beta, %d keep %n
      norm(%z, %norm : tensor<4x16xf32>, tensor<8xf32>)
      {norm_eps = 1.0e-5 : f32, scale = 0.5 : f32}
      : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
  return %y, %c1, %d1, %u : tensor<4x16xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
      !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>, tensor<4x32xf32>
}
