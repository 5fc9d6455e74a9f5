//===- Golden.h - What a pair is known to compute ---------------*- C++ -*-===//
//
// Reads the goldens of test/Inputs: computed in f32 by other implementations,
// as models/demo/README.md tells.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_GOLDEN_H
#define TANDEM_TEST_GOLDEN_H

#include "runtime/SafetensorsIo.h"

#include "gtest/gtest.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tandem::test {

struct GoldenPrompt {
  std::string text;
  std::vector<uint32_t> ids;
  /// The 96 tokens that greedy decoding writes behind `ids`, when end-of-text
  /// is a token like all others.
  std::vector<uint32_t> greedy;
  /// Tokens that each round of the pair adds; the last round may run past
  /// `greedy`.
  std::vector<uint32_t> acceptLengths;
  /// The same when all layers of the drafter are full.
  std::vector<uint32_t> acceptLengthsFull;
};

class Golden {
public:
  /// Reads `golden.json` and `golden.safetensors` of \p directory, which are
  /// part of the repository: exits the test when they cannot be read.
  explicit Golden(const std::string &directory);

  const std::vector<GoldenPrompt> &prompts() const { return all; }

  /// Tensor \p name of prompt \p prompt, such as "logits"; nothing when there
  /// is no golden of it.
  std::optional<std::vector<float>> tensor(size_t prompt,
                                           const std::string &name) const;

private:
  std::vector<GoldenPrompt> all;
  SafetensorsReader tensors;
};

/// Whether \p actual is \p golden up to 1e-3 of the golden's largest magnitude.
testing::AssertionResult isClose(std::span<const float> actual,
                                 std::span<const float> golden);

} // namespace tandem::test

#endif // TANDEM_TEST_GOLDEN_H
