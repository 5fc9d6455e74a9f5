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
/// `linear` and `quant_linear`, and their fused forms.
void buildLinear(KernelBuilder &k);
void buildHeadArgmax(KernelBuilder &k);
void buildSelectTokens(KernelBuilder &k);

// HeadKernels.cpp
void buildHeadSearch(KernelBuilder &k);
void buildHeadSettle(KernelBuilder &k);
void buildSettledArgmax(KernelBuilder &k);

// NormKernels.cpp
/// `rms_norm`, `gated_rms_norm` and `l2_norm`.
void buildNorm(KernelBuilder &k);
/// Numbers of a norm; a weight or gate that is no memory is none.
struct NormNumbers {
  /// Divides the sum of squares by their number.
  bool isMean;
  float eps, offset;
  Memory weight, gate;
};
/// y = x / sqrt(sum or mean of x^2 + eps) * (weight + offset) * silu(gate) for
/// \p dim numbers; \p y may be \p x.
void emitNorm(KernelBuilder &k, Memory x, Memory y, int64_t dim,
              const NormNumbers &norm);

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
void buildDeltaInputs(KernelBuilder &k);

// TokenKernels.cpp
/// Largest number and where it first stands.
struct Largest {
  Var value;
  /// i32.
  Var column;
};
/// The largest of 16 numbers; \p columns (i32) says where each of them stands.
Largest findLargestLane(KernelBuilder &k, Var numbers, Var columns);
void buildArgmax(KernelBuilder &k);
void buildMaskBlock(KernelBuilder &k);
void buildUnmask(KernelBuilder &k);
void buildConcatTokens(KernelBuilder &k);
void buildAccept(KernelBuilder &k);
void buildArgmaxParts(KernelBuilder &k);
/// The same with the tokens going to \p result.
void buildArgmaxParts(KernelBuilder &k, Memory result);
void buildLastPosition(KernelBuilder &k);

/// Builds the kernel of \p k, whichever family it is of.
void buildKernel(KernelBuilder &k);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CPU_KERNELS_H
