//===- WeightTraffic.cpp - Bytes a program reads --------------------------===//

#include "runtime/WeightTraffic.h"

namespace tandem {

uint64_t weightBytesRead(const Artifact &artifact,
                         const artifact::Launch &launch) {
  const artifact::Artifact &root = artifact.root();
  std::string_view family =
      root.kernels()->Get(launch.kernel())->family()->string_view();
  // Of these few rows are read; how many of a head, HeadCounts.h says.
  if (family.starts_with("embed") || family.starts_with("rope") ||
      family == "head_settle")
    return 0;
  uint64_t bytes = 0;
  for (const artifact::Operand *operand : *launch.operands())
    if (operand->space() == artifact::Space::weight)
      bytes += root.weights()->Get(operand->index())->data()->size();
  return bytes;
}

uint64_t weightBytesRead(const Artifact &artifact, uint32_t program) {
  uint64_t bytes = 0;
  for (const artifact::Launch *launch :
       *artifact.root().programs()->Get(program)->launches())
    bytes += weightBytesRead(artifact, *launch);
  return bytes;
}

double weightBytesPerRound(const Artifact &artifact, bool withDrafter,
                           double draftedShare) {
  const artifact::Loop &loop = *artifact.root().loop();
  auto read = [&](int32_t program) {
    return double(weightBytesRead(artifact, uint32_t(program)));
  };
  if (!withDrafter)
    return read(loop.step());
  return draftedShare * read(loop.draft()) + read(loop.verify()) +
         read(loop.accept());
}

} // namespace tandem
