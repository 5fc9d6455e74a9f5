//===- CodePacking.h - What packings of codes have in common ----*- C++ -*-===//

#ifndef TANDEM_DIALECTS_PLAN_CODEPACKING_H
#define TANDEM_DIALECTS_PLAN_CODEPACKING_H

#include "dialects/plan/PlanDialect.h"

namespace tandem::plan {

/// `#plan.interleaved_codes` of the codes that `packing` holds, in whatever
/// order: for who asks what they are and not where. Null when it holds none.
inline InterleavedCodesAttr getCodesOf(mlir::Attribute packing) {
  auto fragments = llvm::dyn_cast<FragmentCodesAttr>(packing);
  if (!fragments)
    return llvm::dyn_cast<InterleavedCodesAttr>(packing);
  return InterleavedCodesAttr::get(
      fragments.getContext(), fragments.getOutputs(), fragments.getColumns(),
      fragments.getBits(), fragments.getGroup(), fragments.getScale(),
      fragments.getZeroPoints(), fragments.getFloatCodes());
}

} // namespace tandem::plan

#endif // TANDEM_DIALECTS_PLAN_CODEPACKING_H
