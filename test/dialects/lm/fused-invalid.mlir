// RUN: qopt %s --split-input-file --verify-diagnostics --allow-unregistered-dialect

// Every message of LmFusedOps.cpp once. A function is named after its fault.

func.func @fused_linear_without_weights(%x: tensor<4x64xf32>) {
  // expected-error @below {{expects at least one weight}}
  lm.fused_linear(%x) weights() scales() norm() residual()
      : (tensor<4x64xf32>) -> ()
  return
}

// -----

func.func @fused_linear_weights_of_two_types(%x: tensor<4x64xf32>, %v: tensor<8x64xf32>, %w: tensor<8x64xbf16>) {
  // expected-error @below {{expects weights of 'f32', but got 'tensor<8x64xbf16>'}}
  %y:2 = lm.fused_linear(%x) weights(%v, %w) scales() norm() residual()
      : (tensor<4x64xf32>, tensor<8x64xf32>, tensor<8x64xbf16>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  return
}

// -----

func.func @fused_linear_codes_without_quantization(%x: tensor<4x64xf32>, %c: tensor<8x8xi32>) {
  // expected-error @below {{expects codes iff there is a quantization, but got 'tensor<8x8xi32>'}}
  %y = lm.fused_linear(%x) weights(%c) scales() norm() residual()
      : (tensor<4x64xf32>, tensor<8x8xi32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @fused_linear_scales_are_missing(%x: tensor<4x64xf32>, %c: tensor<8x8xi32>) {
  // expected-error @below {{expects 1 scales, but got 0}}
  %y = lm.fused_linear(%x) weights(%c) scales() norm() residual() {quantization = #lm.grouped<bits = 4, group = 32>}
      : (tensor<4x64xf32>, tensor<8x8xi32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @fused_linear_weight_of_other_columns(%x: tensor<4x64xf32>, %w: tensor<8x32xf32>) {
  // expected-error @below {{expects weights of 64 columns, but got 'tensor<8x32xf32>'}}
  %y = lm.fused_linear(%x) weights(%w) scales() norm() residual()
      : (tensor<4x64xf32>, tensor<8x32xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @fused_linear_scales_of_other_rows(%x: tensor<4x64xf32>, %c: tensor<8x8xi32>, %s: tensor<4x2xf32>) {
  // expected-error @below {{expects scales of 8 rows, but got 4}}
  %y = lm.fused_linear(%x) weights(%c) scales(%s) norm() residual() {quantization = #lm.grouped<bits = 4, group = 32>}
      : (tensor<4x64xf32>, tensor<8x8xi32>, tensor<4x2xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @fused_linear_gate_without_up(%x: tensor<4x64xf32>, %w: tensor<8x64xf32>) {
  // expected-error @below {{expects two weights of equal rows when gated}}
  %y = lm.fused_linear(%x) weights(%w) scales() norm() residual() {gated}
      : (tensor<4x64xf32>, tensor<8x64xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @fused_linear_result_is_missing(%x: tensor<4x64xf32>, %w: tensor<8x64xf32>) {
  // expected-error @below {{expects 2 results, but got 1}}
  %y = lm.fused_linear(%x) weights(%w, %w) scales() norm() residual()
      : (tensor<4x64xf32>, tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @fused_linear_result_of_other_columns(%x: tensor<4x64xf32>, %w: tensor<8x64xf32>) {
  // expected-error @below {{expects a result of 8 columns, but got 9}}
  %y = lm.fused_linear(%x) weights(%w) scales() norm() residual()
      : (tensor<4x64xf32>, tensor<8x64xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @fused_linear_result_of_other_rows(%x: tensor<4x64xf32>, %w: tensor<8x64xf32>) {
  // expected-error @below {{expects results of 4 rows, but got 5}}
  %y = lm.fused_linear(%x) weights(%w) scales() norm() residual()
      : (tensor<4x64xf32>, tensor<8x64xf32>) -> tensor<5x8xf32>
  return
}

// -----

func.func @fused_linear_norm_without_weight(%x: tensor<4x64xf32>, %w: tensor<8x64xf32>) {
  // expected-error @below {{expects norm and its weight together}}
  %y = lm.fused_linear(%x) weights(%w) scales() norm() residual() {norm = #lm.norm<eps = 0.0 : f32, offset = 0.0 : f32>}
      : (tensor<4x64xf32>, tensor<8x64xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @fused_linear_norm_weight_too_short(%x: tensor<4x64xf32>, %w: tensor<8x64xf32>, %n: tensor<32xf32>) {
  // expected-error @below {{expects a norm weight of 64 entries, but got 'tensor<32xf32>'}}
  %y = lm.fused_linear(%x) weights(%w) scales() norm(%n) residual() {norm = #lm.norm<eps = 0.0 : f32, offset = 0.0 : f32>}
      : (tensor<4x64xf32>, tensor<8x64xf32>, tensor<32xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @fused_linear_residual_of_other_type(%x: tensor<4x64xf32>, %w: tensor<8x64xf32>) {
  // expected-error @below {{expects one result of the type of its residual, 'tensor<4x64xf32>'}}
  %y = lm.fused_linear(%x) weights(%w) scales() norm() residual(%x)
      : (tensor<4x64xf32>, tensor<8x64xf32>, tensor<4x64xf32>) -> tensor<4x8xf32>
  return
}

// -----

// expected-error @below {{expects eps and offset in f32, but got 0.000000e+00 : f64 and 0.000000e+00 : f32}}
func.func private @norm_in_f64() attributes {test.norm = #lm.norm<eps = 0.0 : f64, offset = 0.0 : f32>}

// -----

// expected-error @below {{expects a finite norm, but got -1.000000e+00 : f32 and 0.000000e+00 : f32}}
func.func private @norm_of_negative_eps() attributes {test.norm = #lm.norm<eps = -1.0 : f32, offset = 0.0 : f32>}

// -----

func.func @delta_inputs_parts_do_not_add_up(%x: tensor<4x32xf32>, %a: tensor<4x2xf32>, %b: tensor<4x2xf32>, %w: tensor<32x1x4xf32>, %al: tensor<2xf32>, %dt: tensor<2xf32>,
    %c: !lm.conv_cache<taps = 4, channels = 32, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects query, key and value of 32 columns together, but got 40}}
  %q, %k, %v, %g, %beta, %new = lm.delta_inputs %x, %a, %b, %w, %al, %dt, %c keep %n
      {key_dim = 8 : i64, eps = 0.0 : f32}
      : (tensor<4x32xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<32x1x4xf32>, tensor<2xf32>, tensor<2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x24xf32>, tensor<4x2xf32>, tensor<4x2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
  return
}

// -----

func.func @delta_inputs_key_is_no_multiple(%x: tensor<4x32xf32>, %a: tensor<4x2xf32>, %b: tensor<4x2xf32>, %w: tensor<32x1x4xf32>, %al: tensor<2xf32>, %dt: tensor<2xf32>,
    %c: !lm.conv_cache<taps = 4, channels = 32, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects query and key of equal columns, a multiple of 5, but got 8 and 8}}
  %q, %k, %v, %g, %beta, %new = lm.delta_inputs %x, %a, %b, %w, %al, %dt, %c keep %n
      {key_dim = 5 : i64, eps = 0.0 : f32}
      : (tensor<4x32xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<32x1x4xf32>, tensor<2xf32>, tensor<2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>, tensor<4x2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
  return
}

// -----

func.func @delta_inputs_vector_too_short(%x: tensor<4x32xf32>, %a: tensor<4x2xf32>, %b: tensor<4x2xf32>, %w: tensor<32x1x4xf32>, %al: tensor<2xf32>, %dt: tensor<3xf32>,
    %c: !lm.conv_cache<taps = 4, channels = 32, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects vectors of 2 entries, but got 'tensor<3xf32>'}}
  %q, %k, %v, %g, %beta, %new = lm.delta_inputs %x, %a, %b, %w, %al, %dt, %c keep %n
      {key_dim = 8 : i64, eps = 0.0 : f32}
      : (tensor<4x32xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<32x1x4xf32>, tensor<2xf32>, tensor<3xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>, tensor<4x2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
  return
}

// -----

func.func @delta_inputs_beta_of_other_columns(%x: tensor<4x32xf32>, %a: tensor<4x2xf32>, %b: tensor<4x2xf32>, %w: tensor<32x1x4xf32>, %al: tensor<2xf32>, %dt: tensor<2xf32>,
    %c: !lm.conv_cache<taps = 4, channels = 32, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects decay and beta of 2 columns, but got 3}}
  %q, %k, %v, %g, %beta, %new = lm.delta_inputs %x, %a, %b, %w, %al, %dt, %c keep %n
      {key_dim = 8 : i64, eps = 0.0 : f32}
      : (tensor<4x32xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<32x1x4xf32>, tensor<2xf32>, tensor<2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>, tensor<4x3xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
  return
}

// -----

func.func @delta_inputs_rows_differ(%x: tensor<4x32xf32>, %a: tensor<4x2xf32>, %b: tensor<4x2xf32>, %w: tensor<32x1x4xf32>, %al: tensor<2xf32>, %dt: tensor<2xf32>,
    %c: !lm.conv_cache<taps = 4, channels = 32, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects operands and results of 4 rows, but got 5}}
  %q, %k, %v, %g, %beta, %new = lm.delta_inputs %x, %a, %b, %w, %al, %dt, %c keep %n
      {key_dim = 8 : i64, eps = 0.0 : f32}
      : (tensor<4x32xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<32x1x4xf32>, tensor<2xf32>, tensor<2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>, tensor<5x2xf32>, tensor<4x2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
  return
}

// -----

func.func @delta_inputs_negative_eps(%x: tensor<4x32xf32>, %a: tensor<4x2xf32>, %b: tensor<4x2xf32>, %w: tensor<32x1x4xf32>, %al: tensor<2xf32>, %dt: tensor<2xf32>,
    %c: !lm.conv_cache<taps = 4, channels = 32, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects eps not to be negative}}
  %q, %k, %v, %g, %beta, %new = lm.delta_inputs %x, %a, %b, %w, %al, %dt, %c keep %n
      {key_dim = 8 : i64, eps = -1.0 : f32}
      : (tensor<4x32xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<32x1x4xf32>, tensor<2xf32>, tensor<2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>, tensor<4x2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
  return
}

// -----

func.func @head_argmax_columns_differ(%x: tensor<4x64xf32>, %w: tensor<8x32xf32>) {
  // expected-error @below {{expects a weight of 64 columns, but got 32}}
  %t = lm.head_argmax %x, %w : tensor<4x64xf32>, tensor<8x32xf32> -> tensor<4xi32>
  return
}

// -----

func.func @head_argmax_token_count(%x: tensor<4x64xf32>, %w: tensor<8x64xf32>) {
  // expected-error @below {{expects one token per row, 4, but got 5}}
  %t = lm.head_argmax %x, %w : tensor<4x64xf32>, tensor<8x64xf32> -> tensor<5xi32>
  return
}

// -----

func.func @attention_inputs_result_count(%q: tensor<4x16xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>, %w: tensor<8xf32>, %c: !lm.kv_cache<16x1x8xf32>, %s: tensor<1xi32>) {
  // expected-error @below {{expects keys, values, norms and results for 1 caches}}
  %r:2 = lm.attention_inputs keys(%k : tensor<4x8xf32>) values(%v : tensor<4x8xf32>)
      norms(%w : tensor<8xf32>) caches(%c : !lm.kv_cache<16x1x8xf32>) at %s
      {norm = #lm.norm<eps = 1.0e-6 : f32, offset = 0.0 : f32>, dims = 4 : i64, theta = 1.0e4 : f64}
      -> (!lm.kv_cache<16x1x8xf32>, !lm.kv_cache<16x1x8xf32>)
  return
}

// -----

// Violates (C3).
func.func @head_argmax_search_f32(%x: tensor<4x64xf32>, %w: tensor<8x64xf32>) {
  // expected-error @below {{expects a bf16 weight to search in or to round, but got 'tensor<8x64xf32>'}}
  %t = lm.head_argmax %x, %w {search} : tensor<4x64xf32>, tensor<8x64xf32> -> tensor<4xi32>
  return
}

// -----

func.func @attention_inputs_key_columns(%q: tensor<4x16xf32>, %k: tensor<4x16xf32>, %v: tensor<4x8xf32>, %w: tensor<8xf32>, %c: !lm.kv_cache<16x1x8xf32>, %s: tensor<1xi32>) {
  // expected-error @below {{expects keys and values of 8 columns of 'f32', but got 'tensor<4x16xf32>'}}
  %r:1 = lm.attention_inputs keys(%k : tensor<4x16xf32>) values(%v : tensor<4x8xf32>)
      norms(%w : tensor<8xf32>) caches(%c : !lm.kv_cache<16x1x8xf32>) at %s
      {norm = #lm.norm<eps = 1.0e-6 : f32, offset = 0.0 : f32>, dims = 4 : i64, theta = 1.0e4 : f64}
      -> (!lm.kv_cache<16x1x8xf32>)
  return
}

// -----

// Violates (C3).
func.func @head_argmax_both(%x: tensor<4x64xf32>, %w: tensor<8x64xbf16>) {
  // expected-error @below {{expects either a search or a rounding}}
  %t = lm.head_argmax %x, %w {search, rounding = #lm.grouped<bits = 4, group = 64>} : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4xi32>
  return
}

// -----

func.func @attention_inputs_no_rotated_query(%q: tensor<4x16xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>, %w: tensor<8xf32>, %c: !lm.kv_cache<16x1x8xf32>, %s: tensor<1xi32>) {
  // expected-error @below {{expects a query and its results together}}
  %r:1 = lm.attention_inputs query(%q, %w : tensor<4x16xf32>, tensor<8xf32>) keys(%k : tensor<4x8xf32>) values(%v : tensor<4x8xf32>)
      norms(%w : tensor<8xf32>) caches(%c : !lm.kv_cache<16x1x8xf32>) at %s
      {norm = #lm.norm<eps = 1.0e-6 : f32, offset = 0.0 : f32>, dims = 4 : i64, theta = 1.0e4 : f64}
      -> (!lm.kv_cache<16x1x8xf32>)
  return
}

// -----

// Violates (C4).
func.func @head_argmax_group(%x: tensor<4x64xf32>, %w: tensor<8x64xbf16>) {
  // expected-error @below {{expects a rounding to 4 bits in groups of a multiple of 64 that divide 64 columns, but got #lm.grouped<bits = 4, group = 32>}}
  %t = lm.head_argmax %x, %w {rounding = #lm.grouped<bits = 4, group = 32>} : tensor<4x64xf32>, tensor<8x64xbf16> -> tensor<4xi32>
  return
}

// -----

func.func @attention_inputs_query_columns(%q: tensor<4x16xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>, %w: tensor<8xf32>, %c: !lm.kv_cache<16x1x8xf32>, %s: tensor<1xi32>) {
  // expected-error @below {{expects a rotated query of a multiple of 8 columns, and 1 times as many in the query, but got 'tensor<4x8xf32>' and 'tensor<4x16xf32>'}}
  %r:2 = lm.attention_inputs query(%q, %w : tensor<4x16xf32>, tensor<8xf32>) keys(%k : tensor<4x8xf32>) values(%v : tensor<4x8xf32>)
      norms(%w : tensor<8xf32>) caches(%c : !lm.kv_cache<16x1x8xf32>) at %s
      {norm = #lm.norm<eps = 1.0e-6 : f32, offset = 0.0 : f32>, dims = 4 : i64, theta = 1.0e4 : f64}
      -> (query tensor<4x8xf32>, !lm.kv_cache<16x1x8xf32>)
  return
}

// -----

func.func @attention_inputs_gate_type(%q: tensor<4x16xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>, %w: tensor<8xf32>, %c: !lm.kv_cache<16x1x8xf32>, %s: tensor<1xi32>) {
  // expected-error @below {{expects a gate of 'tensor<4x8xf32>', but got 'tensor<4x16xf32>'}}
  %r:3 = lm.attention_inputs query(%q, %w : tensor<4x16xf32>, tensor<8xf32>) keys(%k : tensor<4x8xf32>) values(%v : tensor<4x8xf32>)
      norms(%w : tensor<8xf32>) caches(%c : !lm.kv_cache<16x1x8xf32>) at %s
      {norm = #lm.norm<eps = 1.0e-6 : f32, offset = 0.0 : f32>, dims = 4 : i64, theta = 1.0e4 : f64}
      -> (query tensor<4x8xf32>, gate tensor<4x16xf32>, !lm.kv_cache<16x1x8xf32>)
  return
}

// -----

func.func @attention_inputs_norm_length(%q: tensor<4x16xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>, %w: tensor<4xf32>, %c: !lm.kv_cache<16x1x8xf32>, %s: tensor<1xi32>) {
  // expected-error @below {{expects norms of 8 entries, but got 'tensor<4xf32>'}}
  %r:1 = lm.attention_inputs keys(%k : tensor<4x8xf32>) values(%v : tensor<4x8xf32>)
      norms(%w : tensor<4xf32>) caches(%c : !lm.kv_cache<16x1x8xf32>) at %s
      {norm = #lm.norm<eps = 1.0e-6 : f32, offset = 0.0 : f32>, dims = 4 : i64, theta = 1.0e4 : f64}
      -> (!lm.kv_cache<16x1x8xf32>)
  return
}

// -----

func.func @attention_inputs_row_count(%q: tensor<4x16xf32>, %k: tensor<4x8xf32>, %v: tensor<5x8xf32>, %w: tensor<8xf32>, %c: !lm.kv_cache<16x1x8xf32>, %s: tensor<1xi32>) {
  // expected-error @below {{expects operands and results of 4 rows, but got 5}}
  %r:1 = lm.attention_inputs keys(%k : tensor<4x8xf32>) values(%v : tensor<5x8xf32>)
      norms(%w : tensor<8xf32>) caches(%c : !lm.kv_cache<16x1x8xf32>) at %s
      {norm = #lm.norm<eps = 1.0e-6 : f32, offset = 0.0 : f32>, dims = 4 : i64, theta = 1.0e4 : f64}
      -> (!lm.kv_cache<16x1x8xf32>)
  return
}

// -----

func.func @attention_inputs_dims(%q: tensor<4x16xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>, %w: tensor<8xf32>, %c: !lm.kv_cache<16x1x8xf32>, %s: tensor<1xi32>) {
  // expected-error @below {{expects an even number of dims up to 8, but got 10}}
  %r:1 = lm.attention_inputs keys(%k : tensor<4x8xf32>) values(%v : tensor<4x8xf32>)
      norms(%w : tensor<8xf32>) caches(%c : !lm.kv_cache<16x1x8xf32>) at %s
      {norm = #lm.norm<eps = 1.0e-6 : f32, offset = 0.0 : f32>, dims = 10 : i64, theta = 1.0e4 : f64}
      -> (!lm.kv_cache<16x1x8xf32>)
  return
}

// -----

func.func @attention_inputs_no_cache(%s: tensor<1xi32>) {
  // expected-error @below {{expects at least one cache}}
  "lm.attention_inputs"(%s) <{dims = 4 : i64, norm = #lm.norm<eps = 1.0e-6 : f32, offset = 0.0 : f32>, operandSegmentSizes = array<i32: 0, 0, 0, 0, 0, 0, 1, 0>,
      resultSegmentSizes = array<i32: 0, 0, 0>, theta = 1.0e4 : f64}> : (tensor<1xi32>) -> ()
  return
}

// -----

func.func @attention_inputs_cache_types(%k: tensor<4x8xf32>, %w: tensor<8xf32>, %c: !lm.kv_cache<16x1x8xf32>, %d: !lm.kv_cache<32x1x8xf32>, %s: tensor<1xi32>) {
  // expected-error @below {{expects caches of '!lm.kv_cache<16x1x8xf32>', but got '!lm.kv_cache<32x1x8xf32>'}}
  %r:2 = lm.attention_inputs keys(%k, %k : tensor<4x8xf32>, tensor<4x8xf32>) values(%k, %k : tensor<4x8xf32>, tensor<4x8xf32>)
      norms(%w, %w : tensor<8xf32>, tensor<8xf32>) caches(%c, %d : !lm.kv_cache<16x1x8xf32>, !lm.kv_cache<32x1x8xf32>) at %s
      {norm = #lm.norm<eps = 1.0e-6 : f32, offset = 0.0 : f32>, dims = 4 : i64, theta = 1.0e4 : f64}
      -> (!lm.kv_cache<16x1x8xf32>, !lm.kv_cache<32x1x8xf32>)
  return
}

// -----

func.func @attention_inputs_query_of_layers(%k: tensor<4x8xf32>, %w: tensor<8xf32>, %c: !lm.kv_cache<16x1x8xf32>, %d: !lm.kv_cache<16x1x8xf32>, %s: tensor<1xi32>) {
  // expected-error @below {{expects one cache beside a query, but got 2}}
  %r:3 = lm.attention_inputs query(%k, %w : tensor<4x8xf32>, tensor<8xf32>) keys(%k, %k : tensor<4x8xf32>, tensor<4x8xf32>) values(%k, %k : tensor<4x8xf32>, tensor<4x8xf32>)
      norms(%w, %w : tensor<8xf32>, tensor<8xf32>) caches(%c, %d : !lm.kv_cache<16x1x8xf32>, !lm.kv_cache<16x1x8xf32>) at %s
      {norm = #lm.norm<eps = 1.0e-6 : f32, offset = 0.0 : f32>, dims = 4 : i64, theta = 1.0e4 : f64}
      -> (query tensor<4x8xf32>, !lm.kv_cache<16x1x8xf32>, !lm.kv_cache<16x1x8xf32>)
  return
}

// -----

func.func @attention_inputs_theta(%k: tensor<4x8xf32>, %w: tensor<8xf32>, %c: !lm.kv_cache<16x1x8xf32>, %s: tensor<1xi32>) {
  // expected-error @below {{expects a positive theta}}
  %r = lm.attention_inputs keys(%k : tensor<4x8xf32>) values(%k : tensor<4x8xf32>)
      norms(%w : tensor<8xf32>) caches(%c : !lm.kv_cache<16x1x8xf32>) at %s
      {norm = #lm.norm<eps = 1.0e-6 : f32, offset = 0.0 : f32>, dims = 4 : i64, theta = 0.0 : f64}
      -> (!lm.kv_cache<16x1x8xf32>)
  return
}

// -----

func.func @attention_gate_type(%q: tensor<4x8xf32>, %g: tensor<4x16xf32>, %c: !lm.kv_cache<16x1x8xf32>, %s: tensor<1xi32>) {
  // expected-error @below {{expects a gate of 'tensor<4x8xf32>', but got 'tensor<4x16xf32>'}}
  %o = lm.attention %q, %c at %s gate %g : tensor<4x16xf32> {scale = 0.5 : f32} : tensor<4x8xf32>, !lm.kv_cache<16x1x8xf32>
  return
}

// -----

func.func @gated_delta_norm_without_eps(%q: tensor<4x8xf32>, %v: tensor<4x16xf32>, %g: tensor<4x2xf32>, %z: tensor<4x16xf32>, %w: tensor<8xf32>, %d: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects a gate, a norm and its eps together, and no commit with them}}
  %o, %d1 = lm.gated_delta %q, %q, %v, %g, %g, %d keep %n norm(%z, %w : tensor<4x16xf32>, tensor<8xf32>) {scale = 1.0 : f32} : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>, !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
  return
}

// -----

func.func @gated_delta_norm_and_commit(%q: tensor<4x8xf32>, %v: tensor<4x16xf32>, %g: tensor<4x2xf32>, %z: tensor<4x16xf32>, %w: tensor<8xf32>, %d: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects a gate, a norm and its eps together, and no commit with them}}
  %o, %d1 = lm.gated_delta %q, %q, %v, %g, %g, %d keep %n norm(%z, %w : tensor<4x16xf32>, tensor<8xf32>) {commit, norm_eps = 1.0e-6 : f32, scale = 1.0 : f32} : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>, !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
  return
}

// -----

func.func @gated_delta_gate_type(%q: tensor<4x8xf32>, %v: tensor<4x16xf32>, %g: tensor<4x2xf32>, %z: tensor<4x8xf32>, %w: tensor<8xf32>, %d: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects a gate of 'tensor<4x16xf32>', but got 'tensor<4x8xf32>'}}
  %o, %d1 = lm.gated_delta %q, %q, %v, %g, %g, %d keep %n norm(%z, %w : tensor<4x8xf32>, tensor<8xf32>) {norm_eps = 1.0e-6 : f32, scale = 1.0 : f32} : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>, !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
  return
}

// -----

func.func @gated_delta_norm_length(%q: tensor<4x8xf32>, %v: tensor<4x16xf32>, %g: tensor<4x2xf32>, %z: tensor<4x16xf32>, %w: tensor<16xf32>, %d: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects a norm of 8 entries, but got 'tensor<16xf32>'}}
  %o, %d1 = lm.gated_delta %q, %q, %v, %g, %g, %d keep %n norm(%z, %w : tensor<4x16xf32>, tensor<16xf32>) {norm_eps = 1.0e-6 : f32, scale = 1.0 : f32} : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>, !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
  return
}

// -----

func.func @gated_delta_negative_norm_eps(%q: tensor<4x8xf32>, %v: tensor<4x16xf32>, %g: tensor<4x2xf32>, %z: tensor<4x16xf32>, %w: tensor<8xf32>, %d: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects norm_eps not to be negative}}
  %o, %d1 = lm.gated_delta %q, %q, %v, %g, %g, %d keep %n norm(%z, %w : tensor<4x16xf32>, tensor<8xf32>) {norm_eps = -1.0 : f32, scale = 1.0 : f32} : tensor<4x8xf32>, tensor<4x16xf32>, tensor<4x2xf32>, !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
  return
}
