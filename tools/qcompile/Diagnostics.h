//===- Diagnostics.h - Messages of the compiler -----------------*- C++ -*-===//

#ifndef TANDEM_TOOLS_QCOMPILE_DIAGNOSTICS_H
#define TANDEM_TOOLS_QCOMPILE_DIAGNOSTICS_H

#include "tools/qcompile/Progress.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/Error.h"

namespace tandem::qcompile {

/// Prints every message on one line of standard error, as in
/// `qcompile: error: layers.0.mlp.down_proj: expects ...`, wherever it comes
/// from.
class Diagnostics {
public:
  /// Takes over the diagnostics of \p context. Lines in progress are ended
  /// first.
  Diagnostics(mlir::MLIRContext &context, Progress &progress);

  /// Prints \p error, unless it is a success.
  mlir::LogicalResult report(llvm::Error error);

  /// The value of \p expected, or its error, printed.
  template <typename T> mlir::FailureOr<T> report(llvm::Expected<T> expected) {
    if (!expected)
      return report(expected.takeError());
    return std::move(*expected);
  }

  /// Prints that \p phase failed, unless a message has said why.
  mlir::LogicalResult reportFailure(llvm::StringRef phase);

private:
  void print(mlir::Diagnostic &diagnostic);
  /// Prints a line, but only the first one whose \p severity, which is
  /// `error`, `warning` or `note`, is `error`.
  void print(llvm::StringRef severity, llvm::StringRef text);

  Progress &progress;
  bool hasErrors = false;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace tandem::qcompile

#endif // TANDEM_TOOLS_QCOMPILE_DIAGNOSTICS_H
