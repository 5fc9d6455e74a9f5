//===- Kernels.h - The kernels of all families ------------------*- C++ -*-===//
//
// One function per family (a few share one). Each builds the kernel that
// `k.spec()` describes; operands are those of dialects/plan/KernelFamilies.cpp.
// All numbers are f32, integers i32.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_CPU_KERNELS_H
#define TANDEM_CODEGEN_CPU_KERNELS_H

#include "codegen/cpu/KernelBuilder.h"

namespace tandem::codegen {

// LinearKernels.cpp
void buildEmbed(KernelBuilder &k);
/// `linear` and `quant_linear`.
void buildLinear(KernelBuilder &k);

// NormKernels.cpp
/// `rms_norm`, `gated_rms_norm` and `l2_norm`.
void buildNorm(KernelBuilder &k);

// ElementwiseKernels.cpp
/// `silu`, `sigmoid`, `add` and `mul`.
void buildElementwise(KernelBuilder &k);

// RowKernels.cpp
void buildLastRow(KernelBuilder &k);
void buildDropRows(KernelBuilder &k);
void buildSplit(KernelBuilder &k);
void buildConcatFeatures(KernelBuilder &k);
void buildCopy(KernelBuilder &k);

// AttentionKernels.cpp
void buildRope(KernelBuilder &k);
void buildCacheAppend(KernelBuilder &k);
void buildAttention(KernelBuilder &k);

// DeltaKernels.cpp
void buildShortConv(KernelBuilder &k);
void buildDeltaGate(KernelBuilder &k);
void buildGatedDelta(KernelBuilder &k);
void buildDeltaSave(KernelBuilder &k);

// TokenKernels.cpp
void buildArgmax(KernelBuilder &k);
void buildMaskBlock(KernelBuilder &k);
void buildUnmask(KernelBuilder &k);
void buildConcatTokens(KernelBuilder &k);
void buildAccept(KernelBuilder &k);

/// Builds the kernel of \p k, whichever family it is of.
void buildKernel(KernelBuilder &k);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CPU_KERNELS_H
