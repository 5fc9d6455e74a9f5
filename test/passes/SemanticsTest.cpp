//===- SemanticsTest.cpp - Passes keep what hand-written functions compute ===//
//
// Every function of the lit tests of the passes on lm, positive and negative,
// is run on random arguments, before the pass and after it. The lit tests say
// what becomes of the ops; this says that it computes the same bits.
//
//===----------------------------------------------------------------------===//

#include "dialects/lm/LmOps.h"
#include "dialects/plan/PlanOps.h"
#include "test/passes/Comparison.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <random>

using namespace tandem;
using namespace tandem::reference;
using namespace tandem::test;

namespace {

/// A pass and the file of its lit test.
struct PassFile {
  const char *pass;
  const char *file;
  /// Functions in it that the pass can be run on.
  int functions;
};

/// Makes arguments that functions can be called with.
class Arguments {
public:
  explicit Arguments(uint32_t seed) : random(seed) {}

  Value make(mlir::Type type) {
    Value value = makeZero(type);
    if (auto *tensor = std::get_if<Tensor>(&value))
      fill(*tensor);
    else if (auto *ints = std::get_if<IntTensor>(&value))
      fill(*ints);
    else if (auto *cache = std::get_if<KvCache>(&value))
      fillAll(cache->keys, cache->values);
    else if (auto *cache = std::get_if<ConvCache>(&value))
      fillAll(cache->committed, cache->rows);
    else if (auto *cache = std::get_if<DeltaCache>(&value))
      fillAll(cache->state, cache->key, cache->value, cache->decay,
              cache->beta);
    if (auto *cache = std::get_if<KvCache>(&value))
      for (int64_t slot = 0; slot < kStart; ++slot)
        cache->positions[slot] = slot;
    return value;
  }

private:
  /// What every count, position and number of accepted rows is.
  static constexpr int32_t kStart = 2;
  /// Below every vocabulary.
  static constexpr int32_t kTokens = 8;

  /// Numbers that f16 and bf16 hold too.
  void fill(Tensor &tensor) {
    for (float &x : tensor.data)
      x = float(int(random() % 129) - 64) / 64;
  }
  template <typename... Tensors> void fillAll(Tensors &...tensors) {
    (fill(tensors), ...);
  }
  /// A scalar is a count or a position, a row holds tokens, a matrix codes.
  void fill(IntTensor &tensor) {
    for (int32_t &x : tensor.data)
      x = tensor.data.size() == 1    ? kStart
          : tensor.shape.size() == 1 ? int32_t(random() % kTokens)
                                     : int32_t(random());
  }

  std::mt19937 random;
};

class SemanticsTest : public testing::TestWithParam<PassFile> {
protected:
  SemanticsTest() {
    context.loadDialect<lm::LmDialect, plan::PlanDialect,
                        mlir::func::FuncDialect>();
  }

  /// The parts of the file, as --split-input-file sees them.
  std::vector<std::string> readParts() {
    std::string path =
        std::string(TANDEM_SOURCE_DIR "/test/passes/") + GetParam().file;
    auto buffer = llvm::MemoryBuffer::getFile(path);
    EXPECT_TRUE(bool(buffer)) << path;
    if (!buffer)
      return {};
    llvm::SmallVector<llvm::StringRef> pieces;
    (*buffer)->getBuffer().split(pieces, "// -----");
    return std::vector<std::string>(pieces.begin(), pieces.end());
  }

  /// Runs all functions of \p before and of \p after. Returns how many.
  int compare(mlir::ModuleOp before, mlir::ModuleOp after);

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
};

int SemanticsTest::compare(mlir::ModuleOp before, mlir::ModuleOp after) {
  Arguments make(/*seed=*/1);
  std::vector<std::tuple<std::string, std::string, Value>> weights;
  before.walk([&](lm::WeightOp op) {
    weights.emplace_back(op.getCheckpoint(), op.getName(),
                         make.make(op.getType()));
  });
  auto open = [&](mlir::ModuleOp module) {
    Interpreter result = llvm::cantFail(Interpreter::create(module));
    for (const auto &[checkpoint, name, value] : weights)
      result.setWeight(checkpoint, name, value);
    return result;
  };
  Interpreter original = open(before), changed = open(after);
  int functions = 0;
  for (auto function : before.getOps<mlir::func::FuncOp>()) {
    SCOPED_TRACE(function.getSymName().str());
    std::vector<Value> arguments;
    for (mlir::Type type : function.getArgumentTypes())
      arguments.push_back(make.make(type));
    // A ring is another cache: what programs make of it is compared by
    // PairSemanticsTest.
    auto same = after.lookupSymbol<mlir::func::FuncOp>(function.getSymName());
    if (!same || same.getFunctionType() != function.getFunctionType())
      continue;
    auto expected = original.call(function.getSymName(), arguments);
    auto actual = changed.call(function.getSymName(), arguments);
    EXPECT_TRUE(bool(expected)) << llvm::toString(expected.takeError());
    EXPECT_TRUE(bool(actual)) << llvm::toString(actual.takeError());
    if (!expected || !actual)
      continue;
    EXPECT_EQ(actual->size(), expected->size());
    for (size_t i = 0; i < expected->size(); ++i)
      EXPECT_TRUE(isSame((*actual)[i], (*expected)[i])) << "result " << i;
    ++functions;
  }
  return functions;
}

TEST_P(SemanticsTest, ComputesTheSameBits) {
  int functions = 0;
  // Files with cases that a pass refuses expect its messages.
  mlir::ScopedDiagnosticHandler silence(
      &context, [](mlir::Diagnostic &) { return mlir::success(); });
  for (const std::string &part : readParts()) {
    auto before = mlir::parseSourceString<mlir::ModuleOp>(part, &context);
    ASSERT_TRUE(before) << part;
    mlir::OwningOpRef<mlir::ModuleOp> after = before->clone();
    if (llvm::StringRef(part).contains("expected-error"))
      EXPECT_FALSE(runPasses(*after, GetParam().pass));
    else if (testing::AssertionResult ran = runPasses(*after, GetParam().pass);
             ran)
      functions += compare(*before, *after);
    else
      EXPECT_TRUE(ran);
  }
  EXPECT_EQ(functions, GetParam().functions);
}

const PassFile kFiles[] = {
    {"lm-fuse-dequant-linear", "fuse-dequant-linear.mlir", 9},
    {"lm-hoist-last-row", "hoist-last-row.mlir", 5},
    {"lm-fuse-gated-mlp", "fuse-gated-mlp.mlir", 6},
    {"lm-fuse-projections", "fuse-projections.mlir", 9},
    {"lm-fuse-norm-linear", "fuse-norm-linear.mlir", 5},
    {"lm-fuse-residual", "fuse-residual.mlir", 6},
    {"lm-fuse-delta-inputs", "fuse-delta-inputs.mlir", 4},
    {"lm-fuse-attention-inputs", "fuse-attention-inputs.mlir", 7},
    {"lm-fuse-attention-gate", "fuse-attention-gate.mlir", 5},
    {"lm-fuse-delta-norm", "fuse-delta-norm.mlir", 7},
    {"lm-fuse-delta-layer", "fuse-delta-layer.mlir", 9},
    {"lm-fuse-head-argmax", "fuse-head-argmax.mlir", 3},
    {"lm-search-heads", "search-heads.mlir", 7},
    {"lm-lower-denoise", "lower-denoise.mlir", 3},
    {"lm-lower-sliding-window", "lower-sliding-window.mlir", 3},
};
INSTANTIATE_TEST_SUITE_P(Passes, SemanticsTest, testing::ValuesIn(kFiles),
                         [](const auto &info) {
                           std::string name = info.param.pass;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
