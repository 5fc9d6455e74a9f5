// RUN: qopt %s --canonicalize='test-convergence=true' | FileCheck %s

%x = plan.port "x" : memref<1x8xf32>
%y = plan.port "y" : memref<1x8xf32>
plan.kernel @copy_32 copy {bytes = 32 : i64}
plan.kernel @silu_8 silu {columns = 8 : i64}

// CHECK-LABEL: plan.program @erase_unused_buffer
// CHECK-NEXT: }
plan.program @erase_unused_buffer() -> () {
  %b = plan.buffer : memref<1x8xf32>
}

// CHECK-LABEL: plan.program @keep_used_buffer
plan.program @keep_used_buffer() -> () {
  // CHECK-NEXT: %[[B:.*]] = plan.buffer
  // CHECK-NEXT: plan.launch @silu_8 ins(%{{.*}}) outs(%[[B]] :
  %b = plan.buffer : memref<1x8xf32>
  plan.launch @silu_8 ins(%x : memref<1x8xf32>) outs(%b : memref<1x8xf32>) rows 1 items 1
}

// CHECK-LABEL: plan.program @erase_copy_onto_itself
// CHECK-NEXT: }
plan.program @erase_copy_onto_itself() -> () {
  plan.launch @copy_32 ins(%x : memref<1x8xf32>) outs(%x : memref<1x8xf32>) rows 1 items 1
}

// CHECK-LABEL: plan.program @keep_copy
plan.program @keep_copy() -> () {
  // CHECK-NEXT: plan.launch @copy_32
  plan.launch @copy_32 ins(%x : memref<1x8xf32>) outs(%y : memref<1x8xf32>) rows 1 items 1
}

// Another kernel than a copy does something in place.
// CHECK-LABEL: plan.program @keep_kernel_in_place
plan.program @keep_kernel_in_place() -> () {
  // CHECK-NEXT: plan.launch @silu_8
  plan.launch @silu_8 ins(%x : memref<1x8xf32>) outs(%x : memref<1x8xf32>) rows 1 items 1
}
