// RUN: qopt %s --split-input-file --verify-diagnostics

// Every message of a verifier once, in the order of the sources. A case is named after its fault. P7.14.

//===----------------------------------------------------------------------===//
// PlanDialect.cpp: attributes of modules
//===----------------------------------------------------------------------===//

// @arch
// expected-error @below {{expects 'plan.arch' to be a name, but got 3 : i64}}
module attributes {plan.arch = 3} {}

// -----

// @arena_size_negative
// expected-error @below {{expects 'plan.arena_size' to be a number of bytes, but got -64 : i64}}
module attributes {plan.arena_size = -64} {}

// -----

// @state_size_wide
// expected-error @below {{expects 'plan.state_size' to be a number of bytes, but got 64 : i128}}
module attributes {plan.state_size = 64 : i128} {}

// -----

// @port_size_text
// expected-error @below {{expects 'plan.port_size' to be a number of bytes, but got "64"}}
module attributes {plan.port_size = "64"} {}

// -----

// @unknown_attribute
// expected-error @below {{does not know the attribute 'plan.size'}}
module attributes {plan.size = 64} {}

// -----

//===----------------------------------------------------------------------===//
// PlanDialect.cpp: packings
//===----------------------------------------------------------------------===//

// @interleaved_size
// expected-error @below {{expects sizes between 1 and 2^24, but got 0}}
%w = plan.weight "w" from "target" ["t"] packing(#plan.interleaved<outputs = 0, columns = 8, element = f32>) : memref<64xi8>

// -----

// @interleaved_too_large
// expected-error @below {{expects sizes between 1 and 2^24, but got 4611686018427387904}}
%w = plan.weight "w" from "target" ["t"] packing(#plan.interleaved<outputs = 8, columns = 4611686018427387904, element = f32>) : memref<64xi8>

// -----

// @interleaved_element
// expected-error @below {{expects f32, bf16 or f16, but got 'i8'}}
%w = plan.weight "w" from "target" ["t"] packing(#plan.interleaved<outputs = 8, columns = 8, element = i8>) : memref<64xi8>

// -----

// @codes_group_size
// expected-error @below {{expects sizes between 1 and 2^24, but got -8}}
%w = plan.weight "w" from "target" ["t", "t"] packing(#plan.interleaved_codes<outputs = 8, columns = 8, bits = 4, group = -8, scale = f32>) : memref<64xi8>

// -----

// @codes_scale
// expected-error @below {{expects f32, bf16 or f16, but got 'f64'}}
%w = plan.weight "w" from "target" ["t", "t"] packing(#plan.interleaved_codes<outputs = 8, columns = 8, bits = 4, group = 8, scale = f64>) : memref<64xi8>

// -----

// @codes_bits
// expected-error @below {{expects 4 or 8 bits, but got 5}}
%w = plan.weight "w" from "target" ["t", "t"] packing(#plan.interleaved_codes<outputs = 8, columns = 8, bits = 5, group = 8, scale = f32>) : memref<64xi8>

// -----

// @codes_group
// expected-error @below {{expects a group that divides 8 columns, but got 3}}
%w = plan.weight "w" from "target" ["t", "t"] packing(#plan.interleaved_codes<outputs = 8, columns = 8, bits = 4, group = 3, scale = f32>) : memref<64xi8>

// -----

// @codes_of_floats
// expected-error @below {{expects float codes of 8 bits and without zero points}}
%w = plan.weight "w" from "target" ["t", "t"] packing(#plan.interleaved_codes<outputs = 8, columns = 8, bits = 4, group = 8, scale = f32, float_codes = true>) : memref<64xi8>

// -----

// @repack_sources
// expected-error @below {{expects 3 sources, but got 2}}
%w = plan.weight "w" from "target" ["t", "t"] repack(<order = by_row, bits = 4, columns = 8, group = 8, zero_points = true>)
    packing(#plan.interleaved_codes<outputs = 8, columns = 8, bits = 4, group = 8, scale = f32, zero_points = true>) : memref<192xi8>

// -----

// @repack_packing
// expected-error @below {{expects a packing of codes for what is repacked, but got #plan.vector<length = 1>}}
%w = plan.weight "w" from "target" ["t"] repack(<order = by_row, bits = 4, columns = 8, group = 8>)
    packing(#plan.vector<length = 1>) : memref<4xi8>

// -----

// @repack_numbers
// expected-error @below {{expects the packing to be for #lm.source<order = by_row, bits = 4, columns = 16, group = 8>, but got}}
%w = plan.weight "w" from "target" ["t", "t"] repack(<order = by_row, bits = 4, columns = 16, group = 8>)
    packing(#plan.interleaved_codes<outputs = 8, columns = 8, bits = 4, group = 8, scale = f32>) : memref<128xi8>

// -----

// @vector_length
// expected-error @below {{expects sizes between 1 and 2^24, but got -1}}
%w = plan.weight "w" from "target" ["t"] packing(#plan.vector<length = -1>) : memref<64xi8>

// -----

// @taps
// expected-error @below {{expects sizes between 1 and 2^24, but got 0}}
%w = plan.weight "w" from "target" ["t"] packing(#plan.taps<taps = 0, channels = 8>) : memref<64xi8>

// -----

// @rope_positions
// expected-error @below {{expects sizes between 1 and 2^24, but got 0}}
%w = plan.weight "w" from "target" [] packing(#plan.rope_table<positions = 0, dims = 8, theta = 1.0e5 : f64>) : memref<64xi8>

// -----

// @rope_dims
// expected-error @below {{expects an even number of dims, but got 7}}
%w = plan.weight "w" from "target" [] packing(#plan.rope_table<positions = 8, dims = 7, theta = 1.0e5 : f64>) : memref<64xi8>

// -----

// @rope_theta
// expected-error @below {{expects a positive f64 theta, but got -1.000000e+00 : f64}}
%w = plan.weight "w" from "target" [] packing(#plan.rope_table<positions = 8, dims = 8, theta = -1.0 : f64>) : memref<64xi8>

// -----

// @rope_theta_type
// expected-error @below {{expects a positive f64 theta, but got 1.000000e+00 : f32}}
%w = plan.weight "w" from "target" [] packing(#plan.rope_table<positions = 8, dims = 8, theta = 1.0 : f32>) : memref<64xi8>

// -----

// @not_a_packing
// expected-error @below {{attribute 'packing' failed to satisfy constraint: PackingAttrInterface instance}}
%w = "plan.weight"() {name = "w", checkpoint = "target", sources = [], packing = 1} : () -> memref<64xi8>

// -----

//===----------------------------------------------------------------------===//
// PlanOps.cpp: memory
//===----------------------------------------------------------------------===//

// @dynamic_size
// expected-error @below {{result #0 must be row-major memory of known sizes}}
%p = plan.port "p" : memref<?xf32>

// -----

// @no_elements
// expected-error @below {{result #0 must be row-major memory of known sizes}}
%p = plan.port "p" : memref<0xf32>

// -----

// Bytes and offsets stay far inside 64 bits.
// @too_many_elements
// expected-error @below {{result #0 must be row-major memory of known sizes}}
%p = plan.port "p" : memref<281474976710656x2xi8>

// -----

// @element
// expected-error @below {{result #0 must be row-major memory of known sizes}}
%p = plan.port "p" : memref<8xindex>

// -----

// @layout
// expected-error @below {{result #0 must be row-major memory of known sizes}}
%p = plan.port "p" : memref<8xf32, strided<[2]>>

// -----

// @memory_space
// expected-error @below {{result #0 must be row-major memory of known sizes}}
%p = plan.port "p" : memref<8xf32, 1>

// -----

// @port_offset
// expected-error @below {{expects an offset that is a multiple of 64 up to 2^48, but got 32}}
%p = plan.port "p" at 32 : memref<8xf32>

// -----

// @port_offset_negative
// expected-error @below {{expects an offset that is a multiple of 64 up to 2^48, but got -64}}
%p = plan.port "p" at -64 : memref<8xf32>

// -----

// @state_kind
// expected-error @below {{expects kind key_value, window, conv or delta, but got other}}
%s = plan.state "s" kind "other" : memref<8xf32>

// -----

// @state_offset
// expected-error @below {{expects an offset that is a multiple of 64 up to 2^48, but got 1}}
%s = plan.state "s" kind "conv" at 1 : memref<8xf32>

// -----

// @weight_size
// expected-error @below {{expects memory of type memref<32xi8>, but got 'memref<8xi8>'}}
%w = plan.weight "w" from "target" ["t"] packing(#plan.vector<length = 8>) : memref<8xi8>

// -----

// @weight_element
// expected-error @below {{expects memory of type memref<32xi8>, but got 'memref<32xf32>'}}
%w = plan.weight "w" from "target" ["t"] packing(#plan.vector<length = 8>) : memref<32xf32>

// -----

// @weight_sources
// expected-error @below {{expects 1 sources, but got 0}}
%w = plan.weight "w" from "target" [] packing(#plan.vector<length = 8>) : memref<32xi8>

// -----

plan.program @buffer_offset() -> () {
  // expected-error @below {{expects an offset that is a multiple of 64 up to 2^48, but got 9223372036854775744}}
  %b = plan.buffer at 9223372036854775744 : memref<8xf32>
}

// -----

// @buffer_outside
// expected-error @below {{expects parent op 'plan.program'}}
%b = plan.buffer : memref<8xf32>

// -----

//===----------------------------------------------------------------------===//
// PlanOps.cpp: kernels
//===----------------------------------------------------------------------===//

// @kernel_parameter_missing
// expected-error @below {{expects the parameter columns of silu}}
plan.kernel @k silu {}

// -----

// @kernel_parameter_unknown
// expected-error @below {{silu has no parameter "rows"}}
plan.kernel @k silu {columns = 8 : i64, rows = 8 : i64}

// -----

// @kernel_size_zero
// expected-error @below {{expects another value of parameter "columns", but got 0 : i64}}
plan.kernel @k silu {columns = 0 : i64}

// -----

// @kernel_size_too_large
// expected-error @below {{expects another value of parameter "columns", but got 2147483648 : i64}}
plan.kernel @k silu {columns = 2147483648 : i64}

// -----

// @kernel_size_type
// expected-error @below {{expects another value of parameter "columns", but got 8 : i32}}
plan.kernel @k silu {columns = 8 : i32}

// -----

// @kernel_first_negative
// expected-error @below {{expects another value of parameter "first", but got -1 : i64}}
plan.kernel @k drop_rows {columns = 8 : i64, first = -1 : i64}

// -----

// @kernel_number
// expected-error @below {{expects another value of parameter "eps", but got 0x7FC00000 : f32}}
plan.kernel @k l2_norm {columns = 8 : i64, dim = 8 : i64, eps = 0x7FC00000 : f32}

// -----

// @kernel_number_type
// expected-error @below {{expects another value of parameter "eps", but got 0.000000e+00 : f64}}
plan.kernel @k l2_norm {columns = 8 : i64, dim = 8 : i64, eps = 0.0 : f64}

// -----

// @kernel_element
// expected-error @below {{expects another value of parameter "element", but got i8}}
plan.kernel @k linear {columns = 8 : i64, outputs = 8 : i64, element = i8}

// -----

// @kernel_widths
// expected-error @below {{expects another value of parameter "widths", but got array<i64: 4, 0>}}
plan.kernel @k split {groups = 2 : i64, widths = array<i64: 4, 0>}

// -----

// @kernel_no_widths
// expected-error @below {{expects another value of parameter "widths", but got array<i64>}}
plan.kernel @k split {groups = 2 : i64, widths = array<i64>}

// -----

// @kernel_family
// expected-error @below {{enum values for attribute 'family'}}
plan.kernel @k gelu {columns = 8 : i64}

// -----

//===----------------------------------------------------------------------===//
// PlanOps.cpp: programs
//===----------------------------------------------------------------------===//

// @program_reads_a_state
%s = plan.state "s" kind "conv" : memref<8xf32>
// expected-error @below {{expects ports as inputs and outputs, but got}}
plan.program @p(%s : memref<8xf32>) -> () {
}

// -----

// @program_arguments
// expected-error @below {{expects a body without arguments, but got 1}}
plan.program @p() -> () {
^bb0(%x: memref<8xf32>):
}

// -----

// @program_body
// expected-error @below {{expects buffers and launches only, but got plan.program}}
plan.program @p() -> () {
  plan.program @q() -> () {
  }
}

// -----

// @program_empty_region
// expected-error @below {{region #0 ('body') failed to verify constraint: region with 1 blocks}}
"plan.program"() ({}) {sym_name = "p", operandSegmentSizes = array<i32: 0, 0>} : () -> ()

// -----

// @program_segments
// expected-error @below {{operand count (0) does not match with the total size (1)}}
"plan.program"() ({
^bb0:
}) {sym_name = "p", operandSegmentSizes = array<i32: 1, 0>} : () -> ()

// -----

// @symbol_twice
// expected-note @below {{see existing symbol definition here}}
plan.kernel @k silu {columns = 8 : i64}
// expected-error @below {{redefinition of symbol named 'k'}}
plan.kernel @k silu {columns = 8 : i64}

// -----

//===----------------------------------------------------------------------===//
// PlanOps.cpp: launches
//===----------------------------------------------------------------------===//

%x = plan.port "x" : memref<1x8xf32>
plan.kernel @k silu {columns = 8 : i64}
plan.program @launch_rows() -> () {
  // expected-error @below {{expects rows and items between 1 and 2^31 - 1, but got 0 and 1}}
  plan.launch @k ins(%x : memref<1x8xf32>) outs(%x : memref<1x8xf32>) rows 0 items 1
}

// -----

%x = plan.port "x" : memref<1x8xf32>
plan.kernel @k silu {columns = 8 : i64}
plan.program @launch_items() -> () {
  // expected-error @below {{expects rows and items between 1 and 2^31 - 1, but got 1 and -1}}
  plan.launch @k ins(%x : memref<1x8xf32>) outs(%x : memref<1x8xf32>) rows 1 items -1
}

// -----

%x = plan.port "x" : memref<1x8xf32>
plan.kernel @k silu {columns = 8 : i64}
plan.program @launch_rows_too_many() -> () {
  // expected-error @below {{expects rows and items between 1 and 2^31 - 1, but got 2147483648 and 1}}
  plan.launch @k ins(%x : memref<1x8xf32>) outs(%x : memref<1x8xf32>) rows 2147483648 items 1
}

// -----

%x = plan.port "x" : memref<1x8xf32>
plan.kernel @k silu {columns = 8 : i64}
plan.program @launch_count() -> () {
  // expected-error @below {{expects a count of type memref<1xi32>, but got 'memref<1x8xf32>'}}
  plan.launch @k ins(%x : memref<1x8xf32>) outs(%x : memref<1x8xf32>) rows 1 live %x : memref<1x8xf32> items 1
}

// -----

%x = plan.port "x" : memref<1x8xf32>
plan.kernel @k silu {columns = 8 : i64}
plan.program @launch_unknown_kernel() -> () {
  // expected-error @below {{expects a kernel of the module, but got @other}}
  plan.launch @other ins(%x : memref<1x8xf32>) outs(%x : memref<1x8xf32>) rows 1 items 1
}

// -----

%x = plan.port "x" : memref<1x8xf32>
plan.kernel @k silu {columns = 8 : i64}
plan.program @launch_of_a_program() -> () {
  // expected-error @below {{expects a kernel of the module, but got @launch_of_a_program}}
  plan.launch @launch_of_a_program ins(%x : memref<1x8xf32>) outs(%x : memref<1x8xf32>) rows 1 items 1
}

// -----

%x = plan.port "x" : memref<1x8xf32>
plan.kernel @k silu {columns = 8 : i64}
plan.program @launch_inputs() -> () {
  // expected-error @below {{expects 1 inputs of silu, but got 2}}
  plan.launch @k ins(%x, %x : memref<1x8xf32>, memref<1x8xf32>) outs(%x : memref<1x8xf32>) rows 1 items 1
}

// -----

%x = plan.port "x" : memref<1x8xf32>
plan.kernel @k silu {columns = 8 : i64}
plan.program @launch_outputs() -> () {
  // expected-error @below {{expects 1 outputs of silu, but got 0}}
  plan.launch @k ins(%x : memref<1x8xf32>) rows 1 items 1
}

// -----

%x = plan.port "x" : memref<1x8xf32>
plan.kernel @k split {groups = 1 : i64, widths = array<i64: 8>}
plan.program @launch_variadic() -> () {
  // expected-error @below {{expects at least one outputs of split, but got 0}}
  plan.launch @k ins(%x : memref<1x8xf32>) rows 1 items 1
}

// -----

// @rounded_rows_group
// expected-error @below {{expects groups of a multiple of 64 that divide 128 columns, but got 96}}
%w = plan.weight "w" from "target" ["t"] packing(#plan.rounded_rows<outputs = 8, columns = 128, group = 96>) : memref<64xi8>

// -----

// @search_codes_columns: sums would not be exact
// expected-error @below {{expects up to 32768 columns, but got 32769}}
%w = plan.weight "w" from "target" ["t"] packing(#plan.search_codes<outputs = 8, columns = 32769>) : memref<64xi8>

// -----

// @search_errors_sizes
// expected-error @below {{expects sizes between 1 and 2^24, but got 0}}
%w = plan.weight "w" from "target" ["t"] packing(#plan.search_errors<outputs = 0, columns = 8>) : memref<64xi8>

// -----

//===----------------------------------------------------------------------===//
// PlanOps.cpp: the loop
//===----------------------------------------------------------------------===//

// @loop_block
plan.program @p() -> () {
}
// expected-error @below {{expects sizes between 1 and 2^31 - 1, but got 0}}
plan.loop {prefill = @p, step = @p, block = 0 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
           max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32>}

// -----

// @loop_max_context
plan.program @p() -> () {
}
// expected-error @below {{expects sizes between 1 and 2^31 - 1, but got -1}}
plan.loop {prefill = @p, step = @p, block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
           max_context = -1 : i64, vocabulary = 100 : i64, stop_tokens = array<i32>}

// -----

// @loop_short_chunk_alone
plan.program @p() -> () {
}
// expected-error @below {{expects short_prefill and short_chunk together}}
plan.loop {prefill = @p, step = @p, block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64, short_chunk = 16 : i64,
           max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32>}

// -----

// @loop_short_chunk_of_nothing
plan.program @p() -> () {
}
// expected-error @below {{expects a short_chunk from 1 to below the chunk, 64, but got 0}}
plan.loop {prefill = @p, step = @p, short_prefill = @p, block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
           short_chunk = 0 : i64, max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32>}

// -----

// @loop_unknown_program
plan.program @p() -> () {
}
// expected-error @below {{expects "step" to be a program, but got @q}}
plan.loop {prefill = @p, step = @q, block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
           max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32>}

// -----

// @loop_of_a_kernel
plan.program @p() -> () {
}
plan.kernel @k silu {columns = 8 : i64}
// expected-error @below {{expects "prefill" to be a program, but got @k}}
plan.loop {prefill = @k, step = @p, block = 1 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
           max_context = 4096 : i64, vocabulary = 100 : i64, stop_tokens = array<i32>}

// -----

// @rows_count
// expected-error @below {{expects a packing of 3 rows of a matrix, but got #plan.rows<outputs = 4, columns = 8, element = bf16>}}
%w = plan.weight "w" from "target" ["t"] rows(#lm.token_set<0, 3, 17>)
    packing(#plan.rows<outputs = 4, columns = 8, element = bf16>) : memref<64xi8>

// -----

// @rows_of_a_vector
// expected-error @below {{expects a packing of 3 rows of a matrix, but got #plan.vector<length = 3>}}
%w = plan.weight "w" from "target" ["t"] rows(#lm.token_set<0, 3, 17>)
    packing(#plan.vector<length = 3>) : memref<12xi8>

// -----

// @rounded_codes_group
// expected-error @below {{expects groups that divide 128 columns, but got 96}}
%w = plan.weight "w" from "target" ["t"] packing(#plan.rounded_codes<outputs = 8, columns = 128, group = 96>) : memref<64xi8>
