//===- Interrupt.h - Ctrl-C ---------------------------------*- C++ -*-===//

#ifndef TANDEM_TOOLS_QRUN_INTERRUPT_H
#define TANDEM_TOOLS_QRUN_INTERRUPT_H

namespace tandem::qrun {

/// From now on the first SIGINT or SIGTERM only sets interrupted(), which is
/// false again; the next one ends the process as usual.
void catchInterrupts();

/// Whether a signal has come.
bool interrupted();

} // namespace tandem::qrun

#endif // TANDEM_TOOLS_QRUN_INTERRUPT_H
