//===- LoadedPair.h - A compiled pair that writes ---------------*- C++ -*-===//

#ifndef TANDEM_TEST_LOADEDPAIR_H
#define TANDEM_TEST_LOADEDPAIR_H

#include "runtime/Artifact.h"
#include "runtime/Device.h"
#include "runtime/HeadCounts.h"
#include "runtime/Score.h"
#include "runtime/Speculator.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::test {

using Ids = std::vector<uint32_t>;

/// The first \p count of \p ids, or as many as there are.
Ids firstOf(const Ids &ids, size_t count);

/// An artefact on a device. Nothing works without one, so whatever fails ends
/// the program with a message.
class LoadedPair {
public:
  using MakeDevice =
      std::function<StatusOr<std::unique_ptr<Device>>(const Artifact &)>;

  LoadedPair(const std::string &path, const MakeDevice &makeDevice);

  /// Writes \p count tokens behind \p prompt.
  Generation generate(const Ids &prompt, size_t count, bool useDrafter,
                      bool ignoreStopTokens = true);
  Generation generate(const Ids &prompt, const GenerateOptions &options);

  /// The scores of \p ids, and all logits in \p logits.
  Scores score(const Ids &ids, std::vector<float> &logits);

  /// What searched heads computed so far.
  std::optional<HeadCounts> headCounts();

private:
  std::unique_ptr<Artifact> artifact;
  std::unique_ptr<Device> device;
  std::optional<Speculator> speculator;
};

} // namespace tandem::test

#endif // TANDEM_TEST_LOADEDPAIR_H
