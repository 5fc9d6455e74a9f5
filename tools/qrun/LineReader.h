//===- LineReader.h - What somebody types -----------------------*- C++ -*-===//

#ifndef TANDEM_TOOLS_QRUN_LINEREADER_H
#define TANDEM_TOOLS_QRUN_LINEREADER_H

#include <optional>
#include <string>

namespace tandem::qrun {

/// Reads lines from stdin: with editing and a history when it is a terminal,
/// as they are otherwise.
class LineReader {
public:
  LineReader();

  bool isInteractive() const { return interactive; }

  /// The next line, which may be continued behind a backslash at its end; none
  /// at the end of the input. Ctrl-C throws away what was typed, and gives an
  /// empty line.
  std::optional<std::string> read(const char *prompt);

private:
  std::optional<std::string> readOne(const char *prompt);

  bool interactive;
};

} // namespace tandem::qrun

#endif // TANDEM_TOOLS_QRUN_LINEREADER_H
