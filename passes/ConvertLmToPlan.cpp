//===- ConvertLmToPlan.cpp - Tensors to memory, ops to launches -----------===//
//
// One pass over each function, in order. Every tensor gets memory: the port it
// is returned through, the memory of its operand when nothing is computed, or a
// buffer. Every cache is the state of its name, updated in place.
//
//===----------------------------------------------------------------------===//

#include "passes/FunctionConverter.h"
#include "passes/Passes.h"
#include "passes/Report.h"

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

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

LogicalResult FunctionConverter::convert() {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return function.emitOpError("expects one block");
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

/// Type of the rows that the ops put into `cache`.
static Type getRowElement(Value cache) {
  if (auto type = dyn_cast<lm::KvCacheType>(cache.getType()))
    return type.getElementType();
  for (Operation *user : cache.getUsers()) {
    Type type =
        llvm::TypeSwitch<Operation *, Type>(user)
            .Case<lm::ShortConvOp, lm::DeltaInputsOp>(
                [](auto op) { return op.getInput().getType(); })
            .Case([](lm::GatedDeltaOp op) { return op.getValue().getType(); })
            .Default([](Operation *) { return Type(); });
    if (type)
      return getElementTypeOrSelf(type);
  }
  return Float32Type::get(cache.getContext());
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
             : plan.getState(function.getLoc(), state, argument.getType(),
                             getRowElement(argument));
    if (failed(place))
      return failure();
    memoryOf[argument] = *place;
    if (port)
      inputs.push_back(*place);
    else
      states[state] = *place;
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
    place =
        createBuffer(value.getLoc(), type.getShape(), type.getElementType());
  }
  return place;
}

Value FunctionConverter::createBuffer(Location loc, ArrayRef<int64_t> shape,
                                      Type element) {
  return plan::BufferOp::create(builder, loc, MemRefType::get(shape, element),
                                IntegerAttr());
}

FailureOr<Value> FunctionConverter::weight(Operation *user,
                                           ArrayRef<Value> tensors,
                                           plan::PackingAttrInterface packing) {
  SmallVector<lm::WeightOp> sources;
  // Codes and scales that one op repacks are made from its operands.
  lm::SourceAttr order;
  SmallVector<Value> operands(tensors);
  if (auto repack = tensors[0].getDefiningOp<lm::RepackOp>();
      repack && llvm::equal(tensors, repack->getResults())) {
    order = repack.getSource();
    operands = repack->getOperands();
  }
  lm::TokenSetAttr rows;
  if (auto select = tensors[0].getDefiningOp<lm::SelectRowsOp>()) {
    rows = select.getSet();
    operands = {select.getWeight()};
  }
  for (Value tensor : operands) {
    auto source = tensor.getDefiningOp<lm::WeightOp>();
    if (!source) {
      user->emitOpError("expects its weight to be a tensor of a checkpoint");
      return failure();
    }
    sources.push_back(source);
  }
  return plan.getWeight(user->getLoc(), sources, packing, order, rows);
}

Value FunctionConverter::ropeTable(Operation *op, uint64_t dims,
                                   const APFloat &theta) {
  return plan.getRopeTable(
      op->getLoc(), plan::RopeTableAttr::get(
                        op->getContext(), positions, static_cast<int64_t>(dims),
                        builder.getF64FloatAttr(theta.convertToDouble())));
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

/// Families whose results have a type of their own.
static bool isLinear(KernelFamily family) {
  return family == KernelFamily::linear ||
         family == KernelFamily::quant_linear ||
         family == KernelFamily::fused_linear ||
         family == KernelFamily::fused_quant_linear;
}

/// Adds the parameters `activations` and `result` where they are not f32.
void FunctionConverter::addTypes(Launch &launch) {
  auto getFloat = [](ValueRange memories) -> Type {
    for (Value memory : memories) {
      Type element = cast<MemRefType>(memory.getType()).getElementType();
      if (isa<FloatType>(element) && !memory.getDefiningOp<plan::WeightOp>() &&
          !memory.getDefiningOp<plan::StateOp>())
        return element;
    }
    return Type();
  };
  Type given = getFloat(launch.inputs), made = getFloat(launch.outputs);
  Type activations = given ? given : made;
  // Bytes are copied whatever they mean.
  if (!activations || launch.family == KernelFamily::copy)
    return;
  if (!activations.isF32())
    launch.parameters.push_back(type("activations", activations));
  if (isLinear(launch.family) && made != activations)
    launch.parameters.push_back(type("result", made));
}

void FunctionConverter::emit(Operation *op, Launch launch) {
  addTypes(launch);
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
      if (memory(value) != states.lookup(name))
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

/// Processors compute in f32. GPUs have tensor cores, which take bf16.
LogicalResult FunctionConverter::checkTypes(Operation *op) {
  bool multiplies = isa<lm::LinearOp, lm::QuantLinearOp, lm::FusedLinearOp,
                        lm::HeadArgmaxOp, lm::AttentionOp>(op);
  if (plan.forGpu) {
    auto input = multiplies
                     ? dyn_cast<RankedTensorType>(op->getOperand(0).getType())
                     : RankedTensorType();
    if (input && !input.getElementType().isBF16())
      return op->emitOpError("expects bf16 activations on a GPU, but got ")
             << input;
    return success();
  }
  for (Value value : op->getResults())
    if (auto type = dyn_cast<RankedTensorType>(value.getType());
        type && type.getElementType().isBF16())
      return op->emitOpError("expects f32 activations, but got ") << type;
  return success();
}

LogicalResult FunctionConverter::convertOp(Operation *op) {
  if (isa<lm::WeightOp, lm::RepackOp, lm::SelectRowsOp>(op))
    return success();
  if (auto terminator = dyn_cast<func::ReturnOp>(op))
    return convertReturn(terminator);
  if (failed(checkTypes(op)))
    return failure();
  for (auto convertGroup :
       {convertTensorOp, convertStateOp, convertDecodingOp, convertFusedOp})
    if (ConversionResult result = convertGroup(*this, op))
      return *result;
  return op->emitOpError("has no kernel");
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
    PlanBuilder builder(module, plan::isGpu(arch));
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

    int64_t numLaunches = 0;
    module.walk([&](plan::LaunchOp) { ++numLaunches; });
    reportCount(*this, module, report, numLaunches, "launches");
    reportCount(*this, module, report,
                llvm::range_size(module.getOps<plan::KernelOp>()), "kernels");
  }
};
} // namespace
