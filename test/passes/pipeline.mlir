// RUN: qopt %s --tandem-pipeline --dump-pass-pipeline 2>&1 >/dev/null \
// RUN:   | FileCheck %s --check-prefix=ORDER
// RUN: qopt %s --tandem-pipeline | FileCheck %s
// RUN: qopt %s --tandem-pipeline="disable=lm-fuse-residual,lm-fuse-norm-linear" \
// RUN:   --dump-pass-pipeline 2>&1 >/dev/null | FileCheck %s --check-prefix=DISABLED

// RUN: qopt %s --tandem-pipeline="draft-tokens=0,3 round-draft search-draft" \
// RUN:   --dump-pass-pipeline 2>&1 >/dev/null | FileCheck %s --check-prefix=DRAFT

// What is drafted, then how its head is read.
// DRAFT: lm-restrict-draft-vocabulary{{.*}}tokens={0,3}
// DRAFT: lm-search-heads
// DRAFT: lm-round-draft-head

// RUN: qopt %s --tandem-lowering-pipeline=arch=sm_86 \
// RUN:   --dump-pass-pipeline 2>&1 >/dev/null | FileCheck %s --check-prefix=GPU
// RUN: qopt %s --tandem-lowering-pipeline="arch=sm_86 disable=lm-fuse-delta-layer" \
// RUN:   --dump-pass-pipeline 2>&1 >/dev/null | FileCheck %s --check-prefix=APART

// What is marked for one launch stays as it is.
// GPU: lm-fuse-attention-inputs
// GPU: lm-fuse-attention-gate
// GPU: lm-fuse-delta-norm
// GPU: lm-lower-speculate
// GPU-NEXT: lm-fuse-delta-layer
// APART-NOT: lm-fuse-delta-layer
// APART: lm-lower-speculate
// APART-NOT: lm-fuse-delta-layer

// RUN: echo "module {}" | qopt --tandem-pipeline=arch=sm_90 \
// RUN:   --dump-pass-pipeline 2>&1 >/dev/null | FileCheck %s --check-prefix=CLUSTERS
// RUN: echo "module {}" | qopt --tandem-pipeline=arch=sm_86 \
// RUN:   --dump-pass-pipeline 2>&1 >/dev/null | FileCheck %s --check-prefix=BLOCKS

// CLUSTERS: convert-lm-to-plan
// CLUSTERS: plan-fuse-attention-layer
// CLUSTERS: plan-select-kernels
// CLUSTERS-NEXT: plan-arrange-tokens
// BLOCKS-NOT: {{plan-fuse-attention-layer|plan-arrange-tokens}}
// BLOCKS: plan-verify

// DISABLED: lm-fuse-projections
// DISABLED-NOT: lm-fuse-residual
// DISABLED-NOT: lm-fuse-norm-linear
// DISABLED: plan-verify

// ORDER: lm-verify-import
// ORDER: lm-fuse-dequant-linear
// ORDER: lm-hoist-last-row
// ORDER: lm-fuse-gated-mlp
// ORDER: lm-fuse-projections
// ORDER: lm-fuse-head-argmax
// ORDER: lm-fuse-norm-linear
// ORDER: lm-fuse-residual
// ORDER: lm-fuse-delta-inputs
// ORDER: lm-verify-import
// ORDER: lm-lower-denoise
// ORDER: lm-lower-sliding-window
// ORDER: lm-fuse-head-argmax
// ORDER: lm-lower-speculate
// ORDER: convert-lm-to-plan
// ORDER: plan-select-kernels
// ORDER: plan-assign-buffers
// ORDER: plan-verify

// From a packed weight to a launch that reads it packed.
// CHECK: plan.weight "target:q"
// CHECK: plan.kernel @quant_linear_40x64_q4_g32_bf16
// CHECK: plan.program @layer
// CHECK: plan.buffer at 0
// CHECK: plan.launch @quant_linear
// CHECK: plan.launch @silu
module attributes {lm.checkpoints = {target = "dir"}} {
  func.func @layer(%x: tensor<16x64xf32> {lm.port = "x"})
      -> (tensor<16x40xf32> {lm.port = "y"}) {
    %codes = lm.weight "target", "q.weight_packed" : tensor<40x8xi32>
    %scales = lm.weight "target", "q.weight_scale" : tensor<40x2xbf16>
    %w = lm.dequant %codes, %scales grouped<bits = 4, group = 32>
        : tensor<40x8xi32>, tensor<40x2xbf16> -> tensor<40x64xf32>
    %h = lm.linear %x, %w
        : tensor<16x64xf32>, tensor<40x64xf32> -> tensor<16x40xf32>
    %y = lm.silu %h : tensor<16x40xf32>
    return %y : tensor<16x40xf32>
  }
}
