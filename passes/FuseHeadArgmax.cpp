//===- FuseHeadArgmax.cpp - Tokens without logits in memory ---------------===//

#include "dialects/lm/LmOps.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tandem {
#define GEN_PASS_DEF_FUSEHEADARGMAXPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
struct FuseHeadArgmax : OpRewritePattern<lm::ArgmaxOp> {
  FuseHeadArgmax(MLIRContext *context, int64_t &numFused)
      : OpRewritePattern(context), numFused(numFused) {}

  LogicalResult matchAndRewrite(lm::ArgmaxOp op,
                                PatternRewriter &rewriter) const override {
    auto head = op.getLogits().getDefiningOp<lm::LinearOp>();
    if (!head)
      return rewriter.notifyMatchFailure(op, "logits come from elsewhere");
    if (!head->hasOneUse())
      return rewriter.notifyMatchFailure(op, "logits have another user");
    rewriter.replaceOpWithNewOp<lm::HeadArgmaxOp>(
        op, op.getType(), head.getInput(), head.getWeight(),
        /*search=*/false, /*rounding=*/nullptr);
    ++numFused;
    return success();
  }

  int64_t &numFused;
};

struct FuseHeadArgmaxPass
    : tandem::impl::FuseHeadArgmaxPassBase<FuseHeadArgmaxPass> {
  using FuseHeadArgmaxPassBase::FuseHeadArgmaxPassBase;

  void runOnOperation() override {
    int64_t numFused = 0;
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseHeadArgmax>(&getContext(), numFused);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    reportCount(*this, getOperation(), report, numFused,
                "heads write no logits");
  }
};
} // namespace
