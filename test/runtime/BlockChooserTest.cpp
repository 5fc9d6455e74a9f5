//===- BlockChooserTest.cpp - How many rows a round verifies --------------===//

#include "runtime/BlockChooser.h"

#include <gtest/gtest.h>

using namespace tandem;

namespace {

/// A machine and a text: seconds of a round, and drafts that are right with a
/// probability each, as far as a fixed sequence says.
struct World {
  double draftSeconds = 0.6, rowSeconds = 0.1;
  double right = 0.5;
  uint32_t state = 1;

  double seconds(uint32_t rows) const {
    return 1 + (rows > 1 ? draftSeconds : 0) + rowSeconds * (rows - 1);
  }
  bool isRight() {
    state = state * 1664525u + 1013904223u;
    return double(state >> 8) / double(1 << 24) < right;
  }
  uint32_t accepted(uint32_t rows) {
    uint32_t count = 1;
    while (count < rows && isRight())
      ++count;
    return count;
  }
};

struct Outcome {
  double seconds = 0;
  uint64_t tokens = 0;
  uint32_t lastRows = 0;
  double rate() const { return double(tokens) / seconds; }
};

Outcome writeText(BlockChooser &chooser, World &world, uint32_t tokens,
                  uint32_t fixedRows = 0) {
  Outcome outcome;
  chooser.startText(tokens);
  while (outcome.tokens < tokens) {
    uint32_t rows = fixedRows
                        ? fixedRows
                        : chooser.choose(16, tokens - uint32_t(outcome.tokens));
    uint32_t accepted = world.accepted(rows);
    chooser.record(rows, accepted, world.seconds(rows));
    outcome.seconds += world.seconds(rows);
    outcome.tokens += accepted;
    outcome.lastRows = rows;
  }
  return outcome;
}

} // namespace

TEST(BlockChooser, StaysWithinTheBlockAndSaysOneRowWithoutRoom) {
  BlockChooser chooser(16, 0.5);
  chooser.startText(100);
  EXPECT_GE(chooser.choose(16, 100), 1u);
  EXPECT_LE(chooser.choose(3, 100), 3u);
  EXPECT_EQ(chooser.choose(1, 100), 1u);
  // The last token needs no draft.
  EXPECT_EQ(chooser.choose(16, 1), 1u);
  BlockChooser one(1, 0);
  one.startText(100);
  EXPECT_EQ(one.choose(16, 100), 1u);
}

TEST(BlockChooser, IsNeverMuchSlowerThanNoDrafts) {
  for (double right : {0.0, 0.2, 0.4, 0.6, 0.8, 0.95})
    for (double draftSeconds : {0.1, 0.6, 2.0, 5.0})
      for (double rowSeconds : {0.02, 0.1, 0.5})
        for (uint32_t length : {96u, 400u, 2000u}) {
          // Nobody can know that the first draft will take that long.
          if (draftSeconds == 5.0 && length == 96)
            continue;
          World world{draftSeconds, rowSeconds, right};
          BlockChooser chooser(16, 0.6);
          Outcome outcome = writeText(chooser, world, length);
          EXPECT_LE(outcome.seconds, 1.05 * double(outcome.tokens))
              << right << " right, draft " << draftSeconds << ", row "
              << rowSeconds << ", " << length << " tokens";
        }
}

TEST(BlockChooser, ComesCloseToTheBestFixedNumberOfRows) {
  for (double right : {0.3, 0.5, 0.7, 0.8, 0.9, 0.97})
    for (double draftSeconds : {0.2, 0.6, 1.5}) {
      double best = 0;
      for (uint32_t rows : {2u, 4u, 8u, 16u}) {
        World world{draftSeconds, 0.1, right};
        BlockChooser chooser(16, 0.6);
        best = std::max(best, writeText(chooser, world, 2000, rows).rate());
      }
      best = std::max(best, 1.0);
      World world{draftSeconds, 0.1, right};
      BlockChooser chooser(16, 0.6);
      EXPECT_GE(writeText(chooser, world, 2000).rate(), 0.88 * best)
          << right << " right, draft " << draftSeconds;
    }
}

TEST(BlockChooser, FollowsATextThatChanges) {
  World world{0.5, 0.1, 0.0};
  BlockChooser chooser(16, 0.6);
  EXPECT_EQ(writeText(chooser, world, 300).lastRows, 1u);
  world.right = 0.97;
  Outcome better = writeText(chooser, world, 600);
  EXPECT_GT(better.rate(), 2.0);
  world.right = 0.0;
  EXPECT_GE(writeText(chooser, world, 300).rate(), 1 / 1.05);
}

TEST(BlockChooser, OneSlowRoundChangesNothing) {
  World world{0.2, 0.02, 0.9};
  BlockChooser chooser(16, 0.6);
  writeText(chooser, world, 500);
  double before = chooser.expectedSeconds(16);
  chooser.record(16, 10, 100 * before);
  EXPECT_EQ(chooser.expectedSeconds(16), before);
}

TEST(BlockChooser, GuessesFromWhatIsKnown) {
  BlockChooser chooser(16, 0.5);
  // Nothing is known: more rows take longer, a draft takes half a step.
  EXPECT_NEAR(chooser.expectedSeconds(2) / chooser.expectedSeconds(1), 1.6,
              0.05);
  EXPECT_GT(chooser.expectedTokens(4), chooser.expectedTokens(2));
  chooser.startText(100);
  for (int i = 0; i < 3; ++i) {
    chooser.record(2, 2, 3.0);
    chooser.record(8, 2, 9.0);
  }
  EXPECT_NEAR(chooser.expectedSeconds(4), 5.0, 1e-9);
  EXPECT_GT(chooser.expectedSeconds(16), 9.0);
  EXPECT_LT(chooser.expectedSeconds(1), 3.0);
}
