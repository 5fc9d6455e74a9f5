//===- LoadedPair.cpp - A compiled pair that writes -----------------------===//

#include "test/LoadedPair.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace tandem::test {

static void check(const std::string &what, const Status &status) {
  if (status.isOk())
    return;
  std::fprintf(stderr, "%s: %s\n", what.c_str(), status.message().c_str());
  std::exit(1);
}

Ids firstOf(const Ids &ids, size_t count) {
  return Ids(ids.begin(), ids.begin() + ptrdiff_t(std::min(count, ids.size())));
}

LoadedPair::LoadedPair(const std::string &path, const MakeDevice &makeDevice) {
  StatusOr<Artifact> opened = Artifact::open(path);
  check(path, opened.status());
  artifact = std::make_unique<Artifact>(std::move(*opened));
  auto created = makeDevice(*artifact);
  check(path, created.status());
  device = std::move(*created);
  auto made = Speculator::create(*artifact, *device);
  check(path, made.status());
  speculator.emplace(std::move(*made));
}

Generation LoadedPair::generate(const Ids &prompt, size_t count,
                                bool useDrafter, bool ignoreStopTokens) {
  GenerateOptions options;
  options.maxNewTokens = uint32_t(count);
  options.useDrafter = useDrafter;
  options.ignoreStopTokens = ignoreStopTokens;
  return generate(prompt, options);
}

Generation LoadedPair::generate(const Ids &prompt,
                                const GenerateOptions &options) {
  NullSink sink;
  StatusOr<Generation> result = speculator->generate(prompt, options, sink);
  check("generate", result.status());
  return std::move(*result);
}

Scores LoadedPair::score(const Ids &ids, std::vector<float> &logits) {
  logits.clear();
  StatusOr<Scores> scores =
      tandem::score(*artifact, *device, ids, [&](std::span<const float> rows) {
        logits.insert(logits.end(), rows.begin(), rows.end());
        return Status();
      });
  check("score", scores.status());
  return std::move(*scores);
}

std::optional<HeadCounts> LoadedPair::headCounts() {
  auto counts = readHeadCounts(*artifact, *device);
  check("counts", counts.status());
  return *counts;
}

} // namespace tandem::test
