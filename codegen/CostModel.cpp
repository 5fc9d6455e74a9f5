//===- CostModel.cpp - What launches move and compute ---------------------===//

#include "codegen/CostModel.h"
#include "dialects/plan/KernelFamilies.h"

#include "llvm/Support/MathExtras.h"

using namespace llvm;
using namespace tandem;
using namespace tandem::codegen;
using plan::KernelFamily;

//===----------------------------------------------------------------------===//
// Machines
//===----------------------------------------------------------------------===//

ArrayRef<Machine> codegen::getMachines() {
  static constexpr Machine machines[] = {
      {"cpu", 35.4e9, 383e9,
       "two cores of a Xeon with AVX-512: a read loop and a multiply-add loop "
       "in f32, measured"},
      {"a10g", 517.6e9, 70e12,
       "read bandwidth measured with ECC; data sheet, bf16 with f32 sums"},
      {"rtx3090", 936e9, 71e12, "data sheet, bf16 with f32 sums"},
      {"h200", 4300e9, 989e12,
       "copy bandwidth measured; data sheet, dense bf16"},
  };
  return machines;
}

const Machine *codegen::findMachine(StringRef name) {
  for (const Machine &machine : getMachines())
    if (machine.name == name)
      return &machine;
  return nullptr;
}

const Machine &codegen::getDefaultMachine(StringRef arch) {
  if (arch == "sm_90")
    return *findMachine("h200");
  return *findMachine(arch.starts_with("sm_") ? "a10g" : "cpu");
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

Cost &Cost::operator+=(const Cost &other) {
  launches += other.launches;
  weights += other.weights;
  keyValues += other.keyValues;
  states += other.states;
  activations += other.activations;
  operations += other.operations;
  linearOperations += other.linearOperations;
  attentionOperations += other.attentionOperations;
  deltaOperations += other.deltaOperations;
  floor += other.floor;
  return *this;
}

static double getElementBytes(mlir::Value memory) {
  return mlir::cast<mlir::MemRefType>(memory.getType())
             .getElementTypeBitWidth() /
         8.0;
}

static double getBytes(mlir::Value memory) {
  return mlir::cast<mlir::MemRefType>(memory.getType()).getNumElements() *
         getElementBytes(memory);
}

namespace {

/// Looks at one launch.
class LaunchCost {
public:
  LaunchCost(plan::LaunchOp launch, plan::KernelOp kernel,
             const Situation &situation)
      : launch(launch), kernel(kernel), situation(situation),
        rows(launch.getRows()) {
    if (launch.getCount() && situation.rows)
      rows = std::min(rows, *situation.rows);
    cost.launches = 1;
  }

  Cost compute();

private:
  int64_t number(StringRef name) {
    return kernel.getParameters().getAs<mlir::IntegerAttr>(name).getInt();
  }
  ArrayRef<int64_t> widths() {
    return kernel.getParameters()
        .getAs<mlir::DenseI64ArrayAttr>("widths")
        .asArrayRef();
  }

  void addOperands();
  void addFamily();
  /// `outputs` dot products of `columns` for every row.
  void addLinear(int64_t columns, int64_t outputs) {
    cost.linearOperations += 2.0 * rows * columns * outputs;
  }
  void addAttention();
  void addAttentionInputs(int64_t caches);
  void addDelta();
  void addConvolution();
  /// Inputs of the delta rule of `count` rows, as they wait in the cache.
  double getPendingBytes(int64_t count) {
    double columns = number("key_heads") * number("key_dim") +
                     number("heads") * number("value_dim");
    return count * (getActivationBytes() * columns + 4.0 * 2 * number("heads"));
  }
  /// Bytes of a number of the activations.
  double getActivationBytes() {
    auto type = kernel.getParameters().getAs<mlir::TypeAttr>("activations");
    return type ? type.getValue().getIntOrFloatBitWidth() / 8.0 : 4;
  }

  plan::LaunchOp launch;
  plan::KernelOp kernel;
  const Situation &situation;
  /// Rows that are computed.
  int64_t rows;
  Cost cost;
};

} // namespace

/// Weights are read whole, but for tables that are looked up. Activations are
/// those of the rows that are computed.
void LaunchCost::addOperands() {
  KernelFamily family = kernel.getFamily();
  for (mlir::Value memory : launch->getOperands()) {
    if (memory == launch.getCount())
      continue;
    if (auto weight = memory.getDefiningOp<plan::WeightOp>()) {
      auto rope = mlir::dyn_cast<plan::RopeTableAttr>(weight.getPacking());
      if (rope)
        cost.weights += 4.0 * rows * rope.getDims();
      else if (family == KernelFamily::embed)
        cost.weights += getBytes(memory) / number("vocabulary") * rows;
      else if (family == KernelFamily::head_settle)
        // As a rule a tile for each row.
        cost.weights +=
            getBytes(memory) / number("outputs") * plan::kTile * rows;
      else
        cost.weights += getBytes(memory);
    } else if (!memory.getDefiningOp<plan::StateOp>()) {
      auto type = mlir::cast<mlir::MemRefType>(memory.getType());
      bool isByRow = type.getRank() == 2 &&
                     type.getDimSize(0) == int64_t(launch.getRows());
      cost.activations +=
          getBytes(memory) * (isByRow ? double(rows) / launch.getRows() : 1);
    }
  }
}

/// Rows are appended to \p caches caches, and norms and rotations are seven
/// operations on every number.
void LaunchCost::addAttentionInputs(int64_t caches) {
  double heads = 2.0 * double(caches) * number("heads");
  cost.keyValues += rows * heads * number("dim") *
                    getElementBytes(launch.getOutputs().back());
  cost.operations +=
      7.0 * rows * number("dim") * (number("query_heads") + heads / 2);
}

/// Every row sees the keys before it, or a window of them; memory gives each
/// of the keys and values once, because all rows go over them together.
void LaunchCost::addAttention() {
  int64_t window = number("window"), context = situation.context;
  bool causal = number("causal");
  int64_t end = context + rows;
  double seen = 0;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t last = causal ? context + row + 1 : end;
    int64_t first =
        window ? std::max<int64_t>(0, context + row - window + 1) : 0;
    seen += last - std::min(first, last);
  }
  int64_t first = window ? std::max<int64_t>(0, context - window + 1) : 0;
  cost.keyValues += double(end - first) * 2 * number("heads") * number("dim") *
                    getElementBytes(launch.getOutputs()[0]);
  cost.attentionOperations +=
      4.0 * seen * number("query_heads") * number("dim");
  if (kernel.getParameters().contains("dims"))
    addAttentionInputs(1);
}

/// A row is seven operations on every number of the state: it decays (1), the
/// key reads it (2), the correction is added (2), the query reads it (2). Rows
/// that were accepted before are folded in first, without a query.
void LaunchCost::addDelta() {
  double numbers =
      double(number("heads")) * number("key_dim") * number("value_dim");
  bool commit = number("commit");
  // A chunk follows another chunk, which has left nothing pending.
  int64_t folded = commit ? 0 : number("pending");
  cost.states += 2 * 4 * numbers + getPendingBytes(folded);
  cost.deltaOperations += numbers * (7.0 * rows + 5.0 * folded);
}

void LaunchCost::addConvolution() {
  // The rows before are read and these are kept.
  cost.states +=
      getActivationBytes() * number("channels") * (number("taps") - 1 + rows);
  cost.operations += 2.0 * rows * number("channels") * number("taps");
}

void LaunchCost::addFamily() {
  switch (kernel.getFamily()) {
  case KernelFamily::linear:
  case KernelFamily::quant_linear:
  case KernelFamily::head_argmax:
  case KernelFamily::head_search:
  case KernelFamily::head_draft:
  case KernelFamily::quant_head_argmax:
    return addLinear(number("columns"), number("outputs"));
  case KernelFamily::fused_linear:
  case KernelFamily::fused_quant_linear:
    for (int64_t width : widths())
      addLinear(number("columns"), width);
    return;
  case KernelFamily::attention:
    return addAttention();
  case KernelFamily::cache_append:
    cost.keyValues += 2.0 * rows * number("heads") * number("dim") *
                      getElementBytes(launch.getOutputs()[0]);
    return;
  case KernelFamily::attention_inputs:
    return addAttentionInputs(number("caches"));
  case KernelFamily::short_conv:
  case KernelFamily::delta_inputs:
    return addConvolution();
  case KernelFamily::gated_delta:
    if (kernel.getParameters().contains("saves"))
      cost.states += getPendingBytes(rows);
    if (kernel.getParameters().contains("normed"))
      cost.operations += 4.0 * rows * number("heads") * number("value_dim");
    if (kernel.getParameters().contains("taps"))
      addConvolution();
    return addDelta();
  case KernelFamily::delta_save:
    cost.states += getPendingBytes(rows);
    return;
  case KernelFamily::rms_norm:
  case KernelFamily::gated_rms_norm:
  case KernelFamily::l2_norm:
    cost.operations += 4.0 * rows * number("columns");
    return;
  case KernelFamily::rope:
    cost.operations += 3.0 * rows * number("columns");
    return;
  case KernelFamily::silu:
  case KernelFamily::sigmoid:
  case KernelFamily::add:
  case KernelFamily::mul:
  case KernelFamily::delta_gate:
  case KernelFamily::argmax:
    cost.operations += double(rows) * number("columns");
    return;
  default:
    // Moves rows or counts tokens.
    return;
  }
}

Cost LaunchCost::compute() {
  addOperands();
  addFamily();
  cost.operations +=
      cost.linearOperations + cost.attentionOperations + cost.deltaOperations;
  return cost;
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

void codegen::addProgram(plan::ProgramOp program, const Situation &situation,
                         const Machine &machine, FamilyCosts &costs) {
  mlir::SymbolTable symbols(program->getParentOp());
  for (auto launch : program.getBody().getOps<plan::LaunchOp>()) {
    auto kernel = symbols.lookup<plan::KernelOp>(launch.getKernel());
    Cost cost = LaunchCost(launch, kernel, situation).compute();
    cost.floor = std::max(cost.bytes() / machine.bandwidth,
                          cost.operations / machine.operations);
    costs[plan::stringifyKernelFamily(kernel.getFamily())] += cost;
  }
}

Cost codegen::getTotal(const FamilyCosts &costs) {
  Cost total;
  for (const auto &[family, cost] : costs)
    total += cost;
  return total;
}

PlanCosts::PlanCosts(mlir::ModuleOp plan, const Machine &machine)
    : plan(plan), machine(machine), loop(*plan.getOps<plan::LoopOp>().begin()) {
}

plan::ProgramOp PlanCosts::find(std::optional<StringRef> name) {
  return name ? plan.lookupSymbol<plan::ProgramOp>(*name) : plan::ProgramOp();
}

FamilyCosts PlanCosts::getRound(StringRef name, int64_t context) {
  std::optional<StringRef> program = name == "draft"    ? loop.getDraft()
                                     : name == "verify" ? loop.getVerify()
                                     : name == "accept" ? loop.getAccept()
                                                        : loop.getStep();
  FamilyCosts costs;
  if (plan::ProgramOp op = find(program))
    addProgram(op, {context, std::nullopt}, machine, costs);
  return costs;
}

FamilyCosts PlanCosts::getPrefill(int64_t tokens) {
  FamilyCosts costs;
  int64_t chunk = loop.getChunk(),
          shortChunk = loop.getShortChunk().value_or(0);
  for (int64_t start = 0; start < tokens; start += chunk) {
    Situation situation = {start, std::min(chunk, tokens - start)};
    bool isShort = tokens - start <= shortChunk;
    for (plan::ProgramOp program :
         {find(isShort ? loop.getShortPrefill() : loop.getPrefill()),
          find(isShort ? loop.getShortContext() : loop.getContext())})
      if (program)
        addProgram(program, situation, machine, costs);
  }
  return costs;
}
