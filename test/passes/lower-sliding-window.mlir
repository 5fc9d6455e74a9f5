// RUN: qopt %s --lm-lower-sliding-window --split-input-file \
// RUN:   --verify-diagnostics | FileCheck %s
// RUN: not qopt %s --lm-lower-sliding-window=report --split-input-file \
// RUN:   2>&1 >/dev/null | FileCheck %s --check-prefix=REPORT

// REPORT: remark: lm-lower-sliding-window: 1 caches became rings
// REPORT: remark: lm-lower-sliding-window: 0 caches became rings

// Window 20 and 4 rows need 23 positions: two tiles of keys. All programs see
// the new type. P3.03.
// CHECK-LABEL: @context
// CHECK-SAME: !lm.kv_cache<ring 32x1x16xf32> {lm.state = "kv"}
// CHECK-SAME: -> (!lm.kv_cache<ring 32x1x16xf32> {lm.state = "kv"})
func.func @context(%k: tensor<64x16xf32> {lm.port = "k"},
                   %start: tensor<1xi32> {lm.port = "start"},
                   %c: !lm.kv_cache<512x1x16xf32> {lm.state = "kv"})
    -> (!lm.kv_cache<512x1x16xf32> {lm.state = "kv"}) {
  // CHECK: lm.cache_append {{.*}} : !lm.kv_cache<ring 32x1x16xf32>
  %d = lm.cache_append %c, %k, %k at %start
      : !lm.kv_cache<512x1x16xf32>, tensor<64x16xf32>
  return %d : !lm.kv_cache<512x1x16xf32>
}
// CHECK-LABEL: @draft
// CHECK-SAME: !lm.kv_cache<ring 32x1x16xf32>
func.func @draft(%q: tensor<4x16xf32> {lm.port = "q"},
                 %start: tensor<1xi32> {lm.port = "start"},
                 %c: !lm.kv_cache<512x1x16xf32> {lm.state = "kv"})
    -> (tensor<4x16xf32> {lm.port = "o"},
        !lm.kv_cache<512x1x16xf32> {lm.state = "kv"}) {
  // CHECK: lm.attention {{.*}} : tensor<4x16xf32>, !lm.kv_cache<ring 32x1x16xf32>
  %d = lm.cache_append %c, %q, %q at %start
      : !lm.kv_cache<512x1x16xf32>, tensor<4x16xf32>
  %o = lm.attention %q, %d at %start {scale = 1.0 : f32, window = 20 : i64}
      : tensor<4x16xf32>, !lm.kv_cache<512x1x16xf32>
  return %o, %d : tensor<4x16xf32>, !lm.kv_cache<512x1x16xf32>
}

// -----

// One reader sees everything.
// CHECK-LABEL: @negative_one_reader_is_full
func.func @negative_one_reader_is_full(
    %q: tensor<4x16xf32> {lm.port = "q"},
    %start: tensor<1xi32> {lm.port = "start"},
    %c: !lm.kv_cache<512x1x16xf32> {lm.state = "kv"})
    -> (tensor<4x16xf32> {lm.port = "o"}, tensor<4x16xf32> {lm.port = "p"},
        !lm.kv_cache<512x1x16xf32> {lm.state = "kv"}) {
  // CHECK: lm.attention {{.*}}!lm.kv_cache<512x1x16xf32>
  // CHECK: lm.attention {{.*}}!lm.kv_cache<512x1x16xf32>
  %o = lm.attention %q, %c at %start {scale = 1.0 : f32, window = 20 : i64}
      : tensor<4x16xf32>, !lm.kv_cache<512x1x16xf32>
  %p = lm.attention %q, %c at %start {scale = 1.0 : f32}
      : tensor<4x16xf32>, !lm.kv_cache<512x1x16xf32>
  return %o, %p, %c
      : tensor<4x16xf32>, tensor<4x16xf32>, !lm.kv_cache<512x1x16xf32>
}

// -----

// Nothing is saved: 30 + 4 - 1 positions take three tiles.
// CHECK-LABEL: @negative_window_is_as_long_as_the_cache
func.func @negative_window_is_as_long_as_the_cache(
    %q: tensor<4x16xf32> {lm.port = "q"},
    %start: tensor<1xi32> {lm.port = "start"},
    %c: !lm.kv_cache<48x1x16xf32> {lm.state = "kv"})
    -> (tensor<4x16xf32> {lm.port = "o"},
        !lm.kv_cache<48x1x16xf32> {lm.state = "kv"}) {
  // CHECK: lm.attention {{.*}}!lm.kv_cache<48x1x16xf32>
  %o = lm.attention %q, %c at %start {scale = 1.0 : f32, window = 30 : i64}
      : tensor<4x16xf32>, !lm.kv_cache<48x1x16xf32>
  return %o, %c : tensor<4x16xf32>, !lm.kv_cache<48x1x16xf32>
}

// -----

// CHECK-LABEL: @negative_nothing_reads
func.func @negative_nothing_reads(
    %c: !lm.kv_cache<512x1x16xf32> {lm.state = "kv"})
    -> (!lm.kv_cache<512x1x16xf32> {lm.state = "kv"}) {
  // CHECK: return {{.*}} : !lm.kv_cache<512x1x16xf32>
  return %c : !lm.kv_cache<512x1x16xf32>
}

// -----

// The body of a denoise op has to be spelled out before.
func.func @cache_in_a_body(%anchor: tensor<1xi32> {lm.port = "anchor"},
                           %l: tensor<3x32xf32> {lm.port = "l"},
                           %c: !lm.kv_cache<512x1x16xf32> {lm.state = "kv"})
    -> (tensor<4xi32> {lm.port = "block"},
        !lm.kv_cache<512x1x16xf32> {lm.state = "kv"}) {
  // expected-error @below {{reads a cache in a way that cannot become a ring}}
  %block, %logits, %new = lm.denoise %anchor caches(%c)
      {mask_token = 7 : i32, size = 4 : i64, steps = 1 : i64}
      : (!lm.kv_cache<512x1x16xf32>)
      -> (tensor<4xi32>, tensor<3x32xf32>, !lm.kv_cache<512x1x16xf32>) {
  ^body(%tokens: tensor<4xi32>, %d: !lm.kv_cache<512x1x16xf32>):
    lm.yield %l, %d : tensor<3x32xf32>, !lm.kv_cache<512x1x16xf32>
  }
  return %block, %new : tensor<4xi32>, !lm.kv_cache<512x1x16xf32>
}
