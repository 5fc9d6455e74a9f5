//===- TruncatedFile.h - Files that shrink while they are mapped *- C++ -*-===//
//
// Checkpoints and artefacts are mapped, not read. When somebody truncates such
// a file, or its disk fails, touching what is gone raises SIGBUS.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TRUNCATEDFILE_H
#define TANDEM_TOOLS_TRUNCATEDFILE_H

namespace tandem {

/// From now on SIGBUS ends the process with exit code 1 and one line that names
/// \p tool, which must live for ever, and the file. Call it first in main:
/// handlers that come later, such as LLVM's, which remove unfinished files,
/// hand the signal on to this one.
void reportTruncatedFiles(const char *tool);

} // namespace tandem

#endif // TANDEM_TOOLS_TRUNCATEDFILE_H
