//===- PairsOnGpuTest.cpp - Compiled pairs on a GPU -----------------------===//
//
// PairsOnGpuTest PAIRS INPUTS ARCH [--host-loop] [GTEST FLAGS]
//
// PAIRS holds <name>.<ARCH>.tandem, INPUTS the goldens: see scripts/gpu-pairs.
// Activations are bf16 here and f32 in the goldens, so texts may differ from
// theirs where two tokens are nearly as likely; what the drafter does must not
// change a bit.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/CudaApi.h"
#include "runtime/cuda/CudaContext.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/cuda/CudaHandle.h"
#include "test/ChatTurns.h"
#include "test/Golden.h"
#include "test/LoadedPair.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>

using namespace tandem;
using namespace tandem::test;

namespace {

/// From the command line.
std::string pairs, inputs, arch;
bool loopOnDevice = true;

/// Largest error of scores, as a part of the golden's largest magnitude.
/// bf16 has 8 bits, and every layer rounds the stream twice.
constexpr float kTolerance = 0.04f;

/// A pair of PAIRS on the GPU.
class Pair : public LoadedPair {
public:
  Pair(const std::string &name, bool loopOnDevice)
      : LoadedPair(pairs + "/" + name + "." + arch + ".tandem",
                   [loopOnDevice](const Artifact &artifact) {
                     return makeDevice(artifact, loopOnDevice);
                   }) {}

  /// The pair called \p name, loaded once.
  static Pair &get(const std::string &name) {
    static std::map<std::string, Pair> loaded;
    auto found = loaded.find(name);
    if (found == loaded.end())
      found = loaded.try_emplace(name, name, loopOnDevice).first;
    return found->second;
  }

private:
  static StatusOr<std::unique_ptr<Device>> makeDevice(const Artifact &artifact,
                                                      bool loopOnDevice) {
    CudaOptions options;
    options.loopOnDevice = loopOnDevice;
    options.snapshots = conversationSnapshots;
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device,
                            CudaDevice::create(artifact, options));
    TANDEM_RETURN_IF_ERROR(device->loopProblem());
    return StatusOr<std::unique_ptr<Device>>(std::move(device));
  }
};

const Golden &getGolden(const std::string &name) {
  static std::map<std::string, Golden> goldens;
  auto found = goldens.find(name);
  if (found == goldens.end())
    found = goldens.emplace(name, Golden(inputs + "/" + name)).first;
  return found->second;
}

/// A text of 300 tokens.
const Ids &getLongPrompt() { return getGolden("tiny").prompts()[6].ids; }

constexpr const char *kPairs[] = {"tiny", "demo"};

//===----------------------------------------------------------------------===//
// Goldens
//===----------------------------------------------------------------------===//

/// Distance of two tensors.
struct Distance {
  float largest = 0, worst = 0;
  double squares = 0, goldenSquares = 0;

  Distance(std::span<const float> actual, std::span<const float> golden) {
    EXPECT_EQ(actual.size(), golden.size());
    for (size_t i = 0; i < std::min(actual.size(), golden.size()); ++i) {
      float error = std::abs(actual[i] - golden[i]);
      EXPECT_TRUE(std::isfinite(error)) << "value " << i;
      worst = std::max(worst, error);
      largest = std::max(largest, std::abs(golden[i]));
      squares += double(error) * error;
      goldenSquares += double(golden[i]) * golden[i];
    }
  }

  /// The largest error, as a part of the largest magnitude.
  float relative() const { return worst / largest; }
  /// Root of the mean of the squares, of errors over numbers.
  double rms() const { return std::sqrt(squares / goldenSquares); }
};

void expectNear(const char *pair, size_t prompt, const char *what,
                std::span<const float> actual, std::span<const float> golden) {
  Distance distance(actual, golden);
  std::printf("%-6s %2zu  %-13s %8.4f %8.4f\n", pair, prompt, what,
              distance.relative(), distance.rms());
  EXPECT_LE(distance.relative(), kTolerance) << what;
}

/// Places of the largest and of the second largest number.
std::pair<size_t, size_t> findLargest(std::span<const float> row) {
  size_t first = 0, second = row.size();
  for (size_t i = 1; i < row.size(); ++i) {
    if (row[i] > row[first]) {
      second = first;
      first = i;
    } else if (second == row.size() || row[i] > row[second]) {
      second = i;
    }
  }
  return {first, second};
}

TEST(GoldenTest, ScoresAreThoseOfTheGolden) {
  std::printf("pair prompt tensor        largest      rms   of the error, as a "
              "part of the golden's\n");
  size_t rows = 0, clear = 0, same = 0;
  for (const char *name : kPairs) {
    const Golden &golden = getGolden(name);
    for (size_t i = 0; i < golden.prompts().size(); ++i) {
      auto expected = golden.tensor(i, "logits");
      if (!expected)
        continue;
      const Ids &ids = golden.prompts()[i].ids;
      SCOPED_TRACE(std::string(name) + ", prompt " + std::to_string(i));
      std::vector<float> logits;
      Scores scores = Pair::get(name).score(ids, logits);
      expectNear(name, i, "logits", logits, *expected);
      expectNear(name, i, "features", scores.features,
                 *golden.tensor(i, "features"));
      ASSERT_EQ(logits.size(), expected->size());

      float largest = 0;
      for (float value : *expected)
        largest = std::max(largest, std::abs(value));
      size_t width = expected->size() / ids.size();
      bool sameAnchor = false;
      for (size_t row = 0; row < ids.size(); ++row) {
        auto of = [&](const std::vector<float> &all) {
          return std::span(all).subspan(row * width, width);
        };
        auto [first, second] = findLargest(of(*expected));
        bool isSame = findLargest(of(logits)).first == first;
        // Two numbers with such an error may change places.
        bool isClear = of(*expected)[first] - of(*expected)[second] >
                       2 * kTolerance * largest;
        EXPECT_TRUE(isSame || !isClear) << "row " << row;
        ++rows;
        clear += isClear;
        same += isSame;
        sameAnchor = isSame;
      }
      if (sameAnchor)
        expectNear(name, i, "draft_logits", scores.draftLogits,
                   *golden.tensor(i, "draft_logits"));
    }
  }
  std::printf("top-1: %zu of %zu rows are the golden's, %zu of them with a "
              "margin above the tolerance\n",
              same, rows, clear);
}

TEST(GoldenTest, TextsDoNotDependOnTheDrafter) {
  std::printf("pair prompt  accept length   golden's   ids that are the "
              "golden's\n");
  for (const char *name : kPairs) {
    double mean = 0, goldenMean = 0;
    int texts = 0;
    size_t index = 0;
    for (const GoldenPrompt &prompt : getGolden(name).prompts()) {
      SCOPED_TRACE(std::string(name) + ": " + prompt.text);
      size_t count = prompt.greedy.size();
      Generation drafted = Pair::get(name).generate(prompt.ids, count, true);
      Generation plain = Pair::get(name).generate(prompt.ids, count, false);
      EXPECT_EQ(drafted.ids, plain.ids);
      EXPECT_EQ(drafted.ids.size(), count);
      EXPECT_EQ(drafted.finishReason, FinishReason::Length);
      EXPECT_TRUE(plain.acceptLengths.empty());
      size_t common = std::mismatch(plain.ids.begin(), plain.ids.end(),
                                    prompt.greedy.begin(), prompt.greedy.end())
                          .first -
                      plain.ids.begin();
      // The golden's last round runs past the text.
      double expected = double(count - 1) / double(prompt.acceptLengths.size());
      std::printf("%-6s %2zu %14.2f %10.2f   %zu of %zu\n", name, index++,
                  drafted.meanAcceptLength(), expected, common, count);
      // Another text is accepted otherwise.
      if (common < count)
        continue;
      mean += drafted.meanAcceptLength();
      goldenMean += expected;
      ++texts;
    }
    ASSERT_GT(texts, 0);
    std::printf("%-6s those that are the golden's %.2f, the golden's %.2f\n",
                name, mean / texts, goldenMean / texts);
    EXPECT_GT(mean, 0.9 * goldenMean);
  }
}

//===----------------------------------------------------------------------===//
// Lossless
//===----------------------------------------------------------------------===//

TEST(LosslessTest, DrafterChangesNothing) { // P2.01, P2.02, P4.01
  const Ids &text = getLongPrompt();
  ASSERT_EQ(text.size(), 300u);
  size_t texts = 0;
  for (const char *name :
       {"tiny", "tiny-shuffled", "tiny-block-1", "tiny-block-2", "tiny-block-5",
        "tiny-block-11", "tiny-causal", "tiny-full"})
    for (size_t length : {1, 2, 3, 63, 64, 65, 300}) {
      SCOPED_TRACE(std::string(name) + ", prompt of " + std::to_string(length));
      Ids prompt = firstOf(text, length);
      Ids plain = Pair::get("tiny").generate(prompt, 48, false).ids;
      EXPECT_EQ(Pair::get(name).generate(prompt, 48, true).ids, plain);
      EXPECT_EQ(Pair::get(name).generate(prompt, 48, false).ids, plain);
      ++texts;
    }
  std::printf("%zu texts are the same with and without a drafter\n", texts);
}

// Which may be read in another order of sums.
TEST(LosslessTest, DrafterChangesNothingWithoutProgramsForShortPrompts) {
  const Ids &text = getLongPrompt();
  for (size_t length : {1, 2, 3, 63, 64, 65, 300}) {
    SCOPED_TRACE(length);
    Ids prompt = firstOf(text, length);
    Ids plain = Pair::get("tiny-long-chunks").generate(prompt, 48, false).ids;
    EXPECT_EQ(Pair::get("tiny-long-chunks").generate(prompt, 48, true).ids,
              plain);
  }
}

// A row's bits depend on that row's inputs, not on the rows that run with it.
TEST(LosslessTest, LaterRowsChangeNothing) {
  std::vector<float> all, some;
  Pair::get("tiny").score(firstOf(getLongPrompt(), 32), all);
  for (size_t length : {1, 7, 15, 16, 17, 31}) {
    Pair::get("tiny").score(firstOf(getLongPrompt(), length), some);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()))
        << "first " << length << " of 32 rows";
  }
}

// The tiny pair in other formats: zero points, codes of 8 bits, floats.
TEST(LosslessTest, Formats) {
  const Golden &golden = getGolden("tiny");
  for (const char *name : {"tiny-gptq", "tiny-ct-8-zeros", "tiny-fp8"}) {
    SCOPED_TRACE(name);
    Pair &pair = Pair::get(name);
    std::vector<float> logits;
    pair.score(golden.prompts()[0].ids, logits);
    expectNear(name + strlen("tiny-"), 0, "logits", logits,
               *golden.tensor(0, "logits"));
    for (size_t i : {0, 2, 5}) {
      const Ids &prompt = golden.prompts()[i].ids;
      EXPECT_EQ(pair.generate(prompt, 48, true).ids,
                pair.generate(prompt, 48, false).ids);
    }
  }
}

// All linear layers of this pair are dense.
TEST(LosslessTest, Bf16Weights) {
  Pair &pair = Pair::get("tiny-bf16");
  const Golden &golden = getGolden("tiny");
  std::vector<float> logits;
  pair.score(golden.prompts()[0].ids, logits);
  expectNear("bf16", 0, "logits", logits, *golden.tensor(0, "teacher_logits"));
  for (const GoldenPrompt &prompt : golden.prompts())
    EXPECT_EQ(pair.generate(prompt.ids, 48, true).ids,
              pair.generate(prompt.ids, 48, false).ids)
        << prompt.text;
}

TEST(LosslessTest, TheHostsLoopWritesTheSame) {
  Pair onHost("demo", /*loopOnDevice=*/false);
  for (const GoldenPrompt &prompt : getGolden("demo").prompts())
    for (bool useDrafter : {true, false}) {
      Generation here = Pair::get("demo").generate(prompt.ids, 96, useDrafter);
      Generation there = onHost.generate(prompt.ids, 96, useDrafter);
      EXPECT_EQ(here.ids, there.ids) << prompt.text;
      EXPECT_EQ(here.acceptLengths, there.acceptLengths) << prompt.text;
    }
}

TEST(LosslessTest, TurnsGoOnBehindTheLastQuestion) {
  for (bool onDevice : {true, false})
    for (const char *name : kPairs) {
      SCOPED_TRACE(std::string(name) + (onDevice ? "" : ", loop on the host"));
      Pair warm(name, onDevice);
      Pair &cold = Pair::get(name);
      std::vector<Ids> questions;
      for (const GoldenPrompt &prompt : getGolden(name).prompts())
        questions.push_back(firstOf(prompt.ids, 90));
      // A prefill of few rows and one of many sum in another order.
      auto areClose = [&](const Ids &text, uint32_t token, uint32_t other) {
        std::vector<float> logits;
        cold.score(text, logits);
        size_t width = logits.size() / text.size();
        std::span<const float> row = std::span(logits).last(width);
        float largest = 0;
        for (float value : row)
          largest = std::max(largest, std::abs(value));
        return std::abs(row[token] - row[other]) <= kTolerance * largest;
      };
      std::vector<Ids> drafted;
      for (bool useDrafter : {true, false}) {
        GenerateOptions options;
        // More tokens than the window of the tiny drafter has.
        options.maxNewTokens = 100;
        options.ignoreStopTokens = true;
        options.useDrafter = useDrafter;
        std::vector<Ids> answers =
            expectSameTurns(warm, cold, questions, options, areClose);
        if (useDrafter)
          drafted = answers;
        else
          EXPECT_EQ(answers, drafted);
      }
    }
}

/// A short text, for tools that make everything slow.
TEST(LosslessTest, OneText) {
  const Ids &prompt = getGolden("demo").prompts()[5].ids;
  EXPECT_EQ(Pair::get("demo").generate(prompt, 8, true).ids,
            Pair::get("demo").generate(prompt, 8, false).ids);
}

TEST(RepetitionTest, AThousandTimesTheSame) {
  const Ids &prompt = getGolden("demo").prompts()[5].ids;
  Generation first = Pair::get("demo").generate(prompt, 48, true);
  for (int i = 1; i < 1000; ++i) {
    Generation again = Pair::get("demo").generate(prompt, 48, true);
    ASSERT_EQ(again.ids, first.ids) << "repetition " << i;
    ASSERT_EQ(again.acceptLengths, first.acceptLengths) << "repetition " << i;
  }
}

// What does not fit is refused before anything is loaded.
TEST(MemoryTest, TooLittleIsRefused) {
  auto api = cuda::CudaApi::load();
  ASSERT_TRUE(api.isOk()) << api.status().message();
  auto context = cuda::CudaContext::create(**api, 0);
  ASSERT_TRUE(context.isOk()) << context.status().message();
  uint64_t free = 0, total = 0;
  ASSERT_TRUE(context->memory(free, total).isOk());
  // Less than what the driver needs for code and graphs.
  auto taken =
      cuda::allocateDevice(**api, free - (uint64_t(48) << 20), "a test");
  ASSERT_TRUE(taken.isOk()) << taken.status().message();
  auto artifact = Artifact::open(pairs + "/tiny." + arch + ".tandem");
  ASSERT_TRUE(artifact.isOk());
  Status status = CudaDevice::create(*artifact, {}).status();
  std::printf("%s\n", status.message().c_str());
  EXPECT_EQ(status.code(), StatusCode::OutOfResources);
  EXPECT_NE(status.message().find(" of GPU memory: weights "),
            std::string::npos);
}

//===----------------------------------------------------------------------===//
// Where a text ends
//===----------------------------------------------------------------------===//

TEST(EndTest, TokensAreNeverMoreThanWanted) { // P3.13
  const Ids &prompt = getGolden("demo").prompts()[5].ids;
  Ids plain = Pair::get("demo").generate(prompt, 40, false).ids;
  for (size_t count = 1; count <= 40; ++count) {
    Generation result = Pair::get("demo").generate(prompt, count, true);
    EXPECT_EQ(result.ids, firstOf(plain, count));
    EXPECT_EQ(result.finishReason, FinishReason::Length);
  }
}

TEST(EndTest, ContextIsUsedUp) { // P3.11
  constexpr size_t kContext = 40;
  for (size_t length : {1, 20, 23, 24, 25, 37, 38, 39}) {
    SCOPED_TRACE("prompt of " + std::to_string(length));
    Ids prompt = firstOf(getLongPrompt(), length);
    // A pair of another context has other chunks, so other sums.
    auto &pair = Pair::get("tiny-context-40");
    Ids expected = pair.generate(prompt, kContext - length, false).ids;
    EXPECT_EQ(expected.size(), kContext - length);
    for (bool useDrafter : {true, false}) {
      Generation result = pair.generate(prompt, 100, useDrafter);
      EXPECT_EQ(result.ids, expected);
      EXPECT_EQ(result.finishReason, FinishReason::Length);
    }
  }
}

TEST(EndTest, StopTokenEndsTheText) {
  const Ids stops = {993, 995}; // of its generation_config.json
  size_t ended = 0;
  for (const GoldenPrompt &prompt : getGolden("tiny").prompts()) {
    SCOPED_TRACE(prompt.text);
    Ids all = Pair::get("tiny").generate(prompt.ids, 96, false).ids;
    auto stop =
        std::find_first_of(all.begin(), all.end(), stops.begin(), stops.end());
    bool stopped = stop != all.end();
    ended += stopped;
    size_t end = stopped ? size_t(stop - all.begin()) + 1 : all.size();
    for (bool useDrafter : {true, false}) {
      Generation result =
          Pair::get("tiny").generate(prompt.ids, 96, useDrafter, false);
      EXPECT_EQ(result.ids, firstOf(all, end));
      EXPECT_EQ(result.finishReason,
                stopped ? FinishReason::Stop : FinishReason::Length);
    }
  }
  EXPECT_GT(ended, 0u);
}

} // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  bool onHost = argc == 5 && std::string(argv[4]) == "--host-loop";
  if (argc != 4 && !onHost) {
    std::fprintf(stderr, "usage: %s PAIRS INPUTS ARCH [--host-loop]\n",
                 argv[0]);
    return 2;
  }
  pairs = argv[1];
  inputs = argv[2];
  arch = argv[3];
  loopOnDevice = !onHost;
  return RUN_ALL_TESTS();
}
