//===- Commands.h - The commands of qrun ------------------------*- C++ -*-===//
//
// One function per command, behind the parsing of flags. Each does what its
// flags say and returns a failure whose message names the file it is about.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_QRUN_COMMANDS_H
#define TANDEM_TOOLS_QRUN_COMMANDS_H

#include "tools/qrun/Session.h"
#include "tools/qrun/TextOptions.h"

namespace tandem::qrun {

struct GenerateFlags : DeviceFlags {
  PromptFlags prompt;
  AnswerFlags answer;
  /// The prompt is a message of a user.
  bool isChat = false;
  ChatFlags chat;
  uint32_t maxNewTokens = 128;
  bool json = false;
};
/// Writes text: to stdout as it is decided, or one JSON object at the end.
/// Returns the exit code: 0, or 130 after an interrupt.
StatusOr<int> generate(const GenerateFlags &flags);

/// Checks that target and drafter agree on the prompt that the artefact brings,
/// and prints the result; a failure when they do not.
Status selfTest(const GenerateFlags &flags);

struct ScoreFlags : DeviceFlags {
  std::string idsFile;
  std::string output;
};
/// Writes logits, features and draft logits of given ids to a safetensors file.
Status score(const ScoreFlags &flags);

struct ExecFlags : DeviceFlags {
  std::string input;
  std::string output;
  /// Empty: the first program.
  std::string program;
};
/// Runs one program on tensors from a file.
Status exec(const ExecFlags &flags);

/// Lengths of a prompt and of the answer to it.
struct Scenario {
  uint32_t promptTokens;
  uint32_t newTokens;
};
/// Parses "64/128,2048/256".
StatusOr<std::vector<Scenario>> parseScenarios(std::string_view text);

struct BenchFlags : DeviceFlags {
  /// What to write about; used as it is without scenarios, otherwise repeated
  /// to the lengths they ask for.
  PromptFlags prompt;
  /// Empty: the usual ones.
  std::vector<Scenario> scenarios;
  /// For a prompt without scenarios.
  uint32_t maxNewTokens = 128;
  unsigned repeats = 3;
  /// Tokens that every round accepts; 0: what the drafter gets right.
  uint32_t acceptLength = 0;
  /// Print the time of the kernels, too.
  bool kernels = false;
  BlockFlag block;
  bool json = false;
};
/// Measures and prints how fast the pair is.
Status bench(const BenchFlags &flags);

struct ChatCommandFlags : DeviceFlags {
  AnswerFlags answer;
  ChatFlags chat;
  /// Of an answer.
  uint32_t maxNewTokens = 1u << 30;
};
/// Talks with whoever is at the terminal. Returns an exit code.
StatusOr<int> converse(const ChatCommandFlags &flags);

struct ServeFlags : DeviceFlags {
  std::string host = "127.0.0.1";
  /// 0: one that is free.
  int port = 8000;
  /// Empty: anybody may ask.
  std::string apiKey;
  /// Empty: the name of the file.
  std::string modelName;
  uint32_t queue = 32;
  /// Seconds of a request; 0: as long as it takes.
  double timeout = 600;
  /// Seconds that a client may leave an answer unread.
  double sendTimeout = 10;
  uint32_t maxBodyMegabytes = 8;
  std::optional<std::string> templateName;
  bool noDraft = false;
  BlockFlag block;
  DraftChoice drafts = defaultDraftChoice;
};
/// Answers requests of OpenAI's API until it gets a signal.
Status serve(const ServeFlags &flags);

struct InspectFlags {
  std::string artifact;
  /// Also reads the weights and compares their hash.
  bool deep = false;
  bool json = false;
};
/// Prints what an artefact holds. Needs nothing of the machine it is for.
Status inspect(const InspectFlags &flags);

struct TokenizeFlags {
  std::string artifact;
  PromptFlags prompt;
  bool json = false;
};
/// Prints the ids of a text.
Status tokenize(const TokenizeFlags &flags);

} // namespace tandem::qrun

#endif // TANDEM_TOOLS_QRUN_COMMANDS_H
