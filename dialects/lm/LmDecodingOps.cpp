//===- LmDecodingOps.cpp - Verifiers of LmDecodingOps.td ------------------===//
//
// The number of a constraint in the op's description stands beside its check.
//
//===----------------------------------------------------------------------===//

#include "dialects/lm/LmOps.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace tandem::lm;

static int64_t rows(Value value) {
  return cast<RankedTensorType>(value.getType()).getDimSize(0);
}

LogicalResult ArgmaxOp::verify() {
  // (C1)
  if (rows(getResult()) != rows(getLogits()))
    return emitOpError("expects one token per row, ")
           << rows(getLogits()) << ", but got " << rows(getResult());
  return success();
}

static LogicalResult verifyMaskToken(Operation *op, uint32_t bits) {
  auto token = static_cast<int32_t>(bits);
  if (token < 0)
    return op->emitOpError(
               "expects a mask token that is not negative, but got ")
           << token;
  return success();
}

LogicalResult DenoiseOp::verify() {
  int64_t size = getSize(), steps = getSteps();
  // (C1)
  if (size < 2)
    return emitOpError("expects a size of at least 2, but got ") << size;
  if (steps < 1 || steps > size - 1)
    return emitOpError("expects between 1 and ")
           << size - 1 << " steps, but got " << steps;
  // (C2)
  if (rows(getBlock()) != size)
    return emitOpError("expects a block of ")
           << size << " tokens, but got " << rows(getBlock());
  if (rows(getLogits()) != size - 1)
    return emitOpError("expects logits of ")
           << size - 1 << " rows, but got " << rows(getLogits());
  // (C4)
  if (getCaches().getTypes() != getNewCaches().getTypes())
    return emitOpError("expects caches to keep their types");
  // (C5)
  return verifyMaskToken(*this, getMaskToken());
}

LogicalResult DenoiseOp::verifyRegions() {
  // (C3)
  Block &body = getBody().front();
  SmallVector<Type> arguments = {getBlock().getType()};
  llvm::append_range(arguments, getCaches().getTypes());
  if (body.getArgumentTypes() != TypeRange(arguments))
    return emitOpError("expects a body that takes the block and the caches");
  SmallVector<Type> yielded = {getLogits().getType()};
  llvm::append_range(yielded, getCaches().getTypes());
  if (body.getTerminator()->getOperandTypes() != TypeRange(yielded))
    return emitOpError("expects a body that yields the logits and the caches");
  return success();
}

LogicalResult MaskBlockOp::verify() {
  // (C1)
  return verifyMaskToken(*this, getMaskToken());
}

LogicalResult UnmaskOp::verify() {
  // (C1)
  if (rows(getLogits()) != rows(getBlock()) - 1)
    return emitOpError("expects logits of ")
           << rows(getBlock()) - 1 << " rows, but got " << rows(getLogits());
  // (C2)
  if (static_cast<int64_t>(getFill()) <= 0)
    return emitOpError("expects to fill at least one slot, but got ")
           << static_cast<int64_t>(getFill());
  // (C3)
  return verifyMaskToken(*this, getMaskToken());
}

LogicalResult ConcatTokensOp::verify() {
  // (C1)
  int64_t sum = rows(getLhs()) + rows(getRhs());
  if (rows(getResult()) != sum)
    return emitOpError("expects ")
           << sum << " tokens, but got " << rows(getResult());
  return success();
}

LogicalResult SpeculateOp::verify() {
  // (C2)
  int present = llvm::count_if(
      ArrayRef<FlatSymbolRefAttr>{getContextAttr(), getDraftAttr(),
                                  getVerifyAttr(), getAcceptAttr()},
      [](FlatSymbolRefAttr program) { return program != nullptr; });
  int64_t block = getBlock();
  if (present != 0 && present != 4)
    return emitOpError("expects context, draft, verify and accept together, "
                       "but got ")
           << present << " of them";
  if (present == 4 ? block < 2 : block != 1)
    return emitOpError("expects a block of ")
           << (present ? "at least 2" : "1 without a drafter") << ", but got "
           << block;
  // (C3)
  for (uint64_t size : {getBlock(), getChunk(), getScoreChunk(),
                        getMaxContext(), getVocabulary()})
    if (!areSaneSizes(static_cast<int64_t>(size)))
      return emitOpError("expects sizes between 1 and 2^24, but got ")
             << static_cast<int64_t>(size);
  // (C4)
  for (int32_t token : getStopTokens())
    if (token < 0 || token >= static_cast<int64_t>(getVocabulary()))
      return emitOpError("expects stop tokens below ")
             << getVocabulary() << ", but got " << token;
  // (C5)
  bool logits = getPrefillLogits().has_value();
  if (getStepLogits().has_value() != logits)
    return emitOpError("expects prefill_logits and step_logits together");
  if (getVerifyLogits().has_value() != (logits && present == 4))
    return emitOpError("expects verify_logits ")
           << (logits && present == 4
                   ? "with prefill_logits and a drafter"
                   : "only with prefill_logits and a drafter");
  // (C6)
  bool isShort = getShortPrefill().has_value();
  if (getShortChunk().has_value() != isShort)
    return emitOpError("expects short_prefill and short_chunk together");
  if (isShort && (*getShortChunk() < 1 || *getShortChunk() >= getChunk()))
    return emitOpError("expects a short_chunk from 1 to below the chunk, ")
           << getChunk() << ", but got " << *getShortChunk();
  if (getShortContext().has_value() != (isShort && present == 4))
    return emitOpError("expects short_context ")
           << (isShort && present == 4
                   ? "with short_prefill and a drafter"
                   : "only with short_prefill and a drafter");
  if (getShortPrefillLogits().has_value() != (isShort && logits))
    return emitOpError("expects short_prefill_logits ")
           << (isShort && logits
                   ? "with short_prefill and prefill_logits"
                   : "only with short_prefill and prefill_logits");
  return success();
}

LogicalResult SpeculateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // (C1)
  for (NamedAttribute attribute : (*this)->getAttrs()) {
    auto program = dyn_cast<FlatSymbolRefAttr>(attribute.getValue());
    if (program &&
        !symbols.lookupNearestSymbolFrom<FunctionOpInterface>(*this, program))
      return emitOpError("expects ")
             << attribute.getName() << " to be a function, but got " << program;
  }
  return success();
}

#define GET_OP_CLASSES
#include "dialects/lm/LmOps.cpp.inc"
