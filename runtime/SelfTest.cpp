//===- SelfTest.cpp - Do target and drafter agree? ------------------------===//

#include "runtime/SelfTest.h"

#include "runtime/Speculator.h"

#include <cstdio>

namespace tandem {

std::string SelfTestResult::describe() const {
  char numbers[96];
  std::snprintf(numbers, sizeof(numbers),
                "mean accept length %.2f over %zu tokens, at least %.2f "
                "expected",
                meanAcceptLength, tokens, floor);
  if (!sameIds)
    return concat(numbers, ": with the drafter the text is another one, which "
                           "must never be");
  if (!isPassed())
    return concat(numbers, ": the drafter does not belong to this target, or "
                           "one of the two was misread");
  return concat(numbers, ": passed");
}

StatusOr<SelfTestResult> runSelfTest(const Artifact &artifact, Device &device,
                                     const Tokenizer &tokenizer) {
  const artifact::SelfTest *test = artifact.root().self_test();
  if (!test)
    return invalidArgument("brings no self-test: it has no drafter, no "
                           "tokenizer or too short a context");
  TANDEM_ASSIGN_OR_RETURN(std::vector<uint32_t> prompt,
                          tokenizer.encode(test->prompt()->string_view()));
  TANDEM_ASSIGN_OR_RETURN(Speculator speculator,
                          Speculator::create(artifact, device));
  GenerateOptions options;
  options.maxNewTokens = test->new_tokens();
  options.ignoreStopTokens = true;
  NullSink sink;
  TANDEM_ASSIGN_OR_RETURN(Generation drafted,
                          speculator.generate(prompt, options, sink));
  options.useDrafter = false;
  TANDEM_ASSIGN_OR_RETURN(Generation plain,
                          speculator.generate(prompt, options, sink));
  return SelfTestResult{.tokens = drafted.ids.size(),
                        .meanAcceptLength = drafted.meanAcceptLength(),
                        .floor = test->floor(),
                        .sameIds = drafted.ids == plain.ids};
}

} // namespace tandem
