// RUN: qopt %s --lm-lower-denoise --split-input-file | FileCheck %s
// RUN: qopt %s --lm-lower-denoise=report --split-input-file 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=REPORT

// REPORT: remark: lm-lower-denoise: 1 denoise ops lowered
// REPORT: remark: lm-lower-denoise: 1 denoise ops lowered
// REPORT: remark: lm-lower-denoise: 0 denoise ops lowered

// One step: the drafts are the argmax of the logits.
// CHECK-LABEL: @lower_one_step
// CHECK-SAME: %[[ANCHOR:.*]]: tensor<1xi32>, %[[TABLE:.*]]: tensor<32x16xf32>, %[[CACHE:.*]]: !lm.kv_cache<64x1x16xf32>
func.func @lower_one_step(%anchor: tensor<1xi32>, %table: tensor<32x16xf32>,
                          %cache: !lm.kv_cache<64x1x16xf32>)
    -> (tensor<4xi32>, tensor<3x32xf32>, !lm.kv_cache<64x1x16xf32>) {
  // CHECK-NOT: lm.denoise
  // CHECK: %[[MASKED:.*]] = lm.mask_block %[[ANCHOR]] {mask_token = 7 : i32} : tensor<4xi32>
  // CHECK: %[[HIDDEN:.*]] = lm.embed %[[MASKED]], %[[TABLE]]
  // CHECK: %[[TAIL:.*]] = lm.drop_rows %[[HIDDEN]]
  // CHECK: %[[LOGITS:.*]] = lm.linear %[[TAIL]], %[[TABLE]]
  // CHECK: %[[DRAFTS:.*]] = lm.argmax %[[LOGITS]]
  // CHECK: %[[BLOCK:.*]] = lm.concat_tokens %[[ANCHOR]], %[[DRAFTS]]
  // CHECK: return %[[BLOCK]], %[[LOGITS]], %[[CACHE]]
  %block, %logits, %new = lm.denoise %anchor caches(%cache)
      {mask_token = 7 : i32, size = 4 : i64, steps = 1 : i64}
      : (!lm.kv_cache<64x1x16xf32>)
      -> (tensor<4xi32>, tensor<3x32xf32>, !lm.kv_cache<64x1x16xf32>) {
  ^body(%tokens: tensor<4xi32>, %c: !lm.kv_cache<64x1x16xf32>):
    %h = lm.embed %tokens, %table
        : tensor<4xi32>, tensor<32x16xf32> -> tensor<4x16xf32>
    %t = lm.drop_rows %h {first = 1 : i64}
        : tensor<4x16xf32> -> tensor<3x16xf32>
    %l = lm.linear %t, %table
        : tensor<3x16xf32>, tensor<32x16xf32> -> tensor<3x32xf32>
    lm.yield %l, %c : tensor<3x32xf32>, !lm.kv_cache<64x1x16xf32>
  }
  return %block, %logits, %new
      : tensor<4xi32>, tensor<3x32xf32>, !lm.kv_cache<64x1x16xf32>
}

// -----

// Two steps of three slots: two are filled first, then the last one. The
// second body sees the block and the cache of the first.
// CHECK-LABEL: @lower_two_steps
func.func @lower_two_steps(%anchor: tensor<1xi32>, %table: tensor<32x16xf32>,
                           %cache: !lm.kv_cache<64x1x16xf32>,
                           %start: tensor<1xi32>)
    -> (tensor<4xi32>, tensor<3x32xf32>, !lm.kv_cache<64x1x16xf32>) {
  // CHECK: %[[MASKED:.*]] = lm.mask_block
  // CHECK: lm.embed %[[MASKED]]
  // CHECK: %[[CACHE1:.*]] = lm.cache_append
  // CHECK: %[[LOGITS1:.*]] = lm.linear
  // CHECK: %[[BLOCK1:.*]] = lm.unmask %[[MASKED]], %[[LOGITS1]] {fill = 2 : i64, mask_token = 7 : i32}
  // CHECK: lm.embed %[[BLOCK1]]
  // CHECK: %[[CACHE2:.*]] = lm.cache_append %[[CACHE1]]
  // CHECK: %[[LOGITS2:.*]] = lm.linear
  // CHECK: %[[BLOCK2:.*]] = lm.unmask %[[BLOCK1]], %[[LOGITS2]] {fill = 1 : i64, mask_token = 7 : i32}
  // CHECK: return %[[BLOCK2]], %[[LOGITS2]], %[[CACHE2]]
  %block, %logits, %new = lm.denoise %anchor caches(%cache)
      {mask_token = 7 : i32, size = 4 : i64, steps = 2 : i64}
      : (!lm.kv_cache<64x1x16xf32>)
      -> (tensor<4xi32>, tensor<3x32xf32>, !lm.kv_cache<64x1x16xf32>) {
  ^body(%tokens: tensor<4xi32>, %c: !lm.kv_cache<64x1x16xf32>):
    %h = lm.embed %tokens, %table
        : tensor<4xi32>, tensor<32x16xf32> -> tensor<4x16xf32>
    %d = lm.cache_append %c, %h, %h at %start
        : !lm.kv_cache<64x1x16xf32>, tensor<4x16xf32>
    %t = lm.drop_rows %h {first = 1 : i64}
        : tensor<4x16xf32> -> tensor<3x16xf32>
    %l = lm.linear %t, %table
        : tensor<3x16xf32>, tensor<32x16xf32> -> tensor<3x32xf32>
    lm.yield %l, %d : tensor<3x32xf32>, !lm.kv_cache<64x1x16xf32>
  }
  return %block, %logits, %new
      : tensor<4xi32>, tensor<3x32xf32>, !lm.kv_cache<64x1x16xf32>
}

// -----

// CHECK-LABEL: @negative_no_denoise
func.func @negative_no_denoise(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  // CHECK-NEXT: lm.silu
  // CHECK-NEXT: return
  %y = lm.silu %x : tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}
