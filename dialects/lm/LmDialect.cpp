//===- LmDialect.cpp - Registration, attributes and types -----------------===//

#include "dialects/lm/LmDialect.h"
#include "dialects/lm/LmOps.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace tandem::lm;

#include "dialects/lm/LmDialect.cpp.inc"
#include "dialects/lm/LmEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/lm/LmAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/lm/LmTypes.cpp.inc"

void LmDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/lm/LmAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/lm/LmTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/lm/LmOps.cpp.inc"
      >();
}

bool tandem::lm::areSaneSizes(ArrayRef<int64_t> sizes) {
  int64_t elements = 1;
  for (int64_t size : sizes) {
    if (size <= 0 || size > kMaxSize || elements > kMaxElements / size)
      return false;
    elements *= size;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Attributes of functions and modules
//===----------------------------------------------------------------------===//

LogicalResult LmDialect::verifyOperationAttribute(Operation *op,
                                                  NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == kCheckpointsAttrName) {
    auto dictionary = dyn_cast<DictionaryAttr>(attribute.getValue());
    if (!dictionary || llvm::any_of(dictionary, [](NamedAttribute entry) {
          return !isa<StringAttr>(entry.getValue());
        }))
      return op->emitError() << "expects '" << kCheckpointsAttrName
                             << "' to be a dictionary of directory names, but "
                                "got "
                             << attribute.getValue();
    return success();
  }
  if (name == kFactsAttrName) {
    if (!isa<DictionaryAttr>(attribute.getValue()))
      return op->emitError()
             << "expects '" << kFactsAttrName
             << "' to be a dictionary, but got " << attribute.getValue();
    return success();
  }
  if (name == kMakesInputsAttrName) {
    if (!isa<GatedDeltaOp>(op) || !isa<UnitAttr>(attribute.getValue()))
      return op->emitError() << "expects '" << kMakesInputsAttrName
                             << "' to be a unit attribute of a "
                                "'lm.gated_delta', but got "
                             << attribute.getValue();
    return success();
  }
  return op->emitError() << "does not know the attribute '" << name << "'";
}

/// Checks `lm.port` and `lm.state` of an argument or a result of type `type`.
static LogicalResult verifyInterfaceAttribute(Operation *op, StringRef what,
                                              unsigned index, Type type,
                                              NamedAttribute attribute) {
  auto emit = [&] { return op->emitError() << what << " " << index << " "; };
  StringRef name = attribute.getName();
  bool isCache = isa<KvCacheType, ConvCacheType, DeltaCacheType>(type);
  if (name != LmDialect::kPortAttrName && name != LmDialect::kStateAttrName)
    return emit() << "does not know the attribute '" << name << "'";
  auto text = dyn_cast<StringAttr>(attribute.getValue());
  if (!text || text.empty())
    return emit() << "expects '" << name << "' to be a name, but got "
                  << attribute.getValue();
  if (isCache != (name == LmDialect::kStateAttrName))
    return emit() << "of type " << type << " expects '"
                  << (isCache ? LmDialect::kStateAttrName
                              : LmDialect::kPortAttrName)
                  << "', but got '" << name << "'";
  return success();
}

LogicalResult LmDialect::verifyRegionArgAttribute(Operation *op,
                                                  unsigned regionIndex,
                                                  unsigned index,
                                                  NamedAttribute attribute) {
  // MLIR calls this for functions only.
  auto function = cast<FunctionOpInterface>(op);
  return verifyInterfaceAttribute(
      op, "argument", index, function.getArgumentTypes()[index], attribute);
}

LogicalResult LmDialect::verifyRegionResultAttribute(Operation *op,
                                                     unsigned regionIndex,
                                                     unsigned index,
                                                     NamedAttribute attribute) {
  // MLIR calls this for functions only.
  auto function = cast<FunctionOpInterface>(op);
  return verifyInterfaceAttribute(op, "result", index,
                                  function.getResultTypes()[index], attribute);
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

LogicalResult GroupedAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  int64_t bits, int64_t group, bool zeroPoints,
                                  bool floatCodes) {
  if (bits != 4 && bits != 8)
    return emitError() << "expects 4 or 8 bits, but got " << bits;
  if (!areSaneSizes(group))
    return emitError() << "expects a group between 1 and 2^24, but got "
                       << group;
  if (floatCodes && (bits != 8 || zeroPoints))
    return emitError()
           << "expects float codes of 8 bits and without zero points";
  return success();
}

LogicalResult TokenSetAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   ArrayRef<int32_t> tokens) {
  if (tokens.empty() || tokens.front() < 0)
    return emitError() << "expects ids from 0 on";
  for (auto [before, token] : llvm::zip(tokens, tokens.drop_front()))
    if (token <= before)
      return emitError() << "expects ids that ascend, but got " << token
                         << " behind " << before;
  return success();
}

LogicalResult SourceAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 PackOrder order, int64_t bits, int64_t columns,
                                 int64_t group, int64_t blockRows,
                                 bool zeroPoints, int64_t zeroOffset) {
  if (bits != 4 && bits != 8)
    return emitError() << "expects 4 or 8 bits, but got " << bits;
  for (int64_t size : {columns, group, blockRows})
    if (!areSaneSizes(size))
      return emitError() << "expects sizes between 1 and 2^24, but got "
                         << size;
  if (order == PackOrder::interleaved && bits != 4)
    return emitError() << "expects 4 bits when interleaved, but got " << bits;
  if (zeroOffset != 0 && zeroOffset != 1)
    return emitError() << "expects a zero_offset of 0 or 1, but got "
                       << zeroOffset;
  if (zeroPoints && blockRows != 1)
    return emitError() << "expects zero points for every row, but got blocks "
                          "of "
                       << blockRows << " rows";
  return success();
}

std::array<int64_t, 2> SourceAttr::getCodesShape(int64_t rows,
                                                 bool floatCodes) const {
  int64_t perWord = 32 / getBits();
  if (floatCodes)
    return {rows, getColumns()};
  switch (getOrder()) {
  case PackOrder::by_row:
    return {rows, llvm::divideCeilSigned(getColumns(), perWord)};
  case PackOrder::by_column:
    return {getColumns() / perWord, rows};
  case PackOrder::interleaved:
    return {getColumns(), rows / perWord};
  }
  llvm_unreachable("all orders are handled");
}

std::array<int64_t, 2> SourceAttr::getScalesShape(int64_t rows) const {
  int64_t blocks = llvm::divideCeilSigned(rows, getBlockRows());
  int64_t groups = llvm::divideCeilSigned(getColumns(), getGroup());
  if (getOrder() == PackOrder::by_row)
    return {blocks, groups};
  return {groups, blocks};
}

std::array<int64_t, 2> SourceAttr::getZerosShape(int64_t rows) const {
  int64_t words = llvm::divideCeilSigned(rows, 32 / getBits());
  int64_t groups = llvm::divideCeilSigned(getColumns(), getGroup());
  if (getOrder() == PackOrder::by_row)
    return {words, groups};
  return {groups, words};
}

GroupedAttr SourceAttr::getGrouped(bool floatCodes) const {
  return GroupedAttr::get(getContext(), getBits(),
                          std::gcd(getGroup(), getColumns()), getZeroPoints(),
                          floatCodes);
}

LogicalResult NormAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               FloatAttr eps, FloatAttr offset) {
  if (!eps.getType().isF32() || !offset.getType().isF32())
    return emitError() << "expects eps and offset in f32, but got " << eps
                       << " and " << offset;
  if (eps.getValue().isNegative() || !eps.getValue().isFinite() ||
      !offset.getValue().isFinite())
    return emitError() << "expects a finite norm, but got " << eps << " and "
                       << offset;
  return success();
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

LogicalResult KvCacheType::verify(function_ref<InFlightDiagnostic()> emitError,
                                  int64_t slots, int64_t heads, int64_t dim,
                                  Type elementType, bool ring) {
  if (!areSaneSizes({slots, heads, dim}))
    return emitError() << "expects slots, heads and dimension between 1 and "
                          "2^24, but got "
                       << slots << ", " << heads << " and " << dim;
  if (!elementType.isF32() && !elementType.isBF16())
    return emitError() << "expects f32 or bf16 elements, but got "
                       << elementType;
  return success();
}

Type KvCacheType::parse(AsmParser &parser) {
  if (parser.parseLess())
    return {};
  bool ring = succeeded(parser.parseOptionalKeyword("ring"));
  SmallVector<int64_t> shape;
  Type elementType;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseDimensionList(shape, /*allowDynamic=*/false) ||
      parser.parseType(elementType) || parser.parseGreater())
    return {};
  if (shape.size() != 3) {
    parser.emitError(location) << "expects slots x heads x dimension, but got "
                               << shape.size() << " sizes";
    return {};
  }
  return parser.getChecked<KvCacheType>(location, parser.getContext(), shape[0],
                                        shape[1], shape[2], elementType, ring);
}

void KvCacheType::print(AsmPrinter &printer) const {
  printer << "<" << (getRing() ? "ring " : "") << getSlots() << "x"
          << getHeads() << "x" << getDim() << "x" << getElementType() << ">";
}

LogicalResult
ConvCacheType::verify(function_ref<InFlightDiagnostic()> emitError,
                      int64_t taps, int64_t channels, int64_t pending) {
  if (taps < 2 || !areSaneSizes({taps, channels, pending}))
    return emitError() << "expects at least 2 taps, and channels and pending "
                          "rows between 1 and 2^24, but got "
                       << taps << ", " << channels << " and " << pending;
  return success();
}

LogicalResult
DeltaCacheType::verify(function_ref<InFlightDiagnostic()> emitError,
                       int64_t heads, int64_t keyHeads, int64_t keyDim,
                       int64_t valueDim, int64_t pending) {
  if (!areSaneSizes({heads, keyDim, valueDim}) ||
      !areSaneSizes({pending, heads, valueDim}) ||
      !areSaneSizes({pending, keyHeads, keyDim}))
    return emitError() << "expects sizes between 1 and 2^24, but got " << heads
                       << ", " << keyHeads << ", " << keyDim << ", " << valueDim
                       << " and " << pending;
  if (heads % keyHeads != 0)
    return emitError() << "expects key heads that divide the " << heads
                       << " heads, but got " << keyHeads;
  return success();
}
