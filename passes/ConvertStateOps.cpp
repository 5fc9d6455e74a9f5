//===- ConvertStateOps.cpp - LmStateOps.td to launches ------------------===//

#include "dialects/plan/SavedRows.h"
#include "passes/DeltaLayer.h"
#include "passes/FunctionConverter.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using plan::KernelFamily;

static LogicalResult convertRope(FunctionConverter &c, lm::RopeOp op) {
  Value table = c.ropeTable(op, op.getDims(), op.getTheta());
  Launch launch{KernelFamily::rope,
                {c.number("columns", columnsOf(op.getInput())),
                 c.number("head_dim", op.getHeadDim()),
                 c.number("dims", op.getDims()),
                 c.number("positions", c.positions)}};
  launch.inputs = {c.memory(op.getInput()), c.memory(op.getStart()), table};
  launch.outputs = {c.createMemory(op.getResult())};
  launch.rows = rowsOf(op.getInput());
  launch.count = c.count(op.getInput());
  launch.perRow = true;
  c.emit(op, std::move(launch));
  return success();
}

static LogicalResult convertCacheAppend(FunctionConverter &c,
                                        lm::CacheAppendOp op) {
  lm::KvCacheType type = op.getCache().getType();
  FailureOr<Value> cache = c.updateCache(op, op.getCache(), op.getResult());
  if (failed(cache))
    return failure();
  Launch launch{KernelFamily::cache_append,
                {c.number("slots", llvm::alignTo(type.getSlots(), plan::kTile)),
                 c.number("heads", type.getHeads()),
                 c.number("dim", type.getDim())}};
  launch.inputs = {c.memory(op.getKeys()), c.memory(op.getValues()),
                   c.memory(op.getStart())};
  launch.outputs = {*cache};
  launch.rows = rowsOf(op.getKeys());
  launch.count = op.getCount() ? c.memory(op.getCount()) : Value();
  launch.items = type.getHeads();
  c.emit(op, std::move(launch));
  return success();
}

static LogicalResult convertAttention(FunctionConverter &c,
                                      lm::AttentionOp op) {
  lm::KvCacheType type = op.getCache().getType();
  int64_t queryHeads = columnsOf(op.getQuery()) / type.getDim();
  Launch launch{
      KernelFamily::attention,
      {c.number("slots", llvm::alignTo(type.getSlots(), plan::kTile)),
       c.number("heads", type.getHeads()), c.number("dim", type.getDim()),
       c.number("query_heads", queryHeads), c.number("causal", op.getCausal()),
       c.number("window", op.getWindow().value_or(0)),
       c.real("scale_by", op.getScale())}};
  launch.inputs = {c.memory(op.getQuery()), c.memory(op.getCache()),
                   c.memory(op.getStart())};
  if (op.getGate()) {
    if (!c.plan.forGpu)
      return op.emitOpError("with a gate has no kernel on a processor");
    launch.parameters.push_back(c.number("gated", 1));
    launch.inputs.push_back(c.memory(op.getGate()));
  }
  launch.outputs = {c.createMemory(op.getResult())};
  launch.rows = rowsOf(op.getQuery());
  launch.count = op.getCount() ? c.memory(op.getCount()) : Value();
  launch.items = queryHeads;
  launch.perRow = true;
  c.emit(op, std::move(launch));
  return success();
}

static LogicalResult convertShortConv(FunctionConverter &c,
                                      lm::ShortConvOp op) {
  lm::ConvCacheType type = op.getCache().getType();
  FailureOr<Value> taps = c.weight(
      op, op.getWeight(),
      plan::TapsAttr::get(op.getContext(), type.getTaps(), type.getChannels()));
  FailureOr<Value> cache = c.updateCache(op, op.getCache(), op.getResult());
  if (failed(taps) || failed(cache))
    return failure();
  Launch launch{KernelFamily::short_conv,
                {c.number("channels", type.getChannels()),
                 c.number("taps", type.getTaps()),
                 c.number("pending", type.getPending()),
                 c.number("commit", op.getCommit())}};
  launch.inputs = {c.memory(op.getInput()), *taps, c.memory(op.getAccepted())};
  launch.outputs = {c.createMemory(op.getOutput()), *cache};
  launch.rows = rowsOf(op.getInput());
  launch.count = op.getCount() ? c.memory(op.getCount()) : Value();
  launch.items = llvm::divideCeil(type.getChannels(), plan::kTile);
  c.emit(op, std::move(launch));
  return success();
}

static LogicalResult convertDeltaGate(FunctionConverter &c,
                                      lm::DeltaGateOp op) {
  int64_t columns = columnsOf(op.getInput());
  auto packing = plan::VectorAttr::get(op.getContext(), columns);
  FailureOr<Value> aLog = c.weight(op, op.getALog(), packing);
  FailureOr<Value> dtBias = c.weight(op, op.getDtBias(), packing);
  if (failed(aLog) || failed(dtBias))
    return failure();
  Launch launch{KernelFamily::delta_gate, {c.number("columns", columns)}};
  launch.inputs = {c.memory(op.getInput()), *aLog, *dtBias};
  launch.outputs = {c.createMemory(op.getResult())};
  launch.rows = rowsOf(op.getInput());
  launch.count = c.count(op.getInput());
  launch.perRow = true;
  c.emit(op, std::move(launch));
  return success();
}

/// Makes \p launch, of a rule that reads what \p op makes, do what \p op does.
static LogicalResult addInputs(FunctionConverter &c, lm::DeltaInputsOp op,
                               Launch &launch) {
  MLIRContext *context = op.getContext();
  lm::ConvCacheType type = op.getCache().getType();
  auto vector = plan::VectorAttr::get(context, columnsOf(op.getDecay()));
  FailureOr<Value> taps = c.weight(
      op, op.getWeight(),
      plan::TapsAttr::get(context, type.getTaps(), type.getChannels()));
  FailureOr<Value> aLog = c.weight(op, op.getALog(), vector);
  FailureOr<Value> dtBias = c.weight(op, op.getDtBias(), vector);
  FailureOr<Value> cache = c.updateCache(op, op.getCache(), op.getResult());
  if (failed(taps) || failed(aLog) || failed(dtBias) || failed(cache))
    return failure();
  launch.parameters.push_back(c.number("channels", type.getChannels()));
  launch.parameters.push_back(c.number("taps", type.getTaps()));
  launch.parameters.push_back(c.real("eps", op.getEps()));
  SmallVector<Value> behind = std::move(launch.inputs);
  launch.inputs = {c.memory(op.getInput()),
                   c.memory(op.getDecayInput()),
                   c.memory(op.getBetaInput()),
                   *taps,
                   *aLog,
                   *dtBias};
  llvm::append_range(launch.inputs, behind);
  launch.outputs.insert(launch.outputs.begin() + 1, *cache);
  return success();
}

static LogicalResult convertGatedDelta(FunctionConverter &c,
                                       lm::GatedDeltaOp op) {
  lm::DeltaCacheType type = op.getCache().getType();
  FailureOr<Value> cache = c.updateCache(op, op.getCache(), op.getResult());
  if (failed(cache))
    return failure();
  SmallVector<NamedAttribute> sizes = {
      c.number("heads", type.getHeads()),
      c.number("key_heads", type.getKeyHeads()),
      c.number("key_dim", type.getKeyDim()),
      c.number("value_dim", type.getValueDim()),
      c.number("pending", type.getPending())};
  Launch launch{KernelFamily::gated_delta, sizes};
  launch.parameters.push_back(c.number("commit", op.getCommit()));
  launch.parameters.push_back(c.real("scale_by", op.getScale()));
  lm::DeltaInputsOp maker;
  if (op->hasAttr(lm::LmDialect::kMakesInputsAttrName)) {
    maker = op.getQuery().getDefiningOp<lm::DeltaInputsOp>();
    if (!maker || findRuleThatMakesRows(maker) != op)
      return op.emitOpError("cannot make what it reads in one launch");
  }
  if (!maker)
    launch.inputs = {c.memory(op.getQuery()), c.memory(op.getKey()),
                     c.memory(op.getValue()), c.memory(op.getDecay()),
                     c.memory(op.getBeta())};
  launch.inputs.push_back(c.memory(op.getAccepted()));
  launch.outputs = {c.createMemory(op.getOutput()), *cache};
  launch.rows = rowsOf(op.getQuery());
  launch.count = op.getCount() ? c.memory(op.getCount()) : Value();
  launch.items =
      type.getHeads() * llvm::divideCeil(type.getValueDim(), plan::kTile);
  // GPUs leave as many rows waiting in the same launch.
  bool saves = c.plan.forGpu && !op.getCommit() &&
               plan::canSaveRows(type.getPending(), type.getKeyDim());
  if (saves)
    launch.parameters.push_back(c.number("saves", 1));
  if (op.getGate()) {
    if (!saves)
      return op.emitOpError("with a norm has a kernel on GPUs alone, for few "
                            "rows and short keys");
    FailureOr<Value> weight =
        c.weight(op, op.getNormWeight(),
                 plan::VectorAttr::get(op.getContext(), type.getValueDim()));
    if (failed(weight))
      return failure();
    launch.parameters.push_back(c.number("normed", 1));
    launch.parameters.push_back(c.real("norm_eps", *op.getNormEps()));
    launch.inputs.push_back(c.memory(op.getGate()));
    launch.inputs.push_back(*weight);
  }
  if (maker) {
    if (failed(addInputs(c, maker, launch)))
      return failure();
    c.emit(op, std::move(launch));
    return success();
  }
  Launch save{KernelFamily::delta_save, sizes};
  save.inputs = {c.memory(op.getKey()), c.memory(op.getValue()),
                 c.memory(op.getDecay()), c.memory(op.getBeta())};
  save.outputs = {*cache};
  save.rows = launch.rows;
  save.count = launch.count;
  save.perRow = true;
  c.emit(op, std::move(launch));
  if (!op.getCommit() && !saves)
    c.emit(op, std::move(save));
  return success();
}

ConversionResult tandem::convertStateOp(FunctionConverter &c, Operation *op) {
  return llvm::TypeSwitch<Operation *, ConversionResult>(op)
      .Case([&](lm::RopeOp op) { return convertRope(c, op); })
      .Case([&](lm::CacheAppendOp op) { return convertCacheAppend(c, op); })
      .Case([&](lm::AttentionOp op) { return convertAttention(c, op); })
      .Case([&](lm::ShortConvOp op) { return convertShortConv(c, op); })
      .Case([&](lm::DeltaGateOp op) { return convertDeltaGate(c, op); })
      .Case([&](lm::GatedDeltaOp op) { return convertGatedDelta(c, op); })
      .Default([](Operation *) { return std::nullopt; });
}
