//===- SelectKernels.cpp - Tiles by the rows of the launches --------------===//

#include "dialects/plan/KernelFamilies.h"
#include "dialects/plan/PlanOps.h"
#include "passes/Passes.h"
#include "passes/Report.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SetVector.h"

namespace tandem {
#define GEN_PASS_DEF_SELECTKERNELSPASS
#include "passes/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

static constexpr StringLiteral kRowTile = "row_tile";
static constexpr StringLiteral kArithmetic = "arithmetic";

/// Whether `kernel` is of a family with tiles of rows and has none yet.
static bool needsRowTile(plan::KernelOp kernel) {
  DictionaryAttr parameters = kernel.getParameters();
  // Of attention those that make what they read.
  if (kernel.getFamily() == plan::KernelFamily::attention &&
      !parameters.contains("dims"))
    return false;
  return llvm::is_contained(
             plan::getKernelSignature(kernel.getFamily()).optionalParameters,
             kRowTile) &&
         !parameters.contains(kRowTile);
}

/// The smallest tile that holds `rows`, or the largest there is.
static int64_t getRowTile(int64_t rows) {
  for (int64_t tile : plan::kRowTiles)
    if (rows <= tile)
      return tile;
  return plan::kRowTiles.back();
}

/// What `kernel` multiplies where `wanted`, bf16 or i8, is asked for; null for
/// f32.
static Type getArithmetic(plan::KernelOp kernel, Type wanted) {
  DictionaryAttr parameters = kernel.getParameters();
  auto number = [&](StringRef name) -> int64_t {
    auto value = parameters.getAs<IntegerAttr>(name);
    return value ? value.getInt() : 0;
  };
  if (!llvm::is_contained(
          plan::getKernelSignature(kernel.getFamily()).optionalParameters,
          kArithmetic))
    return Type();
  constexpr int64_t vector = plan::kTile;
  if (parameters.contains("bits")) {
    int64_t group = number("group");
    bool isPlain = !parameters.contains("zero_points") &&
                   !parameters.contains("float_codes");
    bool fits = group % (2 * vector) == 0 || group == vector;
    return isPlain && fits ? wanted : Type();
  }
  auto element = parameters.getAs<TypeAttr>("element");
  auto bf16 = BFloat16Type::get(kernel.getContext());
  // What searches a head rounds as what settles it, whose weight is bf16.
  bool isBf16 = kernel.getFamily() == plan::KernelFamily::head_search ||
                (element && element.getValue() == bf16);
  bool fits = isBf16 && number("columns") % vector == 0;
  return fits ? Type(bf16) : Type();
}

namespace {
struct SelectKernelsPass
    : tandem::impl::SelectKernelsPassBase<SelectKernelsPass> {
  using SelectKernelsPassBase::SelectKernelsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto arch =
        module->getAttrOfType<StringAttr>(plan::PlanDialect::kArchAttrName);
    SymbolTable symbols(module);
    /// Kernels whose launches have moved to one with a tile.
    llvm::SetVector<plan::KernelOp> replaced;
    llvm::DenseMap<std::pair<Operation *, int64_t>, plan::KernelOp> tiled;
    if (arch && plan::isGpu(arch.getValue()))
      for (auto program : module.getOps<plan::ProgramOp>())
        for (auto launch : program.getBody().getOps<plan::LaunchOp>()) {
          auto kernel = symbols.lookup<plan::KernelOp>(launch.getKernel());
          if (!needsRowTile(kernel))
            continue;
          auto tile = getRowTile(static_cast<int64_t>(launch.getRows()));
          plan::KernelOp &variant = tiled[{kernel, tile}];
          if (!variant)
            variant = createVariant(kernel, tile, symbols);
          launch.setKernel(variant.getSymName());
          replaced.insert(kernel);
        }
    if (arch && !plan::isGpu(arch.getValue()) && failed(setArithmetic(module)))
      return signalPassFailure();
    auto numTiled = static_cast<int64_t>(tiled.size());
    for (plan::KernelOp kernel : replaced)
      symbols.erase(kernel);
    reportCount(*this, module, report, numTiled, "kernels have a tile of rows");
  }

private:
  LogicalResult setArithmetic(ModuleOp module) {
    Builder builder(module.getContext());
    Type wanted;
    if (arithmetic == "bf16")
      wanted = builder.getBF16Type();
    else if (arithmetic == "i8")
      wanted = builder.getI8Type();
    else if (arithmetic != "f32")
      return module.emitError("expects f32, bf16 or i8 as arithmetic, but got ")
             << arithmetic;
    if (!wanted)
      return success();
    int64_t numNarrow = 0;
    for (auto kernel : module.getOps<plan::KernelOp>()) {
      NamedAttrList parameters(kernel.getParameters());
      Type chosen = getArithmetic(kernel, wanted);
      if (!chosen || parameters.get(kArithmetic))
        continue;
      parameters.set(kArithmetic, TypeAttr::get(chosen));
      kernel.setParametersAttr(parameters.getDictionary(module.getContext()));
      ++numNarrow;
    }
    reportCount(*this, module, report, numNarrow,
                "kernels multiply narrow numbers");
    return success();
  }

  /// `kernel` with a tile of rows, behind it in the module.
  static plan::KernelOp createVariant(plan::KernelOp kernel, int64_t tile,
                                      SymbolTable &symbols) {
    plan::KernelOp variant = kernel.clone();
    Builder builder(kernel.getContext());
    NamedAttrList parameters(kernel.getParameters());
    parameters.set(kRowTile, builder.getI64IntegerAttr(tile));
    variant.setParametersAttr(parameters.getDictionary(kernel.getContext()));
    variant.setSymName(
        (kernel.getSymName() + "_r" + std::to_string(tile)).str());
    // The table makes the name unique.
    symbols.insert(variant, std::next(kernel->getIterator()));
    return variant;
  }
};
} // namespace
