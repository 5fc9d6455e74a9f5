//===- AnswerPrinter.h - An answer on the terminal --------------*- C++ -*-===//

#ifndef TANDEM_TOOLS_QRUN_ANSWERPRINTER_H
#define TANDEM_TOOLS_QRUN_ANSWERPRINTER_H

#include "runtime/ReasoningSplitter.h"
#include "runtime/Speculator.h"
#include "runtime/TextStream.h"

#include <string>
#include <vector>

namespace tandem::qrun {

/// Writes an answer to stdout after every round, or only keeps it. On a
/// terminal, reasoning is dim; elsewhere it stands between its marks.
class AnswerPrinter final : public TokenSink {
public:
  /// \p beginsInReasoning: the prompt has opened the reasoning. \p print: the
  /// answer goes to stdout.
  AnswerPrinter(const Tokenizer &tokenizer, std::vector<std::string> stops,
                bool beginsInReasoning, bool print);

  bool token(uint32_t id) override { return stream.push(id); }
  bool keepGoing() override;

  /// Ends the answer.
  void finish();

  const std::string &reasoning() const { return thought; }
  const std::string &content() const { return said; }
  /// Both, with the marks, as the model wrote them.
  const std::string &text() const { return all; }
  /// The error number of writing to stdout, 0 when all went well.
  int error() const { return writeError; }

private:
  void show(const ReasoningSplitter::Parts &parts);
  void put(std::string_view text);

  TextStream stream;
  ReasoningSplitter splitter;
  bool print;
  /// Whether stdout is a terminal that shows dim text, and does so now.
  bool dims, dimmed = false;
  std::string thought, said, all;
  int writeError = 0;
};

} // namespace tandem::qrun

#endif // TANDEM_TOOLS_QRUN_ANSWERPRINTER_H
