//===- Session.cpp - An artefact and the device that runs it --------------===//

#include "tools/qrun/Session.h"

#include "runtime/IdsFile.h"
#include "runtime/TextFile.h"

#include <chrono>
#include <cstdio>
#include <unistd.h>

namespace tandem::qrun {

Status inFile(const std::string &file, const Status &status) {
  if (status.isOk())
    return status;
  return failure(status.code(), file, ": ", status.message());
}

/// Shows how much of the weights is in memory, on one line that goes away.
static void showProgress(uint64_t done, uint64_t total) {
  // Small files are there before anybody could read the line.
  if (total < (uint64_t(256) << 20))
    return;
  if (done < total)
    std::fprintf(stderr, "\rloading %3u%%", unsigned(done * 100 / total));
  else
    std::fputs("\r             \r", stderr);
  std::fflush(stderr);
}

StatusOr<Session> load(const DeviceFlags &flags, uint32_t snapshots) {
  auto begin = std::chrono::steady_clock::now();
  StatusOr<Artifact> artifact = Artifact::open(flags.artifact);
  if (!artifact.isOk())
    return inFile(flags.artifact, artifact.status());
  if (flags.verify)
    QRUN_RETURN_IF_ERROR(flags.artifact, artifact->verifyBlobs());
  std::function<void(uint64_t, uint64_t)> progress;
  if (isatty(STDERR_FILENO))
    progress = showProgress;
  StatusOr<ChosenDevice> device = chooseDevice(
      *artifact, flags.device,
      {.threads = flags.threads, .snapshots = snapshots, .progress = progress});
  if (!device.isOk())
    return inFile(flags.artifact, device.status());
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  return Session{std::move(*artifact), std::move(*device), seconds.count()};
}

StatusOr<Tokenizer> makeTokenizer(const Artifact &artifact,
                                  const std::string &path) {
  const artifact::Tokenizer *tables = artifact.root().tokenizer();
  if (!tables)
    return invalidArgument(path, ": has no tokenizer, use --ids and --json");
  StatusOr<Tokenizer> tokenizer = Tokenizer::create(*tables);
  if (!tokenizer.isOk())
    return inFile(path, tokenizer.status());
  return tokenizer;
}

StatusOr<ChatTemplate> findTemplate(const ChatFlags &flags,
                                    const Session &session,
                                    const std::string &path) {
  auto chat =
      ChatTemplate::find(session.artifact.root().chat(), flags.templateName);
  if (!chat.isOk())
    return inFile(path, chat.status());
  return chat;
}

StatusOr<std::string> readPromptText(const PromptFlags &flags) {
  if (flags.text)
    return *flags.text;
  auto text = readTextFile(*flags.textFile);
  if (!text.isOk())
    return inFile(*flags.textFile, text.status());
  return text;
}

StatusOr<std::vector<uint32_t>> readPrompt(const PromptFlags &flags,
                                           const Tokenizer *tokenizer) {
  if (flags.idsFile) {
    auto ids = readIdsFile(*flags.idsFile);
    if (!ids.isOk())
      return inFile(*flags.idsFile, ids.status());
    return ids;
  }
  assert(tokenizer && "text needs a tokenizer");
  TANDEM_ASSIGN_OR_RETURN(std::string text, readPromptText(flags));
  auto ids = tokenizer->encode(text);
  if (!ids.isOk())
    return inFile(flags.text ? "the prompt" : *flags.textFile, ids.status());
  return ids;
}

} // namespace tandem::qrun
