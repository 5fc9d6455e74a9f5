//===- PlanOps.cpp - Verifiers and folds of PlanOps.td --------------------===//
//
// The number of a constraint in the op's description stands beside its check.
//
//===----------------------------------------------------------------------===//

#include "dialects/plan/PlanOps.h"
#include "dialects/plan/CodePacking.h"
#include "dialects/plan/KernelFamilies.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem::plan;

/// Offsets of ports, states and buffers are multiples of 64 bytes, a cache
/// line and the widest vector.
static LogicalResult verifyOffset(Operation *op,
                                  std::optional<uint64_t> offset) {
  if (!offset)
    return success();
  auto value = static_cast<int64_t>(*offset);
  if (value < 0 || value > kMaxElements || value % 64 != 0)
    return op->emitOpError("expects an offset that is a multiple of 64 up to "
                           "2^48, but got ")
           << value;
  return success();
}

LogicalResult PortOp::verify() {
  // (C1)
  return verifyOffset(*this, getOffset());
}

LogicalResult StateOp::verify() {
  // (C1)
  static constexpr StringRef kinds[] = {"key_value", "window", "conv", "delta"};
  if (!llvm::is_contained(kinds, getKind()))
    return emitOpError(
               "expects kind key_value, window, conv or delta, but got ")
           << getKind();
  // (C2)
  return verifyOffset(*this, getOffset());
}

/// Outputs of a packing whose source is one matrix.
static std::optional<int64_t> getMatrixOutputs(PackingAttrInterface packing) {
  return llvm::TypeSwitch<Attribute, std::optional<int64_t>>(packing)
      .Case<InterleavedAttr, RowsAttr, SearchCodesAttr, SearchScalesAttr,
            SearchErrorsAttr, RoundedRowsAttr, RoundedCodesAttr>(
          [](auto matrix) { return matrix.getOutputs(); })
      .Default([](Attribute) { return std::nullopt; });
}

LogicalResult WeightOp::verify() {
  // (C1)
  auto type = cast<MemRefType>(getResult().getType());
  int64_t size = getPacking().getSizeInBytes();
  if (type.getRank() != 1 || !type.getElementType().isInteger(8) ||
      type.getDimSize(0) != size)
    return emitOpError("expects memory of type memref<")
           << size << "xi8>, but got " << type;
  // (C2)
  std::optional<lm::SourceAttr> repack = getRepack();
  int64_t sources = getPacking().getSourceCount();
  if (repack && repack->getZeroPoints())
    ++sources;
  if (static_cast<int64_t>(getSources().size()) != sources)
    return emitOpError("expects ")
           << sources << " sources, but got " << getSources().size();
  // (C4)
  if (lm::TokenSetAttr tokens = getRowsAttr())
    if (std::optional<int64_t> outputs = getMatrixOutputs(getPacking());
        repack || outputs != tokens.size())
      return emitOpError("expects a packing of ")
             << tokens.size() << " rows of a matrix, but got " << getPacking();
  // (C3)
  if (!repack)
    return success();
  InterleavedCodesAttr packing = getCodesOf(getPacking());
  if (!packing)
    return emitOpError("expects a packing of codes for what is repacked, but "
                       "got ")
           << getPacking();
  lm::GroupedAttr grouped = repack->getGrouped(packing.getFloatCodes());
  if (packing.getColumns() != repack->getColumns() ||
      packing.getBits() != grouped.getBits() ||
      packing.getGroup() != grouped.getGroup() ||
      packing.getZeroPoints() != grouped.getZeroPoints())
    return emitOpError("expects the packing to be for ")
           << *repack << ", but got " << getPacking();
  return success();
}

LogicalResult BufferOp::verify() {
  // (C1)
  return verifyOffset(*this, getOffset());
}

LogicalResult BufferOp::canonicalize(BufferOp op, PatternRewriter &rewriter) {
  if (!op->use_empty())
    return rewriter.notifyMatchFailure(op, "is used");
  rewriter.eraseOp(op);
  return success();
}

/// Whether `value` is what a kernel's parameter `name` has to be.
static bool fitsParameter(StringRef name, Attribute value) {
  if (name == "activations" || name == "element" || name == "result" ||
      name == "scale") {
    auto type = dyn_cast<TypeAttr>(value);
    return type && isa<Float32Type, BFloat16Type, Float16Type>(type.getValue());
  }
  if (name == "arithmetic") {
    auto type = dyn_cast<TypeAttr>(value);
    return type && (isa<Float32Type, BFloat16Type>(type.getValue()) ||
                    type.getValue().isSignlessInteger(8));
  }
  if (name == "eps" || name == "next_offset" || name == "norm_eps" ||
      name == "offset" || name == "scale_by") {
    auto number = dyn_cast<FloatAttr>(value);
    return number && number.getType().isF32() && number.getValue().isFinite();
  }
  // Sizes are positive; numbers that say "none" or "the first" may be zero.
  bool mayBeZero = name == "causal" || name == "commit" || name == "first" ||
                   name == "mask_token" || name == "window" || name == "norm" ||
                   name == "residual" || name == "gated" ||
                   name == "query_heads" || name == "normed" || name == "saves";
  auto fitsSize = [&](int64_t size) {
    return size >= (mayBeZero ? 0 : 1) && size <= INT32_MAX;
  };
  if (name == "widths") {
    auto widths = dyn_cast<DenseI64ArrayAttr>(value);
    return widths && !widths.empty() &&
           llvm::all_of(widths.asArrayRef(), fitsSize);
  }
  auto number = dyn_cast<IntegerAttr>(value);
  return number && number.getType().isInteger(64) && fitsSize(number.getInt());
}

LogicalResult KernelOp::verify() {
  // (C1)
  const KernelSignature &signature = getKernelSignature(getFamily());
  ArrayRef<StringLiteral> expected = signature.parameters;
  DictionaryAttr given = getParameters();
  for (StringRef name : expected)
    if (!given.contains(name))
      return emitOpError("expects the parameter ")
             << name << " of " << stringifyKernelFamily(getFamily());
  for (NamedAttribute parameter : given)
    if (!llvm::is_contained(expected, parameter.getName().strref()) &&
        !llvm::is_contained(signature.optionalParameters,
                            parameter.getName().strref()))
      return emitOpError() << stringifyKernelFamily(getFamily())
                           << " has no parameter " << parameter.getName();
  // (C2)
  for (NamedAttribute parameter : given)
    if (!fitsParameter(parameter.getName(), parameter.getValue()))
      return emitOpError("expects another value of parameter ")
             << parameter.getName() << ", but got " << parameter.getValue();
  return success();
}

LogicalResult ProgramOp::verify() {
  // (C1)
  for (Value operand : getOperands())
    if (!operand.getDefiningOp<PortOp>())
      return emitOpError("expects ports as inputs and outputs, but got ")
             << operand;
  // (C2)
  if (getBody().getNumArguments() != 0)
    return emitOpError("expects a body without arguments, but got ")
           << getBody().getNumArguments();
  for (Operation &op : getBody().front())
    if (!isa<BufferOp, LaunchOp>(op))
      return emitOpError("expects buffers and launches only, but got ")
             << op.getName();
  return success();
}

LogicalResult LaunchOp::verify() {
  // (C3)
  if (getRows() - 1 >= INT32_MAX || getItems() - 1 >= INT32_MAX)
    return emitOpError("expects rows and items between 1 and 2^31 - 1, but "
                       "got ")
           << static_cast<int64_t>(getRows()) << " and "
           << static_cast<int64_t>(getItems());
  // (C4)
  if (Value count = getCount()) {
    auto type = cast<MemRefType>(count.getType());
    if (type.getShape() != ArrayRef<int64_t>{1} ||
        !type.getElementType().isInteger(32))
      return emitOpError("expects a count of type memref<1xi32>, but got ")
             << type;
  }
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // (C1)
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(
      (*this)->getParentOp(), getKernelAttr());
  if (!kernel)
    return emitOpError("expects a kernel of the module, but got ")
           << getKernelAttr();
  // (C2)
  const KernelSignature &signature = getKernelSignature(kernel.getFamily());
  auto check = [&](StringRef what, int expected, size_t got) -> LogicalResult {
    if (expected == kVariadic ? got > 0 : got == static_cast<size_t>(expected))
      return success();
    InFlightDiagnostic diagnostic = emitOpError("expects ");
    if (expected == kVariadic)
      diagnostic << "at least one";
    else
      diagnostic << expected;
    return diagnostic << " " << what << " of "
                      << stringifyKernelFamily(kernel.getFamily())
                      << ", but got " << got;
  };
  if (failed(check("inputs", signature.inputs, getInputs().size())))
    return failure();
  return check("outputs", signature.outputs, getOutputs().size());
}

/// A copy onto itself does nothing.
LogicalResult LaunchOp::canonicalize(LaunchOp op, PatternRewriter &rewriter) {
  auto kernel =
      SymbolTable::lookupNearestSymbolFrom<KernelOp>(op, op.getKernelAttr());
  if (!kernel || kernel.getFamily() != KernelFamily::copy ||
      op.getInputs()[0] != op.getOutputs()[0])
    return rewriter.notifyMatchFailure(op, "is no copy onto itself");
  rewriter.eraseOp(op);
  return success();
}

LogicalResult LoopOp::verify() {
  // (C2)
  for (uint64_t size : {getBlock(), getChunk(), getScoreChunk(),
                        getMaxContext(), getVocabulary()})
    if (size - 1 >= INT32_MAX)
      return emitOpError("expects sizes between 1 and 2^31 - 1, but got ")
             << static_cast<int64_t>(size);
  // (C3)
  if (getShortPrefill().has_value() != getShortChunk().has_value())
    return emitOpError("expects short_prefill and short_chunk together");
  if (getShortChunk() &&
      (*getShortChunk() < 1 || *getShortChunk() >= getChunk()))
    return emitOpError("expects a short_chunk from 1 to below the chunk, ")
           << getChunk() << ", but got " << *getShortChunk();
  return success();
}

LogicalResult LoopOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // (C1)
  for (NamedAttribute attribute : (*this)->getAttrs()) {
    auto program = dyn_cast<FlatSymbolRefAttr>(attribute.getValue());
    if (!program)
      continue;
    // Before convert-lm-to-plan the programs are functions.
    Operation *symbol = symbols.lookupNearestSymbolFrom(*this, program);
    if (!isa_and_nonnull<ProgramOp, FunctionOpInterface>(symbol))
      return emitOpError("expects ")
             << attribute.getName() << " to be a program, but got " << program;
  }
  return success();
}

#define GET_OP_CLASSES
#include "dialects/plan/PlanOps.cpp.inc"
