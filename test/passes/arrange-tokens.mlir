// RUN: qopt %s --plan-arrange-tokens --split-input-file | FileCheck %s
// RUN: qopt %s --plan-arrange-tokens=report --split-input-file 2>&1 \
// RUN:   >/dev/null | FileCheck %s --check-prefix=REPORT
// RUN: qopt %s --plan-arrange-tokens --plan-assign-buffers --plan-verify \
// RUN:   --split-input-file | FileCheck %s --check-prefix=OFFSETS
// RUN: qopt %s --plan-arrange-tokens --plan-arrange-tokens=report \
// RUN:   --split-input-file 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=TWICE

// REPORT: remark: plan-arrange-tokens: 4 layers take tokens as their products do
// REPORT: remark: plan-arrange-tokens: 0 layers take tokens as their products do
// REPORT: remark: plan-arrange-tokens: 0 layers take tokens as their products do
// TWICE: remark: plan-arrange-tokens: 0 layers take tokens as their products do
// TWICE: remark: plan-arrange-tokens: 0 layers take tokens as their products do

// Down, gate and up, and down of the next layer: the first prepares the norm of
// the second and keeps its rows, which the third adds; a layer of bf16 reads what
// is prepared, too; the second leaves what nobody but the third reads. Rows of a step are in tiles of their own.
// CHECK: module attributes {plan.arch = "sm_90"}
module attributes {plan.arch = "sm_90"} {
  %x = plan.port "x" : memref<16x128xbf16>
  %r = plan.port "r" : memref<16x128xbf16>
  %z = plan.port "z" : memref<16x128xbf16>
  %x1 = plan.port "x1" : memref<1x128xbf16>
  %g1 = plan.port "g1" : memref<1x256xbf16>
  %live = plan.port "live" : memref<1xi32>
  %ab = plan.port "ab" : memref<16x32xf32>
  %wab = plan.weight "ab" from "target" ["ab"] packing(#plan.rows<outputs = 32, columns = 128, element = bf16>) : memref<8192xi8>
  %o = plan.weight "o" from "target" ["o.q", "o.s"]
      packing(#plan.fragment_codes<outputs = 128, columns = 128, bits = 4, group = 32, scale = bf16>) : memref<9216xi8>
  %gate = plan.weight "gate" from "target" ["gate.q", "gate.s"]
      packing(#plan.fragment_codes<outputs = 256, columns = 128, bits = 4, group = 32, scale = bf16>) : memref<18432xi8>
  %up = plan.weight "up" from "target" ["up.q", "up.s"]
      packing(#plan.fragment_codes<outputs = 256, columns = 128, bits = 4, group = 32, scale = bf16>) : memref<18432xi8>
  %down = plan.weight "down" from "target" ["down.q", "down.s"]
      packing(#plan.fragment_codes<outputs = 128, columns = 256, bits = 4, group = 32, scale = bf16>) : memref<18432xi8>
  %norm = plan.weight "norm" from "target" ["norm"] packing(#plan.vector<length = 128>) : memref<512xi8>

  // CHECK-DAG: plan.kernel @o_next fused_quant_linear {{.*}}next_norm = 1 : i64, next_offset = 1.0{{.*}} : f32, {{.*}}residual = 1 : i64
  // CHECK-DAG: plan.kernel @gate_up_from_to fused_quant_linear {{.*}}from_fragments = 1 : i64, {{.*}}norm = 1 : i64, {{.*}}to_fragments = 1 : i64
  // CHECK-DAG: plan.kernel @down_from fused_quant_linear {{.*}}from_fragments = 1 : i64
  // CHECK-DAG: plan.kernel @ab_from fused_linear {{.*}}from_fragments = 1 : i64
  // CHECK-DAG: plan.kernel @o8_next
  // CHECK-DAG: plan.kernel @gate_up8_from fused_quant_linear
  // CHECK-NOT: plan.kernel @gate_up fused
  plan.kernel @o fused_quant_linear {activations = bf16, bits = 4 : i64, columns = 128 : i64, eps = 1.0e-6 : f32, gated = 0 : i64, group = 32 : i64, norm = 0 : i64, offset = 1.0 : f32, residual = 1 : i64, row_tile = 16 : i64, scale = bf16, widths = array<i64: 128>}
  plan.kernel @gate_up fused_quant_linear {activations = bf16, bits = 4 : i64, columns = 128 : i64, eps = 1.0e-6 : f32, gated = 1 : i64, group = 32 : i64, norm = 1 : i64, offset = 1.0 : f32, residual = 0 : i64, row_tile = 16 : i64, scale = bf16, widths = array<i64: 256, 256>}
  plan.kernel @ab fused_linear {activations = bf16, columns = 128 : i64, element = bf16, eps = 1.0e-6 : f32, gated = 0 : i64, norm = 1 : i64, offset = 1.0 : f32, residual = 0 : i64, result = f32, row_tile = 16 : i64, widths = array<i64: 32>}
  plan.kernel @down fused_quant_linear {activations = bf16, bits = 4 : i64, columns = 256 : i64, eps = 1.0e-6 : f32, gated = 0 : i64, group = 32 : i64, norm = 0 : i64, offset = 1.0 : f32, residual = 1 : i64, row_tile = 16 : i64, scale = bf16, widths = array<i64: 128>}
  plan.kernel @o8 fused_quant_linear {activations = bf16, bits = 4 : i64, columns = 128 : i64, eps = 1.0e-6 : f32, gated = 0 : i64, group = 32 : i64, norm = 0 : i64, offset = 1.0 : f32, residual = 1 : i64, row_tile = 8 : i64, scale = bf16, widths = array<i64: 128>}
  plan.kernel @gate_up8 fused_quant_linear {activations = bf16, bits = 4 : i64, columns = 128 : i64, eps = 1.0e-6 : f32, gated = 1 : i64, group = 32 : i64, norm = 1 : i64, offset = 1.0 : f32, residual = 0 : i64, row_tile = 8 : i64, scale = bf16, widths = array<i64: 256, 256>}

  // CHECK-LABEL: plan.program @verify
  plan.program @verify(%x, %r, %live : memref<16x128xbf16>, memref<16x128xbf16>, memref<1xi32>) -> (%z : memref<16x128xbf16>) {
    // CHECK-DAG: %[[TOKENS:.*]] = plan.buffer : memref<16x128xbf16>
    // CHECK-DAG: %[[SQUARES:.*]] = plan.buffer : memref<8x16xf32>
    // CHECK-DAG: %[[GATED:.*]] = plan.buffer : memref<16x256xbf16>
    // CHECK: plan.launch @o_next ins(%{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}, %[[NORM:[^ ]*]] : {{.*}}) outs(%[[Y:[^ ]*]], %[[TOKENS]], %[[SQUARES]] : {{.*}}) rows 16 live
    // CHECK-NEXT: plan.launch @gate_up_from_to ins(%[[TOKENS]], %{{[^ ]*}}, %{{[^ ]*}}, %[[SQUARES]] : {{.*}}) outs(%[[GATED]] : {{.*}}) rows 16 live
    // CHECK-NEXT: plan.launch @ab_from ins(%[[TOKENS]], %{{[^ ]*}}, %[[SQUARES]] : {{.*}}) outs(%{{.*}} : memref<16x32xf32>) rows 16 live
    // CHECK-NEXT: plan.launch @down_from ins(%[[GATED]], %{{[^ ]*}}, %[[Y]] : {{.*}}) outs(%{{.*}}) rows 16 live
    // OFFSETS: plan.launch @o_next
    %y = plan.buffer : memref<16x128xbf16>
    %g = plan.buffer : memref<16x256xbf16>
    plan.launch @o ins(%x, %o, %r : memref<16x128xbf16>, memref<9216xi8>, memref<16x128xbf16>) outs(%y : memref<16x128xbf16>) rows 16 live %live : memref<1xi32> items 8 per_row
    plan.launch @gate_up ins(%y, %gate, %up, %norm : memref<16x128xbf16>, memref<18432xi8>, memref<18432xi8>, memref<512xi8>) outs(%g : memref<16x256xbf16>) rows 16 live %live : memref<1xi32> items 8 per_row
    plan.launch @ab ins(%y, %wab, %norm : memref<16x128xbf16>, memref<8192xi8>, memref<512xi8>) outs(%ab : memref<16x32xf32>) rows 16 live %live : memref<1xi32> items 8 per_row
    plan.launch @down ins(%g, %down, %y : memref<16x256xbf16>, memref<18432xi8>, memref<16x128xbf16>) outs(%z : memref<16x128xbf16>) rows 16 live %live : memref<1xi32> items 8 per_row
  }

  // CHECK-LABEL: plan.program @step
  plan.program @step(%x1, %live : memref<1x128xbf16>, memref<1xi32>) -> (%g1 : memref<1x256xbf16>) {
    // CHECK-DAG: %[[TOKENS:.*]] = plan.buffer : memref<8x128xbf16>
    // CHECK-DAG: %[[SQUARES:.*]] = plan.buffer : memref<8x8xf32>
    // CHECK: plan.launch @o8_next ins({{.*}}) outs(%{{[^ ]*}}, %[[TOKENS]], %[[SQUARES]] : {{.*}}) rows 1
    // CHECK-NEXT: plan.launch @gate_up8_from ins(%[[TOKENS]], %{{[^ ]*}}, %{{[^ ]*}}, %[[SQUARES]] : {{.*}}) outs(%{{.*}} : memref<1x256xbf16>) rows 1
    %y1 = plan.buffer : memref<1x128xbf16>
    plan.launch @o8 ins(%x1, %o, %x1 : memref<1x128xbf16>, memref<9216xi8>, memref<1x128xbf16>) outs(%y1 : memref<1x128xbf16>) rows 1 items 8 per_row
    plan.launch @gate_up8 ins(%y1, %gate, %up, %norm : memref<1x128xbf16>, memref<18432xi8>, memref<18432xi8>, memref<512xi8>) outs(%g1 : memref<1x256xbf16>) rows 1 items 8 per_row
  }
}

// -----

// What stays as it is. CHECK-LABEL: module attributes {plan.arch = "sm_90"}
module attributes {plan.arch = "sm_90"} {
  %x = plan.port "x" : memref<16x128xbf16>
  %z = plan.port "z" : memref<16x128xbf16>
  %p = plan.port "p" : memref<16x256xbf16>
  %n = plan.port "n" : memref<16x128xbf16>
  %x32 = plan.port "x32" : memref<32x128xbf16>
  %p32 = plan.port "p32" : memref<32x256xbf16>
  %live = plan.port "live" : memref<1xi32>
  %o = plan.weight "o" from "target" ["o.q", "o.s"]
      packing(#plan.fragment_codes<outputs = 128, columns = 128, bits = 4, group = 32, scale = bf16>) : memref<9216xi8>
  %gate = plan.weight "gate" from "target" ["gate.q", "gate.s"]
      packing(#plan.fragment_codes<outputs = 256, columns = 128, bits = 4, group = 32, scale = bf16>) : memref<18432xi8>
  %up = plan.weight "up" from "target" ["up.q", "up.s"]
      packing(#plan.fragment_codes<outputs = 256, columns = 128, bits = 4, group = 32, scale = bf16>) : memref<18432xi8>
  %down = plan.weight "down" from "target" ["down.q", "down.s"]
      packing(#plan.fragment_codes<outputs = 128, columns = 256, bits = 4, group = 32, scale = bf16>) : memref<18432xi8>
  %gateF = plan.weight "gateF" from "target" ["gateF.q", "gateF.s"]
      packing(#plan.fragment_codes<outputs = 256, columns = 128, bits = 4, group = 32, scale = f32>) : memref<20480xi8>
  %upF = plan.weight "upF" from "target" ["upF.q", "upF.s"]
      packing(#plan.fragment_codes<outputs = 256, columns = 128, bits = 4, group = 32, scale = f32>) : memref<20480xi8>
  %norm = plan.weight "norm" from "target" ["norm"] packing(#plan.vector<length = 128>) : memref<512xi8>

  plan.kernel @o fused_quant_linear {activations = bf16, bits = 4 : i64, columns = 128 : i64, eps = 1.0e-6 : f32, gated = 0 : i64, group = 32 : i64, norm = 0 : i64, offset = 1.0 : f32, residual = 1 : i64, row_tile = 16 : i64, scale = bf16, widths = array<i64: 128>}
  plan.kernel @plain fused_quant_linear {activations = bf16, bits = 4 : i64, columns = 128 : i64, eps = 1.0e-6 : f32, gated = 0 : i64, group = 32 : i64, norm = 0 : i64, offset = 1.0 : f32, residual = 0 : i64, row_tile = 16 : i64, scale = bf16, widths = array<i64: 128>}
  plan.kernel @gate_up fused_quant_linear {activations = bf16, bits = 4 : i64, columns = 128 : i64, eps = 1.0e-6 : f32, gated = 1 : i64, group = 32 : i64, norm = 1 : i64, offset = 1.0 : f32, residual = 0 : i64, row_tile = 16 : i64, scale = bf16, widths = array<i64: 256, 256>}
  plan.kernel @gate_up_f32 fused_quant_linear {activations = bf16, bits = 4 : i64, columns = 128 : i64, eps = 1.0e-6 : f32, gated = 1 : i64, group = 32 : i64, norm = 1 : i64, offset = 1.0 : f32, residual = 0 : i64, row_tile = 16 : i64, scale = f32, widths = array<i64: 256, 256>}
  plan.kernel @down fused_quant_linear {activations = bf16, bits = 4 : i64, columns = 256 : i64, eps = 1.0e-6 : f32, gated = 0 : i64, group = 32 : i64, norm = 0 : i64, offset = 1.0 : f32, residual = 1 : i64, row_tile = 16 : i64, scale = bf16, widths = array<i64: 128>}
  plan.kernel @o32 fused_quant_linear {activations = bf16, bits = 4 : i64, columns = 128 : i64, eps = 1.0e-6 : f32, gated = 0 : i64, group = 32 : i64, norm = 0 : i64, offset = 1.0 : f32, residual = 1 : i64, row_tile = 32 : i64, scale = bf16, widths = array<i64: 128>}
  plan.kernel @gate_up32 fused_quant_linear {activations = bf16, bits = 4 : i64, columns = 128 : i64, eps = 1.0e-6 : f32, gated = 1 : i64, group = 32 : i64, norm = 1 : i64, offset = 1.0 : f32, residual = 0 : i64, row_tile = 32 : i64, scale = bf16, widths = array<i64: 256, 256>}
  plan.kernel @normed rms_norm {activations = bf16, columns = 128 : i64, dim = 128 : i64, eps = 1.0e-6 : f32, offset = 1.0 : f32}

  // Codes that are not multiplied where they lie.
  // CHECK-LABEL: plan.program @negative_other_scales
  plan.program @negative_other_scales(%x, %live : memref<16x128xbf16>, memref<1xi32>) -> (%p : memref<16x256xbf16>) {
    // CHECK: plan.launch @o ins
    // CHECK-NEXT: plan.launch @gate_up_f32 ins
    %y = plan.buffer : memref<16x128xbf16>
    plan.launch @o ins(%x, %o, %x : memref<16x128xbf16>, memref<9216xi8>, memref<16x128xbf16>) outs(%y : memref<16x128xbf16>) rows 16 live %live : memref<1xi32> items 8 per_row
    plan.launch @gate_up_f32 ins(%y, %gateF, %upF, %norm : memref<16x128xbf16>, memref<20480xi8>, memref<20480xi8>, memref<512xi8>) outs(%p : memref<16x256xbf16>) rows 16 live %live : memref<1xi32> items 8 per_row
  }

  // Nobody prepares a norm without a residual, and rows that others read stay
  // rows.
  // CHECK-LABEL: plan.program @negative_no_residual
  plan.program @negative_no_residual(%x, %live : memref<16x128xbf16>, memref<1xi32>) -> (%p : memref<16x256xbf16>) {
    // CHECK: plan.launch @plain ins
    // CHECK-NEXT: plan.launch @gate_up ins
    %y = plan.buffer : memref<16x128xbf16>
    plan.launch @plain ins(%x, %o : memref<16x128xbf16>, memref<9216xi8>) outs(%y : memref<16x128xbf16>) rows 16 live %live : memref<1xi32> items 8 per_row
    plan.launch @gate_up ins(%y, %gate, %up, %norm : memref<16x128xbf16>, memref<18432xi8>, memref<18432xi8>, memref<512xi8>) outs(%p : memref<16x256xbf16>) rows 16 live %live : memref<1xi32> items 8 per_row
  }

  // CHECK-LABEL: plan.program @negative_port_between
  plan.program @negative_port_between(%x, %live : memref<16x128xbf16>, memref<1xi32>) -> (%p, %z : memref<16x256xbf16>, memref<16x128xbf16>) {
    // CHECK: plan.launch @gate_up ins
    // CHECK-NEXT: plan.launch @down ins
    plan.launch @gate_up ins(%x, %gate, %up, %norm : memref<16x128xbf16>, memref<18432xi8>, memref<18432xi8>, memref<512xi8>) outs(%p : memref<16x256xbf16>) rows 16 live %live : memref<1xi32> items 8 per_row
    plan.launch @down ins(%p, %down, %x : memref<16x256xbf16>, memref<18432xi8>, memref<16x128xbf16>) outs(%z : memref<16x128xbf16>) rows 16 live %live : memref<1xi32> items 8 per_row
  }

  // More rows, and other numbers of rows.
  // CHECK-LABEL: plan.program @negative_many_rows
  plan.program @negative_many_rows(%x32, %live : memref<32x128xbf16>, memref<1xi32>) -> (%p32 : memref<32x256xbf16>) {
    // CHECK: plan.launch @o32 ins
    // CHECK-NEXT: plan.launch @gate_up32 ins
    %y32 = plan.buffer : memref<32x128xbf16>
    plan.launch @o32 ins(%x32, %o, %x32 : memref<32x128xbf16>, memref<9216xi8>, memref<32x128xbf16>) outs(%y32 : memref<32x128xbf16>) rows 32 live %live : memref<1xi32> items 8 per_row
    plan.launch @gate_up32 ins(%y32, %gate, %up, %norm : memref<32x128xbf16>, memref<18432xi8>, memref<18432xi8>, memref<512xi8>) outs(%p32 : memref<32x256xbf16>) rows 32 live %live : memref<1xi32> items 8 per_row
  }

  // CHECK-LABEL: plan.program @negative_other_rows
  plan.program @negative_other_rows(%x, %live : memref<16x128xbf16>, memref<1xi32>) -> (%p : memref<16x256xbf16>) {
    // CHECK: plan.launch @o ins
    // CHECK-NEXT: plan.launch @gate_up ins
    %y = plan.buffer : memref<16x128xbf16>
    plan.launch @o ins(%x, %o, %x : memref<16x128xbf16>, memref<9216xi8>, memref<16x128xbf16>) outs(%y : memref<16x128xbf16>) rows 16 live %live : memref<1xi32> items 8 per_row
    plan.launch @gate_up ins(%y, %gate, %up, %norm : memref<16x128xbf16>, memref<18432xi8>, memref<18432xi8>, memref<512xi8>) outs(%p : memref<16x256xbf16>) rows 16 items 8 per_row
  }

  // Somebody who is no layer takes a norm of its own, of rows.
  // CHECK-LABEL: plan.program @negative_other_reader
  plan.program @negative_other_reader(%x, %live : memref<16x128xbf16>, memref<1xi32>) -> (%n : memref<16x128xbf16>) {
    // CHECK: plan.launch @o ins
    // CHECK-NEXT: plan.launch @normed ins
    %y = plan.buffer : memref<16x128xbf16>
    plan.launch @o ins(%x, %o, %x : memref<16x128xbf16>, memref<9216xi8>, memref<16x128xbf16>) outs(%y : memref<16x128xbf16>) rows 16 live %live : memref<1xi32> items 8 per_row
    plan.launch @normed ins(%y, %norm : memref<16x128xbf16>, memref<512xi8>) outs(%n : memref<16x128xbf16>) rows 16 live %live : memref<1xi32> items 8 per_row
  }
}

// -----

// One warp does not finish a tile there.
// CHECK: module attributes {plan.arch = "sm_86"}
module attributes {plan.arch = "sm_86"} {
  %x = plan.port "x" : memref<16x128xbf16>
  %p = plan.port "p" : memref<16x256xbf16>
  %live = plan.port "live" : memref<1xi32>
  %o = plan.weight "o" from "target" ["o.q", "o.s"]
      packing(#plan.fragment_codes<outputs = 128, columns = 128, bits = 4, group = 32, scale = bf16>) : memref<9216xi8>
  %gate = plan.weight "gate" from "target" ["gate.q", "gate.s"]
      packing(#plan.fragment_codes<outputs = 256, columns = 128, bits = 4, group = 32, scale = bf16>) : memref<18432xi8>
  %up = plan.weight "up" from "target" ["up.q", "up.s"]
      packing(#plan.fragment_codes<outputs = 256, columns = 128, bits = 4, group = 32, scale = bf16>) : memref<18432xi8>
  %norm = plan.weight "norm" from "target" ["norm"] packing(#plan.vector<length = 128>) : memref<512xi8>
  plan.kernel @o fused_quant_linear {activations = bf16, bits = 4 : i64, columns = 128 : i64, eps = 1.0e-6 : f32, gated = 0 : i64, group = 32 : i64, norm = 0 : i64, offset = 1.0 : f32, residual = 1 : i64, row_tile = 16 : i64, scale = bf16, widths = array<i64: 128>}
  plan.kernel @gate_up fused_quant_linear {activations = bf16, bits = 4 : i64, columns = 128 : i64, eps = 1.0e-6 : f32, gated = 1 : i64, group = 32 : i64, norm = 1 : i64, offset = 1.0 : f32, residual = 0 : i64, row_tile = 16 : i64, scale = bf16, widths = array<i64: 256, 256>}
  plan.program @verify(%x, %live : memref<16x128xbf16>, memref<1xi32>) -> (%p : memref<16x256xbf16>) {
    // CHECK: plan.launch @o ins
    // CHECK-NEXT: plan.launch @gate_up ins
    %y = plan.buffer : memref<16x128xbf16>
    plan.launch @o ins(%x, %o, %x : memref<16x128xbf16>, memref<9216xi8>, memref<16x128xbf16>) outs(%y : memref<16x128xbf16>) rows 16 live %live : memref<1xi32> items 8 per_row
    plan.launch @gate_up ins(%y, %gate, %up, %norm : memref<16x128xbf16>, memref<18432xi8>, memref<18432xi8>, memref<512xi8>) outs(%p : memref<16x256xbf16>) rows 16 live %live : memref<1xi32> items 8 per_row
  }
}
