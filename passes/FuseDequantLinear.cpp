//===- FuseDequantLinear.cpp - dequant + linear to quant_linear -----------===//

#include "dialects/lm/LmOps.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tandem {
#define GEN_PASS_DEF_FUSEDEQUANTLINEARPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
struct FuseDequantLinear : OpRewritePattern<lm::LinearOp> {
  FuseDequantLinear(MLIRContext *context, int64_t &numFused)
      : OpRewritePattern(context), numFused(numFused) {}

  LogicalResult matchAndRewrite(lm::LinearOp op,
                                PatternRewriter &rewriter) const override {
    auto dequant = op.getWeight().getDefiningOp<lm::DequantOp>();
    if (!dequant)
      return rewriter.notifyMatchFailure(op, "weight is not dequantized");
    if (!dequant.getType().getElementType().isF32())
      return rewriter.notifyMatchFailure(
          op, "weight is rounded after it is dequantized");
    rewriter.replaceOpWithNewOp<lm::QuantLinearOp>(
        op, op.getType(), op.getInput(), dequant.getCodes(),
        dequant.getScales(), dequant.getQuantization());
    ++numFused;
    return success();
  }

  int64_t &numFused;
};

struct FuseDequantLinearPass
    : tandem::impl::FuseDequantLinearPassBase<FuseDequantLinearPass> {
  using FuseDequantLinearPassBase::FuseDequantLinearPassBase;

  void runOnOperation() override {
    int64_t numFused = 0;
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseDequantLinear>(&getContext(), numFused);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    reportCount(*this, getOperation(), report, numFused,
                "linear layers read a packed weight");
  }
};
} // namespace
