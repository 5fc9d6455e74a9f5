//===- Progress.cpp - What the compiler is at -----------------------------===//

#include "tools/qcompile/Progress.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <unistd.h>

using namespace llvm;
using namespace tandem::qcompile;

Progress::Progress() : isShown(isatty(STDERR_FILENO)) {}

void Progress::begin(StringRef name) {
  end();
  phase = name.str();
  percent = 0;
  start = std::chrono::steady_clock::now();
  if (!isShown)
    return;
  errs() << format("%-16s ...", phase.c_str());
  isLineOpen = true;
}

void Progress::update(uint64_t done, uint64_t total) {
  unsigned now = total == 0 ? 100 : unsigned(double(done) / total * 100);
  if (!isShown || now == percent)
    return;
  percent = now;
  errs() << format("\r%-16s %6u %%", phase.c_str(), percent);
  isLineOpen = true;
}

void Progress::end() {
  if (isShown && !phase.empty()) {
    std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    errs() << format("\r%-16s %6.2f s\n", phase.c_str(), seconds.count());
  }
  isLineOpen = false;
  phase.clear();
}

void Progress::interrupt() {
  if (isLineOpen)
    errs() << "\n";
  isLineOpen = false;
}

void Progress::finish(StringRef text) {
  end();
  if (isShown)
    errs() << text << "\n";
}
