//===- ChatCommand.cpp - qrun chat ----------------------------------------===//

#include "tools/qrun/Commands.h"

#include "tools/qrun/AnswerPrinter.h"
#include "tools/qrun/Interrupt.h"
#include "tools/qrun/LineReader.h"

#include <cerrno>
#include <cstdio>

namespace tandem::qrun {

namespace {

constexpr const char *help =
    "/stats         how fast the last answer was\n"
    "/thinking on   think before an answer, or 'off'\n"
    "/reset         forget the conversation\n"
    "/exit          leave (or Ctrl-D)\n"
    "Ctrl-C stops an answer. A line that ends in \\ goes on in the next one.\n";

/// A conversation in the terminal.
class Conversation {
public:
  Conversation(const ChatCommandFlags &flags, const Session &session,
               Speculator speculator, Tokenizer tokenizer, ChatTemplate chat,
               GenerateOptions options)
      : flags(flags), session(session), speculator(std::move(speculator)),
        tokenizer(std::move(tokenizer)), chat(chat),
        options(std::move(options)),
        thinking(flags.chat.thinking.value_or(chat.thinksByDefault())) {
    reset();
  }

  /// Talks until somebody leaves. Returns an exit code.
  StatusOr<int> run();

private:
  void reset() {
    messages.clear();
    if (flags.chat.system)
      messages.push_back({ChatRole::System, *flags.chat.system});
  }
  /// Does what a line that begins with '/' says; returns false to leave.
  bool obey(const std::string &line);
  Status answer(const std::string &question);
  void printStats() const;

  const ChatCommandFlags &flags;
  const Session &session;
  Speculator speculator;
  Tokenizer tokenizer;
  ChatTemplate chat;
  GenerateOptions options;
  bool thinking;
  std::vector<ChatMessage> messages;
  std::optional<Generation> last;
  size_t promptTokens = 0;
  /// Error number of writing to stdout.
  int writeError = 0;
};

} // namespace

void Conversation::printStats() const {
  if (!last) {
    std::printf("there was no answer yet\n");
    return;
  }
  std::printf("prompt %zu tokens (%u of them known), first token after %.2f s\n"
              "answer %zu tokens, %.1f tokens/s",
              promptTokens, last->reusedTokens, last->prefillSeconds,
              last->ids.size(), last->tokensPerSecond());
  if (!last->acceptLengths.empty())
    std::printf(", mean accept length %.2f", last->meanAcceptLength());
  std::printf("\ncontext %zu of %u tokens\n", promptTokens + last->ids.size(),
              session.artifact.root().loop()->max_context());
}

bool Conversation::obey(const std::string &line) {
  if (line == "/exit" || line == "/quit")
    return false;
  if (line == "/reset") {
    reset();
    std::printf("the conversation is forgotten\n");
  } else if (line == "/stats") {
    printStats();
  } else if (line == "/thinking on" || line == "/thinking off") {
    thinking = line == "/thinking on";
    std::printf("thinking is %s\n", thinking ? "on" : "off");
  } else if (line == "/help") {
    std::printf("%s", help);
  } else {
    std::printf("there is no %s, /help lists what there is\n", line.c_str());
  }
  return true;
}

Status Conversation::answer(const std::string &question) {
  messages.push_back({ChatRole::User, question});
  ChatOptions how{.thinking = thinking};
  TANDEM_ASSIGN_OR_RETURN(ChatText text, chat.render(messages, how));
  TANDEM_ASSIGN_OR_RETURN(ChatPrompt prompt, encodeChat(tokenizer, text));
  options.leavesAt = uint32_t(prompt.questionEnd);
  catchInterrupts();
  AnswerPrinter printer(tokenizer, flags.answer.stops,
                        chat.answerBeginsInReasoning(how), /*print=*/true);
  StatusOr<Generation> generation =
      speculator.generate(prompt.ids, options, printer);
  if (!generation.isOk())
    return generation.status();
  printer.finish();
  std::printf("\n");
  writeError = printer.error();
  if (writeError != 0)
    return systemError("stdout: cannot write", writeError);
  // An answer that was stopped is what was said.
  messages.push_back(
      {ChatRole::Assistant, printer.content(), printer.reasoning()});
  promptTokens = prompt.ids.size();
  last = std::move(*generation);
  return Status();
}

StatusOr<int> Conversation::run() {
  LineReader reader;
  if (reader.isInteractive())
    std::printf("/help lists the commands\n");
  while (true) {
    std::optional<std::string> line = reader.read("> ");
    if (!line)
      return 0;
    if (line->find_first_not_of(" \t\n") == std::string::npos)
      continue;
    if (line->starts_with('/')) {
      if (!obey(*line))
        return 0;
    } else if (Status status = answer(*line); !status.isOk()) {
      // A reader that has seen enough is no error.
      if (writeError == EPIPE)
        return 0;
      // A question that is too long is no reason to leave.
      if (status.code() != StatusCode::InvalidArgument ||
          !reader.isInteractive())
        return inFile(flags.artifact, status);
      messages.pop_back();
      std::printf("%s\n", status.message().c_str());
    }
    if (!reader.isInteractive() && interrupted())
      return 130;
    std::fflush(stdout);
  }
}

StatusOr<int> converse(const ChatCommandFlags &flags) {
  TANDEM_ASSIGN_OR_RETURN(Session session, load(flags, conversationSnapshots));
  auto speculator = Speculator::create(session.artifact, session.device());
  if (!speculator.isOk())
    return inFile(flags.artifact, speculator.status());
  TANDEM_ASSIGN_OR_RETURN(Tokenizer tokenizer,
                          makeTokenizer(session.artifact, flags.artifact));
  TANDEM_ASSIGN_OR_RETURN(ChatTemplate chat,
                          findTemplate(flags.chat, session, flags.artifact));
  // Conversations are sampled as the checkpoint recommends; flags change parts
  // of that.
  AnswerFlags answer = flags.answer;
  if (session.artifact.root().generation() && speculator->canSample())
    answer.sampling.sample = true;
  TANDEM_ASSIGN_OR_RETURN(GenerateOptions options,
                          makeOptions(answer, session.artifact));
  options.maxNewTokens = flags.maxNewTokens;
  options.reusePrefix = true;
  if (options.chooseRows && options.useDrafter)
    TANDEM_RETURN_IF_ERROR(speculator->measureRounds());
  return Conversation(flags, session, std::move(*speculator),
                      std::move(tokenizer), chat, std::move(options))
      .run();
}

} // namespace tandem::qrun
