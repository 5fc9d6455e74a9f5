//===- SamplingTest.cpp - Sampled texts of a compiled pair ----------------===//
//
// The tiny pair on this machine's processor: speculative texts of one, two and
// three tokens have the distribution that the target's own logits give, and a
// seed gives one text however it is drafted.
//
//===----------------------------------------------------------------------===//

#include "runtime/Speculator.h"
#include "runtime/cpu/CpuDevice.h"

#include <cmath>
#include <gtest/gtest.h>
#include <map>

using namespace tandem;

namespace {

using Tokens = std::vector<uint32_t>;

constexpr DraftChoice allChoices[] = {
    DraftChoice::Likeliest, DraftChoice::Shared, DraftChoice::Rejection};

CpuOptions oneThread() {
  CpuOptions options;
  options.threads = 1;
  return options;
}

class LogprobKeeper final : public TokenSink {
public:
  std::optional<Logprobs> last;
  bool token(uint32_t) override { return true; }
  bool keepGoing() override { return true; }
  void logprobs(const Logprobs &logprobs) override { last = logprobs; }
};

class Sampling : public testing::Test {
protected:
  void SetUp() override {
    auto opened = Artifact::open(TANDEM_PAIRS "/tiny.tandem");
    ASSERT_TRUE(opened.isOk()) << opened.status().message();
    artifact.emplace(std::move(*opened));
    auto created = CpuDevice::create(*artifact, oneThread());
    ASSERT_TRUE(created.isOk()) << created.status().message();
    device = std::move(*created);
    auto made = Speculator::create(*artifact, *device);
    ASSERT_TRUE(made.isOk());
    speculator.emplace(std::move(*made));
    ASSERT_TRUE(speculator->canSample());
  }

  Tokens write(const Tokens &prompt, const GenerateOptions &options) {
    LogprobKeeper sink;
    auto result = speculator->generate(prompt, options, sink);
    EXPECT_TRUE(result.isOk()) << result.status().message();
    return result.isOk() ? result->ids : Tokens();
  }

  /// The row of the target behind \p prompt, but for a constant.
  std::vector<float> logits(const Tokens &prompt) {
    uint32_t vocabulary = artifact->root().loop()->vocabulary();
    GenerateOptions options;
    options.maxNewTokens = 1;
    options.ignoreStopTokens = true;
    options.logprobs = vocabulary;
    LogprobKeeper sink;
    EXPECT_TRUE(speculator->generate(prompt, options, sink).isOk());
    std::vector<float> row(vocabulary);
    for (const TokenLogprob &entry : sink.last->top)
      row[entry.token] = entry.logprob;
    return row;
  }

  /// Adds the probability of every text of \p length tokens behind \p prompt.
  void enumerate(const Tokens &prompt, Tokens text, size_t length,
                 double probability, const SamplingOptions &options,
                 std::map<Tokens, double> &expected) {
    if (text.size() == length) {
      expected[text] = probability;
      return;
    }
    Tokens all = prompt;
    all.insert(all.end(), text.begin(), text.end());
    std::vector<float> row = logits(all);
    Sampler sampler(options, uint32_t(row.size()));
    sampler.start(prompt);
    for (uint32_t token : text)
      sampler.push(token);
    std::vector<float> probabilities(row.size());
    ASSERT_TRUE(sampler.distribution(row, 0, probabilities).isOk());
    for (uint32_t token = 0; token < row.size(); ++token)
      if (probabilities[token] > 0) {
        text.push_back(token);
        enumerate(prompt, text, length, probability * probabilities[token],
                  options, expected);
        text.pop_back();
      }
  }

  std::optional<Artifact> artifact;
  std::unique_ptr<CpuDevice> device;
  std::optional<Speculator> speculator;
};

} // namespace

TEST_F(Sampling, SpeculativeTextsHaveTheTargetsDistribution) { // P4.04
  // The pair was taught such texts, so drafts are kept and rejected.
  const Tokens prompt = {317, 25,  306, 68, 439, 257, 78,  87,
                         508, 640, 12,  73, 572, 198, 319, 25};
  SamplingOptions sampling;
  sampling.temperature = 1.2f;
  sampling.topK = 3;
  sampling.presencePenalty = 0.5f;
  std::map<Tokens, double> expected[3];
  for (size_t length = 1; length <= 3; ++length)
    enumerate(prompt, {}, length, 1, sampling, expected[length - 1]);
  ASSERT_EQ(expected[2].size(), 27u);

  constexpr unsigned texts = 600;
  for (DraftChoice drafts : allChoices) {
    std::map<Tokens, double> counts[3];
    for (unsigned seed = 0; seed < texts; ++seed) {
      GenerateOptions options;
      options.maxNewTokens = 3;
      options.ignoreStopTokens = true;
      options.sampling = sampling;
      options.sampling->seed = seed;
      options.drafts = drafts;
      Tokens ids = write(prompt, options);
      for (size_t length = 1; length <= 3; ++length)
        ++counts[length - 1]
                [Tokens(ids.begin(), ids.begin() + ptrdiff_t(length))];
    }
    for (size_t length = 1; length <= 3; ++length) {
      double chiSquare = 0, seen = 0;
      for (const auto &[text, probability] : expected[length - 1]) {
        double mean = probability * texts;
        double count = counts[length - 1][text];
        chiSquare += (count - mean) * (count - mean) / mean;
        seen += count;
      }
      // Nothing but these texts.
      EXPECT_EQ(seen, texts);
      // The 0.9999 quantile (Wilson and Hilferty).
      auto freedom = double(expected[length - 1].size() - 1);
      double spread = 2 / (9 * freedom);
      EXPECT_LT(chiSquare,
                freedom * std::pow(1 - spread + 3.72 * std::sqrt(spread), 3))
          << "drafts " << int(drafts) << ", " << length << " tokens";
    }
  }
}

TEST_F(Sampling, OneSeedGivesOneTextHoweverItIsDrafted) { // P4.07, P8.08
  SamplingOptions sampling;
  sampling.topP = 0.95f;
  sampling.repetitionPenalty = 1.1f;
  sampling.frequencyPenalty = 0.2f;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    GenerateOptions options;
    options.maxNewTokens = 48;
    options.ignoreStopTokens = true;
    options.sampling = sampling;
    options.sampling->seed = seed;
    options.useDrafter = false;
    Tokens expected = write({11, 42, 7}, options);
    options.useDrafter = true;
    for (DraftChoice drafts : {DraftChoice::Likeliest, DraftChoice::Shared}) {
      options.drafts = drafts;
      EXPECT_EQ(write({11, 42, 7}, options), expected);
    }
  }
}

TEST_F(Sampling, TemperatureZeroAndTopOneAreGreedy) {
  GenerateOptions greedy;
  greedy.maxNewTokens = 48;
  Tokens expected = write({11, 42, 7}, greedy);
  SamplingOptions topOne;
  topOne.topK = 1;
  for (const SamplingOptions &sampling : {SamplingOptions::greedy(), topOne})
    for (DraftChoice drafts : allChoices) {
      GenerateOptions options = greedy;
      options.sampling = sampling;
      options.drafts = drafts;
      EXPECT_EQ(write({11, 42, 7}, options), expected);
      options.useDrafter = false;
      EXPECT_EQ(write({11, 42, 7}, options), expected);
    }
}

TEST_F(Sampling, TextsThatGoOnSayWhatColdOnesSay) {
  Tokens text = {11, 42, 7, 8, 9};
  for (int turn = 0; turn < 4; ++turn)
    for (bool sampled : {false, true}) {
      GenerateOptions options;
      options.maxNewTokens = 11;
      if (sampled)
        options.sampling.emplace();
      // Long enough for chunks to fall elsewhere than in a cold prefill.
      for (uint32_t token = 0; token < 37; ++token)
        text.push_back(100 + (token * 7 + uint32_t(turn)) % 500);
      options.reusePrefix = true;
      LogprobKeeper sink;
      auto warm = speculator->generate(text, options, sink);
      ASSERT_TRUE(warm.isOk());
      if (turn > 0 || sampled) {
        EXPECT_GT(warm->reusedTokens, 37u);
      }
      auto other = CpuDevice::create(*artifact, oneThread());
      ASSERT_TRUE(other.isOk());
      auto cold = Speculator::create(*artifact, **other);
      auto expected = cold->generate(text, options, sink);
      ASSERT_TRUE(expected.isOk());
      EXPECT_EQ(warm->ids, expected->ids);
      EXPECT_EQ(warm->acceptLengths, expected->acceptLengths);
      text.insert(text.end(), warm->ids.begin(), warm->ids.end());
    }
}
