//===- ArtifactChecks.h - What Artifact::open checks ------------*- C++ -*-===//
//
// The checks of Artifact::open behind the header and the structure of the
// flatbuffer: every range, every index, every value. All arithmetic is safe
// against overflow, since all numbers come from the file.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_ARTIFACTCHECKS_H
#define TANDEM_RUNTIME_ARTIFACTCHECKS_H

#include "runtime/Artifact_generated.h"
#include "runtime/Status.h"

namespace tandem {

/// Ports, states, weights, images, kernels and programs. \p blobSize is the
/// size of the blob section in bytes.
Status checkTables(const artifact::Artifact &tables, uint64_t blobSize);

/// The loop: its numbers, its programs and the ports through which the host
/// drives them. Needs checkTables() to have passed.
Status checkLoop(const artifact::Artifact &tables);

/// The tables of the tokenizer.
Status checkTokenizer(const artifact::Tokenizer &tables);

} // namespace tandem

#endif // TANDEM_RUNTIME_ARTIFACTCHECKS_H
