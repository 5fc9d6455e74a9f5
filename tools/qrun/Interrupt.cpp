//===- Interrupt.cpp - Ctrl-C ---------------------------------------------===//

#include "tools/qrun/Interrupt.h"

#include <csignal>

namespace tandem::qrun {

static volatile sig_atomic_t signalSeen = 0;

static void remember(int) { signalSeen = 1; }

void catchInterrupts() {
  signalSeen = 0;
  struct sigaction action = {};
  action.sa_handler = remember;
  // The default action is back for the second signal. No SA_RESTART: a write
  // that blocks must return.
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return signalSeen != 0; }

} // namespace tandem::qrun
