//===- CudaLoopTest.cpp - Texts on a GPU, with the loop on it or not ------===//
//
// Runs on a GPU and on the fake driver, as CudaProgramsTest does.
//
//===----------------------------------------------------------------------===//

#include "runtime/Speculator.h"
#include "test/runtime/cuda/CudaMachine.h"
#include "test/runtime/cuda/TestPtx.h"

using namespace tandem;
using namespace tandem::test;

namespace {

/// Collects tokens, and may end or cancel the text.
class Collector final : public TokenSink {
public:
  std::vector<uint32_t> tokens;
  size_t most = ~size_t(0);
  unsigned callsUntilCancel = ~0u;

  bool token(uint32_t id) override {
    tokens.push_back(id);
    return tokens.size() < most;
  }
  bool keepGoing() override { return --callsUntilCancel > 0; }
};

/// A machine with a pair; \p onDevice says where its loop is to run.
struct Pair {
  CudaMachine machine;
  std::optional<Speculator> speculator;

  explicit Pair(bool onDevice, const ArtifactSpec &spec = pairSpec())
      : machine(spec, optionsFor(onDevice)) {
    if (!machine.device)
      return;
    const Status &problem = machine.device->loopProblem();
    EXPECT_TRUE(problem.isOk()) << problem.message();
    EXPECT_EQ(machine.device->roundLoop() != nullptr, onDevice);
    auto created = Speculator::create(*machine.artifact, *machine.device);
    EXPECT_TRUE(created.isOk());
    speculator.emplace(std::move(*created));
  }

  static CudaOptions optionsFor(bool onDevice) {
    CudaOptions options;
    options.loopOnDevice = onDevice;
    options.snapshots = 2;
    return options;
  }

  Generation write(const std::vector<uint32_t> &prompt,
                   const GenerateOptions &options, Collector &sink) {
    auto result = speculator->generate(prompt, options, sink);
    EXPECT_TRUE(result.isOk()) << result.status().message();
    return result.isOk() ? *result : Generation();
  }
  Generation write(const std::vector<uint32_t> &prompt, uint32_t newTokens,
                   bool useDrafter = true) {
    Collector sink;
    GenerateOptions options;
    options.maxNewTokens = newTokens;
    options.useDrafter = useDrafter;
    return write(prompt, options, sink);
  }
};

const std::vector<uint32_t> prompt = {5, 60, 2, 17, 90, 33, 8, 8, 41, 3};

/// What the target of the pair says behind the prompt.
std::vector<uint32_t> expectedTokens(size_t count) {
  std::vector<uint32_t> tokens;
  auto token = int32_t(prompt.back());
  for (size_t index = 0; index < count; ++index) {
    token = nextToken(token, int32_t(prompt.size() + index) - 1);
    tokens.push_back(uint32_t(token));
  }
  return tokens;
}

} // namespace

TEST(CudaLoop, DeviceHostAndPlainDecodingGiveTheSameIds) {
  for (uint32_t block : {1u, 2u, 4u, 16u, 40u}) {
    Pair onDevice(true, pairSpec(block)), onHost(false, pairSpec(block));
    ASSERT_TRUE(onDevice.speculator && onHost.speculator)
        << onDevice.machine.problem;
    for (uint32_t count : {1u, 2u, 3u, 50u, 300u}) {
      Generation device = onDevice.write(prompt, count);
      Generation host = onHost.write(prompt, count);
      EXPECT_EQ(device.ids, expectedTokens(count)) << block << " " << count;
      EXPECT_EQ(host.ids, device.ids);
      EXPECT_EQ(host.acceptLengths, device.acceptLengths);
      EXPECT_EQ(device.finishReason, FinishReason::Length);
      EXPECT_EQ(onDevice.write(prompt, count, /*useDrafter=*/false).ids,
                device.ids);
      EXPECT_EQ(onHost.write(prompt, count, /*useDrafter=*/false).ids,
                device.ids);
    }
  }
}

TEST(CudaLoop, ShortPromptsAreReadByTheirPrograms) {
  ArtifactSpec spec = pairSpec();
  constexpr uint32_t shortChunk = 3;
  auto port = uint32_t(spec.ports.size());
  spec.ports.push_back({"short_chunk", ElementType::i32, {shortChunk}});
  spec.ports.push_back({"short_features", ElementType::f32, {shortChunk, 2}});
  // As the prefill, from the other port.
  LaunchSpec launch = spec.programs[0].launches[0];
  launch.operands[0] = Operand(0, port, artifact::Space::port);
  LoopSpec &loop = *spec.loop;
  loop.shortChunk = shortChunk;
  loop.shortPrefill = int32_t(spec.programs.size());
  spec.programs.push_back({"short_prefill", {}, {}, {launch}});
  loop.shortContext = int32_t(spec.programs.size());
  spec.programs.push_back({"short_context"});
  for (bool isOnDevice : {true, false}) {
    Pair pair(isOnDevice, spec);
    ASSERT_TRUE(pair.speculator) << pair.machine.problem;
    // Chunks of eight, and what is left of up to three.
    for (size_t length : {1, 2, 3, 4, 7, 8, 9, 11, 12, 16, 19, 20}) {
      SCOPED_TRACE(length);
      std::vector<uint32_t> tokens(length);
      for (size_t index = 0; index < length; ++index)
        tokens[index] = uint32_t(index * 13 + length) % 90;
      uint32_t first =
          uint32_t(nextToken(int32_t(tokens.back()), int32_t(length) - 1));
      for (bool useDrafter : {true, false}) {
        GenerateOptions options;
        options.maxNewTokens = 5;
        options.useDrafter = useDrafter;
        options.reusePrefix = false;
        Collector sink;
        Generation result = pair.write(tokens, options, sink);
        ASSERT_EQ(result.ids.size(), 5u);
        EXPECT_EQ(result.ids.front(), first);
      }
    }
  }
}

TEST(CudaLoop, TheWholeContextCanBeFilled) {
  ArtifactSpec spec = pairSpec();
  spec.loop->maxContext = 200;
  Pair pair(true, spec);
  ASSERT_TRUE(pair.speculator) << pair.machine.problem;
  EXPECT_EQ(pair.write(prompt, 100000).ids, expectedTokens(190));
  EXPECT_EQ(pair.write(prompt, 100000, /*useDrafter=*/false).ids,
            expectedTokens(190));
}

TEST(CudaLoop, StopTokensEndTheRounds) {
  ArtifactSpec spec = pairSpec();
  std::vector<uint32_t> all = expectedTokens(200);
  // The second of two stop tokens, inside the text.
  spec.loop->stopTokens = {96, all[77]};
  while (std::find(all.begin(), all.end(), spec.loop->stopTokens[0]) !=
         all.end())
    spec.loop->stopTokens[0]--;
  auto end = std::find(all.begin(), all.end(), all[77]) + 1;
  for (bool useDrafter : {true, false}) {
    Pair pair(true, spec);
    ASSERT_TRUE(pair.speculator) << pair.machine.problem;
    Collector sink;
    GenerateOptions options;
    options.maxNewTokens = 200;
    options.useDrafter = useDrafter;
    Generation result = pair.write(prompt, options, sink);
    EXPECT_EQ(result.ids, std::vector<uint32_t>(all.begin(), end));
    EXPECT_EQ(result.finishReason, FinishReason::Stop);
    options.ignoreStopTokens = true;
    EXPECT_EQ(pair.write(prompt, options, sink).ids, all);
  }
}

TEST(CudaLoop, TheSinkCanEndAndCancelTheText) {
  Pair pair(true);
  ASSERT_TRUE(pair.speculator) << pair.machine.problem;
  GenerateOptions options;
  options.maxNewTokens = 3000;
  Collector ending;
  ending.most = 20;
  Generation result = pair.write(prompt, options, ending);
  EXPECT_EQ(result.ids, expectedTokens(20));
  EXPECT_EQ(result.finishReason, FinishReason::Stop);

  Collector cancelling;
  cancelling.callsUntilCancel = 12;
  result = pair.write(prompt, options, cancelling);
  EXPECT_EQ(result.finishReason, FinishReason::Cancelled);
  EXPECT_EQ(result.ids, expectedTokens(result.ids.size()));
  EXPECT_LT(result.ids.size(), 60u);
  // The next text knows nothing of it.
  EXPECT_EQ(pair.write(prompt, 30).ids, expectedTokens(30));
}

TEST(CudaLoop, TextsGoBackToSnapshots) {
  // Counts the chunks of the text in a state that cannot go back.
  ArtifactSpec spec = pairSpec();
  spec.ports.push_back({"chunks"});
  spec.states = {{"count", 4, {}, "delta"}};
  spec.kernels.push_back({.symbol = "count_calls"});
  spec.programs[0].launches.push_back(
      {.kernel = 5,
       .operands = {Operand(0, 0, artifact::Space::state),
                    Operand(0, uint32_t(spec.ports.size()) - 1,
                            artifact::Space::port)}});
  for (bool onDevice : {true, false}) {
    Pair pair(onDevice, spec);
    ASSERT_TRUE(pair.speculator) << pair.machine.problem;
    auto write = [&](const std::vector<uint32_t> &text, uint32_t reused,
                     int32_t chunks) {
      GenerateOptions options;
      options.maxNewTokens = 3000;
      options.reusePrefix = true;
      options.leavesAt = 9;
      // The device has run further than the text when that ends.
      Collector ending;
      ending.most = 20;
      Generation result = pair.write(text, options, ending);
      EXPECT_EQ(result.reusedTokens, reused);
      EXPECT_EQ(pair.machine.read<int32_t>("chunks", 1)[0], chunks);
      return result.ids;
    };
    // Chunks of 8: up to 8, 9 and 10 tokens.
    EXPECT_EQ(write(prompt, 0, 3), expectedTokens(20));
    std::vector<uint32_t> other(prompt.begin(), prompt.end() - 1);
    other.insert(other.end(), {1, 2, 3, 4, 5, 6, 7, 8, 9});
    std::vector<uint32_t> answer = write(other, 9, 4);
    EXPECT_EQ(write(prompt, 9, 3), expectedTokens(20));
    EXPECT_EQ(write(other, 9, 4), answer);
    // From nothing, with another text in between.
    EXPECT_EQ(write({1}, 0, 1).size(), 20u);
    EXPECT_EQ(write(other, 0, 4), answer);
  }
}
