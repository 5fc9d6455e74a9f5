//===- PlanDialect.cpp - Registration and attributes ----------------------===//

#include "dialects/plan/PlanDialect.h"
#include "dialects/plan/KernelFamilies.h"
#include "dialects/plan/PlanOps.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem::plan;

#include "dialects/plan/PlanDialect.cpp.inc"
#include "dialects/plan/PlanEnums.cpp.inc"

#include "dialects/plan/PlanInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanAttrs.cpp.inc"

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/plan/PlanAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/plan/PlanOps.cpp.inc"
      >();
}

LogicalResult PlanDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == kArchAttrName) {
    if (!isa<StringAttr>(attribute.getValue()))
      return op->emitError()
             << "expects '" << name << "' to be a name, but got "
             << attribute.getValue();
    return success();
  }
  if (name == kArenaSizeAttrName || name == kStateSizeAttrName ||
      name == kPortSizeAttrName) {
    auto size = dyn_cast<IntegerAttr>(attribute.getValue());
    if (!size || !size.getType().isInteger(64) || size.getInt() < 0)
      return op->emitError()
             << "expects '" << name << "' to be a number of bytes, but got "
             << attribute.getValue();
    return success();
  }
  return op->emitError() << "does not know the attribute '" << name << "'";
}

bool tandem::plan::isGpu(StringRef arch) { return arch.starts_with("sm_"); }

bool tandem::plan::hasClusters(StringRef arch) {
  return arch.starts_with("sm_9");
}

bool tandem::plan::isPlainMemory(MemRefType type) {
  int64_t elements = 1;
  for (int64_t size : type.getShape()) {
    if (size <= 0 || elements > kMaxElements / size)
      return false;
    elements *= size;
  }
  return type.getLayout().isIdentity() && !type.getMemorySpace();
}

//===----------------------------------------------------------------------===//
// Packings
//===----------------------------------------------------------------------===//

/// Expects all `sizes` to be positive and small enough for their products to
/// be computed in 64 bits.
static LogicalResult verifySizes(function_ref<InFlightDiagnostic()> emitError,
                                 std::initializer_list<int64_t> sizes) {
  for (int64_t size : sizes)
    if (size <= 0 || size > (int64_t(1) << 24))
      return emitError() << "expects sizes between 1 and 2^24, but got "
                         << size;
  return success();
}

static LogicalResult verifyFloat(function_ref<InFlightDiagnostic()> emitError,
                                 Type type) {
  if (!type.isF32() && !type.isBF16() && !type.isF16())
    return emitError() << "expects f32, bf16 or f16, but got " << type;
  return success();
}

LogicalResult
InterleavedAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                        int64_t outputs, int64_t columns, Type element) {
  return success(succeeded(verifySizes(emitError, {outputs, columns})) &&
                 succeeded(verifyFloat(emitError, element)));
}

int64_t InterleavedAttr::getSizeInBytes() const {
  return static_cast<int64_t>(llvm::alignTo(getOutputs(), kTile)) *
         getColumns() * (getElement().getIntOrFloatBitWidth() / 8);
}

int64_t InterleavedAttr::getSourceCount() const { return 1; }

LogicalResult
InterleavedCodesAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                             int64_t outputs, int64_t columns, int64_t bits,
                             int64_t group, Type scale, bool zeroPoints,
                             bool floatCodes) {
  if (floatCodes && (bits != 8 || zeroPoints))
    return emitError()
           << "expects float codes of 8 bits and without zero points";
  if (failed(verifySizes(emitError, {outputs, columns, group})) ||
      failed(verifyFloat(emitError, scale)))
    return failure();
  if (bits != 4 && bits != 8)
    return emitError() << "expects 4 or 8 bits, but got " << bits;
  if (columns % group != 0)
    return emitError() << "expects a group that divides " << columns
                       << " columns, but got " << group;
  return success();
}

int64_t InterleavedCodesAttr::getScaleBytes() const {
  return kTile * getScalesPerGroup() * (getScale().getIntOrFloatBitWidth() / 8);
}

int64_t InterleavedCodesAttr::getGroupBytes() const {
  return getScaleBytes() + kTile * getWordsPerGroup() * 4;
}

int64_t InterleavedCodesAttr::getSizeInBytes() const {
  return llvm::divideCeil(getOutputs(), kTile) * getTileBytes();
}

int64_t InterleavedCodesAttr::getSourceCount() const { return 2; }

LogicalResult RowsAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t outputs, int64_t columns, Type element) {
  return success(succeeded(verifySizes(emitError, {outputs, columns})) &&
                 succeeded(verifyFloat(emitError, element)));
}

int64_t RowsAttr::getRowBytes() const {
  return static_cast<int64_t>(llvm::alignTo(
      getColumns() * (getElement().getIntOrFloatBitWidth() / 8), 16));
}

int64_t RowsAttr::getSizeInBytes() const {
  return getOutputs() * getRowBytes();
}

int64_t RowsAttr::getSourceCount() const { return 1; }

LogicalResult
FragmentCodesAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                          int64_t outputs, int64_t columns, int64_t bits,
                          int64_t group, Type scale, bool zeroPoints,
                          bool floatCodes) {
  return InterleavedCodesAttr::verify(emitError, outputs, columns, bits, group,
                                      scale, zeroPoints, floatCodes);
}

/// Steps of the largest unit.
static constexpr int64_t kUnitSteps = 8;

int64_t FragmentCodesAttr::getUnitSteps() const {
  if (kUnitSteps % getGroupSteps() == 0)
    return kUnitSteps;
  int64_t steps = kUnitSteps;
  while (getGroupSteps() % steps != 0)
    --steps;
  return steps;
}

int64_t FragmentCodesAttr::getUnitGroups() const {
  return std::max<int64_t>(getUnitSteps() / getGroupSteps(), 1);
}

int64_t FragmentCodesAttr::getUnits() const {
  int64_t steps = getColumns() / getGroup() * getGroupSteps();
  return static_cast<int64_t>(llvm::divideCeil(steps, getUnitSteps()));
}

int64_t FragmentCodesAttr::getScaleBytes() const {
  return kTile * getScalesPerGroup() * getUnitGroups() *
         (getScale().getIntOrFloatBitWidth() / 8);
}

int64_t FragmentCodesAttr::getSizeInBytes() const {
  return static_cast<int64_t>(llvm::divideCeil(getOutputs(), kTile)) *
         getUnits() * getUnitBytes();
}

int64_t FragmentCodesAttr::getSourceCount() const { return 2; }

LogicalResult
SearchCodesAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                        int64_t outputs, int64_t columns, bool) {
  if (failed(verifySizes(emitError, {outputs, columns})))
    return failure();
  // Sums of products of a byte with one of 8 and with one of 16 bits are exact.
  if (columns > kMaxSearchColumns)
    return emitError() << "expects up to " << kMaxSearchColumns
                       << " columns, but got " << columns;
  return success();
}

int64_t SearchCodesAttr::getSizeInBytes() const {
  return static_cast<int64_t>(llvm::divideCeil(getOutputs(), kTile)) *
         getTileBytes();
}

int64_t SearchCodesAttr::getSourceCount() const { return 1; }

/// Bytes of an f32 for every output of whole tiles.
static int64_t getRowNumberBytes(int64_t outputs) {
  return static_cast<int64_t>(llvm::alignTo(outputs, kTile)) * 4;
}

LogicalResult
SearchScalesAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                         int64_t outputs, int64_t columns) {
  return SearchCodesAttr::verify(emitError, outputs, columns, false);
}

int64_t SearchScalesAttr::getSizeInBytes() const {
  return getRowNumberBytes(getOutputs());
}

int64_t SearchScalesAttr::getSourceCount() const { return 1; }

LogicalResult
SearchErrorsAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                         int64_t outputs, int64_t columns) {
  return SearchCodesAttr::verify(emitError, outputs, columns, false);
}

int64_t SearchErrorsAttr::getSizeInBytes() const {
  return getRowNumberBytes(getOutputs());
}

int64_t SearchErrorsAttr::getSourceCount() const { return 1; }

LogicalResult
RoundedRowsAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                        int64_t outputs, int64_t columns, int64_t group) {
  if (failed(verifySizes(emitError, {outputs, columns, group})))
    return failure();
  if (columns % group != 0 || group % 64 != 0)
    return emitError() << "expects groups of a multiple of 64 that divide "
                       << columns << " columns, but got " << group;
  return success();
}

int64_t RoundedRowsAttr::getSizeInBytes() const {
  return static_cast<int64_t>(llvm::divideCeil(getOutputs(), kTile)) *
         getTileBytes();
}

int64_t RoundedRowsAttr::getSourceCount() const { return 1; }

LogicalResult
RoundedCodesAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                         int64_t outputs, int64_t columns, int64_t group) {
  if (failed(verifySizes(emitError, {outputs, columns, group})))
    return failure();
  if (columns % group != 0)
    return emitError() << "expects groups that divide " << columns
                       << " columns, but got " << group;
  return success();
}

InterleavedCodesAttr RoundedCodesAttr::getCodes() const {
  return InterleavedCodesAttr::get(getContext(), getOutputs(), getColumns(),
                                   /*bits=*/4, getGroup(),
                                   BFloat16Type::get(getContext()));
}

int64_t RoundedCodesAttr::getSizeInBytes() const {
  return getCodes().getSizeInBytes();
}

int64_t RoundedCodesAttr::getSourceCount() const { return 1; }

LogicalResult
TokenTableAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                       lm::TokenSetAttr set) {
  return success();
}

int64_t TokenTableAttr::getSizeInBytes() const { return getSet().size() * 4; }

int64_t TokenTableAttr::getSourceCount() const { return 0; }

LogicalResult VectorAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 int64_t length) {
  return verifySizes(emitError, {length});
}

int64_t VectorAttr::getSizeInBytes() const { return getLength() * 4; }

int64_t VectorAttr::getSourceCount() const { return 1; }

LogicalResult TapsAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t taps, int64_t channels) {
  return verifySizes(emitError, {taps, channels});
}

int64_t TapsAttr::getSizeInBytes() const {
  return getTaps() * getChannels() * 4;
}

int64_t TapsAttr::getSourceCount() const { return 1; }

LogicalResult
RopeTableAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                      int64_t positions, int64_t dims, FloatAttr theta) {
  if (failed(verifySizes(emitError, {positions, dims})))
    return failure();
  if (dims % 2 != 0)
    return emitError() << "expects an even number of dims, but got " << dims;
  if (!theta.getType().isF64() || !theta.getValue().isFinite() ||
      !(theta.getValueAsDouble() > 0))
    return emitError() << "expects a positive f64 theta, but got " << theta;
  return success();
}

int64_t RopeTableAttr::getSizeInBytes() const {
  return getPositions() * getDims() * 4;
}

int64_t RopeTableAttr::getSourceCount() const { return 0; }
