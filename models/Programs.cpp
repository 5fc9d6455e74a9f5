//===- Programs.cpp - The programs of a pair ------------------------------===//

#include "models/Programs.h"

using namespace llvm;
using namespace mlir;
using namespace tandem;
using namespace tandem::models;

namespace {

class PairBuilder {
public:
  PairBuilder(ModuleOp module, const Pair &pair, const PairSizes &sizes,
              Type elementType)
      : module(module), pair(pair), target(pair.target), drafter(pair.drafter),
        sizes(sizes), elementType(elementType) {
    MLIRContext *context = module.getContext();
    targetStates = target.getStates(context, sizes.slots,
                                    /*pending=*/sizes.block, elementType);
    if (!drafter)
      return;
    drafterStates = drafter->getStates(context, sizes.slots, elementType);
    taps = pair.drafterConfig->targetLayers;
  }

  /// Each builds the program \p name of the target; one whose name ends in
  /// `_logits` also returns the logits that its tokens are the largest of, and
  /// one whose name begins with `short_` is for short prompts.
  void buildPrefill(StringRef name);
  void buildStep(StringRef name);
  void buildVerify(StringRef name);
  void buildScore();
  void buildAccept();
  void buildContext(StringRef name);
  /// `draft`, or `score_draft` when \p name says so, which also returns logits.
  void buildDraft(StringRef name);

private:
  Type getTokens(int64_t count) const {
    return RankedTensorType::get(
        {count}, IntegerType::get(elementType.getContext(), 32));
  }
  Type getScalar() const { return getTokens(1); }
  Type getFeatures(int64_t rows) const {
    int64_t columns = taps.size() * pair.targetConfig.hiddenSize;
    return RankedTensorType::get({rows, columns}, elementType);
  }

  /// Tokens and features of the prompt that the prefill or context \p name
  /// reads at a time.
  struct Chunk {
    StringRef tokens, features;
    int64_t rows;
  };
  Chunk getChunk(StringRef name) const {
    if (name.starts_with("short_"))
      return {"short_chunk", "short_features", sizes.shortChunk};
    return {"chunk", "chunk_features", sizes.chunk};
  }

  /// Starts a program on the target's caches.
  ProgramBuilder startTarget(StringRef name, ArrayRef<Port> inputs) {
    return ProgramBuilder(module, name, inputs, targetStates, elementType);
  }
  /// Starts a program on the drafter's caches.
  ProgramBuilder startDrafter(StringRef name, ArrayRef<Port> inputs) {
    return ProgramBuilder(module, name, inputs, drafterStates, elementType);
  }

  /// The tokens of port \p tokens, of which port \p count says how many live.
  static Value getLiveTokens(ProgramBuilder &program, StringRef tokens,
                             StringRef count) {
    Value input = program.getInput(tokens);
    return lm::LiveRowsOp::create(program.getBuilder(), program.getLoc(),
                                  input.getType(), input,
                                  program.getInput(count));
  }

  /// Ends \p program with \p results, and \p logits as port \p port when
  /// \p name says so.
  static void finish(ProgramBuilder &program, StringRef name,
                     SmallVector<std::pair<StringRef, Value>> results,
                     StringRef port, Value logits) {
    if (name.ends_with("_logits"))
      results.push_back({port, logits});
    program.finish(results);
  }

  /// The most likely token of each row of \p logits.
  Value argmax(ProgramBuilder &program, Value logits) const {
    int64_t rows = cast<RankedTensorType>(logits.getType()).getDimSize(0);
    return lm::ArgmaxOp::create(
        program.getBuilder(),
        getNameLoc(program.getBuilder(), target.getHead().module),
        getTokens(rows), logits);
  }

  ModuleOp module;
  const Pair &pair;
  const Qwen35 &target;
  const DFlash *drafter;
  const PairSizes &sizes;
  Type elementType;
  SmallVector<State> targetStates, drafterStates;
  /// Layers that the drafter reads; empty without one.
  ArrayRef<int64_t> taps;
};

} // namespace

//===----------------------------------------------------------------------===//
// Programs of the target
//===----------------------------------------------------------------------===//

void PairBuilder::buildPrefill(StringRef name) {
  Chunk chunk = getChunk(name);
  ProgramBuilder program =
      startTarget(name, {{chunk.tokens, getTokens(chunk.rows)},
                         {"chunk_count", getScalar()},
                         {"start", getScalar()},
                         {"accepted", getScalar()}});
  Value count = program.getInput("chunk_count");
  RowContext context = {program.getInput("start"), count,
                        program.getInput("accepted"), /*commit=*/true};
  Value tokens = getLiveTokens(program, chunk.tokens, "chunk_count");
  Qwen35::Streams streams =
      target.run(program.layers(), tokens, context, program.caches, taps);
  Value last = lm::LastRowOp::create(
      program.getBuilder(), program.getLoc(),
      program.layers().getRowsType(1, pair.targetConfig.hiddenSize),
      streams.last, count);
  Value logits = target.logits(program.layers(), last);
  SmallVector<std::pair<StringRef, Value>> results = {
      {"anchor", argmax(program, logits)}};
  if (drafter)
    results.push_back({chunk.features, streams.features});
  finish(program, name, results, "anchor_logits", logits);
}

void PairBuilder::buildStep(StringRef name) {
  ProgramBuilder program = startTarget(name, {{"anchor", getScalar()},
                                              {"start", getScalar()},
                                              {"accepted", getScalar()}});
  Value start = program.getInput("start"), anchor = program.getInput("anchor");
  // Nothing is committed: the row is pending until the next call keeps it, as
  // in verify, so that both leave the same state behind.
  RowContext context = {start, /*count=*/Value(), program.getInput("accepted"),
                        /*commit=*/false};
  Qwen35::Streams streams =
      target.run(program.layers(), anchor, context, program.caches, taps);
  Value logits = target.logits(program.layers(), streams.last);
  Value decided = argmax(program, logits);
  auto accept = lm::AcceptOp::create(program.getBuilder(), program.getLoc(),
                                     anchor, decided, start, /*count=*/Value());
  SmallVector<std::pair<StringRef, Value>> results = {
      {"anchor", accept.getAnchor()},
      {"accepted", accept.getAccepted()},
      {"start", accept.getNextStart()},
      {"context_start", accept.getContextStart()}};
  // A later draft may follow.
  if (drafter)
    results.push_back({"step_features", streams.features});
  finish(program, name, results, "anchor_logits", logits);
}

void PairBuilder::buildScore() {
  ProgramBuilder program =
      startTarget("score", {{"score_tokens", getTokens(sizes.scoreChunk)},
                            {"score_count", getScalar()},
                            {"start", getScalar()},
                            {"accepted", getScalar()}});
  RowContext context = {program.getInput("start"),
                        program.getInput("score_count"),
                        program.getInput("accepted"), /*commit=*/true};
  Value tokens = getLiveTokens(program, "score_tokens", "score_count");
  Qwen35::Streams streams =
      target.run(program.layers(), tokens, context, program.caches, taps);
  Value logits = target.logits(program.layers(), streams.last);
  if (drafter)
    program.finish(
        {{"score_logits", logits}, {"score_features", streams.features}});
  else
    program.finish({{"score_logits", logits}});
}

void PairBuilder::buildVerify(StringRef name) {
  ProgramBuilder program = startTarget(name, {{"block", getTokens(sizes.block)},
                                              {"block_count", getScalar()},
                                              {"start", getScalar()},
                                              {"accepted", getScalar()}});
  RowContext context = {program.getInput("start"),
                        program.getInput("block_count"),
                        program.getInput("accepted"), /*commit=*/false};
  Value tokens = getLiveTokens(program, "block", "block_count");
  Qwen35::Streams streams =
      target.run(program.layers(), tokens, context, program.caches, taps);
  Value logits = target.logits(program.layers(), streams.last);
  finish(program, name,
         {{"decided", argmax(program, logits)}, {"features", streams.features}},
         "logits", logits);
}

//===----------------------------------------------------------------------===//
// Programs of the drafter, and between the two
//===----------------------------------------------------------------------===//

void PairBuilder::buildAccept() {
  ProgramBuilder program(module, "accept",
                         {{"block", getTokens(sizes.block)},
                          {"decided", getTokens(sizes.block)},
                          {"block_count", getScalar()},
                          {"start", getScalar()}},
                         /*states=*/{}, elementType);
  auto accept = lm::AcceptOp::create(
      program.getBuilder(), program.getLoc(), program.getInput("block"),
      program.getInput("decided"), program.getInput("start"),
      program.getInput("block_count"));
  program.finish({{"accepted", accept.getAccepted()},
                  {"anchor", accept.getAnchor()},
                  {"start", accept.getNextStart()},
                  {"context_start", accept.getContextStart()}});
}

void PairBuilder::buildContext(StringRef name) {
  Chunk chunk = getChunk(name);
  ProgramBuilder program =
      startDrafter(name, {{chunk.features, getFeatures(chunk.rows)},
                          {"chunk_count", getScalar()},
                          {"start", getScalar()}});
  drafter->ingest(program.layers(), program.getInput(chunk.features),
                  program.getInput("start"), program.getInput("chunk_count"),
                  program.caches);
  program.finish({});
}

void PairBuilder::buildDraft(StringRef name) {
  ProgramBuilder program =
      startDrafter(name, {{"anchor", getScalar()},
                          {"features", getFeatures(sizes.block)},
                          {"accepted", getScalar()},
                          {"context_start", getScalar()},
                          {"start", getScalar()}});
  OpBuilder &builder = program.getBuilder();
  drafter->ingest(program.layers(), program.getInput("features"),
                  program.getInput("context_start"),
                  program.getInput("accepted"), program.caches);

  Type tokensType = getTokens(sizes.block);
  Type logitsType =
      RankedTensorType::get({sizes.block - 1, pair.targetConfig.vocabularySize},
                            builder.getF32Type());
  SmallVector<Type> types = {tokensType, logitsType};
  SmallVector<Type> cacheTypes =
      llvm::to_vector(ValueRange(program.caches).getTypes());
  llvm::append_range(types, cacheTypes);
  auto denoise = lm::DenoiseOp::create(
      builder, program.getLoc(), types, program.getInput("anchor"),
      program.caches, builder.getI32IntegerAttr(pair.drafterConfig->maskToken),
      builder.getI64IntegerAttr(sizes.block),
      builder.getI64IntegerAttr(sizes.denoiseSteps));
  {
    OpBuilder::InsertionGuard guard(builder);
    SmallVector<Type> argumentTypes = {tokensType};
    llvm::append_range(argumentTypes, cacheTypes);
    Block *body = builder.createBlock(
        &denoise.getBody(), {}, argumentTypes,
        SmallVector<Location>(argumentTypes.size(), program.getLoc()));
    SmallVector<Value> caches(body->getArguments().drop_front());
    SmallVector<Value> yielded = {
        drafter->draft(program.layers(), target, body->getArgument(0),
                       program.getInput("start"), caches)};
    llvm::append_range(yielded, caches);
    lm::YieldOp::create(builder, program.getLoc(), yielded);
  }
  program.caches = llvm::to_vector_of<Value>(denoise.getNewCaches());
  if (name == "score_draft")
    program.finish(
        {{"block", denoise.getBlock()}, {"draft_logits", denoise.getLogits()}});
  else
    program.finish({{"block", denoise.getBlock()}});
}

void tandem::models::buildPrograms(ModuleOp module, const Pair &pair,
                                   const PairSizes &sizes,
                                   ArrayRef<int32_t> stopTokens,
                                   Type elementType) {
  PairBuilder build(module, pair, sizes, elementType);
  build.buildPrefill("prefill");
  build.buildStep("step");
  if (pair.drafter) {
    build.buildContext("context");
    build.buildDraft("draft");
    build.buildVerify("verify");
    build.buildAccept();
  }
  build.buildScore();
  if (pair.drafter)
    build.buildDraft("score_draft");
  build.buildPrefill("prefill_logits");
  build.buildStep("step_logits");
  if (pair.drafter)
    build.buildVerify("verify_logits");
  bool hasShort = sizes.shortChunk > 0;
  if (hasShort) {
    build.buildPrefill("short_prefill");
    if (pair.drafter)
      build.buildContext("short_context");
    build.buildPrefill("short_prefill_logits");
  }

  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto symbol = [&](StringRef name) {
    return FlatSymbolRefAttr::get(builder.getContext(), name);
  };
  auto drafterSymbol = [&](StringRef name) {
    return pair.drafter ? symbol(name) : FlatSymbolRefAttr();
  };
  lm::SpeculateOp::create(
      builder, getNameLoc(builder, "speculate"), symbol("prefill"),
      symbol("step"), drafterSymbol("context"), drafterSymbol("draft"),
      drafterSymbol("verify"), drafterSymbol("accept"), symbol("score"),
      drafterSymbol("score_draft"), builder.getI64IntegerAttr(sizes.block),
      builder.getI64IntegerAttr(sizes.chunk),
      builder.getI64IntegerAttr(sizes.scoreChunk),
      builder.getI64IntegerAttr(sizes.maxContext),
      builder.getI64IntegerAttr(pair.targetConfig.vocabularySize),
      builder.getDenseI32ArrayAttr(stopTokens), symbol("prefill_logits"),
      symbol("step_logits"), drafterSymbol("verify_logits"),
      hasShort ? builder.getI64IntegerAttr(sizes.shortChunk) : IntegerAttr(),
      hasShort ? symbol("short_prefill") : FlatSymbolRefAttr(),
      hasShort ? drafterSymbol("short_context") : FlatSymbolRefAttr(),
      hasShort ? symbol("short_prefill_logits") : FlatSymbolRefAttr());
}
