//===- FuseDeltaInputs.cpp - Conv, silu, norms and gates in one -----------===//

#include "dialects/lm/LmOps.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tandem {
#define GEN_PASS_DEF_FUSEDELTAINPUTSPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
/// Rooted at the op that reads what is fused.
struct FuseDeltaInputs : OpRewritePattern<lm::GatedDeltaOp> {
  FuseDeltaInputs(MLIRContext *context, int64_t &numFused)
      : OpRewritePattern(context), numFused(numFused) {}

  LogicalResult matchAndRewrite(lm::GatedDeltaOp op,
                                PatternRewriter &rewriter) const override {
    auto query = op.getQuery().getDefiningOp<lm::L2NormOp>();
    auto key = op.getKey().getDefiningOp<lm::L2NormOp>();
    auto split = op.getValue().getDefiningOp<lm::SplitOp>();
    auto decay = op.getDecay().getDefiningOp<lm::DeltaGateOp>();
    auto beta = op.getBeta().getDefiningOp<lm::SigmoidOp>();
    if (!query || !key || !split || !decay || !beta)
      return rewriter.notifyMatchFailure(op, "operands come from elsewhere");
    if (split.getGroups() != 1 || split.getParts().size() != 3 ||
        query.getInput() != split.getParts()[0] ||
        key.getInput() != split.getParts()[1] ||
        op.getValue() != split.getParts()[2])
      return rewriter.notifyMatchFailure(op, "is not fed by query|key|value");
    if (query.getDim() != key.getDim() || query.getEps() != key.getEps())
      return rewriter.notifyMatchFailure(op, "query and key norms differ");
    auto silu = split.getInput().getDefiningOp<lm::SiluOp>();
    auto conv = silu ? silu.getInput().getDefiningOp<lm::ShortConvOp>()
                     : lm::ShortConvOp();
    if (!conv)
      return rewriter.notifyMatchFailure(op, "no convolution and silu before");
    if (conv.getCommit() != op.getCommit() ||
        conv.getAccepted() != op.getAccepted() ||
        conv.getCount() != op.getCount())
      return rewriter.notifyMatchFailure(op, "rows are kept differently");
    SmallVector<Value> between = {query.getResult(), key.getResult(),
                                  decay.getResult(), beta.getResult(),
                                  silu.getResult(),  conv.getOutput()};
    llvm::append_range(between, split.getParts());
    for (Value value : between)
      if (!value.hasOneUse())
        return rewriter.notifyMatchFailure(op, "an operand has another user");

    auto fused = lm::DeltaInputsOp::create(
        rewriter, conv.getLoc(),
        TypeRange{query.getType(), key.getType(), op.getValue().getType(),
                  decay.getType(), beta.getType(), conv.getCache().getType()},
        conv.getInput(), decay.getInput(), beta.getInput(), conv.getWeight(),
        decay.getALog(), decay.getDtBias(), conv.getCache(), conv.getAccepted(),
        conv.getCount(), query.getDimAttr(), query.getEpsAttr(),
        conv.getCommitAttr());
    rewriter.modifyOpInPlace(op, [&] {
      op.getQueryMutable().assign(fused.getQuery());
      op.getKeyMutable().assign(fused.getKey());
      op.getValueMutable().assign(fused.getValue());
      op.getDecayMutable().assign(fused.getDecay());
      op.getBetaMutable().assign(fused.getBeta());
    });
    rewriter.replaceAllUsesWith(conv.getResult(), fused.getResult());
    ++numFused;
    return success();
  }

  int64_t &numFused;
};

struct FuseDeltaInputsPass
    : tandem::impl::FuseDeltaInputsPassBase<FuseDeltaInputsPass> {
  using FuseDeltaInputsPassBase::FuseDeltaInputsPassBase;

  void runOnOperation() override {
    int64_t numFused = 0;
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseDeltaInputs>(&getContext(), numFused);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    reportCount(*this, getOperation(), report, numFused, "delta layers fused");
  }
};
} // namespace
