//===- HoistLastRow.cpp - Compute only the row that is used ---------------===//
//
// A prefill wants the logits of its last row. Everything between the last cache
// and the head is row by row, so it is enough to compute it for that row.
//
//===----------------------------------------------------------------------===//

#include "dialects/lm/LmOps.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tandem {
#define GEN_PASS_DEF_HOISTLASTROWPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

/// The type of one row of `type`.
static Type oneRow(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get({1, tensor.getDimSize(1)},
                               tensor.getElementType());
}

/// The activations of `op` when row r of its results is made of their rows r,
/// nothing otherwise.
static ValueRange getRowWiseOperands(Operation *op) {
  if (isa<lm::LinearOp, lm::QuantLinearOp, lm::RmsNormOp, lm::L2NormOp>(op))
    return op->getOperands().take_front(1);
  if (isa<lm::GatedRmsNormOp>(op))
    return op->getOperands().take_front(2);
  if (isa<lm::AddOp, lm::MulOp, lm::SiluOp, lm::SigmoidOp, lm::SplitOp,
          lm::ConcatFeaturesOp>(op))
    return op->getOperands();
  return {};
}

namespace {
struct HoistLastRow : OpRewritePattern<lm::LastRowOp> {
  HoistLastRow(MLIRContext *context, int64_t &numHoisted)
      : OpRewritePattern(context), numHoisted(numHoisted) {}

  LogicalResult matchAndRewrite(lm::LastRowOp op,
                                PatternRewriter &rewriter) const override {
    Operation *producer = op.getInput().getDefiningOp();
    if (!producer)
      return rewriter.notifyMatchFailure(op, "reads an argument");
    // All that is computed must be for last rows, or nothing would be saved.
    for (Operation *user : producer->getUsers()) {
      auto other = dyn_cast<lm::LastRowOp>(user);
      if (!other || other.getCount() != op.getCount())
        return rewriter.notifyMatchFailure(op, "other rows are used too");
    }
    rewriter.setInsertionPoint(producer);
    IRMapping mapping;
    ValueRange activations = getRowWiseOperands(producer);
    if (!activations.empty()) {
      mapRows(producer, activations, op.getCount(), mapping, rewriter);
    } else if (auto attention = dyn_cast<lm::AttentionOp>(producer)) {
      // One row at the last position, which is the last one in the cache.
      if (attention.getCount() != op.getCount() || attention.getGate())
        return rewriter.notifyMatchFailure(op, "attends with another count");
      mapRows(producer, attention.getQuery(), op.getCount(), mapping, rewriter);
      mapPosition(attention.getStart(), op.getCount(), mapping, rewriter);
    } else if (auto rope = dyn_cast<lm::RopeOp>(producer)) {
      mapRows(producer, rope.getInput(), op.getCount(), mapping, rewriter);
      mapPosition(rope.getStart(), op.getCount(), mapping, rewriter);
    } else {
      return rewriter.notifyMatchFailure(op, "its input is not row by row");
    }

    Operation *narrow = rewriter.clone(*producer, mapping);
    for (Value result : narrow->getResults())
      result.setType(oneRow(result.getType()));
    // The count of an attention says how many rows there are: one.
    if (auto attention = dyn_cast<lm::AttentionOp>(narrow))
      attention.getCountMutable().clear();
    for (auto [before, after] :
         llvm::zip_equal(producer->getResults(), narrow->getResults()))
      for (Operation *user : llvm::make_early_inc_range(before.getUsers()))
        rewriter.replaceOp(user, after);
    rewriter.eraseOp(producer);
    ++numHoisted;
    return success();
  }

private:
  /// Maps every one of `operands` of `producer` to its last row.
  static void mapRows(Operation *producer, ValueRange operands, Value count,
                      IRMapping &mapping, PatternRewriter &rewriter) {
    for (Value operand : operands)
      if (!mapping.contains(operand))
        mapping.map(operand, lm::LastRowOp::create(rewriter, producer->getLoc(),
                                                   oneRow(operand.getType()),
                                                   operand, count)
                                 .getResult());
  }

  static void mapPosition(Value start, Value count, IRMapping &mapping,
                          PatternRewriter &rewriter) {
    mapping.map(start, lm::LastPositionOp::create(rewriter, start.getLoc(),
                                                  start, count)
                           .getResult());
  }

  int64_t &numHoisted;
};

struct HoistLastRowPass : tandem::impl::HoistLastRowPassBase<HoistLastRowPass> {
  using HoistLastRowPassBase::HoistLastRowPassBase;

  void runOnOperation() override {
    int64_t numHoisted = 0;
    RewritePatternSet patterns(&getContext());
    patterns.add<HoistLastRow>(&getContext(), numHoisted);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    reportCount(*this, getOperation(), report, numHoisted,
                "ops compute one row");
  }
};
} // namespace
