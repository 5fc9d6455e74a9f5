//===- ValueOrder.h - Whether a value is there in time ----------*- C++ -*-===//

#ifndef TANDEM_PASSES_VALUEORDER_H
#define TANDEM_PASSES_VALUEORDER_H

#include "mlir/IR/Operation.h"

namespace tandem {

/// Whether \p op may use \p value where it stands: the value comes from an op
/// in front of it in the same block, or is an argument of that block.
inline bool isThereBefore(mlir::Value value, mlir::Operation *op) {
  if (value.getParentBlock() != op->getBlock())
    return false;
  mlir::Operation *producer = value.getDefiningOp();
  return !producer || producer->isBeforeInBlock(op);
}

} // namespace tandem

#endif // TANDEM_PASSES_VALUEORDER_H
