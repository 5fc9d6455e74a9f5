//===- Logprobs.cpp - Log probabilities of tokens -------------------------===//

#include "runtime/Logprobs.h"

#include <algorithm>
#include <cmath>

namespace tandem {

Logprobs computeLogprobs(std::span<const float> logits, uint32_t token,
                         uint32_t count) {
  float largest = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (float logit : logits)
    total += std::exp(logit - largest);
  double shift = double(largest) + std::log(total);
  auto logprob = [&](uint32_t id) {
    return TokenLogprob{id, float(double(logits[id]) - shift)};
  };

  Logprobs result{logprob(token), {}};
  // Few of many: a sorted list of the best so far beats sorting all.
  std::vector<uint32_t> best;
  for (uint32_t id = 0; count > 0 && id < logits.size(); ++id) {
    if (best.size() == count && logits[id] <= logits[best.back()])
      continue;
    auto place = std::find_if(best.begin(), best.end(), [&](uint32_t other) {
      return logits[id] > logits[other];
    });
    best.insert(place, id);
    if (best.size() > count)
      best.pop_back();
  }
  for (uint32_t id : best)
    result.top.push_back(logprob(id));
  return result;
}

} // namespace tandem
