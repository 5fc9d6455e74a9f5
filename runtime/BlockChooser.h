//===- BlockChooser.h - How many rows a round verifies ----------*- C++ -*-===//
//
// Chooses, round by round, how many rows of a block are verified: few when the
// drafter is rarely right, all when it mostly is, one, without asking the
// drafter at all, when drafting does not pay. Only time depends on it; the
// tokens of a text are the same whatever is chosen.
//
// It weighs the tokens that a round is expected to give against the time that
// rounds of that size took. Both are learned while texts are written: how often
// the draft at each place of a block is right when all before it were, and the
// median time of the last rounds of every size. What is not known yet follows
// from what is, or from the bytes that the programs read.
//
// A drafter that has turned out useless is tried again now and then, since
// texts change. An account of the time that was lost to drafts bounds what that
// may cost.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_BLOCKCHOOSER_H
#define TANDEM_RUNTIME_BLOCKCHOOSER_H

#include <cstdint>
#include <vector>

namespace tandem {

class BlockChooser {
public:
  /// For blocks of up to \p block rows (at least 1). \p draftCost is what a
  /// draft is expected to take, in units of a round of one row: the guess until
  /// rounds are measured.
  BlockChooser(uint32_t block, double draftCost);

  /// Starts a text of at most \p budget tokens. What is known of the drafter
  /// and of the machine stays.
  void startText(uint32_t budget);

  /// Rows of the next round: 1, without a draft, or up to \p most, at least 1.
  /// \p wanted tokens are still to come.
  uint32_t choose(uint32_t most, uint32_t wanted) const;

  /// A round of \p rows rows (as choose() said) gave \p accepted tokens, 1 to
  /// \p rows, in \p seconds.
  void record(uint32_t rows, uint32_t accepted, double seconds);

  /// Expected tokens of a round of \p rows rows.
  double expectedTokens(uint32_t rows) const;
  /// Expected seconds of a round of \p rows rows, one of the sizes that
  /// choose() considers.
  double expectedSeconds(uint32_t rows) const;

private:
  /// The last times of rounds of one size.
  struct Times {
    uint32_t rows;
    std::vector<double> last = {};
    uint64_t rounds = 0;
    double median = 0;
  };
  /// How often a draft was looked at, and right. Old rounds count less.
  struct Hits {
    double looked = 0, right = 0;
  };

  void recordTime(Times &times, double seconds);
  /// Probability that the draft \p place (1 is the first) is right when all
  /// before it are.
  double rightProbability(uint32_t place) const;
  bool mayLose(double seconds) const;

  /// Sizes that are considered: 1, 2, 4 .. and the block. Products work in
  /// register tiles of such sizes.
  std::vector<Times> sizes;
  /// By place in the block; [0] is of all drafts together.
  std::vector<Hits> places;
  double draftCost;

  /// Of this text: seconds that rounds with drafts took beyond what as many
  /// tokens would have taken without, and tokens so far.
  double lost = 0;
  uint64_t tokens = 0;
  uint32_t budget = 0;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_BLOCKCHOOSER_H
