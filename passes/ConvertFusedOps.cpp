//===- ConvertFusedOps.cpp - LmFusedOps.td to launches --------------------===//

#include "passes/DeltaLayer.h"
#include "passes/FunctionConverter.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using plan::KernelFamily;

/// Emits the norm of the input of `op` as a launch of its own, unless another
/// layer has, and returns the memory of the rows that it makes.
static FailureOr<Value> emitNorm(FunctionConverter &c, lm::FusedLinearOp op) {
  Value input = op.getInput();
  Value &rows = c.normalized[{input, op.getNormWeight(), *op.getNorm()}];
  if (rows)
    return rows;
  int64_t columns = columnsOf(input);
  FailureOr<Value> packed = c.weight(
      op, op.getNormWeight(), plan::VectorAttr::get(op.getContext(), columns));
  if (failed(packed))
    return failure();
  Launch launch{plan::KernelFamily::rms_norm,
                {c.number("columns", columns), c.number("dim", columns),
                 c.real("eps", op.getNorm()->getEps().getValue()),
                 c.real("offset", op.getNorm()->getOffset().getValue())}};
  launch.inputs = {c.memory(input), *packed};
  rows = c.createBuffer(op.getLoc(), tensorType(input).getShape(),
                        tensorType(input).getElementType());
  launch.outputs = {rows};
  launch.rows = rowsOf(input);
  launch.count = c.count(input);
  launch.perRow = true;
  c.emit(op, std::move(launch));
  return rows;
}

static LogicalResult convertFusedLinear(FunctionConverter &c,
                                        lm::FusedLinearOp op) {
  int64_t columns = columnsOf(op.getInput());
  std::optional<lm::GroupedAttr> quantization = op.getQuantization();
  Launch launch{quantization ? KernelFamily::fused_quant_linear
                             : KernelFamily::fused_linear};
  launch.inputs = {c.memory(op.getInput())};
  bool hasNorm = bool(op.getNormWeight());
  if (hasNorm && c.plan.forGpu &&
      rowsOf(op.getInput()) >= plan::kSeparateNormRows) {
    FailureOr<Value> rows = emitNorm(c, op);
    if (failed(rows))
      return failure();
    launch.inputs = {*rows};
    hasNorm = false;
  }

  SmallVector<int64_t> widths;
  for (auto [index, tensor] : llvm::enumerate(op.getWeights())) {
    int64_t outputs = rowsOf(tensor);
    widths.push_back(outputs);
    FailureOr<Value> packed =
        quantization ? c.codeWeight(op, tensor, op.getScales()[index],
                                    *quantization, columns)
                     : c.denseWeight(op, tensor);
    if (failed(packed))
      return failure();
    launch.inputs.push_back(*packed);
    if (index == 0 || !op.getGated())
      launch.items = (index == 0 ? 0 : launch.items) +
                     llvm::divideCeil(outputs, plan::kTile);
  }
  APFloat eps(0.0f), offset(0.0f);
  if (hasNorm) {
    FailureOr<Value> packed =
        c.weight(op, op.getNormWeight(),
                 plan::VectorAttr::get(op.getContext(), columns));
    if (failed(packed))
      return failure();
    launch.inputs.push_back(*packed);
    eps = op.getNorm()->getEps().getValue();
    offset = op.getNorm()->getOffset().getValue();
  }
  if (Value residual = op.getResidual())
    launch.inputs.push_back(c.memory(residual));

  launch.parameters = {
      c.number("columns", columns),
      c.builder.getNamedAttr("widths", c.builder.getDenseI64ArrayAttr(widths)),
      c.number("norm", hasNorm),
      c.real("eps", eps),
      c.real("offset", offset),
      c.number("residual", op.getResidual() ? 1 : 0),
      c.number("gated", op.getGated())};
  if (quantization) {
    llvm::append_range(
        launch.parameters,
        getCodeParameters(c, *quantization,
                          tensorType(op.getScales()[0]).getElementType()));
  } else {
    launch.parameters.push_back(
        c.type("element", tensorType(op.getWeights()[0]).getElementType()));
  }
  for (Value result : op.getResults())
    launch.outputs.push_back(c.createMemory(result));
  launch.rows = rowsOf(op.getInput());
  launch.count = c.count(op.getInput());
  c.emit(op, std::move(launch));
  return success();
}

static LogicalResult convertDeltaInputs(FunctionConverter &c,
                                        lm::DeltaInputsOp op) {
  // The launch of the rule does it.
  if (lm::GatedDeltaOp rule = findRuleThatMakesRows(op);
      rule && rule->hasAttr(lm::LmDialect::kMakesInputsAttrName))
    return success();
  lm::ConvCacheType type = op.getCache().getType();
  int64_t heads = columnsOf(op.getDecay());
  auto vector = plan::VectorAttr::get(op.getContext(), heads);
  FailureOr<Value> taps = c.weight(
      op, op.getWeight(),
      plan::TapsAttr::get(op.getContext(), type.getTaps(), type.getChannels()));
  FailureOr<Value> aLog = c.weight(op, op.getALog(), vector);
  FailureOr<Value> dtBias = c.weight(op, op.getDtBias(), vector);
  FailureOr<Value> cache = c.updateCache(op, op.getCache(), op.getResult());
  if (failed(taps) || failed(aLog) || failed(dtBias) || failed(cache))
    return failure();
  auto keyDim = static_cast<int64_t>(op.getKeyDim());
  int64_t keyHeads = columnsOf(op.getKey()) / keyDim;
  Launch launch{KernelFamily::delta_inputs,
                {c.number("channels", type.getChannels()),
                 c.number("taps", type.getTaps()),
                 c.number("pending", type.getPending()),
                 c.number("commit", op.getCommit()), c.number("heads", heads),
                 c.number("key_heads", keyHeads), c.number("key_dim", keyDim),
                 c.real("eps", op.getEps())}};
  launch.inputs = {c.memory(op.getInput()),
                   c.memory(op.getDecayInput()),
                   c.memory(op.getBetaInput()),
                   *taps,
                   *aLog,
                   *dtBias,
                   c.memory(op.getAccepted())};
  for (Value result :
       {op.getQuery(), op.getKey(), op.getValue(), op.getDecay(), op.getBeta()})
    launch.outputs.push_back(c.createMemory(result));
  launch.outputs.push_back(*cache);
  launch.rows = rowsOf(op.getInput());
  launch.count = op.getCount() ? c.memory(op.getCount()) : Value();
  launch.items = 2 * keyHeads +
                 llvm::divideCeil(columnsOf(op.getValue()), plan::kTile) + 1;
  c.emit(op, std::move(launch));
  return success();
}

static LogicalResult convertAttentionInputs(FunctionConverter &c,
                                            lm::AttentionInputsOp op) {
  if (!c.plan.forGpu)
    return op.emitOpError("has no kernel on a processor");
  auto type = cast<lm::KvCacheType>(op.getCaches()[0].getType());
  auto vector = plan::VectorAttr::get(op.getContext(), type.getDim());
  auto slots =
      static_cast<int64_t>(llvm::alignTo(type.getSlots(), plan::kTile));
  int64_t queryHeads =
      op.getRotated() ? columnsOf(op.getRotated()) / type.getDim() : 0;
  Launch launch{
      KernelFamily::attention_inputs,
      {c.number("caches", static_cast<int64_t>(op.getCaches().size())),
       c.number("heads", type.getHeads()), c.number("dim", type.getDim()),
       c.number("slots", slots), c.number("query_heads", queryHeads),
       c.number("gated", op.getGate() ? 1 : 0),
       c.number("dims", static_cast<int64_t>(op.getDims())),
       c.number("positions", c.positions),
       c.real("eps", op.getNorm().getEps().getValue()),
       c.real("offset", op.getNorm().getOffset().getValue())}};
  if (op.getQuery()) {
    FailureOr<Value> norm = c.weight(op, op.getQueryNorm(), vector);
    if (failed(norm))
      return failure();
    launch.inputs = {c.memory(op.getQuery()), *norm};
    launch.outputs.push_back(c.createMemory(op.getRotated()));
    if (op.getGate())
      launch.outputs.push_back(c.createMemory(op.getGate()));
  }
  for (ValueRange list : {ValueRange(op.getKeys()), ValueRange(op.getValues())})
    for (Value value : list)
      launch.inputs.push_back(c.memory(value));
  for (Value weight : op.getKeyNorms()) {
    FailureOr<Value> norm = c.weight(op, weight, vector);
    if (failed(norm))
      return failure();
    launch.inputs.push_back(*norm);
  }
  launch.inputs.push_back(c.memory(op.getStart()));
  launch.inputs.push_back(c.ropeTable(op, op.getDims(), op.getTheta()));
  for (auto [cache, result] :
       llvm::zip_equal(op.getCaches(), op.getResults())) {
    FailureOr<Value> place = c.updateCache(op, cache, result);
    if (failed(place))
      return failure();
    launch.outputs.push_back(*place);
  }
  launch.rows = rowsOf(op.getKeys()[0]);
  launch.count = op.getCount() ? c.memory(op.getCount()) : Value();
  launch.perRow = true;
  c.emit(op, std::move(launch));
  return success();
}

/// Three launches: where the largest logit may be, the logits there, the
/// largest of those.
static LogicalResult convertHeadSearch(FunctionConverter &c,
                                       lm::HeadArgmaxOp op) {
  auto type = tensorType(op.getWeight());
  int64_t outputs = type.getDimSize(0), columns = type.getDimSize(1);
  MLIRContext *context = op.getContext();
  FailureOr<Value> weight = c.denseWeight(op, op.getWeight());
  FailureOr<Value> codes = c.weight(
      op, op.getWeight(),
      plan::SearchCodesAttr::get(context, outputs, columns, c.plan.forGpu));
  FailureOr<Value> scales =
      c.weight(op, op.getWeight(),
               plan::SearchScalesAttr::get(context, outputs, columns));
  FailureOr<Value> errors =
      c.weight(op, op.getWeight(),
               plan::SearchErrorsAttr::get(context, outputs, columns));
  if (failed(weight) || failed(codes) || failed(scales) || failed(errors))
    return failure();
  int64_t rows = rowsOf(op.getInput());
  auto tiles = static_cast<int64_t>(llvm::divideCeil(outputs, plan::kTile));
  int64_t parts = plan::getHeadParts(outputs, c.plan.forGpu);
  Type f32 = c.builder.getF32Type(), i32 = c.builder.getI32Type();
  auto create = [&](int64_t width, Type element) {
    return c.createBuffer(op.getLoc(), {rows, width}, element);
  };
  Value above = create(tiles, f32), below = create(parts, f32);
  Value logits = create(parts, f32), tokens = create(parts, i32),
        settled = create(parts, i32);

  Launch search{KernelFamily::head_search,
                {c.number("outputs", outputs), c.number("columns", columns)}};
  search.inputs = {c.memory(op.getInput()), *codes, *scales, *errors};
  search.outputs = {above, below};
  search.rows = rows;
  search.count = c.count(op.getInput());
  search.items = parts;

  Launch settle{KernelFamily::head_settle,
                {c.number("outputs", outputs), c.number("columns", columns),
                 c.type("element", type.getElementType())}};
  settle.inputs = {c.memory(op.getInput()), *weight, above, below};
  settle.outputs = {logits, tokens, settled};
  settle.rows = rows;
  settle.count = search.count;
  settle.items = parts;

  FailureOr<Value> counts = c.plan.getPort(
      op.getLoc(), c.builder.getStringAttr(plan::kHeadCountsPort),
      RankedTensorType::get({plan::kHeadCounts}, i32));
  if (failed(counts))
    return failure();
  Launch largest{KernelFamily::settled_argmax,
                 {c.number("parts", parts), c.number("tiles", tiles)}};
  largest.inputs = {logits, tokens, settled};
  largest.outputs = {c.createMemory(op.getResult()), *counts};
  largest.rows = rows;
  largest.count = search.count;
  largest.perRow = true;
  c.emit(op, std::move(search));
  c.emit(op, std::move(settle));
  c.emit(op, std::move(largest));
  return success();
}

/// Two launches: \p head, the largest logit of every part of the vocabulary,
/// and the largest of those. The weight is the second operand.
static void emitHeadArgmax(FunctionConverter &c, lm::HeadArgmaxOp op,
                           Launch head, Value weight) {
  int64_t rows = rowsOf(op.getInput());
  auto parts = static_cast<int64_t>(
      llvm::divideCeil(rowsOf(op.getWeight()), plan::kHeadPart));
  Value logits =
      c.createBuffer(op.getLoc(), {rows, parts}, c.builder.getF32Type());
  Value tokens =
      c.createBuffer(op.getLoc(), {rows, parts}, c.builder.getI32Type());
  head.inputs = {c.memory(op.getInput()), weight};
  head.outputs = {logits, tokens};
  head.rows = rows;
  head.count = c.count(op.getInput());
  head.items = parts;

  Launch largest{KernelFamily::argmax_parts, {c.number("parts", parts)}};
  largest.inputs = {logits, tokens};
  largest.outputs = {c.createMemory(op.getResult())};
  largest.rows = rows;
  largest.count = head.count;
  largest.perRow = true;
  c.emit(op, std::move(head));
  c.emit(op, std::move(largest));
}

static LogicalResult convertRoundedHead(FunctionConverter &c,
                                        lm::HeadArgmaxOp op) {
  MLIRContext *context = op.getContext();
  int64_t columns = columnsOf(op.getInput()), outputs = rowsOf(op.getWeight());
  auto group = static_cast<int64_t>(op.getRounding()->getGroup());
  plan::PackingAttrInterface packing;
  if (c.plan.forGpu)
    packing = plan::RoundedRowsAttr::get(context, outputs, columns, group);
  else
    packing = plan::RoundedCodesAttr::get(context, outputs, columns, group);
  FailureOr<Value> weight = c.weight(op, op.getWeight(), packing);
  if (failed(weight))
    return failure();
  Launch head{KernelFamily::head_draft,
              {c.number("outputs", outputs), c.number("columns", columns),
               c.number("group", group)}};
  if (!c.plan.forGpu) {
    head.family = KernelFamily::quant_head_argmax;
    head.parameters.push_back(c.number("bits", 4));
    head.parameters.push_back(c.type("scale", c.builder.getBF16Type()));
    emitHeadArgmax(c, op, std::move(head), *weight);
    return success();
  }
  head.inputs = {c.memory(op.getInput()), *weight};
  head.outputs = {c.createMemory(op.getResult())};
  head.rows = rowsOf(op.getInput());
  head.count = c.count(op.getInput());
  c.emit(op, std::move(head));
  return success();
}

static LogicalResult convertHeadArgmax(FunctionConverter &c,
                                       lm::HeadArgmaxOp op) {
  if (op.getSearch())
    return convertHeadSearch(c, op);
  if (op.getRounding())
    return convertRoundedHead(c, op);
  auto type = tensorType(op.getWeight());
  FailureOr<Value> packed = c.denseWeight(op, op.getWeight());
  if (failed(packed))
    return failure();
  emitHeadArgmax(c, op,
                 {KernelFamily::head_argmax,
                  {c.number("outputs", type.getDimSize(0)),
                   c.number("columns", type.getDimSize(1)),
                   c.type("element", type.getElementType())}},
                 *packed);
  return success();
}

static LogicalResult convertSelectTokens(FunctionConverter &c,
                                         lm::SelectTokensOp op) {
  Launch launch{KernelFamily::select_tokens,
                {c.number("entries", op.getSet().size())}};
  launch.inputs = {c.memory(op.getPlaces()),
                   c.plan.getTokenTable(op.getLoc(), op.getSet())};
  launch.outputs = {c.createMemory(op.getResult())};
  launch.rows = tensorType(op.getPlaces()).getDimSize(0);
  launch.count = c.count(op.getPlaces());
  launch.perRow = true;
  c.emit(op, std::move(launch));
  return success();
}

static LogicalResult convertLastPosition(FunctionConverter &c,
                                         lm::LastPositionOp op) {
  Launch launch{KernelFamily::last_position};
  launch.inputs = {c.memory(op.getStart()), c.memory(op.getCount())};
  launch.outputs = {c.createMemory(op.getResult())};
  c.emit(op, std::move(launch));
  return success();
}

ConversionResult tandem::convertFusedOp(FunctionConverter &c, Operation *op) {
  return llvm::TypeSwitch<Operation *, ConversionResult>(op)
      .Case([&](lm::FusedLinearOp op) { return convertFusedLinear(c, op); })
      .Case([&](lm::DeltaInputsOp op) { return convertDeltaInputs(c, op); })
      .Case([&](lm::AttentionInputsOp op) {
        return convertAttentionInputs(c, op);
      })
      .Case([&](lm::HeadArgmaxOp op) { return convertHeadArgmax(c, op); })
      .Case([&](lm::SelectTokensOp op) { return convertSelectTokens(c, op); })
      .Case([&](lm::LastPositionOp op) { return convertLastPosition(c, op); })
      .Default([](Operation *) { return std::nullopt; });
}
