//===- FuseDeltaNorm.cpp - The gated norm into the delta rule -------------===//

#include "dialects/lm/LmOps.h"
#include "dialects/plan/SavedRows.h"
#include "passes/Passes.h"
#include "passes/Report.h"
#include "passes/ValueOrder.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tandem {
#define GEN_PASS_DEF_FUSEDELTANORMPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
struct FuseDeltaNorm : OpRewritePattern<lm::GatedRmsNormOp> {
  FuseDeltaNorm(MLIRContext *context, int64_t &numFused)
      : OpRewritePattern(context), numFused(numFused) {}

  LogicalResult matchAndRewrite(lm::GatedRmsNormOp op,
                                PatternRewriter &rewriter) const override {
    auto delta = op.getInput().getDefiningOp<lm::GatedDeltaOp>();
    if (!delta || op.getInput() != delta.getOutput() || delta.getGate() ||
        delta.getCommit() || !delta.getOutput().hasOneUse() || !canNorm(delta))
      return rewriter.notifyMatchFailure(op, "norms no delta rule of its own");
    auto weight = cast<RankedTensorType>(op.getWeight().getType());
    if (weight.getDimSize(0) != delta.getCache().getType().getValueDim())
      return rewriter.notifyMatchFailure(op, "norms other runs");
    if (!isThereBefore(op.getGate(), delta))
      return rewriter.notifyMatchFailure(op, "the gate comes later");
    // Weights are nowhere in particular.
    if (Operation *producer = op.getWeight().getDefiningOp())
      if (!isThereBefore(op.getWeight(), delta)) {
        if (!isa<lm::WeightOp>(producer))
          return rewriter.notifyMatchFailure(op, "the weight comes later");
        rewriter.moveOpBefore(producer, delta);
      }
    rewriter.modifyOpInPlace(delta, [&] {
      delta.getGateMutable().assign(op.getGate());
      delta.getNormWeightMutable().assign(op.getWeight());
      delta.setNormEpsAttr(op.getEpsAttr());
    });
    rewriter.replaceOp(op, delta.getOutput());
    ++numFused;
    return success();
  }

private:
  static bool canNorm(lm::GatedDeltaOp delta) {
    lm::DeltaCacheType cache = delta.getCache().getType();
    int64_t bits = cast<RankedTensorType>(delta.getOutput().getType())
                       .getElementTypeBitWidth();
    return plan::canSaveRows(cache.getPending(), cache.getKeyDim()) &&
           plan::canNormRows(cache.getValueDim(), bits / 8);
  }

  int64_t &numFused;
};

struct FuseDeltaNormPass
    : tandem::impl::FuseDeltaNormPassBase<FuseDeltaNormPass> {
  using FuseDeltaNormPassBase::FuseDeltaNormPassBase;

  void runOnOperation() override {
    int64_t numFused = 0;
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseDeltaNorm>(&getContext(), numFused);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    reportCount(*this, getOperation(), report, numFused, "outputs normalized");
  }
};
} // namespace
