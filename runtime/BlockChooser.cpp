//===- BlockChooser.cpp - Whether to draft, and what to verify ------------===//

#include "runtime/BlockChooser.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <limits>

namespace tandem {

/// Times that are remembered. The lower quartile of them is what counts: most
/// of what goes wrong with a measurement makes it longer.
static constexpr size_t rememberedTimes = 8;
/// A single time of a draft's rows may be of a bad moment, and would keep them
/// from ever being measured again.
static constexpr size_t timesNeeded = 2;
/// A row more is expected to take this part of a step. Measured: a product of
/// 16 rows takes two to five times as long as one of one row.
static constexpr double rowCost = 0.14;
/// What is expected of a draft nobody has seen, at the first places of a block
/// and behind them, and how many that were seen outweigh it.
static constexpr double priorRight[] = {0.7, 0.8, 0.85, 0.9};
static constexpr double priorWeight = 2;
/// What a token leaves of the weight of what was seen before it.
static constexpr double tokenMemory = 0.98;
/// The part of a text's time that may be lost to drafts, and what may be lost
/// in advance, as a part of the time of the text's first tokens. The first
/// draft may take both for all of them: a draft that fails late is no cheaper.
static constexpr double lossAllowed = 0.014, lossInAdvance = 0.024;
static constexpr uint32_t tokensInAdvance = 96;
/// What was gained by drafts may be lost again up to the time of so many
/// tokens.
static constexpr double tokensToLose = 4;

void BlockChooser::Times::add(double seconds) {
  if (last.size() < rememberedTimes)
    last.push_back(seconds);
  else
    last[added % rememberedTimes] = seconds;
  ++added;
  std::vector<double> sorted = last;
  auto quartile = sorted.begin() + ptrdiff_t((sorted.size() - 1) / 4);
  std::nth_element(sorted.begin(), quartile, sorted.end());
  estimate = *quartile;
}

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
  hasDrafted = false;
  budget = newBudget;
}

//===----------------------------------------------------------------------===//
// What is known
//===----------------------------------------------------------------------===//

void BlockChooser::recordDraft(double seconds) { draft.add(seconds); }

void BlockChooser::recordRows(uint32_t rows, double seconds) {
  for (Size &size : sizes)
    if (size.rows == rows)
      size.times.add(seconds);
}

void BlockChooser::recordRound(uint32_t place, uint32_t rows, uint32_t accepted,
                               bool drafted) {
  assert(accepted >= 1 && accepted <= rows && place + rows <= places.size());
  tokens += accepted;
  double memory = std::pow(tokenMemory, accepted);
  for (Hits &hits : places) {
    hits.looked *= memory;
    hits.right *= memory;
  }
  // A step loses nothing to drafts, however long it took.
  if (rows == 1)
    return;
  hasDrafted = true;
  double step = rowSeconds(1);
  // What was gained long ago is no reason to lose it again.
  double seconds = rowSeconds(rows) + (drafted ? draftSeconds() : 0);
  lost = std::max(lost + seconds - accepted * step, -tokensToLose * step);
  for (uint32_t row = 1; row < rows && row <= accepted; ++row) {
    places[place + row].looked += 1;
    places[place + row].right += row < accepted;
  }
}

double BlockChooser::rightProbability(uint32_t place) const {
  assert(place >= 1 && place < places.size());
  double prior =
      priorRight[std::min(place, uint32_t(std::size(priorRight))) - 1];
  return (places[place].right + prior * priorWeight) /
         (places[place].looked + priorWeight);
}

double BlockChooser::rowSeconds(uint32_t rows) const {
  auto guess = [](uint32_t count) { return 1 + rowCost * (count - 1); };
  const Size *below = nullptr, *above = nullptr;
  // More rows take no less: a size that was measured at bad times does not
  // count for more than a larger one.
  double most = std::numeric_limits<double>::infinity();
  for (const Size &size : sizes) {
    if (size.times.count() < (size.rows == 1 ? 1 : timesNeeded))
      continue;
    if (size.rows <= rows)
      below = &size;
    else if (!above)
      above = &size;
    if (size.rows >= rows)
      most = std::min(most, size.times.usual());
  }
  if (below && above) {
    double part = double(rows - below->rows) / (above->rows - below->rows);
    double difference = above->times.usual() - below->times.usual();
    return std::min(most, below->times.usual() + part * difference);
  }
  if (const Size *known = below ? below : above)
    return std::min(most,
                    known->times.usual() * guess(rows) / guess(known->rows));
  return guess(rows);
}

double BlockChooser::draftSeconds() const {
  return draft.count() > 0 ? draft.usual() : draftCost * rowSeconds(1);
}

double BlockChooser::allowedLoss() const {
  double length = std::min(budget, tokensInAdvance);
  double earned = hasDrafted ? double(tokens) : length;
  double allowed = lossInAdvance * length + lossAllowed * earned;
  return allowed * rowSeconds(1) - lost;
}

//===----------------------------------------------------------------------===//
// What to do
//===----------------------------------------------------------------------===//

/// The best number of rows to verify from \p place on, \p sunk having been
/// spent. \p behind is what standing at each place is worth.
BlockChooser::Plan
BlockChooser::planRows(const Outlook &outlook, double rate, double sunk,
                       uint32_t place,
                       const std::vector<double> &behind) const {
  Plan best{.saved = -1, .rows = 0};
  double expected = 1, allRight = 1;
  uint32_t row = 1;
  uint32_t left = std::min(outlook.most, outlook.end - place);
  for (size_t index = 0; index < sizes.size(); ++index) {
    uint32_t rows = std::min(sizes[index].rows, left);
    for (; row < rows; ++row) {
      allRight *= outlook.right[place + row];
      expected += allRight;
    }
    double seconds = sunk + outlook.seconds[index];
    // Should all drafts be wrong, the round gives one token.
    bool mayFail = seconds - outlook.step > outlook.allowed;
    double saved = expected * rate - seconds;
    // The token behind the rows has to be the next draft.
    if (place + rows < outlook.end)
      saved += allRight * outlook.right[place + rows] * behind[place + rows];
    // A single row behind a draft would not be asked what it is worth.
    bool says = rows > 1 || sunk == 0;
    if (says && (rows == 1 || !mayFail) &&
        (best.rows == 0 || saved > best.saved))
      best = {saved, rows};
    if (sizes[index].rows >= left)
      break;
  }
  return best;
}

/// What standing at each place of a block is worth, all before it being right;
/// not less than nothing, since the block can be forgotten.
std::vector<double> BlockChooser::planBehind(const Outlook &outlook,
                                             double rate) const {
  std::vector<double> behind(outlook.end, 0);
  for (uint32_t place = outlook.end; place-- > 1;)
    behind[place] =
        std::max(0.0, planRows(outlook, rate, /*sunk=*/0, place, behind).saved);
  return behind;
}

BlockChooser::Plan BlockChooser::planDraft(const Outlook &outlook,
                                           double rate) const {
  return planRows(outlook, rate, outlook.draft, 0, planBehind(outlook, rate));
}

BlockChooser::Choice BlockChooser::choose(uint32_t most, uint32_t wanted,
                                          std::optional<uint32_t> place) const {
  // Everything is compared with a step, so that is measured before all others.
  if (most <= 1 || wanted <= 1 || sizes[0].times.count() == 0)
    return {};
  Outlook outlook;
  for (const Size &size : sizes)
    outlook.seconds.push_back(rowSeconds(size.rows));
  outlook.right.resize(places.size());
  for (uint32_t at = 1; at < places.size(); ++at)
    outlook.right[at] = rightProbability(at);
  outlook.draft = draftSeconds();
  outlook.step = outlook.seconds[0];
  outlook.allowed = allowedLoss();
  outlook.most = most;
  // Most rounds of a text that does not pay end here.
  if (!place &&
      outlook.draft + outlook.seconds[1] - outlook.step > outlook.allowed)
    return {};
  auto reach = [&](uint32_t from) {
    return uint32_t(std::min<uint64_t>(places.size(), uint64_t(from) + wanted));
  };

  // The going rate of seconds a token: a step's, or less when drafts pay.
  double rate = outlook.step;
  outlook.end = reach(0);
  Plan fresh = planDraft(outlook, rate);
  if (fresh.rows > 1 && fresh.saved > 0) {
    double low = 0;
    for (int turn = 0; turn < 8; ++turn) {
      double middle = (low + rate) / 2;
      Plan plan = planDraft(outlook, middle);
      (plan.saved > 0 ? rate : low) = middle;
      if (plan.saved > 0)
        fresh = plan;
    }
  }
  if (place && *place < places.size()) {
    outlook.end = reach(*place);
    Plan plan =
        planRows(outlook, rate, /*sunk=*/0, *place, planBehind(outlook, rate));
    if (plan.saved > 0 && plan.rows >= 1)
      return {.drafts = false, .rows = plan.rows};
  }
  if (fresh.rows > 1 && fresh.saved > 0)
    return {.drafts = true, .rows = fresh.rows};
  return {};
}

} // namespace tandem
