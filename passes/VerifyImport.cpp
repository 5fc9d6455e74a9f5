//===- VerifyImport.cpp - Check what the fusions may assume ---------------===//

#include "dialects/lm/LmOps.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringSet.h"

namespace tandem {
#define GEN_PASS_DEF_VERIFYIMPORTPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
struct VerifyImportPass : tandem::impl::VerifyImportPassBase<VerifyImportPass> {
  void runOnOperation() override {
    for (Operation &op : getOperation().getBody()->getOperations()) {
      LogicalResult result = success();
      if (auto function = dyn_cast<func::FuncOp>(op))
        result = verifyFunction(function);
      else if (!isa<lm::SpeculateOp>(op))
        result = op.emitOpError("is neither a function nor a loop");
      if (failed(result))
        return signalPassFailure();
    }
  }

private:
  /// Ports and states of the module: name to type.
  llvm::StringMap<Type> interface;

  LogicalResult verifyFunction(func::FuncOp function) {
    if (function.isExternal() || !function.getBody().hasOneBlock())
      return function.emitOpError("expects one block");
    SmallVector<StringRef> statesIn, statesOut;
    if (failed(verifyNames(function, "argument", function.getArgumentTypes(),
                           function.getAllArgAttrs(), statesIn)) ||
        failed(verifyNames(function, "result", function.getResultTypes(),
                           function.getAllResultAttrs(), statesOut)))
      return failure();
    for (StringRef state : statesIn)
      if (!llvm::is_contained(statesOut, state))
        return function.emitOpError("takes the state '")
               << state << "', but does not return it";
    for (StringRef state : statesOut)
      if (!llvm::is_contained(statesIn, state))
        return function.emitOpError("returns the state '")
               << state << "', but does not take it";
    WalkResult walk = function.getBody().walk([&](Operation *op) {
      return failed(verifyOp(op)) ? WalkResult::interrupt()
                                  : WalkResult::advance();
    });
    return failure(walk.wasInterrupted());
  }

  /// Checks the names in `attributes` (one dictionary per type) and collects
  /// those of states.
  LogicalResult verifyNames(func::FuncOp function, StringRef what,
                            ArrayRef<Type> types, ArrayAttr attributes,
                            SmallVectorImpl<StringRef> &states) {
    llvm::StringSet<> seen;
    for (auto [index, type] : llvm::enumerate(types)) {
      auto dictionary =
          attributes ? cast<DictionaryAttr>(attributes[index]) : nullptr;
      StringAttr port, state;
      if (dictionary) {
        port = dictionary.getAs<StringAttr>(lm::LmDialect::kPortAttrName);
        state = dictionary.getAs<StringAttr>(lm::LmDialect::kStateAttrName);
      }
      StringAttr name = port ? port : state;
      if (!name)
        return function.emitOpError("expects ")
               << what << " " << index << " to be a port or a state";
      if (!seen.insert(name).second)
        return function.emitOpError("has two ")
               << what << "s named '" << name.getValue() << "'";
      auto [entry, isNew] = interface.try_emplace(name, type);
      if (!isNew && entry->second != type)
        return function.emitOpError("expects '")
               << name.getValue() << "' to be " << entry->second
               << " as before, but got " << type;
      if (state)
        states.push_back(state);
    }
    return success();
  }

  LogicalResult verifyOp(Operation *op) {
    if (!isa<lm::LmDialect>(op->getDialect()) && !isa<func::ReturnOp>(op))
      return op->emitOpError("is not an op of lm");
    auto weight = dyn_cast<lm::WeightOp>(op);
    if (!weight)
      return success();
    auto checkpoints = getOperation()->getAttrOfType<DictionaryAttr>(
        lm::LmDialect::kCheckpointsAttrName);
    if (!checkpoints || !checkpoints.contains(weight.getCheckpoint()))
      return op->emitOpError("names the checkpoint '")
             << weight.getCheckpoint() << "', which "
             << lm::LmDialect::kCheckpointsAttrName << " does not hold";
    return success();
  }
};
} // namespace
