//===- WeightFill.h - Weights that no file holds ----------------*- C++ -*-===//
//
// An artefact that was compiled for measurements says of its weights only how
// to make them (table Fill in Artifact.fbs). The bytes depend on the seed, the
// weight and the place in it, never on the number of threads.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_WEIGHTFILL_H
#define TANDEM_RUNTIME_WEIGHTFILL_H

#include "runtime/Artifact_generated.h"
#include "runtime/Status.h"

#include <cstddef>

namespace tandem {

/// Bytes of a record of \p fill. Fits 64 bits for all that a table can hold.
uint64_t recordBytes(const artifact::Fill &fill);

/// Checks that \p fill says how to make \p size bytes.
Status checkFill(const artifact::Fill &fill, uint64_t size);

/// Writes all weights with a fill of \p tables, for which checkFill() holds, to
/// their places in the blob section at \p blobs, on all cores.
Status fillWeights(const artifact::Artifact &tables, std::byte *blobs);

} // namespace tandem

#endif // TANDEM_RUNTIME_WEIGHTFILL_H
