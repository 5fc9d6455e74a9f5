//===- ReuseTest.cpp - Texts that go on where the last one ended ----------===//

#include "runtime/Speculator.h"
#include "test/runtime/FakePair.h"

#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

uint32_t hashTarget(std::span<const uint32_t> tokens) {
  uint64_t hash = 14695981039346656037u;
  for (uint32_t token : tokens)
    hash = (hash ^ token) * 1099511628211u;
  return uint32_t((hash >> 32) % 90);
}

Drafter rightFor(unsigned drafts) {
  return [drafts](unsigned slot, uint32_t right) {
    return slot <= drafts ? right : (right + 1) % 90;
  };
}

class Ender final : public TokenSink {
public:
  std::optional<uint32_t> last;
  unsigned callsUntilCancel = ~0u, calls = 0;
  bool token(uint32_t id) override { return id != last; }
  bool keepGoing() override { return ++calls < callsUntilCancel; }
};

/// A conversation over one pair: every prompt is the text so far with new
/// tokens behind it, and every answer is compared with that of a fresh pair.
class Conversation {
public:
  explicit Conversation(unsigned rightDrafts, uint32_t block = 4)
      : options{.loop = {.block = block, .maxContext = 256}},
        drafter(rightFor(rightDrafts)), pair(options, hashTarget, drafter),
        speculator(*Speculator::create(pair.artifact(), pair,
                                       [this] { return pair.seconds; })) {}

  Generation turn(const Tokens &more, GenerateOptions generate,
                  Ender sink = {}) {
    text.insert(text.end(), more.begin(), more.end());
    FakePair fresh(options, hashTarget, drafter);
    auto cold = Speculator::create(fresh.artifact(), fresh);
    Ender coldSink = sink;
    auto expected = cold->generate(text, generate, coldSink);
    generate.reusePrefix = true;
    auto found = speculator.generate(text, generate, sink);
    EXPECT_TRUE(found.isOk() && expected.isOk());
    if (!found.isOk() || !expected.isOk())
      return {};
    EXPECT_EQ(found->ids, expected->ids);
    EXPECT_EQ(found->finishReason, expected->finishReason);
    // The same drafts, too: the drafter's context was kept as well. Rounds that
    // are chosen depend on more.
    if (!generate.chooseRows)
      EXPECT_EQ(found->acceptLengths, expected->acceptLengths);
    text.insert(text.end(), found->ids.begin(), found->ids.end());
    return *found;
  }

  FakeOptions options;
  Drafter drafter;
  FakePair pair;
  Speculator speculator;
  Tokens text;
};

} // namespace

TEST(Reuse, NextTurnComputesOnlyWhatIsNew) {
  for (unsigned right : {0u, 1u, 2u, 3u})
    for (uint32_t budget : {1u, 2u, 5u, 10u, 11u, 12u}) {
      Conversation talk(right);
      EXPECT_EQ(
          talk.turn({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {.maxNewTokens = budget})
              .reusedTokens,
          0u);
      for (int turn = 0; turn < 4; ++turn) {
        size_t known = talk.text.size();
        // The last token of an answer is in no cache yet.
        EXPECT_EQ(
            talk.turn({20, 21, 22}, {.maxNewTokens = budget}).reusedTokens,
            known - 1)
            << right << " right, budget " << budget;
      }
    }
}

TEST(Reuse, StopInsideABlockRollsTheRestBack) {
  for (size_t place = 0; place < 12; ++place) {
    Conversation talk(3);
    Tokens prompt = {1, 2, 3};
    Conversation probe(3);
    uint32_t last = probe.turn(prompt, {.maxNewTokens = 30}).ids[place];
    Ender sink;
    sink.last = last;
    talk.turn(prompt, {.maxNewTokens = 30}, sink);
    size_t known = talk.text.size();
    EXPECT_EQ(talk.turn({50, 51}, {.maxNewTokens = 9}).reusedTokens, known - 1);
  }
}

TEST(Reuse, CancelledTextsGoOn) {
  for (unsigned calls : {1u, 2u, 3u, 4u, 5u}) {
    Conversation talk(2);
    Ender sink;
    sink.callsUntilCancel = calls;
    Tokens prompt(20);
    for (uint32_t index = 0; index < 20; ++index)
      prompt[index] = index;
    talk.turn(prompt, {.maxNewTokens = 30}, sink);
    EXPECT_GT(talk.turn({50, 51}, {.maxNewTokens = 9}).reusedTokens, 0u);
  }
}

TEST(Reuse, PlainAndDraftedTurnsMix) {
  Conversation talk(2);
  talk.turn({1, 2, 3}, {.maxNewTokens = 9});
  // A plain turn needs the target's caches only.
  EXPECT_GT(
      talk.turn({4}, {.maxNewTokens = 9, .useDrafter = false}).reusedTokens,
      0u);
  // The drafter has not seen that turn.
  EXPECT_EQ(talk.turn({5}, {.maxNewTokens = 9}).reusedTokens, 0u);
  EXPECT_GT(talk.turn({6}, {.maxNewTokens = 9}).reusedTokens, 0u);
}

TEST(Reuse, RoundsWithoutADraftLeaveTheirFeatures) {
  for (uint32_t budget : {2u, 7u, 8u, 30u, 31u}) {
    Conversation talk(0);
    talk.pair.programSeconds["draft"] = 1;
    talk.turn({1, 2, 3}, {.maxNewTokens = budget, .chooseRows = true});
    // This turn drafts at once, so the drafter has to know all of the last one.
    size_t known = talk.text.size();
    EXPECT_EQ(talk.turn({4, 5}, {.maxNewTokens = 9}).reusedTokens, known - 1);
    talk.turn({6}, {.maxNewTokens = budget, .chooseRows = true});
    talk.turn({7}, {.maxNewTokens = budget, .chooseRows = true});
  }
}

TEST(Reuse, OtherPromptsStartFromNothing) {
  Conversation talk(2);
  talk.turn({1, 2, 3, 4}, {.maxNewTokens = 9});
  talk.text = {1, 2, 3, 5};
  EXPECT_EQ(talk.turn({7}, {.maxNewTokens = 9}).reusedTokens, 0u);
  // The very same prompt, too: its last token has to be computed.
  talk.text.resize(5);
  EXPECT_EQ(talk.turn({}, {.maxNewTokens = 9}).reusedTokens, 0u);
}

TEST(Reuse, NothingIsKeptAfterAFailure) {
  Conversation talk(2);
  talk.turn({1, 2, 3, 4}, {.maxNewTokens = 9});
  Tokens text = talk.text;
  text.push_back(3);
  talk.pair.failingProgram = "verify";
  Ender sink;
  EXPECT_FALSE(
      talk.speculator.generate(text, {.reusePrefix = true}, sink).isOk());
  talk.pair.failingProgram = "";
  EXPECT_EQ(talk.turn({3}, {.maxNewTokens = 9}).reusedTokens, 0u);
}
