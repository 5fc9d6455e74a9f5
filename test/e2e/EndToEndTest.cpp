//===- EndToEndTest.cpp - Compiled pairs write what they should -----------===//
//
// Opens what CMakeLists.txt compiles and compares it with the goldens, and
// pairs that differ in their drafters with each other: whatever the drafter,
// the text is the target's.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/CpuDevice.h"
#include "test/ChatTurns.h"
#include "test/Golden.h"
#include "test/LoadedPair.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

using namespace tandem;
using namespace tandem::test;
using testing::TestParamInfo;
using testing::TestWithParam;
using testing::Values;

namespace {

/// A pair that CMakeLists.txt compiles.
class Pair : public LoadedPair {
public:
  explicit Pair(const std::string &name, unsigned threads = 0)
      : LoadedPair(std::string(TANDEM_PAIRS "/") + name + ".tandem",
                   [threads](const Artifact &artifact) {
                     return makeDevice(artifact, threads);
                   }) {}

  /// The pair called \p name, loaded once.
  static Pair &get(const std::string &name) {
    static std::map<std::string, Pair> pairs;
    auto found = pairs.find(name);
    if (found == pairs.end())
      found = pairs.emplace(name, Pair(name)).first;
    return found->second;
  }

private:
  static StatusOr<std::unique_ptr<Device>> makeDevice(const Artifact &artifact,
                                                      unsigned threads) {
    CpuOptions options;
    options.threads = threads;
    options.snapshots = conversationSnapshots;
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<CpuDevice> device,
                            CpuDevice::create(artifact, options));
    return StatusOr<std::unique_ptr<Device>>(std::move(device));
  }
};

const Golden &getGolden(const std::string &name) {
  static std::map<std::string, Golden> goldens;
  auto found = goldens.find(name);
  if (found == goldens.end())
    found =
        goldens.emplace(name, Golden(TANDEM_SOURCE_DIR "/test/Inputs/" + name))
            .first;
  return found->second;
}

/// A name that gtest can print.
std::string toTestName(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

//===----------------------------------------------------------------------===//
// Goldens
//===----------------------------------------------------------------------===//

class GoldenTest : public TestWithParam<const char *> {
protected:
  const Golden &golden = getGolden(GetParam());
  Pair &pair = Pair::get(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Pairs, GoldenTest, Values("tiny", "demo"),
                         [](const TestParamInfo<const char *> &info) {
                           return std::string(info.param);
                         });

/// Compares rounds with \p expected, whose last may run past the text.
void expectRounds(const Ids &rounds, const Ids &expected) {
  ASSERT_EQ(rounds.size(), expected.size());
  EXPECT_EQ(firstOf(rounds, rounds.size() - 1),
            firstOf(expected, expected.size() - 1));
}

TEST_P(GoldenTest, WritesWithTheDrafter) { // P2.07
  for (const GoldenPrompt &prompt : golden.prompts()) {
    SCOPED_TRACE(prompt.text);
    Generation result =
        pair.generate(prompt.ids, prompt.greedy.size(), /*useDrafter=*/true);
    EXPECT_EQ(result.ids, prompt.greedy);
    EXPECT_EQ(result.finishReason, FinishReason::Length);
    expectRounds(result.acceptLengths, prompt.acceptLengths);
  }
}

TEST_P(GoldenTest, WritesWithoutTheDrafter) { // P2.05
  for (const GoldenPrompt &prompt : golden.prompts()) {
    SCOPED_TRACE(prompt.text);
    Generation result =
        pair.generate(prompt.ids, prompt.greedy.size(), /*useDrafter=*/false);
    EXPECT_EQ(result.ids, prompt.greedy);
    EXPECT_TRUE(result.acceptLengths.empty());
  }
}

TEST_P(GoldenTest, Scores) { // P3.06, P4.02
  for (size_t i = 0; i < golden.prompts().size(); ++i) {
    auto expected = golden.tensor(i, "logits");
    if (!expected)
      continue;
    SCOPED_TRACE("prompt " + std::to_string(i));
    std::vector<float> logits;
    Scores scores = pair.score(golden.prompts()[i].ids, logits);
    EXPECT_TRUE(isClose(logits, *expected));
    EXPECT_TRUE(isClose(scores.features, *golden.tensor(i, "features")));
    EXPECT_TRUE(isClose(scores.draftLogits, *golden.tensor(i, "draft_logits")));
  }
}

/// A pair whose linear layers multiply bf16 or int8, the one in f32, and the
/// distance between the two best logits from which both agree on the best.
struct Narrow {
  const char *pair, *exact;
  float margin;
};
class NarrowTest : public TestWithParam<Narrow> {};

INSTANTIATE_TEST_SUITE_P(Pairs, NarrowTest,
                         Values(Narrow{"tiny-narrow-bf16", "tiny", 0.1f},
                                Narrow{"tiny-narrow-int8", "tiny", 0.5f},
                                Narrow{"demo-narrow-bf16", "demo", 0.1f},
                                Narrow{"demo-narrow-int8", "demo", 0.5f}),
                         [](const TestParamInfo<Narrow> &info) {
                           return toTestName(info.param.pair);
                         });

TEST_P(NarrowTest, AgreesOnTheLikeliestUnlessItIsClose) {
  size_t rows = 0, clear = 0;
  for (const GoldenPrompt &prompt : getGolden(GetParam().exact).prompts()) {
    Ids text = prompt.ids;
    text.insert(text.end(), prompt.greedy.begin(), prompt.greedy.end());
    std::vector<float> narrow, exact;
    Pair::get(GetParam().pair).score(text, narrow);
    Pair::get(GetParam().exact).score(text, exact);
    ASSERT_EQ(narrow.size(), exact.size());
    EXPECT_NE(narrow, exact);
    size_t vocabulary = exact.size() / text.size();
    for (size_t row = 0; row < text.size(); ++row) {
      auto begin = exact.begin() + ptrdiff_t(row * vocabulary);
      std::vector<float> sorted(begin, begin + ptrdiff_t(vocabulary));
      std::partial_sort(sorted.begin(), sorted.begin() + 2, sorted.end(),
                        std::greater<>());
      ++rows;
      if (sorted[0] - sorted[1] < GetParam().margin)
        continue;
      ++clear;
      auto other = narrow.begin() + ptrdiff_t(row * vocabulary);
      EXPECT_EQ(std::max_element(begin, begin + ptrdiff_t(vocabulary)) - begin,
                std::max_element(other, other + ptrdiff_t(vocabulary)) - other)
          << prompt.text << ", row " << row;
    }
  }
  // Most rows are clear.
  EXPECT_GT(clear * 2, rows);
}

TEST_P(NarrowTest, WritesTheSameWithAndWithoutTheDrafter) {
  Pair &pair = Pair::get(GetParam().pair);
  for (const GoldenPrompt &prompt : getGolden(GetParam().exact).prompts()) {
    SCOPED_TRACE(prompt.text);
    size_t length = prompt.greedy.size();
    Generation drafted = pair.generate(prompt.ids, length, true);
    EXPECT_EQ(drafted.ids, pair.generate(prompt.ids, length, false).ids);
    EXPECT_GT(drafted.meanAcceptLength(), 1.2);
  }
}

/// A pair whose heads are searched, and the same with heads that are read
/// whole.
struct SearchedPair {
  const char *pair, *exact, *golden;
};
class SearchedHeadTest : public TestWithParam<SearchedPair> {};

INSTANTIATE_TEST_SUITE_P(Pairs, SearchedHeadTest,
                         Values(SearchedPair{"tiny-searched", "tiny", "tiny"},
                                SearchedPair{"tiny-searched-bf16",
                                             "tiny-narrow-bf16", "tiny"},
                                SearchedPair{"demo-searched", "demo", "demo"}),
                         [](const TestParamInfo<SearchedPair> &info) {
                           return toTestName(info.param.pair);
                         });

TEST_P(SearchedHeadTest, FindsTheSameTokens) {
  Pair &searched = Pair::get(GetParam().pair),
       &exact = Pair::get(GetParam().exact);
  EXPECT_FALSE(exact.headCounts());
  for (const GoldenPrompt &prompt : getGolden(GetParam().golden).prompts()) {
    SCOPED_TRACE(prompt.text);
    for (bool useDrafter : {true, false}) {
      Generation found =
          searched.generate(prompt.ids, prompt.greedy.size(), useDrafter);
      Generation expected =
          exact.generate(prompt.ids, prompt.greedy.size(), useDrafter);
      EXPECT_EQ(found.ids, expected.ids);
      EXPECT_EQ(found.acceptLengths, expected.acceptLengths);
    }
  }
  std::optional<HeadCounts> counts = searched.headCounts();
  ASSERT_TRUE(counts);
  EXPECT_GE(counts->rows, counts->searches);
  EXPECT_GT(counts->tiles, 0u);
  std::printf("%s: %u searches, %.2f tiles a row, %u full passes\n",
              GetParam().pair, counts->searches, counts->tilesPerRow(),
              counts->fullPasses);
}

//===----------------------------------------------------------------------===//
// What is drafted
//===----------------------------------------------------------------------===//

/// Tokens in a round of the pair \p name on all prompts of the demo golden,
/// whose text it has to write.
double measureDrafts(const std::string &name) {
  Pair &pair = Pair::get(name);
  size_t tokens = 0, rounds = 0;
  for (const GoldenPrompt &prompt : getGolden("demo").prompts()) {
    Generation drafted =
        pair.generate(prompt.ids, prompt.greedy.size(), /*useDrafter=*/true);
    EXPECT_EQ(drafted.ids, prompt.greedy) << name << ": " << prompt.text;
    for (uint32_t length : drafted.acceptLengths) {
      tokens += length;
      ++rounds;
    }
  }
  double mean = double(tokens) / double(rounds);
  std::printf("%s: %.3f tokens a round\n", name.c_str(), mean);
  return mean;
}

TEST(DraftHeadTest, RoundedHeadsDraftAlmostAsWell) {
  double whole = measureDrafts("demo"), rounded = measureDrafts("demo-rounded");
  EXPECT_GT(rounded, whole * 0.95);
  // As a rule some drafts are others.
  EXPECT_NE(rounded, whole);
}

TEST(DraftHeadTest, TokensOfATextAreBetterThanTheFirst) {
  double whole = measureDrafts("demo"), first = measureDrafts("demo-first"),
         chosen = measureDrafts("demo-chosen"),
         searched = measureDrafts("demo-chosen-searched"),
         rounded = measureDrafts("demo-chosen-rounded");
  EXPECT_GT(chosen, first);
  EXPECT_LT(chosen, whole);
  // A search finds the same drafts.
  EXPECT_EQ(searched, chosen);
  EXPECT_GT(rounded, first);
}

TEST(DraftHeadTest, DraftsOfSomeTokensChangeNoText) {
  Pair &pair = Pair::get("tiny-chosen-rounded-int8");
  for (const GoldenPrompt &prompt : getGolden("tiny").prompts()) {
    SCOPED_TRACE(prompt.text);
    Generation drafted = pair.generate(prompt.ids, prompt.greedy.size(), true);
    Generation plain = Pair::get("tiny-narrow-int8")
                           .generate(prompt.ids, prompt.greedy.size(), false);
    EXPECT_EQ(drafted.ids, plain.ids);
    EXPECT_EQ(pair.generate(prompt.ids, prompt.greedy.size(), false).ids,
              plain.ids);
  }
}

/// The tiny pair in other formats (write_formats.py): weights are the same
/// numbers, so everything is, bit for bit.
class FormatTest : public TestWithParam<const char *> {};

INSTANTIATE_TEST_SUITE_P(Formats, FormatTest,
                         Values("tiny-awq", "tiny-gptq", "tiny-gptq-v2",
                                "tiny-fp8", "tiny-mixed", "tiny-ct-8-zeros"),
                         [](const TestParamInfo<const char *> &info) {
                           return toTestName(info.param);
                         });

TEST_P(FormatTest, IsTheTinyPair) { // P1.01, P1.16, P1.17, P1.18, P1.21
  Pair pair(GetParam());
  const GoldenPrompt &prompt = getGolden("tiny").prompts()[0];
  std::vector<float> logits, expectedLogits;
  Scores scores = pair.score(prompt.ids, logits);
  Scores expected = Pair::get("tiny").score(prompt.ids, expectedLogits);
  EXPECT_EQ(logits, expectedLogits);
  EXPECT_EQ(scores.features, expected.features);
  EXPECT_EQ(scores.draftLogits, expected.draftLogits);
  Generation result =
      pair.generate(prompt.ids, prompt.greedy.size(), /*useDrafter=*/true);
  EXPECT_EQ(result.ids, prompt.greedy);
  expectRounds(result.acceptLengths, prompt.acceptLengths);
}

/// A variant of the tiny drafter, and the golden of its logits.
struct Variant {
  const char *pair, *golden;
};
class DrafterVariantTest : public TestWithParam<Variant> {};

INSTANTIATE_TEST_SUITE_P(Variants, DrafterVariantTest,
                         Values(Variant{"tiny-causal", "draft_logits_causal"},
                                Variant{"tiny-full", "draft_logits_full"}),
                         [](const TestParamInfo<Variant> &info) {
                           return toTestName(info.param.pair);
                         });

TEST_P(DrafterVariantTest, Drafts) { // P3.02, P3.03, P3.05
  const Golden &golden = getGolden("tiny");
  for (size_t i = 0; i < golden.prompts().size(); ++i) {
    SCOPED_TRACE("prompt " + std::to_string(i));
    std::vector<float> logits;
    Scores scores =
        Pair::get(GetParam().pair).score(golden.prompts()[i].ids, logits);
    EXPECT_TRUE(
        isClose(scores.draftLogits, *golden.tensor(i, GetParam().golden)));
  }
}

/// A drafter whose `fc` is packed drafts as one whose dense `fc` holds the same
/// numbers.
TEST(PackedFcTest, IsTheDenseOne) { // P3.01
  for (const GoldenPrompt &prompt : getGolden("tiny").prompts()) {
    SCOPED_TRACE(prompt.text);
    std::vector<float> logits;
    Scores packed = Pair::get("tiny-fc-packed").score(prompt.ids, logits);
    Scores dense = Pair::get("tiny-fc-dense").score(prompt.ids, logits);
    EXPECT_EQ(packed.draftLogits, dense.draftLogits);
  }
}

TEST(FullDrafterTest, AcceptsAsTheGolden) {
  for (const GoldenPrompt &prompt : getGolden("tiny").prompts()) {
    SCOPED_TRACE(prompt.text);
    Generation result =
        Pair::get("tiny-full")
            .generate(prompt.ids, prompt.greedy.size(), /*useDrafter=*/true);
    EXPECT_EQ(result.ids, prompt.greedy);
    expectRounds(result.acceptLengths, prompt.acceptLengthsFull);
  }
}

TEST(Bf16PairTest, ScoresAsTheTeacher) {
  const Golden &golden = getGolden("tiny");
  std::vector<float> logits;
  Pair::get("tiny-bf16").score(golden.prompts()[0].ids, logits);
  EXPECT_TRUE(isClose(logits, *golden.tensor(0, "teacher_logits")));
}

//===----------------------------------------------------------------------===//
// Lossless
//===----------------------------------------------------------------------===//

/// Pairs with the target of `tiny` and other drafters, blocks and windows.
class LosslessTest : public TestWithParam<const char *> {};

INSTANTIATE_TEST_SUITE_P(Pairs, LosslessTest,
                         Values("tiny", "tiny-shuffled", "tiny-block-1",
                                "tiny-block-2", "tiny-block-5", "tiny-block-11",
                                "tiny-causal", "tiny-full"),
                         [](const TestParamInfo<const char *> &info) {
                           return toTestName(info.param);
                         });

TEST_P(LosslessTest, DrafterChangesNothing) { // P2.01, P2.02, P4.01
  // One token, less than a convolution needs, around a chunk, several chunks.
  const Ids &text = getGolden("tiny").prompts()[6].ids;
  ASSERT_EQ(text.size(), 300u);
  for (size_t length : {1, 2, 3, 63, 64, 65, 300}) {
    SCOPED_TRACE("prompt of " + std::to_string(length));
    Ids prompt = firstOf(text, length);
    Ids plain = Pair::get("tiny").generate(prompt, 48, false).ids;
    EXPECT_EQ(Pair::get(GetParam()).generate(prompt, 48, true).ids, plain);
    EXPECT_EQ(Pair::get(GetParam()).generate(prompt, 48, false).ids, plain);
  }
}

/// Chat turns over drafters with and without rings.
class TurnsTest : public TestWithParam<const char *> {};

INSTANTIATE_TEST_SUITE_P(Pairs, TurnsTest,
                         Values("tiny", "tiny-block-1", "tiny-block-5",
                                "tiny-full"),
                         [](const TestParamInfo<const char *> &info) {
                           return toTestName(info.param);
                         });

TEST_P(TurnsTest, GoOnBehindTheLastQuestion) {
  const Golden &golden = getGolden("tiny");
  Pair warm(GetParam());
  std::vector<Ids> questions;
  for (size_t i : {0, 3, 6, 1})
    questions.push_back(firstOf(golden.prompts()[i].ids, 90));
  for (bool useDrafter : {true, false}) {
    GenerateOptions options;
    // More tokens than the window of the drafter has: its ring is overwritten.
    options.maxNewTokens = 100;
    options.ignoreStopTokens = true;
    options.useDrafter = useDrafter;
    expectSameTurns(warm, Pair::get(GetParam()), questions, options);
  }
}

TEST(DemoTurnsTest, GoOnBehindTheLastQuestion) {
  std::vector<Ids> questions;
  for (size_t i : {0, 3, 5})
    questions.push_back(getGolden("demo").prompts()[i].ids);
  Pair warm("demo");
  GenerateOptions options;
  options.maxNewTokens = 48;
  options.ignoreStopTokens = true;
  expectSameTurns(warm, Pair::get("demo"), questions, options);
  // As the server and the chat write, and further than the window reaches.
  questions.pop_back();
  options.chooseRows = true;
  options.maxNewTokens = 280;
  options.sampling.emplace().seed = 3;
  expectSameTurns(warm, Pair::get("demo"), questions, options);
}

TEST(LosslessBf16Test, DrafterChangesNothing) {
  Pair &pair = Pair::get("tiny-bf16");
  for (const GoldenPrompt &prompt : getGolden("tiny").prompts())
    EXPECT_EQ(pair.generate(prompt.ids, 48, true).ids,
              pair.generate(prompt.ids, 48, false).ids)
        << prompt.text;
}

// A row's bits depend on that row's inputs: not on the threads, nor on the rows
// that run with it.
TEST(RowBitsTest, ThreadsChangeNothing) {
  const Ids &text = getGolden("tiny").prompts()[1].ids;
  Pair one("tiny", 1), three("tiny", 3);
  std::vector<float> logitsOfOne, logitsOfThree;
  Scores scoresOfOne = one.score(text, logitsOfOne);
  Scores scoresOfThree = three.score(text, logitsOfThree);
  EXPECT_EQ(logitsOfOne, logitsOfThree);
  EXPECT_EQ(scoresOfOne.features, scoresOfThree.features);
  EXPECT_EQ(scoresOfOne.draftLogits, scoresOfThree.draftLogits);
}

TEST(RowBitsTest, LaterRowsChangeNothing) { // P2.07, P4.01
  Pair &pair = Pair::get("tiny");
  const Ids &text = getGolden("tiny").prompts()[6].ids;
  std::vector<float> all, some;
  pair.score(firstOf(text, 32), all);
  for (size_t length : {1, 7, 15, 17, 31}) {
    pair.score(firstOf(text, length), some);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()))
        << "first " << length << " of 32 rows";
  }
}

TEST(FileTest, WeightsBeginAtLines) {
  auto opened = Artifact::open(TANDEM_PAIRS "/tiny.tandem");
  ASSERT_TRUE(opened.isOk()) << opened.status().message();
  for (const artifact::Weight *weight : *opened->root().weights())
    EXPECT_EQ(weight->data()->offset() % 128, 0u)
        << weight->name()->string_view();
}

/// The first token behind a prompt is the likeliest of the scores of its last
/// row, wherever in a chunk it ends.
TEST(PrefillTest, EndsAnywhere) { // P2.05, P2.06
  Pair &pair = Pair::get("tiny");
  Ids text = firstOf(getGolden("tiny").prompts()[6].ids, 130);
  std::vector<float> logits;
  pair.score(text, logits);
  size_t vocabulary = logits.size() / text.size();
  for (size_t length = 1; length <= text.size(); ++length) {
    auto row = logits.begin() + ptrdiff_t((length - 1) * vocabulary);
    auto best = std::max_element(row, row + ptrdiff_t(vocabulary));
    EXPECT_EQ(pair.generate(firstOf(text, length), 1, false).ids,
              Ids{uint32_t(best - row)})
        << "prompt of " << length;
  }
}

//===----------------------------------------------------------------------===//
// Where a text ends
//===----------------------------------------------------------------------===//

TEST(EndTest, TokensAreNeverMoreThanWanted) { // P3.13
  // Accept lengths up to 16: nearly every count falls inside a block.
  const GoldenPrompt &prompt = getGolden("demo").prompts()[5];
  for (uint32_t count = 1; count <= 40; ++count) {
    Generation result = Pair::get("demo").generate(prompt.ids, count, true);
    EXPECT_EQ(result.ids, firstOf(prompt.greedy, count));
    EXPECT_EQ(result.finishReason, FinishReason::Length);
  }
}

TEST(EndTest, ContextIsUsedUp) { // P3.11
  constexpr size_t kContext = 40;
  const Ids &text = getGolden("tiny").prompts()[6].ids;
  for (size_t length : {1, 20, 23, 24, 25, 37, 38, 39}) {
    SCOPED_TRACE("prompt of " + std::to_string(length));
    Ids prompt = firstOf(text, length);
    Ids expected =
        Pair::get("tiny").generate(prompt, kContext - length, false).ids;
    for (bool useDrafter : {true, false}) {
      Generation result =
          Pair::get("tiny-context-40").generate(prompt, 100, useDrafter);
      EXPECT_EQ(result.ids, expected);
      EXPECT_EQ(result.finishReason, FinishReason::Length);
    }
  }
}

/// Position behind the first of \p stops in \p ids; 0 when there is none.
size_t findEnd(const Ids &ids, const Ids &stops) {
  auto stop =
      std::find_first_of(ids.begin(), ids.end(), stops.begin(), stops.end());
  return stop == ids.end() ? 0 : stop - ids.begin() + 1;
}

/// Whether a round of \p rounds reaches beyond \p end tokens of the text.
bool isInsideRound(size_t end, const Ids &rounds) {
  size_t written = 1;
  for (uint32_t round : rounds) {
    if (written < end && end < written + round)
      return true;
    written += round;
  }
  return false;
}

// P3.12
TEST(EndTest, StopTokenInsideABlock) {
  const Ids stops = {993, 995}; // of its generation_config.json
  size_t insideRounds = 0;
  for (const GoldenPrompt &prompt : getGolden("tiny").prompts()) {
    size_t end = findEnd(prompt.greedy, stops);
    if (end == 0)
      continue;
    SCOPED_TRACE(prompt.text);
    insideRounds += isInsideRound(end, prompt.acceptLengths);
    for (bool useDrafter : {true, false}) {
      Generation result = Pair::get("tiny").generate(
          prompt.ids, prompt.greedy.size(), useDrafter, false);
      EXPECT_EQ(result.ids, firstOf(prompt.greedy, end));
      EXPECT_EQ(result.finishReason, FinishReason::Stop);
    }
  }
  // Otherwise the prompts do not test what the name says.
  EXPECT_GT(insideRounds, 0u);
}

} // namespace
