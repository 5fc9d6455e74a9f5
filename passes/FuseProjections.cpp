//===- FuseProjections.cpp - Linear layers of one input -------------------===//

#include "dialects/lm/LmOps.h"
#include "passes/LinearLayer.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/MapVector.h"

namespace tandem {
#define GEN_PASS_DEF_FUSEPROJECTIONSPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
/// Layers of one input and one format whose results are of one type, in order.
struct Group {
  LinearLayer layer;
  SmallVector<Operation *> ops;
};

struct FuseProjectionsPass
    : tandem::impl::FuseProjectionsPassBase<FuseProjectionsPass> {
  using FuseProjectionsPassBase::FuseProjectionsPassBase;

  void runOnOperation() override {
    int64_t numFused = 0;
    IRRewriter rewriter(&getContext());
    getOperation()->walk(
        [&](Block *block) { numFused += fuseBlock(*block, rewriter); });
    reportCount(*this, getOperation(), report, numFused,
                "linear layers share a launch");
  }

private:
  /// Returns the number of layers that were put together with others.
  static int64_t fuseBlock(Block &block, IRRewriter &rewriter) {
    llvm::MapVector<Value, SmallVector<Group>> groups;
    for (Operation &op : block) {
      if (!isa<lm::LinearOp, lm::QuantLinearOp>(op))
        continue;
      std::optional<LinearLayer> layer = LinearLayer::match(&op);
      SmallVector<Group> &candidates = groups[layer->input];
      Group *group = llvm::find_if(candidates, [&](const Group &candidate) {
        return candidate.layer.hasFormatOf(*layer) &&
               getElementTypeOrSelf(candidate.ops.front()->getResult(0)) ==
                   getElementTypeOrSelf(op.getResult(0));
      });
      if (group != candidates.end()) {
        group->layer.append(*layer);
        group->ops.push_back(&op);
      } else {
        candidates.push_back({*layer, {&op}});
      }
    }

    int64_t numFused = 0;
    for (auto &[input, candidates] : groups)
      for (Group &group : candidates)
        if (group.ops.size() > 1 && succeeded(fuse(group, rewriter)))
          numFused += group.ops.size();
    return numFused;
  }

  static LogicalResult fuse(const Group &group, IRRewriter &rewriter) {
    Operation *first = group.ops.front();
    if (failed(group.layer.moveWeightsBefore(first, rewriter)))
      return failure();
    SmallVector<Type> types;
    SmallVector<Location> locations;
    for (Operation *op : group.ops) {
      types.push_back(op->getResult(0).getType());
      locations.push_back(op->getLoc());
    }
    rewriter.setInsertionPoint(first);
    auto fused = group.layer.create(
        rewriter, FusedLoc::get(rewriter.getContext(), locations), types);
    for (auto [op, result] : llvm::zip_equal(group.ops, fused.getResults()))
      rewriter.replaceOp(op, result);
    return success();
  }
};
} // namespace
