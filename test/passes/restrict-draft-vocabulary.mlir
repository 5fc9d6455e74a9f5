// RUN: qopt %s --lm-restrict-draft-vocabulary=tokens=0,3,17 \
// RUN:   --split-input-file | FileCheck %s
// RUN: qopt %s --lm-restrict-draft-vocabulary="tokens=0,3,17 report" \
// RUN:   --split-input-file 2>&1 >/dev/null | FileCheck %s --check-prefix=REPORT
// RUN: qopt %s --lm-restrict-draft-vocabulary=tokens=0,3,17 \
// RUN:   --lm-restrict-draft-vocabulary=tokens=0,1 --lm-round-draft-head \
// RUN:   --split-input-file | FileCheck %s --check-prefix=ROUNDED

// REPORT: remark: lm-restrict-draft-vocabulary: 1 heads are restricted
// REPORT: remark: lm-restrict-draft-vocabulary: 0 heads are restricted

// CHECK: #[[$SET:.*]] = #lm.token_set<0, 3, 17>
module {
  // CHECK-LABEL: @draft
  // CHECK-SAME: %[[X:.*]]: tensor<15x256xbf16>, %[[W:.*]]: tensor<100x256xbf16>
  // CHECK: %[[ROWS:.*]] = lm.select_rows %[[W]][#[[$SET]]] : tensor<100x256xbf16> -> tensor<3x256xbf16>
  // CHECK: %[[PLACES:.*]] = lm.head_argmax %[[X]], %[[ROWS]] : tensor<15x256xbf16>, tensor<3x256xbf16> -> tensor<15xi32>
  // CHECK: %[[TOKENS:.*]] = lm.select_tokens %[[PLACES]][#[[$SET]]] : tensor<15xi32>
  // CHECK: return %[[TOKENS]]
  // A head that is restricted stays as it is; how it is read is another
  // question.
  // ROUNDED-LABEL: @draft
  // ROUNDED: lm.select_rows {{.*}} -> tensor<3x256xbf16>
  // ROUNDED-NEXT: lm.head_argmax {{.*}} {rounding = {{.*}}} : tensor<15x256xbf16>, tensor<3x256xbf16>
  // ROUNDED-NEXT: lm.select_tokens
  func.func @draft(%x: tensor<15x256xbf16>, %w: tensor<100x256xbf16>)
      -> tensor<15xi32> {
    %t = lm.head_argmax %x, %w
        : tensor<15x256xbf16>, tensor<100x256xbf16> -> tensor<15xi32>
    return %t : tensor<15xi32>
  }

  // What the target says is the text.
  // CHECK-LABEL: @negative_verify
  // CHECK: lm.head_argmax %{{.*}}, %{{.*}} : tensor<16x256xbf16>, tensor<100x256xbf16>
  func.func @negative_verify(%x: tensor<16x256xbf16>, %w: tensor<100x256xbf16>)
      -> tensor<16xi32> {
    %t = lm.head_argmax %x, %w
        : tensor<16x256xbf16>, tensor<100x256xbf16> -> tensor<16xi32>
    return %t : tensor<16xi32>
  }
  func.func @other() {
    return
  }
  lm.speculate {prefill = @other, step = @other, context = @other,
                draft = @draft, verify = @negative_verify, accept = @other,
                block = 16 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
                max_context = 4096 : i64, vocabulary = 100 : i64,
                stop_tokens = array<i32>}
}

// -----

// Nothing drafts.
module {
  // CHECK-LABEL: @negative_step
  // CHECK-NOT: lm.select_rows
  func.func @negative_step(%x: tensor<1x256xbf16>, %w: tensor<100x256xbf16>)
      -> tensor<1xi32> {
    %t = lm.head_argmax %x, %w
        : tensor<1x256xbf16>, tensor<100x256xbf16> -> tensor<1xi32>
    return %t : tensor<1xi32>
  }
  func.func @other() {
    return
  }
  lm.speculate {prefill = @other, step = @negative_step, block = 1 : i64,
                chunk = 64 : i64, score_chunk = 16 : i64,
                max_context = 4096 : i64, vocabulary = 100 : i64,
                stop_tokens = array<i32>}
}
