//===- TextFile.h - Small files, whole --------------------------*- C++ -*-===//

#ifndef TANDEM_RUNTIME_TEXTFILE_H
#define TANDEM_RUNTIME_TEXTFILE_H

#include "runtime/Status.h"

#include <string>

namespace tandem {

/// All bytes of \p path, which may be a pipe ("/dev/stdin"). Errors do not
/// contain the path.
StatusOr<std::string> readTextFile(const std::string &path);

} // namespace tandem

#endif // TANDEM_RUNTIME_TEXTFILE_H
