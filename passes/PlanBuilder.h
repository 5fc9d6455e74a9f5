//===- PlanBuilder.h - The module-level ops of a plan -----------*- C++ -*-===//
//
// Keeps the ports, states, weights and kernels that convert-lm-to-plan has made
// so far, in this order at the top of the module, and hands out the one that
// exists when the same is asked for again.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_PLANBUILDER_H
#define TANDEM_PASSES_PLANBUILDER_H

#include "dialects/lm/LmOps.h"
#include "dialects/plan/PlanOps.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace tandem {

class PlanBuilder {
public:
  /// The plan is for a GPU or for a processor: caches lie differently.
  PlanBuilder(mlir::ModuleOp module, bool forGpu)
      : forGpu(forGpu), module(module), builder(module.getContext()) {}

  const bool forGpu;

  /// Memory of the port `name` for a tensor of `type`. Fails at `loc` when the
  /// port exists with another type.
  mlir::FailureOr<mlir::Value> getPort(mlir::Location loc,
                                       mlir::StringAttr name,
                                       mlir::RankedTensorType type);

  /// Memory of the state `name` for a cache of `type` that is given rows of
  /// `element`. Fails at `loc` when the state exists with another type.
  mlir::FailureOr<mlir::Value> getState(mlir::Location loc,
                                        mlir::StringAttr name, mlir::Type type,
                                        mlir::Type element);

  /// The weight made from `sources` (ops of one checkpoint) by `packing`;
  /// `repack` is null when they are in the order that it takes, `rows` when all
  /// of them are packed.
  mlir::FailureOr<mlir::Value> getWeight(mlir::Location loc,
                                         llvm::ArrayRef<lm::WeightOp> sources,
                                         plan::PackingAttrInterface packing,
                                         lm::SourceAttr repack,
                                         lm::TokenSetAttr rows);

  /// The table of `packing`, which has no sources.
  mlir::Value getRopeTable(mlir::Location loc, plan::RopeTableAttr packing);

  /// The ids of the tokens of `set`.
  mlir::Value getTokenTable(mlir::Location loc, lm::TokenSetAttr set);

  /// Symbol of the kernel of `family` with `parameters`.
  mlir::FlatSymbolRefAttr getKernel(mlir::Location loc,
                                    plan::KernelFamily family,
                                    mlir::DictionaryAttr parameters);

  /// Where programs go: behind everything made so far.
  mlir::Operation *getLastOp() const { return last[Kernels]; }

private:
  enum Section { Ports, States, Weights, Kernels, NumSections };

  /// Moves the builder behind the ops of `section`.
  void setInsertionPoint(Section section);
  void created(Section section, mlir::Operation *op);
  mlir::Value createWeight(mlir::Location loc, llvm::StringRef name,
                           llvm::StringRef checkpoint,
                           llvm::ArrayRef<llvm::StringRef> sources,
                           plan::PackingAttrInterface packing,
                           lm::SourceAttr repack = nullptr,
                           lm::TokenSetAttr rows = nullptr);

  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  /// The last op of each section, or of a section before it.
  mlir::Operation *last[NumSections] = {};
  llvm::StringMap<plan::PortOp> ports;
  llvm::StringMap<std::pair<plan::StateOp, mlir::Type>> states;
  llvm::StringMap<plan::WeightOp> weights;
  llvm::DenseMap<std::pair<unsigned, mlir::Attribute>, plan::KernelOp> kernels;
  llvm::StringMap<unsigned> kernelNames;
};

} // namespace tandem

#endif // TANDEM_PASSES_PLANBUILDER_H
