//===- BlockChooser.cpp - How many rows a round verifies ------------------===//

#include "runtime/BlockChooser.h"

#include <algorithm>
#include <cassert>

namespace tandem {

/// Times of a size that are remembered: enough that a moment in which somebody
/// else had the processor does not count.
static constexpr size_t rememberedTimes = 7;
/// A row more is expected to take this part of a round of one row. Measured: a
/// product of 16 rows takes two to four times as long as one of one row.
static constexpr double rowCost = 0.12;
/// What is expected of a drafter nobody has seen, and how many drafts seen
/// outweigh that.
static constexpr double priorRight = 0.75, priorWeight = 6;
/// Rows of the first round with a draft, at most.
static constexpr uint32_t firstDraftRows = 4;
/// What one round more leaves of the weight of those before, and what a token
/// without a draft does: slower, but so that the drafter gets another chance
/// after some dozens of tokens.
static constexpr double roundMemory = 0.94, tokenMemory = 0.985;
/// The part of a text's time that may be lost to drafts, and the tokens for
/// which it may be lost in advance.
static constexpr double lossAllowed = 0.04;
static constexpr uint32_t tokensInAdvance = 96;
/// What was gained by drafts may be lost again up to the time of so many
/// tokens.
static constexpr double tokensToLose = 4;

BlockChooser::BlockChooser(uint32_t block, double draftCost)
    : places(block), draftCost(draftCost) {
  assert(block >= 1);
  for (uint32_t rows = 1; rows < block; rows *= 2)
    sizes.push_back({rows});
  sizes.push_back({block});
}

void BlockChooser::startText(uint32_t newBudget) {
  lost = 0;
  tokens = 0;
  budget = newBudget;
}

void BlockChooser::recordTime(Times &times, double seconds) {
  // The first round of a size also brings code and weights into the caches: it
  // counts only until there is another one.
  if (times.rounds++ <= 1)
    times.last.assign(1, seconds);
  else if (times.last.size() < rememberedTimes)
    times.last.push_back(seconds);
  else
    times.last[times.rounds % rememberedTimes] = seconds;
  std::vector<double> sorted = times.last;
  std::sort(sorted.begin(), sorted.end());
  times.median = sorted[(sorted.size() - 1) / 2];
}

void BlockChooser::record(uint32_t rows, uint32_t accepted, double seconds) {
  assert(accepted >= 1 && accepted <= rows);
  for (Times &times : sizes)
    if (times.rows == rows)
      recordTime(times, seconds);
  double plain = expectedSeconds(1);
  // A round without a draft loses nothing to drafts, however long it took.
  // What was gained long ago is no reason to lose it again.
  if (rows > 1)
    lost = std::max(lost + seconds - accepted * plain, -tokensToLose * plain);
  tokens += accepted;
  double memory = rows > 1 ? roundMemory : tokenMemory;
  for (Hits &hits : places) {
    hits.looked *= memory;
    hits.right *= memory;
  }
  for (uint32_t place = 1; place < rows && place <= accepted; ++place)
    for (Hits *hits : {&places[0], &places[place]}) {
      hits->looked += 1;
      hits->right += place < accepted;
    }
}

double BlockChooser::rightProbability(uint32_t place) const {
  double overall = (places[0].right + priorRight * priorWeight) /
                   (places[0].looked + priorWeight);
  return (places[place].right + overall * priorWeight) /
         (places[place].looked + priorWeight);
}

double BlockChooser::expectedTokens(uint32_t rows) const {
  double expected = 1, allRight = 1;
  for (uint32_t place = 1; place < rows; ++place) {
    allRight *= rightProbability(place);
    expected += allRight;
  }
  return expected;
}

double BlockChooser::expectedSeconds(uint32_t rows) const {
  // In units of a round of one row.
  auto guess = [&](uint32_t count) {
    return 1 + rowCost * (count - 1) + (count > 1 ? draftCost : 0);
  };
  const Times *below = nullptr, *above = nullptr;
  for (const Times &times : sizes) {
    if (times.last.empty())
      continue;
    if (times.rows <= rows)
      below = &times;
    else if (!above)
      above = &times;
  }
  if (below && below->rows == rows)
    return below->median;
  // Rounds with a draft say more of each other than those without.
  if (below && below->rows == 1 && above)
    below = nullptr;
  if (below && above && rows > 1) {
    double part = double(rows - below->rows) / (above->rows - below->rows);
    return below->median + part * (above->median - below->median);
  }
  if (const Times *known = below ? below : above)
    return known->median * guess(rows) / guess(known->rows);
  return guess(rows);
}

bool BlockChooser::mayLose(double seconds) const {
  double base = double(
      std::max<uint64_t>(tokens, std::min<uint64_t>(budget, tokensInAdvance)));
  return lost + seconds <= lossAllowed * base * expectedSeconds(1);
}

uint32_t BlockChooser::choose(uint32_t most, uint32_t wanted) const {
  // Everything is compared with the round of one row, so that one is measured
  // before all others, and once more, since its first time is not its usual
  // one.
  if (sizes[0].rounds < 2)
    return 1;
  // A time that was only guessed is not relied on much: sizes grow by doubling.
  uint32_t reach = firstDraftRows;
  for (const Times &times : sizes)
    if (times.rounds > 0)
      reach = std::max(reach, 2 * times.rows);
  uint32_t best = 1;
  double plain = expectedSeconds(1);
  double bestRate = 1 / plain;
  for (const Times &times : sizes) {
    if (times.rows == 1 || times.rows > std::min(most, reach))
      continue;
    double seconds = expectedSeconds(times.rows);
    double expected = std::min(expectedTokens(times.rows), double(wanted));
    // Should all drafts be wrong, the round gives one token.
    if (expected / seconds > bestRate && mayLose(seconds - plain)) {
      bestRate = expected / seconds;
      best = times.rows;
    }
  }
  return best;
}

} // namespace tandem
