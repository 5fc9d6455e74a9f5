//===- Interpreter.h - Runs lm functions on the reference ops ---*- C++ -*-===//
//
// Walks a function of lm ops, as imported or after any pass on lm, and computes
// it with Reference.h. Run before and after, it is the judge of a pass; beside
// a kernel, of the kernel; on an import, of the importer.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_REFERENCE_INTERPRETER_H
#define TANDEM_TEST_REFERENCE_INTERPRETER_H

#include "models/Safetensors.h"
#include "test/reference/Reference.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <variant>

namespace tandem::reference {

/// What an lm value holds. Values in bf16 and f16 are kept in f32, rounded.
using Value = std::variant<Tensor, IntTensor, KvCache, ConvCache, DeltaCache>;

/// Zero of an lm type.
Value makeZero(mlir::Type type);

/// Ports and states by name, as programs share them. What is absent is zero.
using Memory = llvm::StringMap<Value>;

/// Runs the functions of a module. The module must outlive it.
class Interpreter {
public:
  /// \p module has been verified. Opens the checkpoints of `lm.checkpoints`;
  /// relative directories are relative to \p root.
  static llvm::Expected<Interpreter> create(mlir::ModuleOp module,
                                            llvm::StringRef root = "");

  /// Gives the weight \p name of \p checkpoint, which is then not looked up in
  /// a file. \p value has the type of the op.
  void setWeight(llvm::StringRef checkpoint, llvm::StringRef name, Value value);

  /// The results of function \p name on \p arguments, which have its types.
  /// Errors: no such function, a weight that the checkpoint lacks or has in
  /// another type, an op that is not of lm.
  llvm::Expected<std::vector<Value>> call(llvm::StringRef name,
                                          std::vector<Value> arguments);

  /// Runs program \p name on \p memory: arguments come from the ports and
  /// states that they name, and results go there.
  llvm::Error run(llvm::StringRef name, Memory &memory);

private:
  class Frame;

  explicit Interpreter(mlir::ModuleOp module) : module(module) {}

  /// The tensor that \p op names, converted once.
  llvm::Expected<Value> loadWeight(mlir::Operation *op);

  mlir::ModuleOp module;
  llvm::StringMap<models::Checkpoint> checkpoints;
  llvm::StringMap<Value> weights;
};

} // namespace tandem::reference

#endif // TANDEM_TEST_REFERENCE_INTERPRETER_H
