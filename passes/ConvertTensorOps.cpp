//===- ConvertTensorOps.cpp - LmTensorOps.td to launches ----------------===//

#include "passes/FunctionConverter.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using plan::KernelFamily;

FailureOr<Value> FunctionConverter::denseWeight(Operation *user, Value tensor) {
  auto type = tensorType(tensor);
  int64_t outputs = type.getDimSize(0), columns = type.getDimSize(1);
  Type element = type.getElementType();
  if (plan.forGpu)
    return weight(
        user, tensor,
        plan::RowsAttr::get(type.getContext(), outputs, columns, element));
  return weight(
      user, tensor,
      plan::InterleavedAttr::get(type.getContext(), outputs, columns, element));
}

FailureOr<Value> FunctionConverter::codeWeight(Operation *user, Value codes,
                                               Value scales,
                                               lm::GroupedAttr quantization,
                                               int64_t columns) {
  MLIRContext *context = quantization.getContext();
  int64_t outputs = rowsOf(codes), bits = quantization.getBits(),
          group = quantization.getGroup();
  Type scale = tensorType(scales).getElementType();
  if (!plan.forGpu)
    return weight(
        user, {codes, scales},
        plan::InterleavedCodesAttr::get(context, outputs, columns, bits, group,
                                        scale, quantization.getZeroPoints(),
                                        quantization.getFloatCodes()));
  return weight(user, {codes, scales},
                plan::FragmentCodesAttr::get(context, outputs, columns, bits,
                                             group, scale,
                                             quantization.getZeroPoints(),
                                             quantization.getFloatCodes()));
}

SmallVector<NamedAttribute>
tandem::getCodeParameters(FunctionConverter &c, lm::GroupedAttr quantization,
                          Type scale) {
  SmallVector<NamedAttribute> parameters = {
      c.number("bits", quantization.getBits()),
      c.number("group", quantization.getGroup()), c.type("scale", scale)};
  if (quantization.getZeroPoints())
    parameters.push_back(c.number("zero_points", 1));
  if (quantization.getFloatCodes())
    parameters.push_back(c.number("float_codes", 1));
  return parameters;
}

static LogicalResult convertLinear(FunctionConverter &c, Operation *op,
                                   Value input, Value result,
                                   KernelFamily family, FailureOr<Value> packed,
                                   SmallVector<NamedAttribute> parameters) {
  if (failed(packed))
    return failure();
  int64_t outputs = columnsOf(result);
  parameters.push_back(c.number("outputs", outputs));
  parameters.push_back(c.number("columns", columnsOf(input)));
  Launch launch{family, std::move(parameters)};
  launch.inputs = {c.memory(input), *packed};
  launch.outputs = {c.createMemory(result)};
  launch.rows = rowsOf(input);
  launch.count = c.count(input);
  launch.items = llvm::divideCeil(outputs, plan::kTile);
  c.emit(op, std::move(launch));
  return success();
}

static LogicalResult convertNorm(FunctionConverter &c, Operation *op,
                                 ValueRange inputs, Value weight,
                                 KernelFamily family,
                                 SmallVector<NamedAttribute> parameters) {
  int64_t dim = tensorType(weight).getDimSize(0);
  FailureOr<Value> packed =
      c.weight(op, weight, plan::VectorAttr::get(op->getContext(), dim));
  if (failed(packed))
    return failure();
  parameters.push_back(c.number("columns", columnsOf(inputs[0])));
  parameters.push_back(c.number("dim", dim));
  Launch launch{family, std::move(parameters)};
  for (Value input : inputs)
    launch.inputs.push_back(c.memory(input));
  launch.inputs.push_back(*packed);
  launch.outputs = {c.createMemory(op->getResult(0))};
  launch.rows = rowsOf(inputs[0]);
  launch.count = c.count(inputs[0]);
  launch.perRow = true;
  c.emit(op, std::move(launch));
  return success();
}

static LogicalResult convertElementwise(FunctionConverter &c, Operation *op,
                                        KernelFamily family) {
  Launch launch{family, {c.number("columns", columnsOf(op->getOperand(0)))}};
  for (Value operand : op->getOperands()) {
    launch.inputs.push_back(c.memory(operand));
    if (!launch.count)
      launch.count = c.count(operand);
  }
  launch.outputs = {c.createMemory(op->getResult(0))};
  launch.rows = rowsOf(op->getOperand(0));
  launch.perRow = true;
  c.emit(op, std::move(launch));
  return success();
}

static LogicalResult convertEmbed(FunctionConverter &c, lm::EmbedOp op) {
  auto table = tensorType(op.getTable());
  FailureOr<Value> packed = c.denseWeight(op, op.getTable());
  if (failed(packed))
    return failure();
  Launch launch{KernelFamily::embed,
                {c.number("columns", table.getDimSize(1)),
                 c.number("vocabulary", table.getDimSize(0)),
                 c.type("element", table.getElementType()),
                 c.real("scale_by", op.getScale())}};
  launch.inputs = {c.memory(op.getTokens()), *packed};
  launch.outputs = {c.createMemory(op.getResult())};
  launch.rows = rowsOf(op.getTokens());
  launch.count = c.count(op.getTokens());
  launch.perRow = true;
  c.emit(op, std::move(launch));
  return success();
}

ConversionResult tandem::convertTensorOp(FunctionConverter &c, Operation *op) {
  return llvm::TypeSwitch<Operation *, ConversionResult>(op)
      .Case([&](lm::LiveRowsOp liveRows) {
        c.alias(liveRows.getResult(), liveRows.getInput());
        c.setCount(liveRows.getResult(), c.memory(liveRows.getCount()));
        return success();
      })
      .Case([&](lm::LastRowOp last) {
        Launch launch{KernelFamily::last_row,
                      {c.number("columns", columnsOf(last.getInput()))}};
        launch.inputs = {c.memory(last.getInput()), c.memory(last.getCount())};
        launch.outputs = {c.createMemory(last.getResult())};
        launch.rows = rowsOf(last.getInput());
        c.emit(op, std::move(launch));
        return success();
      })
      .Case([&](lm::DropRowsOp drop) {
        Launch launch{KernelFamily::drop_rows,
                      {c.number("columns", columnsOf(drop.getInput())),
                       c.number("first", drop.getFirst())}};
        launch.inputs = {c.memory(drop.getInput())};
        launch.outputs = {c.createMemory(drop.getResult())};
        launch.rows = rowsOf(drop.getResult());
        launch.perRow = true;
        c.emit(op, std::move(launch));
        return success();
      })
      .Case([&](lm::SplitOp split) {
        SmallVector<int64_t> widths;
        Launch launch{KernelFamily::split, {}};
        launch.inputs = {c.memory(split.getInput())};
        for (Value part : split.getParts()) {
          widths.push_back(columnsOf(part));
          launch.outputs.push_back(c.createMemory(part));
        }
        launch.parameters = {
            c.number("groups", split.getGroups()),
            c.builder.getNamedAttr("widths",
                                   c.builder.getDenseI64ArrayAttr(widths))};
        launch.rows = rowsOf(split.getInput());
        launch.count = c.count(split.getInput());
        launch.perRow = true;
        c.emit(op, std::move(launch));
        return success();
      })
      .Case([&](lm::ConcatFeaturesOp concat) {
        SmallVector<int64_t> widths;
        Launch launch{KernelFamily::concat_features, {}};
        for (Value input : concat.getInputs()) {
          widths.push_back(columnsOf(input));
          launch.inputs.push_back(c.memory(input));
          if (!launch.count)
            launch.count = c.count(input);
        }
        launch.parameters = {c.builder.getNamedAttr(
            "widths", c.builder.getDenseI64ArrayAttr(widths))};
        launch.outputs = {c.createMemory(concat.getResult())};
        launch.rows = rowsOf(concat.getResult());
        launch.perRow = true;
        c.emit(op, std::move(launch));
        return success();
      })
      .Case([&](lm::EmbedOp embed) { return convertEmbed(c, embed); })
      .Case([&](lm::LinearOp op) {
        auto type = tensorType(op.getWeight());
        return convertLinear(c, op, op.getInput(), op.getResult(),
                             KernelFamily::linear,
                             c.denseWeight(op, op.getWeight()),
                             {c.type("element", type.getElementType())});
      })
      .Case([&](lm::QuantLinearOp op) {
        Type scale = tensorType(op.getScales()).getElementType();
        return convertLinear(
            c, op, op.getInput(), op.getResult(), KernelFamily::quant_linear,
            c.codeWeight(op, op.getCodes(), op.getScales(),
                         op.getQuantization(), columnsOf(op.getInput())),
            getCodeParameters(c, op.getQuantization(), scale));
      })
      .Case([&](lm::RmsNormOp op) {
        return convertNorm(
            c, op, op.getInput(), op.getWeight(), KernelFamily::rms_norm,
            {c.real("eps", op.getEps()), c.real("offset", op.getOffset())});
      })
      .Case([&](lm::GatedRmsNormOp op) {
        return convertNorm(c, op, {op.getInput(), op.getGate()}, op.getWeight(),
                           KernelFamily::gated_rms_norm,
                           {c.real("eps", op.getEps())});
      })
      .Case([&](lm::L2NormOp op) {
        Launch launch{KernelFamily::l2_norm,
                      {c.number("columns", columnsOf(op.getInput())),
                       c.number("dim", op.getDim()),
                       c.real("eps", op.getEps())}};
        launch.inputs = {c.memory(op.getInput())};
        launch.outputs = {c.createMemory(op.getResult())};
        launch.rows = rowsOf(op.getInput());
        launch.count = c.count(op.getInput());
        launch.perRow = true;
        c.emit(op, std::move(launch));
        return success();
      })
      .Case([&](lm::SiluOp op) {
        return convertElementwise(c, op, KernelFamily::silu);
      })
      .Case([&](lm::SigmoidOp op) {
        return convertElementwise(c, op, KernelFamily::sigmoid);
      })
      .Case([&](lm::AddOp op) {
        return convertElementwise(c, op, KernelFamily::add);
      })
      .Case([&](lm::MulOp op) {
        return convertElementwise(c, op, KernelFamily::mul);
      })
      .Default([](Operation *) { return std::nullopt; });
}
