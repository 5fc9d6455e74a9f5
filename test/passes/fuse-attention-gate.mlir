// RUN: qopt %s --lm-fuse-attention-gate | FileCheck %s
// RUN: qopt %s --lm-fuse-attention-gate=report 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REPORT

// REPORT: remark: lm-fuse-attention-gate: 2 outputs gated

!cache = !lm.kv_cache<8x1x4xf32>

// CHECK-LABEL: @fuse
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x8xf32>, %[[G:[a-z0-9]+]]: tensor<2x8xf32>
func.func @fuse(%q: tensor<2x8xf32>, %g: tensor<2x8xf32>, %c: !cache,
                %s: tensor<1xi32>) -> tensor<2x8xf32> {
  // CHECK: %[[Y:.*]] = lm.attention %[[Q]], %{{.*}} at %{{.*}} gate %[[G]] : tensor<2x8xf32> {causal
  // CHECK: return %[[Y]]
  %o = lm.attention %q, %c at %s {causal, scale = 0.5 : f32}
      : tensor<2x8xf32>, !cache
  %open = lm.sigmoid %g : tensor<2x8xf32>
  %y = lm.mul %o, %open : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// CHECK-LABEL: @fuse_the_other_way_round
func.func @fuse_the_other_way_round(
    %q: tensor<2x8xf32>, %g: tensor<2x8xf32>, %c: !cache, %s: tensor<1xi32>,
    %n: tensor<1xi32>) -> tensor<2x8xf32> {
  // CHECK: lm.attention {{.*}} rows %{{.*}} gate
  // CHECK-NOT: lm.mul
  %open = lm.sigmoid %g : tensor<2x8xf32>
  %o = lm.attention %q, %c at %s rows %n {scale = 0.5 : f32}
      : tensor<2x8xf32>, !cache
  %y = lm.mul %open, %o : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// CHECK-LABEL: @negative_another_reader
func.func @negative_another_reader(
    %q: tensor<2x8xf32>, %g: tensor<2x8xf32>, %c: !cache, %s: tensor<1xi32>)
    -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  // CHECK-NOT: gate
  // CHECK: lm.mul
  %o = lm.attention %q, %c at %s {causal, scale = 0.5 : f32}
      : tensor<2x8xf32>, !cache
  %open = lm.sigmoid %g : tensor<2x8xf32>
  %y = lm.mul %o, %open : tensor<2x8xf32>
  return %y, %o : tensor<2x8xf32>, tensor<2x8xf32>
}

// The gate is made of what the attention says.
// CHECK-LABEL: @negative_the_gate_comes_later
func.func @negative_the_gate_comes_later(
    %q: tensor<2x8xf32>, %g: tensor<2x8xf32>, %c: !cache, %s: tensor<1xi32>)
    -> tensor<2x8xf32> {
  // CHECK-NOT: gate
  // CHECK: lm.mul
  %o = lm.attention %q, %c at %s {causal, scale = 0.5 : f32}
      : tensor<2x8xf32>, !cache
  %more = lm.silu %g : tensor<2x8xf32>
  %open = lm.sigmoid %more : tensor<2x8xf32>
  %y = lm.mul %o, %open : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// CHECK-LABEL: @negative_no_sigmoid
func.func @negative_no_sigmoid(%q: tensor<2x8xf32>, %g: tensor<2x8xf32>,
                               %c: !cache, %s: tensor<1xi32>)
    -> tensor<2x8xf32> {
  // CHECK-NOT: gate
  // CHECK: lm.mul
  %o = lm.attention %q, %c at %s {causal, scale = 0.5 : f32}
      : tensor<2x8xf32>, !cache
  %y = lm.mul %o, %g : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}
