// RUN: qopt %s --verify-roundtrip | FileCheck %s
// RUN: qopt %s --mlir-print-op-generic | qopt | FileCheck %s

// One op or optional clause at a time. The examples in the descriptions of the ops are lines of this file.

// CHECK: module attributes {plan.arch = "x86-64-v3", plan.arena_size = 4096 : i64, plan.port_size = 128 : i64,
// CHECK-SAME: plan.state_size = 64 : i64}
module attributes {plan.arch = "x86-64-v3", plan.arena_size = 4096 : i64, plan.state_size = 64 : i64,
                   plan.port_size = 128 : i64} {

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

// CHECK: %[[START:.*]] = plan.port "start" at 64 : memref<1xi32>
%start = plan.port "start" at 64 : memref<1xi32>
// Before plan-assign-buffers there is no offset.
// CHECK: %[[ANCHOR:.*]] = plan.port "anchor" : memref<1xi32>
%anchor = plan.port "anchor" : memref<1xi32>
// CHECK: %[[COUNT:.*]] = plan.port "count" : memref<1xi32>
%count = plan.port "count" : memref<1xi32>
// CHECK: %[[X:.*]] = plan.port "x" : memref<64x1024xf32>
%x = plan.port "x" : memref<64x1024xf32>

// CHECK: plan.state "layers.3.kv" kind "key_value" at 0 : memref<2x2x4112x64xf32>
%kv = plan.state "layers.3.kv" kind "key_value" at 0
    : memref<2x2x4112x64xf32>
// CHECK: plan.state "layers.0.conv" kind "conv" : memref<19x1024xf32>
%conv = plan.state "layers.0.conv" kind "conv" : memref<19x1024xf32>
// CHECK: plan.state "layers.0.delta" kind "delta" : memref<45184xf32>
%delta = plan.state "layers.0.delta" kind "delta" : memref<45184xf32>

//===----------------------------------------------------------------------===//
// Weights, one for every packing
//===----------------------------------------------------------------------===//

// CHECK: plan.weight "layers.0.mlp.down_proj" from "target"
// CHECK-SAME: ["layers.0.mlp.down_proj.weight_packed", "layers.0.mlp.down_proj.weight_scale"]
// CHECK-SAME: packing(#plan.interleaved_codes<outputs = 384, columns = 1024, bits = 4, group = 32, scale = bf16>)
// CHECK-SAME: : memref<221184xi8>
%w = plan.weight "layers.0.mlp.down_proj" from "target"
    ["layers.0.mlp.down_proj.weight_packed",
     "layers.0.mlp.down_proj.weight_scale"]
    packing(#plan.interleaved_codes<outputs = 384, columns = 1024,
                                    bits = 4, group = 32, scale = bf16>)
    : memref<221184xi8>
// CHECK: plan.weight "up_proj" from "target" ["up_proj.qweight", "up_proj.scales", "up_proj.qzeros"]
// CHECK-SAME: repack(<order = interleaved, bits = 4, columns = 64, group = 32, zero_points = true>)
// CHECK-SAME: packing(#plan.interleaved_codes<outputs = 16, columns = 64, bits = 4, group = 32, scale = f16, zero_points = true>)
// CHECK-SAME: : memref<640xi8>
%awq = plan.weight "up_proj" from "target" ["up_proj.qweight", "up_proj.scales", "up_proj.qzeros"]
    repack(<order = interleaved, bits = 4, columns = 64, group = 32, zero_points = true>)
    packing(#plan.interleaved_codes<outputs = 16, columns = 64, bits = 4, group = 32, scale = f16, zero_points = true>)
    : memref<640xi8>
// A tile holds 16 outputs: 17 of them take two.
// CHECK: packing(#plan.interleaved<outputs = 17, columns = 8, element = bf16>) : memref<512xi8>
%table = plan.weight "embed_tokens" from "target" ["embed_tokens.weight"]
    packing(#plan.interleaved<outputs = 17, columns = 8, element = bf16>) : memref<512xi8>
// CHECK: packing(#plan.vector<length = 8>) : memref<32xi8>
%norm = plan.weight "norm" from "target" ["norm.weight"] packing(#plan.vector<length = 8>) : memref<32xi8>
// CHECK: packing(#plan.taps<taps = 4, channels = 8>) : memref<128xi8>
%taps = plan.weight "conv1d" from "target" ["conv1d.weight"] packing(#plan.taps<taps = 4, channels = 8>) : memref<128xi8>
// The only weight without a source.
// CHECK: plan.weight "rope" from "target" []
// CHECK-SAME: packing(#plan.rope_table<positions = 10, dims = 16, theta = 1.000000e+05 : f64>) : memref<640xi8>
%rope = plan.weight "rope" from "target" []
    packing(#plan.rope_table<positions = 10, dims = 16, theta = 1.0e5 : f64>) : memref<640xi8>

//===----------------------------------------------------------------------===//
// Kernels, one for every family
//===----------------------------------------------------------------------===//

// CHECK: plan.kernel @silu_1024 silu {columns = 1024 : i64
plan.kernel @silu_1024 silu {columns = 1024 : i64}
// CHECK: plan.kernel @embed embed {columns = 8 : i64
plan.kernel @embed embed {columns = 8 : i64, element = bf16, scale_by = 1.0 : f32, vocabulary = 17 : i64}
// CHECK: plan.kernel @linear linear {columns = 8 : i64
plan.kernel @linear linear {columns = 8 : i64, element = f32, outputs = 17 : i64}
// CHECK: plan.kernel @quant_linear quant_linear {bits = 4 : i64
plan.kernel @quant_linear quant_linear
    {bits = 4 : i64, columns = 1024 : i64, group = 32 : i64, outputs = 384 : i64, scale = bf16}
// CHECK: plan.kernel @rms_norm rms_norm {columns = 8 : i64
plan.kernel @rms_norm rms_norm {columns = 8 : i64, dim = 8 : i64, eps = 0.0 : f32, offset = 1.0 : f32}
// CHECK: plan.kernel @gated_rms_norm gated_rms_norm {columns = 8 : i64
plan.kernel @gated_rms_norm gated_rms_norm {columns = 8 : i64, dim = 4 : i64, eps = 0.0 : f32}
// CHECK: plan.kernel @l2_norm l2_norm {columns = 8 : i64
plan.kernel @l2_norm l2_norm {columns = 8 : i64, dim = 4 : i64, eps = 0.0 : f32}
// CHECK: plan.kernel @sigmoid sigmoid {columns = 8 : i64
plan.kernel @sigmoid sigmoid {columns = 8 : i64}
// CHECK: plan.kernel @add add {columns = 8 : i64
plan.kernel @add add {columns = 8 : i64}
// CHECK: plan.kernel @mul mul {columns = 8 : i64
plan.kernel @mul mul {columns = 8 : i64}
// CHECK: plan.kernel @last_row last_row {columns = 8 : i64
plan.kernel @last_row last_row {columns = 8 : i64}
// CHECK: plan.kernel @drop_rows drop_rows {columns = 8 : i64
plan.kernel @drop_rows drop_rows {columns = 8 : i64, first = 0 : i64}
// CHECK: plan.kernel @split split {groups = 2 : i64
plan.kernel @split split {groups = 2 : i64, widths = array<i64: 4, 8>}
// CHECK: plan.kernel @concat_features concat_features {widths = array<i64: 4
plan.kernel @concat_features concat_features {widths = array<i64: 4, 8>}
// CHECK: plan.kernel @rope rope {columns = 64 : i64
plan.kernel @rope rope {columns = 64 : i64, dims = 16 : i64, head_dim = 32 : i64, positions = 10 : i64}
// CHECK: plan.kernel @cache_append cache_append {dim = 64 : i64
plan.kernel @cache_append cache_append {dim = 64 : i64, heads = 2 : i64, slots = 4112 : i64}
// CHECK: plan.kernel @attention attention {causal = 0 : i64
plan.kernel @attention attention
    {causal = 0 : i64, dim = 64 : i64, heads = 2 : i64, query_heads = 4 : i64, scale_by = 0.125 : f32, slots = 4112 : i64, window = 0 : i64}
// CHECK: plan.kernel @short_conv short_conv {channels = 8 : i64
plan.kernel @short_conv short_conv {channels = 8 : i64, commit = 0 : i64, pending = 16 : i64, taps = 4 : i64}
// CHECK: plan.kernel @delta_gate delta_gate {columns = 8 : i64
plan.kernel @delta_gate delta_gate {columns = 8 : i64}
// CHECK: plan.kernel @gated_delta gated_delta {commit = 1 : i64
plan.kernel @gated_delta gated_delta
    {commit = 1 : i64, heads = 8 : i64, key_dim = 64 : i64, key_heads = 4 : i64, pending = 16 : i64, scale_by = 0.125 : f32, value_dim = 64 : i64}
// CHECK: plan.kernel @delta_save delta_save {heads = 8 : i64
plan.kernel @delta_save delta_save
    {heads = 8 : i64, key_dim = 64 : i64, key_heads = 4 : i64, pending = 16 : i64, value_dim = 64 : i64}
// CHECK: plan.kernel @argmax argmax {columns = 100 : i64
plan.kernel @argmax argmax {columns = 100 : i64}
// CHECK: plan.kernel @mask_block mask_block {mask_token = 0 : i64
plan.kernel @mask_block mask_block {mask_token = 0 : i64, size = 16 : i64}
// CHECK: plan.kernel @unmask unmask {columns = 100 : i64
plan.kernel @unmask unmask {columns = 100 : i64, fill = 4 : i64, mask_token = 99 : i64, size = 16 : i64}
// CHECK: plan.kernel @concat_tokens concat_tokens {left = 1 : i64
plan.kernel @concat_tokens concat_tokens {left = 1 : i64, right = 15 : i64}
// CHECK: plan.kernel @accept accept {}
plan.kernel @accept accept {}
// CHECK: plan.kernel @copy copy {bytes = 4 : i64
plan.kernel @copy copy {bytes = 4 : i64}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

// CHECK: plan.program @step(%[[ANCHOR]], %[[START]] : memref<1xi32>, memref<1xi32>) -> (%[[ANCHOR]] : memref<1xi32>) {
plan.program @step(%anchor, %start : memref<1xi32>, memref<1xi32>)
    -> (%anchor : memref<1xi32>) {
  // CHECK: plan.buffer at 4096 : memref<16x384xf32>
  %h = plan.buffer at 4096 : memref<16x384xf32>
  // CHECK: %[[Y:.*]] = plan.buffer : memref<64x1024xf32>
  %y = plan.buffer : memref<64x1024xf32>
  // CHECK: plan.launch @silu_1024 ins(%[[X]] : memref<64x1024xf32>) outs(%[[Y]] : memref<64x1024xf32>)
  // CHECK-SAME: rows 64 live %[[COUNT]] : memref<1xi32> items 1 per_row
  plan.launch @silu_1024 ins(%x : memref<64x1024xf32>)
      outs(%y : memref<64x1024xf32>) rows 64 live %count : memref<1xi32>
      items 1 per_row
  // CHECK: plan.launch @accept
  // CHECK-SAME: rows 1 items 1{{$}}
  plan.launch @accept ins(%anchor, %anchor, %start : memref<1xi32>, memref<1xi32>, memref<1xi32>)
      outs(%count, %anchor, %start, %start : memref<1xi32>, memref<1xi32>, memref<1xi32>, memref<1xi32>) rows 1 items 1
}

// CHECK: plan.program @prefill() -> () {
plan.program @prefill() -> () {
}

// CHECK: plan.program @noted() -> () attributes {note = "kept"} {
plan.program @noted() -> () attributes {note = "kept"} {
}

//===----------------------------------------------------------------------===//
// The loop
//===----------------------------------------------------------------------===//

// CHECK: plan.loop {block = 1 : i64, chunk = 64 : i64, max_context = 4096 : i64, prefill = @prefill,
// CHECK-SAME: score_chunk = 16 : i64, step = @step, stop_tokens = array<i32: 6115>, vocabulary = 6144 : i64}
plan.loop {prefill = @prefill, step = @step, block = 1 : i64,
           chunk = 64 : i64, score_chunk = 16 : i64,
           max_context = 4096 : i64, vocabulary = 6144 : i64,
           stop_tokens = array<i32: 6115>}

// CHECK: plan.loop {accept = @step, {{.*}}context = @step, draft = @step,
// CHECK-SAME: prefill_logits = @prefill, {{.*}}score = @step, {{.*}}score_draft = @step, {{.*}}step_logits = @step,
// CHECK-SAME: verify = @step, verify_logits = @step
plan.loop {prefill = @prefill, step = @step, context = @step, draft = @step, verify = @step, accept = @step,
           prefill_logits = @prefill, step_logits = @step, verify_logits = @step,
           score = @step, score_draft = @step, block = 16 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
           max_context = 4096 : i64, vocabulary = 6144 : i64, stop_tokens = array<i32>}

}

// Rows of a head, rounded, and what they are called.
// CHECK: plan.weight "rows" from "target" ["head"]
// CHECK-SAME: rows(#{{.*}}) packing(#plan.rounded_codes<outputs = 3, columns = 64, group = 64>) : memref<544xi8>
%rows = plan.weight "rows" from "target" ["head"] rows(#lm.token_set<0, 3, 17>)
    packing(#plan.rounded_codes<outputs = 3, columns = 64, group = 64>) : memref<544xi8>
// CHECK: plan.weight "ids" from "" []
// CHECK-SAME: packing(#plan.token_table<set = #{{.*}}>) : memref<12xi8>
%ids = plan.weight "ids" from "" []
    packing(#plan.token_table<set = <0, 3, 17>>) : memref<12xi8>
