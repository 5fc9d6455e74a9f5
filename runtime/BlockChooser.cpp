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
/// What may be lost to drafts, as a part of the time of the text's first
/// tokens: to the first draft, and in advance once it has been made. A second
/// one that follows a useless one is mostly useless, too.
static constexpr double lossOfFirst = 0.038, lossInAdvance = 0.008;
static constexpr uint32_t tokensInAdvance = 96;
/// What each token adds to it, as a part of its time, among the first tokens
/// and later. Later it is more, since each token that the drafter does not know
/// makes the next draft dearer by up to a hundredth of a step.
static constexpr double lossAllowed = 0.014, lossAllowedLater = 0.024;
/// What was gained by drafts may be lost again up to the time of so many
/// tokens.
static constexpr double tokensToLose = 4;
/// A round counts for at most so many times what was expected: a thread that
/// loses its core would have lost it to a step, too.
static constexpr double mostCounted = 1.5;
/// Behind this many steps, which leave nothing of the drafter in the caches of
/// the processor, a draft is expected to take so many times as long.
static constexpr uint32_t lateSteps = 64;
static constexpr double lateCost = 1.4;
/// Rows of context that take as long as one, and what a row of more is expected
/// to take, in steps.
static constexpr uint32_t contextTile = 16;
static constexpr double contextCost = 0.005;
/// Steps between two questions, where the drafter is not trusted and where its
/// drafts cannot be paid.
static constexpr uint32_t stepsOfDoubt = 8, mostSteps = 32;
/// Steps of which the time is taken before anything else is known.
static constexpr uint32_t firstSteps = 4;
/// Steps behind a draft that was wrong from the start; twice as many behind
/// each other one that follows.
static constexpr uint32_t firstPause = 2, longestPause = 32;

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
  stepsBehind = rowsBehind = lastRows = 0;
  failures = 0;
}

//===----------------------------------------------------------------------===//
// What is known
//===----------------------------------------------------------------------===//

void BlockChooser::recordDraft(double seconds) {
  // Late ones are the exception.
  if (stepsBehind <= lateSteps / 8)
    draft.add(seconds);
}

void BlockChooser::recordContext(uint32_t rows, double seconds) {
  contextRow.add(seconds / std::max(rows, contextTile));
}

void BlockChooser::recordRows(uint32_t rows, double seconds) {
  for (Size &size : sizes)
    if (size.rows == rows)
      size.times.add(seconds);
}

/// Takes \p tokenCount tokens over.
void BlockChooser::decay(uint32_t tokenCount) {
  tokens += tokenCount;
  double memory = std::pow(tokenMemory, tokenCount);
  for (Hits &hits : places) {
    hits.looked *= memory;
    hits.right *= memory;
  }
}

void BlockChooser::recordSteps(uint32_t count) {
  // Steps lose nothing to drafts, however long they took.
  decay(count);
  stepsBehind += count;
  rowsBehind += lastRows + count - 1;
  lastRows = 1;
}

void BlockChooser::recordRound(uint32_t place, uint32_t rows, uint32_t accepted,
                               uint32_t right, bool drafted, double seconds) {
  assert(rows >= 1 && place + rows <= places.size());
  assert(accepted >= 1 && accepted <= rows);
  assert(right + 1 >= accepted && right <= accepted);
  double expected =
      rowSeconds(rows) + (drafted ? draftSeconds() + lateSeconds() : 0);
  double step = rowSeconds(1);
  double counted = std::min(seconds, mostCounted * expected);
  // What was gained long ago is no reason to lose it again.
  lost = std::max(lost + counted - accepted * step, -tokensToLose * step);
  hasDrafted = true;
  decay(accepted);
  for (uint32_t row = 1; row <= accepted && place + row < places.size();
       ++row) {
    places[place + row].looked += 1;
    places[place + row].right += row <= right;
  }
  if (drafted)
    failures = right > 0 ? 0 : failures + 1;
  stepsBehind = 0;
  rowsBehind = drafted ? 0 : rowsBehind + lastRows;
  lastRows = accepted;
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

double BlockChooser::contextSeconds(uint32_t rows) const {
  if (rows == 0)
    return 0;
  double row =
      contextRow.count() > 0 ? contextRow.usual() : contextCost * rowSeconds(1);
  return row * std::max(rows, contextTile);
}

double BlockChooser::draftSeconds() const {
  return draft.count() > 0 ? draft.usual() : draftCost * rowSeconds(1);
}

double BlockChooser::lateSeconds() const {
  double late = double(std::min(stepsBehind, lateSteps)) / lateSteps;
  // The rows of the last round come with the draft.
  return draftSeconds() * (lateCost - 1) * late + contextSeconds(rowsBehind);
}

double BlockChooser::earnedLoss() const {
  return tokens < tokensInAdvance ? lossAllowed : lossAllowedLater;
}

double BlockChooser::allowedLoss() const {
  double length = std::min(budget, tokensInAdvance);
  double early = std::min<double>(double(tokens), length);
  double allowed = lossOfFirst * length;
  if (hasDrafted)
    allowed = lossInAdvance * length + lossAllowed * early +
              lossAllowedLater * (double(tokens) - early);
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
    double loss = seconds - outlook.step + (sunk > 0 ? outlook.late : 0);
    bool mayFail = loss > 0 && loss > outlook.allowed;
    // A step behind a draft costs as good as what a few rows do.
    bool says = rows > 1 || sunk == 0;
    double saved = expected * rate - seconds;
    // The token behind the rows has to be the next draft.
    if (place + rows < outlook.end)
      saved += allRight * outlook.right[place + rows] * behind[place + rows];
    if (says && !mayFail && (best.rows == 0 || saved > best.saved))
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

BlockChooser::Choice BlockChooser::stepsUntil(double loss) const {
  // Nothing is earned before the first draft.
  double earned = hasDrafted ? earnedLoss() * rowSeconds(1) : 0;
  double missing = loss - allowedLoss();
  Choice choice{.steps = mostSteps};
  if (missing < earned * mostSteps)
    choice.steps = std::max(1u, uint32_t(std::ceil(missing / earned)));
  return choice;
}

/// Steps before the next draft when the last \p failures ones were useless: the
/// text is not likely to be another one at the next token.
static uint32_t pauseBehind(uint32_t failures) {
  uint32_t pause = failures > 0 ? firstPause : 0;
  while (failures-- > 1 && pause < longestPause)
    pause *= 2;
  return pause;
}

BlockChooser::Choice BlockChooser::choose(uint32_t most, uint32_t wanted,
                                          std::optional<uint32_t> place) const {
  // Everything is compared with a step, so that is measured before all others.
  if (most <= 1 || wanted <= 1 || sizes[0].times.count() == 0)
    return {.steps = firstSteps};
  uint32_t pause = pauseBehind(failures);
  if (!place && stepsBehind < pause)
    return {.steps = pause - stepsBehind};
  double leastLoss =
      draftSeconds() + lateSeconds() + rowSeconds(fewRows()) - rowSeconds(1);
  if (!place && leastLoss > allowedLoss())
    return stepsUntil(leastLoss);
  Outlook outlook;
  for (const Size &size : sizes)
    outlook.seconds.push_back(rowSeconds(size.rows));
  outlook.right.resize(places.size());
  for (uint32_t at = 1; at < places.size(); ++at)
    outlook.right[at] = rightProbability(at);
  outlook.draft = draftSeconds();
  outlook.late = lateSeconds();
  outlook.step = outlook.seconds[0];
  outlook.allowed = allowedLoss();
  outlook.most = most;
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
  return {.steps = stepsOfDoubt};
}

} // namespace tandem
