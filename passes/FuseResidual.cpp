//===- FuseResidual.cpp - The residual into a layer's epilogue ------------===//

#include "dialects/lm/LmOps.h"
#include "passes/LinearLayer.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tandem {
#define GEN_PASS_DEF_FUSERESIDUALPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
struct FuseResidual : OpRewritePattern<lm::AddOp> {
  FuseResidual(MLIRContext *context, int64_t &numFused)
      : OpRewritePattern(context), numFused(numFused) {}

  LogicalResult matchAndRewrite(lm::AddOp op,
                                PatternRewriter &rewriter) const override {
    for (auto [sum, residual] : {std::pair(op.getRhs(), op.getLhs()),
                                 std::pair(op.getLhs(), op.getRhs())}) {
      Operation *producer = sum.getDefiningOp();
      std::optional<LinearLayer> layer = LinearLayer::match(producer);
      if (!layer || layer->residual || producer->getNumResults() != 1 ||
          !sum.hasOneUse())
        continue;
      layer->residual = residual;
      rewriter.replaceOp(
          op, layer->create(rewriter, producer->getLoc(), op.getType()));
      ++numFused;
      return success();
    }
    return rewriter.notifyMatchFailure(op, "adds no layer of its own");
  }

  int64_t &numFused;
};

struct FuseResidualPass : tandem::impl::FuseResidualPassBase<FuseResidualPass> {
  using FuseResidualPassBase::FuseResidualPassBase;

  void runOnOperation() override {
    int64_t numFused = 0;
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseResidual>(&getContext(), numFused);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    reportCount(*this, getOperation(), report, numFused,
                "layers add a residual");
  }
};
} // namespace
