//===- SearchHeads.cpp - Heads that read half of their weight -------------===//

#include "dialects/lm/LmOps.h"
#include "dialects/plan/KernelFamilies.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringSet.h"

namespace tandem {
#define GEN_PASS_DEF_SEARCHHEADSPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

/// Whether rounded rows can stand in for those of the head.
static bool canSearch(lm::HeadArgmaxOp op) {
  auto type = cast<RankedTensorType>(op.getWeight().getType());
  return type.getElementType().isBF16() &&
         type.getDimSize(1) <= plan::kMaxSearchColumns;
}

namespace {
struct SearchHeadsPass : tandem::impl::SearchHeadsPassBase<SearchHeadsPass> {
  using SearchHeadsPassBase::SearchHeadsPassBase;

  void runOnOperation() override {
    llvm::StringSet<> drafts;
    for (auto loop : getOperation().getOps<lm::SpeculateOp>())
      if (std::optional<StringRef> name = loop.getDraft())
        drafts.insert(*name);
    int64_t numSearched = 0;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      bool isDraft = drafts.contains(function.getSymName());
      if (isDraft ? !draft : !target)
        continue;
      function.walk([&](lm::HeadArgmaxOp op) {
        if (op.getSearch() || op.getRounding() || !canSearch(op))
          return;
        op.setSearch(true);
        ++numSearched;
      });
    }
    reportCount(*this, getOperation(), report, numSearched,
                "heads are searched");
  }
};
} // namespace
