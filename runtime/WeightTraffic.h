//===- WeightTraffic.h - Bytes a program reads ------------------*- C++ -*-===//

#ifndef TANDEM_RUNTIME_WEIGHTTRAFFIC_H
#define TANDEM_RUNTIME_WEIGHTTRAFFIC_H

#include "runtime/Artifact.h"

namespace tandem {

/// Bytes of weights that one run of program \p program reads: those of all its
/// launches, except tables of embeddings and rotations, of which a launch reads
/// a few rows only. With one row this is what bounds the speed of a program.
uint64_t weightBytesRead(const Artifact &artifact, uint32_t program);

/// The same for one launch of it.
uint64_t weightBytesRead(const Artifact &artifact,
                         const artifact::Launch &launch);

/// The sum for one round of the loop: draft and verify, or step. Without a
/// draft in every round the mean, where \p draftedShare of them have one
/// (Generation::draftedShare).
double weightBytesPerRound(const Artifact &artifact, bool withDrafter,
                           double draftedShare);

} // namespace tandem

#endif // TANDEM_RUNTIME_WEIGHTTRAFFIC_H
