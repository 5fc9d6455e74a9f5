// RUN: qopt %s --plan-verify --split-input-file --verify-diagnostics

module attributes {plan.arena_size = 128 : i64, plan.port_size = 64 : i64,
                   plan.state_size = 0 : i64} {
  %x = plan.port "x" at 0 : memref<2xf32>
  plan.kernel @copy_b8 copy {bytes = 8 : i64}
  plan.program @good(%x : memref<2xf32>) -> (%x : memref<2xf32>) {
    %a = plan.buffer at 0 : memref<2xf32>
    %b = plan.buffer at 64 : memref<2xf32>
    plan.launch @copy_b8 ins(%x : memref<2xf32>) outs(%a : memref<2xf32>)
        rows 1 items 1
    plan.launch @copy_b8 ins(%a : memref<2xf32>) outs(%b : memref<2xf32>)
        rows 1 items 1
  }
}

// -----

// expected-error @below {{is not an op of plan}}
func.func @op_of_another_dialect() {
  return
}

// -----

// expected-error @below {{expects the attribute plan.port_size}}
module {
  %x = plan.port "no_sizes" at 0 : memref<2xf32>
}

// -----

module attributes {plan.port_size = 64 : i64} {
  // expected-error @below {{expects an offset}}
  %x = plan.port "no_offset" : memref<2xf32>
}

// -----

module attributes {plan.port_size = 64 : i64} {
  // expected-error @below {{ends at 128, behind the 64 bytes of its space}}
  %x = plan.port "behind_the_end" at 64 : memref<2xf32>
}

// -----

module attributes {plan.port_size = 128 : i64} {
  %x = plan.port "x" at 0 : memref<2xf32>
  // expected-error @below {{expects a name of its own, but got 'x' again}}
  %y = plan.port "x" at 64 : memref<2xf32>
}

// -----

module attributes {plan.port_size = 0 : i64, plan.state_size = 128 : i64} {
  %x = plan.state "wide" kind "conv" at 0 : memref<32xf32>
  // expected-error @below {{overlaps 'wide'}}
  %y = plan.state "inside" kind "conv" at 64 : memref<2xf32>
}

// -----

module attributes {plan.arena_size = 64 : i64, plan.port_size = 64 : i64,
                   plan.state_size = 0 : i64} {
  %x = plan.port "x" at 0 : memref<2xf32>
  plan.kernel @copy_b8 copy {bytes = 8 : i64}
  plan.program @buffers_of_one_launch_overlap(%x : memref<2xf32>) -> () {
    // expected-note @below {{the other buffer}}
    %a = plan.buffer at 0 : memref<2xf32>
    // expected-error @below {{overlaps a buffer that lives at the same time}}
    %b = plan.buffer at 0 : memref<2xf32>
    plan.launch @copy_b8 ins(%x : memref<2xf32>) outs(%a : memref<2xf32>)
        rows 1 items 1
    plan.launch @copy_b8 ins(%a : memref<2xf32>) outs(%b : memref<2xf32>)
        rows 1 items 1
  }
}

// -----

module attributes {plan.arena_size = 64 : i64, plan.port_size = 64 : i64,
                   plan.state_size = 0 : i64} {
  %x = plan.port "x" at 0 : memref<2xf32>
  plan.kernel @copy_b8 copy {bytes = 8 : i64}
  plan.program @buffer_is_never_written() -> (%x : memref<2xf32>) {
    %a = plan.buffer at 0 : memref<2xf32>
    // expected-error @below {{reads a buffer that nothing has written}}
    plan.launch @copy_b8 ins(%a : memref<2xf32>) outs(%x : memref<2xf32>)
        rows 1 items 1
  }
}
