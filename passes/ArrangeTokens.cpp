//===- ArrangeTokens.cpp - Tokens as the next layer takes them ------------===//

#include "dialects/plan/KernelFamilies.h"
#include "dialects/plan/PlanOps.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <map>
#include <tuple>

namespace tandem {
#define GEN_PASS_DEF_ARRANGETOKENSPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

static constexpr StringLiteral kFrom = "from_fragments", kTo = "to_fragments",
                               kNext = "next_norm", kNextOffset = "next_offset";

/// Columns up to which one warp of a cluster adds the sums of a tile, and so
/// can add squares: ColumnCut.cpp cuts them.
static constexpr int64_t kMostColumns = 20480;

static int64_t getNumber(plan::KernelOp kernel, StringRef name) {
  auto number = kernel.getParameters().getAs<IntegerAttr>(name);
  return number ? number.getInt() : 0;
}

static ArrayRef<int64_t> getWidths(plan::KernelOp kernel) {
  return kernel.getParameters().getAs<DenseI64ArrayAttr>("widths").asArrayRef();
}

/// Which input of a launch of \p kernel is the weight of its norm.
static size_t getNormIndex(plan::KernelOp kernel) {
  return 1 + getWidths(kernel).size();
}

namespace {
/// How a launch takes its tokens, and what it writes.
struct Choice {
  bool from = false, to = false;
  /// What it takes in place of its input and of the weight of its norm; null
  /// where it has none.
  Value tokens, squares;
  /// The weight of the norm to prepare, what is added to it, and what is
  /// written.
  Value nextNorm;
  Attribute nextOffset;
  Value nextTokens, nextSquares;
};

/// The kernel of a launch and what is different about it.
using Variant = std::tuple<const void *, bool, bool, const void *>;

/// Arranges the tokens of the launches of a module.
class Arranger {
public:
  explicit Arranger(ModuleOp module) : module(module), symbols(module) {}

  /// Returns how many launches take tokens as their products do.
  int64_t arrange() {
    for (auto program : module.getOps<plan::ProgramOp>())
      for (auto launch : program.getBody().getOps<plan::LaunchOp>())
        choose(launch);
    int64_t numReaders = 0;
    llvm::SetVector<plan::KernelOp> replaced;
    for (auto &[op, choice] : choices) {
      auto launch = cast<plan::LaunchOp>(op);
      numReaders += choice.from;
      replaced.insert(getKernel(launch));
      change(launch, choice);
    }
    for (plan::KernelOp kernel : replaced)
      if (SymbolTable::symbolKnownUseEmpty(kernel, module))
        symbols.erase(kernel);
    return numReaders;
  }

private:
  plan::KernelOp getKernel(plan::LaunchOp launch) {
    return symbols.lookup<plan::KernelOp>(launch.getKernel());
  }

  /// Whether the launch is a layer of few rows that can take tokens as its
  /// products do, and takes and writes rows so far.
  bool isLayer(plan::LaunchOp launch) {
    plan::KernelOp kernel = getKernel(launch);
    DictionaryAttr parameters = kernel.getParameters();
    if ((kernel.getFamily() != plan::KernelFamily::fused_quant_linear &&
         kernel.getFamily() != plan::KernelFamily::fused_linear) ||
        !plan::canTakeFragments(parameters) || parameters.contains(kFrom) ||
        parameters.contains(kTo) || parameters.contains(kNext))
      return false;
    int64_t tile = getNumber(kernel, "row_tile");
    return tile > 0 && tile <= plan::kFragmentRows &&
           static_cast<int64_t>(launch.getRows()) <= tile;
  }

  /// Whether such a layer can write tokens so, too: one of codes, whose tiles
  /// are finished by one warp.
  bool canWrite(plan::LaunchOp launch) {
    plan::KernelOp kernel = getKernel(launch);
    auto result = kernel.getParameters().getAs<TypeAttr>("result");
    return isLayer(launch) &&
           kernel.getFamily() == plan::KernelFamily::fused_quant_linear &&
           (!result || result.getValue().isBF16()) &&
           getNumber(kernel, "columns") <= kMostColumns;
  }

  /// Whether \p reader can take the result of \p writer as products do.
  bool fits(plan::LaunchOp writer, plan::LaunchOp reader) {
    return isLayer(reader) && writer.getRows() == reader.getRows() &&
           writer.getCount() == reader.getCount() &&
           getNumber(getKernel(writer), "row_tile") ==
               getNumber(getKernel(reader), "row_tile");
  }

  /// Chooses how \p writer writes its result, and who takes it.
  void choose(plan::LaunchOp writer) {
    if (!canWrite(writer) || writer.getOutputs().size() != 1)
      return;
    plan::KernelOp kernel = getKernel(writer);
    Value result = writer.getOutputs().front();
    auto buffer = result.getDefiningOp<plan::BufferOp>();
    if (!buffer || getWidths(kernel).front() % plan::kFragmentColumns != 0)
      return;
    SmallVector<plan::LaunchOp> asIs, normed;
    bool hasOthers = false;
    for (OpOperand &use : result.getUses()) {
      auto reader = dyn_cast<plan::LaunchOp>(use.getOwner());
      if (reader == writer)
        continue;
      // Memory that somebody else writes, too, is nobody's result.
      if (!reader || llvm::is_contained(reader.getOutputs(), result))
        return;
      bool isInput = use.getOperandNumber() == 0 && fits(writer, reader);
      if (!isInput)
        hasOthers = true;
      else
        (getNumber(getKernel(reader), "norm") ? normed : asIs)
            .push_back(reader);
    }
    if (!asIs.empty() && normed.empty() && !hasOthers)
      return arrangeResult(writer, buffer, asIs);
    if (!normed.empty() && getNumber(kernel, "residual") &&
        !getNumber(kernel, "gated"))
      prepareNorm(writer, buffer, normed);
  }

  /// Memory of `row_tile` rows of \p columns numbers in front of \p buffer.
  Value createTokens(plan::BufferOp buffer, int64_t tile, int64_t columns) {
    auto type = cast<MemRefType>(buffer.getResult().getType());
    OpBuilder builder(buffer);
    return plan::BufferOp::create(
        builder, buffer.getLoc(),
        MemRefType::get({tile, columns}, type.getElementType()), IntegerAttr());
  }

  /// Has \p writer leave its result as the products of all its \p readers
  /// take it.
  void arrangeResult(plan::LaunchOp writer, plan::BufferOp buffer,
                     ArrayRef<plan::LaunchOp> readers) {
    plan::KernelOp kernel = getKernel(writer);
    Value tokens = createTokens(buffer, getNumber(kernel, "row_tile"),
                                getWidths(kernel).front());
    buffer.getResult().replaceAllUsesWith(tokens);
    buffer.erase();
    choices[writer].to = true;
    for (plan::LaunchOp reader : readers)
      choices[reader].from = true;
  }

  /// Has \p writer prepare the norm of those \p readers that have the same
  /// one.
  void prepareNorm(plan::LaunchOp writer, plan::BufferOp buffer,
                   ArrayRef<plan::LaunchOp> readers) {
    auto normOf = [&](plan::LaunchOp reader) {
      return reader.getInputs()[getNormIndex(getKernel(reader))];
    };
    auto offsetOf = [&](plan::LaunchOp reader) {
      return getKernel(reader).getParameters().get("offset");
    };
    int64_t tile = getNumber(getKernel(writer), "row_tile"),
            columns = getWidths(getKernel(writer)).front();
    OpBuilder builder(buffer);
    Value tokens = createTokens(buffer, tile, columns);
    Value squares = plan::BufferOp::create(
        builder, buffer.getLoc(),
        MemRefType::get({columns / plan::kSquareColumns, tile},
                        builder.getF32Type()),
        IntegerAttr());
    Choice &choice = choices[writer];
    choice.nextNorm = normOf(readers.front());
    choice.nextOffset = offsetOf(readers.front());
    choice.nextTokens = tokens;
    choice.nextSquares = squares;
    for (plan::LaunchOp reader : readers)
      if (normOf(reader) == choices[writer].nextNorm &&
          offsetOf(reader) == choices[writer].nextOffset) {
        Choice &taken = choices[reader];
        taken.from = true;
        taken.tokens = tokens;
        taken.squares = squares;
      }
  }

  void change(plan::LaunchOp launch, const Choice &choice) {
    plan::KernelOp kernel = getKernel(launch);
    SmallVector<Value> inputs(launch.getInputs()), outputs(launch.getOutputs());
    if (choice.tokens) {
      inputs[0] = choice.tokens;
      inputs[getNormIndex(kernel)] = choice.squares;
    }
    if (choice.nextNorm) {
      inputs.push_back(choice.nextNorm);
      outputs.push_back(choice.nextTokens);
      outputs.push_back(choice.nextSquares);
    }
    launch.getInputsMutable().assign(inputs);
    launch.getOutputsMutable().assign(outputs);
    launch.setKernel(getVariant(kernel, choice).getSymName());
  }

  /// The kernel for launches like \p choice, behind \p kernel in the module.
  plan::KernelOp getVariant(plan::KernelOp kernel, const Choice &choice) {
    plan::KernelOp &variant =
        variants[{kernel.getAsOpaquePointer(), choice.from, choice.to,
                  choice.nextOffset.getAsOpaquePointer()}];
    if (variant)
      return variant;
    variant = kernel.clone();
    Builder builder(kernel.getContext());
    NamedAttrList parameters(kernel.getParameters());
    std::string name = kernel.getSymName().str();
    auto set = [&](bool isSet, StringRef parameter, StringRef suffix) {
      if (!isSet)
        return;
      parameters.set(parameter, builder.getI64IntegerAttr(1));
      name += suffix.str();
    };
    set(choice.from, kFrom, "_from");
    set(choice.to, kTo, "_to");
    set(choice.nextOffset != nullptr, kNext, "_next");
    if (choice.nextOffset)
      parameters.set(kNextOffset, choice.nextOffset);
    variant.setParametersAttr(parameters.getDictionary(kernel.getContext()));
    variant.setSymName(name);
    // The table makes the name unique.
    symbols.insert(variant, std::next(kernel->getIterator()));
    return variant;
  }

  ModuleOp module;
  SymbolTable symbols;
  llvm::MapVector<Operation *, Choice> choices;
  std::map<Variant, plan::KernelOp> variants;
};

struct ArrangeTokensPass
    : tandem::impl::ArrangeTokensPassBase<ArrangeTokensPass> {
  using ArrangeTokensPassBase::ArrangeTokensPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto arch =
        module->getAttrOfType<StringAttr>(plan::PlanDialect::kArchAttrName);
    int64_t numReaders = 0;
    if (arch && plan::hasClusters(arch.getValue()))
      numReaders = Arranger(module).arrange();
    reportCount(*this, module, report, numReaders,
                "layers take tokens as their products do");
  }
};
} // namespace
