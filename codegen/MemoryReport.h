//===- MemoryReport.h - How much memory an artefact needs -------*- C++ -*-===//

#ifndef TANDEM_CODEGEN_MEMORYREPORT_H
#define TANDEM_CODEGEN_MEMORYREPORT_H

#include "codegen/ArtifactTables.h"

#include "llvm/Support/raw_ostream.h"

namespace tandem::codegen {

/// \p bytes in the unit that people would use, as in "12.3 MiB".
std::string formatBytes(uint64_t bytes);

/// Prints the memory that running \p contents takes, one line for each space
/// of runtime/README.md and the sum. All of it is planned: nothing is added at
/// run time but the scratch of further threads.
void printMemoryReport(const ArtifactContents &contents, llvm::raw_ostream &os);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_MEMORYREPORT_H
