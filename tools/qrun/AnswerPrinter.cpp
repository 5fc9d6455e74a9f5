//===- AnswerPrinter.cpp - An answer on the terminal ----------------------===//

#include "tools/qrun/AnswerPrinter.h"

#include "tools/qrun/Interrupt.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace tandem::qrun {

AnswerPrinter::AnswerPrinter(const Tokenizer &tokenizer,
                             std::vector<std::string> stops,
                             bool beginsInReasoning, bool print)
    : stream(tokenizer, std::move(stops)), splitter(beginsInReasoning),
      print(print),
      // https://no-color.org
      dims(print && isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR")) {}

void AnswerPrinter::put(std::string_view text) {
  if (print && writeError == 0 &&
      (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
       std::fflush(stdout) != 0))
    writeError = errno;
}

void AnswerPrinter::show(const ReasoningSplitter::Parts &parts) {
  if (dims && !parts.reasoning.empty()) {
    if (!dimmed)
      put("\x1b[2m");
    dimmed = true;
    put(parts.reasoning);
  }
  if (dims && !parts.content.empty()) {
    if (dimmed)
      put("\x1b[0m\n\n");
    dimmed = false;
    put(parts.content);
  }
  thought += parts.reasoning;
  said += parts.content;
}

bool AnswerPrinter::keepGoing() {
  std::string text = stream.take();
  all += text;
  if (!dims)
    put(text);
  show(splitter.push(text));
  return writeError == 0 && !interrupted();
}

void AnswerPrinter::finish() {
  stream.finish();
  std::string text = stream.take();
  all += text;
  if (!dims)
    put(text);
  show(splitter.push(text));
  show(splitter.finish());
  if (dimmed)
    put("\x1b[0m");
  dimmed = false;
}

} // namespace tandem::qrun
