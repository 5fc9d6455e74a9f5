// RUN: qopt %s --verify-roundtrip | FileCheck %s
// RUN: qopt %s --mlir-print-op-generic | qopt | FileCheck %s

// The ops of LmFusedOps.td. The examples in their descriptions are lines of this file.

// CHECK-LABEL: func.func @fused_linear(
func.func @fused_linear(%x: tensor<16x128xf32>, %c0: tensor<64x16xi32>, %c1: tensor<32x16xi32>,
                        %s0: tensor<64x4xbf16>, %s1: tensor<32x4xbf16>, %w: tensor<128xbf16>)
    -> (tensor<16x64xf32>, tensor<16x32xf32>) {
  // CHECK: %{{.*}}:2 = lm.fused_linear(%{{.*}}) weights(%{{.*}}, %{{.*}}) scales(%{{.*}}, %{{.*}}) norm(%{{.*}}) residual()
  // CHECK-SAME: {norm = #lm.norm<eps = 9.99999997E-7 : f32, offset = 1.000000e+00 : f32>, quantization = #lm.grouped<bits = 4, group = 32>}
  %q, %k = lm.fused_linear(%x) weights(%c0, %c1) scales(%s0, %s1)
      norm(%w) residual()
      {quantization = #lm.grouped<bits = 4, group = 32>,
       norm = #lm.norm<eps = 1.0e-6 : f32, offset = 1.0 : f32>}
      : (tensor<16x128xf32>, tensor<64x16xi32>, tensor<32x16xi32>,
         tensor<64x4xbf16>, tensor<32x4xbf16>, tensor<128xbf16>)
      -> (tensor<16x64xf32>, tensor<16x32xf32>)
  return %q, %k : tensor<16x64xf32>, tensor<16x32xf32>
}

// Gate and up of dense weights, one result, and a residual.
// CHECK-LABEL: func.func @fused_linear_gated(
func.func @fused_linear_gated(%x: tensor<4x64xf32>, %g: tensor<64x64xbf16>, %u: tensor<64x64xbf16>)
    -> tensor<4x64xf32> {
  // CHECK: lm.fused_linear(%[[X:.*]]) weights(%{{.*}}, %{{.*}}) scales() norm() residual(%[[X]]) {gated}
  %y = lm.fused_linear(%x) weights(%g, %u) scales() norm() residual(%x) {gated}
      : (tensor<4x64xf32>, tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<4x64xf32>) -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// CHECK-LABEL: func.func @delta_inputs(
func.func @delta_inputs(
    %x: tensor<16x1024xf32>, %a: tensor<16x8xf32>, %b: tensor<16x8xf32>, %w: tensor<1024x1x4xbf16>,
    %a_log: tensor<8xf32>, %dt_bias: tensor<8xbf16>,
    %cache: !lm.conv_cache<taps = 4, channels = 1024, pending = 16>, %accepted: tensor<1xi32>, %count: tensor<1xi32>)
    -> tensor<16x512xf32> {
  // CHECK: lm.delta_inputs {{.*}} keep %{{.*}} rows %{{.*}} {eps = 9.99999997E-7 : f32, key_dim = 64 : i64}
  %q, %k, %v, %g, %beta, %new = lm.delta_inputs %x, %a, %b, %w, %a_log,
      %dt_bias, %cache keep %accepted rows %count
      {key_dim = 64 : i64, eps = 1.0e-6 : f32}
      : (tensor<16x1024xf32>, tensor<16x8xf32>, tensor<16x8xf32>,
         tensor<1024x1x4xbf16>, tensor<8xf32>, tensor<8xbf16>,
         !lm.conv_cache<taps = 4, channels = 1024, pending = 16>)
      -> (tensor<16x256xf32>, tensor<16x256xf32>, tensor<16x512xf32>,
          tensor<16x8xf32>, tensor<16x8xf32>,
          !lm.conv_cache<taps = 4, channels = 1024, pending = 16>)
  return %v : tensor<16x512xf32>
}

// All rows, at once: more of them than the cache keeps pending.
// CHECK-LABEL: func.func @delta_inputs_commit(
func.func @delta_inputs_commit(
    %x: tensor<16x32xf32>, %a: tensor<16x2xf32>, %w: tensor<32x1x4xf32>, %v: tensor<2xf32>,
    %cache: !lm.conv_cache<taps = 4, channels = 32, pending = 1>, %accepted: tensor<1xi32>) -> tensor<16x16xf32> {
  // CHECK: lm.delta_inputs {{.*}} keep %{{[a-z0-9]+}} {commit,
  %q, %k, %value, %g, %beta, %new = lm.delta_inputs %x, %a, %a, %w, %v, %v, %cache keep %accepted
      {commit, key_dim = 8 : i64, eps = 0.0 : f32}
      : (tensor<16x32xf32>, tensor<16x2xf32>, tensor<16x2xf32>, tensor<32x1x4xf32>, tensor<2xf32>, tensor<2xf32>,
         !lm.conv_cache<taps = 4, channels = 32, pending = 1>)
      -> (tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x16xf32>, tensor<16x2xf32>, tensor<16x2xf32>,
          !lm.conv_cache<taps = 4, channels = 32, pending = 1>)
  return %value : tensor<16x16xf32>
}

// CHECK-LABEL: func.func @head_argmax(
func.func @head_argmax(%x: tensor<16x384xf32>, %w: tensor<6144x384xbf16>) -> tensor<16xi32> {
  // CHECK: lm.head_argmax %{{.*}}, %{{.*}} {search} : tensor<16x384xf32>, tensor<6144x384xbf16> -> tensor<16xi32>
  %t = lm.head_argmax %x, %w {search}
      : tensor<16x384xf32>, tensor<6144x384xbf16> -> tensor<16xi32>
  // CHECK: lm.head_argmax %{{.*}}, %{{.*}} {rounding = #lm.grouped<bits = 4, group = 128>} : tensor<16x384xf32>, tensor<6144x384xbf16> -> tensor<16xi32>
  %r = lm.head_argmax %x, %w
      {rounding = #lm.grouped<bits = 4, group = 128>}
      : tensor<16x384xf32>, tensor<6144x384xbf16> -> tensor<16xi32>
  // CHECK: lm.head_argmax %{{.*}}, %{{.*}} : tensor<16x384xf32>, tensor<6144x384xbf16> -> tensor<16xi32>
  %s = lm.head_argmax %x, %w
      : tensor<16x384xf32>, tensor<6144x384xbf16> -> tensor<16xi32>
  return %t : tensor<16xi32>
}

// CHECK-LABEL: func.func @last_position(
func.func @last_position(%start: tensor<1xi32>, %count: tensor<1xi32>) -> tensor<1xi32> {
  // CHECK: lm.last_position %{{.*}}, %{{.*}}
  %p = lm.last_position %start, %count
  return %p : tensor<1xi32>
}

// CHECK-LABEL: func.func @attention_inputs(
func.func @attention_inputs(%q: tensor<4x16xf32>, %k: tensor<4x8xf32>, %w: tensor<8xbf16>, %c: !lm.kv_cache<16x1x8xf32>, %s: tensor<1xi32>, %n: tensor<1xi32>) {
  // CHECK: %{{.*}}, %{{.*}} = lm.attention_inputs query(%{{.*}}, %{{.*}} : tensor<4x16xf32>, tensor<8xbf16>) keys(%{{.*}} : tensor<4x8xf32>) values(%{{.*}} : tensor<4x8xf32>) norms(%{{.*}} : tensor<8xbf16>) caches(%{{.*}} : !lm.kv_cache<16x1x8xf32>) at %{{.*}} rows %{{.*}} {dims = 4 : i64, norm = #lm.norm<eps = {{.*}}, offset = 0.000000e+00 : f32>, theta = 1.000000e+04 : f64} -> (query tensor<4x16xf32>, !lm.kv_cache<16x1x8xf32>)
  %r, %new = lm.attention_inputs query(%q, %w : tensor<4x16xf32>, tensor<8xbf16>) keys(%k : tensor<4x8xf32>) values(%k : tensor<4x8xf32>)
      norms(%w : tensor<8xbf16>) caches(%c : !lm.kv_cache<16x1x8xf32>) at %s rows %n
      {norm = #lm.norm<eps = 1.0e-6 : f32, offset = 0.0 : f32>, dims = 4 : i64, theta = 1.0e4 : f64}
      -> (query tensor<4x16xf32>, !lm.kv_cache<16x1x8xf32>)
  return
}

// CHECK-LABEL: func.func @attention_inputs_gate(
func.func @attention_inputs_gate(%q: tensor<4x16xf32>, %k: tensor<4x8xf32>, %w: tensor<8xbf16>, %c: !lm.kv_cache<16x1x8xf32>, %s: tensor<1xi32>) -> tensor<4x8xf32> {
  // CHECK: lm.attention_inputs {{.*}} -> (query tensor<4x8xf32>, gate tensor<4x8xf32>, !lm.kv_cache<16x1x8xf32>)
  %r, %g, %new = lm.attention_inputs query(%q, %w : tensor<4x16xf32>, tensor<8xbf16>) keys(%k : tensor<4x8xf32>) values(%k : tensor<4x8xf32>)
      norms(%w : tensor<8xbf16>) caches(%c : !lm.kv_cache<16x1x8xf32>) at %s
      {norm = #lm.norm<eps = 1.0e-6 : f32, offset = 0.0 : f32>, dims = 8 : i64, theta = 1.0e4 : f64}
      -> (query tensor<4x8xf32>, gate tensor<4x8xf32>, !lm.kv_cache<16x1x8xf32>)
  // CHECK: lm.attention {{.*}} gate %{{.*}} : tensor<4x8xf32> {causal
  %o = lm.attention %r, %new at %s gate %g : tensor<4x8xf32> {causal, scale = 0.5 : f32} : tensor<4x8xf32>, !lm.kv_cache<16x1x8xf32>
  return %o : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @attention_inputs_of_layers(
func.func @attention_inputs_of_layers(%k: tensor<4x8xf32>, %w: tensor<8xbf16>, %c: !lm.kv_cache<16x1x8xf32>, %d: !lm.kv_cache<16x1x8xf32>, %s: tensor<1xi32>) {
  // CHECK: %{{.*}}:2 = lm.attention_inputs keys(%{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<4x8xf32>)
  %new:2 = lm.attention_inputs keys(%k, %k : tensor<4x8xf32>, tensor<4x8xf32>) values(%k, %k : tensor<4x8xf32>, tensor<4x8xf32>)
      norms(%w, %w : tensor<8xbf16>, tensor<8xbf16>) caches(%c, %d : !lm.kv_cache<16x1x8xf32>, !lm.kv_cache<16x1x8xf32>) at %s
      {norm = #lm.norm<eps = 1.0e-6 : f32, offset = 0.0 : f32>, dims = 8 : i64, theta = 1.0e4 : f64}
      -> (!lm.kv_cache<16x1x8xf32>, !lm.kv_cache<16x1x8xf32>)
  return
}

// CHECK-LABEL: func.func @attention_inputs_example(
func.func @attention_inputs_example(%x: tensor<16x512xf32>, %qn: tensor<64xbf16>, %k: tensor<16x128xf32>, %v: tensor<16x128xf32>, %kn: tensor<64xbf16>,
    %cache: !lm.kv_cache<4112x2x64xf32>, %start: tensor<1xi32>, %count: tensor<1xi32>) -> tensor<16x256xf32> {
  // CHECK: lm.attention_inputs query(
  %q, %gate, %new = lm.attention_inputs
      query(%x, %qn : tensor<16x512xf32>, tensor<64xbf16>)
      keys(%k : tensor<16x128xf32>) values(%v : tensor<16x128xf32>)
      norms(%kn : tensor<64xbf16>)
      caches(%cache : !lm.kv_cache<4112x2x64xf32>) at %start rows %count
      {norm = #lm.norm<eps = 1.0e-6 : f32, offset = 1.0 : f32>,
       dims = 16 : i64, theta = 1.0e7 : f64}
      -> (query tensor<16x256xf32>, gate tensor<16x256xf32>,
          !lm.kv_cache<4112x2x64xf32>)
  return %q : tensor<16x256xf32>
}
