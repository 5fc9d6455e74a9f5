//===- BlockSampler.h - Sampled tokens of a drafted block -------*- C++ -*-===//
//
// Decides a block of the speculative loop on the host, from the logits that
// the target wrote for it. What is decided has exactly the distribution of
// the target, whatever the drafter says; how much of a block is kept depends
// on how its drafts were chosen:
//
//   likeliest   A draft is the drafter's likeliest token. It is kept when the
//               target's sample is the same token.
//   shared      A draft is sampled from the drafter's distribution with the
//               random numbers that the target's row will be sampled with, so
//               that similar distributions mostly say the same. It is kept
//               when they do.
//   rejection   A draft d is sampled from the drafter's distribution q with
//               numbers of its own and kept with probability p(d) / q(d),
//               where p is the target's; in place of the first one that is
//               not stands a sample of max(p - q, 0). Y. Leviathan et al.,
//               "Fast Inference from Transformers via Speculative Decoding",
//               ICML 2023. The drafter's slots do not see each other's
//               samples, so q is their true distribution.
//
// The first two decide what the target says without a drafter, token by token;
// the third one only has the same distribution.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_BLOCKSAMPLER_H
#define TANDEM_RUNTIME_BLOCKSAMPLER_H

#include "runtime/Sampler.h"

#include <span>
#include <vector>

namespace tandem {

enum class DraftChoice : uint8_t { Likeliest, Shared, Rejection };

/// What accepts most: docs/serving.md has the measurements.
constexpr DraftChoice defaultDraftChoice = DraftChoice::Likeliest;

class BlockSampler {
public:
  /// For rows of \p vocabulary logits; \p options have passed checkSampling.
  BlockSampler(SamplingOptions options, DraftChoice choice,
               uint32_t vocabulary);

  /// Starts a text behind \p prompt.
  void start(std::span<const uint32_t> prompt) { sampler.start(prompt); }

  /// Decides the token at \p position from the row \p logits alone.
  StatusOr<uint32_t> decideOne(std::span<const float> logits,
                               uint64_t position);

  /// Whether chooseDrafts() is needed before a block is verified.
  bool choosesDrafts() const { return choice != DraftChoice::Likeliest; }

  /// Replaces the drafts of \p block, [B], of which the first token is the
  /// anchor. \p logits is [B - 1, vocabulary], the drafter's; they become
  /// probabilities, which decide() needs. \p position is that of the first
  /// draft. Slots without finite logits keep their draft.
  void chooseDrafts(std::span<float> logits, uint64_t position,
                    std::span<uint32_t> block);

  /// Decides tokens behind \p block from the rows \p logits, [B, vocabulary],
  /// until one is not the draft behind it: decided[i] follows block[i] and
  /// stands at \p position + i. Returns how many. \p draftProbabilities is
  /// what chooseDrafts() left.
  StatusOr<uint32_t> decide(std::span<const float> logits,
                            std::span<const float> draftProbabilities,
                            std::span<const uint32_t> block, uint64_t position,
                            std::span<uint32_t> decided);

private:
  StatusOr<uint32_t> decideByRejection(std::span<const float> logits,
                                       std::span<const float> draft,
                                       uint32_t drafted, uint64_t position);

  Sampler sampler;
  DraftChoice choice;
  uint32_t vocabulary;
  /// [vocabulary] of the row at hand; empty unless drafts can be rejected.
  std::vector<float> probabilities;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_BLOCKSAMPLER_H
