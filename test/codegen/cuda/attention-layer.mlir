// RUN: qcompile %s --arch sm_90 --emit cuda | FileCheck %s
// RUN: qcompile %s --arch sm_86 --emit cuda \
// RUN:   | FileCheck %s --check-prefix=WITHOUT

// Attention of few rows makes what it reads where blocks can be clusters: a
// kernel for up to 8 rows, one for 16, which cut positions alike, so that a row
// is the same in both. A block has room beside a layer of codes.

// CHECK-LABEL: // attention for sm_90
// CHECK-NEXT: #include "attention.cuh"
// CHECK-NEXT: #include "attention_layer.cuh"
// CHECK: static constexpr i32 dim = 256, heads = 2, queryHeads = 8;
// CHECK-NEXT: static constexpr i32 slots = 272, window = 0, rows = 8;
// CHECK-NEXT: static constexpr i32 span = 64, itemTiles = 2;
// CHECK-NEXT: static constexpr i32 cluster = 4, clusters = 8;
// CHECK-NEXT: static constexpr i32 dims = 64, positions = {{[0-9]+}};
// CHECK-NEXT: static constexpr bool causal = true;
// CHECK-NEXT: static constexpr bool gated = true;
// CHECK: extern "C" __global__ void __cluster_dims__(1, 4, 1) __block_size__((256, 1, 1)) __maxnreg__(120)
// CHECK-NEXT: attention_c1_d256_g1_h2_q8_s272_w0_bf16_inputs_r8(const bf16 *query, const f32 *queryNorm, const bf16 *keys, const bf16 *values, const f32 *keyNorm, const i32 *start, const f32 *table, bf16 *output, bf16 *cache, const i32 *live, i32 rows, u8 *scratch) {
// CHECK-NEXT: tandem::attentionLayer<{{.*}}_choices>(query, queryNorm, keys, values, keyNorm, start, table, output, cache, live, rows, scratch);
// CHECK: static constexpr i32 slots = 272, window = 0, rows = 16;
// CHECK-NEXT: static constexpr i32 span = 64, itemTiles = 4;
// CHECK-NEXT: static constexpr i32 cluster = 4, clusters = 8;
// CHECK: sharedBytes == 112144);
// CHECK: attention_c1_d256_g1_h2_q8_s272_w0_bf16_inputs_r16(
// CHECK-NOT: // attention_inputs for

// WITHOUT-NOT: attentionLayer
// WITHOUT: // attention for sm_86
// WITHOUT-NOT: attentionLayer
// WITHOUT: // attention_inputs for sm_86
// WITHOUT-NOT: attentionLayer
!kv = !lm.kv_cache<272x2x256xbf16>
module attributes {lm.checkpoints = {target = "none"}} {
func.func @verify(
    %x: tensor<16x4096xbf16> {lm.port = "x"},
    %k0: tensor<16x512xbf16> {lm.port = "k"},
    %v: tensor<16x512xbf16> {lm.port = "v"},
    %c: !kv {lm.state = "cache"}, %s: tensor<1xi32> {lm.port = "s"})
    -> (tensor<16x2048xbf16> {lm.port = "y"}, !kv {lm.state = "cache"}) {
  %w = lm.weight "target", "norm" : tensor<256xf32>
  %q0, %g = lm.split %x {groups = 8 : i64}
      : tensor<16x4096xbf16> -> tensor<16x2048xbf16>, tensor<16x2048xbf16>
  %q1 = lm.rms_norm %q0, %w {eps = 1.0e-6 : f32}
      : tensor<16x2048xbf16>, tensor<256xf32>
  %q = lm.rope %q1 at %s {head_dim = 256 : i64, dims = 64 : i64, theta = 1.0e4 : f64}
      : tensor<16x2048xbf16>
  %k1 = lm.rms_norm %k0, %w {eps = 1.0e-6 : f32}
      : tensor<16x512xbf16>, tensor<256xf32>
  %k = lm.rope %k1 at %s {head_dim = 256 : i64, dims = 64 : i64, theta = 1.0e4 : f64}
      : tensor<16x512xbf16>
  %new = lm.cache_append %c, %k, %v at %s : !kv, tensor<16x512xbf16>
  %o = lm.attention %q, %new at %s {causal, scale = 0.0625 : f32}
      : tensor<16x2048xbf16>, !kv
  %open = lm.sigmoid %g : tensor<16x2048xbf16>
  %y = lm.mul %o, %open : tensor<16x2048xbf16>
  return %y, %new : tensor<16x2048xbf16>, !kv
}
func.func @step(
    %x: tensor<1x4096xbf16> {lm.port = "x1"},
    %k0: tensor<1x512xbf16> {lm.port = "k1"},
    %v: tensor<1x512xbf16> {lm.port = "v1"},
    %c: !kv {lm.state = "cache"}, %s: tensor<1xi32> {lm.port = "s"})
    -> (tensor<1x2048xbf16> {lm.port = "y1"}, !kv {lm.state = "cache"}) {
  %w = lm.weight "target", "norm" : tensor<256xf32>
  %q0, %g = lm.split %x {groups = 8 : i64}
      : tensor<1x4096xbf16> -> tensor<1x2048xbf16>, tensor<1x2048xbf16>
  %q1 = lm.rms_norm %q0, %w {eps = 1.0e-6 : f32}
      : tensor<1x2048xbf16>, tensor<256xf32>
  %q = lm.rope %q1 at %s {head_dim = 256 : i64, dims = 64 : i64, theta = 1.0e4 : f64}
      : tensor<1x2048xbf16>
  %k1 = lm.rms_norm %k0, %w {eps = 1.0e-6 : f32}
      : tensor<1x512xbf16>, tensor<256xf32>
  %k = lm.rope %k1 at %s {head_dim = 256 : i64, dims = 64 : i64, theta = 1.0e4 : f64}
      : tensor<1x512xbf16>
  %new = lm.cache_append %c, %k, %v at %s : !kv, tensor<1x512xbf16>
  %o = lm.attention %q, %new at %s {causal, scale = 0.0625 : f32}
      : tensor<1x2048xbf16>, !kv
  %open = lm.sigmoid %g : tensor<1x2048xbf16>
  %y = lm.mul %o, %open : tensor<1x2048xbf16>
  return %y, %new : tensor<1x2048xbf16>, !kv
}
}
