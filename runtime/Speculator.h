//===- Speculator.h - The speculative loop ----------------------*- C++ -*-===//
//
// Writes text with a compiled pair: prefills the prompt, then drafts, verifies
// and accepts block after block, or steps row by row without the drafter. Both
// give the same tokens. Which programs there are, and how large a block is, is
// in the artefact; this is only their order and when to stop.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_SPECULATOR_H
#define TANDEM_RUNTIME_SPECULATOR_H

#include "runtime/LoopDriver.h"

#include <span>
#include <vector>

namespace tandem {

/// Who gets the tokens of a text while it is written.
class TokenSink {
public:
  virtual ~TokenSink() = default;

  /// A token of the text was decided. The stop token that ends a text does not
  /// come here. Returns false when the text ends with this token (because it
  /// completed a stop string, say).
  virtual bool token(uint32_t id) = 0;

  /// Called after every prefill chunk and every round: the time to flush what
  /// token() collected. Returns false to cancel.
  virtual bool keepGoing() = 0;
};

struct GenerateOptions {
  /// Most tokens of the answer.
  uint32_t maxNewTokens = 128;
  /// Stop tokens are tokens like all others.
  bool ignoreStopTokens = false;
  /// Whether the drafter, if there is one, takes part.
  bool useDrafter = true;
};

enum class FinishReason : uint8_t {
  /// A stop token, or the sink ended the text.
  Stop,
  /// The wanted number of tokens, or the end of the context.
  Length,
  /// The sink cancelled.
  Cancelled,
};

struct Generation {
  /// All tokens of the answer, the stop token that ended it among them.
  std::vector<uint32_t> ids;
  /// Tokens that each round added to `ids`. The first id comes from the
  /// prefill and counts nowhere. Empty without the drafter.
  std::vector<uint32_t> acceptLengths;
  FinishReason finishReason = FinishReason::Length;
  /// From the start to the first token, and from there to the end.
  double prefillSeconds = 0;
  double decodeSeconds = 0;

  /// Mean of acceptLengths, 1 when there are none.
  double meanAcceptLength() const;
  /// Tokens decided behind the first one, per second; 0 when there are none.
  double tokensPerSecond() const;
};

class Speculator {
public:
  /// \p artifact and \p device outlive the speculator. Fails when the artefact
  /// is a single function.
  static StatusOr<Speculator> create(const Artifact &artifact, Device &device);

  /// Writes one text behind \p prompt, from an empty context; one text can
  /// follow another. Errors: the prompt is empty, has ids outside the
  /// vocabulary, or leaves no room in the context; a program failed.
  StatusOr<Generation> generate(std::span<const uint32_t> prompt,
                                const GenerateOptions &options,
                                TokenSink &sink);

  bool hasDrafter() const { return driver.hasDrafter(); }

private:
  /// One text being written.
  struct Text {
    Generation result;
    uint32_t budget;
    bool ignoreStopTokens;
    bool ended = false;
    TokenSink &sink;
  };

  explicit Speculator(LoopDriver driver);

  Status prefill(std::span<const uint32_t> prompt, bool withContext,
                 Text &text);
  /// Each reads the tokens of one round into `round` and returns them.
  StatusOr<std::span<const uint32_t>> draftRound(uint64_t position);
  StatusOr<std::span<const uint32_t>> plainRound(uint64_t position);
  /// Takes tokens over into the text until it ends; returns how many.
  uint32_t emit(std::span<const uint32_t> tokens, Text &text) const;
  bool isStopToken(uint32_t token) const;

  LoopDriver driver;
  /// Tokens of the last round: [block].
  std::vector<uint32_t> round;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_SPECULATOR_H
