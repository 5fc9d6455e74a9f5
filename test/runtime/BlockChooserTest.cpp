//===- BlockChooserTest.cpp - Whether to draft, and what to verify --------===//

#include "runtime/BlockChooser.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <span>
#include <vector>

using namespace tandem;

namespace {

/// What programs take, in steps.
struct Machine {
  double draft = 0.96;
  std::vector<double> rows = {1, 1.3, 1.38, 1.58, 2.37};
  /// How many times as long a draft takes that follows 60 steps.
  double late = 1.4;
  /// A row of context, 16 or more at once.
  double context = 0.0075;
  /// To ask what comes next, and to take the time.
  double question = 0.02;

  /// Between the sizes 1, 2, 4, 8 and 16, evenly.
  double rowSeconds(uint32_t count) const {
    double place = std::log2(count);
    auto below = size_t(place);
    if (below + 1 >= rows.size())
      return rows.back();
    double low = std::exp2(double(below));
    return rows[below] + (rows[below + 1] - rows[below]) * (count - low) / low;
  }
};

/// The demo pair in bf16 in tile registers, in int8 and in f32.
const Machine tiles;
const Machine bytes{.draft = 1.9,
                    .rows = {1, 1.22, 1.68, 2.3, 4.35},
                    .late = 1.6,
                    .context = 0.0115};
const Machine floats{.draft = 2.35,
                     .rows = {1, 1.63, 1.68, 2.85, 5.3},
                     .late = 1.15,
                     .context = 0.015};

/// Numbers that look random.
class Sequence {
public:
  explicit Sequence(uint32_t seed) : state(seed) {}
  double next() {
    state = state * 1664525u + 1013904223u;
    return double(state >> 8) / double(1 << 24);
  }

private:
  uint32_t state;
};

/// How many drafts are right behind the token at some place of a text.
using Text = std::function<uint32_t(uint32_t token)>;

/// Each draft is right with the same probability.
Text evenly(double right, uint32_t seed = 1) {
  return [right, numbers = Sequence(seed)](uint32_t) mutable {
    uint32_t count = 0;
    while (count < 15 && numbers.next() < right)
      ++count;
    return count;
  };
}

Text recorded(std::span<const uint8_t> drafts) {
  return [drafts](uint32_t token) {
    return uint32_t(drafts[std::min<size_t>(token, drafts.size() - 1)]);
  };
}

/// What the drafter of the demo pair gets right behind each token of two
/// answers of its golden.
constexpr uint8_t hardText[] = {
    1,  0,  0,  0,  0,  0,  0,  3,  2,  1,  0,  0,  0,  1,  0,  0,  0,  1,  1,
    0,  0,  0,  0,  0,  1,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  1,
    0,  1,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  1,  0,  0,  0,  0,
    1,  0,  3,  15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 14, 15, 15};
constexpr uint8_t easyText[] = {
    5,  1,  2,  2,  0,  0,  1,  1,  2,  1,  9,  3,  2,  1,  5,  7,  3,  2,  8,
    0,  2,  1,  15, 12, 14, 15, 13, 12, 12, 13, 13, 11, 10, 13, 15, 15, 14, 13,
    14, 15, 14, 11, 10, 15, 8,  15, 14, 13, 15, 14, 14, 14, 15, 13, 13, 13, 15,
    15, 15, 14, 2,  13, 12, 10, 9,  10, 11, 8,  4,  6,  5,  4,  3,  2,  2,  1,
    0,  4,  3,  2,  1,  0,  8,  15, 15, 15, 7,  6,  5,  15, 14, 15, 15, 15, 15};

/// A chooser, and the clock that it is used with.
struct Writer {
  explicit Writer(const Machine &machine, double noise = 0, uint32_t seed = 1)
      : machine(machine), noise(noise), numbers(seed) {}

  BlockChooser chooser{16, 0.6};
  Machine machine;
  double noise;
  Sequence numbers;
  uint32_t drafts = 0, lastRows = 0, questions = 0;

  /// What a clock shows for \p seconds: now and then several times as much.
  double shown(double seconds) {
    double chance = numbers.next();
    return seconds *
           (1 + noise * (chance > 0.9 ? 40 * numbers.next() : chance));
  }

  /// As before the first text of a process.
  void measure() {
    for (int turn = 0; turn < 2; ++turn) {
      chooser.recordRows(1, shown(1));
      chooser.recordDraft(shown(machine.draft));
      for (uint32_t rows : {2u, 4u, 8u, 16u})
        chooser.recordRows(rows, shown(machine.rowSeconds(rows)));
      chooser.recordContext(64, shown(64 * machine.context));
    }
  }

  /// Writes a text; returns how many times as fast as by steps.
  double write(Text text, uint32_t length, uint32_t fixedRows = 0) {
    chooser.startText(length);
    double seconds = 0;
    // Rows that the drafter does not know, and those of the last round, which
    // it takes with the next block.
    uint32_t tokens = 0, right = 0, behind = 0, pending = 0, steps = 0;
    std::optional<uint32_t> place;
    while (tokens < length) {
      BlockChooser::Choice choice = {fixedRows > 0, fixedRows};
      if (!fixedRows) {
        choice = chooser.choose(16, length - tokens, place);
        seconds += machine.question;
        ++questions;
      }
      lastRows = choice.rows;
      if (!choice.drafts && !(place && choice.steps == 1) && !fixedRows) {
        EXPECT_EQ(choice.rows, 1u);
        place.reset();
        uint32_t count = std::min(choice.steps, length - tokens);
        double taken = 0;
        for (uint32_t step = 0; step < count; ++step)
          taken += shown(1);
        chooser.recordRows(1, taken / count);
        chooser.recordSteps(count);
        behind += pending + count - 1;
        pending = 1;
        steps += count;
        seconds += count;
        tokens += count;
        continue;
      }
      double draft = 0, rows = machine.rowSeconds(choice.rows), all = 0;
      if (choice.drafts) {
        draft = machine.draft *
                (1 + (machine.late - 1) * std::min(1.0, steps / 60.0));
        if (behind > 0) {
          double context = machine.context * std::max(behind, 16u);
          chooser.recordContext(behind, shown(context));
          all += context;
        }
        chooser.recordDraft(shown(draft));
        right = text(tokens);
        place = 0;
        behind = 0;
        ++drafts;
      } else {
        behind += pending;
      }
      uint32_t from = *place;
      EXPECT_LE(from + choice.rows, 16u);
      uint32_t accepted = std::min(choice.rows, right - from + 1);
      all += draft + rows;
      *place += accepted;
      bool follows = *place <= right && *place <= 15;
      if (!follows)
        place.reset();
      chooser.recordRows(choice.rows, shown(rows));
      chooser.recordRound(from, choice.rows, accepted, accepted - 1 + follows,
                          choice.drafts, shown(all));
      seconds += all;
      tokens += accepted;
      pending = accepted;
      steps = 0;
    }
    // What the last round has too much is for nobody.
    return length / seconds;
  }
};

} // namespace

TEST(BlockChooser, StaysWithinTheBlockAndStepsWithoutRoom) {
  Writer writer(tiles);
  writer.measure();
  BlockChooser &chooser = writer.chooser;
  chooser.startText(200);
  EXPECT_TRUE(chooser.choose(16, 100, std::nullopt).drafts);
  EXPECT_LE(chooser.choose(3, 100, std::nullopt).rows, 3u);
  EXPECT_EQ(chooser.choose(1, 100, std::nullopt).rows, 1u);
  // The last token needs no draft.
  EXPECT_FALSE(chooser.choose(16, 1, std::nullopt).drafts);
  EXPECT_EQ(chooser.choose(16, 1, 3).rows, 1u);
  for (uint32_t place = 1; place < 16; ++place) {
    BlockChooser::Choice choice = chooser.choose(16, 100, place);
    EXPECT_LE(place + choice.rows, choice.drafts ? 32u : 16u);
  }
  BlockChooser one(1, 0);
  one.startText(100);
  one.recordRows(1, 1);
  EXPECT_EQ(one.choose(16, 100, std::nullopt).rows, 1u);
}

TEST(BlockChooser, MeasuresAStepBeforeItDrafts) {
  BlockChooser chooser(16, 0.1);
  chooser.startText(100);
  EXPECT_FALSE(chooser.choose(16, 100, std::nullopt).drafts);
  chooser.recordRows(1, 1);
  EXPECT_TRUE(chooser.choose(16, 100, std::nullopt).drafts);
}

TEST(BlockChooser, AnEasyTextIsDraftedFromTheStartWhateverTheClockShows) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    Writer writer(tiles, /*noise=*/0.05, seed);
    writer.measure();
    EXPECT_GE(writer.write(recorded(easyText), 95), 1.5) << seed;
  }
  Writer quiet(tiles);
  quiet.measure();
  EXPECT_GE(quiet.write(recorded(easyText), 95), 2.4);
  Writer whole(tiles);
  EXPECT_LT(whole.write(recorded(easyText), 95, 16), 2.4);
}

TEST(BlockChooser, AHardTextLosesLittleWhateverTheClockShows) {
  for (const Machine &machine : {tiles, bytes, floats})
    for (uint32_t seed = 1; seed <= 200; ++seed) {
      Writer writer(machine, /*noise=*/0.05, seed);
      writer.measure();
      EXPECT_GE(writer.write(recorded(hardText), 95), 0.96) << seed;
      // Nor do many of them.
      EXPECT_GE(writer.write(evenly(0.1, seed), 95), 0.96) << seed;
    }
}

TEST(BlockChooser, StepsAreNotAskedOneByOne) {
  for (const Machine &machine : {tiles, bytes, floats})
    for (uint32_t length : {95u, 2000u}) {
      Writer writer(machine);
      writer.measure();
      writer.write(evenly(0), length);
      EXPECT_LE(writer.questions, 8 + length / 12);
    }
}

TEST(BlockChooser, ADraftThatTakesLongerThanMeasuredIsBooked) {
  // None of it shows before the first text.
  for (double late : {1.5, 2.0, 3.0})
    for (double right : {0.0, 0.3, 0.5}) {
      Machine machine = tiles;
      machine.late = late;
      Writer writer(machine);
      writer.measure();
      writer.machine.context *= late;
      writer.machine.draft *= 1.3;
      for (uint32_t length : {95u, 400u, 2000u})
        EXPECT_GE(writer.write(evenly(right), length), 0.95)
            << late << " times, " << right << " right, " << length;
    }
}

TEST(BlockChooser, OtherMachinesDraftWhatPays) {
  for (auto [machine, least] :
       {std::pair(bytes, 0.97), std::pair(floats, 0.97)}) {
    Writer writer(machine);
    writer.measure();
    EXPECT_GE(writer.write(recorded(easyText), 95), least);
    // Where all drafts are right even a slow drafter pays.
    Writer right(machine);
    right.measure();
    EXPECT_GE(right.write(evenly(1), 95), 1.75);
  }
}

TEST(BlockChooser, IsNeverMuchSlowerThanSteps) {
  for (double right : {0.0, 0.2, 0.4, 0.6, 0.8, 0.95})
    for (double draft : {0.1, 0.6, 2.0, 5.0})
      for (double row : {0.02, 0.1, 0.5})
        for (uint32_t length : {20u, 96u, 400u, 2000u})
          for (bool measures : {true, false}) {
            Machine machine{.draft = draft, .rows = {1}};
            for (uint32_t rows : {2u, 4u, 8u, 16u})
              machine.rows.push_back(1 + row * (rows - 1));
            // Nobody can know that the first draft will take that long.
            if (!measures && (draft > 0.6 || row > 0.1) && length < 400)
              continue;
            Writer writer(machine);
            if (measures)
              writer.measure();
            EXPECT_GE(writer.write(evenly(right), length), 0.95)
                << right << " right, draft " << draft << ", row " << row << ", "
                << length << " tokens, measured " << measures;
          }
}

TEST(BlockChooser, ComesCloseToTheBestFixedNumberOfRows) {
  for (double right : {0.3, 0.5, 0.7, 0.8, 0.9, 0.97})
    for (const Machine &machine : {tiles, bytes, floats}) {
      double best = 1;
      for (uint32_t rows : {2u, 4u, 8u, 16u})
        best = std::max(best, Writer(machine).write(evenly(right), 2000, rows));
      Writer writer(machine);
      writer.measure();
      EXPECT_GE(writer.write(evenly(right), 2000), 0.88 * best)
          << right << " right, draft " << machine.draft;
    }
}

TEST(BlockChooser, FollowsATextThatChanges) {
  // Where drafts are dear it takes longer to try again.
  for (auto [machine, least] :
       {std::pair(tiles, 1.35), std::pair(bytes, 1.0)}) {
    Writer writer(machine);
    writer.measure();
    Text useless = evenly(0), good = evenly(0.97);
    Text changing = [&](uint32_t token) {
      return token / 300 % 2 ? good(token) : useless(token);
    };
    EXPECT_GE(writer.write(useless, 300), 0.95);
    EXPECT_EQ(writer.lastRows, 1u);
    EXPECT_GE(writer.write(changing, 1200), least);
    EXPECT_GE(writer.write(useless, 300), 0.95);
  }
}

TEST(BlockChooser, VerifiesMoreOfABlockThatIsRight) {
  // Drafts are dear and rows are not cheap: a few are verified first.
  Writer writer(Machine{.draft = 1, .rows = {1, 1.1, 1.2, 3, 6}});
  writer.measure();
  BlockChooser &chooser = writer.chooser;
  chooser.startText(400);
  BlockChooser::Choice first = chooser.choose(16, 400, std::nullopt);
  ASSERT_TRUE(first.drafts);
  EXPECT_LT(first.rows, 16u);
  BlockChooser::Choice second = chooser.choose(16, 400, first.rows);
  EXPECT_FALSE(second.drafts);
  EXPECT_GT(second.rows, 1u);
}

TEST(BlockChooser, OneSlowRoundChangesNothing) {
  Writer writer(tiles);
  writer.measure();
  writer.write(evenly(0.9), 500);
  BlockChooser &chooser = writer.chooser;
  double rows = chooser.rowSeconds(16), draft = chooser.draftSeconds();
  chooser.recordRows(16, 100 * rows);
  chooser.recordDraft(100 * draft);
  EXPECT_EQ(chooser.rowSeconds(16), rows);
  EXPECT_EQ(chooser.draftSeconds(), draft);
  // One that is a machine's new speed is believed soon.
  for (int round = 0; round < 8; ++round)
    chooser.recordRows(16, 2 * rows);
  EXPECT_EQ(chooser.rowSeconds(16), 2 * rows);
}

TEST(BlockChooser, GuessesFromWhatIsKnown) {
  BlockChooser chooser(16, 0.5);
  // Nothing is known: more rows take longer, a draft takes half a step.
  EXPECT_GT(chooser.rowSeconds(2), chooser.rowSeconds(1));
  EXPECT_NEAR(chooser.draftSeconds(), 0.5 * chooser.rowSeconds(1), 1e-9);
  EXPECT_GT(chooser.rightProbability(1), 0.5);
  for (int time = 0; time < 2; ++time) {
    chooser.recordRows(2, 3.0);
    chooser.recordRows(8, 9.0);
  }
  EXPECT_NEAR(chooser.rowSeconds(4), 5.0, 1e-9);
  EXPECT_GT(chooser.rowSeconds(16), 9.0);
  EXPECT_LT(chooser.rowSeconds(1), 3.0);
  for (int round = 0; round < 20; ++round)
    chooser.recordRound(0, 8, 3, 2, true, 9);
  EXPECT_GT(chooser.rightProbability(2), 0.9);
  EXPECT_LT(chooser.rightProbability(3), 0.2);
  // Of drafts behind a wrong one nothing is learned.
  EXPECT_NEAR(chooser.rightProbability(9), 0.9, 1e-9);
}
