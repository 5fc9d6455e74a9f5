//===- BlockSampler.cpp - Sampled tokens of a drafted block ---------------===//

#include "runtime/BlockSampler.h"

#include <algorithm>
#include <cmath>

namespace tandem {

BlockSampler::BlockSampler(SamplingOptions options, DraftChoice choice,
                           uint32_t vocabulary)
    : sampler(std::move(options), vocabulary), choice(choice),
      vocabulary(vocabulary),
      probabilities(choice == DraftChoice::Rejection ? vocabulary : 0) {}

StatusOr<uint32_t> BlockSampler::decideOne(std::span<const float> logits,
                                           uint64_t position) {
  TANDEM_ASSIGN_OR_RETURN(uint32_t token, sampler.sample(logits, position));
  sampler.push(token);
  return token;
}

void BlockSampler::chooseDrafts(std::span<float> logits, uint64_t position,
                                std::span<uint32_t> block) {
  RandomUse use =
      choice == DraftChoice::Shared ? RandomUse::Target : RandomUse::Draft;
  for (size_t slot = 1; slot < block.size(); ++slot) {
    std::span<float> row = logits.subspan((slot - 1) * vocabulary, vocabulary);
    StatusOr<uint32_t> token = sampler.sample(row, position + slot - 1, use);
    if (token.isOk())
      block[slot] = *token;
    else
      // A drafter is never a reason to fail. One that has no distribution is
      // certain of the token it wrote.
      block[slot] = std::min(block[slot], vocabulary - 1);
    if (choice == DraftChoice::Rejection) {
      if (token.isOk() &&
          sampler.distribution(row, position, probabilities).isOk())
        std::copy(probabilities.begin(), probabilities.end(), row.begin());
      else {
        std::fill(row.begin(), row.end(), 0.0f);
        row[block[slot]] = 1;
      }
    }
    sampler.push(block[slot]);
  }
  for (size_t slot = 1; slot < block.size(); ++slot)
    sampler.pop();
}

StatusOr<uint32_t>
BlockSampler::decideByRejection(std::span<const float> logits,
                                std::span<const float> draft, uint32_t drafted,
                                uint64_t position) {
  TANDEM_RETURN_IF_ERROR(sampler.distribution(logits, position, probabilities));
  uint64_t seed = sampler.options().seed;
  double uniform = PositionRandom(seed, position, RandomUse::Accept).uniform(0);
  if (uniform * draft[drafted] < probabilities[drafted])
    return drafted;
  // What the drafter says too seldom.
  PositionRandom random(seed, position, RandomUse::Residual);
  uint32_t chosen = vocabulary;
  double best = 0;
  for (uint32_t token = 0; token < vocabulary; ++token) {
    float rest = probabilities[token] - draft[token];
    if (rest <= 0 || token == drafted)
      continue;
    double score = std::log(rest) + random.gumbel(token);
    if (chosen == vocabulary || score > best) {
      best = score;
      chosen = token;
    }
  }
  // Nothing is left only where rounding made equal distributions differ.
  return chosen == vocabulary ? drafted : chosen;
}

StatusOr<uint32_t>
BlockSampler::decide(std::span<const float> logits,
                     std::span<const float> draftProbabilities,
                     std::span<const uint32_t> block, uint64_t position,
                     std::span<uint32_t> decided) {
  uint32_t count = 0;
  while (true) {
    std::span<const float> row =
        logits.subspan(size_t(count) * vocabulary, vocabulary);
    bool last = count + 1 == block.size();
    StatusOr<uint32_t> token =
        choice == DraftChoice::Rejection && !last
            ? decideByRejection(row,
                                draftProbabilities.subspan(
                                    size_t(count) * vocabulary, vocabulary),
                                block[count + 1], position + count)
            : sampler.sample(row, position + count);
    if (!token.isOk())
      return token.status();
    sampler.push(*token);
    decided[count++] = *token;
    if (last || *token != block[count])
      return count;
  }
}

} // namespace tandem
