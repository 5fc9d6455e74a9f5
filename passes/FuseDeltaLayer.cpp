//===- FuseDeltaLayer.cpp - The delta rule makes what it reads ------------===//

#include "dialects/plan/SavedRows.h"
#include "passes/DeltaLayer.h"
#include "passes/Passes.h"
#include "passes/Report.h"

namespace tandem {
#define GEN_PASS_DEF_FUSEDELTALAYERPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

lm::GatedDeltaOp tandem::findRuleThatMakesRows(lm::DeltaInputsOp inputs) {
  Value made[] = {inputs.getQuery(), inputs.getKey(), inputs.getValue(),
                  inputs.getDecay(), inputs.getBeta()};
  if (inputs.getCommit() ||
      !llvm::all_of(made, [](Value value) { return value.hasOneUse(); }))
    return {};
  auto rule = dyn_cast<lm::GatedDeltaOp>(*inputs.getQuery().user_begin());
  if (!rule || !rule.getGate() ||
      !llvm::equal(made, rule->getOperands().take_front(std::size(made))) ||
      rule.getAccepted() != inputs.getAccepted() ||
      rule.getCount() != inputs.getCount())
    return {};
  lm::DeltaCacheType cache = rule.getCache().getType();
  lm::ConvCacheType conv = inputs.getCache().getType();
  if (cache.getKeyDim() != static_cast<int64_t>(inputs.getKeyDim()) ||
      cache.getPending() != conv.getPending() ||
      !plan::canMakeRows(cache.getPending(), cache.getHeads(),
                         cache.getKeyHeads(), cache.getKeyDim(),
                         cache.getValueDim(), conv.getTaps()))
    return {};
  // What the convolution leaves is there when the rule is.
  for (Operation *user : inputs.getResult().getUsers())
    if (user->getBlock() != rule->getBlock() || user->isBeforeInBlock(rule))
      return {};
  return rule;
}

namespace {
struct FuseDeltaLayerPass
    : tandem::impl::FuseDeltaLayerPassBase<FuseDeltaLayerPass> {
  using FuseDeltaLayerPassBase::FuseDeltaLayerPassBase;

  void runOnOperation() override {
    int64_t numFused = 0;
    getOperation()->walk([&](lm::DeltaInputsOp inputs) {
      if (lm::GatedDeltaOp rule = findRuleThatMakesRows(inputs)) {
        rule->setAttr(lm::LmDialect::kMakesInputsAttrName,
                      UnitAttr::get(&getContext()));
        ++numFused;
      }
    });
    reportCount(*this, getOperation(), report, numFused,
                "rules make what they read");
  }
};
} // namespace
