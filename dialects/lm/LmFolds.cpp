//===- LmFolds.cpp - Folds of lm ops --------------------------------------===//
//
// An op that changes nothing gives way to its input.
//
//===----------------------------------------------------------------------===//

#include "dialects/lm/LmOps.h"

using namespace mlir;
using namespace tandem::lm;

OpFoldResult LiveRowsOp::fold(FoldAdaptor adaptor) {
  auto inner = getInput().getDefiningOp<LiveRowsOp>();
  if (inner && inner.getCount() == getCount())
    return getInput();
  return {};
}

OpFoldResult LastRowOp::fold(FoldAdaptor adaptor) {
  return getInput().getType() == getType() ? getInput() : OpFoldResult();
}

OpFoldResult DropRowsOp::fold(FoldAdaptor adaptor) {
  return getFirst() == 0 ? getInput() : OpFoldResult();
}

LogicalResult SplitOp::fold(FoldAdaptor adaptor,
                            SmallVectorImpl<OpFoldResult> &results) {
  if (getParts().size() != 1 || getParts()[0].getType() != getInput().getType())
    return failure();
  results.push_back(getInput());
  return success();
}

OpFoldResult ConcatFeaturesOp::fold(FoldAdaptor adaptor) {
  return getInputs().size() == 1 ? getInputs()[0] : OpFoldResult();
}
