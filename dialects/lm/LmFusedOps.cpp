//===- LmFusedOps.cpp - Verifiers of LmFusedOps.td ------------------------===//
//
// The number of a constraint in the op's description stands beside its check.
//
//===----------------------------------------------------------------------===//

#include "dialects/lm/LmOps.h"
#include "dialects/lm/LmVerify.h"

using namespace mlir;
using namespace tandem::lm;

LogicalResult FusedLinearOp::verify() {
  // (C1)
  if (getWeights().empty())
    return emitOpError("expects at least one weight");
  Type element = tensorType(getWeights()[0]).getElementType();
  for (Value weight : getWeights())
    if (tensorType(weight).getElementType() != element)
      return emitOpError("expects weights of ")
             << element << ", but got " << weight.getType();
  // (C2)
  bool isQuantized = getQuantization().has_value();
  if (element.isInteger(32) != isQuantized)
    return emitOpError("expects codes iff there is a quantization, but got ")
           << getWeights()[0].getType();
  size_t scaleCount = isQuantized ? getWeights().size() : 0;
  if (getScales().size() != scaleCount)
    return emitOpError("expects ")
           << scaleCount << " scales, but got " << getScales().size();
  // (C3)
  int64_t width = columns(getInput());
  for (auto [index, weight] : llvm::enumerate(getWeights())) {
    if (!isQuantized) {
      if (columns(weight) != width)
        return emitOpError("expects weights of ")
               << width << " columns, but got " << weight.getType();
      continue;
    }
    Value scales = getScales()[index];
    if (rows(scales) != rows(weight))
      return emitOpError("expects scales of ")
             << rows(weight) << " rows, but got " << rows(scales);
    if (failed(verifyCodes(*this, weight, scales, *getQuantization(), width)))
      return failure();
  }
  // (C4)
  SmallVector<int64_t> widths;
  for (Value weight : getWeights())
    widths.push_back(rows(weight));
  if (getGated()) {
    if (widths.size() != 2 || widths[0] != widths[1])
      return emitOpError("expects two weights of equal rows when gated");
    widths.pop_back();
  }
  if (getResults().size() != widths.size())
    return emitOpError("expects ")
           << widths.size() << " results, but got " << getResults().size();
  for (auto [result, expected] : llvm::zip_equal(getResults(), widths)) {
    if (columns(result) != expected)
      return emitOpError("expects a result of ")
             << expected << " columns, but got " << columns(result);
    // (C5)
    if (rows(result) != rows(getInput()))
      return emitOpError("expects results of ")
             << rows(getInput()) << " rows, but got " << rows(result);
  }
  // (C6)
  if (getNorm().has_value() != static_cast<bool>(getNormWeight()))
    return emitOpError("expects norm and its weight together");
  if (getNormWeight() && !isVector(getNormWeight(), width))
    return emitOpError("expects a norm weight of ")
           << width << " entries, but got " << getNormWeight().getType();
  // (C7)
  if (getResidual() && (getResults().size() != 1 ||
                        getResidual().getType() != getResults()[0].getType()))
    return emitOpError("expects one result of the type of its residual, ")
           << getResidual().getType();
  return success();
}

LogicalResult DeltaInputsOp::verify() {
  // (C1)
  if (failed(verifyConv(*this, getInput(), getWeight(), getCache().getType())))
    return failure();
  // (C2)
  auto keyDim = static_cast<int64_t>(getKeyDim());
  int64_t parts = columns(getQuery()) + columns(getKey()) + columns(getValue());
  if (parts != columns(getInput()))
    return emitOpError("expects query, key and value of ")
           << columns(getInput()) << " columns together, but got " << parts;
  if (keyDim <= 0 || columns(getQuery()) != columns(getKey()) ||
      columns(getKey()) % keyDim != 0)
    return emitOpError("expects query and key of equal columns, a multiple of ")
           << keyDim << ", but got " << columns(getQuery()) << " and "
           << columns(getKey());
  // (C3)
  int64_t heads = columns(getDecay());
  for (Value vector : {getALog(), getDtBias()})
    if (!isVector(vector, heads))
      return emitOpError("expects vectors of ")
             << heads << " entries, but got " << vector.getType();
  for (Value value : {getDecayInput(), getBetaInput(), getBeta()})
    if (columns(value) != heads)
      return emitOpError("expects decay and beta of ")
             << heads << " columns, but got " << columns(value);
  // (C4)
  for (Value value : {getDecayInput(), getBetaInput(), getQuery(), getKey(),
                      getValue(), getDecay(), getBeta()})
    if (rows(value) != rows(getInput()))
      return emitOpError("expects operands and results of ")
             << rows(getInput()) << " rows, but got " << rows(value);
  if (failed(verifyPending(*this, getCommit(), getInput(),
                           getCache().getType().getPending())))
    return failure();
  // (C5)
  if (getEps().isNegative() || !getEps().isFinite())
    return emitOpError("expects eps not to be negative");
  return success();
}

LogicalResult AttentionInputsOp::verify() {
  // (C1)
  size_t count = getCaches().size();
  if (count == 0)
    return emitOpError("expects at least one cache");
  if (getKeys().size() != count || getValues().size() != count ||
      getKeyNorms().size() != count || getResults().size() != count)
    return emitOpError("expects keys, values, norms and results for ")
           << count << " caches";
  auto cache = cast<KvCacheType>(getCaches()[0].getType());
  for (ValueRange caches : {ValueRange(getCaches()), ValueRange(getResults())})
    for (Value other : caches)
      if (other.getType() != cache)
        return emitOpError("expects caches of ")
               << cache << ", but got " << other.getType();
  // (C2)
  int64_t width = cache.getHeads() * cache.getDim();
  for (ValueRange list : {ValueRange(getKeys()), ValueRange(getValues())})
    for (Value value : list)
      if (columns(value) != width ||
          tensorType(value).getElementType() != cache.getElementType())
        return emitOpError("expects keys and values of ")
               << width << " columns of " << cache.getElementType()
               << ", but got " << value.getType();
  // (C3)
  if (static_cast<bool>(getQuery()) != static_cast<bool>(getRotated()) ||
      (getGate() && !getQuery()))
    return emitOpError("expects a query and its results together");
  if (getQuery() && count != 1)
    return emitOpError("expects one cache beside a query, but got ") << count;
  // (C4)
  if (getQuery()) {
    auto rotated = tensorType(getRotated());
    int64_t parts = getGate() ? 2 : 1;
    if (columns(getRotated()) % width != 0 ||
        columns(getQuery()) != parts * columns(getRotated()) ||
        tensorType(getQuery()).getElementType() != rotated.getElementType())
      return emitOpError("expects a rotated query of a multiple of ")
             << width << " columns, and " << parts
             << " times as many in the query, but got " << rotated << " and "
             << getQuery().getType();
    if (getGate() && getGate().getType() != rotated)
      return emitOpError("expects a gate of ")
             << rotated << ", but got " << getGate().getType();
  }
  // (C5)
  SmallVector<Value> norms(getKeyNorms());
  if (getQueryNorm())
    norms.push_back(getQueryNorm());
  for (Value norm : norms)
    if (!isVector(norm, cache.getDim()))
      return emitOpError("expects norms of ")
             << cache.getDim() << " entries, but got " << norm.getType();
  // (C6)
  SmallVector<Value> inputs(getKeys());
  llvm::append_range(inputs, getValues());
  if (getQuery())
    llvm::append_range(inputs, ValueRange{getQuery(), getRotated()});
  for (Value value : inputs)
    if (rows(value) != rows(getKeys()[0]))
      return emitOpError("expects operands and results of ")
             << rows(getKeys()[0]) << " rows, but got " << rows(value);
  // (C7)
  auto dims = static_cast<int64_t>(getDims());
  if (dims <= 0 || dims % 2 != 0 || dims > cache.getDim())
    return emitOpError("expects an even number of dims up to ")
           << cache.getDim() << ", but got " << dims;
  if (!getTheta().isFinite() || getTheta().isNegative() || getTheta().isZero())
    return emitOpError("expects a positive theta");
  return success();
}

LogicalResult HeadArgmaxOp::verify() {
  // (C1)
  if (columns(getInput()) != columns(getWeight()))
    return emitOpError("expects a weight of ")
           << columns(getInput()) << " columns, but got "
           << columns(getWeight());
  // (C2)
  if (rows(getResult()) != rows(getInput()))
    return emitOpError("expects one token per row, ")
           << rows(getInput()) << ", but got " << rows(getResult());
  // (C3)
  if ((getSearch() || getRounding()) &&
      !getWeight().getType().getElementType().isBF16())
    return emitOpError("expects a bf16 weight to search in or to round, but "
                       "got ")
           << getWeight().getType();
  if (getSearch() && getRounding())
    return emitOpError("expects either a search or a rounding");
  // (C4)
  if (std::optional<GroupedAttr> rounding = getRounding())
    if (rounding->getBits() != 4 || rounding->getZeroPoints() ||
        rounding->getGroup() % 64 != 0 ||
        columns(getWeight()) % rounding->getGroup() != 0)
      return emitOpError("expects a rounding to 4 bits in groups of a multiple "
                         "of 64 that divide ")
             << columns(getWeight()) << " columns, but got " << *rounding;
  return success();
}
