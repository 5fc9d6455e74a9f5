// RUN: qopt %s --convert-lm-to-plan=arch=sm_86 --split-input-file \
// RUN:   --verify-diagnostics | FileCheck %s

// Weights lie as tensor cores and look-ups read them; kernels are told the
// types of activations and results.
// CHECK: module attributes {plan.arch = "sm_86"}
// CHECK: plan.weight "target:embed" {{.*}} packing(#plan.rows<outputs = 40, columns = 64, element = bf16>)
// CHECK: plan.weight "target:q" {{.*}} packing(#plan.fragment_codes<outputs = 40, columns = 64, bits = 4, group = 32, scale = bf16>)
// CHECK: plan.kernel @embed_c64_v40_bf16_bf16 embed {activations = bf16, columns = 64 : i64, element = bf16, scale_by = 1.000000e+00 : f32, vocabulary = 40 : i64}
// CHECK: plan.kernel @quant_linear_40x64_q4_g32_bf16 quant_linear {activations = bf16, bits = 4 : i64, columns = 64 : i64, group = 32 : i64, outputs = 40 : i64, scale = bf16}
// CHECK: plan.kernel @silu_c40_bf16 silu {activations = bf16, columns = 40 : i64}
// CHECK: plan.kernel @linear_8x40_bf16_f32 linear {activations = bf16, columns = 40 : i64, element = bf16, outputs = 8 : i64, result = f32}
// CHECK: plan.kernel @sigmoid_c8 sigmoid {columns = 8 : i64}
// CHECK: plan.buffer : memref<16x40xbf16>
// CHECK: plan.buffer : memref<16x8xf32>
func.func @types(%t: tensor<16xi32> {lm.port = "t"})
    -> (tensor<16x8xf32> {lm.port = "y"}) {
  %table = lm.weight "target", "embed.weight" : tensor<40x64xbf16>
  %x = lm.embed %t, %table
      : tensor<16xi32>, tensor<40x64xbf16> -> tensor<16x64xbf16>
  %codes = lm.weight "target", "q.weight_packed" : tensor<40x8xi32>
  %scales = lm.weight "target", "q.weight_scale" : tensor<40x2xbf16>
  %h = lm.quant_linear %x, %codes, %scales grouped<bits = 4, group = 32>
      : tensor<16x64xbf16>, tensor<40x8xi32>, tensor<40x2xbf16>
      -> tensor<16x40xbf16>
  %s = lm.silu %h : tensor<16x40xbf16>
  %w = lm.weight "target", "w.weight" : tensor<8x40xbf16>
  %z = lm.linear %s, %w
      : tensor<16x40xbf16>, tensor<8x40xbf16> -> tensor<16x8xf32>
  %y = lm.sigmoid %z : tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}

// -----

// Caches: the rows of a convolution are of the activations' type. A delta cache
// is bytes: the state 2 x 3 x 4 in f32, then 2 rows of 4 keys and 6 values in
// bf16, and 2 decays and 2 betas in f32: 96 + 16 + 24 + 16 + 16.
// CHECK: plan.state "conv" kind "conv" : memref<5x14xbf16>
// CHECK: plan.state "delta" kind "delta" : memref<168xi8>
// CHECK: plan.kernel @short_conv_c14_c0_p2_t4_bf16 short_conv {activations = bf16
// The rows are left waiting by the same launch.
// CHECK: plan.kernel @gated_delta_{{.*}}_bf16 gated_delta {activations = bf16{{.*}}saves = 1 : i64
// CHECK-NOT: delta_save
func.func @delta(%x: tensor<2x14xbf16> {lm.port = "x"},
                 %g: tensor<2x2xf32> {lm.port = "g"},
                 %accepted: tensor<1xi32> {lm.port = "accepted"},
                 %conv: !lm.conv_cache<taps = 4, channels = 14, pending = 2>
                     {lm.state = "conv"},
                 %delta: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 4,
                                         value_dim = 3, pending = 2>
                     {lm.state = "delta"})
    -> (tensor<2x6xbf16> {lm.port = "y"},
        !lm.conv_cache<taps = 4, channels = 14, pending = 2>
            {lm.state = "conv"},
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 4, value_dim = 3,
                        pending = 2> {lm.state = "delta"}) {
  %w = lm.weight "target", "conv.weight" : tensor<14x1x4xbf16>
  %u, %new = lm.short_conv %x, %w, %conv keep %accepted
      : tensor<2x14xbf16>, tensor<14x1x4xbf16>,
        !lm.conv_cache<taps = 4, channels = 14, pending = 2>
  %q, %k, %v = lm.split %u {groups = 1 : i64}
      : tensor<2x14xbf16>
      -> tensor<2x4xbf16>, tensor<2x4xbf16>, tensor<2x6xbf16>
  %y, %state = lm.gated_delta %q, %k, %v, %g, %g, %delta keep %accepted
      {scale = 0.5 : f32}
      : tensor<2x4xbf16>, tensor<2x6xbf16>, tensor<2x2xf32>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 4, value_dim = 3,
                        pending = 2>
  return %y, %new, %state
      : tensor<2x6xbf16>, !lm.conv_cache<taps = 4, channels = 14, pending = 2>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 4, value_dim = 3,
                        pending = 2>
}

// -----

func.func @negative_f32(%x: tensor<16x40xf32> {lm.port = "x"})
    -> (tensor<16x8xf32> {lm.port = "y"}) {
  %w = lm.weight "target", "w.weight" : tensor<8x40xbf16>
  // expected-error @below {{expects bf16 activations on a GPU, but got 'tensor<16x40xf32>'}}
  %y = lm.linear %x, %w
      : tensor<16x40xf32>, tensor<8x40xbf16> -> tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}

// -----

// Zero points and float codes are told to the packing and to the kernel.
// CHECK: plan.weight "target:q" {{.*}} packing(#plan.fragment_codes<outputs = 40, columns = 64, bits = 4, group = 32, scale = bf16, zero_points = true>)
// CHECK: plan.weight "target:f" {{.*}} packing(#plan.fragment_codes<outputs = 40, columns = 64, bits = 8, group = 64, scale = f32, float_codes = true>)
// CHECK: plan.kernel @quant_linear_40x64_q4_g32_bf16 quant_linear {{{.*}}zero_points = 1 : i64}
// CHECK: plan.kernel @quant_linear_40x64_q8_g64_f32 quant_linear {{{.*}}float_codes = 1 : i64
func.func @code_kinds(%x: tensor<16x64xbf16> {lm.port = "x"})
    -> (tensor<16x40xbf16> {lm.port = "y"}, tensor<16x40xbf16> {lm.port = "z"}) {
  %codes = lm.weight "target", "q.weight_packed" : tensor<40x8xi32>
  %scales = lm.weight "target", "q.weight_scale" : tensor<40x4xbf16>
  %y = lm.quant_linear %x, %codes, %scales
      grouped<bits = 4, group = 32, zero_points = true>
      : tensor<16x64xbf16>, tensor<40x8xi32>, tensor<40x4xbf16>
      -> tensor<16x40xbf16>
  %bytes = lm.weight "target", "f.weight_packed" : tensor<40x16xi32>
  %more = lm.weight "target", "f.weight_scale" : tensor<40x1xf32>
  %z = lm.quant_linear %x, %bytes, %more
      grouped<bits = 8, group = 64, float_codes = true>
      : tensor<16x64xbf16>, tensor<40x16xi32>, tensor<40x1xf32>
      -> tensor<16x40xbf16>
  return %y, %z : tensor<16x40xbf16>, tensor<16x40xbf16>
}

// -----

// What is repacked is made from the tensors themselves.
// CHECK: plan.weight "target:q" from "target" ["q.qweight", "q.scales", "q.qzeros"]
// CHECK-SAME: repack(<order = interleaved, bits = 4, columns = 64, group = 32, zero_points = true>)
// CHECK-SAME: packing(#plan.fragment_codes<outputs = 40, columns = 64, bits = 4, group = 32, scale = f16, zero_points = true>)
func.func @repacked(%x: tensor<16x64xbf16> {lm.port = "x"})
    -> (tensor<16x40xbf16> {lm.port = "y"}) {
  %w = lm.weight "target", "q.qweight" : tensor<64x5xi32>
  %f = lm.weight "target", "q.scales" : tensor<2x40xf16>
  %z = lm.weight "target", "q.qzeros" : tensor<2x5xi32>
  %codes, %scales = lm.repack %w, %f zeros %z
      as <order = interleaved, bits = 4, columns = 64, group = 32, zero_points = true>
      : (tensor<64x5xi32>, tensor<2x40xf16>, tensor<2x5xi32>)
      -> (tensor<40x8xi32>, tensor<40x4xf16>)
  %y = lm.quant_linear %x, %codes, %scales
      grouped<bits = 4, group = 32, zero_points = true>
      : tensor<16x64xbf16>, tensor<40x8xi32>, tensor<40x4xf16>
      -> tensor<16x40xbf16>
  return %y : tensor<16x40xbf16>
}

// -----

!conv = !lm.conv_cache<taps = 4, channels = 14, pending = 2>
func.func @a(%x: tensor<2x14xbf16> {lm.port = "x"},
             %accepted: tensor<1xi32> {lm.port = "accepted"},
             %conv: !conv {lm.state = "conv"})
    -> (tensor<2x14xbf16> {lm.port = "y"}, !conv {lm.state = "conv"}) {
  %w = lm.weight "target", "conv.weight" : tensor<14x1x4xbf16>
  %u, %new = lm.short_conv %x, %w, %conv keep %accepted
      : tensor<2x14xbf16>, tensor<14x1x4xbf16>, !conv
  return %u, %new : tensor<2x14xbf16>, !conv
}
// expected-error @below {{expects the state 'conv' to be 'memref<5x14xbf16>' as before, but got 'memref<5x14xf32>'}}
func.func @negative_state_of_another_type(
    %x: tensor<2x14xf32> {lm.port = "f"},
    %accepted: tensor<1xi32> {lm.port = "accepted"},
    %conv: !conv {lm.state = "conv"})
    -> (tensor<2x14xf32> {lm.port = "z"}, !conv {lm.state = "conv"}) {
  %w = lm.weight "target", "conv.weight" : tensor<14x1x4xbf16>
  %u, %new = lm.short_conv %x, %w, %conv keep %accepted
      : tensor<2x14xf32>, tensor<14x1x4xbf16>, !conv
  return %u, %new : tensor<2x14xf32>, !conv
}

// -----

// What attention reads, and the gate behind it.
// CHECK: plan.kernel @attention_inputs_{{.*}} attention_inputs {activations = bf16, caches = 1 : i64, dim = 32 : i64, dims = 16 : i64, {{.*}}gated = 1 : i64, heads = 1 : i64, {{.*}}query_heads = 2 : i64, slots = 80 : i64}
// CHECK: plan.kernel @attention_{{.*}} attention {{.*}}gated = 1 : i64
// CHECK: plan.launch @attention_inputs_{{.*}} rows 4 live %{{.*}} : memref<1xi32> items 1 per_row
// CHECK: plan.launch @attention_
func.func @attention(%x: tensor<4x128xbf16> {lm.port = "x"},
                     %k: tensor<4x32xbf16> {lm.port = "k"},
                     %v: tensor<4x32xbf16> {lm.port = "v"},
                     %s: tensor<1xi32> {lm.port = "s"},
                     %n: tensor<1xi32> {lm.port = "n"},
                     %c: !lm.kv_cache<80x1x32xbf16> {lm.state = "kv"})
    -> (tensor<4x64xbf16> {lm.port = "y"},
        !lm.kv_cache<80x1x32xbf16> {lm.state = "kv"}) {
  %w = lm.weight "target", "norm" : tensor<32xbf16>
  %q, %g, %new = lm.attention_inputs
      query(%x, %w : tensor<4x128xbf16>, tensor<32xbf16>)
      keys(%k : tensor<4x32xbf16>) values(%v : tensor<4x32xbf16>)
      norms(%w : tensor<32xbf16>) caches(%c : !lm.kv_cache<80x1x32xbf16>)
      at %s rows %n
      {norm = #lm.norm<eps = 1.0e-6 : f32, offset = 1.0 : f32>,
       dims = 16 : i64, theta = 1.0e4 : f64}
      -> (query tensor<4x64xbf16>, gate tensor<4x64xbf16>,
          !lm.kv_cache<80x1x32xbf16>)
  %y = lm.attention %q, %new at %s rows %n gate %g : tensor<4x64xbf16>
      {causal, scale = 0.25 : f32}
      : tensor<4x64xbf16>, !lm.kv_cache<80x1x32xbf16>
  return %y, %new : tensor<4x64xbf16>, !lm.kv_cache<80x1x32xbf16>
}

// -----

// A head that is searched: three launches, one of which counts.
// CHECK-DAG: %[[N:.*]] = plan.port "head_counts" : memref<4xi32>
// CHECK-DAG: %[[W:.*]] = plan.weight "target:head" {{.*}} packing(#plan.rows<outputs = 200, columns = 64, element = bf16>)
// CHECK-DAG: %[[C:.*]] = plan.weight "target:head#2" {{.*}} packing(#plan.search_codes<outputs = 200, columns = 64, fragments = true>)
// CHECK-DAG: %[[S:.*]] = plan.weight "target:head#3" {{.*}} packing(#plan.search_scales<outputs = 200, columns = 64>)
// CHECK-DAG: %[[E:.*]] = plan.weight "target:head#4" {{.*}} packing(#plan.search_errors<outputs = 200, columns = 64>)
// CHECK: plan.kernel @head_search_200x64 head_search
// CHECK: plan.kernel @head_settle_200x64_bf16 head_settle
// CHECK: plan.kernel @settled_argmax_p1_t13 settled_argmax
// CHECK: plan.program @searched
// CHECK: plan.launch @head_search_200x64 ins(%{{.*}}, %[[C]], %[[S]], %[[E]] : {{.*}}) outs(%[[A:.*]], %[[B:.*]] : memref<4x13xf32>, memref<4x1xf32>)
// CHECK: plan.launch @head_settle_200x64_bf16 ins(%{{.*}}, %[[W]], %[[A]], %[[B]] : {{.*}}) outs(%[[L:.*]], %[[T:.*]], %[[D:.*]] : memref<4x1xf32>, memref<4x1xi32>, memref<4x1xi32>)
// CHECK: plan.launch @settled_argmax_p1_t13 ins(%[[L]], %[[T]], %[[D]] : {{.*}}) outs(%{{.*}}, %[[N]] : memref<4xi32>, memref<4xi32>) rows 4 items 1 per_row
func.func @searched(%x: tensor<4x64xbf16> {lm.port = "x"})
    -> (tensor<4xi32> {lm.port = "y"}) {
  %w = lm.weight "target", "head.weight" : tensor<200x64xbf16>
  %y = lm.head_argmax %x, %w {search}
      : tensor<4x64xbf16>, tensor<200x64xbf16> -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

// CHECK: %[[W:.*]] = plan.weight "target:head" {{.*}} packing(#plan.rounded_rows<outputs = 100, columns = 128, group = 64>)
// CHECK: plan.program @rounded
// CHECK: plan.launch @head_draft_100x128_g64 ins(%{{.*}}, %[[W]] : {{.*}}) outs(%{{.*}} : memref<4xi32>) rows 4 items 1
func.func @rounded(%x: tensor<4x128xbf16> {lm.port = "x"})
    -> (tensor<4xi32> {lm.port = "y"}) {
  %w = lm.weight "target", "head.weight" : tensor<100x128xbf16>
  %y = lm.head_argmax %x, %w {rounding = #lm.grouped<bits = 4, group = 64>}
      : tensor<4x128xbf16>, tensor<100x128xbf16> -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

// The launch of a rule that is marked makes what it reads.
// CHECK: plan.kernel @[[K:gated_delta_.*_bf16]] gated_delta {activations = bf16, channels = 32 : i64, commit = 0 : i64, eps = 9.99999997E-7 : f32, heads = 2 : i64, key_dim = 8 : i64, key_heads = 1 : i64, norm_eps = 9.99999974E-6 : f32, normed = 1 : i64, pending = 4 : i64, saves = 1 : i64, scale_by = 5.000000e-01 : f32, taps = 4 : i64, value_dim = 8 : i64}
// CHECK: plan.program @delta_in_one_launch(%[[X:.*]], %[[A:.*]], %[[Z:.*]], %[[N:.*]] : {{.*}}) -> (%[[Y:.*]] : {{.*}})
// CHECK-NEXT: plan.launch @[[K]] ins(%[[X]], %[[A]], %[[A]], %{{.*}}, %{{.*}}, %{{.*}}, %[[N]], %[[Z]], %{{.*}} : {{.*}}) outs(%[[Y]], %{{.*}}, %{{.*}} : memref<4x16xbf16>, memref<7x32xbf16>, memref<{{.*}}xi8>) rows 4 items 2
// CHECK-NEXT: }
func.func @delta_in_one_launch(
    %x: tensor<4x32xbf16> {lm.port = "x"},
    %a: tensor<4x2xf32> {lm.port = "a"},
    %z: tensor<4x16xbf16> {lm.port = "z"}, %n: tensor<1xi32> {lm.port = "n"},
    %c: !lm.conv_cache<taps = 4, channels = 32, pending = 4> {lm.state = "c"},
    %d: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4> {lm.state = "d"})
    -> (tensor<4x16xbf16> {lm.port = "y"},
        !lm.conv_cache<taps = 4, channels = 32, pending = 4> {lm.state = "c"},
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4> {lm.state = "d"}) {
  %w = lm.weight "target", "conv" : tensor<32x1x4xbf16>
  %al = lm.weight "target", "a_log" : tensor<2xf32>
  %dt = lm.weight "target", "dt_bias" : tensor<2xf32>
  %norm = lm.weight "target", "norm" : tensor<8xf32>
  %q, %k, %v, %g, %beta, %c1 = lm.delta_inputs %x, %a, %a, %w, %al, %dt, %c
      keep %n {eps = 1.0e-6 : f32, key_dim = 8 : i64}
      : (tensor<4x32xbf16>, tensor<4x2xf32>, tensor<4x2xf32>,
         tensor<32x1x4xbf16>, tensor<2xf32>, tensor<2xf32>,
         !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
      -> (tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4x16xbf16>, tensor<4x2xf32>,
          tensor<4x2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
  %y, %d1 = lm.gated_delta %q, %k, %v, %g, %beta, %d keep %n
      norm(%z, %norm : tensor<4x16xbf16>, tensor<8xf32>)
      {lm.makes_inputs, norm_eps = 1.0e-5 : f32, scale = 0.5 : f32}
      : tensor<4x8xbf16>, tensor<4x16xbf16>, tensor<4x2xf32>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
  return %y, %c1, %d1 : tensor<4x16xbf16>,
      !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
      !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
}

// -----

// Without the mark there are two.
// CHECK: plan.program @delta_in_two_launches
// CHECK: plan.launch @delta_inputs_
// CHECK: plan.launch @gated_delta_
func.func @delta_in_two_launches(
    %x: tensor<4x32xbf16> {lm.port = "x"},
    %a: tensor<4x2xf32> {lm.port = "a"},
    %z: tensor<4x16xbf16> {lm.port = "z"}, %n: tensor<1xi32> {lm.port = "n"},
    %c: !lm.conv_cache<taps = 4, channels = 32, pending = 4> {lm.state = "c"},
    %d: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4> {lm.state = "d"})
    -> (tensor<4x16xbf16> {lm.port = "y"},
        !lm.conv_cache<taps = 4, channels = 32, pending = 4> {lm.state = "c"},
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4> {lm.state = "d"}) {
  %w = lm.weight "target", "conv" : tensor<32x1x4xbf16>
  %al = lm.weight "target", "a_log" : tensor<2xf32>
  %dt = lm.weight "target", "dt_bias" : tensor<2xf32>
  %norm = lm.weight "target", "norm" : tensor<8xf32>
  %q, %k, %v, %g, %beta, %c1 = lm.delta_inputs %x, %a, %a, %w, %al, %dt, %c
      keep %n {eps = 1.0e-6 : f32, key_dim = 8 : i64}
      : (tensor<4x32xbf16>, tensor<4x2xf32>, tensor<4x2xf32>,
         tensor<32x1x4xbf16>, tensor<2xf32>, tensor<2xf32>,
         !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
      -> (tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<4x16xbf16>, tensor<4x2xf32>,
          tensor<4x2xf32>, !lm.conv_cache<taps = 4, channels = 32, pending = 4>)
  %y, %d1 = lm.gated_delta %q, %k, %v, %g, %beta, %d keep %n
      norm(%z, %norm : tensor<4x16xbf16>, tensor<8xf32>)
      {norm_eps = 1.0e-5 : f32, scale = 0.5 : f32}
      : tensor<4x8xbf16>, tensor<4x16xbf16>, tensor<4x2xf32>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
  return %y, %c1, %d1 : tensor<4x16xbf16>,
      !lm.conv_cache<taps = 4, channels = 32, pending = 4>,
      !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 8, value_dim = 8, pending = 4>
}

// -----

// A mark where one launch cannot do both: a lane makes eight numbers of a head.
func.func @delta_of_odd_heads(
    %x: tensor<4x40xbf16> {lm.port = "x"},
    %a: tensor<4x2xf32> {lm.port = "a"},
    %z: tensor<4x16xbf16> {lm.port = "z"}, %n: tensor<1xi32> {lm.port = "n"},
    %c: !lm.conv_cache<taps = 4, channels = 40, pending = 4> {lm.state = "c"},
    %d: !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 12, value_dim = 8, pending = 4> {lm.state = "d"})
    -> (tensor<4x16xbf16> {lm.port = "y"},
        !lm.conv_cache<taps = 4, channels = 40, pending = 4> {lm.state = "c"},
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 12, value_dim = 8, pending = 4> {lm.state = "d"}) {
  %w = lm.weight "target", "conv" : tensor<40x1x4xbf16>
  %al = lm.weight "target", "a_log" : tensor<2xf32>
  %dt = lm.weight "target", "dt_bias" : tensor<2xf32>
  %norm = lm.weight "target", "norm" : tensor<8xf32>
  %q, %k, %v, %g, %beta, %c1 = lm.delta_inputs %x, %a, %a, %w, %al, %dt, %c
      keep %n {eps = 1.0e-6 : f32, key_dim = 12 : i64}
      : (tensor<4x40xbf16>, tensor<4x2xf32>, tensor<4x2xf32>,
         tensor<40x1x4xbf16>, tensor<2xf32>, tensor<2xf32>,
         !lm.conv_cache<taps = 4, channels = 40, pending = 4>)
      -> (tensor<4x12xbf16>, tensor<4x12xbf16>, tensor<4x16xbf16>, tensor<4x2xf32>,
          tensor<4x2xf32>, !lm.conv_cache<taps = 4, channels = 40, pending = 4>)
  // expected-error @below {{cannot make what it reads in one launch}}
  %y, %d1 = lm.gated_delta %q, %k, %v, %g, %beta, %d keep %n
      norm(%z, %norm : tensor<4x16xbf16>, tensor<8xf32>)
      {lm.makes_inputs, norm_eps = 1.0e-5 : f32, scale = 0.5 : f32}
      : tensor<4x12xbf16>, tensor<4x16xbf16>, tensor<4x2xf32>,
        !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 12, value_dim = 8, pending = 4>
  return %y, %c1, %d1 : tensor<4x16xbf16>,
      !lm.conv_cache<taps = 4, channels = 40, pending = 4>,
      !lm.delta_cache<heads = 2, key_heads = 1, key_dim = 12, value_dim = 8, pending = 4>
}
