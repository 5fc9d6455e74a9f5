// RUN: qopt %s --verify-roundtrip | FileCheck %s
// RUN: qopt %s --mlir-print-op-generic | qopt | FileCheck %s

// One function per op and per optional clause. The examples in the descriptions of the ops are lines of this file.

module attributes {
    lm.checkpoints = {target = "models/target", drafter = "models/drafter"},
    lm.facts = {layers = 8 : i64}} {

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @weight(
func.func @weight() -> tensor<384xbf16> {
  // CHECK: lm.weight "target", "model.norm.weight" : tensor<384xbf16>
  %w = lm.weight "target", "model.norm.weight" : tensor<384xbf16>
  return %w : tensor<384xbf16>
}

// Packed codes are words of 32 bits.
// CHECK-LABEL: func.func @weight_codes(
func.func @weight_codes() -> tensor<64x16xi32> {
  // CHECK: lm.weight "drafter", "layers.0.mlp.up_proj.weight_packed" : tensor<64x16xi32>
  %w = lm.weight "drafter", "layers.0.mlp.up_proj.weight_packed" : tensor<64x16xi32>
  return %w : tensor<64x16xi32>
}

// Weights have any rank.
// CHECK-LABEL: func.func @weight_taps(
func.func @weight_taps() -> tensor<1024x1x4xf16> {
  // CHECK: lm.weight "target", "conv1d.weight" : tensor<1024x1x4xf16>
  %w = lm.weight "target", "conv1d.weight" : tensor<1024x1x4xf16>
  return %w : tensor<1024x1x4xf16>
}

// CHECK-LABEL: func.func @dequant(
// CHECK-SAME: %[[CODES:[a-z0-9]+]]: tensor<64x16xi32>,
// CHECK-SAME: %[[SCALES:[a-z0-9]+]]: tensor<64x4xbf16>)
func.func @dequant(%codes: tensor<64x16xi32>, %scales: tensor<64x4xbf16>) -> tensor<64x128xf32> {
  // CHECK: lm.dequant %[[CODES]], %[[SCALES]] grouped<bits = 4, group = 32>
  // CHECK-SAME: : tensor<64x16xi32>, tensor<64x4xbf16> -> tensor<64x128xf32>
  %w = lm.dequant %codes, %scales grouped<bits = 4, group = 32>
      : tensor<64x16xi32>, tensor<64x4xbf16> -> tensor<64x128xf32>
  return %w : tensor<64x128xf32>
}

// Eight bits, and a row that ends inside a word.
// CHECK-LABEL: func.func @dequant_part_of_a_word(
// CHECK-SAME: %[[CODES:[a-z0-9]+]]: tensor<64x5xi32>,
// CHECK-SAME: %[[SCALES:[a-z0-9]+]]: tensor<64x3xf16>)
func.func @dequant_part_of_a_word(%codes: tensor<64x5xi32>, %scales: tensor<64x3xf16>) -> tensor<64x18xbf16> {
  // CHECK: lm.dequant %[[CODES]], %[[SCALES]] grouped<bits = 8, group = 6>
  %w = lm.dequant %codes, %scales grouped<bits = 8, group = 6>
      : tensor<64x5xi32>, tensor<64x3xf16> -> tensor<64x18xbf16>
  return %w : tensor<64x18xbf16>
}

// A zero point stands behind every scale.
// CHECK-LABEL: func.func @dequant_zero_points(
func.func @dequant_zero_points(%codes: tensor<64x16xi32>, %scales: tensor<64x8xf16>) -> tensor<64x128xf32> {
  // CHECK: grouped<bits = 4, group = 32, zero_points = true>
  %w = lm.dequant %codes, %scales grouped<bits = 4, group = 32, zero_points = true>
      : tensor<64x16xi32>, tensor<64x8xf16> -> tensor<64x128xf32>
  return %w : tensor<64x128xf32>
}

// CHECK-LABEL: func.func @dequant_floats(
func.func @dequant_floats(%codes: tensor<64x32xi32>, %scales: tensor<64x1xf32>) -> tensor<64x128xf32> {
  // CHECK: grouped<bits = 8, group = 128, float_codes = true>
  %w = lm.dequant %codes, %scales grouped<bits = 8, group = 128, float_codes = true>
      : tensor<64x32xi32>, tensor<64x1xf32> -> tensor<64x128xf32>
  return %w : tensor<64x128xf32>
}

// CHECK-LABEL: func.func @repack(
// CHECK-SAME: %[[CODES:[a-z0-9]+]]: tensor<16x64xi32>,
// CHECK-SAME: %[[SCALES:[a-z0-9]+]]: tensor<4x64xf16>,
// CHECK-SAME: %[[ZEROS:[a-z0-9]+]]: tensor<4x8xi32>)
func.func @repack(%qweight: tensor<16x64xi32>, %scales: tensor<4x64xf16>, %qzeros: tensor<4x8xi32>)
    -> (tensor<64x16xi32>, tensor<64x8xf16>) {
  // CHECK: lm.repack %[[CODES]], %[[SCALES]] zeros %[[ZEROS]] as <order = by_column, bits = 4, columns = 128, group = 32, zero_points = true, zero_offset = 1>
  %c, %s = lm.repack %qweight, %scales zeros %qzeros
      as <order = by_column, bits = 4, columns = 128, group = 32,
          zero_points = true, zero_offset = 1>
      : (tensor<16x64xi32>, tensor<4x64xf16>, tensor<4x8xi32>)
      -> (tensor<64x16xi32>, tensor<64x8xf16>)
  return %c, %s : tensor<64x16xi32>, tensor<64x8xf16>
}

// Blocks of 128 x 128 that do not fill the last column of them.
// CHECK-LABEL: func.func @repack_floats(
func.func @repack_floats(%w: tensor<130x192xf8E4M3FN>, %s: tensor<2x2xf32>) -> (tensor<130x48xi32>, tensor<130x3xf32>) {
  // CHECK: as <order = by_row, bits = 8, columns = 192, group = 128, block_rows = 128>
  %c, %t = lm.repack %w, %s as <order = by_row, bits = 8, columns = 192, group = 128, block_rows = 128>
      : (tensor<130x192xf8E4M3FN>, tensor<2x2xf32>) -> (tensor<130x48xi32>, tensor<130x3xf32>)
  return %c, %t : tensor<130x48xi32>, tensor<130x3xf32>
}

// One scale in all may be a vector.
// CHECK-LABEL: func.func @repack_one_scale(
func.func @repack_one_scale(%w: tensor<8x2xi32>, %s: tensor<1xbf16>) -> (tensor<8x2xi32>, tensor<8x1xbf16>) {
  // CHECK: lm.repack
  %c, %t = lm.repack %w, %s as <order = by_row, bits = 4, columns = 16, group = 16, block_rows = 8>
      : (tensor<8x2xi32>, tensor<1xbf16>) -> (tensor<8x2xi32>, tensor<8x1xbf16>)
  return %c, %t : tensor<8x2xi32>, tensor<8x1xbf16>
}

//===----------------------------------------------------------------------===//
// Linear layers
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @embed(
// CHECK-SAME: %[[TOKENS:[a-z0-9]+]]: tensor<16xi32>,
// CHECK-SAME: %[[TABLE:[a-z0-9]+]]: tensor<6144x384xbf16>)
func.func @embed(%tokens: tensor<16xi32>, %table: tensor<6144x384xbf16>) -> tensor<16x384xf32> {
  // CHECK: lm.embed %[[TOKENS]], %[[TABLE]] : tensor<16xi32>, tensor<6144x384xbf16> -> tensor<16x384xf32>
  %h = lm.embed %tokens, %table
      : tensor<16xi32>, tensor<6144x384xbf16> -> tensor<16x384xf32>
  return %h : tensor<16x384xf32>
}

// CHECK-LABEL: func.func @embed_scale(
// CHECK-SAME: %[[TOKENS:[a-z0-9]+]]: tensor<16xi32>,
// CHECK-SAME: %[[TABLE:[a-z0-9]+]]: tensor<6144x384xbf16>)
func.func @embed_scale(%tokens: tensor<16xi32>, %table: tensor<6144x384xbf16>) -> tensor<16x384xbf16> {
  // CHECK: lm.embed %[[TOKENS]], %[[TABLE]] {scale = 2.000000e+00 : f32}
  %h = lm.embed %tokens, %table {scale = 2.0 : f32}
      : tensor<16xi32>, tensor<6144x384xbf16> -> tensor<16x384xbf16>
  return %h : tensor<16x384xbf16>
}

// CHECK-LABEL: func.func @linear(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<16x384xf32>,
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8x384xbf16>)
func.func @linear(%x: tensor<16x384xf32>, %w: tensor<8x384xbf16>) -> tensor<16x8xf32> {
  // CHECK: lm.linear %[[X]], %[[W]] : tensor<16x384xf32>, tensor<8x384xbf16> -> tensor<16x8xf32>
  %y = lm.linear %x, %w
      : tensor<16x384xf32>, tensor<8x384xbf16> -> tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}

// CHECK-LABEL: func.func @quant_linear(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<16x128xf32>,
// CHECK-SAME: %[[CODES:[a-z0-9]+]]: tensor<64x16xi32>,
// CHECK-SAME: %[[SCALES:[a-z0-9]+]]: tensor<64x4xbf16>)
func.func @quant_linear(
    %x: tensor<16x128xf32>,
    %codes: tensor<64x16xi32>,
    %scales: tensor<64x4xbf16>)
    -> tensor<16x64xf32> {
  // CHECK: lm.quant_linear %[[X]], %[[CODES]], %[[SCALES]] grouped<bits = 4, group = 32>
  // CHECK-SAME: : tensor<16x128xf32>, tensor<64x16xi32>, tensor<64x4xbf16> -> tensor<16x64xf32>
  %y = lm.quant_linear %x, %codes, %scales grouped<bits = 4, group = 32>
      : tensor<16x128xf32>, tensor<64x16xi32>, tensor<64x4xbf16>
      -> tensor<16x64xf32>
  return %y : tensor<16x64xf32>
}

//===----------------------------------------------------------------------===//
// Norms and elementwise ops
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @rms_norm(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<16x384xf32>,
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<384xbf16>)
func.func @rms_norm(%x: tensor<16x384xf32>, %w: tensor<384xbf16>) -> tensor<16x384xf32> {
  // CHECK: lm.rms_norm %[[X]], %[[W]] {eps = {{.*}} : f32, offset = 1.000000e+00 : f32}
  // CHECK-SAME: : tensor<16x384xf32>, tensor<384xbf16>
  %y = lm.rms_norm %x, %w {eps = 1.0e-6 : f32, offset = 1.0 : f32}
      : tensor<16x384xf32>, tensor<384xbf16>
  return %y : tensor<16x384xf32>
}

// No offset, and a vector per head.
// CHECK-LABEL: func.func @rms_norm_per_head(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<16x384xbf16>,
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<64xf32>)
func.func @rms_norm_per_head(%x: tensor<16x384xbf16>, %w: tensor<64xf32>) -> tensor<16x384xbf16> {
  // CHECK: lm.rms_norm %[[X]], %[[W]] {eps = 0.000000e+00 : f32} : tensor<16x384xbf16>, tensor<64xf32>
  %y = lm.rms_norm %x, %w {eps = 0.0 : f32} : tensor<16x384xbf16>, tensor<64xf32>
  return %y : tensor<16x384xbf16>
}

// CHECK-LABEL: func.func @gated_rms_norm(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<16x512xf32>,
// CHECK-SAME: %[[Z:[a-z0-9]+]]: tensor<16x512xf32>,
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<64xbf16>)
func.func @gated_rms_norm(%x: tensor<16x512xf32>, %z: tensor<16x512xf32>, %w: tensor<64xbf16>) -> tensor<16x512xf32> {
  // CHECK: lm.gated_rms_norm %[[X]], %[[Z]], %[[W]] {eps = {{.*}} : f32} : tensor<16x512xf32>, tensor<64xbf16>
  %y = lm.gated_rms_norm %x, %z, %w {eps = 1.0e-6 : f32}
      : tensor<16x512xf32>, tensor<64xbf16>
  return %y : tensor<16x512xf32>
}

// CHECK-LABEL: func.func @l2_norm(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<16x256xf32>)
func.func @l2_norm(%x: tensor<16x256xf32>) -> tensor<16x256xf32> {
  // CHECK: lm.l2_norm %[[X]] {dim = 64 : i64, eps = {{.*}} : f32} : tensor<16x256xf32>
  %y = lm.l2_norm %x {dim = 64 : i64, eps = 1.0e-6 : f32} : tensor<16x256xf32>
  return %y : tensor<16x256xf32>
}

// CHECK-LABEL: func.func @silu(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<16x1024xf32>)
func.func @silu(%x: tensor<16x1024xf32>) -> tensor<16x1024xf32> {
  // CHECK: lm.silu %[[X]] : tensor<16x1024xf32>
  %y = lm.silu %x : tensor<16x1024xf32>
  return %y : tensor<16x1024xf32>
}

// CHECK-LABEL: func.func @sigmoid(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<16x8xf32>)
func.func @sigmoid(%x: tensor<16x8xf32>) -> tensor<16x8xf32> {
  // CHECK: lm.sigmoid %[[X]] : tensor<16x8xf32>
  %y = lm.sigmoid %x : tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}

// CHECK-LABEL: func.func @add(
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<16x384xf32>,
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<16x384xf32>)
func.func @add(%a: tensor<16x384xf32>, %b: tensor<16x384xf32>) -> tensor<16x384xf32> {
  // CHECK: lm.add %[[A]], %[[B]] : tensor<16x384xf32>
  %y = lm.add %a, %b : tensor<16x384xf32>
  return %y : tensor<16x384xf32>
}

// CHECK-LABEL: func.func @mul(
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<16x1024xf32>,
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<16x1024xf32>)
func.func @mul(%a: tensor<16x1024xf32>, %b: tensor<16x1024xf32>) -> tensor<16x1024xf32> {
  // CHECK: lm.mul %[[A]], %[[B]] : tensor<16x1024xf32>
  %y = lm.mul %a, %b : tensor<16x1024xf32>
  return %y : tensor<16x1024xf32>
}

//===----------------------------------------------------------------------===//
// Rows and columns
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @live_rows(
// CHECK-SAME: %[[TOKENS:[a-z0-9]+]]: tensor<64xi32>,
// CHECK-SAME: %[[COUNT:[a-z0-9]+]]: tensor<1xi32>)
func.func @live_rows(%tokens: tensor<64xi32>, %count: tensor<1xi32>) -> tensor<64xi32> {
  // CHECK: lm.live_rows %[[TOKENS]], %[[COUNT]] : tensor<64xi32>
  %t = lm.live_rows %tokens, %count : tensor<64xi32>
  return %t : tensor<64xi32>
}

// CHECK-LABEL: func.func @live_rows_of_activations(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<64x384xf32>,
// CHECK-SAME: %[[COUNT:[a-z0-9]+]]: tensor<1xi32>)
func.func @live_rows_of_activations(%x: tensor<64x384xf32>, %count: tensor<1xi32>) -> tensor<64x384xf32> {
  // CHECK: lm.live_rows %[[X]], %[[COUNT]] : tensor<64x384xf32>
  %y = lm.live_rows %x, %count : tensor<64x384xf32>
  return %y : tensor<64x384xf32>
}

// CHECK-LABEL: func.func @last_row(
// CHECK-SAME: %[[H:[a-z0-9]+]]: tensor<64x384xf32>,
// CHECK-SAME: %[[COUNT:[a-z0-9]+]]: tensor<1xi32>)
func.func @last_row(%h: tensor<64x384xf32>, %count: tensor<1xi32>) -> tensor<1x384xf32> {
  // CHECK: lm.last_row %[[H]], %[[COUNT]] : tensor<64x384xf32> -> tensor<1x384xf32>
  %last = lm.last_row %h, %count : tensor<64x384xf32> -> tensor<1x384xf32>
  return %last : tensor<1x384xf32>
}

// CHECK-LABEL: func.func @drop_rows(
// CHECK-SAME: %[[H:[a-z0-9]+]]: tensor<16x384xf32>)
func.func @drop_rows(%h: tensor<16x384xf32>) -> tensor<15x384xf32> {
  // CHECK: lm.drop_rows %[[H]] {first = 1 : i64} : tensor<16x384xf32> -> tensor<15x384xf32>
  %tail = lm.drop_rows %h {first = 1 : i64}
      : tensor<16x384xf32> -> tensor<15x384xf32>
  return %tail : tensor<15x384xf32>
}

// CHECK-LABEL: func.func @split(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<16x768xf32>)
func.func @split(%x: tensor<16x768xf32>) -> (tensor<16x384xf32>, tensor<16x384xf32>) {
  // CHECK: lm.split %[[X]] {groups = 6 : i64} : tensor<16x768xf32> -> tensor<16x384xf32>, tensor<16x384xf32>
  %q, %gate = lm.split %x {groups = 6 : i64}
      : tensor<16x768xf32> -> tensor<16x384xf32>, tensor<16x384xf32>
  return %q, %gate : tensor<16x384xf32>, tensor<16x384xf32>
}

// CHECK-LABEL: func.func @split_one_group(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<16x6xf32>)
func.func @split_one_group(%x: tensor<16x6xf32>) -> (tensor<16x1xf32>, tensor<16x2xf32>, tensor<16x3xf32>) {
  // CHECK: lm.split %[[X]] : tensor<16x6xf32> -> tensor<16x1xf32>, tensor<16x2xf32>, tensor<16x3xf32>
  %a, %b, %c = lm.split %x : tensor<16x6xf32> -> tensor<16x1xf32>, tensor<16x2xf32>, tensor<16x3xf32>
  return %a, %b, %c : tensor<16x1xf32>, tensor<16x2xf32>, tensor<16x3xf32>
}

// CHECK-LABEL: func.func @concat_features(
// CHECK-SAME: %[[H1:[a-z0-9]+]]: tensor<16x384xf32>,
// CHECK-SAME: %[[H2:[a-z0-9]+]]: tensor<16x384xf32>)
func.func @concat_features(%h1: tensor<16x384xf32>, %h2: tensor<16x384xf32>) -> tensor<16x768xf32> {
  // CHECK: lm.concat_features %[[H1]], %[[H2]] : (tensor<16x384xf32>, tensor<16x384xf32>) -> tensor<16x768xf32>
  %f = lm.concat_features %h1, %h2
      : (tensor<16x384xf32>, tensor<16x384xf32>) -> tensor<16x768xf32>
  return %f : tensor<16x768xf32>
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @rope(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<16x384xf32>,
// CHECK-SAME: %[[START:[a-z0-9]+]]: tensor<1xi32>)
func.func @rope(%x: tensor<16x384xf32>, %start: tensor<1xi32>) -> tensor<16x384xf32> {
  // CHECK: lm.rope %[[X]] at %[[START]] {dims = 16 : i64, head_dim = 64 : i64, theta = 1.000000e+05 : f64}
  // CHECK-SAME: : tensor<16x384xf32>
  %y = lm.rope %x at %start
      {head_dim = 64 : i64, dims = 16 : i64, theta = 1.0e5 : f64}
      : tensor<16x384xf32>
  return %y : tensor<16x384xf32>
}

// CHECK-LABEL: func.func @cache_append(
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: !lm.kv_cache<4112x2x64xf32>,
// CHECK-SAME: %[[K:[a-z0-9]+]]: tensor<16x128xf32>,
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<16x128xf32>,
// CHECK-SAME: %[[START:[a-z0-9]+]]: tensor<1xi32>,
// CHECK-SAME: %[[COUNT:[a-z0-9]+]]: tensor<1xi32>)
func.func @cache_append(
    %cache: !lm.kv_cache<4112x2x64xf32>,
    %k: tensor<16x128xf32>,
    %v: tensor<16x128xf32>,
    %start: tensor<1xi32>,
    %count: tensor<1xi32>)
    -> !lm.kv_cache<4112x2x64xf32> {
  // CHECK: lm.cache_append %[[CACHE]], %[[K]], %[[V]] at %[[START]] rows %[[COUNT]]
  // CHECK-SAME: : !lm.kv_cache<4112x2x64xf32>, tensor<16x128xf32>
  %new = lm.cache_append %cache, %k, %v at %start rows %count
      : !lm.kv_cache<4112x2x64xf32>, tensor<16x128xf32>
  return %new : !lm.kv_cache<4112x2x64xf32>
}

// A ring.
// CHECK-LABEL: func.func @cache_append_all_rows(
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: !lm.kv_cache<ring 272x2x64xf32>,
// CHECK-SAME: %[[K:[a-z0-9]+]]: tensor<16x128xf32>,
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<16x128xf32>,
// CHECK-SAME: %[[START:[a-z0-9]+]]: tensor<1xi32>)
func.func @cache_append_all_rows(
    %cache: !lm.kv_cache<ring 272x2x64xf32>,
    %k: tensor<16x128xf32>,
    %v: tensor<16x128xf32>,
    %start: tensor<1xi32>)
    -> !lm.kv_cache<ring 272x2x64xf32> {
  // CHECK: lm.cache_append %[[CACHE]], %[[K]], %[[V]] at %[[START]]
  // CHECK-SAME: : !lm.kv_cache<ring 272x2x64xf32>, tensor<16x128xf32>
  %new = lm.cache_append %cache, %k, %v at %start : !lm.kv_cache<ring 272x2x64xf32>, tensor<16x128xf32>
  return %new : !lm.kv_cache<ring 272x2x64xf32>
}

// CHECK-LABEL: func.func @attention(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<16x256xf32>,
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: !lm.kv_cache<4112x2x64xf32>,
// CHECK-SAME: %[[START:[a-z0-9]+]]: tensor<1xi32>,
// CHECK-SAME: %[[COUNT:[a-z0-9]+]]: tensor<1xi32>)
func.func @attention(
    %q: tensor<16x256xf32>,
    %cache: !lm.kv_cache<4112x2x64xf32>,
    %start: tensor<1xi32>,
    %count: tensor<1xi32>)
    -> tensor<16x256xf32> {
  // CHECK: lm.attention %[[Q]], %[[CACHE]] at %[[START]] rows %[[COUNT]] {causal, scale = 1.250000e-01 : f32, window = 64 : i64}
  // CHECK-SAME: : tensor<16x256xf32>, !lm.kv_cache<4112x2x64xf32>
  %o = lm.attention %q, %cache at %start rows %count
      {causal, scale = 0.125 : f32, window = 64 : i64}
      : tensor<16x256xf32>, !lm.kv_cache<4112x2x64xf32>
  return %o : tensor<16x256xf32>
}

// All rows, no window, not causal.
// CHECK-LABEL: func.func @attention_sees_everything(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<16x256xbf16>,
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: !lm.kv_cache<4112x2x64xbf16>,
// CHECK-SAME: %[[START:[a-z0-9]+]]: tensor<1xi32>)
func.func @attention_sees_everything(
    %q: tensor<16x256xbf16>,
    %cache: !lm.kv_cache<4112x2x64xbf16>,
    %start: tensor<1xi32>)
    -> tensor<16x256xbf16> {
  // CHECK: lm.attention %[[Q]], %[[CACHE]] at %[[START]] {scale = 1.250000e-01 : f32}
  // CHECK-SAME: : tensor<16x256xbf16>, !lm.kv_cache<4112x2x64xbf16>
  %o = lm.attention %q, %cache at %start {scale = 0.125 : f32} : tensor<16x256xbf16>, !lm.kv_cache<4112x2x64xbf16>
  return %o : tensor<16x256xbf16>
}

// The longest window that 272 slots serve for 16 rows.
// CHECK-LABEL: func.func @attention_ring(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<16x256xf32>,
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: !lm.kv_cache<ring 272x2x64xf32>,
// CHECK-SAME: %[[START:[a-z0-9]+]]: tensor<1xi32>)
func.func @attention_ring(
    %q: tensor<16x256xf32>,
    %cache: !lm.kv_cache<ring 272x2x64xf32>,
    %start: tensor<1xi32>)
    -> tensor<16x256xf32> {
  // CHECK: lm.attention %[[Q]], %[[CACHE]] at %[[START]] {scale = 1.250000e-01 : f32, window = 257 : i64}
  %o = lm.attention %q, %cache at %start {scale = 0.125 : f32, window = 257 : i64}
      : tensor<16x256xf32>, !lm.kv_cache<ring 272x2x64xf32>
  return %o : tensor<16x256xf32>
}

//===----------------------------------------------------------------------===//
// The gated delta net
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @short_conv(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<16x1024xf32>,
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<1024x1x4xbf16>,
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: !lm.conv_cache<taps = 4, channels = 1024, pending = 16>,
// CHECK-SAME: %[[ACCEPTED:[a-z0-9]+]]: tensor<1xi32>,
// CHECK-SAME: %[[COUNT:[a-z0-9]+]]: tensor<1xi32>)
func.func @short_conv(
    %x: tensor<16x1024xf32>,
    %w: tensor<1024x1x4xbf16>,
    %cache: !lm.conv_cache<taps = 4, channels = 1024, pending = 16>,
    %accepted: tensor<1xi32>,
    %count: tensor<1xi32>)
    -> (tensor<16x1024xf32>, !lm.conv_cache<taps = 4, channels = 1024, pending = 16>) {
  // CHECK: lm.short_conv %[[X]], %[[W]], %[[CACHE]] keep %[[ACCEPTED]] rows %[[COUNT]] {commit}
  // CHECK-SAME: : tensor<16x1024xf32>, tensor<1024x1x4xbf16>, !lm.conv_cache<taps = 4, channels = 1024, pending = 16>
  %y, %new = lm.short_conv %x, %w, %cache keep %accepted rows %count {commit}
      : tensor<16x1024xf32>, tensor<1024x1x4xbf16>,
        !lm.conv_cache<taps = 4, channels = 1024, pending = 16>
  return %y, %new : tensor<16x1024xf32>, !lm.conv_cache<taps = 4, channels = 1024, pending = 16>
}

// CHECK-LABEL: func.func @short_conv_pending(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<16x1024xf32>,
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<1024x1x4xbf16>,
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: !lm.conv_cache<taps = 4, channels = 1024, pending = 16>,
// CHECK-SAME: %[[ACCEPTED:[a-z0-9]+]]: tensor<1xi32>)
func.func @short_conv_pending(
    %x: tensor<16x1024xf32>,
    %w: tensor<1024x1x4xbf16>,
    %cache: !lm.conv_cache<taps = 4, channels = 1024, pending = 16>,
    %accepted: tensor<1xi32>)
    -> (tensor<16x1024xf32>, !lm.conv_cache<taps = 4, channels = 1024, pending = 16>) {
  // CHECK: lm.short_conv %[[X]], %[[W]], %[[CACHE]] keep %[[ACCEPTED]] :
  %y, %new = lm.short_conv %x, %w, %cache keep %accepted
      : tensor<16x1024xf32>, tensor<1024x1x4xbf16>, !lm.conv_cache<taps = 4, channels = 1024, pending = 16>
  return %y, %new : tensor<16x1024xf32>, !lm.conv_cache<taps = 4, channels = 1024, pending = 16>
}

// CHECK-LABEL: func.func @delta_gate(
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<16x8xf32>,
// CHECK-SAME: %[[A_LOG:[a-z0-9]+]]: tensor<8xf32>,
// CHECK-SAME: %[[DT_BIAS:[a-z0-9]+]]: tensor<8xbf16>)
func.func @delta_gate(%a: tensor<16x8xf32>, %a_log: tensor<8xf32>, %dt_bias: tensor<8xbf16>) -> tensor<16x8xf32> {
  // CHECK: lm.delta_gate %[[A]], %[[A_LOG]], %[[DT_BIAS]] : tensor<16x8xf32>, tensor<8xf32>, tensor<8xbf16>
  %g = lm.delta_gate %a, %a_log, %dt_bias
      : tensor<16x8xf32>, tensor<8xf32>, tensor<8xbf16>
  return %g : tensor<16x8xf32>
}

// CHECK-LABEL: func.func @gated_delta(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<16x256xf32>,
// CHECK-SAME: %[[K:[a-z0-9]+]]: tensor<16x256xf32>,
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<16x512xf32>,
// CHECK-SAME: %[[G:[a-z0-9]+]]: tensor<16x8xf32>,
// CHECK-SAME: %[[BETA:[a-z0-9]+]]: tensor<16x8xf32>,
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: !lm.delta_cache<heads = 8, key_heads = 4, key_dim = 64, value_dim = 64, pending = 16>,
// CHECK-SAME: %[[ACCEPTED:[a-z0-9]+]]: tensor<1xi32>,
// CHECK-SAME: %[[COUNT:[a-z0-9]+]]: tensor<1xi32>)
func.func @gated_delta(
    %q: tensor<16x256xf32>,
    %k: tensor<16x256xf32>,
    %v: tensor<16x512xf32>,
    %g: tensor<16x8xf32>,
    %beta: tensor<16x8xf32>,
    %cache: !lm.delta_cache<heads = 8, key_heads = 4, key_dim = 64, value_dim = 64, pending = 16>,
    %accepted: tensor<1xi32>,
    %count: tensor<1xi32>)
    -> (tensor<16x512xf32>, !lm.delta_cache<heads = 8, key_heads = 4, key_dim = 64, value_dim = 64, pending = 16>) {
  // CHECK: lm.gated_delta %[[Q]], %[[K]], %[[V]], %[[G]], %[[BETA]], %[[CACHE]]
  // CHECK-SAME: keep %[[ACCEPTED]] rows %[[COUNT]] {scale = 1.250000e-01 : f32}
  // CHECK-SAME: : tensor<16x256xf32>, tensor<16x512xf32>, tensor<16x8xf32>,
  // CHECK-SAME: !lm.delta_cache<heads = 8, key_heads = 4, key_dim = 64, value_dim = 64, pending = 16>
  %o, %new = lm.gated_delta %q, %k, %v, %g, %beta, %cache keep %accepted
      rows %count {scale = 0.125 : f32}
      : tensor<16x256xf32>, tensor<16x512xf32>, tensor<16x8xf32>,
        !lm.delta_cache<heads = 8, key_heads = 4, key_dim = 64,
                        value_dim = 64, pending = 16>
  return %o, %new : tensor<16x512xf32>,
      !lm.delta_cache<heads = 8, key_heads = 4, key_dim = 64, value_dim = 64, pending = 16>
}

// CHECK-LABEL: func.func @gated_delta_commit(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<16x256xf32>,
// CHECK-SAME: %[[K:[a-z0-9]+]]: tensor<16x256xf32>,
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<16x512xf32>,
// CHECK-SAME: %[[G:[a-z0-9]+]]: tensor<16x8xf32>,
// CHECK-SAME: %[[BETA:[a-z0-9]+]]: tensor<16x8xf32>,
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: !lm.delta_cache<heads = 8, key_heads = 4, key_dim = 64, value_dim = 64, pending = 16>,
// CHECK-SAME: %[[ACCEPTED:[a-z0-9]+]]: tensor<1xi32>)
func.func @gated_delta_commit(
    %q: tensor<16x256xf32>,
    %k: tensor<16x256xf32>,
    %v: tensor<16x512xf32>,
    %g: tensor<16x8xf32>,
    %beta: tensor<16x8xf32>,
    %cache: !lm.delta_cache<heads = 8, key_heads = 4, key_dim = 64, value_dim = 64, pending = 16>,
    %accepted: tensor<1xi32>)
    -> (tensor<16x512xf32>, !lm.delta_cache<heads = 8, key_heads = 4, key_dim = 64, value_dim = 64, pending = 16>) {
  // CHECK: lm.gated_delta %[[Q]], %[[K]], %[[V]], %[[G]], %[[BETA]], %[[CACHE]]
  // CHECK-SAME: keep %[[ACCEPTED]] {commit, scale = 1.250000e-01 : f32}
  %o, %new = lm.gated_delta %q, %k, %v, %g, %beta, %cache keep %accepted {commit, scale = 0.125 : f32}
      : tensor<16x256xf32>, tensor<16x512xf32>, tensor<16x8xf32>,
        !lm.delta_cache<heads = 8, key_heads = 4, key_dim = 64, value_dim = 64, pending = 16>
  return %o, %new : tensor<16x512xf32>,
      !lm.delta_cache<heads = 8, key_heads = 4, key_dim = 64, value_dim = 64, pending = 16>
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @argmax(
// CHECK-SAME: %[[LOGITS:[a-z0-9]+]]: tensor<16x6144xf32>)
func.func @argmax(%logits: tensor<16x6144xf32>) -> tensor<16xi32> {
  // CHECK: lm.argmax %[[LOGITS]] : tensor<16x6144xf32> -> tensor<16xi32>
  %t = lm.argmax %logits : tensor<16x6144xf32> -> tensor<16xi32>
  return %t : tensor<16xi32>
}

// CHECK-LABEL: func.func @denoise(
// CHECK-SAME: %[[ANCHOR:[a-z0-9]+]]: tensor<1xi32>,
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: !lm.kv_cache<80x2x32xf32>)
func.func @denoise(
    %anchor: tensor<1xi32>,
    %cache: !lm.kv_cache<80x2x32xf32>)
    -> (tensor<16xi32>, tensor<15x1024xf32>, !lm.kv_cache<80x2x32xf32>) {
  // CHECK: lm.denoise %[[ANCHOR]] caches(%[[CACHE]]) {mask_token = 999 : i32, size = 16 : i64, steps = 1 : i64}
  // CHECK-SAME: : (!lm.kv_cache<80x2x32xf32>) -> (tensor<16xi32>, tensor<15x1024xf32>, !lm.kv_cache<80x2x32xf32>) {
  // CHECK-NEXT: ^bb0(%[[TOKENS:.*]]: tensor<16xi32>, %[[C:.*]]: !lm.kv_cache<80x2x32xf32>):
  // CHECK: %[[D:.*]] = lm.cache_append %[[C]],
  // CHECK: lm.yield %{{.*}}, %[[D]] : tensor<15x1024xf32>, !lm.kv_cache<80x2x32xf32>
  %block, %logits, %new = lm.denoise %anchor caches(%cache)
      {mask_token = 999 : i32, size = 16 : i64, steps = 1 : i64}
      : (!lm.kv_cache<80x2x32xf32>)
      -> (tensor<16xi32>, tensor<15x1024xf32>, !lm.kv_cache<80x2x32xf32>) {
  ^body(%tokens: tensor<16xi32>, %c: !lm.kv_cache<80x2x32xf32>):
    %table = lm.weight "target", "table" : tensor<1024x64xbf16>
    %h = lm.embed %tokens, %table : tensor<16xi32>, tensor<1024x64xbf16> -> tensor<16x64xf32>
    %d = lm.cache_append %c, %h, %h at %anchor : !lm.kv_cache<80x2x32xf32>, tensor<16x64xf32>
    %tail = lm.drop_rows %h {first = 1 : i64} : tensor<16x64xf32> -> tensor<15x64xf32>
    %slots = lm.linear %tail, %table : tensor<15x64xf32>, tensor<1024x64xbf16> -> tensor<15x1024xf32>
    lm.yield %slots, %d : tensor<15x1024xf32>, !lm.kv_cache<80x2x32xf32>
  }
  return %block, %logits, %new : tensor<16xi32>, tensor<15x1024xf32>, !lm.kv_cache<80x2x32xf32>
}

// CHECK-LABEL: func.func @denoise_no_caches(
// CHECK-SAME: %[[ANCHOR:[a-z0-9]+]]: tensor<1xi32>,
// CHECK-SAME: %[[TABLE:[a-z0-9]+]]: tensor<1024x64xbf16>)
func.func @denoise_no_caches(
    %anchor: tensor<1xi32>,
    %table: tensor<1024x64xbf16>)
    -> (tensor<2xi32>, tensor<1x1024xf32>) {
  // CHECK: lm.denoise %[[ANCHOR]] caches() {mask_token = 0 : i32, size = 2 : i64, steps = 1 : i64}
  // CHECK-SAME: : () -> (tensor<2xi32>, tensor<1x1024xf32>) {
  %block, %logits = lm.denoise %anchor caches() {mask_token = 0 : i32, size = 2 : i64, steps = 1 : i64}
      : () -> (tensor<2xi32>, tensor<1x1024xf32>) {
  ^body(%tokens: tensor<2xi32>):
    %h = lm.embed %tokens, %table : tensor<2xi32>, tensor<1024x64xbf16> -> tensor<2x64xf32>
    %tail = lm.drop_rows %h {first = 1 : i64} : tensor<2x64xf32> -> tensor<1x64xf32>
    %slots = lm.linear %tail, %table : tensor<1x64xf32>, tensor<1024x64xbf16> -> tensor<1x1024xf32>
    lm.yield %slots : tensor<1x1024xf32>
  }
  return %block, %logits : tensor<2xi32>, tensor<1x1024xf32>
}

// CHECK-LABEL: func.func @mask_block(
// CHECK-SAME: %[[ANCHOR:[a-z0-9]+]]: tensor<1xi32>)
func.func @mask_block(%anchor: tensor<1xi32>) -> tensor<16xi32> {
  // CHECK: lm.mask_block %[[ANCHOR]] {mask_token = 999 : i32} : tensor<16xi32>
  %block = lm.mask_block %anchor {mask_token = 999 : i32} : tensor<16xi32>
  return %block : tensor<16xi32>
}

// CHECK-LABEL: func.func @unmask(
// CHECK-SAME: %[[BLOCK:[a-z0-9]+]]: tensor<16xi32>,
// CHECK-SAME: %[[LOGITS:[a-z0-9]+]]: tensor<15x1024xf32>)
func.func @unmask(%block: tensor<16xi32>, %logits: tensor<15x1024xf32>) -> tensor<16xi32> {
  // CHECK: lm.unmask %[[BLOCK]], %[[LOGITS]] {fill = 8 : i64, mask_token = 999 : i32}
  // CHECK-SAME: : tensor<16xi32>, tensor<15x1024xf32>
  %next = lm.unmask %block, %logits {mask_token = 999 : i32, fill = 8 : i64}
      : tensor<16xi32>, tensor<15x1024xf32>
  return %next : tensor<16xi32>
}

// CHECK-LABEL: func.func @concat_tokens(
// CHECK-SAME: %[[ANCHOR:[a-z0-9]+]]: tensor<1xi32>,
// CHECK-SAME: %[[DRAFTS:[a-z0-9]+]]: tensor<15xi32>)
func.func @concat_tokens(%anchor: tensor<1xi32>, %drafts: tensor<15xi32>) -> tensor<16xi32> {
  // CHECK: lm.concat_tokens %[[ANCHOR]], %[[DRAFTS]] : tensor<1xi32>, tensor<15xi32> -> tensor<16xi32>
  %block = lm.concat_tokens %anchor, %drafts
      : tensor<1xi32>, tensor<15xi32> -> tensor<16xi32>
  return %block : tensor<16xi32>
}

// CHECK-LABEL: func.func @accept(
// CHECK-SAME: %[[BLOCK:[a-z0-9]+]]: tensor<16xi32>,
// CHECK-SAME: %[[DECIDED:[a-z0-9]+]]: tensor<16xi32>,
// CHECK-SAME: %[[START:[a-z0-9]+]]: tensor<1xi32>,
// CHECK-SAME: %[[COUNT:[a-z0-9]+]]: tensor<1xi32>)
func.func @accept(
    %block: tensor<16xi32>,
    %decided: tensor<16xi32>,
    %start: tensor<1xi32>,
    %count: tensor<1xi32>)
    -> (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) {
  // CHECK: lm.accept %[[BLOCK]], %[[DECIDED]] at %[[START]] rows %[[COUNT]] : tensor<16xi32>
  %accepted, %anchor, %next, %context = lm.accept %block, %decided at %start
      rows %count : tensor<16xi32>
  return %accepted, %anchor, %next, %context : tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>
}

// CHECK-LABEL: func.func @accept_all_rows(
// CHECK-SAME: %[[BLOCK:[a-z0-9]+]]: tensor<16xi32>,
// CHECK-SAME: %[[DECIDED:[a-z0-9]+]]: tensor<16xi32>,
// CHECK-SAME: %[[START:[a-z0-9]+]]: tensor<1xi32>)
func.func @accept_all_rows(
    %block: tensor<16xi32>,
    %decided: tensor<16xi32>,
    %start: tensor<1xi32>)
    -> (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) {
  // CHECK: lm.accept %[[BLOCK]], %[[DECIDED]] at %[[START]] : tensor<16xi32>
  %accepted, %anchor, %next, %context = lm.accept %block, %decided at %start : tensor<16xi32>
  return %accepted, %anchor, %next, %context : tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>
}

//===----------------------------------------------------------------------===//
// The loop
//===----------------------------------------------------------------------===//

func.func private @prefill()
func.func private @step()
func.func private @context()
func.func private @draft()
func.func private @verify()
func.func private @score()
func.func private @score_draft()

// CHECK: lm.speculate {accept = @accept, block = 16 : i64, chunk = 64 : i64, context = @context, draft = @draft,
// CHECK-SAME: max_context = 4096 : i64, prefill = @prefill, score_chunk = 16 : i64, step = @step,
// CHECK-SAME: stop_tokens = array<i32: 6115, 6113>, verify = @verify, vocabulary = 6144 : i64}
lm.speculate {prefill = @prefill, step = @step, context = @context,
              draft = @draft, verify = @verify, accept = @accept,
              block = 16 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 6144 : i64,
              stop_tokens = array<i32: 6115, 6113>}

// Without a drafter, and with the programs for checking.
// CHECK: lm.speculate {block = 1 : i64,
// CHECK-SAME: score = @score,
// CHECK-SAME: score_draft = @score_draft, step = @step, stop_tokens = array<i32>,
lm.speculate {prefill = @prefill, step = @step, score = @score, score_draft = @score_draft,
              block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 6144 : i64, stop_tokens = array<i32>}

// With the programs for the host to decide by.
// CHECK: lm.speculate {accept = @accept, {{.*}}prefill_logits = @prefill,
// CHECK-SAME: step_logits = @step, {{.*}}verify_logits = @verify,
lm.speculate {prefill = @prefill, step = @step, context = @context,
              draft = @draft, verify = @verify, accept = @accept,
              prefill_logits = @prefill, step_logits = @step, verify_logits = @verify,
              block = 16 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 6144 : i64, stop_tokens = array<i32>}

// With programs for short prompts.
// CHECK: lm.speculate {block = 1 : i64, {{.*}}short_chunk = 16 : i64, short_prefill = @score, step = @step,
lm.speculate {prefill = @prefill, step = @step, short_prefill = @score, short_chunk = 16 : i64,
              block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 6144 : i64, stop_tokens = array<i32>}

//===----------------------------------------------------------------------===//
// Ports and states
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @ports_and_states(
// CHECK-SAME: %{{.*}}: tensor<1xi32> {lm.port = "anchor"}, %{{.*}}: !lm.kv_cache<4112x2x64xf32> {lm.state = "layers.3"})
// CHECK-SAME: -> (tensor<1xi32> {lm.port = "anchor"}, !lm.kv_cache<4112x2x64xf32> {lm.state = "layers.3"})
func.func @ports_and_states(%anchor: tensor<1xi32> {lm.port = "anchor"},
                            %layer3: !lm.kv_cache<4112x2x64xf32> {lm.state = "layers.3"})
    -> (tensor<1xi32> {lm.port = "anchor"},
        !lm.kv_cache<4112x2x64xf32> {lm.state = "layers.3"}) {
  return %anchor, %layer3 : tensor<1xi32>, !lm.kv_cache<4112x2x64xf32>
}

}

// CHECK-LABEL: func.func @select(
func.func @select(%head: tensor<6144x384xbf16>, %places: tensor<15xi32>)
    -> (tensor<3x384xbf16>, tensor<15xi32>) {
  // CHECK: lm.select_rows %{{.*}}[#{{.*}}] : tensor<6144x384xbf16> -> tensor<3x384xbf16>
  %w = lm.select_rows %head[#lm.token_set<0, 3, 17>]
      : tensor<6144x384xbf16> -> tensor<3x384xbf16>
  // CHECK: lm.select_tokens %{{.*}}[#{{.*}}] : tensor<15xi32>
  %t = lm.select_tokens %places[#lm.token_set<0, 3, 17>] : tensor<15xi32>
  return %w, %t : tensor<3x384xbf16>, tensor<15xi32>
}
