// RUN: qopt %s --lm-lower-speculate --split-input-file --verify-diagnostics \
// RUN:   | FileCheck %s
// RUN: not qopt %s --lm-lower-speculate=report --split-input-file \
// RUN:   2>&1 >/dev/null | FileCheck %s --check-prefix=REPORT

// REPORT: remark: lm-lower-speculate: 1 loops lowered
// REPORT: remark: lm-lower-speculate: 0 loops lowered

// CHECK-LABEL: @step
// CHECK: plan.loop {block = 1 : i64, chunk = 8 : i64, max_context = 64 : i64, prefill = @prefill, score_chunk = 4 : i64, step = @step, stop_tokens = array<i32: 3>, vocabulary = 32 : i64}
// CHECK-NOT: lm.speculate
func.func @prefill(%chunk: tensor<8xi32> {lm.port = "chunk"},
                   %count: tensor<1xi32> {lm.port = "chunk_count"},
                   %start: tensor<1xi32> {lm.port = "start"},
                   %accepted: tensor<1xi32> {lm.port = "accepted"})
    -> (tensor<1xi32> {lm.port = "anchor"}) {
  return %start : tensor<1xi32>
}
func.func @step(%anchor: tensor<1xi32> {lm.port = "anchor"},
                %start: tensor<1xi32> {lm.port = "start"},
                %accepted: tensor<1xi32> {lm.port = "accepted"})
    -> (tensor<1xi32> {lm.port = "accepted"}, tensor<1xi32> {lm.port = "anchor"},
        tensor<1xi32> {lm.port = "start"},
        tensor<1xi32> {lm.port = "context_start"}) {
  %a, %b, %c, %d = lm.accept %anchor, %anchor at %start : tensor<1xi32>
  return %a, %b, %c, %d
      : tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>
}
lm.speculate {prefill = @prefill, step = @step, block = 1 : i64,
              chunk = 8 : i64, score_chunk = 4 : i64, max_context = 64 : i64,
              vocabulary = 32 : i64, stop_tokens = array<i32: 3>}

// -----

// Programs that also write logits keep their names.
// CHECK: plan.loop {{.*}}prefill_logits = @prefill_logits{{.*}}step_logits = @step_logits
func.func private @prefill(tensor<8xi32> {lm.port = "chunk"}, tensor<1xi32> {lm.port = "chunk_count"},
                           tensor<1xi32> {lm.port = "start"}, tensor<1xi32> {lm.port = "accepted"})
    -> (tensor<1xi32> {lm.port = "anchor"})
func.func private @prefill_logits(tensor<8xi32> {lm.port = "chunk"}, tensor<1xi32> {lm.port = "chunk_count"},
                                  tensor<1xi32> {lm.port = "start"}, tensor<1xi32> {lm.port = "accepted"})
    -> (tensor<1xi32> {lm.port = "anchor"}, tensor<1x32xf32> {lm.port = "anchor_logits"})
func.func private @step(tensor<1xi32> {lm.port = "anchor"}, tensor<1xi32> {lm.port = "start"},
                        tensor<1xi32> {lm.port = "accepted"})
    -> (tensor<1xi32> {lm.port = "accepted"}, tensor<1xi32> {lm.port = "anchor"},
        tensor<1xi32> {lm.port = "start"}, tensor<1xi32> {lm.port = "context_start"})
func.func private @step_logits(tensor<1xi32> {lm.port = "anchor"}, tensor<1xi32> {lm.port = "start"},
                               tensor<1xi32> {lm.port = "accepted"})
    -> (tensor<1xi32> {lm.port = "accepted"}, tensor<1xi32> {lm.port = "anchor"},
        tensor<1xi32> {lm.port = "start"}, tensor<1xi32> {lm.port = "context_start"},
        tensor<1x32xf32> {lm.port = "anchor_logits"})
lm.speculate {prefill = @prefill, step = @step,
              prefill_logits = @prefill_logits, step_logits = @step_logits,
              block = 1 : i64, chunk = 8 : i64, score_chunk = 4 : i64,
              max_context = 64 : i64, vocabulary = 32 : i64,
              stop_tokens = array<i32: 3>}

// -----

func.func @prefill(%chunk: tensor<8xi32> {lm.port = "chunk"},
                   %count: tensor<1xi32> {lm.port = "chunk_count"},
                   %accepted: tensor<1xi32> {lm.port = "accepted"})
    -> (tensor<1xi32> {lm.port = "anchor"}) {
  return %count : tensor<1xi32>
}
// expected-error @below {{expects @prefill to have the argument 'start'}}
lm.speculate {prefill = @prefill, step = @prefill, block = 1 : i64,
              chunk = 8 : i64, score_chunk = 4 : i64, max_context = 64 : i64,
              vocabulary = 32 : i64, stop_tokens = array<i32>}

// -----

func.func @prefill(%chunk: tensor<4xi32> {lm.port = "chunk"},
                   %count: tensor<1xi32> {lm.port = "chunk_count"},
                   %start: tensor<1xi32> {lm.port = "start"},
                   %accepted: tensor<1xi32> {lm.port = "accepted"})
    -> (tensor<1xi32> {lm.port = "anchor"}) {
  return %start : tensor<1xi32>
}
// expected-error @below {{expects the argument 'chunk' of @prefill to be 'tensor<8xi32>', but got 'tensor<4xi32>'}}
lm.speculate {prefill = @prefill, step = @prefill, block = 1 : i64,
              chunk = 8 : i64, score_chunk = 4 : i64, max_context = 64 : i64,
              vocabulary = 32 : i64, stop_tokens = array<i32>}

// -----

func.func @prefill(%chunk: tensor<8xi32> {lm.port = "chunk"},
                   %count: tensor<1xi32> {lm.port = "chunk_count"},
                   %start: tensor<1xi32> {lm.port = "start"},
                   %accepted: tensor<1xi32> {lm.port = "accepted"},
                   %more: tensor<1xi32> {lm.port = "temperature"})
    -> (tensor<1xi32> {lm.port = "anchor"}) {
  return %start : tensor<1xi32>
}
// expected-error @below {{does not know the argument 'temperature' of @prefill}}
lm.speculate {prefill = @prefill, step = @prefill, block = 1 : i64,
              chunk = 8 : i64, score_chunk = 4 : i64, max_context = 64 : i64,
              vocabulary = 32 : i64, stop_tokens = array<i32>}

// -----

// A prefill of short prompts has ports of its own.
// CHECK: plan.loop {{.*}}short_chunk = 2 : i64, short_prefill = @short_prefill
func.func private @prefill(tensor<8xi32> {lm.port = "chunk"}, tensor<1xi32> {lm.port = "chunk_count"},
                           tensor<1xi32> {lm.port = "start"}, tensor<1xi32> {lm.port = "accepted"})
    -> (tensor<1xi32> {lm.port = "anchor"})
func.func private @short_prefill(tensor<2xi32> {lm.port = "short_chunk"}, tensor<1xi32> {lm.port = "chunk_count"},
                                 tensor<1xi32> {lm.port = "start"}, tensor<1xi32> {lm.port = "accepted"})
    -> (tensor<1xi32> {lm.port = "anchor"})
func.func private @step(tensor<1xi32> {lm.port = "anchor"}, tensor<1xi32> {lm.port = "start"},
                        tensor<1xi32> {lm.port = "accepted"})
    -> (tensor<1xi32> {lm.port = "accepted"}, tensor<1xi32> {lm.port = "anchor"},
        tensor<1xi32> {lm.port = "start"}, tensor<1xi32> {lm.port = "context_start"})
lm.speculate {prefill = @prefill, step = @step, short_prefill = @short_prefill, short_chunk = 2 : i64,
              block = 1 : i64, chunk = 8 : i64, score_chunk = 4 : i64,
              max_context = 64 : i64, vocabulary = 32 : i64,
              stop_tokens = array<i32: 3>}

// -----

func.func private @prefill(tensor<8xi32> {lm.port = "chunk"}, tensor<1xi32> {lm.port = "chunk_count"},
                           tensor<1xi32> {lm.port = "start"}, tensor<1xi32> {lm.port = "accepted"})
    -> (tensor<1xi32> {lm.port = "anchor"})
func.func private @step(tensor<1xi32> {lm.port = "anchor"}, tensor<1xi32> {lm.port = "start"},
                        tensor<1xi32> {lm.port = "accepted"})
    -> (tensor<1xi32> {lm.port = "accepted"}, tensor<1xi32> {lm.port = "anchor"},
        tensor<1xi32> {lm.port = "start"}, tensor<1xi32> {lm.port = "context_start"})
// expected-error @below {{expects @prefill to have the argument 'short_chunk'}}
lm.speculate {prefill = @prefill, step = @step, short_prefill = @prefill, short_chunk = 2 : i64,
              block = 1 : i64, chunk = 8 : i64, score_chunk = 4 : i64,
              max_context = 64 : i64, vocabulary = 32 : i64,
              stop_tokens = array<i32>}

// -----

func.func @f() {
  return
}
lm.speculate {prefill = @f, step = @f, block = 1 : i64, chunk = 8 : i64,
              score_chunk = 4 : i64, max_context = 64 : i64,
              vocabulary = 32 : i64, stop_tokens = array<i32>}
// expected-error @below {{expects to be the only loop of the module}}
lm.speculate {prefill = @f, step = @f, block = 1 : i64, chunk = 8 : i64,
              score_chunk = 4 : i64, max_context = 64 : i64,
              vocabulary = 32 : i64, stop_tokens = array<i32>}

// -----

func.func @prefill(%chunk: tensor<8xi32> {lm.port = "chunk"},
                   %count: tensor<1xi32> {lm.port = "chunk_count"},
                   %start: tensor<1xi32> {lm.port = "start"},
                   %accepted: tensor<1xi32> {lm.port = "accepted"})
    -> (tensor<1xi32> {lm.port = "anchor"}) {
  return %start : tensor<1xi32>
}
// expected-error @below {{expects @prefill to have the result 'anchor_logits'}}
lm.speculate {prefill = @prefill, step = @prefill,
              prefill_logits = @prefill, step_logits = @prefill,
              block = 1 : i64, chunk = 8 : i64, score_chunk = 4 : i64,
              max_context = 64 : i64, vocabulary = 32 : i64,
              stop_tokens = array<i32>}

// -----

// CHECK-LABEL: @negative_no_loop
// CHECK-NOT: plan.loop
func.func @negative_no_loop(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  return %x : tensor<4x16xf32>
}
