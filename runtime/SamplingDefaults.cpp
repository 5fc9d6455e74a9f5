//===- SamplingDefaults.cpp - How a checkpoint wants to be sampled --------===//

#include "runtime/SamplingDefaults.h"

namespace tandem {

SamplingOptions defaultSampling(const artifact::GenerationDefaults *defaults) {
  SamplingOptions options;
  if (!defaults)
    return options;
  if (!defaults->do_sample())
    return SamplingOptions::greedy();
  // Each on its own, so that one bad number does not cost the others.
  auto set = [&options](auto SamplingOptions::*field, auto value) {
    SamplingOptions changed = options;
    changed.*field = value;
    if (value >= 0 && checkSampling(changed, 0).isOk())
      options = changed;
  };
  set(&SamplingOptions::temperature, defaults->temperature());
  if (defaults->top_k() >= 0)
    options.topK = uint32_t(defaults->top_k());
  set(&SamplingOptions::topP, defaults->top_p());
  set(&SamplingOptions::minP, defaults->min_p());
  set(&SamplingOptions::repetitionPenalty, defaults->repetition_penalty());
  return options;
}

} // namespace tandem
