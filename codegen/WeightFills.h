//===- WeightFills.h - How synthetic weights are made -----------*- C++ -*-===//

#ifndef TANDEM_CODEGEN_WEIGHTFILLS_H
#define TANDEM_CODEGEN_WEIGHTFILLS_H

#include "dialects/plan/PlanOps.h"
#include "runtime/Artifact_generated.h"

#include "llvm/Support/Error.h"

namespace tandem::codegen {

/// Whether \p weight is made from a checkpoint that `lm.checkpoints` calls
/// synthetic (see models/Synthetic.h).
bool isSynthetic(plan::WeightOp weight);

/// Fails when there is no way to make up a weight with the packing of
/// \p weight.
llvm::Error checkFill(plan::WeightOp weight);

/// The table that says how to make the synthetic \p weight, which checkFill()
/// has passed. The numbers are of the size that trained ones have, so that
/// activations stay finite in any number of layers.
flatbuffers::Offset<artifact::Fill>
buildFill(flatbuffers::FlatBufferBuilder &builder, plan::WeightOp weight);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_WEIGHTFILLS_H
