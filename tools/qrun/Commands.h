//===- Commands.h - The commands of qrun ------------------------*- C++ -*-===//
//
// One function per command, behind the parsing of flags. Each does what its
// flags say and returns a failure whose message names the file it is about.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_QRUN_COMMANDS_H
#define TANDEM_TOOLS_QRUN_COMMANDS_H

#include "tools/qrun/Session.h"

namespace tandem::qrun {

struct GenerateFlags : DeviceFlags {
  PromptFlags prompt;
  uint32_t maxNewTokens = 128;
  bool noDraft = false;
  bool ignoreEos = false;
  std::vector<std::string> stops;
  bool json = false;
};
/// Writes text: to stdout as it is decided, or one JSON object at the end.
/// Returns the exit code: 0, or 130 after an interrupt.
StatusOr<int> generate(const GenerateFlags &flags);

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

struct BenchFlags : DeviceFlags {
  /// What to write about; used as it is without scenarios, otherwise repeated
  /// to the lengths they ask for.
  PromptFlags prompt;
  /// "64/128,2048/256": lengths of prompts and answers. Empty: the usual ones.
  std::string scenario;
  /// For a prompt without scenarios.
  uint32_t maxNewTokens = 128;
  unsigned repeats = 3;
  bool json = false;
};
/// Measures and prints how fast the pair is.
Status bench(const BenchFlags &flags);

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
