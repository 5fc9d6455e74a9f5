//===- LaunchOrder.h - What stands in front of a kernel ---------*- C++ -*-===//
//
// A kernel may begin before those in front of it have ended, and waits for them
// where it has to (common.cuh). What it may do before follows from the launches
// in front of it, in every program that launches it: a kernel begins when that
// in front of it has everything it waits for, or, if that one is beside, when
// the one in front of both has. A delta rule of few rows and some layers do not
// wait before they let the next one begin; behind them are layers and norms,
// which read nothing but weights before they wait.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_CUDA_LAUNCHORDER_H
#define TANDEM_CODEGEN_CUDA_LAUNCHORDER_H

#include "dialects/plan/PlanOps.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace tandem::codegen {

class LaunchOrder {
public:
  explicit LaunchOrder(mlir::ModuleOp planModule);

  /// Whether the kernel is a small layer that has nothing to do with the layer
  /// in front of it, so that both may run at once: it waits for that one only
  /// when it is done itself.
  bool isBeside(llvm::StringRef kernel) const {
    return besides.contains(kernel);
  }
  /// Whether such a kernel stands behind it.
  bool hasBeside(llvm::StringRef kernel) const {
    return partners.contains(kernel);
  }
  /// Which half of a multiprocessor a layer of codes takes, where two have
  /// room: those that follow each other differ, but for what other launches are
  /// between them. Both are as large.
  bool takesSecondHalf(llvm::StringRef kernel) const {
    return secondHalves.contains(kernel);
  }
  /// Whether a layer of codes stands right behind the kernel, one itself, in
  /// some program.
  bool hasLayerBehind(llvm::StringRef kernel) const {
    return beforeLayers.contains(kernel);
  }
  /// Whether one stands right behind it wherever it is. Such a layer may let
  /// the next kernel begin before it has waited itself: what begins reads
  /// nothing but weights before it waits. Others may read in front of their
  /// wait what two launches in front of them do not write, so there must be one
  /// that has waited among those.
  bool hasOnlyLayersBehind(llvm::StringRef kernel) const {
    return beforeLayers.contains(kernel) && !beforeOthers.contains(kernel);
  }
  /// Whether the cache of the kernel and how many rows were accepted are there
  /// when it begins.
  bool hasState(llvm::StringRef kernel) const {
    return !changing.contains(kernel);
  }
  /// Whether all that attention, or the kernel of its inputs, knows of earlier
  /// rows is there when it begins: `start`, how many rows are live, and of a
  /// cache the positions in front of `start`.
  bool knowsStart(llvm::StringRef kernel) const {
    return !movingStarts.contains(kernel);
  }
  /// Whether the kernel, one of inputs of attention, lets the next one begin
  /// only when what it has written is there, since attention with another
  /// `start` stands behind it somewhere.
  bool writesFirst(llvm::StringRef kernel) const {
    return firstWriters.contains(kernel);
  }

private:
  void findStart(plan::LaunchOp launch, plan::KernelOp kernel,
                 plan::LaunchOp first, plan::LaunchOp second,
                 const llvm::StringMap<plan::KernelOp> &kernels);
  void chooseHalves(mlir::ModuleOp planModule,
                    const llvm::StringMap<plan::KernelOp> &kernels);

  llvm::StringSet<> besides, partners, changing, movingStarts, firstWriters,
      secondHalves, beforeLayers, beforeOthers;
};

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CUDA_LAUNCHORDER_H
