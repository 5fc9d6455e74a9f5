//===- AnswerSink.h - Tokens of an answer, as parts to send -----*- C++ -*-===//

#ifndef TANDEM_RUNTIME_SERVER_ANSWERSINK_H
#define TANDEM_RUNTIME_SERVER_ANSWERSINK_H

#include "runtime/ReasoningSplitter.h"
#include "runtime/Speculator.h"
#include "runtime/TextStream.h"
#include "runtime/server/Response.h"

#include <deque>
#include <functional>
#include <optional>

namespace tandem::server {

/// Turns the tokens of a text into parts of an answer: whole characters,
/// nothing of a stop string, reasoning apart, every token's log probability
/// with the part that shows its beginning.
class AnswerSink final : public TokenSink {
public:
  /// Takes a part after every round that has one, and is asked after every
  /// round and every prefill chunk; returns false to cancel the text.
  using Deliver = std::function<bool(AnswerPart part)>;

  /// \p splitter is none when reasoning is text like all other.
  AnswerSink(const Tokenizer &tokenizer, std::vector<std::string> stops,
             std::optional<ReasoningSplitter> splitter, Deliver deliver)
      : tokenizer(tokenizer), stream(tokenizer, std::move(stops)),
        splitter(splitter), deliver(std::move(deliver)) {}

  bool token(uint32_t id) override;
  void logprobs(const Logprobs &logprobs) override;
  void promptLogprobs(const Logprobs &logprobs) override;
  bool keepGoing() override;

  /// Ends the text: the part that was held back.
  AnswerPart finish();

  /// Log probabilities of the tokens of the prompt, from the second on.
  std::vector<ScoredToken> takePrompt() { return std::move(prompt); }
  /// Whether a token has come.
  bool begun() const { return started; }

private:
  AnswerPart take();

  const Tokenizer &tokenizer;
  TextStream stream;
  std::optional<ReasoningSplitter> splitter;
  Deliver deliver;
  struct Waiting {
    ScoredToken token;
    /// Byte of the text at which it begins.
    size_t begin;
  };
  std::deque<Waiting> waiting;
  std::vector<ScoredToken> prompt;
  /// Bytes of all tokens, and of the text that was taken.
  size_t written = 0, taken = 0;
  bool started = false, stopped = false;
};

} // namespace tandem::server

#endif // TANDEM_RUNTIME_SERVER_ANSWERSINK_H
