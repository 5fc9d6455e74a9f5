//===- TextOptions.cpp - Flags of commands that write text ----------------===//

#include "tools/qrun/TextOptions.h"

#include "runtime/SamplingDefaults.h"

#include <random>

namespace tandem::qrun {

/// Parses "TOKEN=BIAS".
static StatusOr<std::pair<uint32_t, float>> parseBias(std::string_view text) {
  std::pair<uint32_t, float> result;
  const char *end = text.data() + text.size();
  auto token = std::from_chars(text.data(), end, result.first);
  if (token.ec == std::errc() && token.ptr != end && *token.ptr == '=') {
    auto bias = std::from_chars(token.ptr + 1, end, result.second);
    if (bias.ec == std::errc() && bias.ptr == end)
      return result;
  }
  return invalidArgument("--logit-bias: '", text,
                         "' is not of the form TOKEN=BIAS, as 42=-5");
}

Status applyFlags(const SamplingFlags &flags, SamplingOptions &options) {
  auto set = [](auto &field, const auto &value) {
    if (value)
      field = *value;
  };
  set(options.temperature, flags.temperature);
  set(options.topK, flags.topK);
  set(options.topP, flags.topP);
  set(options.minP, flags.minP);
  set(options.repetitionPenalty, flags.repetitionPenalty);
  set(options.presencePenalty, flags.presencePenalty);
  set(options.frequencyPenalty, flags.frequencyPenalty);
  for (const std::string &text : flags.logitBias) {
    TANDEM_ASSIGN_OR_RETURN(auto bias, parseBias(text));
    options.logitBias.push_back(bias);
  }
  return Status();
}

/// The sampling of \p flags; nothing when they ask for the likeliest tokens.
static StatusOr<std::optional<SamplingOptions>>
makeSampling(const SamplingFlags &flags, const Artifact &artifact) {
  // A seed alone asks for a text that depends on it.
  bool drawn = flags.temperature || flags.topK || flags.topP || flags.minP;
  bool recommended = flags.sample || (flags.seed && !drawn);
  bool adjusted = flags.repetitionPenalty || flags.presencePenalty ||
                  flags.frequencyPenalty || !flags.logitBias.empty();
  if (!drawn && !recommended && !adjusted)
    return std::optional<SamplingOptions>();
  SamplingOptions options;
  if (recommended)
    options = defaultSampling(artifact.root().generation());
  else if (!drawn)
    options = SamplingOptions::greedy();
  TANDEM_RETURN_IF_ERROR(applyFlags(flags, options));
  std::random_device random;
  options.seed = flags.seed ? *flags.seed : uint64_t(random()) << 32 | random();
  TANDEM_RETURN_IF_ERROR(
      checkSampling(options, artifact.root().loop()->vocabulary()));
  return std::optional(std::move(options));
}

StatusOr<GenerateOptions> makeOptions(const AnswerFlags &flags,
                                      const Artifact &artifact) {
  GenerateOptions options;
  TANDEM_ASSIGN_OR_RETURN(options.sampling,
                          makeSampling(flags.sampling, artifact));
  uint32_t vocabulary = artifact.root().loop()->vocabulary();
  for (uint32_t token : flags.stopTokens)
    if (token >= vocabulary)
      return invalidArgument("--stop-token: token ", token,
                             " is out of range (", vocabulary, " tokens)");
  options.drafts = flags.drafts;
  options.useDrafter = !flags.noDraft;
  options.chooseRows = !flags.block;
  options.blockRows = flags.block.value_or(0);
  options.ignoreStopTokens = flags.ignoreEos;
  options.stopTokens = flags.stopTokens;
  return options;
}

} // namespace tandem::qrun
