// RUN: qopt %s --lm-verify-import --split-input-file --verify-diagnostics

// What the import makes passes.
module attributes {lm.checkpoints = {target = "dir"}} {
  func.func @step(%t: tensor<1xi32> {lm.port = "anchor"},
                  %c: !lm.kv_cache<64x1x16xf32> {lm.state = "kv"})
      -> (tensor<1x16xf32> {lm.port = "h"},
          !lm.kv_cache<64x1x16xf32> {lm.state = "kv"}) {
    %w = lm.weight "target", "w" : tensor<32x16xbf16>
    %h = lm.embed %t, %w : tensor<1xi32>, tensor<32x16xbf16> -> tensor<1x16xf32>
    return %h, %c : tensor<1x16xf32>, !lm.kv_cache<64x1x16xf32>
  }
}

// -----

module attributes {lm.checkpoints = {target = "dir"}} {
  func.func @unknown_checkpoint() {
    // expected-error @below {{names the checkpoint 'drafter', which lm.checkpoints does not hold}}
    %w = lm.weight "drafter", "w" : tensor<32x16xbf16>
    return
  }
}

// -----

func.func @no_checkpoints() {
  // expected-error @below {{names the checkpoint 'target', which lm.checkpoints does not hold}}
  %w = lm.weight "target", "w" : tensor<32x16xbf16>
  return
}

// -----

// expected-error @below {{expects argument 0 to be a port or a state}}
func.func @argument_without_name(%x: tensor<1x16xf32>) {
  return
}

// -----

// expected-error @below {{expects result 0 to be a port or a state}}
func.func @result_without_name(%x: tensor<1x16xf32> {lm.port = "x"})
    -> tensor<1x16xf32> {
  return %x : tensor<1x16xf32>
}

// -----

// expected-error @below {{has two arguments named 'x'}}
func.func @two_arguments_of_one_name(%x: tensor<1xi32> {lm.port = "x"},
                                     %y: tensor<1xi32> {lm.port = "x"}) {
  return
}

// -----

func.func @first(%x: tensor<1xi32> {lm.port = "x"}) {
  return
}
// expected-error @below {{expects 'x' to be 'tensor<1xi32>' as before, but got 'tensor<2xi32>'}}
func.func @name_of_another_type(%x: tensor<2xi32> {lm.port = "x"}) {
  return
}

// -----

// expected-error @below {{takes the state 'kv', but does not return it}}
func.func @state_is_lost(
    %c: !lm.kv_cache<64x1x16xf32> {lm.state = "kv"}) {
  return
}

// -----

// expected-error @below {{returns the state 'b', but does not take it}}
func.func @state_from_nowhere(
    %c: !lm.kv_cache<64x1x16xf32> {lm.state = "a"})
    -> (!lm.kv_cache<64x1x16xf32> {lm.state = "a"},
        !lm.kv_cache<64x1x16xf32> {lm.state = "b"}) {
  return %c, %c : !lm.kv_cache<64x1x16xf32>, !lm.kv_cache<64x1x16xf32>
}

// -----

// expected-error @below {{expects one block}}
func.func private @external()

// -----

// expected-error @below {{is neither a function nor a loop}}
%port = plan.port "x" : memref<1xi32>

// -----

func.func @callee() {
  return
}
func.func @op_of_another_dialect() {
  // expected-error @below {{is not an op of lm}}
  call @callee() : () -> ()
  return
}
