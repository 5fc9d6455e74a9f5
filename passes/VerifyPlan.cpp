//===- VerifyPlan.cpp - Check what codegen may assume ---------------------===//

#include "dialects/plan/PlanOps.h"
#include "passes/KernelContract.h"
#include "passes/Lifetimes.h"
#include "passes/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringSet.h"

namespace tandem {
#define GEN_PASS_DEF_VERIFYPLANPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
struct VerifyPlanPass : tandem::impl::VerifyPlanPassBase<VerifyPlanPass> {
  void runOnOperation() override {
    for (Operation &op : getOperation().getBody()->getOperations())
      if (!isa<plan::PlanDialect>(op.getDialect())) {
        op.emitOpError("is not an op of plan");
        return signalPassFailure();
      }
    if (failed(verifyNames<plan::WeightOp>()) ||
        failed(
            verifySpace<plan::PortOp>(plan::PlanDialect::kPortSizeAttrName)) ||
        failed(
            verifySpace<plan::StateOp>(plan::PlanDialect::kStateSizeAttrName)))
      return signalPassFailure();
    if (auto attribute = getOperation()->getAttrOfType<StringAttr>(
            plan::PlanDialect::kArchAttrName))
      arch = attribute;
    else
      arch = "";
    for (auto program : getOperation().getOps<plan::ProgramOp>())
      if (failed(verifyBuffers(program)) || failed(verifyOrder(program)))
        return signalPassFailure();
    if (failed(verifyLaunches()))
      signalPassFailure();
  }

private:
  /// Processor that the plan is for; empty for any.
  StringRef arch;

  template <typename OpT> LogicalResult verifyNames() {
    llvm::StringSet<> names;
    for (OpT op : getOperation().template getOps<OpT>())
      if (!names.insert(op.getName()).second)
        return op.emitOpError("expects a name of its own, but got '")
               << op.getName() << "' again";
    return success();
  }

  /// `[offset, offset + bytes)` lies inside the space that the module attribute
  /// `sizeName` measures.
  LogicalResult verifyInside(Operation *op, std::optional<uint64_t> offset,
                             int64_t bytes, StringRef sizeName) {
    auto size = getOperation()->getAttrOfType<IntegerAttr>(sizeName);
    if (!size)
      return getOperation().emitOpError("expects the attribute ") << sizeName;
    if (!offset)
      return op->emitOpError("expects an offset");
    if (static_cast<int64_t>(*offset) + bytes > size.getInt())
      return op->emitOpError("ends at ")
             << static_cast<int64_t>(*offset) + bytes << ", behind the "
             << size.getInt() << " bytes of its space";
    return success();
  }

  /// Ports or states: unique names, inside their space, apart from each other.
  template <typename OpT> LogicalResult verifySpace(StringRef sizeName) {
    if (failed(verifyNames<OpT>()))
      return failure();
    SmallVector<OpT> ops(getOperation().template getOps<OpT>());
    for (OpT op : ops)
      if (failed(verifyInside(op, op.getOffset(),
                              getAlignedBytes(op.getResult()), sizeName)))
        return failure();
    llvm::sort(ops,
               [](OpT a, OpT b) { return *a.getOffset() < *b.getOffset(); });
    for (size_t index = 1; index < ops.size(); ++index)
      if (*ops[index - 1].getOffset() +
              getAlignedBytes(ops[index - 1].getResult()) >
          *ops[index].getOffset())
        return ops[index].emitOpError("overlaps '")
               << ops[index - 1].getName() << "'";
    return success();
  }

  LogicalResult verifyBuffers(plan::ProgramOp program) {
    SmallVector<BufferLifetime> buffers = getLifetimes(program);
    for (BufferLifetime &buffer : buffers)
      if (failed(verifyInside(buffer.op, buffer.op.getOffset(), buffer.bytes,
                              plan::PlanDialect::kArenaSizeAttrName)))
        return failure();
    for (size_t i = 0; i < buffers.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (buffers[i].meets(buffers[j]) &&
            buffers[i].offset() < buffers[j].offset() + buffers[j].bytes &&
            buffers[j].offset() < buffers[i].offset() + buffers[i].bytes) {
          InFlightDiagnostic diagnostic = buffers[i].op.emitOpError(
              "overlaps a buffer that lives at the same time");
          diagnostic.attachNote(buffers[j].op.getLoc()) << "the other buffer";
          return diagnostic;
        }
    return success();
  }

  /// Buffers hold nothing before a launch has written them.
  LogicalResult verifyOrder(plan::ProgramOp program) {
    DenseSet<Value> written;
    for (auto launch : program.getBody().getOps<plan::LaunchOp>()) {
      for (Value input : launch.getInputs())
        if (input.getDefiningOp<plan::BufferOp>() && !written.contains(input))
          return launch.emitOpError("reads a buffer that nothing has written");
      written.insert(launch.getOutputs().begin(), launch.getOutputs().end());
    }
    return success();
  }

  /// Shows all faults at once: launches have nothing to do with each other.
  LogicalResult verifyLaunches() {
    llvm::StringMap<plan::KernelOp> kernels;
    bool hasFailed = false;
    for (auto kernel : getOperation().getOps<plan::KernelOp>())
      if (succeeded(verifyParameters(kernel, arch)))
        kernels[kernel.getSymName()] = kernel;
      else
        hasFailed = true;
    for (auto program : getOperation().getOps<plan::ProgramOp>())
      for (auto launch : program.getBody().getOps<plan::LaunchOp>())
        if (plan::KernelOp kernel = kernels.lookup(launch.getKernel()))
          hasFailed |= failed(verifyLaunch(launch, kernel, arch)) ||
                       failed(verifyHeld(launch, kernel));
    return failure(hasFailed);
  }

  /// The cache that an attention reads holds all positions that are visible in
  /// the longest text: a block may begin at its last token.
  LogicalResult verifyHeld(plan::LaunchOp launch, plan::KernelOp kernel) {
    auto loops = getOperation().getOps<plan::LoopOp>();
    if (kernel.getFamily() != plan::KernelFamily::attention || loops.empty())
      return success();
    auto number = [&](StringRef name) {
      return kernel.getParameters().getAs<IntegerAttr>(name).getInt();
    };
    plan::LoopOp loop = *loops.begin();
    auto held = static_cast<int64_t>(loop.getMaxContext() + loop.getBlock());
    if (int64_t window = number("window"))
      held =
          std::min(held, window + static_cast<int64_t>(launch.getRows()) - 1);
    if (number("slots") < held)
      return launch.emitOpError("expects a cache of ")
             << held << " slots, but got " << number("slots");
    return success();
  }
};
} // namespace
