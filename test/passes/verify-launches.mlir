// RUN: qopt %s --plan-assign-buffers --plan-verify --split-input-file \
// RUN:   --verify-diagnostics

// The part of plan-verify that is in KernelContract.cpp: every message once,
// and something wrong for every family. A program is named after its fault.

// Every family, with what KernelFamilies.cpp says it takes.
module {
  %in_4xi32 = plan.port "in_4xi32" : memref<4xi32>
  %interleaved_20x8 = plan.weight "interleaved_20x8" from "target" ["t"]
      packing(#plan.interleaved<outputs = 20, columns = 8, element = bf16>) : memref<512xi8>
  %out_4x8xf32 = plan.port "out_4x8xf32" : memref<4x8xf32>
  %in_4x8xf32 = plan.port "in_4x8xf32" : memref<4x8xf32>
  %out_4x20xf32 = plan.port "out_4x20xf32" : memref<4x20xf32>
  %in_4x64xf32 = plan.port "in_4x64xf32" : memref<4x64xf32>
  %interleaved_codes_20x64 = plan.weight "interleaved_codes_20x64" from "target" ["t", "t"]
      packing(#plan.interleaved_codes<outputs = 20, columns = 64, bits = 4, group = 32, scale = bf16>) : memref<1152xi8>
  %in_4x16xf32 = plan.port "in_4x16xf32" : memref<4x16xf32>
  %vector_8 = plan.weight "vector_8" from "target" ["t"]
      packing(#plan.vector<length = 8>) : memref<32xi8>
  %out_4x16xf32 = plan.port "out_4x16xf32" : memref<4x16xf32>
  %in1_4x16xf32 = plan.port "in1_4x16xf32" : memref<4x16xf32>
  %in1_4x8xf32 = plan.port "in1_4x8xf32" : memref<4x8xf32>
  %in_1xi32 = plan.port "in_1xi32" : memref<1xi32>
  %out_1x8xf32 = plan.port "out_1x8xf32" : memref<1x8xf32>
  %in_5x8xf32 = plan.port "in_5x8xf32" : memref<5x8xf32>
  %in_4x12xf32 = plan.port "in_4x12xf32" : memref<4x12xf32>
  %out_4x4xf32 = plan.port "out_4x4xf32" : memref<4x4xf32>
  %in_4x4xf32 = plan.port "in_4x4xf32" : memref<4x4xf32>
  %out_4x12xf32 = plan.port "out_4x12xf32" : memref<4x12xf32>
  %rope_table_32x4 = plan.weight "rope_table_32x4" from "target" []
      packing(#plan.rope_table<positions = 32, dims = 4, theta = 1.0e5 : f64>) : memref<512xi8>
  %out_2x2x32x8xf32 = plan.port "out_2x2x32x8xf32" : memref<2x2x32x8xf32>
  %in_4x32xf32 = plan.port "in_4x32xf32" : memref<4x32xf32>
  %in_2x2x32x8xf32 = plan.port "in_2x2x32x8xf32" : memref<2x2x32x8xf32>
  %out_4x32xf32 = plan.port "out_4x32xf32" : memref<4x32xf32>
  %in_4x20xf32 = plan.port "in_4x20xf32" : memref<4x20xf32>
  %taps_3x20 = plan.weight "taps_3x20" from "target" ["t"]
      packing(#plan.taps<taps = 3, channels = 20>) : memref<240xi8>
  %out_6x20xf32 = plan.port "out_6x20xf32" : memref<6x20xf32>
  %vector_4 = plan.weight "vector_4" from "target" ["t"]
      packing(#plan.vector<length = 4>) : memref<16xi8>
  %in_4x80xf32 = plan.port "in_4x80xf32" : memref<4x80xf32>
  %in1_4x4xf32 = plan.port "in1_4x4xf32" : memref<4x4xf32>
  %out_4x80xf32 = plan.port "out_4x80xf32" : memref<4x80xf32>
  %out_1440xf32 = plan.port "out_1440xf32" : memref<1440xf32>
  %out_4xi32 = plan.port "out_4xi32" : memref<4xi32>
  %in_3x8xf32 = plan.port "in_3x8xf32" : memref<3x8xf32>
  %in_3xi32 = plan.port "in_3xi32" : memref<3xi32>
  %in1_4xi32 = plan.port "in1_4xi32" : memref<4xi32>
  %out_1xi32 = plan.port "out_1xi32" : memref<1xi32>
  %out1_1xi32 = plan.port "out1_1xi32" : memref<1xi32>
  %out2_1xi32 = plan.port "out2_1xi32" : memref<1xi32>
  %out3_1xi32 = plan.port "out3_1xi32" : memref<1xi32>
  %in_4x2xf32 = plan.port "in_4x2xf32" : memref<4x2xf32>
  %out_8xi32 = plan.port "out_8xi32" : memref<8xi32>
  %interleaved_codes_8x64 = plan.weight "interleaved_codes_8x64" from "target" ["t", "t"]
      packing(#plan.interleaved_codes<outputs = 8, columns = 64, bits = 4, group = 32, scale = bf16>) : memref<576xi8>
  %in_4x52xf32 = plan.port "in_4x52xf32" : memref<4x52xf32>
  %taps_3x52 = plan.weight "taps_3x52" from "target" ["t"]
      packing(#plan.taps<taps = 3, channels = 52>) : memref<624xi8>
  %out1_4x16xf32 = plan.port "out1_4x16xf32" : memref<4x16xf32>
  %out1_4x4xf32 = plan.port "out1_4x4xf32" : memref<4x4xf32>
  %out_4x52xf32 = plan.port "out_4x52xf32" : memref<4x52xf32>
  %interleaved_200x8 = plan.weight "interleaved_200x8" from "target" ["t"]
      packing(#plan.interleaved<outputs = 200, columns = 8, element = bf16>) : memref<3328xi8>
  %out_4x2xf32 = plan.port "out_4x2xf32" : memref<4x2xf32>
  %out_4x2xi32 = plan.port "out_4x2xi32" : memref<4x2xi32>
  %in_4x2xi32 = plan.port "in_4x2xi32" : memref<4x2xi32>
  %in1_1xi32 = plan.port "in1_1xi32" : memref<1xi32>
  plan.kernel @embed_kernel embed
      {columns = 8 : i64, element = bf16, scale_by = 1.0 : f32,
       vocabulary = 20 : i64}
  plan.kernel @linear_kernel linear
      {columns = 8 : i64, element = bf16, outputs = 20 : i64}
  plan.kernel @quant_linear_kernel quant_linear
      {bits = 4 : i64, columns = 64 : i64, group = 32 : i64,
       outputs = 20 : i64, scale = bf16}
  plan.kernel @rms_norm_kernel rms_norm
      {columns = 16 : i64, dim = 8 : i64, eps = 1.0e-6 : f32,
       offset = 1.0 : f32}
  plan.kernel @gated_rms_norm_kernel gated_rms_norm
      {columns = 16 : i64, dim = 8 : i64, eps = 1.0e-6 : f32}
  plan.kernel @l2_norm_kernel l2_norm
      {columns = 16 : i64, dim = 8 : i64, eps = 1.0e-6 : f32}
  plan.kernel @silu_kernel silu {columns = 8 : i64}
  plan.kernel @sigmoid_kernel sigmoid {columns = 8 : i64}
  plan.kernel @add_kernel add {columns = 8 : i64}
  plan.kernel @mul_kernel mul {columns = 8 : i64}
  plan.kernel @last_row_kernel last_row {columns = 8 : i64}
  plan.kernel @drop_rows_kernel drop_rows {columns = 8 : i64, first = 1 : i64}
  plan.kernel @split_kernel split
      {groups = 2 : i64, widths = array<i64: 8, 4>}
  plan.kernel @concat_features_kernel concat_features {widths = array<i64: 8, 4>}
  plan.kernel @rope_kernel rope
      {columns = 16 : i64, dims = 4 : i64, head_dim = 8 : i64,
       positions = 32 : i64}
  plan.kernel @cache_append_kernel cache_append
      {dim = 8 : i64, heads = 2 : i64, slots = 32 : i64}
  plan.kernel @attention_kernel attention
      {causal = 1 : i64, dim = 8 : i64, heads = 2 : i64,
       query_heads = 4 : i64, scale_by = 1.0 : f32, slots = 32 : i64,
       window = 0 : i64}
  plan.kernel @short_conv_kernel short_conv
      {channels = 20 : i64, commit = 0 : i64, pending = 4 : i64,
       taps = 3 : i64}
  plan.kernel @delta_gate_kernel delta_gate {columns = 4 : i64}
  plan.kernel @gated_delta_kernel gated_delta
      {commit = 0 : i64, heads = 4 : i64, key_dim = 8 : i64,
       key_heads = 2 : i64, pending = 4 : i64, scale_by = 1.0 : f32,
       value_dim = 20 : i64}
  plan.kernel @delta_save_kernel delta_save
      {heads = 4 : i64, key_dim = 8 : i64, key_heads = 2 : i64,
       pending = 4 : i64, value_dim = 20 : i64}
  plan.kernel @argmax_kernel argmax {columns = 8 : i64}
  plan.kernel @mask_block_kernel mask_block {mask_token = 7 : i64, size = 4 : i64}
  plan.kernel @unmask_kernel unmask
      {columns = 8 : i64, fill = 2 : i64, mask_token = 7 : i64,
       size = 4 : i64}
  plan.kernel @concat_tokens_kernel concat_tokens {left = 1 : i64, right = 3 : i64}
  plan.kernel @accept_kernel accept {}
  plan.kernel @copy_kernel copy {bytes = 32 : i64}
  plan.kernel @fused_linear_kernel fused_linear
      {columns = 8 : i64, element = bf16, eps = 1.0e-6 : f32,
       gated = 1 : i64, norm = 1 : i64, offset = 1.0 : f32,
       residual = 1 : i64, widths = array<i64: 20, 20>}
  plan.kernel @fused_quant_linear_kernel fused_quant_linear
      {bits = 4 : i64, columns = 64 : i64, eps = 0.0 : f32, gated = 0 : i64,
       group = 32 : i64, norm = 0 : i64, offset = 0.0 : f32,
       residual = 0 : i64, scale = bf16, widths = array<i64: 20, 8>}
  plan.kernel @delta_inputs_kernel delta_inputs
      {channels = 52 : i64, commit = 1 : i64, eps = 1.0e-6 : f32,
       heads = 4 : i64, key_dim = 8 : i64, key_heads = 2 : i64,
       pending = 2 : i64, taps = 3 : i64}
  plan.kernel @head_argmax_kernel head_argmax
      {columns = 8 : i64, element = bf16, outputs = 200 : i64}
  plan.kernel @argmax_parts_kernel argmax_parts {parts = 2 : i64}
  plan.kernel @last_position_kernel last_position {}
  plan.program @every_family() -> () {
    plan.launch @embed_kernel
        ins(%in_4xi32, %interleaved_20x8 : memref<4xi32>, memref<512xi8>)
        outs(%out_4x8xf32 : memref<4x8xf32>)
        rows 4 items 1 per_row
    plan.launch @linear_kernel
        ins(%in_4x8xf32, %interleaved_20x8 : memref<4x8xf32>, memref<512xi8>)
        outs(%out_4x20xf32 : memref<4x20xf32>)
        rows 4 items 2
    plan.launch @quant_linear_kernel
        ins(%in_4x64xf32, %interleaved_codes_20x64
             : memref<4x64xf32>, memref<1152xi8>)
        outs(%out_4x20xf32 : memref<4x20xf32>)
        rows 4 items 2
    plan.launch @rms_norm_kernel
        ins(%in_4x16xf32, %vector_8 : memref<4x16xf32>, memref<32xi8>)
        outs(%out_4x16xf32 : memref<4x16xf32>)
        rows 4 items 1 per_row
    plan.launch @gated_rms_norm_kernel
        ins(%in_4x16xf32, %in1_4x16xf32, %vector_8
             : memref<4x16xf32>, memref<4x16xf32>, memref<32xi8>)
        outs(%out_4x16xf32 : memref<4x16xf32>)
        rows 4 items 1 per_row
    plan.launch @l2_norm_kernel
        ins(%in_4x16xf32 : memref<4x16xf32>)
        outs(%out_4x16xf32 : memref<4x16xf32>)
        rows 4 items 1 per_row
    plan.launch @silu_kernel
        ins(%in_4x8xf32 : memref<4x8xf32>)
        outs(%out_4x8xf32 : memref<4x8xf32>)
        rows 4 items 1 per_row
    plan.launch @sigmoid_kernel
        ins(%in_4x8xf32 : memref<4x8xf32>)
        outs(%out_4x8xf32 : memref<4x8xf32>)
        rows 4 items 1 per_row
    plan.launch @add_kernel
        ins(%in_4x8xf32, %in1_4x8xf32 : memref<4x8xf32>, memref<4x8xf32>)
        outs(%out_4x8xf32 : memref<4x8xf32>)
        rows 4 items 1 per_row
    plan.launch @mul_kernel
        ins(%in_4x8xf32, %in1_4x8xf32 : memref<4x8xf32>, memref<4x8xf32>)
        outs(%out_4x8xf32 : memref<4x8xf32>)
        rows 4 items 1 per_row
    plan.launch @last_row_kernel
        ins(%in_4x8xf32, %in_1xi32 : memref<4x8xf32>, memref<1xi32>)
        outs(%out_1x8xf32 : memref<1x8xf32>)
        rows 4 items 1
    plan.launch @drop_rows_kernel
        ins(%in_5x8xf32 : memref<5x8xf32>)
        outs(%out_4x8xf32 : memref<4x8xf32>)
        rows 4 items 1 per_row
    plan.launch @split_kernel
        ins(%in_4x12xf32 : memref<4x12xf32>)
        outs(%out_4x8xf32, %out_4x4xf32 : memref<4x8xf32>, memref<4x4xf32>)
        rows 4 items 1 per_row
    plan.launch @concat_features_kernel
        ins(%in_4x8xf32, %in_4x4xf32 : memref<4x8xf32>, memref<4x4xf32>)
        outs(%out_4x12xf32 : memref<4x12xf32>)
        rows 4 items 1 per_row
    plan.launch @rope_kernel
        ins(%in_4x16xf32, %in_1xi32, %rope_table_32x4
             : memref<4x16xf32>, memref<1xi32>, memref<512xi8>)
        outs(%out_4x16xf32 : memref<4x16xf32>)
        rows 4 items 1 per_row
    plan.launch @cache_append_kernel
        ins(%in_4x16xf32, %in1_4x16xf32, %in_1xi32
             : memref<4x16xf32>, memref<4x16xf32>, memref<1xi32>)
        outs(%out_2x2x32x8xf32 : memref<2x2x32x8xf32>)
        rows 4 items 2
    plan.launch @attention_kernel
        ins(%in_4x32xf32, %in_2x2x32x8xf32, %in_1xi32
             : memref<4x32xf32>, memref<2x2x32x8xf32>, memref<1xi32>)
        outs(%out_4x32xf32 : memref<4x32xf32>)
        rows 4 items 4 per_row
    plan.launch @short_conv_kernel
        ins(%in_4x20xf32, %taps_3x20, %in_1xi32
             : memref<4x20xf32>, memref<240xi8>, memref<1xi32>)
        outs(%out_4x20xf32, %out_6x20xf32 : memref<4x20xf32>, memref<6x20xf32>)
        rows 4 items 2
    plan.launch @delta_gate_kernel
        ins(%in_4x4xf32, %vector_4, %vector_4
             : memref<4x4xf32>, memref<16xi8>, memref<16xi8>)
        outs(%out_4x4xf32 : memref<4x4xf32>)
        rows 4 items 1 per_row
    plan.launch @gated_delta_kernel
        ins(%in_4x16xf32, %in1_4x16xf32, %in_4x80xf32, %in_4x4xf32, %in1_4x4xf32, %in_1xi32
             : memref<4x16xf32>, memref<4x16xf32>, memref<4x80xf32>, memref<4x4xf32>, memref<4x4xf32>, memref<1xi32>)
        outs(%out_4x80xf32, %out_1440xf32 : memref<4x80xf32>, memref<1440xf32>)
        rows 4 items 8
    plan.launch @delta_save_kernel
        ins(%in_4x16xf32, %in_4x80xf32, %in_4x4xf32, %in1_4x4xf32
             : memref<4x16xf32>, memref<4x80xf32>, memref<4x4xf32>, memref<4x4xf32>)
        outs(%out_1440xf32 : memref<1440xf32>)
        rows 4 items 1 per_row
    plan.launch @argmax_kernel
        ins(%in_4x8xf32 : memref<4x8xf32>)
        outs(%out_4xi32 : memref<4xi32>)
        rows 4 items 1 per_row
    plan.launch @mask_block_kernel
        ins(%in_1xi32 : memref<1xi32>)
        outs(%out_4xi32 : memref<4xi32>)
        rows 1 items 1
    plan.launch @unmask_kernel
        ins(%in_4xi32, %in_3x8xf32 : memref<4xi32>, memref<3x8xf32>)
        outs(%out_4xi32 : memref<4xi32>)
        rows 1 items 1
    plan.launch @concat_tokens_kernel
        ins(%in_1xi32, %in_3xi32 : memref<1xi32>, memref<3xi32>)
        outs(%out_4xi32 : memref<4xi32>)
        rows 1 items 1
    plan.launch @accept_kernel
        ins(%in_4xi32, %in1_4xi32, %in_1xi32
             : memref<4xi32>, memref<4xi32>, memref<1xi32>)
        outs(%out_1xi32, %out1_1xi32, %out2_1xi32, %out3_1xi32
             : memref<1xi32>, memref<1xi32>, memref<1xi32>, memref<1xi32>)
        rows 4 items 1
    plan.launch @copy_kernel
        ins(%in_4x2xf32 : memref<4x2xf32>)
        outs(%out_8xi32 : memref<8xi32>)
        rows 1 items 1
    plan.launch @fused_linear_kernel
        ins(%in_4x8xf32, %interleaved_20x8, %interleaved_20x8, %vector_8, %in_4x20xf32
             : memref<4x8xf32>, memref<512xi8>, memref<512xi8>, memref<32xi8>, memref<4x20xf32>)
        outs(%out_4x20xf32 : memref<4x20xf32>)
        rows 4 items 2
    plan.launch @fused_quant_linear_kernel
        ins(%in_4x64xf32, %interleaved_codes_20x64, %interleaved_codes_8x64
             : memref<4x64xf32>, memref<1152xi8>, memref<576xi8>)
        outs(%out_4x20xf32, %out_4x8xf32 : memref<4x20xf32>, memref<4x8xf32>)
        rows 4 items 3
    plan.launch @delta_inputs_kernel
        ins(%in_4x52xf32, %in_4x4xf32, %in1_4x4xf32, %taps_3x52, %vector_4, %vector_4, %in_1xi32
             : memref<4x52xf32>, memref<4x4xf32>, memref<4x4xf32>, memref<624xi8>, memref<16xi8>, memref<16xi8>, memref<1xi32>)
        outs(%out_4x16xf32, %out1_4x16xf32, %out_4x20xf32, %out_4x4xf32, %out1_4x4xf32, %out_4x52xf32
             : memref<4x16xf32>, memref<4x16xf32>, memref<4x20xf32>, memref<4x4xf32>, memref<4x4xf32>, memref<4x52xf32>)
        rows 4 items 7
    plan.launch @head_argmax_kernel
        ins(%in_4x8xf32, %interleaved_200x8 : memref<4x8xf32>, memref<3328xi8>)
        outs(%out_4x2xf32, %out_4x2xi32 : memref<4x2xf32>, memref<4x2xi32>)
        rows 4 items 2
    plan.launch @argmax_parts_kernel
        ins(%in_4x2xf32, %in_4x2xi32 : memref<4x2xf32>, memref<4x2xi32>)
        outs(%out_4xi32 : memref<4xi32>)
        rows 4 items 1 per_row
    plan.launch @last_position_kernel
        ins(%in_1xi32, %in1_1xi32 : memref<1xi32>, memref<1xi32>)
        outs(%out_1xi32 : memref<1xi32>)
        rows 1 items 1
  }
}

// -----

// Activations in bf16, weights and states in the layouts of GPUs.
module attributes {plan.arch = "sm_86"} {
  %in_4xi32 = plan.port "in_4xi32" : memref<4xi32>
  %rows_20x8 = plan.weight "rows_20x8" from "target" ["t"]
      packing(#plan.rows<outputs = 20, columns = 8, element = bf16>) : memref<320xi8>
  %out_4x8xbf16 = plan.port "out_4x8xbf16" : memref<4x8xbf16>
  %in_4x8xbf16 = plan.port "in_4x8xbf16" : memref<4x8xbf16>
  %out_4x20xf32 = plan.port "out_4x20xf32" : memref<4x20xf32>
  %in_4x64xbf16 = plan.port "in_4x64xbf16" : memref<4x64xbf16>
  %fragment_codes_20x64 = plan.weight "fragment_codes_20x64" from "target" ["t", "t"]
      packing(#plan.fragment_codes<outputs = 20, columns = 64, bits = 4, group = 32, scale = bf16>) : memref<2304xi8>
  %out_4x20xbf16 = plan.port "out_4x20xbf16" : memref<4x20xbf16>
  %in_4x32xbf16 = plan.port "in_4x32xbf16" : memref<4x32xbf16>
  %in_2x2x32x8xbf16 = plan.port "in_2x2x32x8xbf16" : memref<2x2x32x8xbf16>
  %in_1xi32 = plan.port "in_1xi32" : memref<1xi32>
  %out_4x32xbf16 = plan.port "out_4x32xbf16" : memref<4x32xbf16>
  %in_4x20xbf16 = plan.port "in_4x20xbf16" : memref<4x20xbf16>
  %taps_3x20 = plan.weight "taps_3x20" from "target" ["t"]
      packing(#plan.taps<taps = 3, channels = 20>) : memref<240xi8>
  %out_6x20xbf16 = plan.port "out_6x20xbf16" : memref<6x20xbf16>
  %in_4x4xbf16 = plan.port "in_4x4xbf16" : memref<4x4xbf16>
  %vector_4 = plan.weight "vector_4" from "target" ["t"]
      packing(#plan.vector<length = 4>) : memref<16xi8>
  %out_4x4xf32 = plan.port "out_4x4xf32" : memref<4x4xf32>
  %in_4x5xbf16 = plan.port "in_4x5xbf16" : memref<4x5xbf16>
  %in1_4x5xbf16 = plan.port "in1_4x5xbf16" : memref<4x5xbf16>
  %in_4x21xbf16 = plan.port "in_4x21xbf16" : memref<4x21xbf16>
  %in_4x3xf32 = plan.port "in_4x3xf32" : memref<4x3xf32>
  %in1_4x3xf32 = plan.port "in1_4x3xf32" : memref<4x3xf32>
  %out_4x21xbf16 = plan.port "out_4x21xbf16" : memref<4x21xbf16>
  %out_804xi8 = plan.port "out_804xi8" : memref<804xi8>
  plan.kernel @embed_kernel embed
      {activations = bf16, columns = 8 : i64, element = bf16,
       scale_by = 1.0 : f32, vocabulary = 20 : i64}
  plan.kernel @linear_kernel linear
      {activations = bf16, columns = 8 : i64, element = bf16,
       outputs = 20 : i64, result = f32}
  plan.kernel @quant_linear_kernel quant_linear
      {activations = bf16, bits = 4 : i64, columns = 64 : i64,
       group = 32 : i64, outputs = 20 : i64, row_tile = 64 : i64,
       scale = bf16}
  plan.kernel @attention_kernel attention
      {activations = bf16, causal = 1 : i64, dim = 8 : i64, heads = 2 : i64,
       query_heads = 4 : i64, scale_by = 1.0 : f32, slots = 32 : i64,
       window = 0 : i64}
  plan.kernel @short_conv_kernel short_conv
      {activations = bf16, channels = 20 : i64, commit = 0 : i64,
       pending = 4 : i64, taps = 3 : i64}
  plan.kernel @delta_gate_kernel delta_gate {activations = bf16, columns = 4 : i64}
  plan.kernel @gated_delta_kernel gated_delta
      {activations = bf16, commit = 0 : i64, heads = 3 : i64,
       key_dim = 5 : i64, key_heads = 1 : i64, pending = 5 : i64,
       scale_by = 1.0 : f32, value_dim = 7 : i64}
  plan.program @where_gpus_differ() -> () {
    plan.launch @embed_kernel
        ins(%in_4xi32, %rows_20x8 : memref<4xi32>, memref<320xi8>)
        outs(%out_4x8xbf16 : memref<4x8xbf16>)
        rows 4 items 1 per_row
    plan.launch @linear_kernel
        ins(%in_4x8xbf16, %rows_20x8 : memref<4x8xbf16>, memref<320xi8>)
        outs(%out_4x20xf32 : memref<4x20xf32>)
        rows 4 items 2
    plan.launch @quant_linear_kernel
        ins(%in_4x64xbf16, %fragment_codes_20x64
             : memref<4x64xbf16>, memref<2304xi8>)
        outs(%out_4x20xbf16 : memref<4x20xbf16>)
        rows 4 items 2
    plan.launch @attention_kernel
        ins(%in_4x32xbf16, %in_2x2x32x8xbf16, %in_1xi32
             : memref<4x32xbf16>, memref<2x2x32x8xbf16>, memref<1xi32>)
        outs(%out_4x32xbf16 : memref<4x32xbf16>)
        rows 4 items 4 per_row
    plan.launch @short_conv_kernel
        ins(%in_4x20xbf16, %taps_3x20, %in_1xi32
             : memref<4x20xbf16>, memref<240xi8>, memref<1xi32>)
        outs(%out_4x20xbf16, %out_6x20xbf16
             : memref<4x20xbf16>, memref<6x20xbf16>)
        rows 4 items 2
    plan.launch @delta_gate_kernel
        ins(%in_4x4xbf16, %vector_4, %vector_4
             : memref<4x4xbf16>, memref<16xi8>, memref<16xi8>)
        outs(%out_4x4xf32 : memref<4x4xf32>)
        rows 4 items 1 per_row
    plan.launch @gated_delta_kernel
        ins(%in_4x5xbf16, %in1_4x5xbf16, %in_4x21xbf16, %in_4x3xf32, %in1_4x3xf32, %in_1xi32
             : memref<4x5xbf16>, memref<4x5xbf16>, memref<4x21xbf16>, memref<4x3xf32>, memref<4x3xf32>, memref<1xi32>)
        outs(%out_4x21xbf16, %out_804xi8 : memref<4x21xbf16>, memref<804xi8>)
        rows 4 items 3
  }
}

// -----

// An operand that is wrong for every family, then numbers of operands, items and rows.
module {
  %in_5xi32 = plan.port "in_5xi32" : memref<5xi32>
  %interleaved_20x8 = plan.weight "interleaved_20x8" from "target" ["t"]
      packing(#plan.interleaved<outputs = 20, columns = 8, element = bf16>) : memref<512xi8>
  %out_4x8xf32 = plan.port "out_4x8xf32" : memref<4x8xf32>
  %in_4x8xf32 = plan.port "in_4x8xf32" : memref<4x8xf32>
  %interleaved_20x4 = plan.weight "interleaved_20x4" from "target" ["t"]
      packing(#plan.interleaved<outputs = 20, columns = 4, element = bf16>) : memref<256xi8>
  %out_4x20xf32 = plan.port "out_4x20xf32" : memref<4x20xf32>
  %in_4x64xf32 = plan.port "in_4x64xf32" : memref<4x64xf32>
  %interleaved_codes_20x64 = plan.weight "interleaved_codes_20x64" from "target" ["t", "t"]
      packing(#plan.interleaved_codes<outputs = 20, columns = 64, bits = 4, group = 16, scale = bf16>) : memref<1280xi8>
  %in_4x16xf32 = plan.port "in_4x16xf32" : memref<4x16xf32>
  %in_8xf32 = plan.port "in_8xf32" : memref<8xf32>
  %out_4x16xf32 = plan.port "out_4x16xf32" : memref<4x16xf32>
  %vector_8 = plan.weight "vector_8" from "target" ["t"]
      packing(#plan.vector<length = 8>) : memref<32xi8>
  %out_5x8xf32 = plan.port "out_5x8xf32" : memref<5x8xf32>
  %out_4x8xbf16 = plan.port "out_4x8xbf16" : memref<4x8xbf16>
  %in_4x4xf32 = plan.port "in_4x4xf32" : memref<4x4xf32>
  %in1_4x8xf32 = plan.port "in1_4x8xf32" : memref<4x8xf32>
  %out_4x9xf32 = plan.port "out_4x9xf32" : memref<4x9xf32>
  %in_4x9xf32 = plan.port "in_4x9xf32" : memref<4x9xf32>
  %in_1xi32 = plan.port "in_1xi32" : memref<1xi32>
  %out_1x8xf32 = plan.port "out_1x8xf32" : memref<1x8xf32>
  %in_4x12xf32 = plan.port "in_4x12xf32" : memref<4x12xf32>
  %out1_4x8xf32 = plan.port "out1_4x8xf32" : memref<4x8xf32>
  %rope_table_16x4 = plan.weight "rope_table_16x4" from "target" []
      packing(#plan.rope_table<positions = 16, dims = 4, theta = 1.0e5 : f64>) : memref<256xi8>
  %in1_4x16xf32 = plan.port "in1_4x16xf32" : memref<4x16xf32>
  %out_2x2x16x8xf32 = plan.port "out_2x2x16x8xf32" : memref<2x2x16x8xf32>
  %in_4x32xf32 = plan.port "in_4x32xf32" : memref<4x32xf32>
  %in_2x2x32x8xbf16 = plan.port "in_2x2x32x8xbf16" : memref<2x2x32x8xbf16>
  %out_4x32xf32 = plan.port "out_4x32xf32" : memref<4x32xf32>
  %in_4x20xf32 = plan.port "in_4x20xf32" : memref<4x20xf32>
  %taps_3x20 = plan.weight "taps_3x20" from "target" ["t"]
      packing(#plan.taps<taps = 3, channels = 20>) : memref<240xi8>
  %out1_4x20xf32 = plan.port "out1_4x20xf32" : memref<4x20xf32>
  %vector_4 = plan.weight "vector_4" from "target" ["t"]
      packing(#plan.vector<length = 4>) : memref<16xi8>
  %out_4x4xf32 = plan.port "out_4x4xf32" : memref<4x4xf32>
  %in_4x80xf32 = plan.port "in_4x80xf32" : memref<4x80xf32>
  %in_4x2xf32 = plan.port "in_4x2xf32" : memref<4x2xf32>
  %out_4x80xf32 = plan.port "out_4x80xf32" : memref<4x80xf32>
  %out_1440xf32 = plan.port "out_1440xf32" : memref<1440xf32>
  %in1_4x4xf32 = plan.port "in1_4x4xf32" : memref<4x4xf32>
  %out_100xf32 = plan.port "out_100xf32" : memref<100xf32>
  %in_4x8xbf16 = plan.port "in_4x8xbf16" : memref<4x8xbf16>
  %out_4xi32 = plan.port "out_4xi32" : memref<4xi32>
  %out_5xi32 = plan.port "out_5xi32" : memref<5xi32>
  %in_4xi32 = plan.port "in_4xi32" : memref<4xi32>
  %in_3xi32 = plan.port "in_3xi32" : memref<3xi32>
  %out_3xi32 = plan.port "out_3xi32" : memref<3xi32>
  %out_1xi32 = plan.port "out_1xi32" : memref<1xi32>
  %out1_1xi32 = plan.port "out1_1xi32" : memref<1xi32>
  %out2_1xi32 = plan.port "out2_1xi32" : memref<1xi32>
  %out3_1xi32 = plan.port "out3_1xi32" : memref<1xi32>
  %interleaved_codes_20x64_1 = plan.weight "interleaved_codes_20x64_1" from "target" ["t", "t"]
      packing(#plan.interleaved_codes<outputs = 20, columns = 64, bits = 4, group = 32, scale = bf16>) : memref<1152xi8>
  %in_4x52xf32 = plan.port "in_4x52xf32" : memref<4x52xf32>
  %taps_3x52 = plan.weight "taps_3x52" from "target" ["t"]
      packing(#plan.taps<taps = 3, channels = 52>) : memref<624xi8>
  %out1_4x16xf32 = plan.port "out1_4x16xf32" : memref<4x16xf32>
  %out_4x36xf32 = plan.port "out_4x36xf32" : memref<4x36xf32>
  %out1_4x4xf32 = plan.port "out1_4x4xf32" : memref<4x4xf32>
  %out_4x52xf32 = plan.port "out_4x52xf32" : memref<4x52xf32>
  %interleaved_200x8 = plan.weight "interleaved_200x8" from "target" ["t"]
      packing(#plan.interleaved<outputs = 200, columns = 8, element = bf16>) : memref<3328xi8>
  %out_4x2xi32 = plan.port "out_4x2xi32" : memref<4x2xi32>
  %in1_4x2xf32 = plan.port "in1_4x2xf32" : memref<4x2xf32>
  %out_4x12xf32 = plan.port "out_4x12xf32" : memref<4x12xf32>
  %in_2x2x32x8xf32 = plan.port "in_2x2x32x8xf32" : memref<2x2x32x8xf32>
  %out_5x20xf32 = plan.port "out_5x20xf32" : memref<5x20xf32>
  %out_1336xf32 = plan.port "out_1336xf32" : memref<1336xf32>
  plan.kernel @embed_kernel embed
      {columns = 8 : i64, element = bf16, scale_by = 1.0 : f32,
       vocabulary = 20 : i64}
  plan.kernel @linear_kernel linear
      {columns = 8 : i64, element = bf16, outputs = 20 : i64}
  plan.kernel @quant_linear_kernel quant_linear
      {bits = 4 : i64, columns = 64 : i64, group = 32 : i64,
       outputs = 20 : i64, scale = bf16}
  plan.kernel @rms_norm_kernel rms_norm
      {columns = 16 : i64, dim = 8 : i64, eps = 1.0e-6 : f32,
       offset = 1.0 : f32}
  plan.kernel @gated_rms_norm_kernel gated_rms_norm
      {columns = 16 : i64, dim = 8 : i64, eps = 1.0e-6 : f32}
  plan.kernel @l2_norm_kernel l2_norm
      {columns = 16 : i64, dim = 8 : i64, eps = 1.0e-6 : f32}
  plan.kernel @silu_kernel silu {columns = 8 : i64}
  plan.kernel @sigmoid_kernel sigmoid {columns = 8 : i64}
  plan.kernel @add_kernel add {columns = 8 : i64}
  plan.kernel @mul_kernel mul {columns = 8 : i64}
  plan.kernel @last_row_kernel last_row {columns = 8 : i64}
  plan.kernel @drop_rows_kernel drop_rows {columns = 8 : i64, first = 1 : i64}
  plan.kernel @split_kernel split
      {groups = 2 : i64, widths = array<i64: 8, 4>}
  plan.kernel @concat_features_kernel concat_features {widths = array<i64: 8, 4>}
  plan.kernel @rope_kernel rope
      {columns = 16 : i64, dims = 4 : i64, head_dim = 8 : i64,
       positions = 32 : i64}
  plan.kernel @cache_append_kernel cache_append
      {dim = 8 : i64, heads = 2 : i64, slots = 32 : i64}
  plan.kernel @attention_kernel attention
      {causal = 1 : i64, dim = 8 : i64, heads = 2 : i64,
       query_heads = 4 : i64, scale_by = 1.0 : f32, slots = 32 : i64,
       window = 0 : i64}
  plan.kernel @short_conv_kernel short_conv
      {channels = 20 : i64, commit = 0 : i64, pending = 4 : i64,
       taps = 3 : i64}
  plan.kernel @delta_gate_kernel delta_gate {columns = 4 : i64}
  plan.kernel @gated_delta_kernel gated_delta
      {commit = 0 : i64, heads = 4 : i64, key_dim = 8 : i64,
       key_heads = 2 : i64, pending = 4 : i64, scale_by = 1.0 : f32,
       value_dim = 20 : i64}
  plan.kernel @delta_save_kernel delta_save
      {heads = 4 : i64, key_dim = 8 : i64, key_heads = 2 : i64,
       pending = 4 : i64, value_dim = 20 : i64}
  plan.kernel @argmax_kernel argmax {columns = 8 : i64}
  plan.kernel @mask_block_kernel mask_block {mask_token = 7 : i64, size = 4 : i64}
  plan.kernel @unmask_kernel unmask
      {columns = 8 : i64, fill = 2 : i64, mask_token = 7 : i64,
       size = 4 : i64}
  plan.kernel @concat_tokens_kernel concat_tokens {left = 1 : i64, right = 3 : i64}
  plan.kernel @accept_kernel accept {}
  plan.kernel @copy_kernel copy {bytes = 32 : i64}
  plan.kernel @fused_linear_kernel fused_linear
      {columns = 8 : i64, element = bf16, eps = 1.0e-6 : f32,
       gated = 1 : i64, norm = 1 : i64, offset = 1.0 : f32,
       residual = 1 : i64, widths = array<i64: 20, 20>}
  plan.kernel @fused_quant_linear_kernel fused_quant_linear
      {bits = 4 : i64, columns = 64 : i64, eps = 0.0 : f32, gated = 0 : i64,
       group = 32 : i64, norm = 0 : i64, offset = 0.0 : f32,
       residual = 0 : i64, scale = bf16, widths = array<i64: 20, 8>}
  plan.kernel @delta_inputs_kernel delta_inputs
      {channels = 52 : i64, commit = 1 : i64, eps = 1.0e-6 : f32,
       heads = 4 : i64, key_dim = 8 : i64, key_heads = 2 : i64,
       pending = 2 : i64, taps = 3 : i64}
  plan.kernel @head_argmax_kernel head_argmax
      {columns = 8 : i64, element = bf16, outputs = 200 : i64}
  plan.kernel @argmax_parts_kernel argmax_parts {parts = 2 : i64}
  plan.kernel @last_position_kernel last_position {}
  plan.kernel @short_conv_kernel_1 short_conv
      {channels = 20 : i64, commit = 0 : i64, pending = 3 : i64,
       taps = 3 : i64}
  plan.kernel @delta_save_kernel_1 delta_save
      {heads = 4 : i64, key_dim = 8 : i64, key_heads = 2 : i64,
       pending = 3 : i64, value_dim = 20 : i64}
  plan.program @something_is_wrong() -> () {
    // expected-error @below {{expects input 0 to be 'memref<4xi32>', but got 'memref<5xi32>'}}
    plan.launch @embed_kernel
        ins(%in_5xi32, %interleaved_20x8 : memref<5xi32>, memref<512xi8>)
        outs(%out_4x8xf32 : memref<4x8xf32>)
        rows 4 items 1 per_row
    // expected-error @below {{expects input 1 to be packed as #plan.interleaved<outputs = 20, columns = 8, element = bf16>, but got #plan.interleaved<outputs = 20, columns = 4, element = bf16>}}
    plan.launch @linear_kernel
        ins(%in_4x8xf32, %interleaved_20x4 : memref<4x8xf32>, memref<256xi8>)
        outs(%out_4x20xf32 : memref<4x20xf32>)
        rows 4 items 2
    // expected-error @below {{expects input 1 to be packed as #plan.interleaved_codes<outputs = 20, columns = 64, bits = 4, group = 32, scale = bf16>, but got}}
    plan.launch @quant_linear_kernel
        ins(%in_4x64xf32, %interleaved_codes_20x64
             : memref<4x64xf32>, memref<1280xi8>)
        outs(%out_4x20xf32 : memref<4x20xf32>)
        rows 4 items 2
    // expected-error @below {{expects input 1 to be a weight, but got 'memref<8xf32>'}}
    plan.launch @rms_norm_kernel
        ins(%in_4x16xf32, %in_8xf32 : memref<4x16xf32>, memref<8xf32>)
        outs(%out_4x16xf32 : memref<4x16xf32>)
        rows 4 items 1 per_row
    // expected-error @below {{expects input 1 to be 'memref<4x16xf32>', but got 'memref<4x8xf32>'}}
    plan.launch @gated_rms_norm_kernel
        ins(%in_4x16xf32, %in_4x8xf32, %vector_8
             : memref<4x16xf32>, memref<4x8xf32>, memref<32xi8>)
        outs(%out_4x16xf32 : memref<4x16xf32>)
        rows 4 items 1 per_row
    // expected-error @below {{expects input 0 to be 'memref<4x16xf32>', but got 'memref<4x8xf32>'}}
    plan.launch @l2_norm_kernel
        ins(%in_4x8xf32 : memref<4x8xf32>)
        outs(%out_4x16xf32 : memref<4x16xf32>)
        rows 4 items 1 per_row
    // expected-error @below {{expects output 0 to be 'memref<4x8xf32>', but got 'memref<5x8xf32>'}}
    plan.launch @silu_kernel
        ins(%in_4x8xf32 : memref<4x8xf32>)
        outs(%out_5x8xf32 : memref<5x8xf32>)
        rows 4 items 1 per_row
    // expected-error @below {{expects output 0 to be 'memref<4x8xf32>', but got 'memref<4x8xbf16>'}}
    plan.launch @sigmoid_kernel
        ins(%in_4x8xf32 : memref<4x8xf32>)
        outs(%out_4x8xbf16 : memref<4x8xbf16>)
        rows 4 items 1 per_row
    // expected-error @below {{expects input 1 to be 'memref<4x8xf32>', but got 'memref<4x4xf32>'}}
    plan.launch @add_kernel
        ins(%in_4x8xf32, %in_4x4xf32 : memref<4x8xf32>, memref<4x4xf32>)
        outs(%out_4x8xf32 : memref<4x8xf32>)
        rows 4 items 1 per_row
    // expected-error @below {{expects output 0 to be 'memref<4x8xf32>', but got 'memref<4x9xf32>'}}
    plan.launch @mul_kernel
        ins(%in_4x8xf32, %in1_4x8xf32 : memref<4x8xf32>, memref<4x8xf32>)
        outs(%out_4x9xf32 : memref<4x9xf32>)
        rows 4 items 1 per_row
    // expected-error @below {{expects input 0 to be 'memref<4x8xf32>', but got 'memref<4x9xf32>'}}
    plan.launch @last_row_kernel
        ins(%in_4x9xf32, %in_1xi32 : memref<4x9xf32>, memref<1xi32>)
        outs(%out_1x8xf32 : memref<1x8xf32>)
        rows 4 items 1
    // expected-error @below {{expects input 0 to be 'memref<5x8xf32>', but got 'memref<4x8xf32>'}}
    plan.launch @drop_rows_kernel
        ins(%in_4x8xf32 : memref<4x8xf32>)
        outs(%out_4x8xf32 : memref<4x8xf32>)
        rows 4 items 1 per_row
    // expected-error @below {{expects output 1 to be 'memref<4x4xf32>', but got 'memref<4x8xf32>'}}
    plan.launch @split_kernel
        ins(%in_4x12xf32 : memref<4x12xf32>)
        outs(%out_4x8xf32, %out1_4x8xf32 : memref<4x8xf32>, memref<4x8xf32>)
        rows 4 items 1 per_row
    // expected-error @below {{expects output 0 to be 'memref<4x12xf32>', but got 'memref<4x8xf32>'}}
    plan.launch @concat_features_kernel
        ins(%in_4x8xf32, %in_4x4xf32 : memref<4x8xf32>, memref<4x4xf32>)
        outs(%out_4x8xf32 : memref<4x8xf32>)
        rows 4 items 1 per_row
    // expected-error @below {{expects input 2 to be packed as #plan.rope_table<positions = 32, dims = 4, theta = 1.000000e+05 : f64>, but got}}
    plan.launch @rope_kernel
        ins(%in_4x16xf32, %in_1xi32, %rope_table_16x4
             : memref<4x16xf32>, memref<1xi32>, memref<256xi8>)
        outs(%out_4x16xf32 : memref<4x16xf32>)
        rows 4 items 1 per_row
    // expected-error @below {{expects output 0 to be 'memref<2x2x32x8xf32>', but got 'memref<2x2x16x8xf32>'}}
    plan.launch @cache_append_kernel
        ins(%in_4x16xf32, %in1_4x16xf32, %in_1xi32
             : memref<4x16xf32>, memref<4x16xf32>, memref<1xi32>)
        outs(%out_2x2x16x8xf32 : memref<2x2x16x8xf32>)
        rows 4 items 2
    // expected-error @below {{expects input 1 to be 'memref<2x2x32x8xf32>', but got 'memref<2x2x32x8xbf16>'}}
    plan.launch @attention_kernel
        ins(%in_4x32xf32, %in_2x2x32x8xbf16, %in_1xi32
             : memref<4x32xf32>, memref<2x2x32x8xbf16>, memref<1xi32>)
        outs(%out_4x32xf32 : memref<4x32xf32>)
        rows 4 items 4 per_row
    // expected-error @below {{expects output 1 to be 'memref<6x20xf32>', but got 'memref<4x20xf32>'}}
    plan.launch @short_conv_kernel
        ins(%in_4x20xf32, %taps_3x20, %in_1xi32
             : memref<4x20xf32>, memref<240xi8>, memref<1xi32>)
        outs(%out_4x20xf32, %out1_4x20xf32 : memref<4x20xf32>, memref<4x20xf32>)
        rows 4 items 2
    // expected-error @below {{expects input 2 to be packed as #plan.vector<length = 4>, but got #plan.vector<length = 8>}}
    plan.launch @delta_gate_kernel
        ins(%in_4x4xf32, %vector_4, %vector_8
             : memref<4x4xf32>, memref<16xi8>, memref<32xi8>)
        outs(%out_4x4xf32 : memref<4x4xf32>)
        rows 4 items 1 per_row
    // expected-error @below {{expects input 3 to be 'memref<4x4xf32>', but got 'memref<4x2xf32>'}}
    plan.launch @gated_delta_kernel
        ins(%in_4x16xf32, %in1_4x16xf32, %in_4x80xf32, %in_4x2xf32, %in_4x4xf32, %in_1xi32
             : memref<4x16xf32>, memref<4x16xf32>, memref<4x80xf32>, memref<4x2xf32>, memref<4x4xf32>, memref<1xi32>)
        outs(%out_4x80xf32, %out_1440xf32 : memref<4x80xf32>, memref<1440xf32>)
        rows 4 items 8
    // expected-error @below {{expects output 0 to be 'memref<1440xf32>', but got 'memref<100xf32>'}}
    plan.launch @delta_save_kernel
        ins(%in_4x16xf32, %in_4x80xf32, %in_4x4xf32, %in1_4x4xf32
             : memref<4x16xf32>, memref<4x80xf32>, memref<4x4xf32>, memref<4x4xf32>)
        outs(%out_100xf32 : memref<100xf32>)
        rows 4 items 1 per_row
    // expected-error @below {{expects input 0 to be 'memref<4x8xf32>', but got 'memref<4x8xbf16>'}}
    plan.launch @argmax_kernel
        ins(%in_4x8xbf16 : memref<4x8xbf16>)
        outs(%out_4xi32 : memref<4xi32>)
        rows 4 items 1 per_row
    // expected-error @below {{expects output 0 to be 'memref<4xi32>', but got 'memref<5xi32>'}}
    plan.launch @mask_block_kernel
        ins(%in_1xi32 : memref<1xi32>)
        outs(%out_5xi32 : memref<5xi32>)
        rows 1 items 1
    // expected-error @below {{expects input 1 to be 'memref<3x8xf32>', but got 'memref<4x8xf32>'}}
    plan.launch @unmask_kernel
        ins(%in_4xi32, %in_4x8xf32 : memref<4xi32>, memref<4x8xf32>)
        outs(%out_4xi32 : memref<4xi32>)
        rows 1 items 1
    // expected-error @below {{expects output 0 to be 'memref<4xi32>', but got 'memref<3xi32>'}}
    plan.launch @concat_tokens_kernel
        ins(%in_1xi32, %in_3xi32 : memref<1xi32>, memref<3xi32>)
        outs(%out_3xi32 : memref<3xi32>)
        rows 1 items 1
    // expected-error @below {{expects input 1 to be 'memref<4xi32>', but got 'memref<3xi32>'}}
    plan.launch @accept_kernel
        ins(%in_4xi32, %in_3xi32, %in_1xi32
             : memref<4xi32>, memref<3xi32>, memref<1xi32>)
        outs(%out_1xi32, %out1_1xi32, %out2_1xi32, %out3_1xi32
             : memref<1xi32>, memref<1xi32>, memref<1xi32>, memref<1xi32>)
        rows 4 items 1
    // expected-error @below {{expects output 0 to have 32 bytes, but got 16}}
    plan.launch @copy_kernel
        ins(%in_4x2xf32 : memref<4x2xf32>)
        outs(%out_4xi32 : memref<4xi32>)
        rows 1 items 1
    // expected-error @below {{expects input 4 to be 'memref<4x20xf32>', but got 'memref<4x8xf32>'}}
    plan.launch @fused_linear_kernel
        ins(%in_4x8xf32, %interleaved_20x8, %interleaved_20x8, %vector_8, %in1_4x8xf32
             : memref<4x8xf32>, memref<512xi8>, memref<512xi8>, memref<32xi8>, memref<4x8xf32>)
        outs(%out_4x20xf32 : memref<4x20xf32>)
        rows 4 items 2
    // expected-error @below {{expects input 2 to be packed as #plan.interleaved_codes<outputs = 8, columns = 64, bits = 4, group = 32, scale = bf16>, but got}}
    plan.launch @fused_quant_linear_kernel
        ins(%in_4x64xf32, %interleaved_codes_20x64_1, %interleaved_codes_20x64_1
             : memref<4x64xf32>, memref<1152xi8>, memref<1152xi8>)
        outs(%out_4x20xf32, %out_4x8xf32 : memref<4x20xf32>, memref<4x8xf32>)
        rows 4 items 3
    // expected-error @below {{expects output 2 to be 'memref<4x20xf32>', but got 'memref<4x36xf32>'}}
    plan.launch @delta_inputs_kernel
        ins(%in_4x52xf32, %in_4x4xf32, %in1_4x4xf32, %taps_3x52, %vector_4, %vector_4, %in_1xi32
             : memref<4x52xf32>, memref<4x4xf32>, memref<4x4xf32>, memref<624xi8>, memref<16xi8>, memref<16xi8>, memref<1xi32>)
        outs(%out_4x16xf32, %out1_4x16xf32, %out_4x36xf32, %out_4x4xf32, %out1_4x4xf32, %out_4x52xf32
             : memref<4x16xf32>, memref<4x16xf32>, memref<4x36xf32>, memref<4x4xf32>, memref<4x4xf32>, memref<4x52xf32>)
        rows 4 items 7
    // expected-error @below {{expects output 0 to be 'memref<4x2xf32>', but got 'memref<4x4xf32>'}}
    plan.launch @head_argmax_kernel
        ins(%in_4x8xf32, %interleaved_200x8 : memref<4x8xf32>, memref<3328xi8>)
        outs(%out_4x4xf32, %out_4x2xi32 : memref<4x4xf32>, memref<4x2xi32>)
        rows 4 items 2
    // expected-error @below {{expects input 1 to be 'memref<4x2xi32>', but got 'memref<4x2xf32>'}}
    plan.launch @argmax_parts_kernel
        ins(%in_4x2xf32, %in1_4x2xf32 : memref<4x2xf32>, memref<4x2xf32>)
        outs(%out_4xi32 : memref<4xi32>)
        rows 4 items 1 per_row
    // expected-error @below {{expects input 1 to be 'memref<1xi32>', but got 'memref<4xi32>'}}
    plan.launch @last_position_kernel
        ins(%in_1xi32, %in_4xi32 : memref<1xi32>, memref<4xi32>)
        outs(%out_1xi32 : memref<1xi32>)
        rows 1 items 1
    // expected-error @below {{expects 2 inputs of concat_features_kernel, but got 3}}
    plan.launch @concat_features_kernel
        ins(%in_4x8xf32, %in_4x4xf32, %in1_4x4xf32
             : memref<4x8xf32>, memref<4x4xf32>, memref<4x4xf32>)
        outs(%out_4x12xf32 : memref<4x12xf32>)
        rows 4 items 1 per_row
    // expected-error @below {{expects 2 outputs of split_kernel, but got 3}}
    plan.launch @split_kernel
        ins(%in_4x12xf32 : memref<4x12xf32>)
        outs(%out_4x8xf32, %out_4x4xf32, %out1_4x4xf32
             : memref<4x8xf32>, memref<4x4xf32>, memref<4x4xf32>)
        rows 4 items 1 per_row
    // expected-error @below {{expects 2 items, but got 3}}
    plan.launch @linear_kernel
        ins(%in_4x8xf32, %interleaved_20x8 : memref<4x8xf32>, memref<512xi8>)
        outs(%out_4x20xf32 : memref<4x20xf32>)
        rows 4 items 3
    // expected-error @below {{expects 4 items per row, but got 4}}
    plan.launch @attention_kernel
        ins(%in_4x32xf32, %in_2x2x32x8xf32, %in_1xi32
             : memref<4x32xf32>, memref<2x2x32x8xf32>, memref<1xi32>)
        outs(%out_4x32xf32 : memref<4x32xf32>)
        rows 4 items 4
    // expected-error @below {{expects up to 3 rows that are not committed, but got 4}}
    plan.launch @short_conv_kernel_1
        ins(%in_4x20xf32, %taps_3x20, %in_1xi32
             : memref<4x20xf32>, memref<240xi8>, memref<1xi32>)
        outs(%out_4x20xf32, %out_5x20xf32 : memref<4x20xf32>, memref<5x20xf32>)
        rows 4 items 2
    // expected-error @below {{expects up to 3 rows that are not committed, but got 4}}
    plan.launch @delta_save_kernel_1
        ins(%in_4x16xf32, %in_4x80xf32, %in_4x4xf32, %in1_4x4xf32
             : memref<4x16xf32>, memref<4x80xf32>, memref<4x4xf32>, memref<4x4xf32>)
        outs(%out_1336xf32 : memref<1336xf32>)
        rows 4 items 1 per_row
  }
}

// -----

module attributes {plan.arch = "sm_86"} {
  %in_4x8xbf16 = plan.port "in_4x8xbf16" : memref<4x8xbf16>
  %interleaved_20x8 = plan.weight "interleaved_20x8" from "target" ["t"]
      packing(#plan.interleaved<outputs = 20, columns = 8, element = bf16>) : memref<512xi8>
  %out_4x20xf32 = plan.port "out_4x20xf32" : memref<4x20xf32>
  %in_4x5xbf16 = plan.port "in_4x5xbf16" : memref<4x5xbf16>
  %in1_4x5xbf16 = plan.port "in1_4x5xbf16" : memref<4x5xbf16>
  %in_4x21xbf16 = plan.port "in_4x21xbf16" : memref<4x21xbf16>
  %in_4x3xf32 = plan.port "in_4x3xf32" : memref<4x3xf32>
  %in1_4x3xf32 = plan.port "in1_4x3xf32" : memref<4x3xf32>
  %in_1xi32 = plan.port "in_1xi32" : memref<1xi32>
  %out_4x21xbf16 = plan.port "out_4x21xbf16" : memref<4x21xbf16>
  %out_800xi8 = plan.port "out_800xi8" : memref<800xi8>
  plan.kernel @linear_kernel linear
      {activations = bf16, columns = 8 : i64, element = bf16,
       outputs = 20 : i64, result = f32}
  plan.kernel @gated_delta_kernel gated_delta
      {activations = bf16, commit = 0 : i64, heads = 3 : i64,
       key_dim = 5 : i64, key_heads = 1 : i64, pending = 5 : i64,
       scale_by = 1.0 : f32, value_dim = 7 : i64}
  plan.program @layouts_of_gpus() -> () {
    // expected-error @below {{expects input 1 to be packed as #plan.rows<outputs = 20, columns = 8, element = bf16>, but got #plan.interleaved<outputs = 20, columns = 8, element = bf16>}}
    plan.launch @linear_kernel
        ins(%in_4x8xbf16, %interleaved_20x8 : memref<4x8xbf16>, memref<512xi8>)
        outs(%out_4x20xf32 : memref<4x20xf32>)
        rows 4 items 2
    // expected-error @below {{expects output 1 to have 804 bytes, but got 800}}
    plan.launch @gated_delta_kernel
        ins(%in_4x5xbf16, %in1_4x5xbf16, %in_4x21xbf16, %in_4x3xf32, %in1_4x3xf32, %in_1xi32
             : memref<4x5xbf16>, memref<4x5xbf16>, memref<4x21xbf16>, memref<4x3xf32>, memref<4x3xf32>, memref<1xi32>)
        outs(%out_4x21xbf16, %out_800xi8 : memref<4x21xbf16>, memref<800xi8>)
        rows 4 items 3
  }
}

// -----

// Parameters that do not fit each other.
module {
  // expected-error @below {{expects columns to be a multiple of dim, but got 16 and 5}}
  plan.kernel @rms_norm_kernel rms_norm
      {columns = 16 : i64, dim = 5 : i64, eps = 1.0e-6 : f32,
       offset = 1.0 : f32}
  // expected-error @below {{expects widths to be multiples of groups, but got 8 and 3}}
  plan.kernel @split_kernel split
      {groups = 3 : i64, widths = array<i64: 8, 4>}
  // expected-error @below {{expects dims up to head_dim, but got 10 and 8}}
  plan.kernel @rope_kernel rope
      {columns = 16 : i64, dims = 10 : i64, head_dim = 8 : i64,
       positions = 32 : i64}
  // expected-error @below {{expects an even number of dims, but got 3}}
  plan.kernel @rope_kernel_1 rope
      {columns = 16 : i64, dims = 3 : i64, head_dim = 8 : i64,
       positions = 32 : i64}
  // expected-error @below {{expects columns to be a multiple of head_dim, but got 16 and 6}}
  plan.kernel @rope_kernel_2 rope
      {columns = 16 : i64, dims = 4 : i64, head_dim = 6 : i64,
       positions = 32 : i64}
  // expected-error @below {{expects slots to be a multiple of 16, but got 30}}
  plan.kernel @cache_append_kernel cache_append
      {dim = 8 : i64, heads = 2 : i64, slots = 30 : i64}
  // expected-error @below {{expects query_heads to be a multiple of heads, but got 3 and 2}}
  plan.kernel @attention_kernel attention
      {causal = 1 : i64, dim = 8 : i64, heads = 2 : i64,
       query_heads = 3 : i64, scale_by = 1.0 : f32, slots = 32 : i64,
       window = 0 : i64}
  // expected-error @below {{expects heads to be a multiple of key_heads, but got 4 and 3}}
  plan.kernel @delta_save_kernel delta_save
      {heads = 4 : i64, key_dim = 8 : i64, key_heads = 3 : i64,
       pending = 4 : i64, value_dim = 20 : i64}
  // expected-error @below {{expects a slot behind the anchor, but got a size of 1}}
  plan.kernel @unmask_kernel unmask
      {columns = 8 : i64, fill = 2 : i64, mask_token = 7 : i64,
       size = 1 : i64}
  // expected-error @below {{expects two equal widths when gated, but got array<i64: 20, 8>}}
  plan.kernel @fused_linear_kernel fused_linear
      {columns = 8 : i64, element = bf16, eps = 1.0e-6 : f32,
       gated = 1 : i64, norm = 1 : i64, offset = 1.0 : f32,
       residual = 1 : i64, widths = array<i64: 20, 8>}
  // expected-error @below {{expects one width when there is a residual, but got array<i64: 20, 8>}}
  plan.kernel @fused_quant_linear_kernel fused_quant_linear
      {bits = 4 : i64, columns = 64 : i64, eps = 0.0 : f32, gated = 0 : i64,
       group = 32 : i64, norm = 0 : i64, offset = 0.0 : f32,
       residual = 1 : i64, scale = bf16, widths = array<i64: 20, 8>}
  // expected-error @below {{expects channels behind the 32 of queries and keys, but got 32}}
  plan.kernel @delta_inputs_kernel delta_inputs
      {channels = 32 : i64, commit = 1 : i64, eps = 1.0e-6 : f32,
       heads = 4 : i64, key_dim = 8 : i64, key_heads = 2 : i64,
       pending = 2 : i64, taps = 3 : i64}
  // expected-error @below {{expects a row_tile of 8, 16, 32, 64 or 128, but got 24}}
  plan.kernel @linear_kernel linear
      {columns = 8 : i64, element = bf16, outputs = 20 : i64,
       row_tile = 24 : i64}
  // expected-error @below {{expects 4 or 8 bits, but got 5}}
  plan.kernel @quant_linear_kernel quant_linear
      {bits = 5 : i64, columns = 64 : i64, group = 32 : i64,
       outputs = 20 : i64, scale = bf16}
}

// -----

module {
  %x = plan.port "x" : memref<4x8xf32>
  plan.kernel @silu_kernel silu {columns = 8 : i64}
  plan.program @result_over_the_input() -> () {
    // expected-error @below {{writes output 0, which it also reads}}
    plan.launch @silu_kernel ins(%x : memref<4x8xf32>)
        outs(%x : memref<4x8xf32>) rows 4 items 1 per_row
  }
}

// -----

module {
  %n = plan.port "n" : memref<1xi32>
  %m = plan.port "m" : memref<1xi32>
  %block = plan.port "block" : memref<4xi32>
  plan.kernel @accept_kernel accept {}
  plan.program @two_results_in_one_place() -> () {
    // expected-error @below {{writes output 1 as another one, too}}
    plan.launch @accept_kernel
        ins(%block, %block, %n : memref<4xi32>, memref<4xi32>, memref<1xi32>)
        outs(%n, %n, %m, %m
             : memref<1xi32>, memref<1xi32>, memref<1xi32>, memref<1xi32>)
        rows 4 items 1
  }
}

// -----

// Over itself, because everything is read before anything is written.
module {
  %a = plan.port "accepted" : memref<1xi32>
  %anchor = plan.port "anchor" : memref<1xi32>
  %start = plan.port "start" : memref<1xi32>
  %context = plan.port "context_start" : memref<1xi32>
  plan.kernel @accept_kernel accept {}
  plan.program @accept_in_place() -> () {
    plan.launch @accept_kernel
        ins(%anchor, %anchor, %start
            : memref<1xi32>, memref<1xi32>, memref<1xi32>)
        outs(%a, %anchor, %start, %context
             : memref<1xi32>, memref<1xi32>, memref<1xi32>, memref<1xi32>)
        rows 1 items 1
  }
}

// -----

module {
  %n = plan.port "n" : memref<1xi32>
  %x = plan.port "x" : memref<4x16xf32>
  %y = plan.port "y" : memref<4x16xf32>
  %kv = plan.state "kv" kind "key_value" : memref<2x2x32x8xf32>
  plan.kernel @attention_kernel attention
      {causal = 1 : i64, dim = 8 : i64, heads = 2 : i64, query_heads = 2 : i64,
       scale_by = 1.0 : f32, slots = 32 : i64, window = 0 : i64}
  plan.program @cache_shorter_than_the_text() -> () {
    // expected-error @below {{expects a cache of 45 slots, but got 32}}
    plan.launch @attention_kernel
        ins(%x, %kv, %n
            : memref<4x16xf32>, memref<2x2x32x8xf32>, memref<1xi32>)
        outs(%y : memref<4x16xf32>) rows 4 items 2 per_row
  }
  plan.loop {prefill = @cache_shorter_than_the_text, step = @cache_shorter_than_the_text, block = 5 : i64, chunk = 8 : i64,
             score_chunk = 8 : i64, max_context = 40 : i64,
             vocabulary = 32 : i64, stop_tokens = array<i32>}
}

// -----

module {
  %n = plan.port "n" : memref<1xi32>
  %x = plan.port "x" : memref<4x16xf32>
  %y = plan.port "y" : memref<4x16xf32>
  %kv = plan.state "kv" kind "key_value" : memref<2x2x32x8xf32>
  plan.kernel @attention_kernel attention
      {causal = 1 : i64, dim = 8 : i64, heads = 2 : i64, query_heads = 2 : i64,
       scale_by = 1.0 : f32, slots = 32 : i64, window = 30 : i64}
  plan.program @ring_shorter_than_the_window() -> () {
    // expected-error @below {{expects a cache of 33 slots, but got 32}}
    plan.launch @attention_kernel
        ins(%x, %kv, %n
            : memref<4x16xf32>, memref<2x2x32x8xf32>, memref<1xi32>)
        outs(%y : memref<4x16xf32>) rows 4 items 2 per_row
  }
  plan.loop {prefill = @ring_shorter_than_the_window, step = @ring_shorter_than_the_window, block = 5 : i64, chunk = 8 : i64,
             score_chunk = 8 : i64, max_context = 40 : i64,
             vocabulary = 32 : i64, stop_tokens = array<i32>}
}

// -----

// Families of GPUs.
module attributes {plan.arch = "sm_90"} {
  %n = plan.port "n" : memref<1xi32>
  %x = plan.port "x" : memref<4x32xbf16>
  %k = plan.port "k" : memref<4x8xbf16>
  %q = plan.port "q" : memref<4x16xbf16>
  %g = plan.port "g" : memref<4x16xbf16>
  %kv = plan.state "kv" kind "key_value" : memref<2x1x32x8xbf16>
  %norm = plan.weight "norm" from "target" ["t"]
      packing(#plan.vector<length = 8>) : memref<32xi8>
  %table = plan.weight "table" from "target" []
      packing(#plan.rope_table<positions = 32, dims = 4, theta = 1.0e4 : f64>)
      : memref<512xi8>
  plan.kernel @attention_inputs_kernel attention_inputs
      {activations = bf16, caches = 1 : i64, dim = 8 : i64, dims = 4 : i64,
       eps = 1.0e-6 : f32, gated = 1 : i64, heads = 1 : i64,
       offset = 1.0 : f32, positions = 32 : i64, query_heads = 2 : i64,
       slots = 32 : i64}
  plan.kernel @attention_kernel attention
      {activations = bf16, causal = 1 : i64, dim = 8 : i64, gated = 1 : i64,
       heads = 1 : i64, query_heads = 2 : i64, scale_by = 1.0 : f32,
       slots = 32 : i64, window = 0 : i64}
  plan.program @queries() -> () {
    plan.launch @attention_inputs_kernel
        ins(%x, %norm, %k, %k, %norm, %n, %table
            : memref<4x32xbf16>, memref<32xi8>, memref<4x8xbf16>,
              memref<4x8xbf16>, memref<32xi8>, memref<1xi32>, memref<512xi8>)
        outs(%q, %g, %kv
            : memref<4x16xbf16>, memref<4x16xbf16>, memref<2x1x32x8xbf16>)
        rows 4 items 1 per_row
    // expected-error @below {{expects 7 inputs of attention_inputs_kernel, but got 6}}
    plan.launch @attention_inputs_kernel
        ins(%x, %norm, %k, %k, %n, %table
            : memref<4x32xbf16>, memref<32xi8>, memref<4x8xbf16>,
              memref<4x8xbf16>, memref<1xi32>, memref<512xi8>)
        outs(%q, %g, %kv
            : memref<4x16xbf16>, memref<4x16xbf16>, memref<2x1x32x8xbf16>)
        rows 4 items 1 per_row
  }
  plan.program @gate() -> () {
    // expected-error @below {{expects 4 inputs of attention_kernel, but got 3}}
    plan.launch @attention_kernel
        ins(%q, %kv, %n
            : memref<4x16xbf16>, memref<2x1x32x8xbf16>, memref<1xi32>)
        outs(%g : memref<4x16xbf16>) rows 4 items 2 per_row
  }
}

// -----

module attributes {plan.arch = "sm_90"} {
  // expected-error @below {{expects one cache beside a query, but got 2}}
  plan.kernel @attention_inputs_kernel attention_inputs
      {activations = bf16, caches = 2 : i64, dim = 8 : i64, dims = 4 : i64,
       eps = 1.0e-6 : f32, gated = 0 : i64, heads = 1 : i64,
       offset = 1.0 : f32, positions = 32 : i64, query_heads = 2 : i64,
       slots = 32 : i64}
  // expected-error @below {{expects a query beside its gate}}
  plan.kernel @attention_inputs_kernel_1 attention_inputs
      {activations = bf16, caches = 2 : i64, dim = 8 : i64, dims = 4 : i64,
       eps = 1.0e-6 : f32, gated = 1 : i64, heads = 1 : i64,
       offset = 1.0 : f32, positions = 32 : i64, query_heads = 0 : i64,
       slots = 32 : i64}
  // expected-error @below {{expects rows to be saved or committed}}
  plan.kernel @gated_delta_kernel gated_delta
      {activations = bf16, commit = 1 : i64, heads = 4 : i64, key_dim = 8 : i64,
       key_heads = 2 : i64, pending = 4 : i64, saves = 1 : i64,
       scale_by = 1.0 : f32, value_dim = 20 : i64}
  // expected-error @below {{expects norm_eps, and rows to be saved, with a norm}}
  plan.kernel @gated_delta_kernel_1 gated_delta
      {activations = bf16, commit = 0 : i64, heads = 4 : i64, key_dim = 8 : i64,
       key_heads = 2 : i64, normed = 1 : i64, pending = 4 : i64,
       saves = 1 : i64, scale_by = 1.0 : f32, value_dim = 20 : i64}
  // expected-error @below {{expects eps and a norm with taps}}
  plan.kernel @gated_delta_kernel_2 gated_delta
      {activations = bf16, channels = 112 : i64, commit = 0 : i64,
       eps = 1.0e-6 : f32, heads = 4 : i64, key_dim = 8 : i64,
       key_heads = 2 : i64, pending = 4 : i64, saves = 1 : i64,
       scale_by = 1.0 : f32, taps = 4 : i64, value_dim = 20 : i64}
  // expected-error @below {{expects 112 channels, those of its heads, but got 111}}
  plan.kernel @gated_delta_kernel_3 gated_delta
      {activations = bf16, channels = 111 : i64, commit = 0 : i64,
       eps = 1.0e-6 : f32, heads = 4 : i64, key_dim = 8 : i64,
       key_heads = 2 : i64, norm_eps = 1.0e-6 : f32, normed = 1 : i64,
       pending = 4 : i64, saves = 1 : i64, scale_by = 1.0 : f32,
       taps = 4 : i64, value_dim = 20 : i64}
  // expected-error @below {{expects dims up to dim, but got 10 and 8}}
  plan.kernel @attention_inputs_kernel_2 attention_inputs
      {activations = bf16, caches = 1 : i64, dim = 8 : i64, dims = 10 : i64,
       eps = 1.0e-6 : f32, gated = 0 : i64, heads = 1 : i64,
       offset = 1.0 : f32, positions = 32 : i64, query_heads = 2 : i64,
       slots = 32 : i64}
  // expected-error @below {{expects positions beside dims}}
  plan.kernel @attention_kernel_2 attention
      {activations = bf16, causal = 1 : i64, dim = 8 : i64, dims = 8 : i64,
       eps = 1.0e-6 : f32, heads = 1 : i64, offset = 1.0 : f32,
       query_heads = 2 : i64, scale_by = 1.0 : f32, slots = 32 : i64,
       window = 0 : i64}
  // expected-error @below {{expects dims up to dim, but got 10 and 8}}
  plan.kernel @attention_kernel_3 attention
      {activations = bf16, causal = 1 : i64, dim = 8 : i64, dims = 10 : i64,
       eps = 1.0e-6 : f32, heads = 1 : i64, offset = 1.0 : f32,
       positions = 32 : i64, query_heads = 2 : i64, scale_by = 1.0 : f32,
       slots = 32 : i64, window = 0 : i64}
}

// -----

module attributes {plan.arch = "sm_90"} {
  %x = plan.port "x" : memref<4x128xbf16>
  %t = plan.port "t" : memref<4xi32>
  %w = plan.weight "w" from "target" ["w"] packing(#plan.rounded_rows<outputs = 200, columns = 128, group = 128>) : memref<13728xi8>
  %v = plan.weight "v" from "target" ["w"] packing(#plan.rounded_rows<outputs = 200, columns = 128, group = 64>) : memref<14144xi8>
  plan.kernel @draft head_draft {activations = bf16, columns = 128 : i64, group = 128 : i64, outputs = 200 : i64}
  plan.program @rounded_head() -> () {
    plan.launch @draft ins(%x, %w : memref<4x128xbf16>, memref<13728xi8>) outs(%t : memref<4xi32>) rows 4 items 1
    // expected-error @below {{expects input 1 to be packed as #plan.rounded_rows<outputs = 200, columns = 128, group = 128>, but got #plan.rounded_rows<outputs = 200, columns = 128, group = 64>}}
    plan.launch @draft ins(%x, %v : memref<4x128xbf16>, memref<14144xi8>) outs(%t : memref<4xi32>) rows 4 items 1
  }
}

// -----

// Heads that are searched, on a processor: 200 outputs are 13 tiles, 2 parts.
module attributes {plan.arch = "x86-64-v3"} {
  %x = plan.port "x" : memref<4x8xf32>
  %t = plan.port "t" : memref<4xi32>
  %n = plan.port "head_counts" : memref<4xi32>
  %w = plan.weight "w" from "target" ["w"] packing(#plan.interleaved<outputs = 200, columns = 8, element = bf16>) : memref<3328xi8>
  %c = plan.weight "c" from "target" ["w"] packing(#plan.search_codes<outputs = 200, columns = 8>) : memref<1664xi8>
  %s = plan.weight "s" from "target" ["w"] packing(#plan.search_scales<outputs = 200, columns = 8>) : memref<832xi8>
  %e = plan.weight "e" from "target" ["w"] packing(#plan.search_errors<outputs = 200, columns = 8>) : memref<832xi8>
  plan.kernel @search head_search {columns = 8 : i64, outputs = 200 : i64}
  plan.kernel @settle head_settle {columns = 8 : i64, element = bf16, outputs = 200 : i64}
  plan.kernel @largest settled_argmax {parts = 2 : i64, tiles = 13 : i64}
  plan.program @heads() -> () {
    %above = plan.buffer : memref<4x13xf32>
    %below = plan.buffer : memref<4x2xf32>
    %logits = plan.buffer : memref<4x2xf32>
    %tokens = plan.buffer : memref<4x2xi32>
    %settled = plan.buffer : memref<4x2xi32>
    plan.launch @search ins(%x, %c, %s, %e : memref<4x8xf32>, memref<1664xi8>, memref<832xi8>, memref<832xi8>)
        outs(%above, %below : memref<4x13xf32>, memref<4x2xf32>) rows 4 items 2
    plan.launch @settle ins(%x, %w, %above, %below : memref<4x8xf32>, memref<3328xi8>, memref<4x13xf32>, memref<4x2xf32>)
        outs(%logits, %tokens, %settled : memref<4x2xf32>, memref<4x2xi32>, memref<4x2xi32>) rows 4 items 2
    plan.launch @largest ins(%logits, %tokens, %settled : memref<4x2xf32>, memref<4x2xi32>, memref<4x2xi32>)
        outs(%t, %n : memref<4xi32>, memref<4xi32>) rows 4 items 1 per_row
    // expected-error @below {{expects input 1 to be packed as #plan.search_codes<outputs = 200, columns = 8>, but got #plan.search_scales<outputs = 200, columns = 8>}}
    plan.launch @search ins(%x, %s, %s, %e : memref<4x8xf32>, memref<832xi8>, memref<832xi8>, memref<832xi8>)
        outs(%above, %below : memref<4x13xf32>, memref<4x2xf32>) rows 4 items 2
    // expected-error @below {{expects input 3 to be 'memref<4x2xf32>', but got 'memref<4x13xf32>'}}
    plan.launch @settle ins(%x, %w, %above, %above : memref<4x8xf32>, memref<3328xi8>, memref<4x13xf32>, memref<4x13xf32>)
        outs(%logits, %tokens, %settled : memref<4x2xf32>, memref<4x2xi32>, memref<4x2xi32>) rows 4 items 2
    // expected-error @below {{expects output 1 to be 'memref<4xi32>', but got 'memref<4x2xi32>'}}
    plan.launch @largest ins(%logits, %tokens, %settled : memref<4x2xf32>, memref<4x2xi32>, memref<4x2xi32>)
        outs(%t, %tokens : memref<4xi32>, memref<4x2xi32>) rows 4 items 1 per_row
  }
}

// -----

module attributes {plan.arch = "x86-64-v3"} {
  %x = plan.port "x" : memref<4x64xf32>
  %p = plan.port "p" : memref<4xi32>
  %t = plan.port "t" : memref<4xi32>
  %w = plan.weight "w" from "target" ["w"] packing(#plan.rounded_codes<outputs = 200, columns = 64, group = 64>) : memref<7072xi8>
  %v = plan.weight "v" from "target" ["w"] packing(#plan.rounded_codes<outputs = 200, columns = 64, group = 32>) : memref<7488xi8>
  %ids = plan.weight "ids" from "" [] packing(#plan.token_table<set = <0, 3, 17>>) : memref<12xi8>
  %two = plan.weight "two" from "" [] packing(#plan.token_table<set = <0, 3>>) : memref<8xi8>
  plan.kernel @head quant_head_argmax {bits = 4 : i64, columns = 64 : i64, group = 64 : i64, outputs = 200 : i64, scale = bf16}
  plan.kernel @tokens select_tokens {entries = 3 : i64}
  // expected-error @below {{expects 4 bits and scales in bf16, but got 8 and 'bf16'}}
  plan.kernel @wide quant_head_argmax {bits = 8 : i64, columns = 64 : i64, group = 64 : i64, outputs = 200 : i64, scale = bf16}
  plan.program @rounded_head() -> () {
    %logits = plan.buffer : memref<4x2xf32>
    %best = plan.buffer : memref<4x2xi32>
    plan.launch @head ins(%x, %w : memref<4x64xf32>, memref<7072xi8>) outs(%logits, %best : memref<4x2xf32>, memref<4x2xi32>) rows 4 items 2
    plan.launch @tokens ins(%p, %ids : memref<4xi32>, memref<12xi8>) outs(%t : memref<4xi32>) rows 4 items 1 per_row
    // expected-error @below {{expects input 1 to be packed as #plan.rounded_codes<outputs = 200, columns = 64, group = 64>, but got #plan.rounded_codes<outputs = 200, columns = 64, group = 32>}}
    plan.launch @head ins(%x, %v : memref<4x64xf32>, memref<7488xi8>) outs(%logits, %best : memref<4x2xf32>, memref<4x2xi32>) rows 4 items 2
    // expected-error @below {{expects input 1 to have 12 bytes, but got 8}}
    plan.launch @tokens ins(%p, %two : memref<4xi32>, memref<8xi8>) outs(%t : memref<4xi32>) rows 4 items 1 per_row
  }
}

// -----

// Tokens as products take them.
module attributes {plan.arch = "sm_90"} {
  // expected-error @below {{expects bf16 weights, or codes of 4 bits without zero points in groups of 32, 64 or 128 with scales in bf16, for bf16 tokens in fragments}}
  plan.kernel @other_scales fused_quant_linear
      {activations = bf16, bits = 4 : i64, columns = 128 : i64,
       eps = 1.0e-6 : f32, from_fragments = 1 : i64, gated = 0 : i64,
       group = 32 : i64, norm = 0 : i64, offset = 0.0 : f32,
       residual = 0 : i64, row_tile = 16 : i64, scale = f32,
       widths = array<i64: 64>}
  // expected-error @below {{expects rows in a row_tile of up to 16 with tokens in fragments, but got 1 and 32}}
  plan.kernel @many_rows fused_quant_linear
      {activations = bf16, bits = 4 : i64, columns = 128 : i64,
       eps = 1.0e-6 : f32, from_fragments = 1 : i64, gated = 0 : i64,
       group = 32 : i64, norm = 0 : i64, offset = 0.0 : f32,
       residual = 0 : i64, row_tile = 32 : i64, scale = bf16,
       widths = array<i64: 64>}
  // expected-error @below {{expects widths of a multiple of 32 and bf16 results in fragments, but got 40 and 'bf16'}}
  plan.kernel @other_width fused_quant_linear
      {activations = bf16, bits = 4 : i64, columns = 128 : i64,
       eps = 1.0e-6 : f32, gated = 0 : i64, group = 32 : i64, norm = 0 : i64,
       offset = 0.0 : f32, residual = 0 : i64, row_tile = 16 : i64,
       scale = bf16, to_fragments = 1 : i64, widths = array<i64: 40>}
  // expected-error @below {{expects a single result in fragments}}
  plan.kernel @two_results fused_quant_linear
      {activations = bf16, bits = 4 : i64, columns = 128 : i64,
       eps = 1.0e-6 : f32, gated = 0 : i64, group = 32 : i64, norm = 0 : i64,
       offset = 0.0 : f32, residual = 0 : i64, row_tile = 16 : i64,
       scale = bf16, to_fragments = 1 : i64, widths = array<i64: 64, 64>}
  // expected-error @below {{expects a residual, no gate and next_offset where the next norm is prepared}}
  plan.kernel @no_residual fused_quant_linear
      {activations = bf16, bits = 4 : i64, columns = 128 : i64,
       eps = 1.0e-6 : f32, gated = 0 : i64, group = 32 : i64,
       next_norm = 1 : i64, next_offset = 1.0 : f32, norm = 0 : i64,
       offset = 0.0 : f32, residual = 0 : i64, row_tile = 16 : i64,
       scale = bf16, widths = array<i64: 64>}
}

// -----

module attributes {plan.arch = "x86-64-v3"} {
  // expected-error @below {{expects a GPU for tokens in fragments}}
  plan.kernel @processor fused_quant_linear
      {activations = bf16, bits = 4 : i64, columns = 128 : i64,
       eps = 1.0e-6 : f32, from_fragments = 1 : i64, gated = 0 : i64,
       group = 32 : i64, norm = 0 : i64, offset = 0.0 : f32,
       residual = 0 : i64, scale = bf16, widths = array<i64: 64>}
}

// -----

module attributes {plan.arch = "sm_90"} {
  %x = plan.port "x" : memref<16x128xbf16>
  %y = plan.port "y" : memref<16x64xbf16>
  %w = plan.weight "w" from "target" ["q", "s"] packing(#plan.fragment_codes<outputs = 64, columns = 128, bits = 4, group = 32, scale = bf16>) : memref<4608xi8>
  %n = plan.weight "n" from "target" ["n"] packing(#plan.vector<length = 128>) : memref<512xi8>
  plan.kernel @normed fused_quant_linear
      {activations = bf16, bits = 4 : i64, columns = 128 : i64,
       eps = 1.0e-6 : f32, from_fragments = 1 : i64, gated = 0 : i64,
       group = 32 : i64, norm = 1 : i64, offset = 0.0 : f32,
       residual = 0 : i64, row_tile = 16 : i64, scale = bf16,
       widths = array<i64: 64>}
  plan.program @weight_in_place_of_squares() -> () {
    // expected-error @below {{expects input 2 to be 'memref<8x16xf32>', but got 'memref<512xi8>'}}
    plan.launch @normed ins(%x, %w, %n : memref<16x128xbf16>, memref<4608xi8>, memref<512xi8>) outs(%y : memref<16x64xbf16>) rows 16 items 4
  }
}
