//===- LowerSlidingWindow.cpp - Windowed caches become rings --------------===//
//
// A query at position q sees keys behind q - window. With `rows` queries from
// `start` on, the keys that are seen lie in
//
//   [start - window + 1, start + rows - 1]      window + rows - 1 positions
//
// and nothing behind start + rows - 1 has been written, so a ring of that many
// slots still holds all of them.
//
//===----------------------------------------------------------------------===//

#include "dialects/lm/LmOps.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

namespace tandem {
#define GEN_PASS_DEF_LOWERSLIDINGWINDOWPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

/// Slots of a ring are a multiple of the tile of keys that attention reads.
static constexpr int64_t kKeyTile = 16;

namespace {
/// All values of one state in the module, and what its readers need.
struct CacheUses {
  SmallVector<Value> values;
  /// Positions that must be held for the readers; 0 when nothing reads.
  int64_t neededSlots = 0;
  /// Whether every reader has a window.
  bool windowed = true;
};

struct LowerSlidingWindowPass
    : tandem::impl::LowerSlidingWindowPassBase<LowerSlidingWindowPass> {
  using LowerSlidingWindowPassBase::LowerSlidingWindowPassBase;

  void runOnOperation() override {
    int64_t numRings = 0;
    llvm::MapVector<StringAttr, CacheUses> states;
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (BlockArgument argument : function.getArguments()) {
        auto name = function.getArgAttrOfType<StringAttr>(
            argument.getArgNumber(), lm::LmDialect::kStateAttrName);
        if (name && isa<lm::KvCacheType>(argument.getType()) &&
            failed(collectUses(argument, states[name])))
          return signalPassFailure();
      }

    for (auto &[name, uses] : states) {
      auto type = cast<lm::KvCacheType>(uses.values.front().getType());
      int64_t slots = llvm::alignTo(uses.neededSlots, kKeyTile);
      if (type.getRing() || !uses.windowed || uses.neededSlots == 0 ||
          slots >= type.getSlots())
        continue;
      auto ring =
          lm::KvCacheType::get(&getContext(), slots, type.getHeads(),
                               type.getDim(), type.getElementType(), true);
      for (Value value : uses.values)
        value.setType(ring);
      ++numRings;
    }

    for (auto function : getOperation().getOps<func::FuncOp>())
      updateType(function);
    reportCount(*this, getOperation(), report, numRings, "caches became rings");
  }

private:
  /// Follows the cache from `value` through the ops that update it.
  static LogicalResult collectUses(Value value, CacheUses &uses) {
    SmallVector<Value> worklist = {value};
    while (!worklist.empty()) {
      Value current = worklist.pop_back_val();
      uses.values.push_back(current);
      for (Operation *user : current.getUsers()) {
        if (auto append = dyn_cast<lm::CacheAppendOp>(user)) {
          worklist.push_back(append.getResult());
        } else if (auto attention = dyn_cast<lm::AttentionOp>(user)) {
          std::optional<int64_t> window = attention.getWindow();
          uses.windowed &= window.has_value();
          if (window)
            uses.neededSlots = std::max(
                uses.neededSlots,
                *window + attention.getQuery().getType().getDimSize(0) - 1);
        } else if (!isa<func::ReturnOp>(user)) {
          return user->emitOpError(
              "reads a cache in a way that cannot become a ring");
        }
      }
    }
    return success();
  }

  static void updateType(func::FuncOp function) {
    if (function.isExternal())
      return;
    Operation *terminator = function.front().getTerminator();
    function.setType(FunctionType::get(function.getContext(),
                                       function.front().getArgumentTypes(),
                                       terminator->getOperandTypes()));
  }
};
} // namespace
