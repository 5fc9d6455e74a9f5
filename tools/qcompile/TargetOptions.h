//===- TargetOptions.h - What a pair is compiled for ------------*- C++ -*-===//
//
// Flags say it, or a plan that goes on, or it follows from the architecture.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_QCOMPILE_TARGETOPTIONS_H
#define TANDEM_TOOLS_QCOMPILE_TARGETOPTIONS_H

#include "passes/Pipelines.h"
#include "tools/qcompile/Driver.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace tandem::qcompile {

/// Module attribute of a plan: what its layers multiply, which nothing else in
/// it says.
constexpr llvm::StringLiteral kActivationsAttrName = "tandem.activations";

class TargetOptions {
public:
  /// Both outlive this; \p module is empty until it has been read.
  TargetOptions(const Options &options,
                const mlir::OwningOpRef<mlir::ModuleOp> &module)
      : options(options), module(module) {}

  std::string getArch() const;
  std::string getActivations() const;
  /// The same for the passes, but for the tokens that are drafted.
  PipelineOptions getPipeline() const;

  /// Whether there are kernels for the architecture and the activations, and
  /// the stage that is asked for.
  llvm::Error check() const;
  /// Whether no flag is about a stage that the input, which is at \p stage, has
  /// behind it.
  llvm::Error checkEarlierFlags(Stage stage) const;

private:
  std::string getVerifyHead() const;
  std::string getDraftHead() const;

  const Options &options;
  const mlir::OwningOpRef<mlir::ModuleOp> &module;
};

} // namespace tandem::qcompile

#endif // TANDEM_TOOLS_QCOMPILE_TARGETOPTIONS_H
