//===- RestrictDraftVocabulary.cpp - Drafts of some tokens ----------------===//

#include "dialects/lm/LmOps.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace tandem {
#define GEN_PASS_DEF_RESTRICTDRAFTVOCABULARYPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

/// Lets \p op look at the tokens of \p set alone.
static LogicalResult restrict(lm::HeadArgmaxOp op, lm::TokenSetAttr set) {
  auto type = cast<RankedTensorType>(op.getWeight().getType());
  if (set.getTokens().back() >= type.getDimSize(0))
    return op.emitOpError("knows ")
           << type.getDimSize(0) << " tokens, expected one of id "
           << set.getTokens().back();
  OpBuilder builder(op);
  auto rows = lm::SelectRowsOp::create(
      builder, op.getLoc(),
      RankedTensorType::get({set.size(), type.getDimSize(1)},
                            type.getElementType()),
      op.getWeight(), set);
  op.getWeightMutable().assign(rows);
  builder.setInsertionPointAfter(op);
  auto tokens =
      lm::SelectTokensOp::create(builder, op.getLoc(), op.getResult(), set);
  op.getResult().replaceAllUsesExcept(tokens, tokens);
  return success();
}

namespace {
struct RestrictDraftVocabularyPass
    : tandem::impl::RestrictDraftVocabularyPassBase<
          RestrictDraftVocabularyPass> {
  using RestrictDraftVocabularyPassBase::RestrictDraftVocabularyPassBase;

  void runOnOperation() override {
    SmallVector<int32_t> ids(tokens.begin(), tokens.end());
    auto emitError = [&] { return mlir::emitError(getOperation().getLoc()); };
    auto set = lm::TokenSetAttr::getChecked(
        llvm::function_ref<InFlightDiagnostic()>(emitError), &getContext(),
        ArrayRef<int32_t>(ids));
    if (!set)
      return signalPassFailure();
    int64_t numRestricted = 0;
    for (auto loop : getOperation().getOps<lm::SpeculateOp>()) {
      std::optional<StringRef> name = loop.getDraft();
      if (!name)
        continue;
      auto function = getOperation().lookupSymbol<func::FuncOp>(*name);
      SmallVector<lm::HeadArgmaxOp> heads;
      function.walk([&](lm::HeadArgmaxOp op) { heads.push_back(op); });
      for (lm::HeadArgmaxOp head : heads) {
        if (head.getWeight().getDefiningOp<lm::SelectRowsOp>())
          continue;
        if (failed(restrict(head, set)))
          return signalPassFailure();
        ++numRestricted;
      }
      // What was asked for must not get lost.
      if (heads.empty()) {
        loop.emitOpError("drafts by logits of all tokens, expected a head "
                         "whose tokens can be chosen: one diffusion step");
        return signalPassFailure();
      }
    }
    reportCount(*this, getOperation(), report, numRestricted,
                "heads are restricted");
  }
};
} // namespace
