//===- LaunchOrder.cpp - What stands in front of a kernel -----------------===//

#include "codegen/cuda/LaunchOrder.h"

#include "mlir/IR/BuiltinTypes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace llvm;
using namespace tandem;
using namespace tandem::codegen;
using plan::KernelFamily;

/// Outputs up to which a layer takes few multiprocessors, and the tokens of a
/// launch of the layers that leave it some.
static constexpr int64_t kMostOutputs = 128, kFewRows = 16;

/// Whether two memories share a byte.
static bool overlap(mlir::Value a, mlir::Value b) {
  if (a == b)
    return true;
  auto left = a.getDefiningOp<plan::BufferOp>(),
       right = b.getDefiningOp<plan::BufferOp>();
  if (!left || !right)
    return false;
  // Before offsets are assigned nothing is known.
  if (!left.getOffset() || !right.getOffset())
    return true;
  auto end = [](plan::BufferOp buffer) {
    auto type = cast<mlir::MemRefType>(buffer.getResult().getType());
    return *buffer.getOffset() + static_cast<uint64_t>(type.getNumElements()) *
                                     (type.getElementTypeBitWidth() / 8);
  };
  return *left.getOffset() < end(right) && *right.getOffset() < end(left);
}

static bool overlap(mlir::ValueRange some, mlir::ValueRange others) {
  return any_of(some, [&](mlir::Value a) {
    return any_of(others, [&](mlir::Value b) { return overlap(a, b); });
  });
}

static int64_t getNumber(plan::KernelOp kernel, StringRef name) {
  auto number = kernel.getParameters().getAs<mlir::IntegerAttr>(name);
  return number ? number.getInt() : 0;
}

/// Whether \p kernel is a layer of few_rows.cuh.
static bool isFewRows(plan::KernelOp kernel) {
  KernelFamily family = kernel.getFamily();
  return (family == KernelFamily::linear ||
          family == KernelFamily::fused_linear ||
          family == KernelFamily::quant_linear ||
          family == KernelFamily::fused_quant_linear) &&
         getNumber(kernel, "row_tile") <= kFewRows;
}

static int64_t getOutputs(plan::KernelOp kernel) {
  auto widths = kernel.getParameters().getAs<mlir::DenseI64ArrayAttr>("widths");
  return widths ? sum_of(widths.asArrayRef(), int64_t(0))
                : getNumber(kernel, "outputs");
}

/// Whether \p kernel is small enough to run beside another.
static bool canBeBeside(plan::KernelOp kernel) {
  return isFewRows(kernel) &&
         (kernel.getFamily() == KernelFamily::linear ||
          kernel.getFamily() == KernelFamily::fused_linear) &&
         getOutputs(kernel) <= kMostOutputs;
}

/// Whether \p kernel is a layer of codes of few_rows.cuh.
static bool isFewRowsOfCodes(plan::KernelOp kernel) {
  return isFewRows(kernel) && getNumber(kernel, "bits") > 0;
}

/// Whether what \p launch, a gated_delta, knows of earlier rows (how many
/// count, and its caches) may be written by one of the two launches in front
/// of it: \p others, null where the program begins.
static bool changesState(plan::LaunchOp launch, plan::KernelOp kernel,
                         ArrayRef<plan::LaunchOp> others) {
  size_t accepted = getNumber(kernel, "taps") ? 6 : 5;
  // Kernels may be compiled for nobody's operands.
  if (launch.getInputs().size() <= accepted)
    return false;
  return any_of(others, [&](plan::LaunchOp other) {
    // Some launch of another program, which nobody knows here.
    if (!other)
      return true;
    return overlap(other.getOutputs(), launch.getInputs()[accepted]) ||
           overlap(other.getOutputs(), launch.getOutputs().drop_front());
  });
}

/// Whether \p kernel is attention that makes its inputs.
static bool makesInputs(plan::KernelOp kernel) {
  return kernel.getFamily() == KernelFamily::attention &&
         kernel.getParameters().contains("dims");
}

/// Where \p launch of \p kernel has `start` among its inputs, if the kernel
/// knows of earlier rows.
static std::optional<size_t> getStart(plan::LaunchOp launch,
                                      plan::KernelOp kernel) {
  switch (kernel.getFamily()) {
  case KernelFamily::attention:
    return makesInputs(kernel) ? 5 : 2;
  case KernelFamily::cache_append:
    return 2;
  case KernelFamily::attention_inputs:
    // In front of the table.
    return launch.getInputs().size() - 2;
  default:
    return std::nullopt;
  }
}

/// Whether \p other, one of the two launches in front, may write what
/// \p launch, attention or the kernel of its inputs, knows of earlier rows.
/// One that appends rows from the same `start` on leaves earlier ones alone.
static bool movesStart(plan::LaunchOp launch, plan::KernelOp kernel,
                       plan::LaunchOp other, plan::KernelOp otherKernel) {
  std::optional<size_t> at = getStart(launch, kernel);
  // Kernels may be compiled for nobody's operands.
  if (!at || launch.getInputs().size() <= *at)
    return false;
  // Some launch of another program, which nobody knows here.
  if (!other || !otherKernel)
    return true;
  mlir::Value start = launch.getInputs()[*at], live = launch.getCount();
  auto appendsFromStart = [&] {
    std::optional<size_t> place = getStart(other, otherKernel);
    return otherKernel.getFamily() != KernelFamily::attention && place &&
           other.getInputs().size() > *place &&
           other.getInputs()[*place] == start;
  };
  return any_of(other.getOutputs(), [&](mlir::Value output) {
    if (overlap(output, start) || (live && overlap(output, live)))
      return true;
    if (kernel.getFamily() != KernelFamily::attention)
      return false;
    mlir::Value cache = makesInputs(kernel) ? launch.getOutputs().back()
                                            : launch.getInputs()[1];
    return overlap(output, cache) && !(output == cache && appendsFromStart());
  });
}

LaunchOrder::LaunchOrder(mlir::ModuleOp planModule) {
  StringMap<plan::KernelOp> kernels;
  for (auto kernel : planModule.getOps<plan::KernelOp>())
    kernels[kernel.getSymName()] = kernel;
  // A kernel has its place in all programs or nowhere.
  StringSet<> notBeside;
  for (auto program : planModule.getOps<plan::ProgramOp>()) {
    plan::LaunchOp first, second;
    for (auto launch : program.getBody().getOps<plan::LaunchOp>()) {
      plan::KernelOp kernel = kernels.lookup(launch.getKernel());
      plan::KernelOp before =
          second ? kernels.lookup(second.getKernel()) : plan::KernelOp();
      if (kernel && canBeBeside(kernel)) {
        bool isApart = before && isFewRows(before) && !canBeBeside(before) &&
                       !launch.getInputs().empty() &&
                       !second.getInputs().empty() &&
                       !overlap(launch->getOperands(), second.getOutputs()) &&
                       !overlap(launch.getOutputs(), second->getOperands());
        (isApart ? besides : notBeside).insert(launch.getKernel());
      }
      if (kernel && kernel.getFamily() == KernelFamily::gated_delta &&
          changesState(launch, kernel, {first, second}))
        changing.insert(launch.getKernel());
      if (kernel)
        findStart(launch, kernel, first, second, kernels);
      first = second;
      second = launch;
    }
  }
  for (const auto &kernel : notBeside)
    besides.erase(kernel.getKey());
  for (auto program : planModule.getOps<plan::ProgramOp>()) {
    plan::LaunchOp before;
    for (auto launch : program.getBody().getOps<plan::LaunchOp>()) {
      if (before && isBeside(launch.getKernel()))
        partners.insert(before.getKernel());
      auto isLayer = [&](plan::LaunchOp some) {
        plan::KernelOp kernel = kernels.lookup(some.getKernel());
        return kernel && isFewRowsOfCodes(kernel);
      };
      if (before && isLayer(before))
        (isLayer(launch) ? beforeLayers : beforeOthers)
            .insert(before.getKernel());
      before = launch;
    }
    // Behind the last one comes another program.
    if (before)
      beforeOthers.insert(before.getKernel());
  }
  chooseHalves(planModule, kernels);
}

void LaunchOrder::findStart(plan::LaunchOp launch, plan::KernelOp kernel,
                            plan::LaunchOp first, plan::LaunchOp second,
                            const StringMap<plan::KernelOp> &kernels) {
  auto moves = [&](plan::LaunchOp other) {
    return movesStart(launch, kernel, other,
                      other ? kernels.lookup(other.getKernel())
                            : plan::KernelOp());
  };
  if (moves(first)) {
    movingStarts.insert(launch.getKernel());
  } else if (moves(second)) {
    // The row that a prefill ends with has a `start` of its own.
    bool isInputs = second && kernels.lookup(second.getKernel()).getFamily() ==
                                  KernelFamily::attention_inputs;
    (isInputs ? firstWriters : movingStarts)
        .insert(isInputs ? second.getKernel() : launch.getKernel());
  }
}

void LaunchOrder::chooseHalves(mlir::ModuleOp planModule,
                               const StringMap<plan::KernelOp> &kernels) {
  MapVector<StringRef, SetVector<StringRef>> neighbours;
  for (auto program : planModule.getOps<plan::ProgramOp>()) {
    StringRef before;
    for (auto launch : program.getBody().getOps<plan::LaunchOp>()) {
      StringRef name = launch.getKernel();
      plan::KernelOp kernel = kernels.lookup(name);
      if (!kernel || !isFewRowsOfCodes(kernel))
        continue;
      neighbours[name];
      if (!before.empty() && before != name) {
        neighbours[before].insert(name);
        neighbours[name].insert(before);
      }
      before = name;
    }
  }
  // From each to its neighbours, the other half for those that have none yet.
  StringSet<> chosen;
  for (auto &[start, unused] : neighbours) {
    if (!chosen.insert(start).second)
      continue;
    // Layers with a norm, which come first, have most warps.
    secondHalves.insert(start);
    SmallVector<StringRef> waiting = {start};
    while (!waiting.empty()) {
      StringRef name = waiting.pop_back_val();
      for (StringRef neighbour : neighbours[name])
        if (chosen.insert(neighbour).second) {
          if (!takesSecondHalf(name))
            secondHalves.insert(neighbour);
          waiting.push_back(neighbour);
        }
    }
  }
}
