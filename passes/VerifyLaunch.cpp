//===- VerifyLaunch.cpp - Holds launches to the contract of their kernel --===//

#include "passes/ContractBuilder.h"
#include "passes/KernelContract.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::contract;
using plan::KernelFamily;

/// Compares the operands `given`, called `what`, with those of the contract.
static LogicalResult verifyOperands(plan::LaunchOp launch, StringRef what,
                                    ValueRange given,
                                    ArrayRef<Operand> expected) {
  if (given.size() != expected.size())
    return launch.emitOpError("expects ")
           << expected.size() << " " << what << "s of " << launch.getKernel()
           << ", but got " << given.size();
  for (auto [index, operand] : llvm::enumerate(expected)) {
    auto type = cast<MemRefType>(given[index].getType());
    if (operand.memory) {
      if (type != operand.memory)
        return launch.emitOpError("expects ")
               << what << " " << index << " to be " << operand.memory
               << ", but got " << type;
    } else if (operand.packing) {
      auto weight = given[index].getDefiningOp<plan::WeightOp>();
      if (!weight)
        return launch.emitOpError("expects ")
               << what << " " << index << " to be a weight, but got " << type;
      if (weight.getPacking() != operand.packing)
        return launch.emitOpError("expects ")
               << what << " " << index << " to be packed as " << operand.packing
               << ", but got " << weight.getPacking();
    } else {
      int64_t bytes =
          type.getNumElements() * (type.getElementTypeBitWidth() / 8);
      if (bytes != operand.bytes)
        return launch.emitOpError("expects ")
               << what << " " << index << " to have " << operand.bytes
               << " bytes, but got " << bytes;
    }
  }
  return success();
}

/// Items read what others write unless outputs are memory of their own. Only
/// `accept` reads everything before it writes.
static LogicalResult verifyApart(plan::LaunchOp launch, KernelFamily family) {
  for (auto [index, output] : llvm::enumerate(launch.getOutputs())) {
    if (llvm::is_contained(launch.getOutputs().take_front(index), output))
      return launch.emitOpError("writes output ")
             << index << " as another one, too";
    if (family != KernelFamily::accept &&
        (llvm::is_contained(launch.getInputs(), output) ||
         launch.getCount() == output))
      return launch.emitOpError("writes output ")
             << index << ", which it also reads";
  }
  return success();
}

/// Rows that are not committed wait in the cache, which has room for some.
static LogicalResult verifyPending(plan::LaunchOp launch,
                                   DictionaryAttr parameters) {
  auto pending = parameters.getAs<IntegerAttr>("pending");
  auto commit = parameters.getAs<IntegerAttr>("commit");
  if (!pending || (commit && commit.getInt() != 0))
    return success();
  auto rows = static_cast<int64_t>(launch.getRows());
  if (rows > pending.getInt())
    return launch.emitOpError("expects up to ")
           << pending.getInt() << " rows that are not committed, but got "
           << rows;
  return success();
}

LogicalResult tandem::verifyParameters(plan::KernelOp kernel, StringRef arch) {
  return ContractBuilder(kernel, arch, /*rows=*/1, nullptr).build();
}

LogicalResult tandem::verifyLaunch(plan::LaunchOp launch, plan::KernelOp kernel,
                                   StringRef arch) {
  auto rows = static_cast<int64_t>(launch.getRows());
  FailureOr<Contract> contract =
      ContractBuilder(kernel, arch, rows, launch).build();
  if (failed(contract) ||
      failed(verifyOperands(launch, "input", launch.getInputs(),
                            contract->inputs)) ||
      failed(verifyOperands(launch, "output", launch.getOutputs(),
                            contract->outputs)) ||
      failed(verifyApart(launch, kernel.getFamily())) ||
      failed(verifyPending(launch, kernel.getParameters())))
    return failure();
  // Grids of GPUs follow from the kernels.
  if (plan::isGpu(arch))
    return success();
  if (static_cast<int64_t>(launch.getItems()) != contract->items ||
      launch.getPerRow() != contract->perRow)
    return launch.emitOpError("expects ")
           << contract->items << " items"
           << (contract->perRow ? " per row" : "") << ", but got "
           << static_cast<int64_t>(launch.getItems())
           << (launch.getPerRow() ? " per row" : "");
  return success();
}
