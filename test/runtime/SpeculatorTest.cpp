//===- SpeculatorTest.cpp - The loop, with fake programs ------------------===//

#include "runtime/Speculator.h"
#include "test/runtime/FakePair.h"

#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace tandem;
using namespace tandem::test;

namespace {

uint32_t alwaysRight(unsigned, uint32_t right) { return right; }
uint32_t alwaysWrong(unsigned, uint32_t right) { return (right + 1) % 90; }

/// Collects what the loop gives, and may end or cancel the text.
class Collector final : public TokenSink {
public:
  Tokens tokens;
  unsigned calls = 0;
  std::optional<uint32_t> last;
  unsigned callsUntilCancel = ~0u;

  bool token(uint32_t id) override {
    tokens.push_back(id);
    return id != last;
  }
  bool keepGoing() override { return ++calls < callsUntilCancel; }
};

Tokens someTokens(size_t count) {
  Tokens tokens(count);
  for (size_t index = 0; index < count; ++index)
    tokens[index] = uint32_t(index * 7 % 90);
  return tokens;
}

/// What the target says \p count times in a row.
Tokens continuation(const Target &target, Tokens tokens, size_t count) {
  Tokens result;
  while (result.size() < count) {
    result.push_back(target(tokens));
    tokens.push_back(result.back());
  }
  return result;
}

StatusOr<Generation> generate(FakePair &pair, const Tokens &prompt,
                              const GenerateOptions &options, Collector &sink) {
  auto speculator = Speculator::create(pair.artifact(), pair);
  EXPECT_TRUE(speculator.isOk());
  return speculator->generate(prompt, options, sink);
}

/// Generates and expects success.
Generation write(FakePair &pair, const Tokens &prompt, uint32_t newTokens,
                 bool useDrafter = true) {
  Collector sink;
  auto result =
      generate(pair, prompt,
               {.maxNewTokens = newTokens, .useDrafter = useDrafter}, sink);
  EXPECT_TRUE(result.isOk()) << result.status().message();
  if (!result.isOk())
    return {};
  return *result;
}

} // namespace

TEST(Speculator, RightDrafterEmitsWholeBlocks) { // P3.08, P4.03
  FakePair pair({}, hashTarget, alwaysRight);
  Generation result = write(pair, someTokens(5), 13);
  EXPECT_EQ(result.ids, continuation(hashTarget, someTokens(5), 13));
  EXPECT_EQ(result.acceptLengths, (Tokens{4, 4, 4}));
  EXPECT_EQ(result.finishReason, FinishReason::Length);
  EXPECT_EQ(result.meanAcceptLength(), 4);
}

TEST(Speculator, ForcedRoundsAcceptWhatTheyAreTold) {
  for (uint32_t count : {1u, 3u, 4u, 9u}) {
    FakePair pair({}, hashTarget, alwaysWrong);
    Collector sink;
    auto result =
        generate(pair, someTokens(5),
                 {.maxNewTokens = 25, .forcedAcceptLength = count}, sink);
    ASSERT_TRUE(result.isOk()) << result.status().message();
    for (size_t round = 0; round + 1 < result->acceptLengths.size(); ++round)
      EXPECT_EQ(result->acceptLengths[round], std::min(count, 4u));
  }
}

TEST(Speculator, WrongDrafterEmitsOneTokenARound) { // P4.03
  FakePair pair({}, hashTarget, alwaysWrong);
  Generation result = write(pair, someTokens(5), 6);
  EXPECT_EQ(result.ids, continuation(hashTarget, someTokens(5), 6));
  EXPECT_EQ(result.acceptLengths, (Tokens{1, 1, 1, 1, 1}));
}

TEST(Speculator, DrafterRightForSomeSlotsEmitsThemAndOneMore) { // P4.03
  FakePair pair({}, hashTarget, rightFor(2));
  Generation result = write(pair, someTokens(5), 10);
  EXPECT_EQ(result.ids, continuation(hashTarget, someTokens(5), 10));
  EXPECT_EQ(result.acceptLengths, (Tokens{3, 3, 3}));
}

TEST(Speculator, PlainDecodingNeverRunsTheDrafter) {
  FakePair pair({}, hashTarget, alwaysRight);
  Generation result = write(pair, someTokens(20), 9, /*useDrafter=*/false);
  EXPECT_EQ(result.ids, continuation(hashTarget, someTokens(20), 9));
  EXPECT_TRUE(result.acceptLengths.empty());
  EXPECT_EQ(result.meanAcceptLength(), 1);
  EXPECT_EQ(pair.runs["step"], 8u);
  EXPECT_EQ(pair.runs["context"] + pair.runs["draft"] + pair.runs["verify"],
            0u);
}

TEST(Speculator, PairWithoutDrafterDecodesPlainly) {
  FakePair pair({.loop = {}, .drafter = false}, hashTarget, alwaysRight);
  Generation result = write(pair, someTokens(3), 7);
  EXPECT_EQ(result.ids, continuation(hashTarget, someTokens(3), 7));
  EXPECT_TRUE(result.acceptLengths.empty());
}

// Whatever the drafter says, the ids are those of the target alone.
TEST(Speculator, AnyDrafterBlockAndPromptLengthGivesTheSameIds) { // P3.17
  std::mt19937 random(1);
  for (uint32_t block : {1u, 2u, 3u, 7u, 16u})
    for (size_t length : {1, 2, 7, 8, 9, 16, 40}) {
      Drafter sometimes = [&](unsigned, uint32_t right) {
        return random() % 3 ? right : uint32_t(random() % 90);
      };
      FakePair pair({.loop = {.block = block}}, hashTarget, sometimes);
      Generation result = write(pair, someTokens(length), 24);
      EXPECT_EQ(result.ids, continuation(hashTarget, someTokens(length), 24))
          << "block " << block << ", prompt " << length;
      EXPECT_EQ(1 + std::accumulate(result.acceptLengths.begin(),
                                    result.acceptLengths.end(), 0u),
                24u);
    }
}

TEST(Speculator, BudgetIsNeverOvershotInsideABlock) {
  for (uint32_t budget = 1; budget < 12; ++budget) {
    FakePair pair({}, hashTarget, alwaysRight);
    Generation result = write(pair, someTokens(4), budget);
    EXPECT_EQ(result.ids, continuation(hashTarget, someTokens(4), budget));
    EXPECT_EQ(result.finishReason, FinishReason::Length);
  }
}

TEST(Speculator, FirstTokenComesFromThePrefillAlone) {
  FakePair pair({}, hashTarget, alwaysRight);
  EXPECT_EQ(write(pair, someTokens(4), 1).acceptLengths, Tokens());
  EXPECT_EQ(pair.runs["draft"], 0u);
}

TEST(Speculator, StopTokenInsideABlockEndsTheTextRightBehindIt) { // P3.17
  Tokens expected = continuation(hashTarget, someTokens(5), 40);
  // Every place of a stop token in the first blocks; the token must not be in
  // the text before.
  for (size_t place = 0; place < 12; ++place) {
    uint32_t stop = expected[place];
    size_t first = size_t(std::find(expected.begin(), expected.end(), stop) -
                          expected.begin());
    LoopSpec loop = {.block = 4, .stopTokens = {99, stop}};
    FakePair pair({.loop = loop}, hashTarget, alwaysRight);
    Collector sink;
    auto result = generate(pair, someTokens(5), {.maxNewTokens = 40}, sink);
    ASSERT_TRUE(result.isOk());
    EXPECT_EQ(result->finishReason, FinishReason::Stop);
    EXPECT_EQ(result->ids,
              Tokens(expected.begin(), expected.begin() + first + 1));
    // The stop token is an id of the answer but not a part of its text.
    EXPECT_EQ(sink.tokens, Tokens(expected.begin(), expected.begin() + first));
    EXPECT_EQ(1 + std::accumulate(result->acceptLengths.begin(),
                                  result->acceptLengths.end(), size_t(0)),
              result->ids.size());
  }
}

TEST(Speculator, IgnoredStopTokensAreTokensLikeAllOthers) {
  Tokens expected = continuation(hashTarget, someTokens(5), 20);
  LoopSpec loop = {.block = 4, .stopTokens = {expected[6]}};
  FakePair pair({.loop = loop}, hashTarget, alwaysRight);
  Collector sink;
  auto result = generate(pair, someTokens(5),
                         {.maxNewTokens = 20, .ignoreStopTokens = true}, sink);
  ASSERT_TRUE(result.isOk());
  EXPECT_EQ(result->ids, expected);
  EXPECT_EQ(sink.tokens, expected);
}

TEST(Speculator, SinkEndsTheTextInsideABlock) { // P3.14
  Tokens expected = continuation(hashTarget, someTokens(5), 20);
  FakePair pair({}, hashTarget, alwaysRight);
  Collector sink;
  sink.last = expected[6];
  auto result = generate(pair, someTokens(5), {.maxNewTokens = 20}, sink);
  ASSERT_TRUE(result.isOk());
  EXPECT_EQ(result->finishReason, FinishReason::Stop);
  EXPECT_EQ(result->ids, Tokens(expected.begin(), expected.begin() + 7));
}

TEST(Speculator, CancelledWithinOneRound) {
  FakePair pair({}, hashTarget, alwaysRight);
  Collector sink;
  sink.callsUntilCancel = 3;
  auto result = generate(pair, someTokens(5), {.maxNewTokens = 40}, sink);
  ASSERT_TRUE(result.isOk());
  EXPECT_EQ(result->finishReason, FinishReason::Cancelled);
  EXPECT_EQ(result->ids.size(), 9u);
}

/// The programs of \p pair that read prompts, as often as they ran.
static std::string prefillsOf(FakePair &pair) {
  std::string text;
  for (const char *name : {"prefill", "prefill_logits", "short_prefill",
                           "short_prefill_logits", "context", "short_context"})
    if (unsigned runs = pair.runs[name])
      text += concat(text.empty() ? "" : ", ", runs, " ", name);
  return text;
}

TEST(Speculator, ShortPromptsHaveProgramsOfTheirOwn) {
  struct Case {
    size_t tokens;
    const char *drafted, *plain, *sampled;
  };
  // What is left of a long prompt may be short, too.
  const Case cases[] = {
      {1, "1 short_prefill, 1 short_context", "1 short_prefill",
       "1 short_prefill_logits"},
      {63, "1 short_prefill, 1 short_context", "1 short_prefill",
       "1 short_prefill_logits"},
      {64, "1 short_prefill, 1 short_context", "1 short_prefill",
       "1 short_prefill_logits"},
      {65, "1 prefill, 1 context", "1 prefill", "1 prefill_logits"},
      {128, "1 prefill, 1 context", "1 prefill", "1 prefill_logits"},
      {129, "1 prefill, 1 context", "1 prefill", "1 prefill_logits"},
      {2048, "1 prefill, 1 context", "1 prefill", "1 prefill_logits"},
      {2049, "1 prefill, 1 short_prefill, 1 context, 1 short_context",
       "1 prefill, 1 short_prefill", "1 prefill, 1 short_prefill_logits"},
      {2112, "1 prefill, 1 short_prefill, 1 context, 1 short_context",
       "1 prefill, 1 short_prefill", "1 prefill, 1 short_prefill_logits"},
      {2113, "2 prefill, 2 context", "2 prefill",
       "1 prefill, 1 prefill_logits"}};
  LoopSpec loop = {
      .block = 4, .chunk = 2048, .maxContext = 3000, .shortChunk = 64};
  for (const Case &test : cases) {
    SCOPED_TRACE(test.tokens);
    Tokens expected = continuation(hashTarget, someTokens(test.tokens), 9);
    for (bool useDrafter : {true, false}) {
      FakePair pair({.loop = loop}, hashTarget, alwaysRight);
      EXPECT_EQ(write(pair, someTokens(test.tokens), 9, useDrafter).ids,
                expected);
      EXPECT_EQ(prefillsOf(pair), useDrafter ? test.drafted : test.plain);
    }
    FakePair pair({.loop = loop}, hashTarget, alwaysRight);
    Collector sink;
    auto result =
        generate(pair, someTokens(test.tokens),
                 {.maxNewTokens = 9, .useDrafter = false, .logprobs = 0}, sink);
    ASSERT_TRUE(result.isOk());
    EXPECT_EQ(result->ids, expected);
    EXPECT_EQ(prefillsOf(pair), test.sampled);
  }
}

TEST(Speculator, CancelledBetweenPrefillChunks) {
  FakePair pair({}, hashTarget, alwaysRight);
  Collector sink;
  sink.callsUntilCancel = 2;
  auto result = generate(pair, someTokens(40), {.maxNewTokens = 4}, sink);
  ASSERT_TRUE(result.isOk());
  EXPECT_EQ(result->finishReason, FinishReason::Cancelled);
  EXPECT_TRUE(result->ids.empty());
  EXPECT_EQ(pair.runs["prefill"], 2u);
}

TEST(Speculator, EndOfTheContextEndsTheText) {
  for (size_t length : {56, 61, 62, 63})
    for (bool useDrafter : {true, false}) {
      FakePair pair({}, hashTarget, alwaysRight);
      Generation result = write(pair, someTokens(length), 1000, useDrafter);
      EXPECT_EQ(result.ids,
                continuation(hashTarget, someTokens(length), 64 - length));
      EXPECT_EQ(result.finishReason, FinishReason::Length);
    }
}

TEST(Speculator, PromptThatLeavesNoRoomIsAnErrorWithBothCounts) {
  FakePair pair({}, hashTarget, alwaysRight);
  for (size_t length : {64, 65, 640}) {
    Collector sink;
    auto result = generate(pair, someTokens(length), {}, sink);
    ASSERT_FALSE(result.isOk());
    EXPECT_EQ(result.status().code(), StatusCode::InvalidArgument);
    EXPECT_EQ(result.status().message(),
              concat("the prompt has ", length,
                     " tokens, prompt and answer together can have 64"));
  }
}

TEST(Speculator, EmptyPromptIsAnError) {
  FakePair pair({}, hashTarget, alwaysRight);
  Collector sink;
  auto result = generate(pair, {}, {}, sink);
  ASSERT_FALSE(result.isOk());
  EXPECT_EQ(result.status().message(),
            "the prompt is empty: at least one token is needed");
}

TEST(Speculator, IdsOutsideTheVocabularyAreAnError) {
  FakePair pair({}, hashTarget, alwaysRight);
  Collector sink;
  auto result = generate(pair, {1, 2, 100}, {}, sink);
  ASSERT_FALSE(result.isOk());
  EXPECT_EQ(result.status().message(),
            "the prompt: token 100 at index 2 is out of range (100 tokens)");
}

TEST(Speculator, OneTextAfterAnotherStartsFromNothing) { // P2.08
  FakePair pair({}, hashTarget, rightFor(1));
  auto speculator = Speculator::create(pair.artifact(), pair);
  ASSERT_TRUE(speculator.isOk());
  for (size_t length : {30, 3, 11}) {
    Collector sink;
    auto result =
        speculator->generate(someTokens(length), {.maxNewTokens = 10}, sink);
    ASSERT_TRUE(result.isOk());
    EXPECT_EQ(result->ids, continuation(hashTarget, someTokens(length), 10));
  }
}

TEST(Speculator, LogitsThatAreNotNumbersAreAnError) { // P5.05
  // A kernel that finds no largest logit says -1.
  Target broken = [](std::span<const uint32_t> tokens) {
    return tokens.size() < 9 ? 7 : ~0u;
  };
  for (bool useDrafter : {true, false}) {
    FakePair pair({}, broken, alwaysWrong);
    Collector sink;
    auto result =
        generate(pair, someTokens(5), {.useDrafter = useDrafter}, sink);
    ASSERT_FALSE(result.isOk());
    EXPECT_EQ(result.status().message(),
              "no token at position 9: the target's logits are not finite "
              "there (got -1)");
  }
}

TEST(Speculator, FailureOfAProgramEndsTheText) {
  for (const char *program : {"prefill", "context", "draft", "accept"}) {
    FakePair pair({}, hashTarget, alwaysRight);
    pair.failingProgram = program;
    Collector sink;
    auto result = generate(pair, someTokens(5), {}, sink);
    ASSERT_FALSE(result.isOk());
    EXPECT_EQ(result.status().message(), "the device is gone");
  }
}

TEST(Speculator, SingleFunctionCannotWriteText) {
  FakePair pair({}, hashTarget, alwaysRight);
  ArtifactSpec spec;
  FileBytes file = spec.write();
  auto artifact = Artifact::view(file.bytes());
  ASSERT_TRUE(artifact.isOk()) << artifact.status().message();
  EXPECT_FALSE(Speculator::create(*artifact, pair).isOk());
}

//===----------------------------------------------------------------------===//
// Rows that are chosen round by round
//===----------------------------------------------------------------------===//

namespace {

/// Writes with chosen rows; a draft takes \p draftSeconds steps.
Generation writeChosen(FakePair &pair, const Tokens &prompt, uint32_t newTokens,
                       double draftSeconds, GenerateOptions options = {}) {
  pair.programSeconds["draft"] = draftSeconds;
  pair.rowSeconds = 0.1;
  auto speculator = Speculator::create(pair.artifact(), pair,
                                       [&pair] { return pair.seconds; });
  EXPECT_TRUE(speculator.isOk());
  options.maxNewTokens = newTokens;
  options.chooseRows = true;
  Collector sink;
  auto result = speculator->generate(prompt, options, sink);
  EXPECT_TRUE(result.isOk()) << result.status().message();
  return result.isOk() ? *result : Generation();
}

} // namespace

TEST(ChosenRows, RoundsOfOneRowHaveNoDraft) {
  Generation text;
  EXPECT_EQ(text.draftedShare(), 0);
  text.acceptLengths = {1, 1, 2, 3};
  EXPECT_EQ(text.draftedShare(), 1);
  text.roundRows = {1, 4, 2, 1};
  EXPECT_EQ(text.draftedShare(), 0);
  text.drafts = 2;
  EXPECT_EQ(text.draftedShare(), 0.5);
}

TEST(ChosenRows, DraftsThatAreRightFillWholeBlocks) {
  FakePair pair({.loop = {.block = 16, .maxContext = 512}}, hashTarget,
                alwaysRight);
  Generation result = writeChosen(pair, someTokens(5), 200, 0.5);
  EXPECT_EQ(result.ids, continuation(hashTarget, someTokens(5), 200));
  EXPECT_EQ(result.roundRows.size(), result.acceptLengths.size());
  EXPECT_GT(std::count(result.roundRows.begin(), result.roundRows.end(), 16u),
            4);
  EXPECT_LT(pair.seconds, 200 / 3);
}

TEST(ChosenRows, MeasuringComesBeforeATextAndChangesNone) {
  FakePair pair({.loop = {.block = 16, .maxContext = 512}}, hashTarget,
                alwaysRight);
  pair.programSeconds["draft"] = 0.0005;
  pair.programSeconds["step"] = 0.001;
  pair.programSeconds["verify"] = 0.001;
  auto speculator = Speculator::create(pair.artifact(), pair,
                                       [&pair] { return pair.seconds; });
  ASSERT_TRUE(speculator.isOk());
  ASSERT_TRUE(speculator->measureRounds().isOk());
  EXPECT_EQ(pair.runs["draft"], 3u);
  // No longer than it may take.
  EXPECT_LT(pair.seconds, 0.02);
  Collector sink;
  auto result = speculator->generate(
      someTokens(5), {.maxNewTokens = 100, .chooseRows = true}, sink);
  ASSERT_TRUE(result.isOk()) << result.status().message();
  EXPECT_EQ(result->ids, continuation(hashTarget, someTokens(5), 100));
  // The first round knows what it costs.
  EXPECT_GT(result->roundRows.front(), 1u);

  FakePair slow({.loop = {.block = 16, .maxContext = 512}}, hashTarget,
                alwaysRight);
  auto patient = Speculator::create(slow.artifact(), slow,
                                    [&slow] { return slow.seconds; });
  ASSERT_TRUE(patient->measureRounds().isOk());
  EXPECT_EQ(slow.seconds, 1);
}

TEST(ChosenRows, BlocksAreVerifiedInParts) {
  FakePair pair({.loop = {.block = 16, .maxContext = 512}}, hashTarget,
                rightFor(11));
  pair.programSeconds["draft"] = 0.5;
  // Many rows cost much more than few.
  Generation result = writeChosen(pair, someTokens(5), 200, 3.0);
  EXPECT_EQ(result.ids, continuation(hashTarget, someTokens(5), 200));
  auto verified =
      std::count_if(result.roundRows.begin(), result.roundRows.end(),
                    [](uint32_t rows) { return rows > 1; });
  EXPECT_GT(verified, result.drafts);
  EXPECT_EQ(pair.runs["draft"], result.drafts);
}

TEST(ChosenRows, DrafterThatIsNeverRightCostsAlmostNothing) {
  for (double draftSeconds : {0.3, 1.0, 3.0}) {
    FakePair pair({.loop = {.block = 16, .maxContext = 512}}, hashTarget,
                  alwaysWrong);
    Generation result = writeChosen(pair, someTokens(5), 300, draftSeconds);
    EXPECT_EQ(result.ids, continuation(hashTarget, someTokens(5), 300));
    EXPECT_LE(pair.seconds, 300 * 1.05) << draftSeconds;
  }
}

TEST(ChosenRows, DrafterThatGetsBetterIsFoundOut) {
  unsigned rounds = 0;
  Drafter later = [&](unsigned slot, uint32_t right) {
    rounds += slot == 1;
    return rounds > 4 ? right : (right + 1) % 90;
  };
  // More rows without a draft than a chunk of the context has.
  FakePair pair({.loop = {.block = 8, .maxContext = 1024}}, hashTarget, later);
  Generation result = writeChosen(pair, someTokens(11), 900, 0.5);
  EXPECT_EQ(result.ids, continuation(hashTarget, someTokens(11), 900));
  EXPECT_EQ(
      std::count(result.roundRows.end() - 11, result.roundRows.end() - 1, 1u),
      0);
  EXPECT_GT(std::count(result.roundRows.begin(), result.roundRows.end(), 1u),
            8);
  EXPECT_GT(pair.runs["context"], 1u);
}

TEST(ChosenRows, IdsNeverDependOnTheRows) {
  std::mt19937 random(2);
  for (uint32_t block : {1u, 2u, 3u, 7u, 16u})
    for (double draftSeconds : {0.0, 0.4, 2.0}) {
      Drafter sometimes = [&](unsigned, uint32_t right) {
        return random() % 3 ? right : uint32_t(random() % 90);
      };
      FakePair pair({.loop = {.block = block, .maxContext = 128}}, hashTarget,
                    sometimes);
      Generation result = writeChosen(pair, someTokens(9), 100, draftSeconds);
      EXPECT_EQ(result.ids, continuation(hashTarget, someTokens(9), 100));
      for (uint32_t rows : result.roundRows)
        EXPECT_LE(rows, block);
    }
}

TEST(ChosenRows, SampledTextsAreTheSame) {
  for (DraftChoice drafts :
       {DraftChoice::Likeliest, DraftChoice::Shared, DraftChoice::Rejection}) {
    GenerateOptions options;
    options.sampling = SamplingOptions();
    options.sampling->seed = 7;
    options.drafts = drafts;
    FakePair pair({.loop = {.block = 8}}, hashTarget, rightFor(3));
    Generation chosen = writeChosen(pair, someTokens(5), 40, 0.5, options);
    EXPECT_EQ(chosen.roundRows.empty(), drafts == DraftChoice::Rejection);

    FakePair other({.loop = {.block = 8}}, hashTarget, rightFor(3));
    options.maxNewTokens = 40;
    Collector sink;
    auto fixed = generate(other, someTokens(5), options, sink);
    ASSERT_TRUE(fixed.isOk());
    EXPECT_EQ(chosen.ids, fixed->ids);
  }
}

TEST(ChosenRows, FixedRowsAreAnyUpToTheBlock) {
  for (uint32_t rows : {1u, 2u, 3u, 4u}) {
    FakePair pair({}, hashTarget, alwaysRight);
    Collector sink;
    auto result = generate(pair, someTokens(5),
                           {.maxNewTokens = 13, .blockRows = rows}, sink);
    ASSERT_TRUE(result.isOk());
    EXPECT_EQ(result->ids, continuation(hashTarget, someTokens(5), 13));
    EXPECT_EQ(result->acceptLengths[0], rows);
  }
  FakePair pair({}, hashTarget, alwaysRight);
  Collector sink;
  auto result = generate(pair, someTokens(5), {.blockRows = 5}, sink);
  EXPECT_EQ(result.status().message(),
            "was compiled for blocks of 4 tokens, 5 were asked for");
}
