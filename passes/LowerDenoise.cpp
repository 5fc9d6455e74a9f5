//===- LowerDenoise.cpp - The diffusion steps of a block, spelled out -----===//

#include "dialects/lm/LmOps.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/MathExtras.h"

namespace tandem {
#define GEN_PASS_DEF_LOWERDENOISEPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

/// Clones the body of `op` at the insertion point of `rewriter`, run on `block`
/// and `caches`. Returns what it yields: logits, then caches.
static SmallVector<Value> cloneBody(lm::DenoiseOp op, Value block,
                                    ValueRange caches, RewriterBase &rewriter) {
  Block &body = op.getBody().front();
  IRMapping mapping;
  mapping.map(body.getArgument(0), block);
  for (auto [argument, cache] :
       llvm::zip_equal(body.getArguments().drop_front(), caches))
    mapping.map(argument, cache);
  for (Operation &nested : body.without_terminator())
    rewriter.clone(nested, mapping);
  return llvm::map_to_vector(
      body.getTerminator()->getOperands(),
      [&](Value value) { return mapping.lookupOrDefault(value); });
}

static void lowerDenoise(lm::DenoiseOp op, RewriterBase &rewriter) {
  rewriter.setInsertionPoint(op);
  Location loc = op.getLoc();
  Type blockType = op.getBlock().getType();
  int64_t slots = op.getSize() - 1, steps = op.getSteps();

  Value block = lm::MaskBlockOp::create(rewriter, loc, blockType,
                                        op.getAnchor(), op.getMaskTokenAttr());
  SmallVector<Value> caches(op.getCaches());
  Value logits;
  int64_t filled = 0;
  for (int64_t step = 1; step <= steps; ++step) {
    SmallVector<Value> yielded = cloneBody(op, block, caches, rewriter);
    logits = yielded.front();
    caches.assign(yielded.begin() + 1, yielded.end());
    if (steps == 1) {
      // Every slot is filled: no confidences are needed.
      Value drafts = lm::ArgmaxOp::create(
          rewriter, loc, RankedTensorType::get({slots}, rewriter.getI32Type()),
          logits);
      block = lm::ConcatTokensOp::create(rewriter, loc, blockType,
                                         op.getAnchor(), drafts);
      break;
    }
    int64_t target = llvm::divideCeil(slots * step, steps);
    block = lm::UnmaskOp::create(rewriter, loc, block, logits,
                                 op.getMaskTokenAttr(),
                                 rewriter.getI64IntegerAttr(target - filled));
    filled = target;
  }

  SmallVector<Value> results = {block, logits};
  llvm::append_range(results, caches);
  rewriter.replaceOp(op, results);
}

namespace {
struct LowerDenoisePass : tandem::impl::LowerDenoisePassBase<LowerDenoisePass> {
  using LowerDenoisePassBase::LowerDenoisePassBase;

  void runOnOperation() override {
    int64_t numLowered = 0;
    IRRewriter rewriter(&getContext());
    getOperation()->walk([&](lm::DenoiseOp op) {
      lowerDenoise(op, rewriter);
      ++numLowered;
    });
    reportCount(*this, getOperation(), report, numLowered,
                "denoise ops lowered");
  }
};
} // namespace
