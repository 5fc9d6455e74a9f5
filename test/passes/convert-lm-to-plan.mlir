// RUN: qopt %s --convert-lm-to-plan=arch=x86-64-v3 --split-input-file \
// RUN:   --verify-diagnostics | FileCheck %s
// RUN: not qopt %s --convert-lm-to-plan=report --split-input-file \
// RUN:   2>&1 >/dev/null | FileCheck %s --check-prefix=REPORT

// REPORT: remark: convert-lm-to-plan: 2 launches
// REPORT: remark: convert-lm-to-plan: 2 kernels

// A tensor is the port it leaves through, or a buffer.
// CHECK: module attributes {plan.arch = "x86-64-v3"}
// CHECK: %[[X:.*]] = plan.port "x" : memref<16x64xf32>
// CHECK: %[[Z:.*]] = plan.port "z" : memref<16x64xf32>
// CHECK: plan.kernel @silu_c64 silu {columns = 64 : i64}
// CHECK: plan.kernel @sigmoid_c64 sigmoid {columns = 64 : i64}
// CHECK: plan.program @port_and_buffer(%[[X]] : memref<16x64xf32>) -> (%[[Z]] : memref<16x64xf32>) {
// CHECK:   %[[Y:.*]] = plan.buffer : memref<16x64xf32>
// CHECK:   plan.launch @silu_c64 ins(%[[X]] : memref<16x64xf32>) outs(%[[Y]] : memref<16x64xf32>) rows 16 items 1 per_row
// CHECK:   plan.launch @sigmoid_c64 ins(%[[Y]] : {{.*}}) outs(%[[Z]] : {{.*}}) rows 16 items 1 per_row
func.func @port_and_buffer(%x: tensor<16x64xf32> {lm.port = "x"})
    -> (tensor<16x64xf32> {lm.port = "z"}) {
  %y = lm.silu %x : tensor<16x64xf32>
  %z = lm.sigmoid %y : tensor<16x64xf32>
  return %z : tensor<16x64xf32>
}

// -----

// Two programs share ports, weights and kernels of the same name and numbers.
// CHECK: plan.port "t" : memref<1xi32>
// CHECK-NOT: plan.port "t"
// CHECK: %[[TABLE:.*]] = plan.weight "target:embed" from "target" ["embed.weight"] packing(#plan.interleaved<outputs = 40, columns = 16, element = bf16>) : memref<1536xi8>
// CHECK-NOT: plan.weight
// CHECK: plan.kernel @embed_c16_v40_bf16
// CHECK-NOT: plan.kernel
// CHECK: plan.program @a
// CHECK: plan.program @b
func.func @a(%t: tensor<1xi32> {lm.port = "t"})
    -> (tensor<1x16xf32> {lm.port = "h"}) {
  %w = lm.weight "target", "embed.weight" : tensor<40x16xbf16>
  %h = lm.embed %t, %w : tensor<1xi32>, tensor<40x16xbf16> -> tensor<1x16xf32>
  return %h : tensor<1x16xf32>
}
func.func @b(%t: tensor<1xi32> {lm.port = "t"})
    -> (tensor<1x16xf32> {lm.port = "h"}) {
  %w = lm.weight "target", "embed.weight" : tensor<40x16xbf16>
  %h = lm.embed %t, %w : tensor<1xi32>, tensor<40x16xbf16> -> tensor<1x16xf32>
  return %h : tensor<1x16xf32>
}

// -----

// Linear layers split their outputs in tiles of 16; packed weights are made
// of two tensors. Dead rows stay dead through row-wise ops.
// CHECK: %[[X:.*]] = plan.port "x"
// CHECK: %[[N:.*]] = plan.port "n"
// CHECK: plan.weight "target:q" from "target" ["q.weight_packed", "q.weight_scale"]
// CHECK-SAME: packing(#plan.interleaved_codes<outputs = 40, columns = 64, bits = 4, group = 32, scale = bf16>)
// CHECK: plan.weight "target:w" from "target" ["w.weight"]
// CHECK: plan.kernel @quant_linear_40x64_q4_g32_bf16 quant_linear
// CHECK: plan.kernel @linear_8x40_bf16 linear
// CHECK: plan.launch @quant_linear_40x64_q4_g32_bf16 ins(%[[X]], {{.*}}) rows 16 live %[[N]] : memref<1xi32> items 3{{$}}
// CHECK: plan.launch @linear_8x40_bf16 {{.*}} rows 16 live %[[N]] : memref<1xi32> items 1{{$}}
func.func @linear(%x: tensor<16x64xf32> {lm.port = "x"},
                  %n: tensor<1xi32> {lm.port = "n"})
    -> (tensor<16x8xf32> {lm.port = "y"}) {
  %codes = lm.weight "target", "q.weight_packed" : tensor<40x8xi32>
  %scales = lm.weight "target", "q.weight_scale" : tensor<40x2xbf16>
  %w = lm.weight "target", "w.weight" : tensor<8x40xbf16>
  %live = lm.live_rows %x, %n : tensor<16x64xf32>
  %h = lm.quant_linear %live, %codes, %scales grouped<bits = 4, group = 32>
      : tensor<16x64xf32>, tensor<40x8xi32>, tensor<40x2xbf16>
      -> tensor<16x40xf32>
  %y = lm.linear %h, %w
      : tensor<16x40xf32>, tensor<8x40xbf16> -> tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}

// -----

// What is repacked is made from the tensors themselves.
// CHECK: plan.weight "target:q" from "target" ["q.qweight", "q.scales", "q.qzeros"]
// CHECK-SAME: repack(<order = interleaved, bits = 4, columns = 64, group = 32, zero_points = true>)
// CHECK-SAME: packing(#plan.interleaved_codes<outputs = 40, columns = 64, bits = 4, group = 32, scale = f16, zero_points = true>)
// CHECK: plan.kernel @quant_linear_40x64_q4_g32_f16 quant_linear
// CHECK-SAME: zero_points = 1 : i64
func.func @repacked(%x: tensor<16x64xf32> {lm.port = "x"})
    -> (tensor<16x40xf32> {lm.port = "y"}) {
  %w = lm.weight "target", "q.qweight" : tensor<64x5xi32>
  %f = lm.weight "target", "q.scales" : tensor<2x40xf16>
  %z = lm.weight "target", "q.qzeros" : tensor<2x5xi32>
  %codes, %scales = lm.repack %w, %f zeros %z
      as <order = interleaved, bits = 4, columns = 64, group = 32, zero_points = true>
      : (tensor<64x5xi32>, tensor<2x40xf16>, tensor<2x5xi32>)
      -> (tensor<40x8xi32>, tensor<40x4xf16>)
  %y = lm.quant_linear %x, %codes, %scales
      grouped<bits = 4, group = 32, zero_points = true>
      : tensor<16x64xf32>, tensor<40x8xi32>, tensor<40x4xf16>
      -> tensor<16x40xf32>
  return %y : tensor<16x40xf32>
}

// -----

// A cache is updated in place: the state is written by one launch and read by
// the next.
// CHECK: %[[KV:.*]] = plan.state "kv" kind "key_value" : memref<2x1x64x16xf32>
// CHECK: plan.launch @cache_append_{{.*}} outs(%[[KV]] : memref<2x1x64x16xf32>) rows 4 items 1{{$}}
// CHECK: plan.launch @attention_{{.*}} ins(%{{.*}}, %[[KV]], %{{.*}}) outs(%{{.*}}) rows 4 items 2 per_row
func.func @attention(%q: tensor<4x32xf32> {lm.port = "q"},
                     %k: tensor<4x16xf32> {lm.port = "k"},
                     %start: tensor<1xi32> {lm.port = "start"},
                     %c: !lm.kv_cache<60x1x16xf32> {lm.state = "kv"})
    -> (tensor<4x32xf32> {lm.port = "o"},
        !lm.kv_cache<60x1x16xf32> {lm.state = "kv"}) {
  %d = lm.cache_append %c, %k, %k at %start
      : !lm.kv_cache<60x1x16xf32>, tensor<4x16xf32>
  %o = lm.attention %q, %d at %start {causal, scale = 0.25 : f32}
      : tensor<4x32xf32>, !lm.kv_cache<60x1x16xf32>
  return %o, %d : tensor<4x32xf32>, !lm.kv_cache<60x1x16xf32>
}

// -----

// A ring keeps the last rows only.
// CHECK: plan.state "kv" kind "window" : memref<2x1x64x16xf32>
func.func @window(%k: tensor<4x16xf32> {lm.port = "k"},
                  %start: tensor<1xi32> {lm.port = "start"},
                  %c: !lm.kv_cache<ring 64x1x16xf32> {lm.state = "kv"})
    -> (!lm.kv_cache<ring 64x1x16xf32> {lm.state = "kv"}) {
  %d = lm.cache_append %c, %k, %k at %start
      : !lm.kv_cache<ring 64x1x16xf32>, tensor<4x16xf32>
  return %d : !lm.kv_cache<ring 64x1x16xf32>
}

// -----

// Rows that may be rejected are saved by a launch of their own, behind the one
// whose items read the rows saved before.
// CHECK: plan.kernel @gated_delta
// CHECK: plan.kernel @delta_save
// CHECK: plan.launch @gated_delta_{{.*}} rows 2 items 4{{$}}
// CHECK-NEXT: plan.launch @delta_save_{{.*}} rows 2 items 1 per_row
func.func @delta(%q: tensor<2x8xf32> {lm.port = "q"},
                 %v: tensor<2x64xf32> {lm.port = "v"},
                 %g: tensor<2x2xf32> {lm.port = "g"},
                 %n: tensor<1xi32> {lm.port = "n"},
                 %c: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8,
                                     value_dim = 32, pending = 2>
                   {lm.state = "delta"})
    -> (tensor<2x64xf32> {lm.port = "o"},
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 32,
                        pending = 2> {lm.state = "delta"}) {
  %o, %d = lm.gated_delta %q, %q, %v, %g, %g, %c keep %n {scale = 1.0 : f32}
      : tensor<2x8xf32>, tensor<2x64xf32>, tensor<2x2xf32>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 32,
                        pending = 2>
  return %o, %d
      : tensor<2x64xf32>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 32,
                        pending = 2>
}

// -----

// The port that goes in is the port that comes out: accept reads it before it
// writes, so no copy is needed.
// CHECK: %[[ANCHOR:.*]] = plan.port "anchor"
// CHECK: %[[START:.*]] = plan.port "start"
// CHECK: plan.program @in_place
// CHECK: plan.launch @accept ins(%[[ANCHOR]], %[[ANCHOR]], %[[START]] : {{.*}}) outs(%{{.*}}, %[[ANCHOR]], %[[START]], %{{.*}})
// CHECK-NOT: plan.launch
func.func @in_place(%anchor: tensor<1xi32> {lm.port = "anchor"},
                    %start: tensor<1xi32> {lm.port = "start"})
    -> (tensor<1xi32> {lm.port = "accepted"}, tensor<1xi32> {lm.port = "anchor"},
        tensor<1xi32> {lm.port = "start"},
        tensor<1xi32> {lm.port = "context_start"}) {
  %a, %b, %c, %d = lm.accept %anchor, %anchor at %start : tensor<1xi32>
  return %a, %b, %c, %d
      : tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>
}

// -----

// The argument is read behind the op whose result replaces it: the port is
// written by a copy at the end.
// CHECK: %[[X:.*]] = plan.port "x"
// CHECK: plan.program @copy_when_the_port_is_still_read
// CHECK: %[[Y:.*]] = plan.buffer
// CHECK: plan.launch @silu_c8 ins(%[[X]] : {{.*}}) outs(%[[Y]] : {{.*}})
// CHECK: plan.launch @sigmoid_c8 ins(%[[X]]
// CHECK: plan.launch @copy_b32 ins(%[[Y]] : {{.*}}) outs(%[[X]] : {{.*}})
func.func @copy_when_the_port_is_still_read(
    %x: tensor<1x8xf32> {lm.port = "x"})
    -> (tensor<1x8xf32> {lm.port = "x"}, tensor<1x8xf32> {lm.port = "z"}) {
  %y = lm.silu %x : tensor<1x8xf32>
  %z = lm.sigmoid %x : tensor<1x8xf32>
  return %y, %z : tensor<1x8xf32>, tensor<1x8xf32>
}

// -----

// A program keeps its name.
// CHECK: plan.kernel @silu_c8_kernel silu
// CHECK: plan.program @silu_c8(
// CHECK: plan.launch @silu_c8_kernel
func.func @silu_c8(%x: tensor<1x8xf32> {lm.port = "x"})
    -> (tensor<1x8xf32> {lm.port = "y"}) {
  %y = lm.silu %x : tensor<1x8xf32>
  return %y : tensor<1x8xf32>
}

// -----

// Rotations of equal base and width read one table.
// CHECK: plan.weight "rope:8" from "" [] packing(#plan.rope_table<positions = 4096, dims = 8, theta = 1.000000e+05 : f64>) : memref<131072xi8>
// CHECK-NOT: plan.weight
// CHECK: plan.launch @rope
// CHECK: plan.launch @rope
func.func @rope(%x: tensor<1x32xf32> {lm.port = "x"},
                %start: tensor<1xi32> {lm.port = "start"})
    -> (tensor<1x32xf32> {lm.port = "y"}) {
  %a = lm.rope %x at %start {head_dim = 16 : i64, dims = 8 : i64,
                             theta = 1.0e5 : f64} : tensor<1x32xf32>
  %b = lm.rope %a at %start {head_dim = 32 : i64, dims = 8 : i64,
                             theta = 1.0e5 : f64} : tensor<1x32xf32>
  return %b : tensor<1x32xf32>
}

// -----

func.func @old_cache_is_read(%k: tensor<4x16xf32> {lm.port = "k"},
                             %start: tensor<1xi32> {lm.port = "start"},
                             %c: !lm.kv_cache<64x1x16xf32> {lm.state = "kv"})
    -> (tensor<4x16xf32> {lm.port = "o"},
        !lm.kv_cache<64x1x16xf32> {lm.state = "kv"}) {
  %d = lm.cache_append %c, %k, %k at %start
      : !lm.kv_cache<64x1x16xf32>, tensor<4x16xf32>
  // expected-error @below {{uses a cache behind the op that updates it}}
  %o = lm.attention %k, %c at %start {causal, scale = 0.25 : f32}
      : tensor<4x16xf32>, !lm.kv_cache<64x1x16xf32>
  return %o, %d : tensor<4x16xf32>, !lm.kv_cache<64x1x16xf32>
}

// -----

func.func @states_are_exchanged(
    %a: !lm.kv_cache<64x1x16xf32> {lm.state = "a"},
    %b: !lm.kv_cache<64x1x16xf32> {lm.state = "b"})
    -> (!lm.kv_cache<64x1x16xf32> {lm.state = "a"},
        !lm.kv_cache<64x1x16xf32> {lm.state = "b"}) {
  // expected-error @below {{returns another cache as the state 'a'}}
  return %b, %a : !lm.kv_cache<64x1x16xf32>, !lm.kv_cache<64x1x16xf32>
}

// -----

func.func @weight_is_an_argument(%x: tensor<1x8xf32> {lm.port = "x"},
                                 %w: tensor<4x8xf32> {lm.port = "w"})
    -> (tensor<1x4xf32> {lm.port = "y"}) {
  // expected-error @below {{expects its weight to be a tensor of a checkpoint}}
  %y = lm.linear %x, %w
      : tensor<1x8xf32>, tensor<4x8xf32> -> tensor<1x4xf32>
  return %y : tensor<1x4xf32>
}

// -----

func.func @codes_and_scales_of_two_checkpoints(
    %x: tensor<1x64xf32> {lm.port = "x"})
    -> (tensor<1x8xf32> {lm.port = "y"}) {
  %codes = lm.weight "target", "q.weight_packed" : tensor<8x8xi32>
  %scales = lm.weight "drafter", "q.weight_scale" : tensor<8x2xbf16>
  // expected-error @below {{expects codes and scales of one checkpoint}}
  %y = lm.quant_linear %x, %codes, %scales grouped<bits = 4, group = 32>
      : tensor<1x64xf32>, tensor<8x8xi32>, tensor<8x2xbf16> -> tensor<1x8xf32>
  return %y : tensor<1x8xf32>
}

// -----

// expected-error @below {{expects the port 'x' to be 'memref<1x8xf32>' as before, but got 'memref<1x4xf32>'}}
func.func @port_of_another_type(%x: tensor<1x8xf32> {lm.port = "x"},
                                %y: tensor<1x4xf32> {lm.port = "x"}) {
  return
}

// -----

func.func @state_before(%c: !lm.kv_cache<64x1x16xf32> {lm.state = "kv"})
    -> (!lm.kv_cache<64x1x16xf32> {lm.state = "kv"}) {
  return %c : !lm.kv_cache<64x1x16xf32>
}
// expected-error @below {{expects the state 'kv' to be '!lm.kv_cache<64x1x16xf32>' as before, but got '!lm.kv_cache<ring 64x1x16xf32>'}}
func.func @state_of_another_type(
    %c: !lm.kv_cache<ring 64x1x16xf32> {lm.state = "kv"})
    -> (!lm.kv_cache<ring 64x1x16xf32> {lm.state = "kv"}) {
  return %c : !lm.kv_cache<ring 64x1x16xf32>
}

// -----

func.func @activations_in_bf16(%x: tensor<1x8xbf16> {lm.port = "x"})
    -> (tensor<1x8xbf16> {lm.port = "y"}) {
  // expected-error @below {{expects f32 activations, but got 'tensor<1x8xbf16>'}}
  %y = lm.silu %x : tensor<1x8xbf16>
  return %y : tensor<1x8xbf16>
}

// -----

func.func @no_kernel(%a: tensor<1xi32> {lm.port = "a"},
                     %l: tensor<1x8xf32> {lm.port = "l"})
    -> (tensor<2xi32> {lm.port = "b"}) {
  // expected-error @below {{has no kernel}}
  %block, %logits = lm.denoise %a caches()
      {mask_token = 7 : i32, size = 2 : i64, steps = 1 : i64}
      : () -> (tensor<2xi32>, tensor<1x8xf32>) {
  ^body(%tokens: tensor<2xi32>):
    lm.yield %l : tensor<1x8xf32>
  }
  return %block : tensor<2xi32>
}

// -----

// expected-error @below {{expects one block}}
func.func private @no_body(tensor<1xi32> {lm.port = "a"})

// -----

func.func @attention_inputs_on_a_processor(
    %k: tensor<4x32xf32> {lm.port = "k"}, %s: tensor<1xi32> {lm.port = "s"},
    %c: !lm.kv_cache<80x1x32xf32> {lm.state = "kv"})
    -> (!lm.kv_cache<80x1x32xf32> {lm.state = "kv"}) {
  %w = lm.weight "target", "norm" : tensor<32xbf16>
  // expected-error @below {{has no kernel on a processor}}
  %new = lm.attention_inputs keys(%k : tensor<4x32xf32>)
      values(%k : tensor<4x32xf32>) norms(%w : tensor<32xbf16>)
      caches(%c : !lm.kv_cache<80x1x32xf32>) at %s
      {norm = #lm.norm<eps = 1.0e-6 : f32, offset = 1.0 : f32>,
       dims = 16 : i64, theta = 1.0e4 : f64}
      -> (!lm.kv_cache<80x1x32xf32>)
  return %new : !lm.kv_cache<80x1x32xf32>
}

// -----

func.func @gated_attention_on_a_processor(
    %q: tensor<4x32xf32> {lm.port = "q"}, %s: tensor<1xi32> {lm.port = "s"},
    %c: !lm.kv_cache<80x1x32xf32> {lm.state = "kv"})
    -> (tensor<4x32xf32> {lm.port = "y"},
        !lm.kv_cache<80x1x32xf32> {lm.state = "kv"}) {
  // expected-error @below {{with a gate has no kernel on a processor}}
  %y = lm.attention %q, %c at %s gate %q : tensor<4x32xf32>
      {causal, scale = 0.5 : f32}
      : tensor<4x32xf32>, !lm.kv_cache<80x1x32xf32>
  return %y, %c : tensor<4x32xf32>, !lm.kv_cache<80x1x32xf32>
}

// -----

!delta = !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 4, value_dim = 4, pending = 2>
func.func @normed_delta_on_a_processor(
    %q: tensor<2x4xf32> {lm.port = "q"}, %v: tensor<2x8xf32> {lm.port = "v"},
    %g: tensor<2x2xf32> {lm.port = "g"}, %n: tensor<1xi32> {lm.port = "n"},
    %c: !delta {lm.state = "delta"})
    -> (tensor<2x8xf32> {lm.port = "y"}, !delta {lm.state = "delta"}) {
  %w = lm.weight "target", "norm" : tensor<4xf32>
  // expected-error @below {{with a norm has a kernel on GPUs alone, for few rows and short keys}}
  %y, %new = lm.gated_delta %q, %q, %v, %g, %g, %c keep %n
      norm(%v, %w : tensor<2x8xf32>, tensor<4xf32>)
      {norm_eps = 1.0e-6 : f32, scale = 1.0 : f32}
      : tensor<2x4xf32>, tensor<2x8xf32>, tensor<2x2xf32>, !delta
  return %y, %new : tensor<2x8xf32>, !delta
}

// -----

// A head that is searched: results of 2 parts of 128 outputs.
// CHECK-LABEL: plan.program @searched
// CHECK: plan.launch @head_search_200x64 ins({{.*}}) outs(%[[A:.*]], %[[B:.*]] : memref<4x13xf32>, memref<4x2xf32>) rows 4 items 2
// CHECK: plan.launch @head_settle_200x64_bf16 ins(%{{.*}}, %{{.*}}, %[[A]], %[[B]] : {{.*}}) outs({{.*}} : memref<4x2xf32>, memref<4x2xi32>, memref<4x2xi32>) rows 4 items 2
// CHECK: plan.launch @settled_argmax_p2_t13 {{.*}} rows 4 items 1 per_row
func.func @searched(%x: tensor<4x64xf32> {lm.port = "x"})
    -> (tensor<4xi32> {lm.port = "y"}) {
  %w = lm.weight "target", "head.weight" : tensor<200x64xbf16>
  %y = lm.head_argmax %x, %w {search}
      : tensor<4x64xf32>, tensor<200x64xbf16> -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

// A head that is rounded, of some tokens: the parts of one that is not.
// CHECK: %[[W:.*]] = plan.weight "target:head" from "target" ["head.weight"] rows(#[[SET:.*]]) packing(#plan.rounded_codes<outputs = 3, columns = 64, group = 64>)
// CHECK: %[[IDS:.*]] = plan.weight "draft tokens" from "" [] packing(#plan.token_table<set = #[[SET]]>) : memref<12xi8>
// CHECK: plan.kernel @quant_head_argmax_3x64_q4_g64_bf16 quant_head_argmax
// CHECK: plan.kernel @select_tokens_e3 select_tokens
// CHECK: plan.program @rounded
// CHECK: plan.launch @quant_head_argmax_3x64_q4_g64_bf16 ins(%{{.*}}, %[[W]] : {{.*}}) outs(%[[L:.*]], %[[T:.*]] : memref<4x1xf32>, memref<4x1xi32>) rows 4 items 1
// CHECK: plan.launch @argmax_parts_p1 ins(%[[L]], %[[T]] : {{.*}}) outs(%[[PLACES:.*]] : memref<4xi32>) rows 4 items 1 per_row
// CHECK: plan.launch @select_tokens_e3 ins(%[[PLACES]], %[[IDS]] : {{.*}}) outs(%{{.*}} : memref<4xi32>) rows 4 items 1 per_row
func.func @rounded(%x: tensor<4x64xf32> {lm.port = "x"})
    -> (tensor<4xi32> {lm.port = "y"}) {
  %w = lm.weight "target", "head.weight" : tensor<200x64xbf16>
  %r = lm.select_rows %w[#lm.token_set<0, 3, 17>]
      : tensor<200x64xbf16> -> tensor<3x64xbf16>
  %p = lm.head_argmax %x, %r {rounding = #lm.grouped<bits = 4, group = 64>}
      : tensor<4x64xf32>, tensor<3x64xbf16> -> tensor<4xi32>
  %y = lm.select_tokens %p[#lm.token_set<0, 3, 17>] : tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

// The whole head and some rows of it are two weights.
// CHECK-DAG: plan.weight "target:head" from "target" ["head.weight"] packing(#plan.interleaved<outputs = 200, columns = 64, element = bf16>)
// CHECK-DAG: plan.weight "target:head#2" from "target" ["head.weight"] rows(#{{.*}}) packing(#plan.interleaved<outputs = 3, columns = 64, element = bf16>)
func.func @both(%x: tensor<4x64xf32> {lm.port = "x"})
    -> (tensor<4xi32> {lm.port = "y"}, tensor<4xi32> {lm.port = "z"}) {
  %w = lm.weight "target", "head.weight" : tensor<200x64xbf16>
  %y = lm.head_argmax %x, %w
      : tensor<4x64xf32>, tensor<200x64xbf16> -> tensor<4xi32>
  %r = lm.select_rows %w[#lm.token_set<0, 3, 17>]
      : tensor<200x64xbf16> -> tensor<3x64xbf16>
  %z = lm.head_argmax %x, %r
      : tensor<4x64xf32>, tensor<3x64xbf16> -> tensor<4xi32>
  return %y, %z : tensor<4xi32>, tensor<4xi32>
}
