//===- TextFlags.h - Parsing flags of commands that write text --*- C++ -*-===//

#ifndef TANDEM_TOOLS_QRUN_TEXTFLAGS_H
#define TANDEM_TOOLS_QRUN_TEXTFLAGS_H

#include "tools/qrun/Commands.h"

namespace CLI {
class App;
} // namespace CLI

namespace tandem::qrun {

/// Each adds flags to \p app, which write to fields that outlive it.
/// `--block`.
void addBlockFlag(CLI::App &app, BlockFlag &block);
/// How an answer is drafted, sampled and ended. \p samples: it is sampled
/// without a flag that says so.
void addAnswerFlags(CLI::App &app, AnswerFlags &flags, bool samples);
/// How messages become a prompt.
void addChatFlags(CLI::App &app, ChatFlags &flags);
/// Those of `qrun serve` but for the device.
void addServeFlags(CLI::App &app, ServeFlags &flags);

/// What is wrong with \p flags that CLI11 cannot see. Empty: nothing.
std::string problemOf(const AnswerFlags &flags);

} // namespace tandem::qrun

#endif // TANDEM_TOOLS_QRUN_TEXTFLAGS_H
