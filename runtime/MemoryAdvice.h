//===- MemoryAdvice.h - What to do when a pair does not fit -----*- C++ -*-===//
//
// The end of the message with which a device refuses an artefact that needs
// more memory than there is.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_MEMORYADVICE_H
#define TANDEM_RUNTIME_MEMORYADVICE_H

#include "runtime/Artifact.h"

#include <string>

namespace tandem {

/// The caches of \p artifact by kind, as "caches 3.0 GiB (key_value 2.9 GiB,
/// delta 96 MiB)"; the kinds are left out where there is one or none.
std::string describeCaches(const Artifact &artifact);

/// \p count snapshots of \p size bytes each, as "2 snapshots 64 MiB, "; empty
/// when there are none.
std::string describeSnapshots(uint32_t count, uint64_t size);

/// What would take at least \p excess bytes off: a shorter context, when the
/// key/value caches, which grow with it, are that large. Without a loop there
/// is no context and nothing to advise: a smaller function.
std::string adviseMemory(const Artifact &artifact, uint64_t excess);

} // namespace tandem

#endif // TANDEM_RUNTIME_MEMORYADVICE_H
