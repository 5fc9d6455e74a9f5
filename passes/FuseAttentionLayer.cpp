//===- FuseAttentionLayer.cpp - Attention makes what it reads -------------===//

#include "dialects/plan/AttentionLayer.h"
#include "dialects/plan/PlanOps.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SetVector.h"

namespace tandem {
#define GEN_PASS_DEF_FUSEATTENTIONLAYERPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using plan::KernelFamily;

static int64_t getNumber(plan::KernelOp kernel, StringRef name) {
  auto number = kernel.getParameters().getAs<IntegerAttr>(name);
  return number ? number.getInt() : 0;
}

/// Whether `memory` is a buffer that nothing but two launches use.
static bool isBetween(Value memory, plan::LaunchOp first,
                      plan::LaunchOp second) {
  return memory.getDefiningOp<plan::BufferOp>() &&
         llvm::all_of(memory.getUsers(), [&](Operation *user) {
           return user == first || user == second;
         });
}

namespace {
struct FuseAttentionLayerPass
    : tandem::impl::FuseAttentionLayerPassBase<FuseAttentionLayerPass> {
  using FuseAttentionLayerPassBase::FuseAttentionLayerPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto arch =
        module->getAttrOfType<StringAttr>(plan::PlanDialect::kArchAttrName);
    int64_t numFused = 0;
    SymbolTable symbols(module);
    kernels.clear();
    replaced.clear();
    if (arch && plan::hasClusters(arch.getValue()))
      for (auto program : module.getOps<plan::ProgramOp>()) {
        SmallVector<std::pair<plan::LaunchOp, plan::LaunchOp>> pairs;
        plan::LaunchOp before;
        for (auto launch : program.getBody().getOps<plan::LaunchOp>()) {
          if (before && canFuse(before, launch, symbols))
            pairs.push_back({before, launch});
          before = launch;
        }
        for (auto [inputs, attention] : pairs)
          fuse(inputs, attention, symbols);
        numFused += static_cast<int64_t>(pairs.size());
      }
    for (plan::KernelOp kernel : replaced)
      if (SymbolTable::symbolKnownUseEmpty(kernel, module))
        symbols.erase(kernel);
    reportCount(*this, module, report, numFused,
                "launches of attention make what they read");
  }

private:
  /// Whether \p attention reads what \p inputs, the launch in front of it,
  /// makes, and nothing else does.
  static bool canFuse(plan::LaunchOp inputs, plan::LaunchOp attention,
                      SymbolTable &symbols) {
    auto maker = symbols.lookup<plan::KernelOp>(inputs.getKernel());
    auto reader = symbols.lookup<plan::KernelOp>(attention.getKernel());
    if (!maker || !reader ||
        maker.getFamily() != KernelFamily::attention_inputs ||
        reader.getFamily() != KernelFamily::attention ||
        attention.getInputs().size() < 3 || inputs.getInputs().size() != 7 ||
        !isa_and_nonnull<BFloat16Type>(getActivations(maker)) ||
        getActivations(reader) != getActivations(maker))
      return false;
    bool isGated = getNumber(maker, "gated") != 0;
    ValueRange made = inputs.getOutputs(), read = attention.getInputs();
    if (isGated != (getNumber(reader, "gated") != 0) ||
        made.size() != (isGated ? 3 : 2) || read.size() != (isGated ? 4 : 3))
      return false;
    for (StringRef name : {"dim", "heads", "query_heads", "slots"})
      if (getNumber(maker, name) != getNumber(reader, name))
        return false;
    return read[0] == made.front() && read[1] == made.back() &&
           read[2] == inputs.getInputs()[5] &&
           isBetween(read[0], inputs, attention) &&
           (!isGated ||
            (read[3] == made[1] && isBetween(read[3], inputs, attention))) &&
           inputs.getCount() == attention.getCount() &&
           inputs.getRows() == attention.getRows() &&
           attention.getRows() <= plan::kMostLayerRows &&
           plan::canMakeQueries(
               getNumber(reader, "dim"), getNumber(reader, "heads"),
               getNumber(reader, "query_heads"), getNumber(reader, "slots"),
               getNumber(maker, "dims"));
  }

  static Type getActivations(plan::KernelOp kernel) {
    auto type = kernel.getParameters().getAs<TypeAttr>("activations");
    return type ? type.getValue() : Type();
  }

  void fuse(plan::LaunchOp inputs, plan::LaunchOp attention,
            SymbolTable &symbols) {
    auto maker = symbols.lookup<plan::KernelOp>(inputs.getKernel());
    auto reader = symbols.lookup<plan::KernelOp>(attention.getKernel());
    plan::KernelOp &kernel = kernels[{maker, reader}];
    if (!kernel) {
      kernel = reader.clone();
      NamedAttrList parameters(reader.getParameters());
      for (StringRef name : {"dims", "eps", "offset", "positions"})
        parameters.set(name, maker.getParameters().get(name));
      kernel.setParametersAttr(parameters.getDictionary(&getContext()));
      kernel.setSymName((reader.getSymName() + "_inputs").str());
      // The table makes the name unique.
      symbols.insert(kernel, std::next(reader->getIterator()));
    }
    replaced.insert(maker);
    replaced.insert(reader);
    Value between[] = {inputs.getOutputs().front(),
                       inputs.getOutputs().drop_back().back()};
    Value cache = inputs.getOutputs().back();
    OpBuilder builder(attention);
    plan::LaunchOp::create(
        builder, attention.getLoc(), kernel.getSymName(), inputs.getInputs(),
        ValueRange{attention.getOutputs()[0], cache}, attention.getRows(),
        attention.getCount(), attention.getItems(), attention.getPerRow());
    attention.erase();
    inputs.erase();
    for (auto [index, memory] : llvm::enumerate(between))
      if ((index == 0 || memory != between[0]) && memory.use_empty())
        memory.getDefiningOp()->erase();
  }

  /// By the kernel that makes and the one that reads.
  llvm::DenseMap<std::pair<Operation *, Operation *>, plan::KernelOp> kernels;
  llvm::SetVector<plan::KernelOp> replaced;
};
} // namespace
