//===- LmTensorOps.cpp - Verifiers of LmTensorOps.td ----------------------===//
//
// The number of a constraint in the op's description stands beside its check.
//
//===----------------------------------------------------------------------===//

#include "dialects/lm/LmOps.h"
#include "dialects/lm/LmVerify.h"

using namespace mlir;
using namespace tandem::lm;

/// (C2) to (C4) of lm.dequant and lm.quant_linear: codes and scales describe
/// rows of `columns` values.
LogicalResult tandem::lm::verifyCodes(Operation *op, Value codes, Value scales,
                                      GroupedAttr quantization,
                                      int64_t columnCount) {
  int64_t group = quantization.getGroup();
  // (C2)
  if (columnCount % group != 0)
    return op->emitOpError("expects a group that divides ")
           << columnCount << " columns, but got " << group;
  // (C3)
  int64_t words = quantization.getWordsPerRow(columnCount);
  if (columns(codes) != words)
    return op->emitOpError("expects ")
           << words << " words of codes per row, but got " << columns(codes);
  // (C4)
  int64_t perRow = quantization.getScalesPerRow(columnCount);
  if (columns(scales) != perRow)
    return op->emitOpError("expects ")
           << perRow
           << (quantization.getZeroPoints() ? " scales and zeros" : " scales")
           << " per row, but got " << columns(scales);
  return success();
}

LogicalResult DequantOp::verify() {
  // (C1)
  if (rows(getCodes()) != rows(getResult()) ||
      rows(getScales()) != rows(getResult()))
    return emitOpError("expects codes and scales of ")
           << rows(getResult()) << " rows, but got " << rows(getCodes())
           << " and " << rows(getScales());
  return verifyCodes(*this, getCodes(), getScales(), getQuantization(),
                     columns(getResult()));
}

LogicalResult SelectRowsOp::verify() {
  RankedTensorType weight = tensorType(getWeight()),
                   result = tensorType(getResult());
  // (C1)
  if (getSet().getTokens().back() >= weight.getDimSize(0))
    return emitOpError("expects tokens below ")
           << weight.getDimSize(0) << ", but got "
           << getSet().getTokens().back();
  // (C2)
  auto expected = RankedTensorType::get({getSet().size(), weight.getDimSize(1)},
                                        weight.getElementType());
  if (result != expected)
    return emitOpError("expects a result of type ")
           << expected << ", but got " << result;
  return success();
}

LogicalResult RepackOp::verify() {
  SourceAttr source = getSource();
  int64_t rowCount = rows(getNewCodes());
  bool floatCodes = !tensorType(getCodes()).getElementType().isInteger();
  // (C4)
  if (floatCodes && (source.getOrder() != PackOrder::by_row ||
                     source.getBits() != 8 || source.getZeroPoints()))
    return emitOpError("expects float codes by_row, of 8 bits and without zero "
                       "points, but got ")
           << source;
  // (C5)
  int64_t perWord = 32 / source.getBits();
  if (source.getOrder() != PackOrder::by_row &&
      (source.getColumns() % perWord != 0 || rowCount % perWord != 0))
    return emitOpError("expects rows and columns that are multiples of ")
           << perWord << ", but got " << rowCount << " and "
           << source.getColumns();
  // (C2)
  if (source.getZeroPoints() != static_cast<bool>(getZeros()))
    return emitOpError("expects zero points iff the source has them");
  // (C1)
  auto verifyShape = [&](Value tensor, std::array<int64_t, 2> expected,
                         StringRef what) -> LogicalResult {
    ArrayRef<int64_t> shape = tensorType(tensor).getShape();
    bool isOne = shape.size() == 1 && shape[0] == 1 && expected[0] == 1 &&
                 expected[1] == 1;
    if (shape == ArrayRef<int64_t>(expected) || isOne)
      return success();
    return emitOpError("expects ")
           << what << " of " << expected[0] << " x " << expected[1]
           << ", but got " << tensor.getType();
  };
  if (failed(verifyShape(getCodes(), source.getCodesShape(rowCount, floatCodes),
                         "codes")) ||
      failed(
          verifyShape(getScales(), source.getScalesShape(rowCount), "scales")))
    return failure();
  if (getZeros() &&
      failed(verifyShape(getZeros(), source.getZerosShape(rowCount), "zeros")))
    return failure();
  // (C3)
  if (tensorType(getNewScales()).getElementType() !=
          tensorType(getScales()).getElementType() ||
      rows(getNewScales()) != rowCount)
    return emitOpError("expects ")
           << rowCount << " rows of scales of the type they have, but got "
           << getNewScales().getType();
  return verifyCodes(*this, getNewCodes(), getNewScales(),
                     source.getGrouped(floatCodes), source.getColumns());
}

LogicalResult EmbedOp::verify() {
  // (C1)
  if (rows(getResult()) != rows(getTokens()))
    return emitOpError("expects one row per token, ")
           << rows(getTokens()) << ", but got " << rows(getResult());
  // (C2)
  if (columns(getResult()) != columns(getTable()))
    return emitOpError("expects the ")
           << columns(getTable()) << " columns of the table, but got "
           << columns(getResult());
  return success();
}

LogicalResult LinearOp::verify() {
  // (C1)
  if (columns(getInput()) != columns(getWeight()))
    return emitOpError("expects a weight of ")
           << columns(getInput()) << " columns, but got "
           << columns(getWeight());
  // (C2)
  if (rows(getResult()) != rows(getInput()) ||
      columns(getResult()) != rows(getWeight()))
    return emitOpError("expects a result of ")
           << rows(getInput()) << " x " << rows(getWeight()) << ", but got "
           << rows(getResult()) << " x " << columns(getResult());
  return success();
}

LogicalResult QuantLinearOp::verify() {
  // (C1)
  if (rows(getCodes()) != columns(getResult()) ||
      rows(getScales()) != columns(getResult()))
    return emitOpError("expects codes and scales of ")
           << columns(getResult()) << " rows, but got " << rows(getCodes())
           << " and " << rows(getScales());
  // (C5)
  if (rows(getInput()) != rows(getResult()))
    return emitOpError("expects a result of ")
           << rows(getInput()) << " rows, but got " << rows(getResult());
  return verifyCodes(*this, getCodes(), getScales(), getQuantization(),
                     columns(getInput()));
}

/// (C1) and (C2) of the norms with a weight.
static LogicalResult verifyNorm(Operation *op, Value input, Value weight,
                                const APFloat &eps) {
  // (C1)
  auto type = tensorType(weight);
  if (type.getRank() != 1 || columns(input) % type.getDimSize(0) != 0)
    return op->emitOpError("expects a vector of weights whose length divides ")
           << columns(input) << " columns, but got " << type;
  // (C2)
  if (eps.isNegative() || !eps.isFinite())
    return op->emitOpError("expects eps not to be negative");
  return success();
}

LogicalResult RmsNormOp::verify() {
  return verifyNorm(*this, getInput(), getWeight(), getEps());
}

LogicalResult GatedRmsNormOp::verify() {
  return verifyNorm(*this, getInput(), getWeight(), getEps());
}

LogicalResult L2NormOp::verify() {
  int64_t dim = getDim();
  // (C1)
  if (dim <= 0 || columns(getInput()) % dim != 0)
    return emitOpError("expects a dim that divides ")
           << columns(getInput()) << " columns, but got " << dim;
  // (C2)
  if (getEps().isNegative() || !getEps().isFinite())
    return emitOpError("expects eps not to be negative");
  return success();
}

LogicalResult LastRowOp::verify() {
  auto input = tensorType(getInput());
  auto expected =
      RankedTensorType::get({1, input.getDimSize(1)}, input.getElementType());
  // (C1)
  if (getResult().getType() != expected)
    return emitOpError("expects a result of type ")
           << expected << ", but got " << getResult().getType();
  return success();
}

LogicalResult DropRowsOp::verify() {
  auto input = tensorType(getInput());
  int64_t first = getFirst();
  // (C1)
  if (first < 0 || first >= input.getDimSize(0))
    return emitOpError("expects first to leave at least one of ")
           << input.getDimSize(0) << " rows, but got " << first;
  // (C2)
  auto expected =
      RankedTensorType::get({input.getDimSize(0) - first, input.getDimSize(1)},
                            input.getElementType());
  if (getResult().getType() != expected)
    return emitOpError("expects a result of type ")
           << expected << ", but got " << getResult().getType();
  return success();
}

/// Whether all `values` have the rows and the element type of `reference`.
static LogicalResult verifyLikeRows(Operation *op, ValueRange values,
                                    Value reference) {
  for (Value value : values)
    if (rows(value) != rows(reference) ||
        tensorType(value).getElementType() !=
            tensorType(reference).getElementType())
      return op->emitOpError("expects rows and element type of ")
             << reference.getType() << ", but got " << value.getType();
  return success();
}

static int64_t sumOfColumns(ValueRange values) {
  int64_t sum = 0;
  for (Value value : values)
    sum += columns(value);
  return sum;
}

LogicalResult SplitOp::verify() {
  int64_t groups = getGroups();
  // (C1)
  for (Value part : getParts())
    if (groups <= 0 || columns(part) % groups != 0)
      return emitOpError("expects groups that divide the columns of every "
                         "part, but got ")
             << groups << " groups and " << columns(part) << " columns";
  // (C2)
  if (sumOfColumns(getParts()) != columns(getInput()))
    return emitOpError("expects parts of ")
           << columns(getInput()) << " columns together, but got "
           << sumOfColumns(getParts());
  // (C3)
  return verifyLikeRows(*this, getParts(), getInput());
}

LogicalResult ConcatFeaturesOp::verify() {
  // (C1)
  if (getInputs().empty())
    return emitOpError("expects at least one input");
  // (C2)
  if (sumOfColumns(getInputs()) != columns(getResult()))
    return emitOpError("expects a result of ")
           << sumOfColumns(getInputs()) << " columns, but got "
           << columns(getResult());
  // (C3)
  return verifyLikeRows(*this, getInputs(), getResult());
}
