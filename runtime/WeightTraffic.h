//===- WeightTraffic.h - Bytes a program reads ------------------*- C++ -*-===//

#ifndef TANDEM_RUNTIME_WEIGHTTRAFFIC_H
#define TANDEM_RUNTIME_WEIGHTTRAFFIC_H

#include "runtime/Artifact.h"

#include <span>

namespace tandem {

/// Bytes of weights that one run of program \p program reads: those of all its
/// launches, except tables of embeddings and rotations, of which a launch reads
/// a few rows only. With one row this is what bounds the speed of a program.
uint64_t weightBytesRead(const Artifact &artifact, uint32_t program);

/// The same for one launch of it.
uint64_t weightBytesRead(const Artifact &artifact,
                         const artifact::Launch &launch);

/// The sum for one round of the loop: draft and verify, or step. Where rows are
/// chosen round by round, the mean over the rounds \p roundRows
/// (Generation::roundRows).
double weightBytesPerRound(const Artifact &artifact, bool withDrafter,
                           std::span<const uint32_t> roundRows = {});

} // namespace tandem

#endif // TANDEM_RUNTIME_WEIGHTTRAFFIC_H
