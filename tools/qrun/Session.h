//===- Session.h - An artefact and the device that runs it ------*- C++ -*-===//

#ifndef TANDEM_TOOLS_QRUN_SESSION_H
#define TANDEM_TOOLS_QRUN_SESSION_H

#include "runtime/Artifact.h"
#include "runtime/Tokenizer.h"
#include "tools/qrun/ChosenDevice.h"
#include "tools/qrun/TextOptions.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::qrun {

/// Puts "file: " before the message of a failure.
Status inFile(const std::string &file, const Status &status);

/// Like TANDEM_RETURN_IF_ERROR, for a failure that is about \p file.
#define QRUN_RETURN_IF_ERROR(file, expression)                                 \
  TANDEM_RETURN_IF_ERROR(::tandem::qrun::inFile(file, expression))

/// Flags that every command has which runs something.
struct DeviceFlags {
  std::string artifact;
  /// `cpu` or `cuda:N`; empty: what the artefact was compiled for.
  std::string device;
  /// Of a CPU; 0: all cores.
  unsigned threads = 0;
  /// Check the hash of code and weights before they are used.
  bool verify = false;
};

/// Where a prompt comes from; exactly one is set.
struct PromptFlags {
  std::optional<std::string> text;
  std::optional<std::string> textFile;
  std::optional<std::string> idsFile;
};

/// A loaded artefact, ready to run.
struct Session {
  Artifact artifact;
  ChosenDevice machine;
  double loadSeconds;

  Device &device() const { return *machine.device; }
};

/// Opens and loads what \p flags say, with room for \p snapshots snapshots. On
/// a terminal, tells how far it is. Messages of errors have the path in front.
StatusOr<Session> load(const DeviceFlags &flags, uint32_t snapshots = 0);

/// The tokenizer of \p artifact, which lies in the file \p path.
StatusOr<Tokenizer> makeTokenizer(const Artifact &artifact,
                                  const std::string &path);

/// The chat template of \p flags, or of the artefact, which lies in the file
/// \p path.
StatusOr<ChatTemplate> findTemplate(const ChatFlags &flags,
                                    const Session &session,
                                    const std::string &path);

/// The text of a prompt that is not given by ids.
StatusOr<std::string> readPromptText(const PromptFlags &flags);

/// The ids of a prompt. \p tokenizer is null when the artefact has none, and
/// needed for text only.
StatusOr<std::vector<uint32_t>> readPrompt(const PromptFlags &flags,
                                           const Tokenizer *tokenizer);

} // namespace tandem::qrun

#endif // TANDEM_TOOLS_QRUN_SESSION_H
