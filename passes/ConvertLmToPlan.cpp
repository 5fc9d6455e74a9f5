//===- ConvertLmToPlan.cpp - Tensors to memory, ops to launches -----------===//
//
// One pass over each function, in order. Every tensor gets memory: the port it
// is returned through, the memory of its operand when nothing is computed, or a
// buffer. Every cache is the state of its name, updated in place.
//
//===----------------------------------------------------------------------===//

#include "dialects/lm/LmOps.h"
#include "dialects/plan/KernelFamilies.h"
#include "dialects/plan/PlanOps.h"
#include "passes/Passes.h"
#include "passes/PlanBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

namespace tandem {
#define GEN_PASS_DEF_CONVERTLMTOPLANPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using plan::KernelFamily;

/// Positions of a rope table when no loop says how long a text can get: a
/// function compiled alone.
static constexpr int64_t kDefaultPositions = 4096;

namespace {
/// A launch to be made; see plan.launch.
struct Launch {
  KernelFamily family;
  SmallVector<NamedAttribute> parameters = {};
  SmallVector<Value> inputs = {}, outputs = {};
  int64_t rows = 1;
  Value count = {};
  int64_t items = 1;
  bool perRow = false;
};

/// Converts one function.
class FunctionConverter {
public:
  FunctionConverter(func::FuncOp function, PlanBuilder &plan, int64_t positions)
      : function(function), plan(plan), positions(positions),
        builder(function.getContext()) {}

  LogicalResult convert();

private:
  LogicalResult convertArguments(SmallVectorImpl<Value> &inputs);
  LogicalResult placeResults(SmallVectorImpl<Value> &outputs);
  LogicalResult convertOp(Operation *op);
  LogicalResult convertReturn(func::ReturnOp op);

  LogicalResult convertLinear(Operation *op, Value input, Value result,
                              KernelFamily family,
                              ArrayRef<Value> weightTensors,
                              plan::PackingAttrInterface packing,
                              SmallVector<NamedAttribute> parameters);
  LogicalResult convertNorm(Operation *op, ValueRange inputs, Value weight,
                            KernelFamily family,
                            SmallVector<NamedAttribute> parameters);
  LogicalResult convertElementwise(Operation *op, KernelFamily family);
  LogicalResult convert(lm::EmbedOp op);
  LogicalResult convert(lm::RopeOp op);
  LogicalResult convert(lm::CacheAppendOp op);
  LogicalResult convert(lm::AttentionOp op);
  LogicalResult convert(lm::ShortConvOp op);
  LogicalResult convert(lm::DeltaGateOp op);
  LogicalResult convert(lm::GatedDeltaOp op);
  LogicalResult convertRowOp(Operation *op);
  LogicalResult convertTokenOp(Operation *op);

  /// Memory of `value`, which an op before has made.
  Value memory(Value value) { return memoryOf.lookup(value); }
  /// Memory for the result `value`: its port, or a new buffer.
  Value createMemory(Value value);
  /// The weight tensor `tensor` as `packing`.
  FailureOr<Value> weight(Operation *user, ArrayRef<Value> tensors,
                          plan::PackingAttrInterface packing);
  /// The cache operand that `op` updates: its memory, given to `result` too.
  FailureOr<Value> updateCache(Operation *op, Value cache, Value result);
  /// Emits `launch` for `op`. Results whose rows are dead beyond the count
  /// inherit it.
  void emit(Operation *op, Launch launch);

  NamedAttribute number(StringRef name, int64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  }
  NamedAttribute real(StringRef name, const APFloat &value) {
    return builder.getNamedAttr(
        name, builder.getF32FloatAttr(value.convertToFloat()));
  }
  NamedAttribute type(StringRef name, Type value) {
    return builder.getNamedAttr(name, TypeAttr::get(value));
  }

  func::FuncOp function;
  PlanBuilder &plan;
  int64_t positions;
  OpBuilder builder;
  DenseMap<Value, Value> memoryOf;
  /// Memory of the i32 that counts the live rows of a value, where known.
  DenseMap<Value, Value> countOf;
  /// Ports that results are returned through.
  DenseMap<Value, Value> portOf;
};

RankedTensorType tensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}
int64_t rowsOf(Value value) { return tensorType(value).getDimSize(0); }
int64_t columnsOf(Value value) { return tensorType(value).getDimSize(1); }
} // namespace

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

LogicalResult FunctionConverter::convert() {
  SmallVector<Value> inputs = {}, outputs = {};
  if (failed(convertArguments(inputs)) || failed(placeResults(outputs)))
    return failure();

  builder.setInsertionPoint(function);
  auto program = plan::ProgramOp::create(
      builder, function.getLoc(), function.getSymNameAttr(), inputs, outputs);
  program.getBody().emplaceBlock();
  builder.setInsertionPointToStart(&program.getBody().front());
  for (Operation &op : function.front())
    if (failed(convertOp(&op)))
      return failure();
  function.erase();
  return success();
}

LogicalResult
FunctionConverter::convertArguments(SmallVectorImpl<Value> &inputs) {
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    auto port = function.getArgAttrOfType<StringAttr>(
        index, lm::LmDialect::kPortAttrName);
    auto state = function.getArgAttrOfType<StringAttr>(
        index, lm::LmDialect::kStateAttrName);
    if (!port && !state)
      return function.emitOpError("expects argument ")
             << index << " to be a port or a state";
    FailureOr<Value> place =
        port ? plan.getPort(function.getLoc(), port, tensorType(argument))
             : plan.getState(function.getLoc(), state, argument.getType());
    if (failed(place))
      return failure();
    memoryOf[argument] = *place;
    if (port)
      inputs.push_back(*place);
  }
  return success();
}

/// Whether `op` stands behind every use of the argument whose memory is `port`,
/// so that it may write the port. An op that reads the argument itself may: its
/// kernel reads before it writes when it is `accept`, or would otherwise race.
static bool isLastToUse(func::FuncOp function, Value argument, Operation *op) {
  return llvm::all_of(argument.getUsers(), [&](Operation *user) {
    return user->isBeforeInBlock(op) || (user == op && isa<lm::AcceptOp>(op));
  });
}

LogicalResult FunctionConverter::placeResults(SmallVectorImpl<Value> &outputs) {
  auto terminator = cast<func::ReturnOp>(function.front().getTerminator());
  for (auto [index, value] : llvm::enumerate(terminator.getOperands())) {
    auto name = function.getResultAttrOfType<StringAttr>(
        index, lm::LmDialect::kPortAttrName);
    if (!name) {
      if (!function.getResultAttr(index, lm::LmDialect::kStateAttrName))
        return function.emitOpError("expects result ")
               << index << " to be a port or a state";
      continue;
    }
    FailureOr<Value> port =
        plan.getPort(function.getLoc(), name, tensorType(value));
    if (failed(port))
      return failure();
    outputs.push_back(*port);
    Operation *producer = value.getDefiningOp();
    if (!producer || portOf.contains(value))
      continue;
    bool free = llvm::all_of(function.getArguments(), [&](Value argument) {
      return memory(argument) != *port ||
             isLastToUse(function, argument, producer);
    });
    if (free)
      portOf[value] = *port;
  }
  return success();
}

Value FunctionConverter::createMemory(Value value) {
  Value &place = memoryOf[value];
  if (Value port = portOf.lookup(value)) {
    place = port;
  } else {
    auto type = tensorType(value);
    place = plan::BufferOp::create(
        builder, value.getLoc(),
        MemRefType::get(type.getShape(), type.getElementType()), IntegerAttr());
  }
  return place;
}

FailureOr<Value> FunctionConverter::weight(Operation *user,
                                           ArrayRef<Value> tensors,
                                           plan::PackingAttrInterface packing) {
  SmallVector<lm::WeightOp> sources;
  for (Value tensor : tensors) {
    auto source = tensor.getDefiningOp<lm::WeightOp>();
    if (!source) {
      user->emitOpError("expects its weight to be a tensor of a checkpoint");
      return failure();
    }
    sources.push_back(source);
  }
  return plan.getWeight(user->getLoc(), sources, packing);
}

FailureOr<Value> FunctionConverter::updateCache(Operation *op, Value cache,
                                                Value result) {
  for (Operation *user : cache.getUsers())
    if (op->isBeforeInBlock(user)) {
      user->emitOpError("uses a cache behind the op that updates it");
      return failure();
    }
  return memoryOf[result] = memory(cache);
}

void FunctionConverter::emit(Operation *op, Launch launch) {
  auto kernel =
      plan.getKernel(op->getLoc(), launch.family,
                     DictionaryAttr::get(op->getContext(), launch.parameters));
  plan::LaunchOp::create(builder, op->getLoc(), kernel, launch.inputs,
                         launch.outputs, builder.getI64IntegerAttr(launch.rows),
                         launch.count, builder.getI64IntegerAttr(launch.items),
                         launch.perRow ? builder.getUnitAttr() : UnitAttr());
  if (!launch.count)
    return;
  for (Value result : op->getResults())
    if (auto type = dyn_cast<RankedTensorType>(result.getType());
        type && type.getDimSize(0) == launch.rows)
      countOf[result] = launch.count;
}

LogicalResult FunctionConverter::convertReturn(func::ReturnOp op) {
  for (auto [index, value] : llvm::enumerate(op.getOperands())) {
    if (auto name = function.getResultAttrOfType<StringAttr>(
            index, lm::LmDialect::kStateAttrName)) {
      FailureOr<Value> state =
          plan.getState(op.getLoc(), name, value.getType());
      if (failed(state))
        return failure();
      if (memory(value) != *state)
        return op.emitOpError("returns another cache as the state '")
               << name.getValue() << "'";
      continue;
    }
    auto name = function.getResultAttrOfType<StringAttr>(
        index, lm::LmDialect::kPortAttrName);
    auto type = tensorType(value);
    FailureOr<Value> port = plan.getPort(op.getLoc(), name, type);
    if (failed(port))
      return failure();
    if (memory(value) == *port)
      continue;
    int64_t bytes = type.getNumElements() *
                    (type.getElementType().getIntOrFloatBitWidth() / 8);
    Launch launch{KernelFamily::copy, {number("bytes", bytes)}};
    launch.inputs = {memory(value)};
    launch.outputs = {*port};
    emit(op, std::move(launch));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult FunctionConverter::convertLinear(
    Operation *op, Value input, Value result, KernelFamily family,
    ArrayRef<Value> weightTensors, plan::PackingAttrInterface packing,
    SmallVector<NamedAttribute> parameters) {
  FailureOr<Value> packed = weight(op, weightTensors, packing);
  if (failed(packed))
    return failure();
  int64_t outputs = columnsOf(result);
  parameters.push_back(number("outputs", outputs));
  parameters.push_back(number("columns", columnsOf(input)));
  Launch launch{family, std::move(parameters)};
  launch.inputs = {memory(input), *packed};
  launch.outputs = {createMemory(result)};
  launch.rows = rowsOf(input);
  launch.count = countOf.lookup(input);
  launch.items = llvm::divideCeil(outputs, plan::kTile);
  emit(op, std::move(launch));
  return success();
}

LogicalResult
FunctionConverter::convertNorm(Operation *op, ValueRange inputs, Value weight,
                               KernelFamily family,
                               SmallVector<NamedAttribute> parameters) {
  int64_t dim = tensorType(weight).getDimSize(0);
  FailureOr<Value> packed =
      this->weight(op, weight, plan::VectorAttr::get(op->getContext(), dim));
  if (failed(packed))
    return failure();
  parameters.push_back(number("columns", columnsOf(inputs[0])));
  parameters.push_back(number("dim", dim));
  Launch launch{family, std::move(parameters)};
  for (Value input : inputs)
    launch.inputs.push_back(memory(input));
  launch.inputs.push_back(*packed);
  launch.outputs = {createMemory(op->getResult(0))};
  launch.rows = rowsOf(inputs[0]);
  launch.count = countOf.lookup(inputs[0]);
  launch.perRow = true;
  emit(op, std::move(launch));
  return success();
}

LogicalResult FunctionConverter::convertElementwise(Operation *op,
                                                    KernelFamily family) {
  Launch launch{family, {number("columns", columnsOf(op->getOperand(0)))}};
  for (Value operand : op->getOperands()) {
    launch.inputs.push_back(memory(operand));
    if (!launch.count)
      launch.count = countOf.lookup(operand);
  }
  launch.outputs = {createMemory(op->getResult(0))};
  launch.rows = rowsOf(op->getOperand(0));
  launch.perRow = true;
  emit(op, std::move(launch));
  return success();
}

LogicalResult FunctionConverter::convert(lm::EmbedOp op) {
  auto table = tensorType(op.getTable());
  FailureOr<Value> packed = weight(
      op, op.getTable(),
      plan::InterleavedAttr::get(op.getContext(), table.getDimSize(0),
                                 table.getDimSize(1), table.getElementType()));
  if (failed(packed))
    return failure();
  Launch launch{KernelFamily::embed,
                {number("columns", table.getDimSize(1)),
                 number("vocabulary", table.getDimSize(0)),
                 type("element", table.getElementType()),
                 real("scale_by", op.getScale())}};
  launch.inputs = {memory(op.getTokens()), *packed};
  launch.outputs = {createMemory(op.getResult())};
  launch.rows = rowsOf(op.getTokens());
  launch.count = countOf.lookup(op.getTokens());
  launch.perRow = true;
  emit(op, std::move(launch));
  return success();
}

LogicalResult FunctionConverter::convert(lm::RopeOp op) {
  Value table = plan.getRopeTable(
      op.getLoc(),
      plan::RopeTableAttr::get(
          op.getContext(), positions, op.getDims(),
          builder.getF64FloatAttr(op.getTheta().convertToDouble())));
  Launch launch{KernelFamily::rope,
                {number("columns", columnsOf(op.getInput())),
                 number("head_dim", op.getHeadDim()),
                 number("dims", op.getDims()), number("positions", positions)}};
  launch.inputs = {memory(op.getInput()), memory(op.getStart()), table};
  launch.outputs = {createMemory(op.getResult())};
  launch.rows = rowsOf(op.getInput());
  launch.count = countOf.lookup(op.getInput());
  launch.perRow = true;
  emit(op, std::move(launch));
  return success();
}

LogicalResult FunctionConverter::convert(lm::CacheAppendOp op) {
  lm::KvCacheType type = op.getCache().getType();
  FailureOr<Value> cache = updateCache(op, op.getCache(), op.getResult());
  if (failed(cache))
    return failure();
  Launch launch{KernelFamily::cache_append,
                {number("slots", llvm::alignTo(type.getSlots(), plan::kTile)),
                 number("heads", type.getHeads()),
                 number("dim", type.getDim())}};
  launch.inputs = {memory(op.getKeys()), memory(op.getValues()),
                   memory(op.getStart())};
  launch.outputs = {*cache};
  launch.rows = rowsOf(op.getKeys());
  launch.count = op.getCount() ? memory(op.getCount()) : Value();
  launch.items = type.getHeads();
  emit(op, std::move(launch));
  return success();
}

LogicalResult FunctionConverter::convert(lm::AttentionOp op) {
  lm::KvCacheType type = op.getCache().getType();
  int64_t queryHeads = columnsOf(op.getQuery()) / type.getDim();
  Launch launch{KernelFamily::attention,
                {number("slots", llvm::alignTo(type.getSlots(), plan::kTile)),
                 number("heads", type.getHeads()), number("dim", type.getDim()),
                 number("query_heads", queryHeads),
                 number("causal", op.getCausal()),
                 number("window", op.getWindow().value_or(0)),
                 real("scale_by", op.getScale())}};
  launch.inputs = {memory(op.getQuery()), memory(op.getCache()),
                   memory(op.getStart())};
  launch.outputs = {createMemory(op.getResult())};
  launch.rows = rowsOf(op.getQuery());
  launch.count = op.getCount() ? memory(op.getCount()) : Value();
  launch.items = queryHeads;
  launch.perRow = true;
  emit(op, std::move(launch));
  return success();
}

LogicalResult FunctionConverter::convert(lm::ShortConvOp op) {
  lm::ConvCacheType type = op.getCache().getType();
  FailureOr<Value> taps = weight(
      op, op.getWeight(),
      plan::TapsAttr::get(op.getContext(), type.getTaps(), type.getChannels()));
  FailureOr<Value> cache = updateCache(op, op.getCache(), op.getResult());
  if (failed(taps) || failed(cache))
    return failure();
  Launch launch{
      KernelFamily::short_conv,
      {number("channels", type.getChannels()), number("taps", type.getTaps()),
       number("pending", type.getPending()), number("commit", op.getCommit())}};
  launch.inputs = {memory(op.getInput()), *taps, memory(op.getAccepted())};
  launch.outputs = {createMemory(op.getOutput()), *cache};
  launch.rows = rowsOf(op.getInput());
  launch.count = op.getCount() ? memory(op.getCount()) : Value();
  launch.items = llvm::divideCeil(type.getChannels(), plan::kTile);
  emit(op, std::move(launch));
  return success();
}

LogicalResult FunctionConverter::convert(lm::DeltaGateOp op) {
  int64_t columns = columnsOf(op.getInput());
  auto packing = plan::VectorAttr::get(op.getContext(), columns);
  FailureOr<Value> aLog = weight(op, op.getALog(), packing);
  FailureOr<Value> dtBias = weight(op, op.getDtBias(), packing);
  if (failed(aLog) || failed(dtBias))
    return failure();
  Launch launch{KernelFamily::delta_gate, {number("columns", columns)}};
  launch.inputs = {memory(op.getInput()), *aLog, *dtBias};
  launch.outputs = {createMemory(op.getResult())};
  launch.rows = rowsOf(op.getInput());
  launch.count = countOf.lookup(op.getInput());
  launch.perRow = true;
  emit(op, std::move(launch));
  return success();
}

LogicalResult FunctionConverter::convert(lm::GatedDeltaOp op) {
  lm::DeltaCacheType type = op.getCache().getType();
  FailureOr<Value> cache = updateCache(op, op.getCache(), op.getResult());
  if (failed(cache))
    return failure();
  SmallVector<NamedAttribute> sizes = {number("heads", type.getHeads()),
                                       number("key_heads", type.getKeyHeads()),
                                       number("key_dim", type.getKeyDim()),
                                       number("value_dim", type.getValueDim()),
                                       number("pending", type.getPending())};
  Launch launch{KernelFamily::gated_delta, sizes};
  launch.parameters.push_back(number("commit", op.getCommit()));
  launch.parameters.push_back(real("scale_by", op.getScale()));
  launch.inputs = {memory(op.getQuery()), memory(op.getKey()),
                   memory(op.getValue()), memory(op.getDecay()),
                   memory(op.getBeta()),  memory(op.getAccepted())};
  launch.outputs = {createMemory(op.getOutput()), *cache};
  launch.rows = rowsOf(op.getQuery());
  launch.count = op.getCount() ? memory(op.getCount()) : Value();
  launch.items =
      type.getHeads() * llvm::divideCeil(type.getValueDim(), plan::kTile);
  Launch save{KernelFamily::delta_save, sizes};
  save.inputs = {memory(op.getKey()), memory(op.getValue()),
                 memory(op.getDecay()), memory(op.getBeta())};
  save.outputs = {*cache};
  save.rows = launch.rows;
  save.count = launch.count;
  save.perRow = true;
  emit(op, std::move(launch));
  if (!op.getCommit())
    emit(op, std::move(save));
  return success();
}

/// Ops that move rows and columns about.
LogicalResult FunctionConverter::convertRowOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](lm::LiveRowsOp liveRows) {
        memoryOf[liveRows.getResult()] = memory(liveRows.getInput());
        countOf[liveRows.getResult()] = memory(liveRows.getCount());
        return success();
      })
      .Case([&](lm::LastRowOp last) {
        Launch launch{KernelFamily::last_row,
                      {number("columns", columnsOf(last.getInput()))}};
        launch.inputs = {memory(last.getInput()), memory(last.getCount())};
        launch.outputs = {createMemory(last.getResult())};
        emit(op, std::move(launch));
        return success();
      })
      .Case([&](lm::DropRowsOp drop) {
        Launch launch{KernelFamily::drop_rows,
                      {number("columns", columnsOf(drop.getInput())),
                       number("first", drop.getFirst())}};
        launch.inputs = {memory(drop.getInput())};
        launch.outputs = {createMemory(drop.getResult())};
        launch.rows = rowsOf(drop.getResult());
        launch.perRow = true;
        emit(op, std::move(launch));
        return success();
      })
      .Case([&](lm::SplitOp split) {
        SmallVector<int64_t> widths;
        Launch launch{KernelFamily::split, {}};
        launch.inputs = {memory(split.getInput())};
        for (Value part : split.getParts()) {
          widths.push_back(columnsOf(part));
          launch.outputs.push_back(createMemory(part));
        }
        launch.parameters = {
            number("groups", split.getGroups()),
            builder.getNamedAttr("widths",
                                 builder.getDenseI64ArrayAttr(widths))};
        launch.rows = rowsOf(split.getInput());
        launch.count = countOf.lookup(split.getInput());
        launch.perRow = true;
        emit(op, std::move(launch));
        return success();
      })
      .Case([&](lm::ConcatFeaturesOp concat) {
        SmallVector<int64_t> widths;
        Launch launch{KernelFamily::concat_features, {}};
        for (Value input : concat.getInputs()) {
          widths.push_back(columnsOf(input));
          launch.inputs.push_back(memory(input));
          if (!launch.count)
            launch.count = countOf.lookup(input);
        }
        launch.parameters = {builder.getNamedAttr(
            "widths", builder.getDenseI64ArrayAttr(widths))};
        launch.outputs = {createMemory(concat.getResult())};
        launch.rows = rowsOf(concat.getResult());
        launch.perRow = true;
        emit(op, std::move(launch));
        return success();
      })
      .Default([](Operation *op) { return op->emitOpError("has no kernel"); });
}

/// Ops on token ids.
LogicalResult FunctionConverter::convertTokenOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](lm::ArgmaxOp argmax) {
        Launch launch{KernelFamily::argmax,
                      {number("columns", columnsOf(argmax.getLogits()))}};
        launch.inputs = {memory(argmax.getLogits())};
        launch.outputs = {createMemory(argmax.getResult())};
        launch.rows = rowsOf(argmax.getLogits());
        launch.count = countOf.lookup(argmax.getLogits());
        launch.perRow = true;
        emit(op, std::move(launch));
        return success();
      })
      .Case([&](lm::MaskBlockOp mask) {
        Launch launch{KernelFamily::mask_block,
                      {number("size", rowsOf(mask.getResult())),
                       number("mask_token", mask.getMaskToken())}};
        launch.inputs = {memory(mask.getAnchor())};
        launch.outputs = {createMemory(mask.getResult())};
        emit(op, std::move(launch));
        return success();
      })
      .Case([&](lm::UnmaskOp unmask) {
        Launch launch{KernelFamily::unmask,
                      {number("size", rowsOf(unmask.getBlock())),
                       number("columns", columnsOf(unmask.getLogits())),
                       number("mask_token", unmask.getMaskToken()),
                       number("fill", unmask.getFill())}};
        launch.inputs = {memory(unmask.getBlock()), memory(unmask.getLogits())};
        launch.outputs = {createMemory(unmask.getResult())};
        emit(op, std::move(launch));
        return success();
      })
      .Case([&](lm::ConcatTokensOp concat) {
        Launch launch{KernelFamily::concat_tokens,
                      {number("left", rowsOf(concat.getLhs())),
                       number("right", rowsOf(concat.getRhs()))}};
        launch.inputs = {memory(concat.getLhs()), memory(concat.getRhs())};
        launch.outputs = {createMemory(concat.getResult())};
        emit(op, std::move(launch));
        return success();
      })
      .Case([&](lm::AcceptOp accept) {
        Launch launch{KernelFamily::accept, {}};
        launch.inputs = {memory(accept.getBlock()), memory(accept.getDecided()),
                         memory(accept.getStart())};
        for (Value result : accept.getResults())
          launch.outputs.push_back(createMemory(result));
        launch.rows = rowsOf(accept.getBlock());
        launch.count = accept.getCount() ? memory(accept.getCount()) : Value();
        emit(op, std::move(launch));
        return success();
      })
      .Default([&](Operation *op) { return convertRowOp(op); });
}

LogicalResult FunctionConverter::convertOp(Operation *op) {
  for (Value value : op->getResults())
    if (auto type = dyn_cast<RankedTensorType>(value.getType());
        type && type.getElementType().isBF16() && !isa<lm::WeightOp>(op))
      return op->emitOpError("expects f32 activations, but got ") << type;
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([](lm::WeightOp) { return success(); })
      .Case([&](func::ReturnOp op) { return convertReturn(op); })
      .Case([&](lm::LinearOp op) {
        auto type = tensorType(op.getWeight());
        return convertLinear(op, op.getInput(), op.getResult(),
                             KernelFamily::linear, op.getWeight(),
                             plan::InterleavedAttr::get(
                                 op.getContext(), type.getDimSize(0),
                                 type.getDimSize(1), type.getElementType()),
                             {this->type("element", type.getElementType())});
      })
      .Case([&](lm::QuantLinearOp op) {
        Type scale = tensorType(op.getScales()).getElementType();
        int64_t bits = op.getQuantization().getBits();
        int64_t group = op.getQuantization().getGroup();
        return convertLinear(op, op.getInput(), op.getResult(),
                             KernelFamily::quant_linear,
                             {op.getCodes(), op.getScales()},
                             plan::InterleavedCodesAttr::get(
                                 op.getContext(), columnsOf(op.getResult()),
                                 columnsOf(op.getInput()), bits, group, scale),
                             {number("bits", bits), number("group", group),
                              type("scale", scale)});
      })
      .Case([&](lm::RmsNormOp op) {
        return convertNorm(
            op, op.getInput(), op.getWeight(), KernelFamily::rms_norm,
            {real("eps", op.getEps()), real("offset", op.getOffset())});
      })
      .Case([&](lm::GatedRmsNormOp op) {
        return convertNorm(op, {op.getInput(), op.getGate()}, op.getWeight(),
                           KernelFamily::gated_rms_norm,
                           {real("eps", op.getEps())});
      })
      .Case([&](lm::L2NormOp op) {
        Launch launch{KernelFamily::l2_norm,
                      {number("columns", columnsOf(op.getInput())),
                       number("dim", op.getDim()), real("eps", op.getEps())}};
        launch.inputs = {memory(op.getInput())};
        launch.outputs = {createMemory(op.getResult())};
        launch.rows = rowsOf(op.getInput());
        launch.count = countOf.lookup(op.getInput());
        launch.perRow = true;
        emit(op, std::move(launch));
        return success();
      })
      .Case([&](lm::SiluOp op) {
        return convertElementwise(op, KernelFamily::silu);
      })
      .Case([&](lm::SigmoidOp op) {
        return convertElementwise(op, KernelFamily::sigmoid);
      })
      .Case([&](lm::AddOp op) {
        return convertElementwise(op, KernelFamily::add);
      })
      .Case([&](lm::MulOp op) {
        return convertElementwise(op, KernelFamily::mul);
      })
      .Case<lm::EmbedOp, lm::RopeOp, lm::CacheAppendOp, lm::AttentionOp,
            lm::ShortConvOp, lm::DeltaGateOp, lm::GatedDeltaOp>(
          [&](auto op) { return convert(op); })
      .Default([&](Operation *op) { return convertTokenOp(op); });
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct ConvertLmToPlanPass
    : tandem::impl::ConvertLmToPlanPassBase<ConvertLmToPlanPass> {
  using ConvertLmToPlanPassBase::ConvertLmToPlanPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    module->setAttr(plan::PlanDialect::kArchAttrName,
                    StringAttr::get(&getContext(), arch));
    PlanBuilder builder(module);
    int64_t positions = kDefaultPositions;
    for (auto loop : module.getOps<plan::LoopOp>())
      positions =
          llvm::alignTo(loop.getMaxContext() + loop.getBlock(), plan::kTile);
    for (auto function :
         llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (failed(FunctionConverter(function, builder, positions).convert()))
        return signalPassFailure();
    // The loop names programs, so it reads best behind them.
    for (auto loop : llvm::make_early_inc_range(module.getOps<plan::LoopOp>()))
      loop->moveBefore(module.getBody(), module.getBody()->end());
  }
};
} // namespace
