//===- WeightTraffic.cpp - Bytes a program reads --------------------------===//

#include "runtime/WeightTraffic.h"

namespace tandem {

uint64_t weightBytesRead(const Artifact &artifact, uint32_t program) {
  const artifact::Artifact &root = artifact.root();
  uint64_t bytes = 0;
  for (const artifact::Launch *launch :
       *root.programs()->Get(program)->launches()) {
    std::string_view family =
        root.kernels()->Get(launch->kernel())->family()->string_view();
    if (family.starts_with("embed"))
      continue;
    for (const artifact::Operand *operand : *launch->operands())
      if (operand->space() == artifact::Space::weight)
        bytes += root.weights()->Get(operand->index())->data()->size();
  }
  return bytes;
}

uint64_t weightBytesPerRound(const Artifact &artifact, bool withDrafter) {
  const artifact::Loop &loop = *artifact.root().loop();
  if (!withDrafter)
    return weightBytesRead(artifact, uint32_t(loop.step()));
  return weightBytesRead(artifact, uint32_t(loop.draft())) +
         weightBytesRead(artifact, uint32_t(loop.verify())) +
         weightBytesRead(artifact, uint32_t(loop.accept()));
}

} // namespace tandem
