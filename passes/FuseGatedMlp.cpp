//===- FuseGatedMlp.cpp - gate, up, silu, mul to one layer ----------------===//

#include "dialects/lm/LmOps.h"
#include "passes/LinearLayer.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tandem {
#define GEN_PASS_DEF_FUSEGATEDMLPPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
struct FuseGatedMlp : OpRewritePattern<lm::MulOp> {
  FuseGatedMlp(MLIRContext *context, int64_t &numFused)
      : OpRewritePattern(context), numFused(numFused) {}

  LogicalResult matchAndRewrite(lm::MulOp op,
                                PatternRewriter &rewriter) const override {
    auto silu = op.getLhs().getDefiningOp<lm::SiluOp>();
    Value upValue = op.getRhs();
    if (!silu) {
      silu = op.getRhs().getDefiningOp<lm::SiluOp>();
      upValue = op.getLhs();
    }
    if (!silu || !silu->hasOneUse())
      return rewriter.notifyMatchFailure(op, "no silu of its own");
    std::optional<LinearLayer> gate =
        LinearLayer::match(silu.getInput().getDefiningOp());
    std::optional<LinearLayer> up = LinearLayer::match(upValue.getDefiningOp());
    if (!gate || !up)
      return rewriter.notifyMatchFailure(op, "factors are no linear layers");
    if (!silu.getInput().hasOneUse() || !upValue.hasOneUse())
      return rewriter.notifyMatchFailure(op, "a layer has another user");
    if (gate->input != up->input || !gate->hasFormatOf(*up))
      return rewriter.notifyMatchFailure(op, "inputs or formats differ");
    if (gate->weights.size() != 1 || up->weights.size() != 1 ||
        gate->normWeight || up->normWeight || gate->residual || up->residual)
      return rewriter.notifyMatchFailure(op, "a layer is fused already");
    gate->append(*up);
    gate->gated = true;
    rewriter.replaceOp(op, gate->create(rewriter, op.getLoc(), op.getType()));
    ++numFused;
    return success();
  }

  int64_t &numFused;
};

struct FuseGatedMlpPass : tandem::impl::FuseGatedMlpPassBase<FuseGatedMlpPass> {
  using FuseGatedMlpPassBase::FuseGatedMlpPassBase;

  void runOnOperation() override {
    int64_t numFused = 0;
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseGatedMlp>(&getContext(), numFused);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    reportCount(*this, getOperation(), report, numFused, "gated layers fused");
  }
};
} // namespace
