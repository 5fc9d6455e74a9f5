//===- ScoreTest.cpp - Scoring, with fake programs ------------------------===//

#include "runtime/Score.h"
#include "test/runtime/FakePair.h"

#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

uint32_t lastPlusOne(std::span<const uint32_t> tokens) {
  return tokens.back() + 1;
}
uint32_t alwaysRight(unsigned, uint32_t right) { return right; }

/// Index of the 1 in every row of \p logits.
Tokens winners(std::span<const float> logits, size_t vocabulary) {
  Tokens result;
  for (size_t index = 0; index < logits.size(); ++index)
    if (logits[index] == 1)
      result.push_back(uint32_t(index % vocabulary));
  return result;
}

} // namespace

TEST(Score, RowsOfAllChunksComeInOrder) {
  // The score chunk and the prefill chunk, in which the features go to the
  // drafter, are different, and neither divides the length.
  LoopSpec loop = {.block = 4, .chunk = 3, .scoreChunk = 4};
  FakePair pair({.loop = loop}, lastPlusOne, alwaysRight);
  Tokens ids = {10, 20, 30, 40, 50, 60, 70, 80, 15, 25, 35};
  Tokens next;
  auto sink = [&](std::span<const float> rows) {
    for (uint32_t token : winners(rows, loop.vocabulary))
      next.push_back(token);
    return Status();
  };
  auto scores = score(pair.artifact(), pair, ids, sink);
  ASSERT_TRUE(scores.isOk()) << scores.status().message();
  EXPECT_EQ(next, (Tokens{11, 21, 31, 41, 51, 61, 71, 81, 16, 26, 36}));
  ASSERT_EQ(scores->features.size(), ids.size() * 2);
  for (size_t row = 0; row < ids.size(); ++row)
    EXPECT_EQ(scores->features[row * 2], float(ids[row]));
  // The anchor is 36.
  EXPECT_EQ(winners(scores->draftLogits, loop.vocabulary),
            (Tokens{37, 38, 39}));
}

TEST(Score, PairWithoutDrafterGivesLogitsOnly) {
  FakePair pair({.loop = {}, .drafter = false}, lastPlusOne, alwaysRight);
  size_t values = 0;
  auto sink = [&](std::span<const float> rows) {
    values += rows.size();
    return Status();
  };
  auto scores = score(pair.artifact(), pair, Tokens{1, 2, 3}, sink);
  ASSERT_TRUE(scores.isOk()) << scores.status().message();
  EXPECT_EQ(values, 300u);
  EXPECT_TRUE(scores->features.empty());
  EXPECT_TRUE(scores->draftLogits.empty());
}

TEST(Score, BadIdsAreErrors) {
  FakePair pair({}, lastPlusOne, alwaysRight);
  auto sink = [](std::span<const float>) { return Status(); };
  EXPECT_FALSE(score(pair.artifact(), pair, Tokens(), sink).isOk());
  EXPECT_FALSE(score(pair.artifact(), pair, Tokens{100}, sink).isOk());
  auto tooLong = score(pair.artifact(), pair, Tokens(65, 1), sink);
  EXPECT_EQ(tooLong.status().message(),
            "the text has 65 tokens, the context holds 64");
  EXPECT_TRUE(score(pair.artifact(), pair, Tokens(64, 1), sink).isOk());
}

TEST(Score, FailureOfTheSinkIsHandedOn) {
  FakePair pair({}, lastPlusOne, alwaysRight);
  auto sink = [](std::span<const float>) {
    return failure(StatusCode::System, "disk full");
  };
  EXPECT_EQ(score(pair.artifact(), pair, Tokens{1}, sink).status().message(),
            "disk full");
}

TEST(Score, ArtefactWithoutTheProgramIsAnError) {
  FakePair pair({.loop = {}, .score = false}, lastPlusOne, alwaysRight);
  auto sink = [](std::span<const float>) { return Status(); };
  EXPECT_EQ(score(pair.artifact(), pair, Tokens{1}, sink).status().message(),
            "was compiled without the program 'score'");
}
