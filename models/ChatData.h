//===- ChatData.h - How a checkpoint talks, between two formats -*- C++ -*-===//
//
// What models/ChatFiles.cpp reads and codegen writes into an artefact: the
// tables `Chat` and `GenerationDefaults` of runtime/Artifact.fbs. Plain data on
// std alone, because codegen includes it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_CHATDATA_H
#define TANDEM_MODELS_CHATDATA_H

#include <cstdint>
#include <optional>

namespace tandem::models {

struct ChatData {
  /// XXH3 (64 bits) of the chat template, with line ends of Unix and without
  /// white space at its end. None: there is no template.
  std::optional<uint64_t> templateHash;
  /// Whether a model of this size thinks unless told otherwise.
  bool thinking = true;

  /// generation_config.json, none when there is no such file.
  struct Generation {
    bool sample = false;
    /// What the file does not say is none.
    std::optional<double> temperature, topP, minP, repetitionPenalty;
    std::optional<int64_t> topK;
  };
  std::optional<Generation> generation;
};

} // namespace tandem::models

#endif // TANDEM_MODELS_CHATDATA_H
