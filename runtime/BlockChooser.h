//===- BlockChooser.h - Whether to draft, and what to verify ----*- C++ -*-===//
//
// Chooses, round by round, whether a block is drafted and how many of its rows
// are verified: few when the drafter is rarely right, all when it mostly is,
// none when drafting does not pay. Only time depends on it; the tokens of a
// text are the same whatever is chosen.
//
// A block need not be verified at once. When all rows that were verified are
// right and the token behind them is the next draft, the rest of the block is
// as good as it was, and another round verifies more of it without a draft:
//
//   block     a d d d d d d d d d d d d d d d      a: the anchor, d: drafts
//   rounds    [4 rows][ 8 rows      ]              right so far: place 12
//
// So a drafter that may be useless is asked cheaply, and one that is right for
// a while is followed to the end of its block.
//
// What a draft and rows cost is measured; how often the draft at each place is
// right, when all before it are, is counted. A prior stands for what nobody has
// seen, is optimistic, and comes back slowly, so that a drafter that was
// useless gets another chance. What is expected to save the most time against
// the going rate of seconds a token is done, but drafts may only lose a small
// part of a text's time: whatever may fail is paid from that account first.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_BLOCKCHOOSER_H
#define TANDEM_RUNTIME_BLOCKCHOOSER_H

#include <cstdint>
#include <optional>
#include <vector>

namespace tandem {

class BlockChooser {
public:
  /// What a round does.
  struct Choice {
    /// Whether a block is drafted first.
    bool drafts = false;
    /// Rows that are verified. A single one is the anchor alone: a step.
    uint32_t rows = 1;
  };

  /// For blocks of up to \p block rows (at least 1). \p draftCost is what a
  /// draft is expected to take, in units of a step: the guess until one is
  /// measured.
  BlockChooser(uint32_t block, double draftCost);

  /// Starts a text of at most \p budget tokens. What is known of the drafter
  /// and of the machine stays.
  void startText(uint32_t budget);

  /// The next round, of \p most rows or fewer. \p wanted tokens are still to
  /// come. \p place is how many rows of the last block are known to be right,
  /// the next anchor being the one behind them; none: there is no such block.
  Choice choose(uint32_t most, uint32_t wanted,
                std::optional<uint32_t> place) const;

  /// A draft took \p seconds.
  void recordDraft(double seconds);
  /// \p rows rows took \p seconds; one row is a step.
  void recordRows(uint32_t rows, double seconds);
  /// A round verified \p rows rows from place \p place of a block on and gave
  /// \p accepted tokens, 1 to \p rows; \p drafted: the block was drafted for
  /// this round. A step gives one token.
  void recordRound(uint32_t place, uint32_t rows, uint32_t accepted,
                   bool drafted);

  /// Expected seconds of a draft, and of \p rows rows.
  double draftSeconds() const;
  double rowSeconds(uint32_t rows) const;
  /// Probability that the draft at \p place of a block (1 is the first) is
  /// right when all before it are.
  double rightProbability(uint32_t place) const;

private:
  /// The last times of one thing.
  class Times {
  public:
    void add(double seconds);
    size_t count() const { return last.size(); }
    /// What it takes when nobody is in the way.
    double usual() const { return estimate; }

  private:
    std::vector<double> last;
    size_t added = 0;
    double estimate = 0;
  };
  struct Size {
    uint32_t rows;
    Times times = {};
  };
  /// How often a draft was looked at, and right. Old ones count less.
  struct Hits {
    double looked = 0, right = 0;
  };
  /// What a plan is worth: seconds saved against the going rate.
  struct Plan {
    double saved = 0;
    uint32_t rows = 0;
  };
  /// What is fixed while one choice is made.
  struct Outlook {
    /// Seconds of each of `sizes`, and probabilities by place.
    std::vector<double> seconds, right;
    double draft = 0, step = 0;
    /// What may still be lost.
    double allowed = 0;
    uint32_t most = 0, end = 0;
  };

  double allowedLoss() const;
  Plan planRows(const Outlook &outlook, double rate, double sunk,
                uint32_t place, const std::vector<double> &behind) const;
  std::vector<double> planBehind(const Outlook &outlook, double rate) const;
  Plan planDraft(const Outlook &outlook, double rate) const;

  /// Sizes that are considered: 1, 2, 4 .. and the block. Products work in
  /// register tiles of such sizes.
  std::vector<Size> sizes;
  Times draft;
  /// By place in the block; [0] is not used.
  std::vector<Hits> places;
  double draftCost;

  /// Of this text: seconds that rounds with drafts took beyond what as many
  /// steps would have taken, and tokens so far.
  double lost = 0;
  uint64_t tokens = 0;
  bool hasDrafted = false;
  uint32_t budget = 0;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_BLOCKCHOOSER_H
