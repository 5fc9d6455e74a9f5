//===- ReuseTest.cpp - Texts that go on where the last one ended ----------===//

#include "runtime/Speculator.h"
#include "test/runtime/FakePair.h"

#include <deque>
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

class Ender final : public TokenSink {
public:
  std::optional<uint32_t> last;
  unsigned callsUntilCancel = ~0u, calls = 0;
  bool token(uint32_t id) override { return id != last; }
  bool keepGoing() override { return ++calls < callsUntilCancel; }
};

/// A conversation over one pair, whose answers are all compared with those of a
/// fresh pair.
class Conversation {
public:
  explicit Conversation(unsigned rightDrafts, uint32_t block = 4)
      : options{.loop = {.block = block, .maxContext = 256}, .snapshots = 2},
        drafter(rightFor(rightDrafts)), pair(options, hashTarget, drafter),
        speculator(*Speculator::create(pair.artifact(), pair,
                                       [this] { return pair.seconds; })) {}

  /// The answer to the text so far with \p more behind it.
  Generation turn(const Tokens &more, const GenerateOptions &generate,
                  const Ender &sink = {}) {
    text.insert(text.end(), more.begin(), more.end());
    Generation found = answer(text, generate, sink);
    text.insert(text.end(), found.ids.begin(), found.ids.end());
    return found;
  }

  /// The answer to \p prompt.
  Generation answer(const Tokens &prompt, GenerateOptions generate,
                    Ender sink = {}) {
    FakePair fresh(options, hashTarget, drafter);
    auto cold = Speculator::create(fresh.artifact(), fresh);
    Ender coldSink = sink;
    auto expected = cold->generate(prompt, generate, coldSink);
    generate.reusePrefix = true;
    auto found = speculator.generate(prompt, generate, sink);
    EXPECT_TRUE(found.isOk() && expected.isOk());
    if (!found.isOk() || !expected.isOk())
      return {};
    EXPECT_EQ(found->ids, expected->ids);
    EXPECT_EQ(found->finishReason, expected->finishReason);
    // The same drafts, too: the drafter's context was kept as well. Rounds that
    // are chosen depend on more.
    if (!generate.chooseRows) {
      EXPECT_EQ(found->acceptLengths, expected->acceptLengths);
    }
    return *found;
  }

  FakeOptions options;
  Drafter drafter;
  FakePair pair;
  Speculator speculator;
  Tokens text;
};

} // namespace

TEST(Reuse, NextTurnComputesOnlyWhatIsNew) { // P2.04, P3.15
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

TEST(Reuse, StopInsideABlockRollsTheRestBack) { // P2.10
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

TEST(Reuse, CancelledTextsGoOn) { // P2.08
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

TEST(Reuse, PlainAndDraftedTurnsMix) { // P2.03
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

TEST(Reuse, OtherPromptsStartFromNothing) { // P2.04
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

//===----------------------------------------------------------------------===//
// Snapshots
//===----------------------------------------------------------------------===//

namespace {

Tokens join(std::initializer_list<Tokens> parts) {
  Tokens all;
  for (const Tokens &part : parts)
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// \p count tokens that \p first decides.
Tokens countFrom(uint32_t first, size_t count) {
  Tokens tokens(count);
  for (size_t index = 0; index < count; ++index)
    tokens[index] = uint32_t((first + index * 7) % 90);
  return tokens;
}

/// Turns whose answers begin with thoughts, which the next prompt leaves out.
class ThinkingChat {
public:
  static constexpr size_t thoughts = 4;

  ThinkingChat(unsigned rightDrafts, GenerateOptions generate)
      : talk(rightDrafts), generate(std::move(generate)) {}

  Generation ask(const Tokens &question) {
    history = join({history, question});
    questionEnds.push_back(history.size());
    generate.leavesAt = uint32_t(history.size());
    Generation found = talk.answer(join({history, {80, 81, 82}}), generate);
    auto begin = found.ids.begin() + std::min(thoughts, found.ids.size());
    history = join({history, {80, 81}, Tokens(begin, found.ids.end()), {83}});
    return found;
  }

  Conversation talk;
  GenerateOptions generate;
  Tokens history;
  /// Tokens up to the end of every question. An end stays where it is when
  /// another one comes, which may be asked for in the same expression.
  std::deque<size_t> questionEnds;
};

} // namespace

TEST(Snapshots, TurnsGoOnBehindTheLastQuestion) {
  for (unsigned right : {0u, 1u, 3u})
    for (uint32_t budget : {2u, 7u, 11u, 12u})
      for (bool chooses : {false, true})
        for (bool samples : {false, true}) {
          GenerateOptions generate = {.maxNewTokens = budget,
                                      .chooseRows = chooses};
          if (samples)
            generate.sampling.emplace().seed = 7;
          ThinkingChat chat(right, generate);
          chat.ask(countFrom(1, 20));
          for (uint32_t turn = 1; turn < 5; ++turn)
            EXPECT_EQ(chat.ask(countFrom(turn, 9)).reusedTokens,
                      chat.questionEnds[turn - 1])
                << right << " right, budget " << budget;
        }
}

TEST(Snapshots, AQuestionCanBeAskedAgainAndChanged) {
  ThinkingChat chat(2, {.maxNewTokens = 20});
  chat.ask(countFrom(1, 20));
  chat.ask(countFrom(2, 20));
  Tokens before = chat.history;
  chat.ask(countFrom(3, 20));
  // Another answer to the same question.
  chat.history = join({before, countFrom(3, 20)});
  EXPECT_EQ(chat.ask({}).reusedTokens, chat.questionEnds[2]);
  // Another question: back to the one before.
  chat.history = before;
  EXPECT_EQ(chat.ask(countFrom(4, 20)).reusedTokens, chat.questionEnds[1]);
  // Nobody remembers the first one.
  chat.history = Tokens(before.begin(), before.begin() + 30);
  EXPECT_EQ(chat.ask(countFrom(5, 20)).reusedTokens, 0u);
}

TEST(Snapshots, WhatTwoPromptsShareIsKeptForTheThird) {
  Conversation talk(2);
  Tokens shared = countFrom(1, 50);
  auto ask = [&](uint32_t question) {
    return talk
        .answer(join({shared, countFrom(question, 20)}),
                {.maxNewTokens = 9, .leavesAt = 70})
        .reusedTokens;
  };
  EXPECT_EQ(ask(2), 0u);
  EXPECT_EQ(ask(3), 0u);
  for (uint32_t question = 4; question < 9; ++question)
    EXPECT_EQ(ask(question), 50u);
  EXPECT_EQ(talk.pair.saves,
            (std::vector<size_t>{70, 50, 70, 70, 70, 70, 70, 70}));
  // A little is not worth it.
  shared = countFrom(30, 31);
  ask(2);
  ask(3);
  EXPECT_EQ(ask(4), 0u);
}

TEST(Snapshots, TheDrafterHasToKnowThemToo) {
  ThinkingChat chat(2, {.maxNewTokens = 9});
  chat.ask(countFrom(1, 20));
  chat.generate.useDrafter = false;
  EXPECT_EQ(chat.ask(countFrom(2, 9)).reusedTokens, chat.questionEnds[0]);
  EXPECT_EQ(chat.ask(countFrom(3, 9)).reusedTokens, chat.questionEnds[1]);
  // It has not seen these turns.
  chat.generate.useDrafter = true;
  EXPECT_EQ(chat.ask(countFrom(4, 9)).reusedTokens, 0u);
  EXPECT_EQ(chat.ask(countFrom(5, 9)).reusedTokens, chat.questionEnds[3]);
}

TEST(Snapshots, PlacesBehindThePromptAreIgnored) {
  Conversation talk(2);
  talk.answer(countFrom(1, 20), {.maxNewTokens = 9, .leavesAt = 21});
  EXPECT_TRUE(talk.pair.saves.empty());
  talk.answer(countFrom(2, 20), {.maxNewTokens = 9, .leavesAt = 20});
  EXPECT_EQ(talk.pair.saves, std::vector<size_t>{20});
  EXPECT_EQ(talk.answer(countFrom(2, 30), {.maxNewTokens = 9}).reusedTokens,
            20u);
}

TEST(Snapshots, CancelledPromptsKeepWhatIsSound) {
  for (unsigned calls = 1; calls < 9; ++calls) {
    ThinkingChat chat(2, {.maxNewTokens = 9});
    chat.ask(countFrom(1, 20));
    // With fewer chunks than a fresh pair has, so it ends elsewhere.
    Tokens prompt = join({chat.history, countFrom(3, 30)});
    Ender sink;
    sink.callsUntilCancel = calls;
    ASSERT_TRUE(chat.talk.speculator
                    .generate(prompt,
                              {.maxNewTokens = 9,
                               .reusePrefix = true,
                               .leavesAt = uint32_t(prompt.size() - 5)},
                              sink)
                    .isOk());
    EXPECT_GE(chat.ask(countFrom(4, 9)).reusedTokens, chat.questionEnds[0]);
  }
}

TEST(Snapshots, NoneIsOfTokensThatAreGone) {
  Conversation talk(2);
  Tokens first = countFrom(1, 40);
  auto upTo = [](const Tokens &tokens, size_t count) {
    return Tokens(tokens.begin(), tokens.begin() + ptrdiff_t(count));
  };
  GenerateOptions drafted = {.maxNewTokens = 5, .leavesAt = 10};
  talk.answer(first, drafted);
  // The drafter does not know the snapshot behind 30 tokens.
  GenerateOptions plain = {
      .maxNewTokens = 5, .useDrafter = false, .leavesAt = 30};
  talk.answer(join({upTo(first, 30), countFrom(2, 9)}), plain);
  // So this one goes back to the first one, and ends between the two.
  Ender sink;
  sink.callsUntilCancel = 1;
  drafted.leavesAt.reset();
  talk.answer(join({upTo(first, 30), countFrom(3, 9)}), drafted, sink);
  EXPECT_EQ(talk.pair.restores, (std::vector<size_t>{10, 10}));
  // Other tokens stand there now.
  plain.leavesAt.reset();
  Tokens other = join({upTo(first, 18), countFrom(4, 30)});
  EXPECT_EQ(talk.answer(other, plain).reusedTokens, 18u);
  EXPECT_EQ(
      talk.answer(join({upTo(other, 40), countFrom(5, 9)}), plain).reusedTokens,
      10u);
}

TEST(Snapshots, NoneOutlivesAFailureOrAnotherText) {
  ThinkingChat chat(2, {.maxNewTokens = 9});
  auto fail = [&](const char *program) {
    chat.talk.pair.failingProgram = program;
    Ender sink;
    EXPECT_FALSE(
        chat.talk.speculator.generate(chat.history, {.reusePrefix = true}, sink)
            .isOk());
    chat.talk.pair.failingProgram = "";
  };
  chat.ask(countFrom(1, 20));
  fail("verify");
  EXPECT_EQ(chat.ask(countFrom(2, 9)).reusedTokens, 0u);
  // One that does not reuse anything overwrites the rows.
  NullSink sink;
  ASSERT_TRUE(chat.talk.speculator.generate(countFrom(5, 60), {}, sink).isOk());
  EXPECT_EQ(chat.ask(countFrom(3, 9)).reusedTokens, 0u);
}

TEST(Snapshots, DevicesWithoutAnyAreNotAskedForThem) {
  FakeOptions options = {.loop = {.block = 4, .maxContext = 256}};
  FakePair pair(options, hashTarget, rightFor(2));
  auto speculator = Speculator::create(pair.artifact(), pair);
  NullSink sink;
  for (uint32_t turn = 0; turn < 3; ++turn) {
    pair.runs.clear();
    auto found = speculator->generate(
        countFrom(1, 24),
        {.maxNewTokens = 9, .reusePrefix = true, .leavesAt = 20}, sink);
    ASSERT_TRUE(found.isOk()) << found.status().message();
    EXPECT_EQ(found->reusedTokens, 0u);
    // Chunks of 8: none of them is cut.
    EXPECT_EQ(pair.runs["prefill"], 3u);
  }
}
