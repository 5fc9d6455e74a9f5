//===- FuseAttentionInputs.cpp - Norms, rotations and caches in one -------===//

#include "dialects/lm/LmOps.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tandem {
#define GEN_PASS_DEF_FUSEATTENTIONINPUTSPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
/// lm.rope of lm.rms_norm, head by head, that nothing else reads.
struct Rotated {
  lm::RopeOp rope;
  lm::RmsNormOp norm;

  static std::optional<Rotated> match(Value value) {
    auto rope = value.getDefiningOp<lm::RopeOp>();
    auto norm =
        rope ? rope.getInput().getDefiningOp<lm::RmsNormOp>() : lm::RmsNormOp();
    if (!norm || !value.hasOneUse() || !norm->hasOneUse())
      return std::nullopt;
    auto weight = cast<RankedTensorType>(norm.getWeight().getType());
    if (weight.getDimSize(0) != static_cast<int64_t>(rope.getHeadDim()))
      return std::nullopt;
    return Rotated{rope, norm};
  }

  lm::NormAttr getNorm() {
    return lm::NormAttr::get(norm.getContext(), norm.getEpsAttr(),
                             norm.getOffsetAttr());
  }
  bool hasNumbersOf(Rotated other) {
    return rope.getStart() == other.rope.getStart() &&
           rope.getHeadDim() == other.rope.getHeadDim() &&
           rope.getDims() == other.rope.getDims() &&
           rope.getTheta() == other.rope.getTheta() &&
           getNorm() == other.getNorm();
  }
};

/// What an append appends, when its keys are rotated where it writes.
std::optional<Rotated> matchKeys(lm::CacheAppendOp append) {
  std::optional<Rotated> keys = Rotated::match(append.getKeys());
  if (!keys || keys->rope.getStart() != append.getStart() ||
      static_cast<int64_t>(keys->rope.getHeadDim()) !=
          append.getCache().getType().getDim())
    return std::nullopt;
  return keys;
}

/// Whether `op` stands in front of all that reads `value`, itself apart.
bool isInFrontOfUsers(Operation *op, Value value) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    return user == op ||
           (user->getBlock() == op->getBlock() && op->isBeforeInBlock(user));
  });
}

/// Attention whose query and last keys are made alike.
struct FuseWithQuery : OpRewritePattern<lm::AttentionOp> {
  FuseWithQuery(MLIRContext *context, int64_t &numFused)
      : OpRewritePattern(context), numFused(numFused) {}

  LogicalResult matchAndRewrite(lm::AttentionOp op,
                                PatternRewriter &rewriter) const override {
    auto append = op.getCache().getDefiningOp<lm::CacheAppendOp>();
    std::optional<Rotated> query = Rotated::match(op.getQuery());
    std::optional<Rotated> keys =
        append ? matchKeys(append) : std::optional<Rotated>();
    if (!query || !keys || append->getBlock() != op->getBlock())
      return rewriter.notifyMatchFailure(op, "operands come from elsewhere");
    if (!keys->hasNumbersOf(*query) || op.getStart() != append.getStart() ||
        op.getCount() != append.getCount() ||
        op.getQuery().getType().getDimSize(0) !=
            append.getKeys().getType().getDimSize(0))
      return rewriter.notifyMatchFailure(op, "query and keys differ");
    if (!isInFrontOfUsers(op, append.getResult()))
      return rewriter.notifyMatchFailure(op, "the cache is read before");

    Value input = query->norm.getInput();
    Type gate;
    auto split = input.getDefiningOp<lm::SplitOp>();
    if (split && isGate(split, op)) {
      input = split.getInput();
      gate = op.getQuery().getType();
    }
    Type cache = append.getResult().getType();
    auto fused = lm::AttentionInputsOp::create(
        rewriter, op.getLoc(), op.getQuery().getType(), gate, TypeRange(cache),
        input, query->norm.getWeight(), keys->norm.getInput(),
        append.getValues(), keys->norm.getWeight(), append.getCache(),
        append.getStart(), append.getCount(), keys->getNorm(),
        keys->rope.getDimsAttr(), keys->rope.getThetaAttr());
    if (gate)
      rewriter.replaceAllUsesWith(split.getParts()[1], fused.getGate());
    rewriter.modifyOpInPlace(
        op, [&] { op.getQueryMutable().assign(fused.getRotated()); });
    rewriter.replaceOp(append, fused.getResults());
    ++numFused;
    return success();
  }

  /// Whether \p split takes apart the heads of a query, which nothing else
  /// reads, and a gate that is read behind \p op.
  static bool isGate(lm::SplitOp split, lm::AttentionOp op) {
    lm::KvCacheType cache = op.getCache().getType();
    int64_t columns = op.getQuery().getType().getDimSize(1);
    if (split.getParts().size() != 2 || split->getBlock() != op->getBlock() ||
        static_cast<int64_t>(split.getGroups()) * cache.getDim() != columns)
      return false;
    Value query = split.getParts()[0], gate = split.getParts()[1];
    return query.getType() == op.getQuery().getType() &&
           gate.getType() == query.getType() && query.hasOneUse() &&
           isInFrontOfUsers(op, gate);
  }

  int64_t &numFused;
};

/// Keys and values without a query.
struct FuseKeys : OpRewritePattern<lm::CacheAppendOp> {
  FuseKeys(MLIRContext *context, int64_t &numFused)
      : OpRewritePattern(context), numFused(numFused) {}

  LogicalResult matchAndRewrite(lm::CacheAppendOp op,
                                PatternRewriter &rewriter) const override {
    std::optional<Rotated> keys = matchKeys(op);
    if (!keys)
      return rewriter.notifyMatchFailure(op, "keys come from elsewhere");
    Type cache = op.getResult().getType();
    auto fused = lm::AttentionInputsOp::create(
        rewriter, op.getLoc(), Type(), Type(), TypeRange(cache), Value(),
        Value(), keys->norm.getInput(), op.getValues(), keys->norm.getWeight(),
        op.getCache(), op.getStart(), op.getCount(), keys->getNorm(),
        keys->rope.getDimsAttr(), keys->rope.getThetaAttr());
    rewriter.replaceOp(op, fused.getResults());
    ++numFused;
    return success();
  }

  int64_t &numFused;
};

/// Keys and values of several layers for the same rows.
struct MergeKeys : OpRewritePattern<lm::AttentionInputsOp> {
  MergeKeys(MLIRContext *context, int64_t &numMerged)
      : OpRewritePattern(context), numMerged(numMerged) {}

  LogicalResult matchAndRewrite(lm::AttentionInputsOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getQuery())
      return rewriter.notifyMatchFailure(op, "has a query");
    for (Operation *next = op->getNextNode(); next;
         next = next->getNextNode()) {
      if (llvm::is_contained(op->getUsers(), next))
        break;
      auto other = dyn_cast<lm::AttentionInputsOp>(next);
      if (!other || !areAlike(op, other))
        continue;
      rewriter.setInsertionPoint(other);
      merge(op, other, rewriter);
      ++numMerged;
      return success();
    }
    return rewriter.notifyMatchFailure(op, "stands alone");
  }

private:
  static bool areAlike(lm::AttentionInputsOp op, lm::AttentionInputsOp other) {
    return !other.getQuery() && op.getStart() == other.getStart() &&
           op.getCount() == other.getCount() &&
           op.getNorm() == other.getNorm() && op.getDims() == other.getDims() &&
           op.getTheta() == other.getTheta() &&
           op.getCaches()[0].getType() == other.getCaches()[0].getType() &&
           op.getKeys()[0].getType() == other.getKeys()[0].getType() &&
           llvm::none_of(other.getCaches(), [&](Value cache) {
             return llvm::is_contained(op.getCaches(), cache);
           });
  }

  static void merge(lm::AttentionInputsOp op, lm::AttentionInputsOp other,
                    PatternRewriter &rewriter) {
    auto join = [](ValueRange first, ValueRange second) {
      SmallVector<Value> all(first);
      llvm::append_range(all, second);
      return all;
    };
    SmallVector<Value> results = join(op.getResults(), other.getResults());
    auto merged = lm::AttentionInputsOp::create(
        rewriter, op.getLoc(), Type(), Type(), ValueRange(results).getTypes(),
        Value(), Value(), join(op.getKeys(), other.getKeys()),
        join(op.getValues(), other.getValues()),
        join(op.getKeyNorms(), other.getKeyNorms()),
        join(op.getCaches(), other.getCaches()), op.getStart(), op.getCount(),
        op.getNorm(), op.getDims(), op.getTheta());
    auto made = merged.getResults();
    size_t count = op.getCaches().size();
    rewriter.replaceOp(other, made.drop_front(count));
    rewriter.replaceOp(op, made.take_front(count));
  }

  int64_t &numMerged;
};

struct FuseAttentionInputsPass
    : tandem::impl::FuseAttentionInputsPassBase<FuseAttentionInputsPass> {
  using FuseAttentionInputsPassBase::FuseAttentionInputsPassBase;

  void runOnOperation() override {
    int64_t numQueries = 0, numKeys = 0, numMerged = 0;
    // Keys go with their query when there is one.
    if (failed(run<FuseWithQuery>(numQueries)) ||
        failed(run<FuseKeys>(numKeys)) || failed(run<MergeKeys>(numMerged)))
      return signalPassFailure();
    reportCount(*this, getOperation(), report, numQueries,
                "attention layers fused");
    reportCount(*this, getOperation(), report, numKeys - numMerged,
                "groups of keys and values alone");
  }

private:
  template <typename Pattern> LogicalResult run(int64_t &count) {
    RewritePatternSet patterns(&getContext());
    patterns.add<Pattern>(&getContext(), count);
    return applyPatternsGreedily(getOperation(), std::move(patterns));
  }
};
} // namespace
