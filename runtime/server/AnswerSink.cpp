//===- AnswerSink.cpp - Tokens of an answer, as parts to send -------------===//

#include "runtime/server/AnswerSink.h"

namespace tandem::server {

void AnswerSink::logprobs(const Logprobs &logprobs) {
  waiting.push_back({{logprobs.chosen.token, logprobs}, written});
}

void AnswerSink::promptLogprobs(const Logprobs &logprobs) {
  prompt.push_back({logprobs.chosen.token, logprobs});
}

bool AnswerSink::token(uint32_t id) {
  started = true;
  written += tokenizer.bytes(id).size();
  if (stream.push(id))
    return true;
  stopped = true;
  return false;
}

AnswerPart AnswerSink::take() {
  AnswerPart part;
  std::string text = stream.take();
  taken += text.size();
  if (splitter) {
    ReasoningSplitter::Parts parts = splitter->push(text);
    part.reasoning = std::move(parts.reasoning);
    part.content = std::move(parts.content);
  } else {
    part.content = std::move(text);
  }
  while (!waiting.empty() && waiting.front().begin < taken) {
    part.tokens.push_back(std::move(waiting.front().token));
    waiting.pop_front();
  }
  return part;
}

bool AnswerSink::keepGoing() { return deliver(take()); }

AnswerPart AnswerSink::finish() {
  stream.finish();
  AnswerPart part = take();
  if (splitter) {
    ReasoningSplitter::Parts parts = splitter->finish();
    part.reasoning += parts.reasoning;
    part.content += parts.content;
  }
  // Tokens without text of their own count, too; those of a stop string are
  // not part of the answer.
  if (!stopped)
    for (Waiting &entry : waiting)
      part.tokens.push_back(std::move(entry.token));
  waiting.clear();
  return part;
}

} // namespace tandem::server
