//===- SelfTest.h - Do target and drafter agree? ----------------*- C++ -*-===//
//
// Speculation hides a drafter that is broken: the text is right, only slow. So
// an artefact brings a prompt with it, and how often the drafter has to be
// right behind it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_SELFTEST_H
#define TANDEM_RUNTIME_SELFTEST_H

#include "runtime/Artifact.h"
#include "runtime/Device.h"
#include "runtime/Tokenizer.h"

#include <string>

namespace tandem {

struct SelfTestResult {
  /// Tokens written.
  size_t tokens = 0;
  double meanAcceptLength = 0;
  /// What the artefact expects of it.
  double floor = 0;
  /// Whether the target alone writes the same tokens.
  bool sameIds = false;

  bool isPassed() const { return sameIds && meanAcceptLength >= floor; }
  /// One line about what was found, and what it means when it is bad.
  std::string describe() const;
};

/// Writes the text of the self-test with and without the drafter. Fails with
/// InvalidArgument when the artefact brings none.
StatusOr<SelfTestResult> runSelfTest(const Artifact &artifact, Device &device,
                                     const Tokenizer &tokenizer);

} // namespace tandem

#endif // TANDEM_RUNTIME_SELFTEST_H
