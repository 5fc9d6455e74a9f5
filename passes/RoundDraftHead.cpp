//===- RoundDraftHead.cpp - A small head for drafts -----------------------===//

#include "dialects/lm/LmOps.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace tandem {
#define GEN_PASS_DEF_ROUNDDRAFTHEADPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

/// Columns that share a scale; 0 where no group fits.
static int64_t getGroup(int64_t columns) {
  for (int64_t group : {128, 64})
    if (columns % group == 0)
      return group;
  return 0;
}

namespace {
struct RoundDraftHeadPass
    : tandem::impl::RoundDraftHeadPassBase<RoundDraftHeadPass> {
  using RoundDraftHeadPassBase::RoundDraftHeadPassBase;

  void runOnOperation() override {
    int64_t numRounded = 0;
    for (auto loop : getOperation().getOps<lm::SpeculateOp>()) {
      std::optional<StringRef> name = loop.getDraft();
      if (!name)
        continue;
      auto function = getOperation().lookupSymbol<func::FuncOp>(*name);
      function.walk([&](lm::HeadArgmaxOp op) {
        auto type = cast<RankedTensorType>(op.getWeight().getType());
        int64_t group = getGroup(type.getDimSize(1));
        if (op.getSearch() || op.getRounding() || group == 0 ||
            !type.getElementType().isBF16())
          return;
        op.setRoundingAttr(lm::GroupedAttr::get(&getContext(), 4, group,
                                                /*zeroPoints=*/false,
                                                /*floatCodes=*/false));
        ++numRounded;
      });
    }
    reportCount(*this, getOperation(), report, numRounded, "heads are rounded");
  }
};
} // namespace
