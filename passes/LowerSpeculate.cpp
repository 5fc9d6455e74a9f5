//===- LowerSpeculate.cpp - The speculative loop to plan.loop -------------===//
//
// The table below is the one in runtime/README.md: what the loop writes before
// a program runs and reads behind it.
//
//===----------------------------------------------------------------------===//

#include "dialects/lm/LmOps.h"
#include "dialects/plan/PlanOps.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace tandem {
#define GEN_PASS_DEF_LOWERSPECULATEPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
/// A port that a program must have. Features are as wide as they come.
struct Port {
  StringRef name;
  int64_t rows;
  enum Kind { Tokens, Features, Logits } kind = Tokens;
};

struct LowerSpeculatePass
    : tandem::impl::LowerSpeculatePassBase<LowerSpeculatePass> {
  using LowerSpeculatePassBase::LowerSpeculatePassBase;

  void runOnOperation() override {
    SmallVector<lm::SpeculateOp> loops(
        getOperation().getOps<lm::SpeculateOp>());
    if (loops.empty())
      return reportCount(*this, getOperation(), report, 0, "loops lowered");
    if (loops.size() > 1) {
      loops[1].emitOpError("expects to be the only loop of the module");
      return signalPassFailure();
    }
    if (failed(verifyPrograms(loops.front())))
      return signalPassFailure();
    lower(loops.front());
    reportCount(*this, getOperation(), report, 1, "loops lowered");
  }

private:
  LogicalResult verifyPrograms(lm::SpeculateOp loop) {
    auto block = static_cast<int64_t>(loop.getBlock());
    auto chunk = static_cast<int64_t>(loop.getChunk());
    auto shortChunk = static_cast<int64_t>(loop.getShortChunk().value_or(0));
    auto scored = static_cast<int64_t>(loop.getScoreChunk());
    bool drafts = loop.getDraft().has_value();

    SmallVector<Port> prefillOut = {{"anchor", 1}};
    SmallVector<Port> scoreOut = {{"score_logits", scored, Port::Logits}};
    if (drafts) {
      prefillOut.push_back({"chunk_features", chunk, Port::Features});
      scoreOut.push_back({"score_features", scored, Port::Features});
    }
    SmallVector<Port> round = {
        {"accepted", 1}, {"anchor", 1}, {"start", 1}, {"context_start", 1}};
    SmallVector<Port> prefillIn = {
        {"chunk", chunk}, {"chunk_count", 1}, {"start", 1}, {"accepted", 1}};
    SmallVector<Port> shortIn = prefillIn, shortOut = prefillOut;
    shortIn[0] = {"short_chunk", shortChunk};
    if (drafts)
      shortOut[1] = {"short_features", shortChunk, Port::Features};
    SmallVector<Port> stepIn = {{"anchor", 1}, {"start", 1}, {"accepted", 1}};
    SmallVector<Port> stepOut = round;
    if (drafts)
      stepOut.push_back({"step_features", 1, Port::Features});
    SmallVector<Port> verifyIn = {
        {"block", block}, {"block_count", 1}, {"start", 1}, {"accepted", 1}};
    SmallVector<Port> verifyOut = {{"decided", block},
                                   {"features", block, Port::Features}};
    SmallVector<Port> draftIn = {{"anchor", 1},
                                 {"features", block, Port::Features},
                                 {"accepted", 1},
                                 {"context_start", 1},
                                 {"start", 1}};

    // Programs for the host to decide by also write logits.
    auto with = [](SmallVector<Port> ports, Port logits) {
      ports.push_back(logits);
      return ports;
    };
    Port anchorLogits = {"anchor_logits", 1, Port::Logits};
    Port blockLogits = {"logits", block, Port::Logits};

    auto check = [&](FlatSymbolRefAttr program, ArrayRef<Port> inputs,
                     ArrayRef<Port> outputs) {
      return program ? verifyProgram(loop, program, inputs, outputs)
                     : success();
    };
    return success(
        succeeded(check(loop.getPrefillAttr(), prefillIn, prefillOut)) &&
        succeeded(check(loop.getPrefillLogitsAttr(), prefillIn,
                        with(prefillOut, anchorLogits))) &&
        succeeded(check(loop.getStepAttr(), stepIn, stepOut)) &&
        succeeded(check(loop.getStepLogitsAttr(), stepIn,
                        with(stepOut, anchorLogits))) &&
        succeeded(check(loop.getContextAttr(),
                        {{"chunk_features", chunk, Port::Features},
                         {"chunk_count", 1},
                         {"start", 1}},
                        {})) &&
        succeeded(check(loop.getShortPrefillAttr(), shortIn, shortOut)) &&
        succeeded(check(loop.getShortPrefillLogitsAttr(), shortIn,
                        with(shortOut, anchorLogits))) &&
        succeeded(check(loop.getShortContextAttr(),
                        {{"short_features", shortChunk, Port::Features},
                         {"chunk_count", 1},
                         {"start", 1}},
                        {})) &&
        succeeded(check(loop.getDraftAttr(), draftIn, {{"block", block}})) &&
        succeeded(check(loop.getVerifyAttr(), verifyIn, verifyOut)) &&
        succeeded(check(loop.getVerifyLogitsAttr(), verifyIn,
                        with(verifyOut, blockLogits))) &&
        succeeded(check(loop.getAcceptAttr(),
                        {{"block", block},
                         {"decided", block},
                         {"block_count", 1},
                         {"start", 1}},
                        round)) &&
        succeeded(check(loop.getScoreAttr(),
                        {{"score_tokens", scored},
                         {"score_count", 1},
                         {"start", 1},
                         {"accepted", 1}},
                        scoreOut)) &&
        succeeded(check(
            loop.getScoreDraftAttr(), draftIn,
            {{"block", block}, {"draft_logits", block - 1, Port::Logits}})));
  }

  /// Width of the context features, once a program has told it.
  std::optional<int64_t> featureWidth;

  LogicalResult verifyProgram(lm::SpeculateOp loop, FlatSymbolRefAttr program,
                              ArrayRef<Port> inputs, ArrayRef<Port> outputs) {
    // The verifier of the op has seen it.
    auto function = getOperation().lookupSymbol<func::FuncOp>(program);
    if (failed(verifyPorts(loop, function, "argument", inputs,
                           function.getArgumentTypes(),
                           function.getAllArgAttrs())))
      return failure();
    return verifyPorts(loop, function, "result", outputs,
                       function.getResultTypes(), function.getAllResultAttrs());
  }

  /// `ports` are exactly those of the arguments or results.
  LogicalResult verifyPorts(lm::SpeculateOp loop, func::FuncOp function,
                            StringRef what, ArrayRef<Port> ports,
                            ArrayRef<Type> types, ArrayAttr attributes) {
    llvm::StringMap<Type> given;
    for (auto [index, type] : llvm::enumerate(types))
      if (auto dictionary =
              attributes ? cast<DictionaryAttr>(attributes[index]) : nullptr)
        if (auto name =
                dictionary.getAs<StringAttr>(lm::LmDialect::kPortAttrName))
          given[name] = type;
    for (const Port &port : ports) {
      auto entry = given.find(port.name);
      if (entry == given.end())
        return loop.emitOpError("expects @")
               << function.getName() << " to have the " << what << " '"
               << port.name << "'";
      Type expected = expectedType(loop, port, entry->second);
      if (entry->second != expected)
        return loop.emitOpError("expects the ")
               << what << " '" << port.name << "' of @" << function.getName()
               << " to be " << expected << ", but got " << entry->second;
      given.erase(entry);
    }
    if (!given.empty())
      return loop.emitOpError("does not know the ")
             << what << " '" << given.begin()->first() << "' of @"
             << function.getName();
    return success();
  }

  Type expectedType(lm::SpeculateOp loop, const Port &port, Type given) {
    Builder builder(&getContext());
    if (port.kind == Port::Tokens)
      return RankedTensorType::get({port.rows}, builder.getI32Type());
    if (port.kind == Port::Logits)
      return RankedTensorType::get(
          {port.rows, static_cast<int64_t>(loop.getVocabulary())},
          builder.getF32Type());
    auto type = dyn_cast<RankedTensorType>(given);
    if (!featureWidth && type && type.getRank() == 2)
      featureWidth = type.getDimSize(1);
    return RankedTensorType::get({port.rows, featureWidth.value_or(0)},
                                 type ? type.getElementType()
                                      : builder.getF32Type());
  }

  /// The two ops have the same attributes.
  static void lower(lm::SpeculateOp loop) {
    OpBuilder builder(loop);
    OperationState state(loop.getLoc(), plan::LoopOp::getOperationName());
    state.addAttributes(loop->getAttrs());
    builder.create(state);
    loop.erase();
  }
};
} // namespace
