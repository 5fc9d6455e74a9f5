//===- Progress.h - What the compiler is at ---------------------*- C++ -*-===//

#ifndef TANDEM_TOOLS_QCOMPILE_PROGRESS_H
#define TANDEM_TOOLS_QCOMPILE_PROGRESS_H

#include "llvm/ADT/StringRef.h"

#include <chrono>
#include <string>

namespace tandem::qcompile {

/// Shows one line per phase on standard error while that is a terminal, and
/// nothing when it is not.
class Progress {
public:
  Progress();
  /// Ends a line that is still open.
  ~Progress() { interrupt(); }

  /// Starts the phase \p name; ends the one before.
  void begin(llvm::StringRef name);
  /// Shows how much of the phase is done.
  void update(uint64_t done, uint64_t total);
  /// Ends the phase and shows how long it took.
  void end();
  /// Ends the open line, if there is one, to make place for a message.
  void interrupt();
  /// Shows a last line.
  void finish(llvm::StringRef text);

private:
  bool isShown;
  bool isLineOpen = false;
  std::string phase;
  unsigned percent = 0;
  std::chrono::steady_clock::time_point start;
};

} // namespace tandem::qcompile

#endif // TANDEM_TOOLS_QCOMPILE_PROGRESS_H
