//===- FuseAttentionGate.cpp - The output gate into attention -------------===//

#include "dialects/lm/LmOps.h"
#include "passes/Passes.h"
#include "passes/Report.h"
#include "passes/ValueOrder.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tandem {
#define GEN_PASS_DEF_FUSEATTENTIONGATEPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
struct FuseAttentionGate : OpRewritePattern<lm::MulOp> {
  FuseAttentionGate(MLIRContext *context, int64_t &numFused)
      : OpRewritePattern(context), numFused(numFused) {}

  LogicalResult matchAndRewrite(lm::MulOp op,
                                PatternRewriter &rewriter) const override {
    for (auto [output, open] : {std::pair(op.getLhs(), op.getRhs()),
                                std::pair(op.getRhs(), op.getLhs())}) {
      auto attention = output.getDefiningOp<lm::AttentionOp>();
      auto sigmoid = open.getDefiningOp<lm::SigmoidOp>();
      if (!attention || !sigmoid || attention.getGate() ||
          !output.hasOneUse() || !open.hasOneUse() ||
          !isThereBefore(sigmoid.getInput(), attention))
        continue;
      rewriter.modifyOpInPlace(attention, [&] {
        attention.getGateMutable().assign(sigmoid.getInput());
      });
      rewriter.replaceOp(op, output);
      ++numFused;
      return success();
    }
    return rewriter.notifyMatchFailure(op, "gates no attention");
  }

private:
  int64_t &numFused;
};

struct FuseAttentionGatePass
    : tandem::impl::FuseAttentionGatePassBase<FuseAttentionGatePass> {
  using FuseAttentionGatePassBase::FuseAttentionGatePassBase;

  void runOnOperation() override {
    int64_t numFused = 0;
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseAttentionGate>(&getContext(), numFused);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    reportCount(*this, getOperation(), report, numFused, "outputs gated");
  }
};
} // namespace
