// RUN: qopt %s --lm-round-draft-head --split-input-file | FileCheck %s
// RUN: qopt %s --lm-round-draft-head=report --split-input-file 2>&1 \
// RUN:   >/dev/null | FileCheck %s --check-prefix=REPORT

// REPORT: remark: lm-round-draft-head: 1 heads are rounded
// REPORT: remark: lm-round-draft-head: 0 heads are rounded

module {
  // CHECK-LABEL: @draft
  // CHECK: lm.head_argmax %{{.*}}, %{{.*}} {rounding = #lm.grouped<bits = 4, group = 128>}
  func.func @draft(%x: tensor<15x256xbf16>, %w: tensor<100x256xbf16>)
      -> tensor<15xi32> {
    %t = lm.head_argmax %x, %w
        : tensor<15x256xbf16>, tensor<100x256xbf16> -> tensor<15xi32>
    return %t : tensor<15xi32>
  }

  // What the target says is the text.
  // CHECK-LABEL: @negative_verify
  // CHECK: lm.head_argmax %{{.*}}, %{{.*}} : tensor<16x256xbf16>
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

// No group divides 96 columns; f32 stays f32; a search finds the same drafts.
module {
  // CHECK-LABEL: @negative_draft
  // CHECK-NOT: rounding
  func.func @negative_draft(%x: tensor<15x96xbf16>, %w: tensor<100x96xbf16>,
                            %y: tensor<15x128xbf16>, %v: tensor<100x128xf32>,
                            %u: tensor<100x128xbf16>)
      -> (tensor<15xi32>, tensor<15xi32>, tensor<15xi32>) {
    %a = lm.head_argmax %x, %w
        : tensor<15x96xbf16>, tensor<100x96xbf16> -> tensor<15xi32>
    %b = lm.head_argmax %y, %v
        : tensor<15x128xbf16>, tensor<100x128xf32> -> tensor<15xi32>
    %c = lm.head_argmax %y, %u {search}
        : tensor<15x128xbf16>, tensor<100x128xbf16> -> tensor<15xi32>
    return %a, %b, %c : tensor<15xi32>, tensor<15xi32>, tensor<15xi32>
  }
  func.func @other() {
    return
  }
  lm.speculate {prefill = @other, step = @other, context = @other,
                draft = @negative_draft, verify = @other, accept = @other,
                block = 16 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
                max_context = 4096 : i64, vocabulary = 100 : i64,
                stop_tokens = array<i32>}
}
