// RUN: qopt %s --lm-restrict-draft-vocabulary=tokens=0,3,17 \
// RUN:   --split-input-file --verify-diagnostics
// RUN: not qopt %s --lm-restrict-draft-vocabulary=tokens=3,0 \
// RUN:   --split-input-file 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: not qopt %s --lm-restrict-draft-vocabulary --split-input-file 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NONE

// ORDER: error: expects ids that ascend, but got 0 behind 3
// NONE: error: expects ids from 0 on

module {
  func.func @draft(%x: tensor<15x256xbf16>, %w: tensor<17x256xbf16>)
      -> tensor<15xi32> {
    // expected-error @below {{knows 17 tokens, expected one of id 17}}
    %t = lm.head_argmax %x, %w
        : tensor<15x256xbf16>, tensor<17x256xbf16> -> tensor<15xi32>
    return %t : tensor<15xi32>
  }
  func.func @other() {
    return
  }
  lm.speculate {prefill = @other, step = @other, context = @other,
                draft = @draft, verify = @other, accept = @other,
                block = 16 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
                max_context = 4096 : i64, vocabulary = 17 : i64,
                stop_tokens = array<i32>}
}

// -----

module {
  func.func @other() {
    return
  }
  // expected-error @below {{drafts by logits of all tokens, expected a head whose tokens can be chosen: one diffusion step}}
  lm.speculate {prefill = @other, step = @other, context = @other,
                draft = @other, verify = @other, accept = @other,
                block = 16 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
                max_context = 4096 : i64, vocabulary = 100 : i64,
                stop_tokens = array<i32>}
}
