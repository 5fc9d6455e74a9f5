//===- Sampler.cpp - Tokens from logits -----------------------------------===//

#include "runtime/Sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem {

Status checkSampling(const SamplingOptions &options, uint32_t vocabulary) {
  // Written so that a NaN fails. The bounds keep all logits finite.
  auto within = [](float value, float low, float high) {
    return value >= low && value <= high;
  };
  if (!(options.temperature >= 0 && std::isfinite(options.temperature)))
    return invalidArgument("temperature must be a number of at least 0");
  if (!(options.topP > 0 && options.topP <= 1))
    return invalidArgument("top_p must be more than 0 and at most 1");
  if (!within(options.minP, 0, 1))
    return invalidArgument("min_p must be from 0 to 1");
  if (!within(options.repetitionPenalty, 0.01f, 100))
    return invalidArgument("repetition_penalty must be from 0.01 to 100");
  if (!within(options.presencePenalty, -2, 2))
    return invalidArgument("presence_penalty must be from -2 to 2");
  if (!within(options.frequencyPenalty, -2, 2))
    return invalidArgument("frequency_penalty must be from -2 to 2");
  for (auto [token, bias] : options.logitBias) {
    if (token >= vocabulary)
      return invalidArgument("logit_bias: token ", token, " is out of range (",
                             vocabulary, " tokens)");
    if (!within(bias, -100, 100))
      return invalidArgument("logit_bias: the bias of token ", token,
                             " must be from -100 to 100");
  }
  return Status();
}

Sampler::Sampler(SamplingOptions options, uint32_t vocabulary)
    : settings(std::move(options)),
      adjusts(!settings.logitBias.empty() || settings.repetitionPenalty != 1 ||
              settings.presencePenalty != 0 || settings.frequencyPenalty != 0),
      answerCounts(vocabulary), inPrompt(vocabulary), row(vocabulary) {}

void Sampler::start(std::span<const uint32_t> prompt) {
  for (uint32_t token : promptTokens)
    inPrompt[token] = false;
  promptTokens.clear();
  while (!answer.empty())
    pop();
  for (uint32_t token : prompt)
    if (!inPrompt[token]) {
      inPrompt[token] = true;
      promptTokens.push_back(token);
    }
}

void Sampler::push(uint32_t token) {
  answer.push_back(token);
  if (answerCounts[token]++ == 0)
    answerTokens.push_back(token);
}

void Sampler::pop() {
  // The token that is gone from the answer was also the last one to join it.
  if (--answerCounts[answer.back()] == 0)
    answerTokens.pop_back();
  answer.pop_back();
}

/// Steps 1 to 3, into `row`.
Status Sampler::prepare(std::span<const float> logits, uint64_t position) {
  float largest = -std::numeric_limits<float>::infinity();
  bool good = true;
  for (float logit : logits) {
    largest = std::max(largest, logit);
    good &= logit < std::numeric_limits<float>::infinity();
  }
  if (!good || !std::isfinite(largest))
    return invalidFile("no token at position ", position,
                       ": the target's logits are not finite there");
  std::copy(logits.begin(), logits.end(), row.begin());
  if (!adjusts)
    return Status();

  for (auto [token, bias] : settings.logitBias)
    row[token] += bias;
  auto repeat = [&](uint32_t token) {
    float &logit = row[token];
    logit = logit > 0 ? logit / settings.repetitionPenalty
                      : logit * settings.repetitionPenalty;
  };
  if (settings.repetitionPenalty != 1)
    for (uint32_t token : promptTokens)
      repeat(token);
  for (uint32_t token : answerTokens) {
    if (settings.repetitionPenalty != 1 && !inPrompt[token])
      repeat(token);
    row[token] -= settings.presencePenalty +
                  settings.frequencyPenalty * float(answerCounts[token]);
  }
  return Status();
}

/// Sorts the first \p count candidates of the order to the front.
void Sampler::sortCandidates(size_t count) {
  auto before = [](const Candidate &left, const Candidate &right) {
    return left.logit != right.logit ? left.logit > right.logit
                                     : left.token < right.token;
  };
  std::partial_sort(candidates.begin(), candidates.begin() + ptrdiff_t(count),
                    candidates.end(), before);
}

/// The number of sorted candidates that have top-p of \p total together.
/// Sorts as far as it needs to.
size_t Sampler::countNucleus(double total) {
  double before = 0;
  size_t sorted = 0;
  for (size_t count = 0; count < candidates.size(); ++count) {
    if (count >= sorted) {
      sorted = std::min(candidates.size(), std::max<size_t>(64, 4 * sorted));
      sortCandidates(sorted);
    }
    if (count > 0 && before >= double(settings.topP) * total)
      return count;
    before += std::exp(candidates[count].logit);
  }
  return candidates.size();
}

/// Steps 4 to 7, from `row` into `candidates`.
void Sampler::filter() {
  // A temperature of nearly 0 must not make infinities of finite logits.
  float largest = *std::max_element(row.begin(), row.end());
  candidates.clear();
  for (uint32_t token = 0; token < row.size(); ++token)
    candidates.push_back(
        {token, (row[token] - largest) / settings.temperature});
  if (settings.topK > 0 && settings.topK < candidates.size()) {
    sortCandidates(settings.topK);
    candidates.resize(settings.topK);
  }
  if (settings.topP < 1) {
    double total = 0;
    for (const Candidate &candidate : candidates)
      total += std::exp(candidate.logit);
    candidates.resize(countNucleus(total));
  }
  // The likeliest token has exp(0) = 1.
  if (settings.minP > 0)
    std::erase_if(candidates, [&](const Candidate &candidate) {
      return std::exp(candidate.logit) < settings.minP;
    });
}

StatusOr<uint32_t> Sampler::sample(std::span<const float> logits,
                                   uint64_t position, RandomUse use) {
  TANDEM_RETURN_IF_ERROR(prepare(logits, position));
  if (isGreedy())
    return uint32_t(std::max_element(row.begin(), row.end()) - row.begin());
  filter();
  // Begin with the likeliest: then most of the others need no number, because
  // the largest one could not lift them above it.
  auto likeliest =
      std::max_element(candidates.begin(), candidates.end(),
                       [](const Candidate &left, const Candidate &right) {
                         return left.logit != right.logit
                                    ? left.logit < right.logit
                                    : left.token > right.token;
                       });
  PositionRandom random(settings.seed, position, use);
  uint32_t chosen = likeliest->token;
  double best = double(likeliest->logit) + random.gumbel(chosen);
  for (const Candidate &candidate : candidates) {
    if (double(candidate.logit) + PositionRandom::largestGumbel < best)
      continue;
    double score = double(candidate.logit) + random.gumbel(candidate.token);
    if (score > best || (score == best && candidate.token < chosen)) {
      best = score;
      chosen = candidate.token;
    }
  }
  return chosen;
}

Status Sampler::distribution(std::span<const float> logits, uint64_t position,
                             std::span<float> probabilities) {
  TANDEM_RETURN_IF_ERROR(prepare(logits, position));
  std::fill(probabilities.begin(), probabilities.end(), 0.0f);
  if (isGreedy()) {
    probabilities[size_t(std::max_element(row.begin(), row.end()) -
                         row.begin())] = 1;
    return Status();
  }
  filter();
  double total = 0;
  for (const Candidate &candidate : candidates)
    total += std::exp(candidate.logit);
  for (const Candidate &candidate : candidates)
    probabilities[candidate.token] = float(std::exp(candidate.logit) / total);
  return Status();
}

} // namespace tandem
