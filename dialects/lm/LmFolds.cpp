//===- LmFolds.cpp - Folds of lm ops --------------------------------------===//
//
// An op that changes nothing gives way to its input. In a module, where values
// may be used above their definition, that input may be the op's own result: it
// stays.
//
//===----------------------------------------------------------------------===//

#include "dialects/lm/LmOps.h"

using namespace mlir;
using namespace tandem::lm;

/// `input` when `op` changes nothing.
static OpFoldResult foldToInput(Operation *op, Value input, bool unchanged) {
  return unchanged && input.getDefiningOp() != op ? input : OpFoldResult();
}

OpFoldResult LiveRowsOp::fold(FoldAdaptor adaptor) {
  auto inner = getInput().getDefiningOp<LiveRowsOp>();
  return foldToInput(*this, getInput(),
                     inner && inner.getCount() == getCount());
}

OpFoldResult LastRowOp::fold(FoldAdaptor adaptor) {
  return foldToInput(*this, getInput(), getInput().getType() == getType());
}

OpFoldResult DropRowsOp::fold(FoldAdaptor adaptor) {
  return foldToInput(*this, getInput(), getFirst() == 0);
}

LogicalResult SplitOp::fold(FoldAdaptor adaptor,
                            SmallVectorImpl<OpFoldResult> &results) {
  OpFoldResult input = foldToInput(*this, getInput(), getParts().size() == 1);
  if (!input)
    return failure();
  results.push_back(input);
  return success();
}

OpFoldResult ConcatFeaturesOp::fold(FoldAdaptor adaptor) {
  return foldToInput(*this, getInputs()[0], getInputs().size() == 1);
}
