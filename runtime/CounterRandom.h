//===- CounterRandom.h - Random numbers without a state ---------*- C++ -*-===//
//
// A random number is a function of a seed and of what it is for: the position
// of the token it decides, the token it speaks for, and the purpose. Nothing
// is consumed, so numbers of rows that are thrown away cannot shift the ones
// behind them, and a text depends on its seed only, however it was drafted.
//
// The function is Philox 4x32 with 10 rounds: J. Salmon et al., "Parallel
// Random Numbers: As Easy as 1, 2, 3", SC 2011.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_COUNTERRANDOM_H
#define TANDEM_RUNTIME_COUNTERRANDOM_H

#include <array>
#include <cstdint>

namespace tandem {

/// Philox4x32-10 of \p counter under \p key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key);

/// What a random number is for; each has numbers of its own.
enum class RandomUse : uint32_t {
  /// Which token the target says.
  Target,
  /// Which token the drafter says, when it does not share the target's.
  Draft,
  /// Whether a draft is accepted.
  Accept,
  /// What stands in the place of a draft that was not.
  Residual,
};

/// The numbers for one position of a text.
class PositionRandom {
public:
  PositionRandom(uint64_t seed, uint64_t position, RandomUse use)
      : seed(seed), position(position), use(use) {}

  /// Number \p index, uniform in (0, 1): k + 1/2 over 2^32.
  double uniform(uint32_t index);

  /// Number \p index with the Gumbel distribution. The index with the largest
  /// sum of log probability and this number is a sample of the probabilities.
  double gumbel(uint32_t index);

  /// No Gumbel number is larger: -log(-log(1 - 2^-33)).
  static constexpr double largestGumbel = 22.88;

private:
  uint64_t seed, position;
  RandomUse use;
  /// The numbers of the last four indexes, which come together.
  std::array<uint32_t, 4> words = {};
  uint32_t group = 0;
  bool filled = false;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_COUNTERRANDOM_H
