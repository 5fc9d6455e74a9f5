//===- SamplerTest.cpp - Tokens from logits -------------------------------===//

#include "runtime/Sampler.h"
#include "runtime/Logprobs.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace tandem;

namespace {

using Row = std::vector<float>;

/// The probabilities that \p options leave of \p row, behind a text.
Row probabilities(const SamplingOptions &options, const Row &row,
                  const std::vector<uint32_t> &prompt = {},
                  const std::vector<uint32_t> &answer = {}) {
  Sampler sampler(options, uint32_t(row.size()));
  sampler.start(prompt);
  for (uint32_t token : answer)
    sampler.push(token);
  Row result(row.size());
  Status status = sampler.distribution(row, 0, result);
  EXPECT_TRUE(status.isOk()) << status.message();
  return result;
}

uint32_t sampleOne(const SamplingOptions &options, const Row &row,
                   uint64_t position = 0) {
  Sampler sampler(options, uint32_t(row.size()));
  auto token = sampler.sample(row, position);
  EXPECT_TRUE(token.isOk());
  return token.isOk() ? *token : ~0u;
}

/// Logits of the given probabilities, shifted, since no shift may matter.
Row logitsOf(const Row &probabilities) {
  Row row;
  for (float probability : probabilities)
    row.push_back(std::log(probability) + 3);
  return row;
}

void expectNear(const Row &found, const Row &expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t index = 0; index < found.size(); ++index)
    EXPECT_NEAR(found[index], expected[index], 1e-6) << "token " << index;
}

const Row fourTokens = logitsOf({0.4f, 0.1f, 0.3f, 0.2f});

} // namespace

// The vectors of the authors' implementation.
TEST(CounterRandom, PhiloxGivesThePublishedNumbers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c,
                                     0x9b00dbd8}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420,
                                     0x24126ea1}));
}

TEST(CounterRandom, NumbersDependOnNothingThatWasAskedBefore) { // P4.07
  PositionRandom forward(7, 3, RandomUse::Target);
  PositionRandom backward(7, 3, RandomUse::Target);
  std::vector<double> numbers;
  for (uint32_t index = 0; index < 9; ++index)
    numbers.push_back(forward.uniform(index));
  for (uint32_t index = 9; index-- > 0;)
    EXPECT_EQ(backward.uniform(index), numbers[index]);
  EXPECT_NE(PositionRandom(7, 4, RandomUse::Target).uniform(0), numbers[0]);
  EXPECT_NE(PositionRandom(8, 3, RandomUse::Target).uniform(0), numbers[0]);
  EXPECT_NE(PositionRandom(7, 3, RandomUse::Draft).uniform(0), numbers[0]);
}

TEST(CounterRandom, NoGumbelNumberIsAboveTheBound) {
  EXPECT_LT(-std::log(-std::log1p(-0x1p-33)), PositionRandom::largestGumbel);
}

TEST(Sampler, UntouchedOptionsAreTheModelsDistribution) {
  expectNear(probabilities({}, fourTokens), {0.4f, 0.1f, 0.3f, 0.2f});
}

TEST(Sampler, TemperatureRaisesToAPower) {
  SamplingOptions options;
  options.temperature = 0.5f;
  float sum = 0.16f + 0.01f + 0.09f + 0.04f;
  expectNear(probabilities(options, fourTokens),
             {0.16f / sum, 0.01f / sum, 0.09f / sum, 0.04f / sum});
}

TEST(Sampler, TemperatureOfNearlyNothingIsTheLikeliest) {
  for (float temperature : {1e-9f, 1e-38f, 1e-45f}) {
    SamplingOptions options;
    options.temperature = temperature;
    expectNear(probabilities(options, fourTokens), {1, 0, 0, 0});
    EXPECT_EQ(sampleOne(options, fourTokens), 0u);
  }
}

TEST(Sampler, TopKKeepsTheLargest) {
  SamplingOptions options;
  options.topK = 2;
  expectNear(probabilities(options, fourTokens),
             {0.4f / 0.7f, 0, 0.3f / 0.7f, 0});
  options.topK = 100;
  expectNear(probabilities(options, fourTokens), {0.4f, 0.1f, 0.3f, 0.2f});
}

TEST(Sampler, TopKTakesTheLowestIdsOfEqualLogits) {
  SamplingOptions options;
  options.topK = 2;
  expectNear(probabilities(options, {1, 1, 1, 1}), {0.5f, 0.5f, 0, 0});
}

TEST(Sampler, TopPKeepsTheTokenThatReachesIt) {
  SamplingOptions options;
  options.topP = 0.39f;
  expectNear(probabilities(options, fourTokens), {1, 0, 0, 0});
  options.topP = 0.69f;
  expectNear(probabilities(options, fourTokens),
             {0.4f / 0.7f, 0, 0.3f / 0.7f, 0});
  options.topP = 0.71f;
  expectNear(probabilities(options, fourTokens),
             {0.4f / 0.9f, 0, 0.3f / 0.9f, 0.2f / 0.9f});
  options.topP = 1e-30f;
  expectNear(probabilities(options, fourTokens), {1, 0, 0, 0});
}

TEST(Sampler, TopPIsOfWhatTopKLeft) {
  SamplingOptions options;
  options.topK = 2;
  // 0.4 / 0.7 = 0.571 of what is left, but 0.4 of all.
  options.topP = 0.5f;
  expectNear(probabilities(options, fourTokens), {1, 0, 0, 0});
}

TEST(Sampler, TopPOfManyTokens) {
  // 1000 equal tokens: exactly the first 700 have 0.7 together, give or take
  // the rounding of the sum.
  SamplingOptions options;
  options.topP = 0.6995f;
  Row result = probabilities(options, Row(1000, 2.0f));
  EXPECT_GT(result[699], 0);
  EXPECT_EQ(result[700], 0);
}

TEST(Sampler, MinPIsAShareOfTheLikeliest) {
  SamplingOptions options;
  options.minP = 0.6f;
  expectNear(probabilities(options, fourTokens),
             {0.4f / 0.7f, 0, 0.3f / 0.7f, 0});
  options.minP = 1;
  expectNear(probabilities(options, fourTokens), {1, 0, 0, 0});
}

TEST(Sampler, RepetitionPenaltyLooksAtPromptAndAnswerOnce) {
  SamplingOptions options;
  options.repetitionPenalty = 2;
  options.temperature = 1;
  Row row = {2, -1, 2, 0.5f};
  Row expected = {1, -2, 2, 0.5f};
  // 0 twice in the prompt and in the answer, 1 in the answer.
  expectNear(probabilities(options, row, {0, 0}, {0, 1}),
             probabilities({}, expected));
}

TEST(Sampler, PresenceAndFrequencyLookAtTheAnswerOnly) {
  SamplingOptions options;
  options.presencePenalty = 0.5f;
  options.frequencyPenalty = 0.25f;
  Row row = {2, -1, 2, 0.5f};
  expectNear(probabilities(options, row, {3}, {0, 2, 0}),
             probabilities({}, {2 - 0.5f - 0.5f, -1, 2 - 0.75f, 0.5f}));
}

TEST(Sampler, BiasComesBeforeThePenalties) {
  SamplingOptions options;
  options.logitBias = {{1, 3.0f}};
  options.repetitionPenalty = 2;
  expectNear(probabilities(options, {2, -1, 2, 0.5f}, {1}),
             probabilities({}, {2, 1, 2, 0.5f}));
}

TEST(Sampler, DraftsThatArePoppedLeaveNoTrace) {
  SamplingOptions options;
  options.presencePenalty = 1;
  options.repetitionPenalty = 1.5f;
  Sampler sampler(options, 4);
  sampler.start(std::vector<uint32_t>{3});
  sampler.push(0);
  for (uint32_t token : {1u, 0u, 2u, 1u})
    sampler.push(token);
  for (int count = 0; count < 4; ++count)
    sampler.pop();
  Row result(4);
  ASSERT_TRUE(sampler.distribution(fourTokens, 0, result).isOk());
  expectNear(result, probabilities(options, fourTokens, {3}, {0}));
  // Another text starts from nothing.
  sampler.start(std::vector<uint32_t>{2});
  ASSERT_TRUE(sampler.distribution(fourTokens, 0, result).isOk());
  expectNear(result, probabilities(options, fourTokens, {2}));
}

TEST(Sampler, LowestIdOfEqualLogitsWhenGreedy) { // P4.06
  SamplingOptions topOne;
  topOne.topK = 1;
  for (const SamplingOptions &options : {SamplingOptions::greedy(), topOne}) {
    EXPECT_EQ(sampleOne(options, {1, 5, 5, -3}), 1u);
    EXPECT_EQ(sampleOne(options, {-0.0f, 0.0f}), 0u);
  }
}

TEST(Sampler, SamplesHaveTheDistribution) {
  SamplingOptions options;
  options.temperature = 0.8f;
  options.topP = 0.95f;
  for (uint32_t topK : {0u, 3u}) {
    options.topK = topK;
    Row expected = probabilities(options, fourTokens);
    Sampler sampler(options, 4);
    std::vector<double> counts(4);
    constexpr int draws = 40000;
    for (int position = 0; position < draws; ++position)
      counts[*sampler.sample(fourTokens, uint64_t(position))] += 1;
    double chiSquare = 0;
    for (size_t token = 0; token < 4; ++token) {
      if (expected[token] == 0) {
        EXPECT_EQ(counts[token], 0);
        continue;
      }
      double mean = expected[token] * draws;
      chiSquare += (counts[token] - mean) * (counts[token] - mean) / mean;
    }
    // 0.999 quantile with three degrees of freedom.
    EXPECT_LT(chiSquare, 16.27);
  }
}

TEST(Sampler, LogitsThatAreNotNumbersAreAnError) { // P5.05
  float nan = std::numeric_limits<float>::quiet_NaN();
  float infinity = std::numeric_limits<float>::infinity();
  for (const Row &row : {Row{nan, 1, 2}, Row{1, nan, 2}, Row{1, 2, nan},
                         Row{1, infinity, 2}, Row(3, -infinity)}) {
    Sampler sampler({}, 3);
    auto token = sampler.sample(row, 12);
    ASSERT_FALSE(token.isOk());
    EXPECT_EQ(token.status().message(),
              "no token at position 12: the target's logits are not finite "
              "there");
  }
}

TEST(Sampler, OptionsOutsideTheirRangeAreAnError) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  auto fails = [](auto change) {
    SamplingOptions options;
    change(options);
    return !checkSampling(options, 10).isOk();
  };
  EXPECT_TRUE(checkSampling({}, 10).isOk());
  EXPECT_TRUE(checkSampling(SamplingOptions::greedy(), 10).isOk());
  for (float value : {-1.0f, nan, INFINITY})
    EXPECT_TRUE(fails([&](SamplingOptions &o) { o.temperature = value; }));
  for (float value : {0.0f, 1.1f, -1.0f, nan})
    EXPECT_TRUE(fails([&](SamplingOptions &o) { o.topP = value; }));
  for (float value : {1.1f, -0.1f, nan})
    EXPECT_TRUE(fails([&](SamplingOptions &o) { o.minP = value; }));
  for (float value : {0.0f, -1.0f, 1e9f, nan})
    EXPECT_TRUE(
        fails([&](SamplingOptions &o) { o.repetitionPenalty = value; }));
  for (float value : {2.1f, -2.1f, nan}) {
    EXPECT_TRUE(fails([&](SamplingOptions &o) { o.presencePenalty = value; }));
    EXPECT_TRUE(fails([&](SamplingOptions &o) { o.frequencyPenalty = value; }));
  }
  EXPECT_TRUE(fails([&](SamplingOptions &o) { o.logitBias = {{10, 1}}; }));
  EXPECT_TRUE(fails([&](SamplingOptions &o) { o.logitBias = {{1, nan}}; }));
}

TEST(Logprobs, AreThoseOfTheRow) {
  Logprobs result = computeLogprobs(fourTokens, 3, 3);
  EXPECT_EQ(result.chosen.token, 3u);
  EXPECT_NEAR(result.chosen.logprob, std::log(0.2f), 1e-6);
  ASSERT_EQ(result.top.size(), 3u);
  EXPECT_EQ(result.top[0].token, 0u);
  EXPECT_EQ(result.top[1].token, 2u);
  EXPECT_EQ(result.top[2].token, 3u);
  EXPECT_NEAR(result.top[1].logprob, std::log(0.3f), 1e-6);
  EXPECT_TRUE(computeLogprobs(fourTokens, 3, 0).top.empty());
}

TEST(Logprobs, EqualLogitsCountInTheOrderOfIds) {
  Logprobs result = computeLogprobs(Row{1, 2, 2, 2, 0}, 0, 2);
  ASSERT_EQ(result.top.size(), 2u);
  EXPECT_EQ(result.top[0].token, 1u);
  EXPECT_EQ(result.top[1].token, 2u);
}
