//===- Logprobs.h - Log probabilities of tokens -----------------*- C++ -*-===//

#ifndef TANDEM_RUNTIME_LOGPROBS_H
#define TANDEM_RUNTIME_LOGPROBS_H

#include <cstdint>
#include <span>
#include <vector>

namespace tandem {

struct TokenLogprob {
  uint32_t token;
  /// Natural logarithm of softmax(logits)[token].
  float logprob;
};

/// How likely a token was for the target, before any transform of Sampler.h.
struct Logprobs {
  TokenLogprob chosen;
  /// The likeliest tokens, falling; of equal ones the lowest ids first.
  std::vector<TokenLogprob> top;
};

/// The log probability of \p token in the row \p logits, and those of the
/// \p count likeliest tokens.
Logprobs computeLogprobs(std::span<const float> logits, uint32_t token,
                         uint32_t count);

} // namespace tandem

#endif // TANDEM_RUNTIME_LOGPROBS_H
