// RUN: qcompile %s --arch sm_86 --emit cuda --disable-pass lm-hoist-last-row \
// RUN:   --disable-pass lm-fuse-gated-mlp --disable-pass lm-fuse-projections \
// RUN:   --disable-pass lm-fuse-head-argmax --disable-pass lm-fuse-norm-linear \
// RUN:   --disable-pass lm-fuse-residual --disable-pass lm-fuse-delta-inputs \
// RUN:   --disable-pass lm-fuse-attention-inputs \
// RUN:   --disable-pass lm-fuse-delta-norm \
// RUN:   | FileCheck %s

// What is generated names choices and calls a template. Rows, linear layers and
// caches of a target and a drafter.

// CHECK-LABEL: // embed for sm_86
// CHECK-NEXT: #include "embed.cuh"
// CHECK: static constexpr i32 columns = 64, vocabulary = 300;
// CHECK: using Element = bf16;
// CHECK: using Result = bf16;
// CHECK: static constexpr f32 scaleBy = 1.0f;
// CHECK: extern "C" __global__ void __launch_bounds__(256)
// CHECK-NEXT: embed_c64_v300_bf16_bf16(const i32 *tokens, const bf16 *table, bf16 *y, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::embed<embed_c64_v300_bf16_bf16_choices>(tokens, table, y, live, rows);
// CHECK-LABEL: // linear for sm_86
// CHECK-NEXT: #include "linear.cuh"
// CHECK: using Result = f32;
// CHECK: using Element = bf16;
// CHECK: extern "C" __global__ void __launch_bounds__({{[0-9]+}}, 1)
// CHECK-NEXT: linear_4x64_bf16_f32_r16(const bf16 *x, const u8 *weight0, f32 *y0, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::linear<linear_4x64_bf16_f32_r16_choices>(
// CHECK-LABEL: // quant_linear for sm_86
// CHECK-NEXT: #include "quant_linear.cuh"
// CHECK: using Result = bf16;
// CHECK: static constexpr i32 bits = 4, group = 32;
// CHECK: using Scale = bf16;
// CHECK: extern "C" __global__ void __launch_bounds__({{[0-9]+}}, 1)
// CHECK-NEXT: quant_linear_256x64_q4_g32_bf16_r16(const bf16 *x, const u8 *weight0, bf16 *y0, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::quantLinear<quant_linear_256x64_q4_g32_bf16_r16_choices>(
// CHECK-LABEL: // rms_norm for sm_86
// CHECK-NEXT: #include "norm.cuh"
// CHECK: static constexpr i32 columns = 64, dim = 64;
// CHECK: static constexpr i32 threads = 128, threadsPerRun = 128;
// CHECK: static constexpr f32 eps = {{.*}};
// CHECK: static constexpr f32 offset = 1.0f;
// CHECK: extern "C" __global__ void __launch_bounds__(128)
// CHECK-NEXT: rms_norm_c64_d64_bf16(const bf16 *x, const f32 *weight, bf16 *y, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::rmsNorm<rms_norm_c64_d64_bf16_choices>(x, weight, y, live, rows);
// CHECK-LABEL: // gated_rms_norm for sm_86
// CHECK-NEXT: #include "norm.cuh"
// CHECK: static constexpr i32 columns = 128, dim = 32;
// CHECK: static constexpr i32 threads = 128, threadsPerRun = 32;
// CHECK: static constexpr f32 eps = {{.*}};
// CHECK: extern "C" __global__ void __launch_bounds__(128)
// CHECK-NEXT: gated_rms_norm_c128_d32_bf16(const bf16 *x, const bf16 *gate, const f32 *weight, bf16 *y, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::gatedRmsNorm<gated_rms_norm_c128_d32_bf16_choices>(x, gate, weight, y, live, rows);
// CHECK-LABEL: // l2_norm for sm_86
// CHECK-NEXT: #include "norm.cuh"
// CHECK: static constexpr i32 columns = 64, dim = 32;
// CHECK: static constexpr i32 threads = 128, threadsPerRun = 32;
// CHECK: static constexpr f32 eps = {{.*}};
// CHECK: extern "C" __global__ void __launch_bounds__(128)
// CHECK-NEXT: l2_norm_c64_d32_bf16(const bf16 *x, bf16 *y, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::l2Norm<l2_norm_c64_d32_bf16_choices>(x, y, live, rows);
// CHECK-LABEL: // silu for sm_86
// CHECK-NEXT: #include "elementwise.cuh"
// CHECK: static constexpr i32 columns = 256;
// CHECK: extern "C" __global__ void __launch_bounds__(256)
// CHECK-NEXT: silu_c256_bf16(const bf16 *x, bf16 *y, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::unary<silu_c256_bf16_choices, Silu>(x, y, live, rows);
// CHECK-LABEL: // sigmoid for sm_86
// CHECK-NEXT: #include "elementwise.cuh"
// CHECK: static constexpr i32 columns = 4;
// CHECK: extern "C" __global__ void __launch_bounds__(256)
// CHECK-NEXT: sigmoid_c4(const f32 *x, f32 *y, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::unary<sigmoid_c4_choices, Sigmoid>(x, y, live, rows);
// CHECK-LABEL: // add for sm_86
// CHECK-NEXT: #include "elementwise.cuh"
// CHECK: static constexpr i32 columns = 128;
// CHECK: extern "C" __global__ void __launch_bounds__(256)
// CHECK-NEXT: add_c128_bf16(const bf16 *a, const bf16 *b, bf16 *y, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::binary<add_c128_bf16_choices, Add>(a, b, y, live, rows);
// CHECK-LABEL: // mul for sm_86
// CHECK-NEXT: #include "elementwise.cuh"
// CHECK: static constexpr i32 columns = 128;
// CHECK: extern "C" __global__ void __launch_bounds__(256)
// CHECK-NEXT: mul_c128_bf16(const bf16 *a, const bf16 *b, bf16 *y, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::binary<mul_c128_bf16_choices, Mul>(a, b, y, live, rows);
// CHECK-LABEL: // last_row for sm_86
// CHECK-NEXT: #include "rows.cuh"
// CHECK: static constexpr i32 columns = 64;
// CHECK: extern "C" __global__ void __launch_bounds__(256)
// CHECK-NEXT: last_row_c64_bf16(const bf16 *x, const i32 *count, bf16 *y, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::lastRow<last_row_c64_bf16_choices>(x, count, y, rows);
// CHECK-LABEL: // split for sm_86
// CHECK-NEXT: #include "rows.cuh"
// CHECK: static constexpr i32 columns = 256, groups = 1;
// CHECK: extern "C" __global__ void __launch_bounds__(256)
// CHECK-NEXT: split_g1_64_64_128_bf16(const bf16 *x, bf16 *part0, bf16 *part1, bf16 *part2, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::splitPart<split_g1_64_64_128_bf16_choices, 0, 64>(x, part0, live, rows);
// CHECK: tandem::splitPart<split_g1_64_64_128_bf16_choices, 64, 64>(x, part1, live, rows);
// CHECK: tandem::splitPart<split_g1_64_64_128_bf16_choices, 128, 128>(x, part2, live, rows);
// CHECK: static constexpr i32 columns = 128, groups = 2;
// CHECK: extern "C" __global__ void __launch_bounds__(256)
// CHECK-NEXT: split_g2_64_64_bf16(const bf16 *x, bf16 *part0, bf16 *part1, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::splitPart<split_g2_64_64_bf16_choices, 0, 64>(x, part0, live, rows);
// CHECK: tandem::splitPart<split_g2_64_64_bf16_choices, 32, 64>(x, part1, live, rows);
// CHECK-LABEL: // rope for sm_86
// CHECK-NEXT: #include "rope.cuh"
// CHECK: static constexpr i32 columns = 64, headDim = 32;
// CHECK: static constexpr i32 dims = 16, positions = 4096;
// CHECK: extern "C" __global__ void __launch_bounds__(256)
// CHECK-NEXT: rope_c64_d16_h32_p4096_bf16(const bf16 *x, const i32 *start, const f32 *table, bf16 *y, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::rope<rope_c64_d16_h32_p4096_bf16_choices>(x, start, table, y, live, rows);
// CHECK-LABEL: // cache_append for sm_86
// CHECK-NEXT: #include "cache_append.cuh"
// CHECK: static constexpr i32 dim = 32, heads = 2, slots = 80;
// CHECK: extern "C" __global__ void __launch_bounds__(256)
// CHECK-NEXT: cache_append_d32_h2_s80_bf16(const bf16 *keys, const bf16 *values, const i32 *start, bf16 *cache, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::cacheAppend<cache_append_d32_h2_s80_bf16_choices>(keys, values, start, cache, live, rows);
// CHECK-LABEL: // attention for sm_86
// CHECK-NEXT: #include "attention.cuh"
// CHECK: static constexpr i32 dim = 32, heads = 2, queryHeads = 4;
// CHECK: static constexpr i32 slots = 80, window = 0;
// CHECK: static constexpr i32 blocks = 16, chunkSpans = 0, mostChunks = 3;
// CHECK: static constexpr i32 fewBlocks = 1, stages = {{[2-4]}}, ticketBytes = 256;
// CHECK: static constexpr bool causal = true;
// CHECK: static constexpr bool gated = false;
// CHECK: static constexpr bool knowsStart = false;
// CHECK: static constexpr f32 scaleBy = 0.25f;
// CHECK: extern "C" __global__ void __launch_bounds__(256, 2)
// CHECK-NEXT: attention_c1_d32_h2_q4_s80_w0_bf16(const bf16 *query, const bf16 *cache, const i32 *start, bf16 *output, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::attention<attention_c1_d32_h2_q4_s80_w0_bf16_choices>(query, cache, start, nullptr, output, live, rows, scratch);
// CHECK-LABEL: // short_conv for sm_86
// CHECK-NEXT: #include "short_conv.cuh"
// CHECK: static constexpr i32 channels = 256, taps = 4, pending = 16;
// CHECK: static constexpr bool commit = false;
// CHECK: extern "C" __global__ void __launch_bounds__(128)
// CHECK-NEXT: short_conv_c256_c0_p16_t4_bf16(const bf16 *x, const f32 *weight, const i32 *accepted, bf16 *y, bf16 *cache, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::shortConv<short_conv_c256_c0_p16_t4_bf16_choices>(x, weight, accepted, y, cache, live, rows);
// CHECK-LABEL: // delta_gate for sm_86
// CHECK-NEXT: #include "gated_delta.cuh"
// CHECK: static constexpr i32 columns = 4;
// CHECK: extern "C" __global__ void __launch_bounds__(256)
// CHECK-NEXT: delta_gate_c4(const f32 *x, const f32 *logRate, const f32 *bias, f32 *y, const i32 *live, i32 rows, u8 *scratch) {
// CHECK: tandem::deltaGate<delta_gate_c4_choices>(x, logRate, bias, y, live, rows);
// CHECK-LABEL: // gated_delta for sm_86
// CHECK-NEXT: #include "delta_chunk.cuh"
// CHECK-NEXT: #include "delta_layer.cuh"
// CHECK: static constexpr i32 heads = 4, keyHeads = 2;
// CHECK: static constexpr i32 keyDim = 32, valueDim = 32, pending = 16;
// CHECK: static constexpr bool commit = false;
// CHECK: static constexpr f32 scaleBy = 0.125f;
// CHECK: static constexpr bool normed = false;
// CHECK: extern "C" __global__ void __launch_bounds__({{[0-9]+}})
// CHECK-NEXT: gated_delta_c0_h4_k32_k2_p16_{{.*}}v32_bf16(const bf16 *query, const bf16 *key, const bf16 *value, const f32 *decay, const f32 *beta, const i32 *accepted, bf16 *output, u8 *cache, const i32 *live, i32 rows, u8 *scratch) {
// CHECK-NEXT: tandem::deltaVerify<gated_delta_{{.*}}_choices, bf16>(query, key, value, decay, beta, accepted, nullptr, nullptr, output, cache, live, rows, scratch);
// CHECK-NOT: // delta_save

!kv = !lm.kv_cache<80x2x32xbf16>
!conv = !lm.conv_cache<taps = 4, channels = 256, pending = 16>
!delta = !lm.delta_cache<heads = 4, key_heads = 2, key_dim = 32, value_dim = 32, pending = 16>
module attributes {lm.checkpoints = {target = "none"}} {
func.func @layers(%t: tensor<16xi32> {lm.port = "t"},
                 %n: tensor<1xi32> {lm.port = "n"},
                 %start: tensor<1xi32> {lm.port = "start"},
                 %accepted: tensor<1xi32> {lm.port = "accepted"},
                 %c0: !conv {lm.state = "conv"}, %d0: !delta {lm.state = "delta"},
                 %k0: !kv {lm.state = "kv"})
    -> (tensor<1x64xbf16> {lm.port = "last"}, !conv {lm.state = "conv"}, !delta {lm.state = "delta"}, !kv {lm.state = "kv"}) {
  %table = lm.weight "target", "embed" : tensor<300x64xbf16>
  %x = lm.embed %t, %table : tensor<16xi32>, tensor<300x64xbf16> -> tensor<16x64xbf16>
  %nw = lm.weight "target", "norm" : tensor<64xbf16>
  %h = lm.rms_norm %x, %nw {eps = 1.0e-6 : f32, offset = 1.0 : f32} : tensor<16x64xbf16>, tensor<64xbf16>
  %codes = lm.weight "target", "qkv.codes" : tensor<256x8xi32>
  %scales = lm.weight "target", "qkv.scales" : tensor<256x2xbf16>
  %w = lm.dequant %codes, %scales grouped<bits = 4, group = 32> : tensor<256x8xi32>, tensor<256x2xbf16> -> tensor<256x64xf32>
  %qkv = lm.linear %h, %w : tensor<16x64xbf16>, tensor<256x64xf32> -> tensor<16x256xbf16>
  %taps = lm.weight "target", "conv" : tensor<256x1x4xbf16>
  %u, %c1 = lm.short_conv %qkv, %taps, %c0 keep %accepted rows %n : tensor<16x256xbf16>, tensor<256x1x4xbf16>, !conv
  %s = lm.silu %u : tensor<16x256xbf16>
  %q, %k, %v = lm.split %s {groups = 1 : i64} : tensor<16x256xbf16> -> tensor<16x64xbf16>, tensor<16x64xbf16>, tensor<16x128xbf16>
  %qn = lm.l2_norm %q {dim = 32 : i64, eps = 1.0e-6 : f32} : tensor<16x64xbf16>
  %aw = lm.weight "target", "a" : tensor<4x64xbf16>
  %a = lm.linear %h, %aw : tensor<16x64xbf16>, tensor<4x64xbf16> -> tensor<16x4xf32>
  %alog = lm.weight "target", "alog" : tensor<4xf32>
  %dt = lm.weight "target", "dt" : tensor<4xbf16>
  %g = lm.delta_gate %a, %alog, %dt : tensor<16x4xf32>, tensor<4xf32>, tensor<4xbf16>
  %beta = lm.sigmoid %a : tensor<16x4xf32>
  %o, %d1 = lm.gated_delta %qn, %k, %v, %g, %beta, %d0 keep %accepted rows %n {scale = 0.125 : f32} : tensor<16x64xbf16>, tensor<16x128xbf16>, tensor<16x4xf32>, !delta
  %gw = lm.weight "target", "gnorm" : tensor<32xf32>
  %y = lm.gated_rms_norm %o, %v, %gw {eps = 1.0e-6 : f32} : tensor<16x128xbf16>, tensor<32xf32>
  %r = lm.rope %q at %start {head_dim = 32 : i64, dims = 16 : i64, theta = 1.0e7 : f64} : tensor<16x64xbf16>
  %k1 = lm.cache_append %k0, %r, %k at %start rows %n : !kv, tensor<16x64xbf16>
  %att = lm.attention %y, %k1 at %start rows %n {causal, scale = 0.25 : f32} : tensor<16x128xbf16>, !kv
  %m = lm.mul %att, %y : tensor<16x128xbf16>
  %sum = lm.add %m, %y : tensor<16x128xbf16>
  %f, %f2 = lm.split %sum {groups = 2 : i64} : tensor<16x128xbf16> -> tensor<16x64xbf16>, tensor<16x64xbf16>
  %last = lm.last_row %f, %n : tensor<16x64xbf16> -> tensor<1x64xbf16>
  return %last, %c1, %d1, %k1 : tensor<1x64xbf16>, !conv, !delta, !kv
}
}
