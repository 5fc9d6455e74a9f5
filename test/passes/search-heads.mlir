// RUN: qopt %s --lm-search-heads | FileCheck %s
// RUN: qopt %s --lm-search-heads="draft target=false" \
// RUN:   | FileCheck %s --check-prefix=DRAFT
// RUN: qopt %s --lm-search-heads=report 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REPORT

// REPORT: remark: lm-search-heads: 2 heads are searched

// CHECK-LABEL: @step
// CHECK: lm.head_argmax %{{.*}}, %{{.*}} {search} : tensor<1x64xf32>
// DRAFT-LABEL: @step
// DRAFT: lm.head_argmax %{{.*}}, %{{.*}} : tensor<1x64xf32>
func.func @step(%x: tensor<1x64xf32>, %w: tensor<100x64xbf16>)
    -> tensor<1xi32> {
  %t = lm.head_argmax %x, %w
      : tensor<1x64xf32>, tensor<100x64xbf16> -> tensor<1xi32>
  return %t : tensor<1xi32>
}

// CHECK-LABEL: @verify
// CHECK: lm.head_argmax %{{.*}}, %{{.*}} {search} : tensor<16x64xf32>
func.func @verify(%x: tensor<16x64xf32>, %w: tensor<100x64xbf16>)
    -> tensor<16xi32> {
  %t = lm.head_argmax %x, %w
      : tensor<16x64xf32>, tensor<100x64xbf16> -> tensor<16xi32>
  return %t : tensor<16xi32>
}

// Drafts need not be those that the whole head would give.
// CHECK-LABEL: @negative_draft
// CHECK: lm.head_argmax %{{.*}}, %{{.*}} : tensor<15x64xf32>
// DRAFT-LABEL: @negative_draft
// DRAFT: lm.head_argmax %{{.*}}, %{{.*}} {search} : tensor<15x64xf32>
func.func @negative_draft(%x: tensor<15x64xf32>, %w: tensor<100x64xbf16>)
    -> tensor<15xi32> {
  %t = lm.head_argmax %x, %w
      : tensor<15x64xf32>, tensor<100x64xbf16> -> tensor<15xi32>
  return %t : tensor<15xi32>
}

// CHECK-LABEL: @negative_f32
// CHECK: lm.head_argmax %{{.*}}, %{{.*}} : tensor<1x64xf32>
func.func @negative_f32(%x: tensor<1x64xf32>, %w: tensor<100x64xf32>)
    -> tensor<1xi32> {
  %t = lm.head_argmax %x, %w
      : tensor<1x64xf32>, tensor<100x64xf32> -> tensor<1xi32>
  return %t : tensor<1xi32>
}

// It says another token, which a search would not find.
// CHECK-LABEL: @negative_rounded
// CHECK: lm.head_argmax %{{.*}}, %{{.*}} {rounding = #lm.grouped<bits = 4, group = 64>} : tensor<1x64xf32>
func.func @negative_rounded(%x: tensor<1x64xf32>, %w: tensor<100x64xbf16>)
    -> tensor<1xi32> {
  %t = lm.head_argmax %x, %w {rounding = #lm.grouped<bits = 4, group = 64>}
      : tensor<1x64xf32>, tensor<100x64xbf16> -> tensor<1xi32>
  return %t : tensor<1xi32>
}

// Sums of so many columns would not be exact.
// CHECK-LABEL: @negative_many_columns
// CHECK: lm.head_argmax %{{.*}}, %{{.*}} : tensor<1x32784xf32>
func.func @negative_many_columns(%x: tensor<1x32784xf32>,
                                 %w: tensor<16x32784xbf16>) -> tensor<1xi32> {
  %t = lm.head_argmax %x, %w
      : tensor<1x32784xf32>, tensor<16x32784xbf16> -> tensor<1xi32>
  return %t : tensor<1xi32>
}

func.func @other() {
  return
}
lm.speculate {prefill = @step, step = @step, context = @other,
              draft = @negative_draft, verify = @verify, accept = @other,
              block = 16 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
              max_context = 4096 : i64, vocabulary = 100 : i64,
              stop_tokens = array<i32>}
