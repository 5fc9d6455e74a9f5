//===- FakePair.h - A pair whose programs are written here ------*- C++ -*-===//
//
// A device that runs the programs of the loop by the book, in a few lines
// each, for a target and a drafter that are plain functions. It fails the test
// when the loop breaks the rules of runtime/README.md: rows appended to the
// wrong place, features of other tokens than those accepted, and so on.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_RUNTIME_FAKEPAIR_H
#define TANDEM_TEST_RUNTIME_FAKEPAIR_H

#include "runtime/Device.h"
#include "test/runtime/TestArtifact.h"

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tandem::test {

using Tokens = std::vector<uint32_t>;

/// The next token behind all tokens so far: the target.
using Target = std::function<uint32_t(std::span<const uint32_t>)>;

/// What the drafter puts into slot `slot` of a block (1 is the first draft).
/// `right` is what the target would say there.
using Drafter = std::function<uint32_t(unsigned slot, uint32_t right)>;

/// The row of logits behind all tokens so far.
using Logits = std::function<std::vector<float>(std::span<const uint32_t>)>;

struct FakeOptions {
  LoopSpec loop = {.block = 4};
  bool drafter = true;
  bool score = true;
  /// Whether there are the programs with `_logits`.
  bool logits = true;
  /// Whether verify and step count in the port `head_counts` as a head that is
  /// searched: two tiles for every row, and every third search is a full pass.
  bool searches = false;
  /// The logits of target and drafter. None: 1 for the token that they say,
  /// 0 for all others. The drafter gets the context with the anchor behind it,
  /// and as many zeros behind that as the slot has drafts before it.
  Logits targetLogits = nullptr, drafterLogits = nullptr;
  std::optional<TokenizerSpec> tokenizer = std::nullopt;
  /// Caches that the file speaks of; no program here has any.
  std::vector<StateSpec> states = {};
  uint32_t snapshots = 0;
};

/// A target of 90 tokens that depends on every token so far, so that one wrong
/// row shows for ever.
uint32_t hashTarget(std::span<const uint32_t> tokens);

/// A drafter that knows the first \p drafts tokens of a block.
Drafter rightFor(unsigned drafts);

/// What a target says whose logits are \p logits.
Target likeliestOf(Logits logits);

class FakePair final : public Device {
public:
  FakePair(const FakeOptions &options, Target target, Drafter drafter);

  const Artifact &artifact() const { return *opened; }

  Status reset() override;
  uint32_t snapshots() const override { return uint32_t(saved.size()); }
  Status save(uint32_t snapshot) override;
  Status restore(uint32_t snapshot) override;
  Status run(uint32_t program) override;
  Status write(uint32_t port, std::span<const std::byte> data) override;
  Status read(uint32_t port, std::span<std::byte> data) override;

  /// Tokens in the target's caches for good.
  const Tokens &history() const { return cached; }
  /// Sizes of `history()` at every save and restore.
  std::vector<size_t> saves, restores;
  /// How often each program ran.
  std::map<std::string, unsigned> runs;
  /// Seconds that have passed here, and what adds to them: a run of a program,
  /// and a row of it that is verified.
  double seconds = 0;
  std::map<std::string, double> programSeconds = {{"verify", 1}, {"step", 1}};
  double rowSeconds = 0;
  /// What run() returns instead of running a program of this name.
  std::string failingProgram;

private:
  std::span<int32_t> ints(std::string_view port);
  std::span<float> floats(std::string_view port);
  int32_t &count(std::string_view port) { return ints(port)[0]; }

  /// The states that cannot go back: what they were made of.
  struct Snapshot {
    Tokens cached, contextTokens;
  };

  void foldPending();
  void writeRow(Tokens &rows, size_t position, uint32_t token);
  /// Reads tokens and writes features, or reads these, in the ports of those
  /// names.
  void prefill(std::string_view tokens, std::string_view features);
  void context(std::string_view features);
  void addContext(float feature);
  void draft(bool withLogits);
  void verify(bool withLogits);
  void accept();
  void step();
  void writeLogits(std::string_view port, size_t row,
                   std::span<const uint32_t> seen);
  void score();
  void countSearch(int32_t rows);

  LoopSpec loop;
  bool hasDrafter;
  Target target;
  Drafter drafter;
  Logits targetLogits, drafterLogits;
  FileBytes file;
  std::optional<Artifact> opened;
  std::vector<std::vector<std::byte>> portData;
  Tokens cached;
  /// Rows of the last verify or step: `accepted` says how many of them count.
  Tokens pending;
  /// Tokens whose features the drafter has.
  Tokens contextTokens;
  /// Whose keys and values lie in the rows of the two caches that can go back.
  Tokens targetRows, contextRows;
  std::vector<Snapshot> saved;
};

} // namespace tandem::test

#endif // TANDEM_TEST_RUNTIME_FAKEPAIR_H
