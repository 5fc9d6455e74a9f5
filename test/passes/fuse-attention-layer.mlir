// RUN: qopt %s --plan-fuse-attention-layer --split-input-file | FileCheck %s
// RUN: qopt %s --plan-fuse-attention-layer=report --split-input-file 2>&1 \
// RUN:   >/dev/null | FileCheck %s --check-prefix=REPORT
// RUN: qopt %s --plan-fuse-attention-layer --plan-select-kernels \
// RUN:   --plan-assign-buffers --plan-verify --split-input-file \
// RUN:   | FileCheck %s --check-prefix=TILES

// REPORT: remark: plan-fuse-attention-layer: 2 launches of attention make what they read
// REPORT: remark: plan-fuse-attention-layer: 0 launches of attention make what they read
// REPORT: remark: plan-fuse-attention-layer: 0 launches of attention make what they read

// CHECK: module attributes {plan.arch = "sm_90"}
module attributes {plan.arch = "sm_90"} {
  %x = plan.port "x" : memref<16x1024xbf16>
  %x1 = plan.port "x1" : memref<1x1024xbf16>
  %x32 = plan.port "x32" : memref<32x1024xbf16>
  %k = plan.port "k" : memref<16x256xbf16>
  %k1 = plan.port "k1" : memref<1x256xbf16>
  %k32 = plan.port "k32" : memref<32x256xbf16>
  %y = plan.port "y" : memref<16x512xbf16>
  %y1 = plan.port "y1" : memref<1x512xbf16>
  %y32 = plan.port "y32" : memref<32x512xbf16>
  %start = plan.port "start" : memref<1xi32>
  %live = plan.port "live" : memref<1xi32>
  %cache = plan.state "cache" kind "key_value" : memref<2x2x256x128xbf16>
  %norm = plan.weight "norm" from "target" ["norm.weight"]
      packing(#plan.vector<length = 128>) : memref<512xi8>
  %table = plan.weight "table" from "" [] packing(#plan.rope_table<positions = 256, dims = 64, theta = 1.0e+4>) : memref<65536xi8>

  // CHECK-DAG: plan.kernel @inputs attention_inputs
  // CHECK-DAG: plan.kernel @attention attention {{.*}}window = 0 : i64}
  // CHECK-DAG: plan.kernel @attention_inputs attention {{.*}}dims = 64 : i64, eps = {{.*}}offset = {{.*}}positions = 256 : i64
  // TILES-DAG: plan.kernel @attention_inputs_r16 attention {{.*}}row_tile = 16 : i64
  // TILES-DAG: plan.kernel @attention_inputs_r8 attention {{.*}}row_tile = 8 : i64
  // TILES-DAG: plan.kernel @attention attention {activations = bf16, causal = 1 : i64, dim = 128 : i64, gated
  plan.kernel @inputs attention_inputs {activations = bf16, caches = 1 : i64, dim = 128 : i64, dims = 64 : i64, eps = 1.0e-6 : f32, gated = 1 : i64, heads = 2 : i64, offset = 1.0 : f32, positions = 256 : i64, query_heads = 4 : i64, slots = 256 : i64}
  plan.kernel @attention attention {activations = bf16, causal = 1 : i64, dim = 128 : i64, gated = 1 : i64, heads = 2 : i64, query_heads = 4 : i64, scale_by = 0.125 : f32, slots = 256 : i64, window = 0 : i64}

  // CHECK-LABEL: plan.program @verify
  plan.program @verify(%x, %k, %start, %live : memref<16x1024xbf16>, memref<16x256xbf16>, memref<1xi32>, memref<1xi32>) -> (%y : memref<16x512xbf16>) {
    // CHECK-NOT: plan.buffer
    // CHECK-NEXT: plan.launch @attention_inputs ins(%{{[^ ]*}}, %[[NORM:[^ ]*]], %[[K:[^ ]*]], %[[K]], %[[NORM]], %{{[^ ]*}}, %{{[^ ]*}} : {{.*}}) outs(%{{[^ ]*}}, %{{[^ ]*}} : memref<16x512xbf16>, memref<2x2x256x128xbf16>) rows 16 live
    // CHECK-NEXT: }
    %q = plan.buffer : memref<16x512xbf16>
    %g = plan.buffer : memref<16x512xbf16>
    plan.launch @inputs ins(%x, %norm, %k, %k, %norm, %start, %table : memref<16x1024xbf16>, memref<512xi8>, memref<16x256xbf16>, memref<16x256xbf16>, memref<512xi8>, memref<1xi32>, memref<65536xi8>) outs(%q, %g, %cache : memref<16x512xbf16>, memref<16x512xbf16>, memref<2x2x256x128xbf16>) rows 16 live %live : memref<1xi32> items 1 per_row
    plan.launch @attention ins(%q, %cache, %start, %g : memref<16x512xbf16>, memref<2x2x256x128xbf16>, memref<1xi32>, memref<16x512xbf16>) outs(%y : memref<16x512xbf16>) rows 16 live %live : memref<1xi32> items 4 per_row
  }

  // CHECK-LABEL: plan.program @step
  plan.program @step(%x1, %k1, %start : memref<1x1024xbf16>, memref<1x256xbf16>, memref<1xi32>) -> (%y1 : memref<1x512xbf16>) {
    // CHECK-NEXT: plan.launch @attention_inputs ins
    // CHECK-NEXT: }
    %q = plan.buffer : memref<1x512xbf16>
    %g = plan.buffer : memref<1x512xbf16>
    plan.launch @inputs ins(%x1, %norm, %k1, %k1, %norm, %start, %table : memref<1x1024xbf16>, memref<512xi8>, memref<1x256xbf16>, memref<1x256xbf16>, memref<512xi8>, memref<1xi32>, memref<65536xi8>) outs(%q, %g, %cache : memref<1x512xbf16>, memref<1x512xbf16>, memref<2x2x256x128xbf16>) rows 1 items 1 per_row
    plan.launch @attention ins(%q, %cache, %start, %g : memref<1x512xbf16>, memref<2x2x256x128xbf16>, memref<1xi32>, memref<1x512xbf16>) outs(%y1 : memref<1x512xbf16>) rows 1 items 4 per_row
  }

  // Of a prefill.
  // CHECK-LABEL: plan.program @negative_many_rows
  plan.program @negative_many_rows(%x32, %k32, %start : memref<32x1024xbf16>, memref<32x256xbf16>, memref<1xi32>) -> (%y32 : memref<32x512xbf16>) {
    // CHECK: plan.launch @inputs
    // CHECK-NEXT: plan.launch @attention ins
    %q = plan.buffer : memref<32x512xbf16>
    %g = plan.buffer : memref<32x512xbf16>
    plan.launch @inputs ins(%x32, %norm, %k32, %k32, %norm, %start, %table : memref<32x1024xbf16>, memref<512xi8>, memref<32x256xbf16>, memref<32x256xbf16>, memref<512xi8>, memref<1xi32>, memref<65536xi8>) outs(%q, %g, %cache : memref<32x512xbf16>, memref<32x512xbf16>, memref<2x2x256x128xbf16>) rows 32 items 1 per_row
    plan.launch @attention ins(%q, %cache, %start, %g : memref<32x512xbf16>, memref<2x2x256x128xbf16>, memref<1xi32>, memref<32x512xbf16>) outs(%y32 : memref<32x512xbf16>) rows 32 items 4 per_row
  }

  // Queries are read once more.
  // CHECK-LABEL: plan.program @negative_another_reader
  plan.program @negative_another_reader(%x, %k, %start : memref<16x1024xbf16>, memref<16x256xbf16>, memref<1xi32>) -> (%y : memref<16x512xbf16>) {
    // CHECK: plan.launch @inputs
    // CHECK-NEXT: plan.launch @attention ins
    %q = plan.buffer : memref<16x512xbf16>
    %g = plan.buffer : memref<16x512xbf16>
    plan.launch @inputs ins(%x, %norm, %k, %k, %norm, %start, %table : memref<16x1024xbf16>, memref<512xi8>, memref<16x256xbf16>, memref<16x256xbf16>, memref<512xi8>, memref<1xi32>, memref<65536xi8>) outs(%q, %g, %cache : memref<16x512xbf16>, memref<16x512xbf16>, memref<2x2x256x128xbf16>) rows 16 items 1 per_row
    plan.launch @attention ins(%q, %cache, %start, %g : memref<16x512xbf16>, memref<2x2x256x128xbf16>, memref<1xi32>, memref<16x512xbf16>) outs(%y : memref<16x512xbf16>) rows 16 items 4 per_row
    plan.launch @attention ins(%q, %cache, %start, %g : memref<16x512xbf16>, memref<2x2x256x128xbf16>, memref<1xi32>, memref<16x512xbf16>) outs(%y : memref<16x512xbf16>) rows 16 items 4 per_row
  }
}

// -----

// Blocks of this GPU are no clusters.
module attributes {plan.arch = "sm_86"} {
  %x = plan.port "x" : memref<16x512xbf16>
  %k = plan.port "k" : memref<16x256xbf16>
  %y = plan.port "y" : memref<16x512xbf16>
  %start = plan.port "start" : memref<1xi32>
  %cache = plan.state "cache" kind "key_value" : memref<2x2x256x128xbf16>
  %norm = plan.weight "norm" from "target" ["norm.weight"]
      packing(#plan.vector<length = 128>) : memref<512xi8>
  %table = plan.weight "table" from "" [] packing(#plan.rope_table<positions = 256, dims = 64, theta = 1.0e+4>) : memref<65536xi8>
  plan.kernel @inputs attention_inputs {activations = bf16, caches = 1 : i64, dim = 128 : i64, dims = 64 : i64, eps = 1.0e-6 : f32, gated = 0 : i64, heads = 2 : i64, offset = 1.0 : f32, positions = 256 : i64, query_heads = 4 : i64, slots = 256 : i64}
  plan.kernel @attention attention {activations = bf16, causal = 1 : i64, dim = 128 : i64, heads = 2 : i64, query_heads = 4 : i64, scale_by = 0.125 : f32, slots = 256 : i64, window = 0 : i64}
  // CHECK-LABEL: plan.program @negative_no_clusters
  plan.program @negative_no_clusters(%x, %k, %start : memref<16x512xbf16>, memref<16x256xbf16>, memref<1xi32>) -> (%y : memref<16x512xbf16>) {
    // CHECK: plan.launch @inputs
    // CHECK-NEXT: plan.launch @attention ins
    %q = plan.buffer : memref<16x512xbf16>
    plan.launch @inputs ins(%x, %norm, %k, %k, %norm, %start, %table : memref<16x512xbf16>, memref<512xi8>, memref<16x256xbf16>, memref<16x256xbf16>, memref<512xi8>, memref<1xi32>, memref<65536xi8>) outs(%q, %cache : memref<16x512xbf16>, memref<2x2x256x128xbf16>) rows 16 items 1 per_row
    plan.launch @attention ins(%q, %cache, %start : memref<16x512xbf16>, memref<2x2x256x128xbf16>, memref<1xi32>) outs(%y : memref<16x512xbf16>) rows 16 items 4 per_row
  }
}

// -----

// Heads are too short.
module attributes {plan.arch = "sm_90"} {
  %x = plan.port "x" : memref<16x128xbf16>
  %k = plan.port "k" : memref<16x64xbf16>
  %y = plan.port "y" : memref<16x128xbf16>
  %start = plan.port "start" : memref<1xi32>
  %cache = plan.state "cache" kind "key_value" : memref<2x2x256x32xbf16>
  %norm = plan.weight "norm" from "target" ["norm.weight"]
      packing(#plan.vector<length = 32>) : memref<128xi8>
  %table = plan.weight "table" from "" [] packing(#plan.rope_table<positions = 256, dims = 32, theta = 1.0e+4>) : memref<32768xi8>
  plan.kernel @inputs attention_inputs {activations = bf16, caches = 1 : i64, dim = 32 : i64, dims = 32 : i64, eps = 1.0e-6 : f32, gated = 0 : i64, heads = 2 : i64, offset = 1.0 : f32, positions = 256 : i64, query_heads = 4 : i64, slots = 256 : i64}
  plan.kernel @attention attention {activations = bf16, causal = 1 : i64, dim = 32 : i64, heads = 2 : i64, query_heads = 4 : i64, scale_by = 0.125 : f32, slots = 256 : i64, window = 0 : i64}
  // CHECK-LABEL: plan.program @negative_short_heads
  plan.program @negative_short_heads(%x, %k, %start : memref<16x128xbf16>, memref<16x64xbf16>, memref<1xi32>) -> (%y : memref<16x128xbf16>) {
    // CHECK: plan.launch @inputs
    // CHECK-NEXT: plan.launch @attention ins
    %q = plan.buffer : memref<16x128xbf16>
    plan.launch @inputs ins(%x, %norm, %k, %k, %norm, %start, %table : memref<16x128xbf16>, memref<128xi8>, memref<16x64xbf16>, memref<16x64xbf16>, memref<128xi8>, memref<1xi32>, memref<32768xi8>) outs(%q, %cache : memref<16x128xbf16>, memref<2x2x256x32xbf16>) rows 16 items 1 per_row
    plan.launch @attention ins(%q, %cache, %start : memref<16x128xbf16>, memref<2x2x256x32xbf16>, memref<1xi32>) outs(%y : memref<16x128xbf16>) rows 16 items 4 per_row
  }
}
