//===- Score.h - Logits of a given text -------------------------*- C++ -*-===//
//
// Runs a text through the pair and hands out what the models compute, for
// comparing them with other implementations.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_SCORE_H
#define TANDEM_RUNTIME_SCORE_H

#include "runtime/LoopDriver.h"

#include <functional>
#include <span>
#include <vector>

namespace tandem {

/// What score() returns beside the logits.
struct Scores {
  /// Context features: [tokens, featureWidth]. Empty without a drafter.
  std::vector<float> features;
  /// The drafter's logits for the block behind the text, whose anchor is the
  /// target's best next token: [block - 1, vocabulary]. Empty without a
  /// drafter.
  std::vector<float> draftLogits;
};

/// Gets the target's logits row after row, [rows, vocabulary] at a time: a
/// long text has more than fits into memory.
using LogitsSink = std::function<Status(std::span<const float> rows)>;

/// Scores \p ids from an empty context. \p artifact is run by \p device.
/// Errors: it cannot score, the ids are empty, outside the vocabulary, or more
/// than the context holds; the logits of the last token are not finite.
StatusOr<Scores> score(const Artifact &artifact, Device &device,
                       std::span<const uint32_t> ids, const LogitsSink &sink);

} // namespace tandem

#endif // TANDEM_RUNTIME_SCORE_H
