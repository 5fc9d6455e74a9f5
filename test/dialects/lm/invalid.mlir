// RUN: qopt %s --split-input-file --verify-diagnostics

// Every message of a verifier once, in the order of the sources. A function is named after its fault. P2.09, P7.14.

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

func.func @dynamic_rows(%x: tensor<?x8xf32>) {
  // expected-error @below {{operand #0 must be rows x columns of f32 or bf16}}
  %y = lm.silu %x : tensor<?x8xf32>
  return
}

// -----

func.func @rank_0(%x: tensor<f32>) {
  // expected-error @below {{operand #0 must be rows x columns of f32 or bf16}}
  %y = lm.silu %x : tensor<f32>
  return
}

// -----

func.func @unranked(%x: tensor<*xf32>) {
  // expected-error @below {{invalid kind of type specified: expected builtin.tensor}}
  %y = lm.silu %x : tensor<*xf32>
  return
}

// -----

func.func @no_rows(%x: tensor<0x8xf32>) {
  // expected-error @below {{operand #0 must be rows x columns of f32 or bf16}}
  %y = lm.silu %x : tensor<0x8xf32>
  return
}

// -----

// Sizes may be added and multiplied without leaving 64 bits.
func.func @too_many_columns(%x: tensor<1x16777217xf32>) {
  // expected-error @below {{operand #0 must be rows x columns of f32 or bf16}}
  %y = lm.silu %x : tensor<1x16777217xf32>
  return
}

// -----

func.func @too_many_elements() {
  // expected-error @below {{result #0 must be a dense weight or packed codes}}
  %w = lm.weight "target", "w" : tensor<16777216x65536x2xf32>
  return
}

// -----

func.func @integer_activations(%x: tensor<4x8xi32>) {
  // expected-error @below {{operand #0 must be rows x columns of f32 or bf16}}
  %y = lm.silu %x : tensor<4x8xi32>
  return
}

// -----

func.func @encoding(%x: tensor<4x8xf32, "sparse">) {
  // expected-error @below {{operand #0 must be rows x columns of f32 or bf16}}
  %y = lm.silu %x : tensor<4x8xf32, "sparse">
  return
}

// -----

func.func @scalar_of_two(%x: tensor<4x8xf32>, %count: tensor<2xi32>) {
  // expected-error @below {{operand #1 must be tensor<1xi32>}}
  %y = "lm.live_rows"(%x, %count) : (tensor<4x8xf32>, tensor<2xi32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @missing_attribute(%x: tensor<4x8xf32>) {
  // expected-error @below {{requires attribute 'eps'}}
  %y = "lm.l2_norm"(%x) {dim = 8 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// LmDialect.cpp: attributes of functions and modules
//===----------------------------------------------------------------------===//

// expected-error @below {{expects 'lm.checkpoints' to be a dictionary of directory names, but got "target"}}
module attributes {lm.checkpoints = "target"} {}

// -----

// expected-error @below {{expects 'lm.checkpoints' to be a dictionary of directory names, but got {target = 1 : i64}}}
module attributes {lm.checkpoints = {target = 1}} {}

// -----

// expected-error @below {{expects 'lm.facts' to be a dictionary, but got 1 : i64}}
module attributes {lm.facts = 1} {}

// -----

// expected-error @below {{expects 'lm.makes_inputs' to be a unit attribute of a 'lm.gated_delta', but got unit}}
module attributes {lm.makes_inputs} {}

// -----

// expected-error @below {{does not know the attribute 'lm.fact'}}
module attributes {lm.fact = {}} {}

// -----

// expected-error @below {{argument 0 does not know the attribute 'lm.name'}}
func.func private @argument_unknown(tensor<1xi32> {lm.name = "x"})

// -----

// expected-error @below {{result 1 does not know the attribute 'lm.name'}}
func.func private @result_unknown() -> (tensor<1xi32>, tensor<1xi32> {lm.name = "x"})

// -----

// expected-error @below {{argument 0 expects 'lm.port' to be a name, but got ""}}
func.func private @port_without_a_name(tensor<1xi32> {lm.port = ""})

// -----

// expected-error @below {{argument 0 expects 'lm.port' to be a name, but got 3 : i64}}
func.func private @port_with_a_number(tensor<1xi32> {lm.port = 3})

// -----

// expected-error @below {{argument 0 of type '!lm.kv_cache<80x2x64xf32>' expects 'lm.state', but got 'lm.port'}}
func.func private @cache_as_port(!lm.kv_cache<80x2x64xf32> {lm.port = "x"})

// -----

// expected-error @below {{result 0 of type 'tensor<1xi32>' expects 'lm.port', but got 'lm.state'}}
func.func private @tensor_as_state() -> (tensor<1xi32> {lm.state = "x"})

// -----

//===----------------------------------------------------------------------===//
// LmDialect.cpp: attributes and types
//===----------------------------------------------------------------------===//

func.func @grouped_bits(%codes: tensor<8x2xi32>, %scales: tensor<8x1xf32>) {
  // expected-error @below {{expects 4 or 8 bits, but got 3}}
  %w = lm.dequant %codes, %scales grouped<bits = 3, group = 16> : tensor<8x2xi32>, tensor<8x1xf32> -> tensor<8x16xf32>
  return
}

// -----

func.func @grouped_group_zero(%codes: tensor<8x2xi32>, %scales: tensor<8x1xf32>) {
  // expected-error @below {{expects a group between 1 and 2^24, but got 0}}
  %w = lm.dequant %codes, %scales grouped<bits = 4, group = 0> : tensor<8x2xi32>, tensor<8x1xf32> -> tensor<8x16xf32>
  return
}

// -----

func.func @grouped_group_negative(%codes: tensor<8x2xi32>, %scales: tensor<8x1xf32>) {
  // expected-error @below {{expects a group between 1 and 2^24, but got -3}}
  %w = lm.dequant %codes, %scales grouped<bits = 4, group = -3> : tensor<8x2xi32>, tensor<8x1xf32> -> tensor<8x16xf32>
  return
}

// -----

// expected-error @below {{expects slots, heads and dimension between 1 and 2^24, but got 0, 2 and 64}}
func.func private @kv_cache_no_slots(!lm.kv_cache<0x2x64xf32>)

// -----

// expected-error @below {{expects slots, heads and dimension between 1 and 2^24}}
func.func private @kv_cache_too_large(!lm.kv_cache<4294967296x4294967296x4294967296xf32>)

// -----

// expected-error @below {{expects f32 or bf16 elements, but got 'f16'}}
func.func private @kv_cache_element(!lm.kv_cache<80x2x64xf16>)

// -----

// expected-error @below {{expects slots x heads x dimension, but got 2 sizes}}
func.func private @kv_cache_rank(!lm.kv_cache<80x64xf32>)

// -----

// expected-error @below {{expects at least 2 taps, and channels and pending rows between 1 and 2^24, but got 1, 8 and 4}}
func.func private @conv_cache_taps(!lm.conv_cache<taps = 1, channels = 8, pending = 4>)

// -----

// expected-error @below {{expects at least 2 taps, and channels and pending rows between 1 and 2^24, but got 4, -8 and 4}}
func.func private @conv_cache_channels(!lm.conv_cache<taps = 4, channels = -8, pending = 4>)

// -----

// expected-error @below {{expects sizes between 1 and 2^24, but got 4, 0, 8, 16 and 4}}
func.func private @delta_cache_sizes(!lm.delta_cache<heads = 4, key_heads = 0, key_dim = 8, value_dim = 16, pending = 4>)

// -----

// expected-error @below {{expects key heads that divide the 4 heads, but got 3}}
func.func private @delta_cache_heads(!lm.delta_cache<heads = 4, key_heads = 3, key_dim = 8, value_dim = 16, pending = 4>)

// -----

//===----------------------------------------------------------------------===//
// LmTensorOps.cpp
//===----------------------------------------------------------------------===//

func.func @dequant_rows_of_codes(%codes: tensor<9x2xi32>, %scales: tensor<8x1xf32>) {
  // expected-error @below {{expects codes and scales of 8 rows, but got 9 and 8}}
  %w = lm.dequant %codes, %scales grouped<bits = 4, group = 16> : tensor<9x2xi32>, tensor<8x1xf32> -> tensor<8x16xf32>
  return
}

// -----

func.func @dequant_rows_of_scales(%codes: tensor<8x2xi32>, %scales: tensor<7x1xf32>) {
  // expected-error @below {{expects codes and scales of 8 rows, but got 8 and 7}}
  %w = lm.dequant %codes, %scales grouped<bits = 4, group = 16> : tensor<8x2xi32>, tensor<7x1xf32> -> tensor<8x16xf32>
  return
}

// -----

func.func @dequant_group_does_not_divide(%codes: tensor<8x2xi32>, %scales: tensor<8x2xf32>) {
  // expected-error @below {{expects a group that divides 16 columns, but got 7}}
  %w = lm.dequant %codes, %scales grouped<bits = 4, group = 7> : tensor<8x2xi32>, tensor<8x2xf32> -> tensor<8x16xf32>
  return
}

// -----

func.func @dequant_wrong_word_count(%codes: tensor<8x4xi32>, %scales: tensor<8x1xf32>) {
  // expected-error @below {{expects 2 words of codes per row, but got 4}}
  %w = lm.dequant %codes, %scales grouped<bits = 4, group = 16> : tensor<8x4xi32>, tensor<8x1xf32> -> tensor<8x16xf32>
  return
}

// -----

func.func @dequant_wrong_scale_count(%codes: tensor<8x2xi32>, %scales: tensor<8x3xf32>) {
  // expected-error @below {{expects 2 scales per row, but got 3}}
  %w = lm.dequant %codes, %scales grouped<bits = 4, group = 8> : tensor<8x2xi32>, tensor<8x3xf32> -> tensor<8x16xf32>
  return
}

// -----

func.func @dequant_zero_count(%codes: tensor<8x2xi32>, %scales: tensor<8x1xf32>) {
  // expected-error @below {{expects 2 scales and zeros per row, but got 1}}
  %w = lm.dequant %codes, %scales grouped<bits = 4, group = 16, zero_points = true> : tensor<8x2xi32>, tensor<8x1xf32> -> tensor<8x16xf32>
  return
}

// -----

func.func @grouped_float_bits(%codes: tensor<8x2xi32>, %scales: tensor<8x1xf32>) {
  // expected-error @below {{expects float codes of 8 bits and without zero points}}
  %w = lm.dequant %codes, %scales grouped<bits = 4, group = 16, float_codes = true> : tensor<8x2xi32>, tensor<8x1xf32> -> tensor<8x16xf32>
  return
}

// -----

func.func @repack_codes(%c: tensor<8x2xi32>, %s: tensor<1x8xf32>) {
  // expected-error @below {{expects codes of 2 x 8, but got 'tensor<8x2xi32>'}}
  %d:2 = lm.repack %c, %s as <order = by_column, bits = 4, columns = 16, group = 16> : (tensor<8x2xi32>, tensor<1x8xf32>) -> (tensor<8x2xi32>, tensor<8x1xf32>)
  return
}

// -----

func.func @repack_scales(%c: tensor<2x8xi32>, %s: tensor<8x1xf32>) {
  // expected-error @below {{expects scales of 1 x 8, but got 'tensor<8x1xf32>'}}
  %d:2 = lm.repack %c, %s as <order = by_column, bits = 4, columns = 16, group = 16> : (tensor<2x8xi32>, tensor<8x1xf32>) -> (tensor<8x2xi32>, tensor<8x1xf32>)
  return
}

// -----

func.func @repack_zeros(%c: tensor<8x2xi32>, %s: tensor<8x1xf32>, %z: tensor<8x1xi32>) {
  // expected-error @below {{expects zeros of 1 x 1, but got 'tensor<8x1xi32>'}}
  %d:2 = lm.repack %c, %s zeros %z as <order = by_row, bits = 4, columns = 16, group = 16, zero_points = true> : (tensor<8x2xi32>, tensor<8x1xf32>, tensor<8x1xi32>) -> (tensor<8x2xi32>, tensor<8x2xf32>)
  return
}

// -----

func.func @repack_no_zeros(%c: tensor<8x2xi32>, %s: tensor<8x1xf32>) {
  // expected-error @below {{expects zero points iff the source has them}}
  %d:2 = lm.repack %c, %s as <order = by_row, bits = 4, columns = 16, group = 16, zero_points = true> : (tensor<8x2xi32>, tensor<8x1xf32>) -> (tensor<8x2xi32>, tensor<8x2xf32>)
  return
}

// -----

func.func @repack_result(%c: tensor<8x2xi32>, %s: tensor<8x1xf32>) {
  // expected-error @below {{expects 8 rows of scales of the type they have, but got 'tensor<8x1xf16>'}}
  %d:2 = lm.repack %c, %s as <order = by_row, bits = 4, columns = 16, group = 16> : (tensor<8x2xi32>, tensor<8x1xf32>) -> (tensor<8x2xi32>, tensor<8x1xf16>)
  return
}

// -----

func.func @repack_float_order(%c: tensor<16x8xf8E4M3FN>, %s: tensor<1x8xf32>) {
  // expected-error @below {{expects float codes by_row, of 8 bits and without zero points, but got #lm.source<order = by_column, bits = 8, columns = 16, group = 16>}}
  %d:2 = lm.repack %c, %s as <order = by_column, bits = 8, columns = 16, group = 16> : (tensor<16x8xf8E4M3FN>, tensor<1x8xf32>) -> (tensor<8x4xi32>, tensor<8x1xf32>)
  return
}

// -----

func.func @repack_part_of_a_word(%c: tensor<1x8xi32>, %s: tensor<1x8xf32>) {
  // expected-error @below {{expects rows and columns that are multiples of 8, but got 8 and 12}}
  %d:2 = lm.repack %c, %s as <order = by_column, bits = 4, columns = 12, group = 12> : (tensor<1x8xi32>, tensor<1x8xf32>) -> (tensor<8x2xi32>, tensor<8x1xf32>)
  return
}

// -----

func.func @source_bits(%c: tensor<8x2xi32>, %s: tensor<8x1xf32>) {
  // expected-error @below {{expects 4 or 8 bits, but got 3}}
  %d:2 = lm.repack %c, %s as <order = by_row, bits = 3, columns = 16, group = 16> : (tensor<8x2xi32>, tensor<8x1xf32>) -> (tensor<8x2xi32>, tensor<8x1xf32>)
  return
}

// -----

func.func @source_sizes(%c: tensor<8x2xi32>, %s: tensor<8x1xf32>) {
  // expected-error @below {{expects sizes between 1 and 2^24, but got 0}}
  %d:2 = lm.repack %c, %s as <order = by_row, bits = 4, columns = 16, group = 0> : (tensor<8x2xi32>, tensor<8x1xf32>) -> (tensor<8x2xi32>, tensor<8x1xf32>)
  return
}

// -----

func.func @source_interleaved_bits(%c: tensor<16x2xi32>, %s: tensor<1x8xf32>) {
  // expected-error @below {{expects 4 bits when interleaved, but got 8}}
  %d:2 = lm.repack %c, %s as <order = interleaved, bits = 8, columns = 16, group = 16> : (tensor<16x2xi32>, tensor<1x8xf32>) -> (tensor<8x4xi32>, tensor<8x1xf32>)
  return
}

// -----

func.func @source_zero_offset(%c: tensor<8x2xi32>, %s: tensor<8x1xf32>) {
  // expected-error @below {{expects a zero_offset of 0 or 1, but got 2}}
  %d:2 = lm.repack %c, %s as <order = by_row, bits = 4, columns = 16, group = 16, zero_offset = 2> : (tensor<8x2xi32>, tensor<8x1xf32>) -> (tensor<8x2xi32>, tensor<8x1xf32>)
  return
}

// -----

func.func @source_zero_blocks(%c: tensor<8x2xi32>, %s: tensor<1x1xf32>) {
  // expected-error @below {{expects zero points for every row, but got blocks of 8 rows}}
  %d:2 = lm.repack %c, %s as <order = by_row, bits = 4, columns = 16, group = 16, block_rows = 8, zero_points = true> : (tensor<8x2xi32>, tensor<1x1xf32>) -> (tensor<8x2xi32>, tensor<8x1xf32>)
  return
}

// -----

func.func @embed_rows(%t: tensor<4xi32>, %w: tensor<10x8xf32>) {
  // expected-error @below {{expects one row per token, 4, but got 5}}
  %y = lm.embed %t, %w : tensor<4xi32>, tensor<10x8xf32> -> tensor<5x8xf32>
  return
}

// -----

func.func @embed_columns(%t: tensor<4xi32>, %w: tensor<10x8xf32>) {
  // expected-error @below {{expects the 8 columns of the table, but got 9}}
  %y = lm.embed %t, %w : tensor<4xi32>, tensor<10x8xf32> -> tensor<4x9xf32>
  return
}

// -----

func.func @linear_columns(%x: tensor<4x8xf32>, %w: tensor<3x9xf32>) {
  // expected-error @below {{expects a weight of 8 columns, but got 9}}
  %y = lm.linear %x, %w : tensor<4x8xf32>, tensor<3x9xf32> -> tensor<4x3xf32>
  return
}

// -----

func.func @linear_result(%x: tensor<4x8xf32>, %w: tensor<3x8xf32>) {
  // expected-error @below {{expects a result of 4 x 3, but got 3 x 4}}
  %y = lm.linear %x, %w : tensor<4x8xf32>, tensor<3x8xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @quant_linear_rows_of_scales(%x: tensor<4x16xf32>, %codes: tensor<8x2xi32>, %scales: tensor<9x1xf32>) {
  // expected-error @below {{expects codes and scales of 8 rows, but got 8 and 9}}
  %y = lm.quant_linear %x, %codes, %scales grouped<bits = 4, group = 16>
      : tensor<4x16xf32>, tensor<8x2xi32>, tensor<9x1xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @quant_linear_rows(%x: tensor<4x16xf32>, %codes: tensor<8x2xi32>, %scales: tensor<8x1xf32>) {
  // expected-error @below {{expects a result of 4 rows, but got 5}}
  %y = lm.quant_linear %x, %codes, %scales grouped<bits = 4, group = 16>
      : tensor<4x16xf32>, tensor<8x2xi32>, tensor<8x1xf32> -> tensor<5x8xf32>
  return
}

// -----

func.func @quant_linear_wrong_scale_count(%x: tensor<4x16xf32>, %codes: tensor<8x2xi32>, %scales: tensor<8x2xf32>) {
  // expected-error @below {{expects 1 scales per row, but got 2}}
  %y = lm.quant_linear %x, %codes, %scales grouped<bits = 4, group = 16>
      : tensor<4x16xf32>, tensor<8x2xi32>, tensor<8x2xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @rms_norm_weight(%x: tensor<4x8xf32>, %w: tensor<3xf32>) {
  // expected-error @below {{expects a vector of weights whose length divides 8 columns, but got 'tensor<3xf32>'}}
  %y = lm.rms_norm %x, %w {eps = 0.0 : f32} : tensor<4x8xf32>, tensor<3xf32>
  return
}

// -----

func.func @rms_norm_weight_rank(%x: tensor<4x8xf32>, %w: tensor<f32>) {
  // expected-error @below {{expects a vector of weights whose length divides 8 columns, but got 'tensor<f32>'}}
  %y = lm.rms_norm %x, %w {eps = 0.0 : f32} : tensor<4x8xf32>, tensor<f32>
  return
}

// -----

func.func @rms_norm_eps(%x: tensor<4x8xf32>, %w: tensor<8xf32>) {
  // expected-error @below {{expects eps not to be negative}}
  %y = lm.rms_norm %x, %w {eps = -1.0 : f32} : tensor<4x8xf32>, tensor<8xf32>
  return
}

// -----

func.func @gated_rms_norm_gate(%x: tensor<4x8xf32>, %z: tensor<4x4xf32>, %w: tensor<8xf32>) {
  // expected-error @below {{all of {input, gate, result} have same type}}
  %y = "lm.gated_rms_norm"(%x, %z, %w) {eps = 0.0 : f32} : (tensor<4x8xf32>, tensor<4x4xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @gated_rms_norm_weight(%x: tensor<4x8xf32>, %w: tensor<1x8xf32>) {
  // expected-error @below {{expects a vector of weights whose length divides 8 columns, but got 'tensor<1x8xf32>'}}
  %y = lm.gated_rms_norm %x, %x, %w {eps = 0.0 : f32} : tensor<4x8xf32>, tensor<1x8xf32>
  return
}

// -----

func.func @l2_norm_dim(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects a dim that divides 8 columns, but got 3}}
  %y = lm.l2_norm %x {dim = 3 : i64, eps = 0.0 : f32} : tensor<4x8xf32>
  return
}

// -----

func.func @l2_norm_dim_zero(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects a dim that divides 8 columns, but got 0}}
  %y = lm.l2_norm %x {dim = 0 : i64, eps = 0.0 : f32} : tensor<4x8xf32>
  return
}

// -----

// Infinity.
func.func @l2_norm_eps(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects eps not to be negative}}
  %y = lm.l2_norm %x {dim = 8 : i64, eps = 0x7F800000 : f32} : tensor<4x8xf32>
  return
}

// -----

func.func @add_types(%a: tensor<4x8xf32>, %b: tensor<4x4xf32>) {
  // expected-error @below {{requires the same type for all operands and results}}
  %y = "lm.add"(%a, %b) : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @last_row_result(%x: tensor<4x8xf32>, %count: tensor<1xi32>) {
  // expected-error @below {{expects a result of type 'tensor<1x8xf32>', but got 'tensor<2x8xf32>'}}
  %y = lm.last_row %x, %count : tensor<4x8xf32> -> tensor<2x8xf32>
  return
}

// -----

func.func @drop_rows_all(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects first to leave at least one of 4 rows, but got 4}}
  %y = lm.drop_rows %x {first = 4 : i64} : tensor<4x8xf32> -> tensor<1x8xf32>
  return
}

// -----

func.func @drop_rows_negative(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects first to leave at least one of 4 rows, but got -1}}
  %y = lm.drop_rows %x {first = -1 : i64} : tensor<4x8xf32> -> tensor<5x8xf32>
  return
}

// -----

func.func @drop_rows_result(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects a result of type 'tensor<3x8xf32>', but got 'tensor<2x8xf32>'}}
  %y = lm.drop_rows %x {first = 1 : i64} : tensor<4x8xf32> -> tensor<2x8xf32>
  return
}

// -----

func.func @split_groups(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects groups that divide the columns of every part, but got 3 groups and 4 columns}}
  %a, %b = lm.split %x {groups = 3 : i64} : tensor<4x8xf32> -> tensor<4x4xf32>, tensor<4x4xf32>
  return
}

// -----

func.func @split_groups_zero(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects groups that divide the columns of every part, but got 0 groups and 4 columns}}
  %a, %b = lm.split %x {groups = 0 : i64} : tensor<4x8xf32> -> tensor<4x4xf32>, tensor<4x4xf32>
  return
}

// -----

func.func @split_columns(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects parts of 8 columns together, but got 7}}
  %a, %b = lm.split %x : tensor<4x8xf32> -> tensor<4x4xf32>, tensor<4x3xf32>
  return
}

// -----

func.func @split_no_parts(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects parts of 8 columns together, but got 0}}
  "lm.split"(%x) {groups = 1 : i64} : (tensor<4x8xf32>) -> ()
  return
}

// -----

func.func @split_rows(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects rows and element type of 'tensor<4x8xf32>', but got 'tensor<3x4xf32>'}}
  %a, %b = lm.split %x : tensor<4x8xf32> -> tensor<4x4xf32>, tensor<3x4xf32>
  return
}

// -----

func.func @concat_features_nothing() {
  // expected-error @below {{expects at least one input}}
  %f = "lm.concat_features"() : () -> tensor<4x8xf32>
  return
}

// -----

func.func @concat_features_columns(%x: tensor<4x8xf32>) {
  // expected-error @below {{expects a result of 16 columns, but got 8}}
  %f = lm.concat_features %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @concat_features_element(%x: tensor<4x8xf32>, %y: tensor<4x8xbf16>) {
  // expected-error @below {{expects rows and element type of 'tensor<4x16xf32>', but got 'tensor<4x8xbf16>'}}
  %f = lm.concat_features %x, %y : (tensor<4x8xf32>, tensor<4x8xbf16>) -> tensor<4x16xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// LmStateOps.cpp
//===----------------------------------------------------------------------===//

func.func @rope_head_dim(%x: tensor<4x8xf32>, %start: tensor<1xi32>) {
  // expected-error @below {{expects a head_dim that divides 8 columns, but got 3}}
  %y = lm.rope %x at %start {head_dim = 3 : i64, dims = 2 : i64, theta = 1.0e5 : f64} : tensor<4x8xf32>
  return
}

// -----

func.func @rope_dims_odd(%x: tensor<4x8xf32>, %start: tensor<1xi32>) {
  // expected-error @below {{expects an even number of dims up to 8, but got 3}}
  %y = lm.rope %x at %start {head_dim = 8 : i64, dims = 3 : i64, theta = 1.0e5 : f64} : tensor<4x8xf32>
  return
}

// -----

func.func @rope_dims_beyond_head(%x: tensor<4x8xf32>, %start: tensor<1xi32>) {
  // expected-error @below {{expects an even number of dims up to 4, but got 8}}
  %y = lm.rope %x at %start {head_dim = 4 : i64, dims = 8 : i64, theta = 1.0e5 : f64} : tensor<4x8xf32>
  return
}

// -----

func.func @rope_theta(%x: tensor<4x8xf32>, %start: tensor<1xi32>) {
  // expected-error @below {{expects a positive theta}}
  %y = lm.rope %x at %start {head_dim = 8 : i64, dims = 4 : i64, theta = 0.0 : f64} : tensor<4x8xf32>
  return
}

// -----

func.func @cache_append_columns(%c: !lm.kv_cache<80x2x64xf32>, %k: tensor<4x64xf32>, %start: tensor<1xi32>) {
  // expected-error @below {{expects keys of 128 columns, but got 64}}
  %n = lm.cache_append %c, %k, %k at %start : !lm.kv_cache<80x2x64xf32>, tensor<4x64xf32>
  return
}

// -----

func.func @cache_append_element(%c: !lm.kv_cache<80x2x64xf32>, %k: tensor<4x128xbf16>, %start: tensor<1xi32>) {
  // expected-error @below {{expects keys of 'f32', but got 'bf16'}}
  %n = lm.cache_append %c, %k, %k at %start : !lm.kv_cache<80x2x64xf32>, tensor<4x128xbf16>
  return
}

// -----

func.func @cache_append_values(
    %c: !lm.kv_cache<80x2x64xf32>, %k: tensor<4x128xf32>, %v: tensor<5x128xf32>, %start: tensor<1xi32>) {
  // expected-error @below {{all of {keys, values} have same type}}
  %n = "lm.cache_append"(%c, %k, %v, %start)
      : (!lm.kv_cache<80x2x64xf32>, tensor<4x128xf32>, tensor<5x128xf32>, tensor<1xi32>) -> !lm.kv_cache<80x2x64xf32>
  return
}

// -----

func.func @attention_columns(%q: tensor<4x192xf32>, %c: !lm.kv_cache<80x2x64xf32>, %start: tensor<1xi32>) {
  // expected-error @below {{expects query columns that are a multiple of 128, but got 192}}
  %o = lm.attention %q, %c at %start {scale = 0.125 : f32} : tensor<4x192xf32>, !lm.kv_cache<80x2x64xf32>
  return
}

// -----

func.func @attention_window(%q: tensor<4x128xf32>, %c: !lm.kv_cache<80x2x64xf32>, %start: tensor<1xi32>) {
  // expected-error @below {{expects a window between 1 and 2^24, but got 0}}
  %o = lm.attention %q, %c at %start {scale = 0.125 : f32, window = 0 : i64} : tensor<4x128xf32>, !lm.kv_cache<80x2x64xf32>
  return
}

// -----

func.func @attention_ring_without_window(
    %q: tensor<4x128xf32>, %c: !lm.kv_cache<ring 80x2x64xf32>, %start: tensor<1xi32>) {
  // expected-error @below {{expects a window to read a ring}}
  %o = lm.attention %q, %c at %start {scale = 0.125 : f32} : tensor<4x128xf32>, !lm.kv_cache<ring 80x2x64xf32>
  return
}

// -----

// The first of 4 rows sees 77 keys before itself, and the last row has written 3 more.
func.func @attention_ring_too_short(
    %q: tensor<4x128xf32>, %c: !lm.kv_cache<ring 80x2x64xf32>, %start: tensor<1xi32>) {
  // expected-error @below {{expects a ring of at least 81 slots, but got 80}}
  %o = lm.attention %q, %c at %start {scale = 0.125 : f32, window = 78 : i64} : tensor<4x128xf32>, !lm.kv_cache<ring 80x2x64xf32>
  return
}

// -----

func.func @attention_element(%q: tensor<4x128xbf16>, %c: !lm.kv_cache<80x2x64xf32>, %start: tensor<1xi32>) {
  // expected-error @below {{expects a query of 'f32', but got 'bf16'}}
  %o = lm.attention %q, %c at %start {scale = 0.125 : f32} : tensor<4x128xbf16>, !lm.kv_cache<80x2x64xf32>
  return
}

// -----

func.func @short_conv_weight(
    %x: tensor<4x8xf32>, %w: tensor<8x4xf32>, %c: !lm.conv_cache<taps = 4, channels = 8, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects a weight of 8 x 1 x 4, but got 'tensor<8x4xf32>'}}
  %y, %d = lm.short_conv %x, %w, %c keep %n : tensor<4x8xf32>, tensor<8x4xf32>, !lm.conv_cache<taps = 4, channels = 8, pending = 4>
  return
}

// -----

func.func @short_conv_channels(
    %x: tensor<4x9xf32>, %w: tensor<8x1x4xf32>, %c: !lm.conv_cache<taps = 4, channels = 8, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects 8 channels, but got 9}}
  %y, %d = lm.short_conv %x, %w, %c keep %n : tensor<4x9xf32>, tensor<8x1x4xf32>, !lm.conv_cache<taps = 4, channels = 8, pending = 4>
  return
}

// -----

func.func @short_conv_rows(
    %x: tensor<5x8xf32>, %w: tensor<8x1x4xf32>, %c: !lm.conv_cache<taps = 4, channels = 8, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects at most 4 rows without commit, but got 5}}
  %y, %d = lm.short_conv %x, %w, %c keep %n : tensor<5x8xf32>, tensor<8x1x4xf32>, !lm.conv_cache<taps = 4, channels = 8, pending = 4>
  return
}

// -----

func.func @delta_gate_vectors(%a: tensor<4x8xf32>, %v: tensor<8xf32>, %w: tensor<7xf32>) {
  // expected-error @below {{expects vectors of 8 entries, but got 'tensor<7xf32>'}}
  %g = lm.delta_gate %a, %v, %w : tensor<4x8xf32>, tensor<8xf32>, tensor<7xf32>
  return
}

// -----

func.func @gated_delta_query(
    %q: tensor<4x8xf32>, %v: tensor<4x64xf32>, %g: tensor<4x4xf32>, %c: !lm.delta_cache<heads = 4, key_heads = 2, key_dim = 8, value_dim = 16, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects a query of 16 columns, but got 8}}
  %o, %d = lm.gated_delta %q, %q, %v, %g, %g, %c keep %n {scale = 1.0 : f32}
      : tensor<4x8xf32>, tensor<4x64xf32>, tensor<4x4xf32>,
        !lm.delta_cache<heads = 4, key_heads = 2, key_dim = 8, value_dim = 16, pending = 4>
  return
}

// -----

func.func @gated_delta_value(
    %q: tensor<4x16xf32>, %v: tensor<4x32xf32>, %g: tensor<4x4xf32>, %c: !lm.delta_cache<heads = 4, key_heads = 2, key_dim = 8, value_dim = 16, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects a value of 64 columns, but got 32}}
  %o, %d = lm.gated_delta %q, %q, %v, %g, %g, %c keep %n {scale = 1.0 : f32}
      : tensor<4x16xf32>, tensor<4x32xf32>, tensor<4x4xf32>,
        !lm.delta_cache<heads = 4, key_heads = 2, key_dim = 8, value_dim = 16, pending = 4>
  return
}

// -----

func.func @gated_delta_decay(
    %q: tensor<4x16xf32>, %v: tensor<4x64xf32>, %g: tensor<4x2xf32>, %c: !lm.delta_cache<heads = 4, key_heads = 2, key_dim = 8, value_dim = 16, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects a decay of 4 columns, but got 2}}
  %o, %d = lm.gated_delta %q, %q, %v, %g, %g, %c keep %n {scale = 1.0 : f32}
      : tensor<4x16xf32>, tensor<4x64xf32>, tensor<4x2xf32>,
        !lm.delta_cache<heads = 4, key_heads = 2, key_dim = 8, value_dim = 16, pending = 4>
  return
}

// -----

func.func @gated_delta_operand_rows(
    %q: tensor<4x16xf32>, %v: tensor<3x64xf32>, %g: tensor<4x4xf32>, %c: !lm.delta_cache<heads = 4, key_heads = 2, key_dim = 8, value_dim = 16, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects operands of 4 rows, but got 3}}
  %o, %d = lm.gated_delta %q, %q, %v, %g, %g, %c keep %n {scale = 1.0 : f32}
      : tensor<4x16xf32>, tensor<3x64xf32>, tensor<4x4xf32>,
        !lm.delta_cache<heads = 4, key_heads = 2, key_dim = 8, value_dim = 16, pending = 4>
  return
}

// -----

func.func @gated_delta_pending(
    %q: tensor<5x16xf32>, %v: tensor<5x64xf32>, %g: tensor<5x4xf32>, %c: !lm.delta_cache<heads = 4, key_heads = 2, key_dim = 8, value_dim = 16, pending = 4>, %n: tensor<1xi32>) {
  // expected-error @below {{expects at most 4 rows without commit, but got 5}}
  %o, %d = lm.gated_delta %q, %q, %v, %g, %g, %c keep %n {scale = 1.0 : f32}
      : tensor<5x16xf32>, tensor<5x64xf32>, tensor<5x4xf32>,
        !lm.delta_cache<heads = 4, key_heads = 2, key_dim = 8, value_dim = 16, pending = 4>
  return
}

// -----

//===----------------------------------------------------------------------===//
// LmDecodingOps.cpp
//===----------------------------------------------------------------------===//

func.func @argmax_rows(%l: tensor<4x8xf32>) {
  // expected-error @below {{expects one token per row, 4, but got 3}}
  %t = lm.argmax %l : tensor<4x8xf32> -> tensor<3xi32>
  return
}

// -----

func.func @denoise_size(%anchor: tensor<1xi32>, %c: !lm.kv_cache<80x2x64xf32>, %l: tensor<1x8xf32>) {
  // expected-error @below {{expects a size of at least 2, but got 1}}
  %block, %logits, %d = lm.denoise %anchor caches(%c) {mask_token = 9 : i32, size = 1 : i64, steps = 1 : i64}
      : (!lm.kv_cache<80x2x64xf32>) -> (tensor<1xi32>, tensor<1x8xf32>, !lm.kv_cache<80x2x64xf32>) {
  ^body(%tokens: tensor<1xi32>, %b: !lm.kv_cache<80x2x64xf32>):
    lm.yield %l, %b : tensor<1x8xf32>, !lm.kv_cache<80x2x64xf32>
  }
  return
}

// -----

func.func @denoise_no_steps(%anchor: tensor<1xi32>, %c: !lm.kv_cache<80x2x64xf32>, %l: tensor<3x8xf32>) {
  // expected-error @below {{expects between 1 and 3 steps, but got 0}}
  %block, %logits, %d = lm.denoise %anchor caches(%c) {mask_token = 9 : i32, size = 4 : i64, steps = 0 : i64}
      : (!lm.kv_cache<80x2x64xf32>) -> (tensor<4xi32>, tensor<3x8xf32>, !lm.kv_cache<80x2x64xf32>) {
  ^body(%tokens: tensor<4xi32>, %b: !lm.kv_cache<80x2x64xf32>):
    lm.yield %l, %b : tensor<3x8xf32>, !lm.kv_cache<80x2x64xf32>
  }
  return
}

// -----

func.func @denoise_more_steps_than_slots(%anchor: tensor<1xi32>, %c: !lm.kv_cache<80x2x64xf32>, %l: tensor<3x8xf32>) {
  // expected-error @below {{expects between 1 and 3 steps, but got 4}}
  %block, %logits, %d = lm.denoise %anchor caches(%c) {mask_token = 9 : i32, size = 4 : i64, steps = 4 : i64}
      : (!lm.kv_cache<80x2x64xf32>) -> (tensor<4xi32>, tensor<3x8xf32>, !lm.kv_cache<80x2x64xf32>) {
  ^body(%tokens: tensor<4xi32>, %b: !lm.kv_cache<80x2x64xf32>):
    lm.yield %l, %b : tensor<3x8xf32>, !lm.kv_cache<80x2x64xf32>
  }
  return
}

// -----

func.func @denoise_block(%anchor: tensor<1xi32>, %c: !lm.kv_cache<80x2x64xf32>, %l: tensor<3x8xf32>) {
  // expected-error @below {{expects a block of 4 tokens, but got 3}}
  %block, %logits, %d = lm.denoise %anchor caches(%c) {mask_token = 9 : i32, size = 4 : i64, steps = 1 : i64}
      : (!lm.kv_cache<80x2x64xf32>) -> (tensor<3xi32>, tensor<3x8xf32>, !lm.kv_cache<80x2x64xf32>) {
  ^body(%tokens: tensor<3xi32>, %b: !lm.kv_cache<80x2x64xf32>):
    lm.yield %l, %b : tensor<3x8xf32>, !lm.kv_cache<80x2x64xf32>
  }
  return
}

// -----

func.func @denoise_logits(%anchor: tensor<1xi32>, %c: !lm.kv_cache<80x2x64xf32>, %l: tensor<4x8xf32>) {
  // expected-error @below {{expects logits of 3 rows, but got 4}}
  %block, %logits, %d = lm.denoise %anchor caches(%c) {mask_token = 9 : i32, size = 4 : i64, steps = 1 : i64}
      : (!lm.kv_cache<80x2x64xf32>) -> (tensor<4xi32>, tensor<4x8xf32>, !lm.kv_cache<80x2x64xf32>) {
  ^body(%tokens: tensor<4xi32>, %b: !lm.kv_cache<80x2x64xf32>):
    lm.yield %l, %b : tensor<4x8xf32>, !lm.kv_cache<80x2x64xf32>
  }
  return
}

// -----

func.func @denoise_caches(%anchor: tensor<1xi32>, %c: !lm.kv_cache<80x2x64xf32>, %l: tensor<3x8xf32>) {
  // expected-error @below {{expects caches to keep their types}}
  %block, %logits, %d = lm.denoise %anchor caches(%c) {mask_token = 9 : i32, size = 4 : i64, steps = 1 : i64}
      : (!lm.kv_cache<80x2x64xf32>) -> (tensor<4xi32>, tensor<3x8xf32>, !lm.kv_cache<96x2x64xf32>) {
  ^body(%tokens: tensor<4xi32>, %b: !lm.kv_cache<80x2x64xf32>):
    lm.yield %l, %b : tensor<3x8xf32>, !lm.kv_cache<80x2x64xf32>
  }
  return
}

// -----

func.func @denoise_mask_token(%anchor: tensor<1xi32>, %c: !lm.kv_cache<80x2x64xf32>, %l: tensor<3x8xf32>) {
  // expected-error @below {{expects a mask token that is not negative, but got -1}}
  %block, %logits, %d = lm.denoise %anchor caches(%c) {mask_token = -1 : i32, size = 4 : i64, steps = 1 : i64}
      : (!lm.kv_cache<80x2x64xf32>) -> (tensor<4xi32>, tensor<3x8xf32>, !lm.kv_cache<80x2x64xf32>) {
  ^body(%tokens: tensor<4xi32>, %b: !lm.kv_cache<80x2x64xf32>):
    lm.yield %l, %b : tensor<3x8xf32>, !lm.kv_cache<80x2x64xf32>
  }
  return
}

// -----

func.func @denoise_body_arguments(%anchor: tensor<1xi32>, %c: !lm.kv_cache<80x2x64xf32>, %l: tensor<3x8xf32>) {
  // expected-error @below {{expects a body that takes the block and the caches}}
  %block, %logits, %d = lm.denoise %anchor caches(%c) {mask_token = 9 : i32, size = 4 : i64, steps = 1 : i64}
      : (!lm.kv_cache<80x2x64xf32>) -> (tensor<4xi32>, tensor<3x8xf32>, !lm.kv_cache<80x2x64xf32>) {
  ^body(%tokens: tensor<3xi32>, %b: !lm.kv_cache<80x2x64xf32>):
    lm.yield %l, %b : tensor<3x8xf32>, !lm.kv_cache<80x2x64xf32>
  }
  return
}

// -----

func.func @denoise_body_yields(%anchor: tensor<1xi32>, %c: !lm.kv_cache<80x2x64xf32>, %l: tensor<3x9xf32>) {
  // expected-error @below {{expects a body that yields the logits and the caches}}
  %block, %logits, %d = lm.denoise %anchor caches(%c) {mask_token = 9 : i32, size = 4 : i64, steps = 1 : i64}
      : (!lm.kv_cache<80x2x64xf32>) -> (tensor<4xi32>, tensor<3x8xf32>, !lm.kv_cache<80x2x64xf32>) {
  ^body(%tokens: tensor<4xi32>, %b: !lm.kv_cache<80x2x64xf32>):
    lm.yield %l, %b : tensor<3x9xf32>, !lm.kv_cache<80x2x64xf32>
  }
  return
}

// -----

func.func @denoise_empty_region(%anchor: tensor<1xi32>) {
  // expected-error @below {{region #0 ('body') failed to verify constraint: region with 1 blocks}}
  %b, %l = "lm.denoise"(%anchor) ({}) {mask_token = 9 : i32, size = 4 : i64, steps = 1 : i64}
      : (tensor<1xi32>) -> (tensor<4xi32>, tensor<3x8xf32>)
  return
}

// -----

func.func @denoise_empty_block(%anchor: tensor<1xi32>) {
  // expected-error @below {{expects a non-empty block}}
  %b, %l = "lm.denoise"(%anchor) ({
  ^body(%tokens: tensor<4xi32>):
  }) {mask_token = 9 : i32, size = 4 : i64, steps = 1 : i64} : (tensor<1xi32>) -> (tensor<4xi32>, tensor<3x8xf32>)
  return
}

// -----

func.func @yield_outside() {
  // expected-error @below {{expects parent op 'lm.denoise'}}
  lm.yield
  return
}

// -----

func.func @mask_block_token(%anchor: tensor<1xi32>) {
  // expected-error @below {{expects a mask token that is not negative, but got -5}}
  %b = lm.mask_block %anchor {mask_token = -5 : i32} : tensor<4xi32>
  return
}

// -----

func.func @unmask_logits(%b: tensor<4xi32>, %l: tensor<4x8xf32>) {
  // expected-error @below {{expects logits of 3 rows, but got 4}}
  %n = lm.unmask %b, %l {mask_token = 9 : i32, fill = 1 : i64} : tensor<4xi32>, tensor<4x8xf32>
  return
}

// -----

func.func @unmask_fill(%b: tensor<4xi32>, %l: tensor<3x8xf32>) {
  // expected-error @below {{expects to fill at least one slot, but got 0}}
  %n = lm.unmask %b, %l {mask_token = 9 : i32, fill = 0 : i64} : tensor<4xi32>, tensor<3x8xf32>
  return
}

// -----

func.func @unmask_token(%b: tensor<4xi32>, %l: tensor<3x8xf32>) {
  // expected-error @below {{expects a mask token that is not negative, but got -1}}
  %n = lm.unmask %b, %l {mask_token = -1 : i32, fill = 1 : i64} : tensor<4xi32>, tensor<3x8xf32>
  return
}

// -----

func.func @concat_tokens_length(%a: tensor<1xi32>, %b: tensor<3xi32>) {
  // expected-error @below {{expects 4 tokens, but got 5}}
  %c = lm.concat_tokens %a, %b : tensor<1xi32>, tensor<3xi32> -> tensor<5xi32>
  return
}

// -----

// @speculate_half_a_drafter
func.func private @prefill()
func.func private @step()
// expected-error @below {{expects context, draft, verify and accept together, but got 2 of them}}
lm.speculate {prefill = @prefill, step = @step, draft = @step, verify = @step, block = 16 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32: 7>}

// -----

// @speculate_block_without_drafter
func.func private @prefill()
func.func private @step()
// expected-error @below {{expects a block of 1 without a drafter, but got 16}}
lm.speculate {prefill = @prefill, step = @step, block = 16 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32: 7>}

// -----

// @speculate_block_of_one
func.func private @prefill()
func.func private @step()
// expected-error @below {{expects a block of at least 2, but got 1}}
lm.speculate {prefill = @prefill, step = @step,
              context = @step, draft = @step, verify = @step, accept = @step, block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32: 7>}

// -----

// @speculate_chunk
func.func private @prefill()
func.func private @step()
// expected-error @below {{expects sizes between 1 and 2^24, but got 0}}
lm.speculate {prefill = @prefill, step = @step, block = 1 : i64, chunk = 0 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32: 7>}

// -----

// @speculate_max_context
func.func private @prefill()
func.func private @step()
// expected-error @below {{expects sizes between 1 and 2^24, but got -1}}
lm.speculate {prefill = @prefill, step = @step, block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = -1 : i64, vocabulary = 100 : i64, stop_tokens = array<i32: 7>}

// -----

// @speculate_stop_token
func.func private @prefill()
func.func private @step()
// expected-error @below {{expects stop tokens below 100, but got 100}}
lm.speculate {prefill = @prefill, step = @step, block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32: 100>}

// -----

// @speculate_stop_token_negative
func.func private @prefill()
func.func private @step()
// expected-error @below {{expects stop tokens below 100, but got -1}}
lm.speculate {prefill = @prefill, step = @step, block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32: -1>}

// -----

// @speculate_half_of_the_logits
func.func private @prefill()
func.func private @step()
// expected-error @below {{expects prefill_logits and step_logits together}}
lm.speculate {prefill = @prefill, step = @step, step_logits = @step, block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32: 7>}

// -----

// @speculate_verify_logits_missing
func.func private @prefill()
func.func private @step()
// expected-error @below {{expects verify_logits with prefill_logits and a drafter}}
lm.speculate {prefill = @prefill, step = @step, prefill_logits = @prefill, step_logits = @step,
              context = @step, draft = @step, verify = @step, accept = @step, block = 16 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32: 7>}

// -----

// @speculate_verify_logits_alone
func.func private @prefill()
func.func private @step()
// expected-error @below {{expects verify_logits only with prefill_logits and a drafter}}
lm.speculate {prefill = @prefill, step = @step, verify_logits = @step, block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32: 7>}

// -----

// @speculate_unknown_program
func.func private @prefill()
// expected-error @below {{expects "step" to be a function, but got @step}}
lm.speculate {prefill = @prefill, step = @step, block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32: 7>}

// -----

// @speculate_short_prefill_without_rows
func.func private @prefill()
func.func private @step()
// expected-error @below {{expects short_prefill and short_chunk together}}
lm.speculate {prefill = @prefill, step = @step, short_prefill = @prefill,
              block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32: 7>}

// -----

// @speculate_short_chunk_that_is_none
func.func private @prefill()
func.func private @step()
// expected-error @below {{expects a short_chunk from 1 to below the chunk, 64, but got 64}}
lm.speculate {prefill = @prefill, step = @step, short_prefill = @prefill, short_chunk = 64 : i64,
              block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32: 7>}

// -----

// @speculate_short_context_without_drafter
func.func private @prefill()
func.func private @step()
// expected-error @below {{expects short_context only with short_prefill and a drafter}}
lm.speculate {prefill = @prefill, step = @step, short_prefill = @prefill, short_chunk = 16 : i64, short_context = @prefill,
              block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32: 7>}

// -----

// @speculate_short_logits_alone
func.func private @prefill()
func.func private @step()
// expected-error @below {{expects short_prefill_logits only with short_prefill and prefill_logits}}
lm.speculate {prefill = @prefill, step = @step, short_prefill = @prefill, short_chunk = 16 : i64, short_prefill_logits = @prefill,
              block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32: 7>}

// -----

// @speculate_no_short_logits
func.func private @prefill()
func.func private @step()
// expected-error @below {{expects short_prefill_logits with short_prefill and prefill_logits}}
lm.speculate {prefill = @prefill, step = @step, short_prefill = @prefill, short_chunk = 16 : i64, prefill_logits = @prefill, step_logits = @step,
              block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32: 7>}

// -----

func.func private @step()
func.func @speculate_inside_a_function() {
  // expected-error @below {{expects parent op 'builtin.module'}}
  lm.speculate {prefill = @step, step = @step, block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
                max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32>}
  return
}

// -----

// Violates (C1).
func.func @select_rows_behind(%w: tensor<17x8xbf16>) {
  // expected-error @below {{expects tokens below 17, but got 17}}
  %r = lm.select_rows %w[#lm.token_set<0, 17>] : tensor<17x8xbf16> -> tensor<2x8xbf16>
  return
}

// -----

// Violates (C2).
func.func @select_rows_result(%w: tensor<17x8xbf16>) {
  // expected-error @below {{expects a result of type 'tensor<2x8xbf16>', but got 'tensor<3x8xbf16>'}}
  %r = lm.select_rows %w[#lm.token_set<0, 16>] : tensor<17x8xbf16> -> tensor<3x8xbf16>
  return
}

// -----

func.func @token_set_order(%t: tensor<4xi32>) {
  // expected-error @below {{expects ids that ascend, but got 3 behind 3}}
  %r = lm.select_tokens %t[#lm.token_set<0, 3, 3>] : tensor<4xi32>
  return
}

// -----

func.func @token_set_negative(%t: tensor<4xi32>) {
  // expected-error @below {{expects ids from 0 on}}
  %r = lm.select_tokens %t[#lm.token_set<-1, 3>] : tensor<4xi32>
  return
}
