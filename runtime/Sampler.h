//===- Sampler.h - Tokens from logits ---------------------------*- C++ -*-===//
//
// Turns a row of logits into a token. The transforms are applied in this
// order, in f32; one that is off changes no bit:
//
//   1. logit bias          x[t] += bias[t]
//   2. repetition penalty  x[t] > 0 ? x[t] / r : x[t] * r   for every t of the
//                          prompt and of the answer so far
//   3. presence penalty    x[t] -= a                 for every t of the answer
//      frequency penalty   x[t] -= f * count[t]
//      Temperature 0 ends here: the largest x, of equal ones the lowest id.
//   4. temperature         x[t] = (x[t] - max x) / T
//   5. top-k               the k largest x; of equal ones the lowest ids
//   6. top-p               p = softmax(x) of what is left, sorted: t stays if
//                          the tokens before it have less than P together
//   7. min-p               t stays if p[t] >= m * max p
//   8. draw                the largest log p[t] + g(seed, position, t), where
//                          g are Gumbel numbers (CounterRandom.h)
//
// The draw depends on the seed and on the position, and on nothing that was
// drawn before. A row has the same bits with and without the drafter, so a
// seed gives the same text either way.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_SAMPLER_H
#define TANDEM_RUNTIME_SAMPLER_H

#include "runtime/CounterRandom.h"
#include "runtime/Status.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tandem {

/// How tokens are chosen; see above. The initial values change nothing but
/// the temperature: they sample from the model's own distribution.
struct SamplingOptions {
  /// 0: the likeliest token.
  float temperature = 1;
  /// 0: all.
  uint32_t topK = 0;
  float topP = 1;
  float minP = 0;
  float repetitionPenalty = 1;
  float presencePenalty = 0;
  float frequencyPenalty = 0;
  /// Token and what is added to its logit; a token at most once.
  std::vector<std::pair<uint32_t, float>> logitBias;
  uint64_t seed = 0;

  /// Options that always choose the likeliest token.
  static SamplingOptions greedy() {
    SamplingOptions options;
    options.temperature = 0;
    return options;
  }
};

/// Checks the ranges: temperature finite and not negative, 0 < topP <= 1,
/// 0 <= minP <= 1, repetitionPenalty from 0.01 to 100, presence and frequency
/// from -2 to 2, biases from -100 to 100 of tokens below \p vocabulary.
Status checkSampling(const SamplingOptions &options, uint32_t vocabulary);

/// A token that may be drawn.
struct Candidate {
  uint32_t token;
  /// Logit behind the temperature, 0 for the likeliest.
  float logit;
};

/// Chooses the tokens of one text.
class Sampler {
public:
  /// For rows of \p vocabulary logits. \p options have passed checkSampling.
  Sampler(SamplingOptions options, uint32_t vocabulary);

  const SamplingOptions &options() const { return settings; }

  /// Starts a text behind \p prompt.
  void start(std::span<const uint32_t> prompt);
  /// Tokens join the answer at its end and leave it there: a draft is a part
  /// of the answer for the rows behind it, until it is found to be wrong.
  void push(uint32_t token);
  void pop();

  /// The token at \p position, from the row \p logits that the target wrote
  /// for it. Fails when the logits are not numbers.
  StatusOr<uint32_t> sample(std::span<const float> logits, uint64_t position,
                            RandomUse use = RandomUse::Target);

  /// Whether sample() always takes the likeliest token.
  bool isGreedy() const {
    return settings.temperature == 0 || settings.topK == 1;
  }

  /// The probabilities that sample() draws from: 0 for every token that the
  /// filters removed. Ids are indexes.
  Status distribution(std::span<const float> logits, uint64_t position,
                      std::span<float> probabilities);

private:
  Status prepare(std::span<const float> logits, uint64_t position);
  void filter();
  void sortCandidates(size_t count);
  size_t countNucleus(double total);

  SamplingOptions settings;
  /// Whether a transform changes logits one by one.
  bool adjusts;
  /// [vocabulary]: how often a token is in the answer, and in the prompt.
  std::vector<uint32_t> answerCounts;
  std::vector<bool> inPrompt;
  /// Tokens of the prompt and of the answer, each once, in the order in which
  /// they came up; and the answer.
  std::vector<uint32_t> promptTokens, answerTokens, answer;
  /// Scratch: the row behind steps 1 to 3, and what the filters left, in the
  /// order of ids when they left everything.
  std::vector<float> row;
  std::vector<Candidate> candidates;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_SAMPLER_H
