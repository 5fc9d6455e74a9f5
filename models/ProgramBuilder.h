//===- ProgramBuilder.h - A function with ports and caches ------*- C++ -*-===//
//
// A program is a func.func whose arguments and results carry `lm.port` (data
// that programs exchange) and `lm.state` (caches). Caches come last, as
// arguments and as results, in the same order. runtime/README.md has the table
// of programs and ports.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_PROGRAMBUILDER_H
#define TANDEM_MODELS_PROGRAMBUILDER_H

#include "models/Layers.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <utility>

namespace tandem::models {

/// A port and its type.
struct Port {
  llvm::StringRef name;
  mlir::Type type;
};

/// A cache and its type.
struct State {
  std::string name;
  mlir::Type type;
};

/// Builds one program at the end of a module.
class ProgramBuilder {
public:
  /// Starts function \p name; ops go to its body until finish().
  ProgramBuilder(mlir::ModuleOp module, llvm::StringRef name,
                 llvm::ArrayRef<Port> inputs, llvm::ArrayRef<State> states,
                 mlir::Type elementType);
  ProgramBuilder(const ProgramBuilder &) = delete;
  ProgramBuilder &operator=(const ProgramBuilder &) = delete;

  LayerBuilder &layers() { return layerBuilder; }
  mlir::OpBuilder &getBuilder() { return builder; }
  /// The location of ops that come from no tensor: the program's name.
  mlir::Location getLoc() { return function.getLoc(); }

  /// The argument that is port \p name.
  mlir::Value getInput(llvm::StringRef name);
  /// The caches as they are by now: at first the arguments.
  llvm::SmallVector<mlir::Value> caches;

  /// Returns \p outputs, by port, and the caches.
  void finish(llvm::ArrayRef<std::pair<llvm::StringRef, mlir::Value>> outputs);

private:
  mlir::OpBuilder builder;
  LayerBuilder layerBuilder;
  mlir::func::FuncOp function;
  llvm::SmallVector<Port> inputs;
  llvm::SmallVector<State> states;
};

} // namespace tandem::models

#endif // TANDEM_MODELS_PROGRAMBUILDER_H
