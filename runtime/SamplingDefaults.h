//===- SamplingDefaults.h - How a checkpoint wants to be sampled *- C++ -*-===//

#ifndef TANDEM_RUNTIME_SAMPLINGDEFAULTS_H
#define TANDEM_RUNTIME_SAMPLINGDEFAULTS_H

#include "runtime/Artifact_generated.h"
#include "runtime/Sampler.h"

namespace tandem {

/// The options of a checkpoint's generation_config.json, null when there is
/// none. What it does not say, or says wrongly, leaves the model's own
/// distribution as it is; `do_sample: false` chooses the likeliest tokens.
SamplingOptions defaultSampling(const artifact::GenerationDefaults *defaults);

} // namespace tandem

#endif // TANDEM_RUNTIME_SAMPLINGDEFAULTS_H
