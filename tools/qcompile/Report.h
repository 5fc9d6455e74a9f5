//===- Report.h - What --report prints --------------------------*- C++ -*-===//

#ifndef TANDEM_TOOLS_QCOMPILE_REPORT_H
#define TANDEM_TOOLS_QCOMPILE_REPORT_H

#include "codegen/ArtifactTables.h"
#include "codegen/CostModel.h"

#include "llvm/Support/raw_ostream.h"

namespace tandem::qcompile {

/// Prints the memory plan of \p contents and, when it has a loop, what its
/// kernels move and compute in a round and for prompts of 64, 2048 and 8192
/// tokens as far as they fit, with floors on \p machine. As text, or with
/// \p json as one object: bytes, operations, seconds.
void printReport(const codegen::ArtifactContents &contents,
                 const codegen::Machine &machine, bool json,
                 llvm::raw_ostream &os);

} // namespace tandem::qcompile

#endif // TANDEM_TOOLS_QCOMPILE_REPORT_H
