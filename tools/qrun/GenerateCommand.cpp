//===- GenerateCommand.cpp - qrun without a command: write text -----------===//

#include "tools/qrun/Commands.h"

#include "runtime/Speculator.h"
#include "runtime/TextStream.h"
#include "runtime/WeightTraffic.h"
#include "tools/qrun/Interrupt.h"

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace tandem::qrun {

namespace {

/// Writes text to stdout after every round, or keeps it.
class Printer final : public TokenSink {
public:
  /// \p stream is null when there is no tokenizer and so no text.
  Printer(TextStream *stream, bool keep) : stream(stream), keep(keep) {}

  bool token(uint32_t id) override { return !stream || stream->push(id); }

  bool keepGoing() override {
    flush();
    return writeError == 0 && !interrupted();
  }

  /// Ends the text.
  void finish() {
    if (stream)
      stream->finish();
    flush();
  }

  const std::string &text() const { return kept; }
  /// The error number of writing to stdout, 0 when all went well.
  int error() const { return writeError; }

private:
  void flush() {
    if (!stream)
      return;
    std::string text = stream->take();
    if (keep) {
      kept += text;
      return;
    }
    if (writeError == 0 &&
        (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
         std::fflush(stdout) != 0))
      writeError = errno;
  }

  TextStream *stream;
  bool keep;
  std::string kept;
  int writeError = 0;
};

} // namespace

static void printJson(const Generation &generation, const std::string &text,
                      size_t promptTokens, double loadSeconds) {
  nlohmann::ordered_json object;
  object["ids"] = generation.ids;
  object["text"] = text;
  object["finish_reason"] =
      generation.finishReason == FinishReason::Stop ? "stop" : "length";
  object["prompt_tokens"] = promptTokens;
  object["accept_lengths"] = generation.acceptLengths;
  object["mean_accept_length"] = generation.meanAcceptLength();
  object["timing"] = {{"load_s", loadSeconds},
                      {"prefill_s", generation.prefillSeconds},
                      {"decode_s", generation.decodeSeconds},
                      {"tokens_per_s", generation.tokensPerSecond()}};
  // Text that is not UTF-8 must not keep the object from being JSON.
  std::string line = object.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::printf("%s\n", line.c_str());
}

/// A line for people, behind the text.
static void printSummary(const Generation &generation, const Session &session) {
  std::fprintf(stderr, "\n%zu tokens, %.1f tokens/s", generation.ids.size(),
               generation.tokensPerSecond());
  bool drafted = !generation.acceptLengths.empty();
  if (drafted)
    std::fprintf(stderr, ", mean accept length %.2f",
                 generation.meanAcceptLength());
  size_t rounds =
      drafted ? generation.acceptLengths.size() : generation.ids.size() - 1;
  // Large enough for an estimate, small enough not to be waited for.
  auto bandwidth = session.machine.measureBandwidth(uint64_t(256) << 20);
  if (rounds > 0 && bandwidth.isOk()) {
    double rate = double(weightBytesPerRound(session.artifact, drafted)) *
                  double(rounds) / generation.decodeSeconds;
    std::fprintf(stderr, ", weights read at %.1f GB/s (%.0f%% of %.1f)",
                 rate / 1e9, rate / *bandwidth * 100, *bandwidth / 1e9);
  }
  std::fputc('\n', stderr);
}

StatusOr<int> generate(const GenerateFlags &flags) {
  TANDEM_ASSIGN_OR_RETURN(Session session, load(flags));
  auto speculator = Speculator::create(session.artifact, session.device());
  if (!speculator.isOk())
    return inFile(flags.artifact, speculator.status());

  // Without a tokenizer ids go in and out.
  std::optional<Tokenizer> tokenizer;
  if (session.artifact.root().tokenizer() || !flags.prompt.idsFile ||
      !flags.json || !flags.stops.empty()) {
    TANDEM_ASSIGN_OR_RETURN(tokenizer,
                            makeTokenizer(session.artifact, flags.artifact));
  }
  TANDEM_ASSIGN_OR_RETURN(
      std::vector<uint32_t> prompt,
      readPrompt(flags.prompt, tokenizer ? &*tokenizer : nullptr));

  std::optional<TextStream> stream;
  if (tokenizer)
    stream.emplace(*tokenizer, flags.stops);
  Printer printer(stream ? &*stream : nullptr, flags.json);
  GenerateOptions options;
  options.maxNewTokens = flags.maxNewTokens;
  options.ignoreStopTokens = flags.ignoreEos;
  options.useDrafter = !flags.noDraft;
  catchInterrupts();
  auto generation = speculator->generate(prompt, options, printer);
  if (!generation.isOk())
    return inFile(flags.artifact, generation.status());
  printer.finish();
  if (generation->finishReason == FinishReason::Cancelled && interrupted())
    return 130;
  // A reader that has seen enough is no error.
  if (printer.error() == EPIPE)
    return 0;
  if (printer.error() != 0)
    return systemError("stdout: cannot write", printer.error());

  if (flags.json)
    printJson(*generation, printer.text(), prompt.size(), session.loadSeconds);
  else if (isatty(STDERR_FILENO))
    printSummary(*generation, session);
  return 0;
}

} // namespace tandem::qrun
