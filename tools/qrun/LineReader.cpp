//===- LineReader.cpp - What somebody types -------------------------------===//

#include "tools/qrun/LineReader.h"

#include "tools/qrun/Interrupt.h"

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <editline/readline.h>
#include <iostream>
#include <unistd.h>

namespace tandem::qrun {

LineReader::LineReader()
    : interactive(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
  if (!interactive)
    return;
  // Letters that are more than a byte; numbers stay as they are.
  std::setlocale(LC_CTYPE, "");
  char name[] = "qrun";
  rl_readline_name = name;
  using_history();
}

std::optional<std::string> LineReader::readOne(const char *prompt) {
  if (!interactive) {
    std::string line;
    if (!std::getline(std::cin, line))
      return std::nullopt;
    if (line.ends_with('\r'))
      line.pop_back();
    return line;
  }
  catchInterrupts();
  char *typed = readline(prompt);
  if (!typed) {
    std::printf("\n");
    if (interrupted())
      return "";
    return std::nullopt;
  }
  std::string line = typed;
  std::free(typed);
  if (!line.empty())
    add_history(line.c_str());
  return line;
}

std::optional<std::string> LineReader::read(const char *prompt) {
  std::optional<std::string> line = readOne(prompt);
  while (line && line->ends_with('\\')) {
    std::optional<std::string> next = readOne("... ");
    line->back() = '\n';
    // What a pipe says is said, whatever it ends with.
    if (!next && !interactive)
      return line;
    if (!next || interrupted())
      return next;
    *line += *next;
  }
  return line;
}

} // namespace tandem::qrun
