//===- AssignBuffers.cpp - Offsets of ports, states and buffers -----------===//

#include "dialects/plan/KernelFamilies.h"
#include "dialects/plan/PlanOps.h"
#include "passes/Lifetimes.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"

namespace tandem {
#define GEN_PASS_DEF_ASSIGNBUFFERSPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
struct AssignBuffersPass
    : tandem::impl::AssignBuffersPassBase<AssignBuffersPass> {
  using AssignBuffersPassBase::AssignBuffersPassBase;

  void runOnOperation() override {
    bufferBytes = 0;
    ModuleOp module = getOperation();
    Builder builder(&getContext());
    auto setSize = [&](StringRef name, int64_t size) {
      module->setAttr(name, builder.getI64IntegerAttr(size));
    };
    setSize(plan::PlanDialect::kPortSizeAttrName, layOut<plan::PortOp>());
    setSize(plan::PlanDialect::kStateSizeAttrName, layOut<plan::StateOp>());
    int64_t arena = 0;
    for (auto program : module.getOps<plan::ProgramOp>())
      arena = std::max(arena, placeBuffers(program));
    setSize(plan::PlanDialect::kArenaSizeAttrName, arena);
    reportCount(*this, module, report, arena, "bytes of arena");
    reportCount(*this, module, report, bufferBytes, "bytes of buffers");
  }

private:
  /// Bytes of all buffers of all programs.
  int64_t bufferBytes = 0;

  /// Puts all ops of a kind one behind the other. Returns the bytes needed.
  template <typename OpT> int64_t layOut() {
    int64_t end = 0;
    for (OpT op : getOperation().template getOps<OpT>()) {
      op.setOffset(end);
      end += getAlignedBytes(op.getResult());
    }
    return end;
  }

  /// Keeps what launches of few rows use while the next launch runs: on a GPU
  /// that one may run beside them, unless its results lie where they read.
  void keepInputs(plan::ProgramOp program,
                  MutableArrayRef<BufferLifetime> buffers) {
    auto arch = getOperation()->getAttrOfType<StringAttr>(
        plan::PlanDialect::kArchAttrName);
    if (!arch || !plan::isGpu(arch.getValue()))
      return;
    auto launches = llvm::to_vector(program.getBody().getOps<plan::LaunchOp>());
    for (BufferLifetime &buffer : buffers)
      if (static_cast<int64_t>(launches[buffer.last].getRows()) <=
          plan::kFragmentRows)
        ++buffer.last;
  }

  /// Places the buffers of `program`, largest first. Returns the bytes needed.
  int64_t placeBuffers(plan::ProgramOp program) {
    SmallVector<BufferLifetime> placed;
    SmallVector<BufferLifetime> buffers = getLifetimes(program);
    keepInputs(program, buffers);
    llvm::sort(buffers, [](const auto &a, const auto &b) {
      return std::tie(b.bytes, a.first) < std::tie(a.bytes, b.first);
    });
    int64_t size = 0;
    for (BufferLifetime &buffer : buffers) {
      bufferBytes += buffer.bytes;
      SmallVector<BufferLifetime *> neighbours;
      for (BufferLifetime &other : placed)
        if (other.meets(buffer))
          neighbours.push_back(&other);
      llvm::sort(neighbours,
                 [](auto *a, auto *b) { return a->offset() < b->offset(); });
      int64_t offset = 0;
      for (BufferLifetime *other : neighbours) {
        if (offset + buffer.bytes <= other->offset())
          break;
        offset = std::max(offset, other->offset() + other->bytes);
      }
      buffer.op.setOffset(offset);
      size = std::max(size, offset + buffer.bytes);
      placed.push_back(buffer);
    }
    return size;
  }
};
} // namespace
