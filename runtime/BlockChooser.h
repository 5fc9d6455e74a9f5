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
// part of a text's time: whatever may fail is paid from that account first, and
// what it really took is booked.
//
// A text that does not pay is written by steps, and must not lose time to the
// question whether it might: a small step is half a millisecond, and code that
// runs once in a step finds none of its memory in the caches. So a choice of
// steps is one for many of them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_BLOCKCHOOSER_H
#define TANDEM_RUNTIME_BLOCKCHOOSER_H

#include <algorithm>
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
    /// Where it is a step, and no draft: steps to take before the next
    /// question.
    uint32_t steps = 1;
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

  /// A draft took \p seconds, without the context that it needed first.
  void recordDraft(double seconds);
  /// \p rows rows were appended to the drafter's context in \p seconds.
  void recordContext(uint32_t rows, double seconds);
  /// \p rows rows took \p seconds; one row is a step.
  void recordRows(uint32_t rows, double seconds);
  /// \p count steps were taken, with no block to compare them with.
  void recordSteps(uint32_t count);
  /// A round verified \p rows rows from place \p place of a block on, a step if
  /// it is one, and gave \p accepted tokens, 1 to \p rows; \p right drafts of
  /// the block were what the text went on with: as many, where the token behind
  /// the rows is the next draft, or one less. \p drafted: the block was drafted
  /// for this round. All of it took \p seconds.
  void recordRound(uint32_t place, uint32_t rows, uint32_t accepted,
                   uint32_t right, bool drafted, double seconds);

  /// Expected seconds of a draft that follows another one, and of \p rows rows.
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
    /// What a draft takes more now, once. It has to be paid, but is worth it
    /// if more drafts follow.
    double late = 0;
    /// What may still be lost.
    double allowed = 0;
    uint32_t most = 0, end = 0;
  };

  /// A choice of steps, asked again when \p loss can be allowed.
  Choice stepsUntil(double loss) const;
  /// What may be lost now, in seconds, and what the next token adds to it, in
  /// steps.
  double allowedLoss() const;
  double earnedLoss() const;
  /// Rows that a draft must be able to pay for.
  uint32_t fewRows() const { return std::max(2u, uint32_t(places.size()) / 4); }
  double contextSeconds(uint32_t rows) const;
  /// What a draft takes more behind steps: it finds nothing in the caches, and
  /// needs the context of all rows it does not know.
  double lateSeconds() const;
  void decay(uint32_t tokenCount);
  Plan planRows(const Outlook &outlook, double rate, double sunk,
                uint32_t place, const std::vector<double> &behind) const;
  std::vector<double> planBehind(const Outlook &outlook, double rate) const;
  Plan planDraft(const Outlook &outlook, double rate) const;

  /// Sizes that are considered: 1, 2, 4 .. and the block. Products work in
  /// register tiles of such sizes.
  std::vector<Size> sizes;
  Times draft;
  /// A row of context, where there are many.
  Times contextRow;
  /// By place in the block; [0] is not used.
  std::vector<Hits> places;
  double draftCost;

  /// Of this text: seconds that rounds with drafts took beyond what as many
  /// steps would have taken, and tokens so far.
  double lost = 0;
  uint64_t tokens = 0;
  bool hasDrafted = false;
  uint32_t budget = 0;
  /// Steps since the last draft, rows that the drafter does not know, and rows
  /// of the last round, which a draft takes as they are.
  uint32_t stepsBehind = 0, rowsBehind = 0, lastRows = 0;
  /// Drafts one after the other that were wrong from the start.
  uint32_t failures = 0;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_BLOCKCHOOSER_H
