//===- TextOptions.h - Flags of commands that write text --------*- C++ -*-===//

#ifndef TANDEM_TOOLS_QRUN_TEXTOPTIONS_H
#define TANDEM_TOOLS_QRUN_TEXTOPTIONS_H

#include "runtime/Artifact.h"
#include "runtime/ChatTemplate.h"
#include "runtime/Speculator.h"

#include <optional>
#include <string>
#include <vector>

namespace tandem::qrun {

/// How tokens are chosen. Without any of these flags, the likeliest.
struct SamplingFlags {
  /// What the checkpoint recommends, for all that is not given.
  bool sample = false;
  std::optional<float> temperature, topP, minP, repetitionPenalty,
      presencePenalty, frequencyPenalty;
  std::optional<uint32_t> topK;
  std::optional<uint64_t> seed;
  /// "TOKEN=BIAS".
  std::vector<std::string> logitBias;
};

/// Rows of a block that are verified. None: chosen round by round.
using BlockFlag = std::optional<uint32_t>;

/// How an answer is drafted, and what ends it.
struct AnswerFlags {
  SamplingFlags sampling;
  DraftChoice drafts = defaultDraftChoice;
  bool noDraft = false;
  BlockFlag block;
  bool ignoreEos = false;
  std::vector<std::string> stops;
  std::vector<uint32_t> stopTokens;
};

/// How messages become a prompt.
struct ChatFlags {
  std::optional<std::string> templateName;
  std::optional<std::string> system;
  /// None: what the template does when nobody says.
  std::optional<bool> thinking;
};

/// Puts what \p flags say one by one into \p options. Fails when a bias has not
/// the form it needs; values are not checked.
Status applyFlags(const SamplingFlags &flags, SamplingOptions &options);

/// The options of \p flags for \p artifact, but for the length. A seed that
/// was not given is a random one.
StatusOr<GenerateOptions> makeOptions(const AnswerFlags &flags,
                                      const Artifact &artifact);

} // namespace tandem::qrun

#endif // TANDEM_TOOLS_QRUN_TEXTOPTIONS_H
