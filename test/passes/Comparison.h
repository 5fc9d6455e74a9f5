//===- Comparison.h - Whether two functions computed the same ---*- C++ -*-===//

#ifndef TANDEM_TEST_PASSES_COMPARISON_H
#define TANDEM_TEST_PASSES_COMPARISON_H

#include "test/reference/Interpreter.h"

#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

namespace tandem::test {

/// Whether \p actual has the numbers of \p expected, bit for bit. Caches are
/// equal when everything in them is. The message names the first difference.
testing::AssertionResult isSame(const reference::Value &actual,
                                const reference::Value &expected);

/// Runs passes on \p module, which are given as on the command line of qopt,
/// as in `lm-fuse-dequant-linear,canonicalize`. Says what went wrong.
testing::AssertionResult runPasses(mlir::ModuleOp module,
                                   llvm::StringRef passes);

} // namespace tandem::test

#endif // TANDEM_TEST_PASSES_COMPARISON_H
