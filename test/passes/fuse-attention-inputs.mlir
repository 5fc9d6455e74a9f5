// RUN: qopt %s --lm-fuse-attention-inputs | FileCheck %s
// RUN: qopt %s --lm-fuse-attention-inputs=report 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REPORT

// REPORT: remark: lm-fuse-attention-inputs: 2 attention layers fused
// REPORT: remark: lm-fuse-attention-inputs: 4 groups of keys and values alone

!cache = !lm.kv_cache<8x1x4xf32>

// CHECK-LABEL: @fuse
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x8xf32>, %[[K:[a-z0-9]+]]: tensor<2x4xf32>, %[[V:[a-z0-9]+]]: tensor<2x4xf32>
// CHECK-SAME: %[[C:[a-z0-9]+]]: !lm.kv_cache
func.func @fuse(%q0: tensor<2x8xf32>, %k0: tensor<2x4xf32>, %v: tensor<2x4xf32>,
                %qw: tensor<4xf32>, %kw: tensor<4xbf16>, %c: !cache,
                %s: tensor<1xi32>, %n: tensor<1xi32>)
    -> (tensor<2x8xf32>, !cache) {
  // CHECK: %[[QUERY:.*]], %[[NEW:.*]] = lm.attention_inputs query(%[[Q]], {{.*}}) keys(%[[K]] : {{.*}}) values(%[[V]] : {{.*}}) norms({{.*}}) caches(%[[C]] : {{.*}}) at %{{.*}} rows %{{.*}} {dims = 2 : i64, norm = #lm.norm<eps = {{.*}}, offset = 1.000000e+00 : f32>, theta = 1.000000e+04 : f64} -> (query tensor<2x8xf32>, !lm.kv_cache<8x1x4xf32>)
  // CHECK: %[[O:.*]] = lm.attention %[[QUERY]], %[[NEW]]
  // CHECK: return %[[O]], %[[NEW]]
  %q1 = lm.rms_norm %q0, %qw {eps = 1.0e-6 : f32, offset = 1.0 : f32}
      : tensor<2x8xf32>, tensor<4xf32>
  %q = lm.rope %q1 at %s {head_dim = 4 : i64, dims = 2 : i64, theta = 1.0e4 : f64}
      : tensor<2x8xf32>
  %k1 = lm.rms_norm %k0, %kw {eps = 1.0e-6 : f32, offset = 1.0 : f32}
      : tensor<2x4xf32>, tensor<4xbf16>
  %k = lm.rope %k1 at %s {head_dim = 4 : i64, dims = 2 : i64, theta = 1.0e4 : f64}
      : tensor<2x4xf32>
  %new = lm.cache_append %c, %k, %v at %s rows %n : !cache, tensor<2x4xf32>
  %o = lm.attention %q, %new at %s rows %n {causal, scale = 0.5 : f32}
      : tensor<2x8xf32>, !cache
  return %o, %new : tensor<2x8xf32>, !cache
}

// CHECK-LABEL: @fuse_with_a_gate
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x16xf32>
func.func @fuse_with_a_gate(
    %x: tensor<2x16xf32>, %k0: tensor<2x4xf32>, %v: tensor<2x4xf32>,
    %w: tensor<4xf32>, %c: !cache, %s: tensor<1xi32>)
    -> (tensor<2x8xf32>, tensor<2x8xf32>, !cache) {
  // CHECK: %[[QUERY:.*]], %[[GATE:.*]], %[[NEW:.*]] = lm.attention_inputs query(%[[X]], {{.*}}) {{.*}} -> (query tensor<2x8xf32>, gate tensor<2x8xf32>, !lm.kv_cache<8x1x4xf32>)
  // CHECK-NOT: lm.split
  // CHECK: %[[O:.*]] = lm.attention %[[QUERY]], %[[NEW]]
  // CHECK: %[[OPEN:.*]] = lm.sigmoid %[[GATE]]
  // CHECK: return %[[O]], %[[OPEN]], %[[NEW]]
  %q0, %g = lm.split %x {groups = 2 : i64}
      : tensor<2x16xf32> -> tensor<2x8xf32>, tensor<2x8xf32>
  %q1 = lm.rms_norm %q0, %w {eps = 1.0e-6 : f32}
      : tensor<2x8xf32>, tensor<4xf32>
  %q = lm.rope %q1 at %s {head_dim = 4 : i64, dims = 4 : i64, theta = 1.0e4 : f64}
      : tensor<2x8xf32>
  %k1 = lm.rms_norm %k0, %w {eps = 1.0e-6 : f32}
      : tensor<2x4xf32>, tensor<4xf32>
  %k = lm.rope %k1 at %s {head_dim = 4 : i64, dims = 4 : i64, theta = 1.0e4 : f64}
      : tensor<2x4xf32>
  %new = lm.cache_append %c, %k, %v at %s : !cache, tensor<2x4xf32>
  %o = lm.attention %q, %new at %s {causal, scale = 0.5 : f32}
      : tensor<2x8xf32>, !cache
  %open = lm.sigmoid %g : tensor<2x8xf32>
  return %o, %open, %new : tensor<2x8xf32>, tensor<2x8xf32>, !cache
}

// Keys and values of two layers for the same rows.
// CHECK-LABEL: @merge
func.func @merge(%k0: tensor<2x4xf32>, %v: tensor<2x4xf32>, %w: tensor<4xf32>,
                 %c: !cache, %d: !cache, %s: tensor<1xi32>)
    -> (!cache, !cache) {
  // CHECK: %[[NEW:.*]]:2 = lm.attention_inputs keys(
  // CHECK-NOT: lm.attention_inputs
  // CHECK: return %[[NEW]]#0, %[[NEW]]#1
  %k1 = lm.rms_norm %k0, %w {eps = 1.0e-6 : f32}
      : tensor<2x4xf32>, tensor<4xf32>
  %k = lm.rope %k1 at %s {head_dim = 4 : i64, dims = 4 : i64, theta = 1.0e4 : f64}
      : tensor<2x4xf32>
  %new = lm.cache_append %c, %k, %v at %s : !cache, tensor<2x4xf32>
  %l1 = lm.rms_norm %v, %w {eps = 1.0e-6 : f32}
      : tensor<2x4xf32>, tensor<4xf32>
  %l = lm.rope %l1 at %s {head_dim = 4 : i64, dims = 4 : i64, theta = 1.0e4 : f64}
      : tensor<2x4xf32>
  %new2 = lm.cache_append %d, %l, %k0 at %s : !cache, tensor<2x4xf32>
  return %new, %new2 : !cache, !cache
}

// The second append is behind the first in the same cache.
// CHECK-LABEL: @negative_one_cache
func.func @negative_one_cache(
    %k0: tensor<2x4xf32>, %v: tensor<2x4xf32>, %w: tensor<4xf32>, %c: !cache,
    %s: tensor<1xi32>, %t: tensor<1xi32>) -> !cache {
  // CHECK-COUNT-2: lm.attention_inputs keys(
  %k1 = lm.rms_norm %k0, %w {eps = 1.0e-6 : f32}
      : tensor<2x4xf32>, tensor<4xf32>
  %k = lm.rope %k1 at %s {head_dim = 4 : i64, dims = 4 : i64, theta = 1.0e4 : f64}
      : tensor<2x4xf32>
  %new = lm.cache_append %c, %k, %v at %s : !cache, tensor<2x4xf32>
  %l1 = lm.rms_norm %v, %w {eps = 1.0e-6 : f32}
      : tensor<2x4xf32>, tensor<4xf32>
  %l = lm.rope %l1 at %s {head_dim = 4 : i64, dims = 4 : i64, theta = 1.0e4 : f64}
      : tensor<2x4xf32>
  %new2 = lm.cache_append %new, %l, %k0 at %s : !cache, tensor<2x4xf32>
  return %new2 : !cache
}

// The query stands elsewhere than the keys: only they are fused.
// CHECK-LABEL: @negative_another_position
func.func @negative_another_position(
    %q0: tensor<2x8xf32>, %k0: tensor<2x4xf32>, %v: tensor<2x4xf32>,
    %w: tensor<4xf32>, %c: !cache, %s: tensor<1xi32>, %t: tensor<1xi32>)
    -> (tensor<2x8xf32>, !cache) {
  // CHECK: lm.rope
  // CHECK: lm.attention_inputs keys(
  %q1 = lm.rms_norm %q0, %w {eps = 1.0e-6 : f32}
      : tensor<2x8xf32>, tensor<4xf32>
  %q = lm.rope %q1 at %t {head_dim = 4 : i64, dims = 4 : i64, theta = 1.0e4 : f64}
      : tensor<2x8xf32>
  %k1 = lm.rms_norm %k0, %w {eps = 1.0e-6 : f32}
      : tensor<2x4xf32>, tensor<4xf32>
  %k = lm.rope %k1 at %s {head_dim = 4 : i64, dims = 4 : i64, theta = 1.0e4 : f64}
      : tensor<2x4xf32>
  %new = lm.cache_append %c, %k, %v at %s : !cache, tensor<2x4xf32>
  %o = lm.attention %q, %new at %t {causal, scale = 0.5 : f32}
      : tensor<2x8xf32>, !cache
  return %o, %new : tensor<2x8xf32>, !cache
}

// CHECK-LABEL: @negative_another_reader
func.func @negative_another_reader(
    %k0: tensor<2x4xf32>, %v: tensor<2x4xf32>, %w: tensor<4xf32>, %c: !cache,
    %s: tensor<1xi32>) -> (tensor<2x4xf32>, !cache) {
  // CHECK-NOT: lm.attention_inputs
  // CHECK: lm.cache_append
  %k1 = lm.rms_norm %k0, %w {eps = 1.0e-6 : f32}
      : tensor<2x4xf32>, tensor<4xf32>
  %k = lm.rope %k1 at %s {head_dim = 4 : i64, dims = 4 : i64, theta = 1.0e4 : f64}
      : tensor<2x4xf32>
  %new = lm.cache_append %c, %k, %v at %s : !cache, tensor<2x4xf32>
  return %k, %new : tensor<2x4xf32>, !cache
}

// The norm is that of the row, not of its heads.
// CHECK-LABEL: @negative_norm_of_the_row
func.func @negative_norm_of_the_row(
    %k0: tensor<2x8xf32>, %v: tensor<2x8xf32>, %w: tensor<8xf32>,
    %c: !lm.kv_cache<8x2x4xf32>, %s: tensor<1xi32>)
    -> !lm.kv_cache<8x2x4xf32> {
  // CHECK-NOT: lm.attention_inputs
  // CHECK: lm.cache_append
  %k1 = lm.rms_norm %k0, %w {eps = 1.0e-6 : f32}
      : tensor<2x8xf32>, tensor<8xf32>
  %k = lm.rope %k1 at %s {head_dim = 4 : i64, dims = 4 : i64, theta = 1.0e4 : f64}
      : tensor<2x8xf32>
  %new = lm.cache_append %c, %k, %v at %s
      : !lm.kv_cache<8x2x4xf32>, tensor<2x8xf32>
  return %new : !lm.kv_cache<8x2x4xf32>
}
