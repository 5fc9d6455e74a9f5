// RUN: qcompile %s --arch sm_90 --emit cuda | FileCheck %s

// Heads that are searched, and rounded ones. Several slices of columns, and
// digits in two phases.

// CHECK-LABEL: // head_search for sm_90
// CHECK-NEXT: #include "head_search.cuh"
// CHECK: static constexpr i32 outputs = 3000, columns = 5120;
// CHECK: static constexpr i32 phases = 2, chunk = 8, ticketBytes = 256;
// CHECK: static constexpr f32 halfSteps = 36.4997864f;
// CHECK-NEXT: static constexpr f32 leastSteps = 74781.2656f;
// CHECK: static_assert(HeadSearch<head_search_3000x5120_choices>::sharedBytes == 81920);
// CHECK: extern "C" __global__ void __launch_bounds__(512)
// CHECK-NEXT: head_search_3000x5120(const bf16 *x, const u8 *codes, const f32 *scales, const f32 *errors, f32 *above, f32 *below, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::headSearch<head_search_3000x5120_choices>(x, codes, scales, errors, above, below, live, rows, scratch);
// CHECK-LABEL: // head_settle for sm_90
// CHECK-NEXT: #include "head_settle.cuh"
// CHECK: static constexpr i32 outputs = 3000, columns = 5120;
// CHECK: static constexpr i32 slices = 2, warps = 20, stepsPerWarp = 8, blocks = 132, ticketBytes = 256;
// CHECK: static_assert(HeadSettle<head_settle_3000x5120_bf16_choices>::sharedBytes == 20496);
// CHECK: extern "C" __global__ void __launch_bounds__(640)
// CHECK-NEXT: head_settle_3000x5120_bf16(const bf16 *x, const bf16 *weight, const f32 *above, const f32 *below, f32 *logits, i32 *tokens, i32 *settled, const i32 *live, i32 rows, u8 *scratch) {
// CHECK-LABEL: // settled_argmax for sm_90
// CHECK-NEXT: #include "tokens.cuh"
// CHECK: static constexpr i32 parts = 1, tiles = 188, threads = 256;
// CHECK: settled_argmax_p1_t188(const f32 *logits, const i32 *tokens, const i32 *settled, i32 *result, i32 *counts, const i32 *live, i32 rows, u8 *scratch) {
// CHECK-LABEL: // head_draft for sm_90
// CHECK-NEXT: #include "head_draft.cuh"
// CHECK: static constexpr i32 outputs = 1000, columns = 5120, group = 128;
// CHECK: static constexpr i32 phases = 2, chunk = 4, ticketBytes = 256;
// CHECK: static_assert(HeadDraft<head_draft_1000x5120_g128_choices>::sharedBytes == 83200);
// CHECK: head_draft_1000x5120_g128(const bf16 *x, const u8 *codes, i32 *result, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::headDraft<head_draft_1000x5120_g128_choices>(x, codes, result, live, rows, scratch);
// CHECK-LABEL: // select_tokens for sm_90
// CHECK-NEXT: #include "tokens.cuh"
// CHECK: static constexpr i32 entries = 2;
// CHECK: select_tokens_e2(const i32 *places, const i32 *table, i32 *result, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::selectTokens<select_tokens_e2_choices>(places, table, result, live, rows);
module attributes {lm.checkpoints = {target = "dir"}} {
  func.func @heads(%x: tensor<16x5120xbf16> {lm.port = "x"})
      -> (tensor<16xi32> {lm.port = "y"}, tensor<16xi32> {lm.port = "z"}) {
    %w = lm.weight "target", "head.weight" : tensor<3000x5120xbf16>
    %y = lm.head_argmax %x, %w {search}
        : tensor<16x5120xbf16>, tensor<3000x5120xbf16> -> tensor<16xi32>
    %r = lm.weight "target", "small.weight" : tensor<1000x5120xbf16>
    %p = lm.head_argmax %x, %r
        {rounding = #lm.grouped<bits = 4, group = 128>}
        : tensor<16x5120xbf16>, tensor<1000x5120xbf16> -> tensor<16xi32>
    %z = lm.select_tokens %p[#lm.token_set<3, 5>] : tensor<16xi32>
    return %y, %z : tensor<16xi32>, tensor<16xi32>
  }
}
