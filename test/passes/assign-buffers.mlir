// RUN: qopt %s --plan-assign-buffers | FileCheck %s
// RUN: qopt %s --plan-assign-buffers=report 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REPORT

// REPORT: remark: plan-assign-buffers: 320 bytes of arena
// REPORT: remark: plan-assign-buffers: 512 bytes of buffers

// CHECK: plan.arena_size = 320 : i64
// CHECK-SAME: plan.port_size = 128 : i64
// CHECK-SAME: plan.state_size = 192 : i64
module {
  // Everything starts at a multiple of 64 bytes.
  // CHECK: plan.port "x" at 0
  // CHECK: plan.port "n" at 64
  %x = plan.port "x" : memref<2xf32>
  %n = plan.port "n" : memref<1xi32>
  // CHECK: plan.state "conv" kind "conv" at 0
  // CHECK: plan.state "delta" kind "delta" at 128
  %conv = plan.state "conv" kind "conv" : memref<17xf32>
  %delta = plan.state "delta" kind "delta" : memref<1xf32>
  plan.kernel @copy_b8 copy {bytes = 8 : i64}

  // %a dies when %c is born, so they share; the larger %b goes first.
  // CHECK-LABEL: plan.program @reuse
  plan.program @reuse(%x : memref<2xf32>) -> (%x : memref<2xf32>) {
    // CHECK: plan.buffer at 192 : memref<2xf32>
    // CHECK: plan.buffer at 0 : memref<48xf32>
    // CHECK: plan.buffer at 192 : memref<32xf32>
    %a = plan.buffer : memref<2xf32>
    %b = plan.buffer : memref<48xf32>
    %c = plan.buffer : memref<32xf32>
    plan.launch @copy_b8 ins(%x : memref<2xf32>) outs(%a : memref<2xf32>)
        rows 1 items 1
    plan.launch @copy_b8 ins(%a : memref<2xf32>) outs(%b : memref<48xf32>)
        rows 1 items 1
    plan.launch @copy_b8 ins(%b : memref<48xf32>) outs(%c : memref<32xf32>)
        rows 1 items 1
    plan.launch @copy_b8 ins(%c : memref<32xf32>) outs(%x : memref<2xf32>)
        rows 1 items 1
  }

  // Programs run one at a time: this one starts at 0 again. Buffers of one
  // launch never share.
  // CHECK-LABEL: plan.program @negative_alive_at_once
  plan.program @negative_alive_at_once(%x : memref<2xf32>) -> (%x : memref<2xf32>) {
    // CHECK: plan.buffer at 0 : memref<2xf32>
    // CHECK: plan.buffer at 64 : memref<2xf32>
    %a = plan.buffer : memref<2xf32>
    %b = plan.buffer : memref<2xf32>
    plan.launch @copy_b8 ins(%x : memref<2xf32>) outs(%a : memref<2xf32>)
        rows 1 items 1
    plan.launch @copy_b8 ins(%a : memref<2xf32>) outs(%b : memref<2xf32>)
        rows 1 items 1
    plan.launch @copy_b8 ins(%b : memref<2xf32>) outs(%x : memref<2xf32>)
        rows 1 items 1
  }
}
