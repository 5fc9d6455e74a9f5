//===- MemoryAdvice.cpp - What to do when a pair does not fit -------------===//

#include "runtime/MemoryAdvice.h"

#include <map>

namespace tandem {

static std::map<std::string, uint64_t> cachesByKind(const Artifact &artifact) {
  std::map<std::string, uint64_t> sizes;
  for (const artifact::State *state : *artifact.root().states())
    sizes[state->kind()->str()] += state->size();
  return sizes;
}

std::string describeCaches(const Artifact &artifact) {
  std::string text =
      concat("caches ", formatBytes(artifact.root().state_size()));
  auto sizes = cachesByKind(artifact);
  if (sizes.size() < 2)
    return text;
  const char *separator = " (";
  for (const auto &[kind, size] : sizes) {
    text += concat(separator, kind, " ", formatBytes(size));
    separator = ", ";
  }
  return text + ")";
}

std::string describeSnapshots(uint32_t count, uint64_t size) {
  if (count == 0 || size == 0)
    return "";
  return concat(count, count == 1 ? " snapshot " : " snapshots ",
                formatBytes(count * size), ", ");
}

std::string adviseMemory(const Artifact &artifact, uint64_t excess) {
  // Contexts are multiples of this; less is no conversation.
  constexpr uint64_t step = 256;
  const artifact::Loop *loop = artifact.root().loop();
  if (!loop)
    return "the function is too large for this machine";
  uint64_t context = loop->max_context();
  uint64_t size = cachesByKind(artifact)["key_value"];
  uint64_t fitting =
      excess < size
          ? uint64_t(double(size - excess) / double(size) * double(context)) /
                step * step
          : 0;
  if (fitting == 0 || fitting >= context)
    return "no shorter context would make it fit: it takes a smaller model or "
           "more memory";
  return concat("compile with --max-context ", fitting, " or less (now ",
                context, ")");
}

} // namespace tandem
