//===- Bench.h - How fast a pair is -----------------------------*- C++ -*-===//
//
// Measures what a user waits for: the prefill, and the tokens per second with
// and without the drafter, beside the bytes of weights that had to be read.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_BENCH_H
#define TANDEM_RUNTIME_BENCH_H

#include "runtime/Artifact.h"
#include "runtime/Device.h"
#include "runtime/HeadCounts.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tandem {

struct BenchOptions {
  /// Tokens of the answer; stop tokens do not end it.
  uint32_t newTokens = 128;
  /// Runs of each kind; the medians count.
  unsigned repeats = 3;
  /// As those of GenerateOptions.
  uint32_t blockRows = 0;
  bool chooseRows = false;
  /// As that of GenerateOptions. Then the ids are no text, and are not
  /// compared.
  uint32_t forcedAcceptLength = 0;
  /// Measures the kernels of every program as well.
  bool kernels = false;
};

/// The launches of one family in one run of a program.
struct KernelTime {
  std::string program, family;
  uint32_t launches = 0;
  /// Of all of them; the median of some runs.
  double seconds = 0;
  uint64_t weightBytes = 0;
};

/// One way of decoding.
struct BenchSide {
  double tokensPerSecond = 0;
  /// Tokens per round.
  double meanAcceptLength = 1;
  /// Time from one round to the next.
  double roundSeconds = 0;
  /// A mean where rounds differ.
  double weightBytesPerRound = 0;
  /// Part of the rounds that had a draft.
  double draftedShare = 0;
  /// Of all runs. None when no head is searched.
  std::optional<HeadCounts> heads;
  /// Seconds per round inside each program, by name. Measured in a run of its
  /// own, since it waits for each program.
  std::vector<std::pair<std::string, double>> programSeconds;
  /// By program, the longest first. Empty unless it was wanted.
  std::vector<KernelTime> kernels;

  /// Bytes of weights read per second; 0 when nothing was measured.
  double bytesPerSecond() const {
    return roundSeconds > 0 ? weightBytesPerRound / roundSeconds : 0;
  }
};

struct BenchResult {
  uint32_t promptTokens = 0;
  uint32_t newTokens = 0;
  /// To the first token; the drafter, if there is one, reads the prompt too.
  double prefillSeconds = 0;
  /// Of the programs that read the last chunk of the prompt, the longest first.
  /// Empty unless it was wanted.
  std::vector<KernelTime> prefillKernels;
  /// None without a drafter.
  std::optional<BenchSide> speculative;
  BenchSide plain;
  /// Whether both gave the same ids, as they must.
  bool sameIds = true;
};

/// Writes options.newTokens tokens behind \p prompt, again and again. Errors
/// are those of Speculator::generate.
StatusOr<BenchResult> bench(const Artifact &artifact, Device &device,
                            std::span<const uint32_t> prompt,
                            const BenchOptions &options);

/// \p length ids that repeat \p ids, which are not empty.
std::vector<uint32_t> repeatIds(std::span<const uint32_t> ids, size_t length);

} // namespace tandem

#endif // TANDEM_RUNTIME_BENCH_H
