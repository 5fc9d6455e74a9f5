// RUN: qcompile %s --arch sm_90 --emit cuda --disable-pass lm-hoist-last-row \
// RUN:   --disable-pass lm-fuse-gated-mlp --disable-pass lm-fuse-projections \
// RUN:   --disable-pass lm-fuse-head-argmax --disable-pass lm-fuse-norm-linear \
// RUN:   --disable-pass lm-fuse-residual --disable-pass lm-fuse-delta-inputs \
// RUN:   | FileCheck %s

// Between logits and tokens. A port that is written twice is copied.

// CHECK-LABEL: // linear for sm_90
// CHECK-NEXT: #include "linear.cuh"
// CHECK: using Result = f32;
// CHECK: using Element = bf16;
// CHECK: extern "C" __global__ void __launch_bounds__({{[0-9]+}}, 1)
// CHECK-NEXT: linear_300x64_bf16_f32_r16(const bf16 *x, const u8 *weight0, f32 *y0, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::linear<linear_300x64_bf16_f32_r16_choices>(
// CHECK-LABEL: // drop_rows for sm_90
// CHECK-NEXT: #include "rows.cuh"
// CHECK: static constexpr i32 columns = 64, first = 1;
// CHECK: extern "C" __global__ void __launch_bounds__(256)
// CHECK-NEXT: drop_rows_c64_f1_bf16(const bf16 *x, bf16 *y, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::dropRows<drop_rows_c64_f1_bf16_choices>(x, y, live, rows);
// CHECK-LABEL: // concat_features for sm_90
// CHECK-NEXT: #include "rows.cuh"
// CHECK: static constexpr i32 columns = 128;
// CHECK: extern "C" __global__ void __launch_bounds__(256)
// CHECK-NEXT: concat_features_64_64_bf16(const bf16 *part0, const bf16 *part1, bf16 *y, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::concatPart<concat_features_64_64_bf16_choices, 0, 64>(part0, y, live, rows);
// CHECK: tandem::concatPart<concat_features_64_64_bf16_choices, 64, 64>(part1, y, live, rows);
// CHECK-LABEL: // argmax for sm_90
// CHECK-NEXT: #include "tokens.cuh"
// CHECK: static constexpr i32 columns = 300, threads = 1024;
// CHECK: extern "C" __global__ void __launch_bounds__(1024)
// CHECK-NEXT: argmax_c300(const f32 *logits, i32 *tokens, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::argmax<argmax_c300_choices>(logits, tokens, live, rows);
// CHECK-LABEL: // mask_block for sm_90
// CHECK-NEXT: #include "tokens.cuh"
// CHECK: static constexpr i32 size = 16, maskToken = 299;
// CHECK: extern "C" __global__ void __launch_bounds__(32)
// CHECK-NEXT: mask_block_m299_s16(const i32 *anchor, i32 *block, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::maskBlock<mask_block_m299_s16_choices>(anchor, block);
// CHECK-LABEL: // unmask for sm_90
// CHECK-NEXT: #include "tokens.cuh"
// CHECK: static constexpr i32 columns = 300, size = 16;
// CHECK: static constexpr i32 fill = 5, maskToken = 299, threads = 1024;
// CHECK: extern "C" __global__ void __launch_bounds__(1024)
// CHECK-NEXT: unmask_c300_f5_m299_s16(const i32 *block, const f32 *logits, i32 *result, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::unmask<unmask_c300_f5_m299_s16_choices>(block, logits, result, scratch + 256, reinterpret_cast<u32 *>(scratch));
// CHECK-LABEL: // concat_tokens for sm_90
// CHECK-NEXT: #include "tokens.cuh"
// CHECK: static constexpr i32 left = 1, right = 15;
// CHECK: extern "C" __global__ void __launch_bounds__(32)
// CHECK-NEXT: concat_tokens_l1_r15(const i32 *left, const i32 *right, i32 *result, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::concatTokens<concat_tokens_l1_r15_choices>(left, right, result);
// CHECK-LABEL: // accept for sm_90
// CHECK-NEXT: #include "tokens.cuh"
// CHECK: extern "C" __global__ void __launch_bounds__(32)
// CHECK-NEXT: accept(const i32 *block, const i32 *decided, const i32 *start, i32 *accepted, i32 *anchor, i32 *nextStart, i32 *contextStart, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::accept(block, decided, start, accepted, anchor, nextStart, contextStart, live, rows);
// CHECK-LABEL: // copy for sm_90
// CHECK-NEXT: #include "rows.cuh"
// CHECK: static constexpr u64 bytes = 60;
// CHECK: extern "C" __global__ void __launch_bounds__(256)
// CHECK-NEXT: copy_b60(const u8 *from, u8 *to, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::copyBytes<copy_b60_choices>(from, to);

module attributes {lm.checkpoints = {target = "none"}} {
func.func @tokens(%anchor: tensor<1xi32> {lm.port = "anchor"},
                  %x: tensor<16x64xbf16> {lm.port = "x"},
                  %start: tensor<1xi32> {lm.port = "start"})
    -> (tensor<16xi32> {lm.port = "block"}, tensor<15xi32> {lm.port = "drafts"},
        tensor<15xi32> {lm.port = "again"},
        tensor<1xi32> {lm.port = "accepted"}, tensor<1xi32> {lm.port = "next"}, tensor<1xi32> {lm.port = "next_start"}, tensor<1xi32> {lm.port = "context"},
        tensor<15x128xbf16> {lm.port = "features"}) {
  %masked = lm.mask_block %anchor {mask_token = 299 : i32} : tensor<16xi32>
  %rows = lm.drop_rows %x {first = 1 : i64} : tensor<16x64xbf16> -> tensor<15x64xbf16>
  %f = lm.concat_features %rows, %rows : (tensor<15x64xbf16>, tensor<15x64xbf16>) -> tensor<15x128xbf16>
  %w = lm.weight "target", "head" : tensor<300x64xbf16>
  %logits = lm.linear %rows, %w : tensor<15x64xbf16>, tensor<300x64xbf16> -> tensor<15x300xf32>
  %some = lm.unmask %masked, %logits {mask_token = 299 : i32, fill = 5 : i64} : tensor<16xi32>, tensor<15x300xf32>
  %drafts = lm.argmax %logits : tensor<15x300xf32> -> tensor<15xi32>
  %block = lm.concat_tokens %anchor, %drafts : tensor<1xi32>, tensor<15xi32> -> tensor<16xi32>
  %a, %b, %c, %d = lm.accept %some, %block at %start : tensor<16xi32>
  return %block, %drafts, %drafts, %a, %b, %c, %d, %f : tensor<16xi32>, tensor<15xi32>, tensor<15xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<15x128xbf16>
}
}
