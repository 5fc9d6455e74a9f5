//===- VectorMath.h - Functions of 16 numbers -------------------*- C++ -*-===//
//
// Elementary functions without a library. They exist for vectors only, so that
// a number has the same bits whichever lane it is in: tails use masked vectors.
// Errors are a few units in the last place.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_CPU_VECTORMATH_H
#define TANDEM_CODEGEN_CPU_VECTORMATH_H

#include "codegen/cpu/KernelBuilder.h"

#include <limits>

namespace tandem::codegen {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// e^x; 0 below -104, infinity above 88.7, subnormal results included.
Var exp(KernelBuilder &k, Var x);
/// 1 / (1 + e^-x).
Var sigmoid(KernelBuilder &k, Var x);
/// x / (1 + e^-x).
Var silu(KernelBuilder &k, Var x);
/// log(1 + e^x), which is x from 20 on.
Var softplus(KernelBuilder &k, Var x);
/// Square root, correctly rounded.
Var sqrt(KernelBuilder &k, Var x);

/// The bits of the nearest bf16, even ones in the middle, as i32: the upper
/// half of each lane, the lower one being zero.
Var roundToBf16(KernelBuilder &k, Var x);

/// Sum of the lanes, as a scalar: lane i and i + 8 first, then i and i + 4 ..
Var sumLanes(KernelBuilder &k, Var x);
/// Largest lane, as a scalar.
Var maxLanes(KernelBuilder &k, Var x);
/// Smallest lane of a vector of integers, as a scalar.
Var minLanes(KernelBuilder &k, Var x);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CPU_VECTORMATH_H
