// RUN: qopt %s --plan-select-kernels --split-input-file | FileCheck %s
// RUN: qopt %s --plan-select-kernels=report --split-input-file 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REPORT
// RUN: qopt %s --plan-select-kernels --plan-assign-buffers --plan-verify \
// RUN:   --split-input-file

// REPORT: remark: plan-select-kernels: 6 kernels have a tile of rows
// REPORT: remark: plan-select-kernels: 0 kernels have a tile of rows

// CHECK: module attributes {plan.arch = "sm_86"}
module attributes {plan.arch = "sm_86"} {
  %x1 = plan.port "x1" : memref<1x8xbf16>
  %x16 = plan.port "x16" : memref<16x8xbf16>
  %x17 = plan.port "x17" : memref<17x8xbf16>
  %x64 = plan.port "x64" : memref<64x8xbf16>
  %x100 = plan.port "x100" : memref<100x8xbf16>
  %y1 = plan.port "y1" : memref<1x24xbf16>
  %y16 = plan.port "y16" : memref<16x24xbf16>
  %y17 = plan.port "y17" : memref<17x24xbf16>
  %y64 = plan.port "y64" : memref<64x24xbf16>
  %y100 = plan.port "y100" : memref<100x24xbf16>
  %z16 = plan.port "z16" : memref<16x8xbf16>
  %w = plan.weight "w" from "target" ["w.weight"]
      packing(#plan.rows<outputs = 24, columns = 8, element = bf16>)
      : memref<384xi8>

  // One kernel for each tile, and none for those without.
  // CHECK-DAG: plan.kernel @linear_r8 linear {{.*}}row_tile = 8 : i64}
  // CHECK-DAG: plan.kernel @linear_r16 linear {{.*}}row_tile = 16 : i64}
  // CHECK-DAG: plan.kernel @linear_r32 linear {{.*}}row_tile = 32 : i64}
  // CHECK-DAG: plan.kernel @linear_r64_0 linear {{.*}}row_tile = 64 : i64}
  // CHECK-DAG: plan.kernel @linear_r128 linear {{.*}}row_tile = 128 : i64}
  // CHECK-NOT: plan.kernel @linear linear
  plan.kernel @linear linear {activations = bf16, columns = 8 : i64, element = bf16, outputs = 24 : i64}
  // A kernel of the same numbers in f32 has a tile of its own.
  plan.kernel @linear_r64 linear {activations = bf16, columns = 8 : i64, element = bf16, outputs = 24 : i64, result = f32}
  // CHECK: plan.kernel @chosen linear {{.*}}row_tile = 64 : i64}
  plan.kernel @chosen linear {activations = bf16, columns = 8 : i64, element = bf16, outputs = 24 : i64, row_tile = 64 : i64}
  // CHECK: plan.kernel @silu silu {activations = bf16, columns = 8 : i64}
  plan.kernel @silu silu {activations = bf16, columns = 8 : i64}
  %f16 = plan.port "f16" : memref<16x24xf32>

  // CHECK-LABEL: plan.program @by_rows
  plan.program @by_rows() -> () {
    // CHECK: plan.launch @linear_r8
    plan.launch @linear ins(%x1, %w : memref<1x8xbf16>, memref<384xi8>)
        outs(%y1 : memref<1x24xbf16>) rows 1 items 2
    // CHECK: plan.launch @linear_r16
    plan.launch @linear ins(%x16, %w : memref<16x8xbf16>, memref<384xi8>)
        outs(%y16 : memref<16x24xbf16>) rows 16 items 2
    // CHECK: plan.launch @linear_r32
    plan.launch @linear ins(%x17, %w : memref<17x8xbf16>, memref<384xi8>)
        outs(%y17 : memref<17x24xbf16>) rows 17 items 2
    // CHECK: plan.launch @linear_r64_0
    plan.launch @linear ins(%x64, %w : memref<64x8xbf16>, memref<384xi8>)
        outs(%y64 : memref<64x24xbf16>) rows 64 items 2
    // CHECK: plan.launch @linear_r128
    plan.launch @linear ins(%x100, %w : memref<100x8xbf16>, memref<384xi8>)
        outs(%y100 : memref<100x24xbf16>) rows 100 items 2
    // CHECK: plan.launch @linear_r64_r16
    plan.launch @linear_r64 ins(%x16, %w : memref<16x8xbf16>, memref<384xi8>)
        outs(%f16 : memref<16x24xf32>) rows 16 items 2
  }

  // CHECK-LABEL: plan.program @negative_has_a_tile
  plan.program @negative_has_a_tile() -> () {
    // CHECK: plan.launch @chosen
    plan.launch @chosen ins(%x16, %w : memref<16x8xbf16>, memref<384xi8>)
        outs(%y16 : memref<16x24xbf16>) rows 16 items 2
  }

  // CHECK-LABEL: plan.program @negative_family_without_tiles
  plan.program @negative_family_without_tiles() -> () {
    // CHECK: plan.launch @silu
    plan.launch @silu ins(%x16 : memref<16x8xbf16>)
        outs(%z16 : memref<16x8xbf16>) rows 16 items 1 per_row
  }
}

// -----

// Kernels of processors choose when they run.
module attributes {plan.arch = "x86-64-v4"} {
  %x = plan.port "x" : memref<16x8xf32>
  %y = plan.port "y" : memref<16x24xf32>
  %w = plan.weight "w" from "target" ["w.weight"]
      packing(#plan.interleaved<outputs = 24, columns = 8, element = bf16>)
      : memref<512xi8>
  // CHECK: plan.kernel @linear linear {columns = 8 : i64, element = bf16, outputs = 24 : i64}
  plan.kernel @linear linear {columns = 8 : i64, element = bf16, outputs = 24 : i64}
  // CHECK-LABEL: plan.program @negative_processor
  plan.program @negative_processor() -> () {
    // CHECK: plan.launch @linear
    plan.launch @linear ins(%x, %w : memref<16x8xf32>, memref<512xi8>)
        outs(%y : memref<16x24xf32>) rows 16 items 2
  }
}
