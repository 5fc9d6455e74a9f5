//===- SamplingTest.cpp - Sampled texts, with fake programs ---------------===//
//
// Speculative texts must have the distribution of the target, exactly. The
// target here has few tokens and known logits, so that the expected number of
// every text of one, two and three tokens is known, too.
//
//===----------------------------------------------------------------------===//

#include "runtime/Speculator.h"
#include "test/runtime/FakePair.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr uint32_t vocabulary = 5;

/// Logits that depend on all tokens so far.
std::vector<float> logitsFrom(std::span<const uint32_t> tokens, uint64_t salt) {
  uint64_t hash = 14695981039346656037u + salt;
  for (uint32_t token : tokens)
    hash = (hash ^ (token + 1)) * 1099511628211u;
  std::vector<float> row(vocabulary);
  for (float &logit : row) {
    hash = hash * 6364136223846793005u + 1442695040888963407u;
    logit = float(hash >> 40) * 0x1p-24f * 2.5f;
  }
  return row;
}

std::vector<float> targetLogits(std::span<const uint32_t> tokens) {
  return logitsFrom(tokens, 0);
}

/// A drafter that has learned something: half the target, half its own.
std::vector<float> drafterLogits(std::span<const uint32_t> tokens) {
  std::vector<float> row = targetLogits(tokens);
  std::vector<float> own = logitsFrom(tokens, 99);
  for (uint32_t id = 0; id < vocabulary; ++id)
    row[id] = 0.5f * (row[id] + own[id]);
  return row;
}

FakeOptions sampledPair(uint32_t block = 4) {
  FakeOptions options;
  options.loop = {.block = block, .vocabulary = vocabulary};
  options.targetLogits = targetLogits;
  options.drafterLogits = drafterLogits;
  return options;
}

FakePair makePair(uint32_t block = 4) {
  return FakePair(sampledPair(block), likeliestOf(targetLogits),
                  [](unsigned, uint32_t right) { return right; });
}

class Ignorer : public TokenSink {
public:
  bool token(uint32_t) override { return true; }
  bool keepGoing() override { return true; }
};

Generation write(Speculator &speculator, const Tokens &prompt,
                 const GenerateOptions &options) {
  Ignorer sink;
  auto result = speculator.generate(prompt, options, sink);
  EXPECT_TRUE(result.isOk()) << result.status().message();
  return result.isOk() ? *result : Generation();
}

/// Chi-square of the \p counts of all texts of \p length tokens behind
/// \p prompt, and its 0.9999 quantile (Wilson and Hilferty).
std::pair<double, double> chiSquare(const std::vector<double> &counts,
                                    const SamplingOptions &options,
                                    const Tokens &prompt, unsigned length) {
  double total = 0, sum = 0;
  for (double count : counts)
    total += count;
  for (size_t code = 0; code < counts.size(); ++code) {
    Tokens text = prompt;
    Sampler sampler(options, vocabulary);
    sampler.start(prompt);
    double probability = 1;
    size_t rest = code;
    for (unsigned place = 0; place < length; ++place, rest /= vocabulary) {
      std::vector<float> row(vocabulary);
      EXPECT_TRUE(sampler.distribution(targetLogits(text), 0, row).isOk());
      auto token = uint32_t(rest % vocabulary);
      probability *= row[token];
      text.push_back(token);
      sampler.push(token);
    }
    double mean = probability * total;
    if (mean > 0)
      sum += (counts[code] - mean) * (counts[code] - mean) / mean;
    else
      EXPECT_EQ(counts[code], 0);
  }
  auto freedom = double(counts.size() - 1);
  double spread = 2 / (9 * freedom);
  double limit = freedom * std::pow(1 - spread + 3.72 * std::sqrt(spread), 3);
  return {sum, limit};
}

size_t codeOf(std::span<const uint32_t> ids, unsigned length) {
  size_t code = 0, factor = 1;
  for (unsigned place = 0; place < length; ++place, factor *= vocabulary)
    code += ids[place] * factor;
  return code;
}

constexpr unsigned texts = 8000;

} // namespace

TEST(Sampling, SpeculativeTextsHaveTheTargetsDistribution) { // P4.04
  Tokens prompt = {1, 4, 2};
  SamplingOptions sampling;
  sampling.temperature = 0.9f;
  sampling.presencePenalty = 0.3f;
  FakePair pair = makePair();
  auto speculator = Speculator::create(pair.artifact(), pair);
  ASSERT_TRUE(speculator.isOk());
  for (DraftChoice drafts :
       {DraftChoice::Likeliest, DraftChoice::Shared, DraftChoice::Rejection})
    for (unsigned length : {1u, 2u, 3u}) {
      std::vector<double> counts(size_t(std::pow(vocabulary, length)));
      for (unsigned seed = 0; seed < texts; ++seed) {
        GenerateOptions options;
        // A token of the prefill, and those of a block.
        options.maxNewTokens = length;
        options.sampling = sampling;
        options.sampling->seed = seed;
        options.drafts = drafts;
        counts[codeOf(write(*speculator, prompt, options).ids, length)] += 1;
      }
      auto [found, limit] = chiSquare(counts, sampling, prompt, length);
      EXPECT_LT(found, limit) << "drafts " << int(drafts) << ", " << length;
    }
}

// The same test with the classical mistake in the place of decide(): when the
// target's sample is not the draft, the token is drawn again. It has to fail.
TEST(Sampling, ASecondSampleAfterAMismatchShows) { // P4.04
  Tokens prompt = {1, 4, 2};
  SamplingOptions sampling;
  std::vector<double> right(vocabulary), wrong(vocabulary);
  std::vector<float> row = targetLogits(prompt);
  std::vector<float> drafter = drafterLogits(prompt);
  auto draft = uint32_t(std::max_element(drafter.begin(), drafter.end()) -
                        drafter.begin());
  for (unsigned seed = 0; seed < texts; ++seed) {
    sampling.seed = seed;
    Sampler sampler(sampling, vocabulary);
    uint32_t token = *sampler.sample(row, prompt.size());
    right[token] += 1;
    if (token != draft)
      token = *sampler.sample(row, prompt.size(), RandomUse::Residual);
    wrong[token] += 1;
  }
  auto [good, limit] = chiSquare(right, sampling, prompt, 1);
  EXPECT_LT(good, limit);
  EXPECT_GT(chiSquare(wrong, sampling, prompt, 1).first, 10 * limit);
}

// Drafts that are rejected with the wrong probability would show, too.
TEST(Sampling, WrongRejectionShows) {
  Tokens prompt = {1, 4, 2};
  SamplingOptions sampling;
  std::vector<double> counts(vocabulary);
  std::vector<float> row = targetLogits(prompt);
  std::vector<float> probabilities(vocabulary);
  for (unsigned seed = 0; seed < texts; ++seed) {
    sampling.seed = seed;
    Sampler sampler(sampling, vocabulary);
    uint32_t draft =
        *sampler.sample(drafterLogits(prompt), prompt.size(), RandomUse::Draft);
    ASSERT_TRUE(sampler.distribution(row, 0, probabilities).isOk());
    // q(d) is left out.
    double uniform =
        PositionRandom(seed, prompt.size(), RandomUse::Accept).uniform(0);
    uint32_t token = uniform < probabilities[draft]
                         ? draft
                         : *sampler.sample(row, prompt.size());
    counts[token] += 1;
  }
  auto [found, limit] = chiSquare(counts, sampling, prompt, 1);
  EXPECT_GT(found, limit);
}

TEST(Sampling, OneSeedGivesOneTextHoweverItIsDrafted) { // P4.07, P8.08
  GenerateOptions plain;
  plain.maxNewTokens = 40;
  plain.sampling.emplace();
  plain.sampling->repetitionPenalty = 1.2f;
  plain.sampling->frequencyPenalty = 0.1f;
  plain.useDrafter = false;
  for (uint32_t block : {1u, 2u, 4u, 9u}) {
    FakePair pair = makePair(block);
    auto speculator = Speculator::create(pair.artifact(), pair);
    ASSERT_TRUE(speculator.isOk());
    Tokens last;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      plain.sampling->seed = seed;
      Generation expected = write(*speculator, {3, 3, 0}, plain);
      EXPECT_NE(expected.ids, last);
      last = expected.ids;
      for (DraftChoice drafts : {DraftChoice::Likeliest, DraftChoice::Shared}) {
        GenerateOptions options = plain;
        options.useDrafter = true;
        options.drafts = drafts;
        EXPECT_EQ(write(*speculator, {3, 3, 0}, options).ids, expected.ids);
        // And it is a beginning of the longer text.
        options.maxNewTokens = 17;
        EXPECT_EQ(write(*speculator, {3, 3, 0}, options).ids,
                  Tokens(expected.ids.begin(), expected.ids.begin() + 17));
      }
    }
  }
}

TEST(Sampling, TemperatureZeroAndTopOneAreGreedy) {
  FakePair pair = makePair();
  auto speculator = Speculator::create(pair.artifact(), pair);
  ASSERT_TRUE(speculator.isOk());
  GenerateOptions greedy;
  greedy.maxNewTokens = 30;
  Tokens expected = write(*speculator, {0, 1}, greedy).ids;
  SamplingOptions topOne;
  topOne.topK = 1;
  for (const SamplingOptions &sampling : {SamplingOptions::greedy(), topOne})
    for (DraftChoice drafts : {DraftChoice::Likeliest, DraftChoice::Shared,
                               DraftChoice::Rejection}) {
      GenerateOptions options = greedy;
      options.sampling = sampling;
      options.drafts = drafts;
      EXPECT_EQ(write(*speculator, {0, 1}, options).ids, expected);
    }
}

TEST(Sampling, PenaltiesCountTheDraftsBeforeARow) { // P4.05
  // A target that repeats itself for ever, and a drafter that is always right
  // about it: only the penalty changes what is said.
  FakeOptions options;
  options.loop = {.block = 6, .vocabulary = vocabulary};
  options.targetLogits = [](std::span<const uint32_t>) {
    return std::vector<float>{2.0f, 1.9f, 1.5f, 1.0f, 0.5f};
  };
  options.drafterLogits = options.targetLogits;
  FakePair pair(options, likeliestOf(options.targetLogits),
                [](unsigned, uint32_t right) { return right; });
  auto speculator = Speculator::create(pair.artifact(), pair);
  ASSERT_TRUE(speculator.isOk());
  GenerateOptions generate;
  generate.maxNewTokens = 24;
  generate.sampling = SamplingOptions::greedy();
  generate.sampling->frequencyPenalty = 0.3f;
  generate.useDrafter = false;
  Tokens expected = write(*speculator, {4}, generate).ids;
  EXPECT_EQ(Tokens(expected.begin(), expected.begin() + 4),
            (Tokens{0, 1, 0, 1}));
  generate.useDrafter = true;
  for (DraftChoice drafts :
       {DraftChoice::Likeliest, DraftChoice::Shared, DraftChoice::Rejection}) {
    generate.drafts = drafts;
    Generation result = write(*speculator, {4}, generate);
    EXPECT_EQ(result.ids, expected);
    // Drafts that see the penalties, too, are always right.
    if (drafts != DraftChoice::Likeliest) {
      EXPECT_EQ(result.acceptLengths[0], 6u);
    }
  }
}

TEST(Sampling, DrafterWithoutNumbersIsNoError) {
  for (DraftChoice drafts :
       {DraftChoice::Likeliest, DraftChoice::Shared, DraftChoice::Rejection}) {
    FakeOptions options = sampledPair();
    options.drafterLogits = [](std::span<const uint32_t>) {
      return std::vector<float>(vocabulary, NAN);
    };
    FakePair pair(options, likeliestOf(targetLogits),
                  [](unsigned, uint32_t right) { return right; });
    auto speculator = Speculator::create(pair.artifact(), pair);
    ASSERT_TRUE(speculator.isOk());
    GenerateOptions generate;
    generate.maxNewTokens = 20;
    generate.sampling.emplace();
    generate.drafts = drafts;
    EXPECT_EQ(write(*speculator, {0, 1}, generate).ids.size(), 20u);
  }
}

TEST(Sampling, LogprobsOfPromptAndAnswer) {
  class Collector final : public Ignorer {
  public:
    std::vector<Logprobs> prompt, answer;
    void logprobs(const Logprobs &value) override { answer.push_back(value); }
    void promptLogprobs(const Logprobs &value) override {
      prompt.push_back(value);
    }
  };
  Tokens prompt = {1, 4, 2, 0, 3, 3, 1, 2, 4, 0, 1};
  for (bool useDrafter : {true, false}) {
    FakePair pair = makePair();
    auto speculator = Speculator::create(pair.artifact(), pair);
    ASSERT_TRUE(speculator.isOk());
    GenerateOptions options;
    options.maxNewTokens = 12;
    options.useDrafter = useDrafter;
    options.logprobs = 2;
    options.promptLogprobs = true;
    Collector sink;
    auto result = speculator->generate(prompt, options, sink);
    ASSERT_TRUE(result.isOk()) << result.status().message();
    ASSERT_EQ(sink.prompt.size(), prompt.size() - 1);
    ASSERT_EQ(sink.answer.size(), result->ids.size());
    Tokens text = prompt;
    text.insert(text.end(), result->ids.begin(), result->ids.end());
    for (size_t place = 1; place < text.size(); ++place) {
      Logprobs expected = computeLogprobs(
          targetLogits(std::span(text).first(place)), text[place], 2);
      const Logprobs &found = place < prompt.size()
                                  ? sink.prompt[place - 1]
                                  : sink.answer[place - prompt.size()];
      EXPECT_EQ(found.chosen.token, text[place]);
      EXPECT_EQ(found.chosen.logprob, expected.chosen.logprob);
      ASSERT_EQ(found.top.size(), 2u);
      EXPECT_EQ(found.top[1].token, expected.top[1].token);
    }
    // The same tokens as without.
    GenerateOptions without;
    without.maxNewTokens = 12;
    EXPECT_EQ(write(*speculator, prompt, without).ids, result->ids);
  }
}

TEST(Sampling, LogprobsOfAPromptAlone) {
  FakePair pair = makePair();
  auto speculator = Speculator::create(pair.artifact(), pair);
  ASSERT_TRUE(speculator.isOk());
  GenerateOptions options;
  options.maxNewTokens = 0;
  options.promptLogprobs = true;
  EXPECT_TRUE(write(*speculator, {1, 2, 3}, options).ids.empty());
}

TEST(Sampling, PairWithoutLogitsSaysSo) {
  FakePair pair(
      {.logits = false}, [](auto) { return 1u; },
      [](unsigned, uint32_t right) { return right; });
  auto speculator = Speculator::create(pair.artifact(), pair);
  ASSERT_TRUE(speculator.isOk());
  EXPECT_FALSE(speculator->canSample());
  GenerateOptions options;
  options.sampling.emplace();
  Ignorer sink;
  auto result = speculator->generate(Tokens{1}, options, sink);
  ASSERT_FALSE(result.isOk());
  EXPECT_EQ(result.status().message(),
            "was compiled without logits: it can only write the likeliest "
            "tokens");
}
