//===- PrintHelp.h - What --help and --version print ------------*- C++ -*-===//

#ifndef TANDEM_TOOLS_PRINTHELP_H
#define TANDEM_TOOLS_PRINTHELP_H

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sstream>

namespace tandem {

/// Prints what \p asked, which parsing for \p app threw, asks for. Returns the
/// exit code: 1, and a line that begins with \p tool, when stdout does not take
/// it all. A reader that has seen enough is no error.
inline int printHelp(const CLI::App &app, const CLI::Success &asked,
                     const char *tool) {
  // CLI11 would not look at what becomes of it.
  std::ostringstream text;
  int code = app.exit(asked, text, text);
  bool isWritten =
      std::fputs(text.str().c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  if (isWritten || errno == EPIPE)
    return code;
  std::fprintf(stderr, "%s: stdout: cannot write: %s\n", tool,
               std::strerror(errno));
  return 1;
}

} // namespace tandem

#endif // TANDEM_TOOLS_PRINTHELP_H
