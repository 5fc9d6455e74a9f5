//===- GpuSpeed.cpp - What launches, loops and copies cost on a GPU -------===//
//
// Prints numbers that decide how decoding is built; nothing of it can fail but
// the programs themselves.
//
//===----------------------------------------------------------------------===//

#include "runtime/Speculator.h"
#include "test/runtime/cuda/CudaMachine.h"
#include "test/runtime/cuda/TestPtx.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr unsigned repeats = 21;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void print(const char *what, double seconds) {
  std::printf("  %-58s %9.2f us\n", what, seconds * 1e6);
}

/// Median of the seconds that \p function takes on the device.
template <typename Function>
double onDevice(CudaDevice &device, const Function &function) {
  std::vector<double> seconds;
  for (unsigned turn = 0; turn < repeats; ++turn) {
    EXPECT_TRUE(device.startClock().isOk());
    function();
    auto time = device.stopClock();
    EXPECT_TRUE(time.isOk()) << time.status().message();
    seconds.push_back(time.isOk() ? *time : 0);
  }
  return median(seconds);
}

/// The same by the clock of the host.
template <typename Function> double onHost(const Function &function) {
  std::vector<double> seconds;
  for (unsigned turn = 0; turn < repeats; ++turn) {
    auto begin = std::chrono::steady_clock::now();
    function();
    std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - begin;
    seconds.push_back(time.count());
  }
  return median(seconds);
}

/// pairSpec() with programs of many launches: `steps` and `rounds`.
ArtifactSpec longSpec(unsigned count) {
  ArtifactSpec spec = pairSpec(16);
  auto repeat = [&](const char *name, std::vector<unsigned> programs) {
    ProgramSpec result{name, {}, {}, {}};
    for (unsigned turn = 0; turn < count; ++turn)
      for (unsigned program : programs)
        result.launches.push_back(spec.programs[program].launches[0]);
    spec.programs.push_back(std::move(result));
  };
  repeat("steps", {1});
  repeat("rounds", {3, 4, 5});
  return spec;
}

/// Runs rounds to their end and returns how many there were.
unsigned drain(RoundLoop &loop, bool withDrafter, uint32_t tokens) {
  unsigned rounds = 0;
  EXPECT_TRUE(loop.start(withDrafter, tokens, true).isOk());
  while (true) {
    auto next = loop.next();
    EXPECT_TRUE(next.isOk()) << next.status().message();
    if (!next.isOk() || next->empty())
      break;
    ++rounds;
  }
  EXPECT_TRUE(loop.stop().isOk());
  return rounds;
}

} // namespace

TEST(GpuSpeed, LaunchesAndRounds) {
  constexpr unsigned count = 200;
  CudaMachine machine(longSpec(count));
  ASSERT_TRUE(machine.device) << machine.problem;
  CudaDevice &device = *machine.device;
  RoundLoop *loop = device.roundLoop();
  ASSERT_TRUE(loop) << device.loopProblem().message();
  for (const char *port : {"start", "anchor", "accepted"})
    machine.write<int32_t>(port, {1});
  machine.write<int32_t>("block_count", {16});

  double step = onDevice(device, [&] { machine.run("steps"); }) / count;
  double round = onDevice(device, [&] { machine.run("rounds"); }) / count;
  print("kernel `step` in a graph of 200", step);
  print("draft, verify and accept in a graph of 600", round);

  double hostRound = onHost([&] {
    for (unsigned turn = 0; turn < count; ++turn) {
      machine.run("draft");
      machine.run("verify");
      machine.run("accept");
      machine.read<int32_t>("accepted", 1);
      machine.read<int32_t>("decided", 1);
    }
  });
  print("the same driven by the host, with the tokens read", hostRound / count);
  print("one graph launched and waited for by the host", onHost([&] {
          machine.run("step");
          (void)device.read(0, {});
        }));

  uint32_t tokens = 3000;
  unsigned rounds = 0;
  double plainLoop =
      onDevice(device, [&] { rounds = drain(*loop, false, tokens); }) / tokens;
  EXPECT_EQ(rounds, tokens);
  print("`step` and the end of a round in the loop", plainLoop);
  double draftLoop =
      onDevice(device, [&] { rounds = drain(*loop, true, tokens); });
  print("draft, verify, accept and the end of a round in the loop",
        draftLoop / rounds);
  print("so a turn of the loop adds to `step`", plainLoop - step);
  print("                    and to a round", draftLoop / rounds - round);
}

TEST(GpuSpeed, LatencyOfTheFirstToken) {
  CudaMachine machine(pairSpec(16));
  ASSERT_TRUE(machine.device) << machine.problem;
  RoundLoop *loop = machine.device->roundLoop();
  ASSERT_TRUE(loop);
  print("from the start of the loop to its first tokens", onHost([&] {
          EXPECT_TRUE(loop->start(false, 1, true).isOk());
          EXPECT_TRUE(loop->next().isOk());
          EXPECT_TRUE(loop->stop().isOk());
        }));
}

TEST(GpuSpeed, CopiesAndLoad) {
  ArtifactSpec spec = programsSpec();
  spec.weights[0].data.resize(size_t(1) << 30, std::byte(3));
  FileBytes file = spec.write();
  auto artifact = Artifact::view(file.bytes());
  ASSERT_TRUE(artifact.isOk());
  std::unique_ptr<CudaDevice> device;
  for (unsigned turn = 0; turn < 3; ++turn) {
    auto begin = std::chrono::steady_clock::now();
    auto created = CudaDevice::create(*artifact, {});
    ASSERT_TRUE(created.isOk()) << created.status().message();
    std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - begin;
    device = std::move(*created);
    std::printf("  load with 1 GiB of weights %37.2f s\n", time.count());
  }
  auto bandwidth = device->measureBandwidth();
  ASSERT_TRUE(bandwidth.isOk()) << bandwidth.status().message();
  std::printf("  memory of the device, read and written %25.0f GB/s\n",
              *bandwidth / 1e9);
}

TEST(GpuSpeed, AThousandTextsAreTheSame) {
  CudaMachine machine(pairSpec(16));
  ASSERT_TRUE(machine.device) << machine.problem;
  auto speculator = Speculator::create(*machine.artifact, *machine.device);
  ASSERT_TRUE(speculator.isOk());
  class Sink final : public TokenSink {
  public:
    bool token(uint32_t) override { return true; }
    bool keepGoing() override { return true; }
  } sink;
  std::vector<uint32_t> prompt = {5, 60, 2}, first;
  GenerateOptions options;
  options.maxNewTokens = 200;
  for (unsigned turn = 0; turn < 1000; ++turn) {
    auto result = speculator->generate(prompt, options, sink);
    ASSERT_TRUE(result.isOk()) << result.status().message();
    if (turn == 0)
      first = result->ids;
    ASSERT_EQ(result->ids, first) << turn;
  }
}
