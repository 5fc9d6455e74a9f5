//===- PlanOps.cpp - Verifiers and folds of PlanOps.td --------------------===//
//
// The number of a constraint in the op's description stands beside its check.
//
//===----------------------------------------------------------------------===//

#include "dialects/plan/PlanOps.h"
#include "dialects/plan/KernelFamilies.h"

using namespace mlir;
using namespace tandem::plan;

/// Offsets of ports, states and buffers are multiples of 64 bytes, a cache
/// line and the widest vector.
static LogicalResult verifyOffset(Operation *op,
                                  std::optional<uint64_t> offset) {
  if (!offset)
    return success();
  auto value = static_cast<int64_t>(*offset);
  if (value < 0 || value % 64 != 0)
    return op->emitOpError("expects an offset that is a multiple of 64, but "
                           "got ")
           << value;
  return success();
}

LogicalResult PortOp::verify() {
  // (C1)
  Type element = cast<MemRefType>(getResult().getType()).getElementType();
  if (!element.isF32() && !element.isBF16() && !element.isF16() &&
      !element.isInteger(32) && !element.isInteger(8))
    return emitOpError("expects elements of f32, bf16, f16, i32 or i8, but "
                       "got ")
           << element;
  // (C2)
  return verifyOffset(*this, getOffset());
}

LogicalResult StateOp::verify() {
  // (C1)
  if (getKind() != "key_value" && getKind() != "conv" && getKind() != "delta")
    return emitOpError("expects kind key_value, conv or delta, but got ")
           << getKind();
  // (C2)
  return verifyOffset(*this, getOffset());
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
  if (static_cast<int64_t>(getSources().size()) !=
      getPacking().getSourceCount())
    return emitOpError("expects ")
           << getPacking().getSourceCount() << " sources, but got "
           << getSources().size();
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

LogicalResult KernelOp::verify() {
  // (C1)
  ArrayRef<StringLiteral> expected = getKernelSignature(getFamily()).parameters;
  DictionaryAttr given = getParameters();
  for (StringRef name : expected)
    if (!given.contains(name))
      return emitOpError("expects the parameter ")
             << name << " of " << stringifyKernelFamily(getFamily());
  for (NamedAttribute parameter : given)
    if (!llvm::is_contained(expected, parameter.getName().strref()))
      return emitOpError() << stringifyKernelFamily(getFamily())
                           << " has no parameter " << parameter.getName();
  for (NamedAttribute parameter : given) {
    StringRef name = parameter.getName();
    Attribute value = parameter.getValue();
    bool fits;
    if (name == "element" || name == "scale")
      fits = isa<TypeAttr>(value);
    else if (name == "eps" || name == "offset" || name == "scale_by")
      fits = isa<FloatAttr>(value) && cast<FloatAttr>(value).getType().isF32();
    else if (name == "widths")
      fits = isa<DenseI64ArrayAttr>(value);
    else
      fits = isa<IntegerAttr>(value) &&
             cast<IntegerAttr>(value).getType().isInteger(64);
    if (!fits)
      return emitOpError("expects another type of parameter ")
             << name << ", but got " << value;
  }
  return success();
}

LogicalResult ProgramOp::verify() {
  // (C1)
  for (Value operand : getOperands())
    if (!operand.getDefiningOp<PortOp>())
      return emitOpError("expects ports as inputs and outputs, but got ")
             << operand;
  // (C2)
  for (Operation &op : getBody().front())
    if (!isa<BufferOp, LaunchOp>(op))
      return emitOpError("expects buffers and launches only, but got ")
             << op.getName();
  return success();
}

LogicalResult LaunchOp::verify() {
  // (C3)
  if (static_cast<int64_t>(getRows()) <= 0 ||
      static_cast<int64_t>(getItems()) <= 0)
    return emitOpError("expects positive rows and items, but got ")
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

LogicalResult LoopOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // (C1)
  for (NamedAttribute attribute : (*this)->getAttrs()) {
    auto program = dyn_cast<FlatSymbolRefAttr>(attribute.getValue());
    if (program && !symbols.lookupNearestSymbolFrom(*this, program))
      return emitOpError("expects ")
             << attribute.getName() << " to be a program, but got " << program;
  }
  return success();
}

#define GET_OP_CLASSES
#include "dialects/plan/PlanOps.cpp.inc"
