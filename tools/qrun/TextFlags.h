//===- TextFlags.h - Parsing flags of commands that write text --*- C++ -*-===//

#ifndef TANDEM_TOOLS_QRUN_TEXTFLAGS_H
#define TANDEM_TOOLS_QRUN_TEXTFLAGS_H

#include "tools/qrun/Commands.h"

namespace CLI {
class App;
} // namespace CLI

namespace tandem::qrun {

void addBlockFlag(CLI::App &app, BlockFlag &block);
/// \p samples: answers are sampled without a flag that says so.
void addAnswerFlags(CLI::App &app, AnswerFlags &flags, bool samples);
void addChatFlags(CLI::App &app, ChatFlags &flags);
void addServeFlags(CLI::App &app, ServeFlags &flags);

/// What is wrong with \p flags that CLI11 cannot see. Empty: nothing.
std::string problemOf(const AnswerFlags &flags);

} // namespace tandem::qrun

#endif // TANDEM_TOOLS_QRUN_TEXTFLAGS_H
