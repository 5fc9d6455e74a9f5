//===- IdsFile.h - Token ids in a file --------------------------*- C++ -*-===//

#ifndef TANDEM_RUNTIME_IDSFILE_H
#define TANDEM_RUNTIME_IDSFILE_H

#include "runtime/Status.h"

#include <string>
#include <vector>

namespace tandem {

/// Reads a JSON array of token ids. Errors do not contain the path.
StatusOr<std::vector<uint32_t>> readIdsFile(const std::string &path);

} // namespace tandem

#endif // TANDEM_RUNTIME_IDSFILE_H
