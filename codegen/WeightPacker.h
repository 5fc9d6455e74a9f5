//===- WeightPacker.h - Weights in the layout of the kernels ----*- C++ -*-===//
//
// Writes the bytes of a `plan.weight` from the tensors of a checkpoint. The
// layouts are drawn in dialects/plan/PlanAttrs.td. Weights are written tile by
// tile, so that nothing larger than a tile of 16 outputs is ever copied.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_WEIGHTPACKER_H
#define TANDEM_CODEGEN_WEIGHTPACKER_H

#include "dialects/plan/PlanDialect.h"
#include "models/Safetensors.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace tandem::codegen {

/// Takes the bytes of a weight, front to back, in pieces of any size.
using ByteSink = llvm::function_ref<llvm::Error(llvm::ArrayRef<uint8_t>)>;

/// Checks that \p sources are what \p packing is made from: their number,
/// element types and shapes. Cheap, so that a wrong checkpoint is found before
/// the first byte is written. Errors name the file and the tensor, what it is
/// and what was expected.
llvm::Error checkSources(plan::PackingAttrInterface packing,
                         llvm::ArrayRef<const models::TensorView *> sources);

/// Writes \p sources, for which checkSources() holds, as \p packing says:
/// exactly packing.getSizeInBytes() bytes. Errors: what \p sink returns, and
/// scales that are not finite.
llvm::Error packWeight(plan::PackingAttrInterface packing,
                       llvm::ArrayRef<const models::TensorView *> sources,
                       ByteSink sink);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_WEIGHTPACKER_H
