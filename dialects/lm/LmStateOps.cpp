//===- LmStateOps.cpp - Verifiers of LmStateOps.td ------------------------===//
//
// The number of a constraint in the op's description stands beside its check.
//
//===----------------------------------------------------------------------===//

#include "dialects/lm/LmOps.h"
#include "dialects/lm/LmVerify.h"

using namespace mlir;
using namespace tandem::lm;

LogicalResult RopeOp::verify() {
  int64_t headDim = getHeadDim(), dims = getDims();
  // (C1)
  if (headDim <= 0 || columns(getInput()) % headDim != 0)
    return emitOpError("expects a head_dim that divides ")
           << columns(getInput()) << " columns, but got " << headDim;
  // (C2)
  if (dims <= 0 || dims % 2 != 0 || dims > headDim)
    return emitOpError("expects an even number of dims up to ")
           << headDim << ", but got " << dims;
  // (C3)
  if (!getTheta().isFinite() || getTheta().isNegative() || getTheta().isZero())
    return emitOpError("expects a positive theta");
  return success();
}

LogicalResult CacheAppendOp::verify() {
  KvCacheType cache = getCache().getType();
  // (C1)
  if (columns(getKeys()) != cache.getHeads() * cache.getDim())
    return emitOpError("expects keys of ")
           << cache.getHeads() * cache.getDim() << " columns, but got "
           << columns(getKeys());
  // (C2)
  if (tensorType(getKeys()).getElementType() != cache.getElementType())
    return emitOpError("expects keys of ")
           << cache.getElementType() << ", but got "
           << tensorType(getKeys()).getElementType();
  return success();
}

LogicalResult AttentionOp::verify() {
  KvCacheType cache = getCache().getType();
  // (C1)
  int64_t width = cache.getHeads() * cache.getDim();
  if (columns(getQuery()) % width != 0)
    return emitOpError("expects query columns that are a multiple of ")
           << width << ", but got " << columns(getQuery());
  // (C2)
  std::optional<int64_t> window = getWindow();
  if (window && !areSaneSizes(*window))
    return emitOpError("expects a window between 1 and 2^24, but got ")
           << *window;
  // (C3)
  if (cache.getRing()) {
    if (!window)
      return emitOpError("expects a window to read a ring");
    int64_t needed = *window + rows(getQuery()) - 1;
    if (cache.getSlots() < needed)
      return emitOpError("expects a ring of at least ")
             << needed << " slots, but got " << cache.getSlots();
  }
  // (C4)
  if (tensorType(getQuery()).getElementType() != cache.getElementType())
    return emitOpError("expects a query of ")
           << cache.getElementType() << ", but got "
           << tensorType(getQuery()).getElementType();
  // (C5)
  if (getGate() && getGate().getType() != getQuery().getType())
    return emitOpError("expects a gate of ")
           << getQuery().getType() << ", but got " << getGate().getType();
  return success();
}

LogicalResult tandem::lm::verifyPending(Operation *op, bool commit, Value input,
                                        int64_t pending) {
  if (!commit && rows(input) > pending)
    return op->emitOpError("expects at most ")
           << pending << " rows without commit, but got " << rows(input);
  return success();
}

LogicalResult tandem::lm::verifyConv(Operation *op, Value input, Value weight,
                                     ConvCacheType cache) {
  SmallVector<int64_t> shape = {cache.getChannels(), 1, cache.getTaps()};
  if (tensorType(weight).getShape() != ArrayRef<int64_t>(shape))
    return op->emitOpError("expects a weight of ")
           << shape[0] << " x 1 x " << shape[2] << ", but got "
           << weight.getType();
  if (columns(input) != cache.getChannels())
    return op->emitOpError("expects ")
           << cache.getChannels() << " channels, but got " << columns(input);
  return success();
}

LogicalResult ShortConvOp::verify() {
  ConvCacheType cache = getCache().getType();
  // (C1), (C2)
  if (failed(verifyConv(*this, getInput(), getWeight(), cache)))
    return failure();
  // (C3)
  return verifyPending(*this, getCommit(), getInput(), cache.getPending());
}

LogicalResult DeltaGateOp::verify() {
  // (C1)
  for (Value vector : {getALog(), getDtBias()})
    if (!isVector(vector, columns(getInput())))
      return emitOpError("expects vectors of ")
             << columns(getInput()) << " entries, but got " << vector.getType();
  return success();
}

LogicalResult GatedDeltaOp::verify() {
  DeltaCacheType cache = getCache().getType();
  auto checkColumns = [&](StringRef what, Value value,
                          int64_t expected) -> LogicalResult {
    if (columns(value) != expected)
      return emitOpError("expects ") << what << " of " << expected
                                     << " columns, but got " << columns(value);
    return success();
  };
  // (C1), (C2), (C3)
  if (failed(checkColumns("a query", getQuery(),
                          cache.getKeyHeads() * cache.getKeyDim())) ||
      failed(checkColumns("a value", getValue(),
                          cache.getHeads() * cache.getValueDim())) ||
      failed(checkColumns("a decay", getDecay(), cache.getHeads())))
    return failure();
  // (C4)
  for (Value value : {getValue(), getDecay()})
    if (rows(value) != rows(getQuery()))
      return emitOpError("expects operands of ")
             << rows(getQuery()) << " rows, but got " << rows(value);
  // (C5)
  if (failed(verifyPending(*this, getCommit(), getQuery(), cache.getPending())))
    return failure();
  // (C6)
  bool isNormed = static_cast<bool>(getGate());
  if (static_cast<bool>(getNormWeight()) != isNormed ||
      getNormEps().has_value() != isNormed || (isNormed && getCommit()))
    return emitOpError("expects a gate, a norm and its eps together, and no "
                       "commit with them");
  if (!isNormed)
    return success();
  if (getGate().getType() != getValue().getType())
    return emitOpError("expects a gate of ")
           << getValue().getType() << ", but got " << getGate().getType();
  if (!isVector(getNormWeight(), cache.getValueDim()))
    return emitOpError("expects a norm of ")
           << cache.getValueDim() << " entries, but got "
           << getNormWeight().getType();
  if (getNormEps()->isNegative() || !getNormEps()->isFinite())
    return emitOpError("expects norm_eps not to be negative");
  return success();
}
