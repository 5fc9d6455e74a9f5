//===- FuseNormLinear.cpp - A norm into the layers that read it -----------===//

#include "dialects/lm/LmOps.h"
#include "passes/LinearLayer.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tandem {
#define GEN_PASS_DEF_FUSENORMLINEARPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
struct FuseNormLinear : OpRewritePattern<lm::RmsNormOp> {
  FuseNormLinear(MLIRContext *context, int64_t &numFused)
      : OpRewritePattern(context), numFused(numFused) {}

  LogicalResult matchAndRewrite(lm::RmsNormOp op,
                                PatternRewriter &rewriter) const override {
    if (cast<RankedTensorType>(op.getWeight().getType()).getDimSize(0) !=
        op.getType().getDimSize(1))
      return rewriter.notifyMatchFailure(op, "normalizes parts of a row");
    SmallVector<Operation *> users(op->getUsers());
    if (users.empty())
      return rewriter.notifyMatchFailure(op, "nothing reads the norm");
    // The norm goes away only when every reader computes it for itself.
    for (Operation *user : users) {
      std::optional<LinearLayer> layer = LinearLayer::match(user);
      if (!layer || layer->input != op.getResult() || layer->normWeight)
        return rewriter.notifyMatchFailure(op, "has a user of another kind");
      // A residual that is the norm itself would keep it alive.
      if (layer->residual == op.getResult())
        return rewriter.notifyMatchFailure(op, "is added to a layer");
    }
    auto norm =
        lm::NormAttr::get(op.getContext(), op.getEpsAttr(), op.getOffsetAttr());
    for (Operation *user : users) {
      LinearLayer layer = *LinearLayer::match(user);
      layer.input = op.getInput();
      layer.normWeight = op.getWeight();
      layer.norm = norm;
      rewriter.setInsertionPoint(user);
      rewriter.replaceOp(
          user, layer.create(rewriter, user->getLoc(), user->getResultTypes()));
      ++numFused;
    }
    rewriter.eraseOp(op);
    return success();
  }

  int64_t &numFused;
};

struct FuseNormLinearPass
    : tandem::impl::FuseNormLinearPassBase<FuseNormLinearPass> {
  using FuseNormLinearPassBase::FuseNormLinearPassBase;

  void runOnOperation() override {
    int64_t numFused = 0;
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseNormLinear>(&getContext(), numFused);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    reportCount(*this, getOperation(), report, numFused,
                "layers normalize their input");
  }
};
} // namespace
