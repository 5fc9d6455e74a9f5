//===- GenerateCommand.cpp - qrun without a command: write text -----------===//

#include "tools/qrun/Commands.h"
#include "tools/qrun/HeadCountsJson.h"

#include "runtime/Speculator.h"
#include "runtime/WeightTraffic.h"
#include "tools/qrun/AnswerPrinter.h"
#include "tools/qrun/Interrupt.h"

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace tandem::qrun {

namespace {

/// Takes tokens that are no text, because there is no tokenizer.
class Silence final : public TokenSink {
public:
  bool token(uint32_t) override { return true; }
  bool keepGoing() override { return !interrupted(); }
};

} // namespace

static void printJson(const Generation &generation,
                      const GenerateOptions &options,
                      const AnswerPrinter *printer, bool isChat,
                      size_t promptTokens, double loadSeconds,
                      const std::optional<HeadCounts> &heads) {
  nlohmann::ordered_json object;
  object["ids"] = generation.ids;
  object["text"] = printer ? printer->text() : "";
  if (isChat) {
    object["reasoning"] = printer->reasoning();
    object["content"] = printer->content();
  }
  object["finish_reason"] =
      generation.finishReason == FinishReason::Stop ? "stop" : "length";
  object["prompt_tokens"] = promptTokens;
  if (options.sampling)
    object["seed"] = options.sampling->seed;
  object["accept_lengths"] = generation.acceptLengths;
  if (!generation.roundRows.empty())
    object["round_rows"] = generation.roundRows;
  object["mean_accept_length"] = generation.meanAcceptLength();
  if (heads)
    object["head"] = toJson(*heads);
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
    double rate = weightBytesPerRound(session.artifact, drafted,
                                      generation.draftedShare()) *
                  double(rounds) / generation.decodeSeconds;
    std::fprintf(stderr, ", weights read at %.1f GB/s (%.0f%% of %.1f)",
                 rate / 1e9, rate / *bandwidth * 100, *bandwidth / 1e9);
  }
  std::fputc('\n', stderr);
}

/// The ids of a message.
static StatusOr<std::vector<uint32_t>>
encodeMessage(const GenerateFlags &flags, const ChatTemplate &chat,
              const ChatOptions &how, const Tokenizer &tokenizer) {
  TANDEM_ASSIGN_OR_RETURN(std::string question, readPromptText(flags.prompt));
  std::vector<ChatMessage> messages;
  if (flags.chat.system)
    messages.push_back({ChatRole::System, *flags.chat.system});
  messages.push_back({ChatRole::User, std::move(question)});
  TANDEM_ASSIGN_OR_RETURN(ChatText text, chat.render(messages, how));
  TANDEM_ASSIGN_OR_RETURN(ChatPrompt prompt, encodeChat(tokenizer, text));
  return std::move(prompt.ids);
}

StatusOr<int> generate(const GenerateFlags &flags) {
  TANDEM_ASSIGN_OR_RETURN(Session session, load(flags));
  auto speculator = Speculator::create(session.artifact, session.device());
  if (!speculator.isOk())
    return inFile(flags.artifact, speculator.status());

  // Without a tokenizer ids go in and out.
  std::optional<Tokenizer> tokenizer;
  if (session.artifact.root().tokenizer() || !flags.prompt.idsFile ||
      !flags.json || !flags.answer.stops.empty()) {
    TANDEM_ASSIGN_OR_RETURN(tokenizer,
                            makeTokenizer(session.artifact, flags.artifact));
  }
  std::vector<uint32_t> prompt;
  bool beginsInReasoning = false;
  if (flags.isChat) {
    TANDEM_ASSIGN_OR_RETURN(ChatTemplate chat,
                            findTemplate(flags.chat, session, flags.artifact));
    ChatOptions how{.thinking =
                        flags.chat.thinking.value_or(chat.thinksByDefault())};
    beginsInReasoning = chat.answerBeginsInReasoning(how);
    TANDEM_ASSIGN_OR_RETURN(prompt,
                            encodeMessage(flags, chat, how, *tokenizer));
  } else {
    TANDEM_ASSIGN_OR_RETURN(
        prompt, readPrompt(flags.prompt, tokenizer ? &*tokenizer : nullptr));
  }

  std::optional<AnswerPrinter> printer;
  if (tokenizer)
    printer.emplace(*tokenizer, flags.answer.stops, beginsInReasoning,
                    /*print=*/!flags.json);
  Silence silence;
  TokenSink *sink = &silence;
  if (printer)
    sink = &*printer;
  TANDEM_ASSIGN_OR_RETURN(GenerateOptions options,
                          makeOptions(flags.answer, session.artifact));
  options.maxNewTokens = flags.maxNewTokens;
  catchInterrupts();
  if (options.chooseRows && options.useDrafter)
    TANDEM_RETURN_IF_ERROR(speculator->measureRounds());
  auto generation = speculator->generate(prompt, options, *sink);
  if (!generation.isOk())
    return inFile(flags.artifact, generation.status());
  if (printer)
    printer->finish();
  if (generation->finishReason == FinishReason::Cancelled && interrupted())
    return 130;
  int error = printer ? printer->error() : 0;
  // A reader that has seen enough is no error.
  if (error == EPIPE)
    return 0;
  if (error != 0)
    return systemError("stdout: cannot write", error);

  if (flags.json) {
    // All that was counted since the load is this text.
    TANDEM_ASSIGN_OR_RETURN(std::optional<HeadCounts> heads,
                            readHeadCounts(session.artifact, session.device()));
    printJson(*generation, options, printer ? &*printer : nullptr, flags.isChat,
              prompt.size(), session.loadSeconds, heads);
  } else if (isatty(STDERR_FILENO))
    printSummary(*generation, session);
  return 0;
}

} // namespace tandem::qrun
