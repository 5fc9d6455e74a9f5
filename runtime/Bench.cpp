//===- Bench.cpp - How fast a pair is -------------------------------------===//

#include "runtime/Bench.h"

#include "runtime/LoopDriver.h"
#include "runtime/Speculator.h"
#include "runtime/WeightTraffic.h"

#include <algorithm>
#include <chrono>
#include <map>

namespace tandem {

namespace {

/// Hands everything on to another device and measures the programs.
class TimingDevice final : public Device {
public:
  TimingDevice(Device &device, size_t programs)
      : seconds(programs), device(device) {}

  /// What ran before a text does not belong to it.
  Status reset() override {
    std::fill(seconds.begin(), seconds.end(), 0);
    return device.reset();
  }
  std::optional<double> busySeconds() const override {
    return device.busySeconds();
  }
  Status run(uint32_t program) override {
    auto begin = std::chrono::steady_clock::now();
    TANDEM_RETURN_IF_ERROR(device.run(program));
    // Reading nothing waits all the same.
    TANDEM_RETURN_IF_ERROR(device.read(0, {}));
    std::chrono::duration<double> duration =
        std::chrono::steady_clock::now() - begin;
    seconds[program] += duration.count();
    return Status();
  }
  Status write(uint32_t port, std::span<const std::byte> data) override {
    return device.write(port, data);
  }
  Status read(uint32_t port, std::span<std::byte> data) override {
    return device.read(port, data);
  }

  /// By program index.
  std::vector<double> seconds;

private:
  Device &device;
};

double median(std::vector<double> values) {
  auto middle = values.begin() + ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Rounds of a text.
size_t countRounds(const Generation &generation, bool useDrafter) {
  return useDrafter ? generation.acceptLengths.size()
                    : generation.ids.size() - 1;
}

class Bencher {
public:
  Bencher(const Artifact &artifact, Device &device,
          std::span<const uint32_t> prompt, const BenchOptions &options)
      : artifact(artifact), device(device), prompt(prompt), options(options) {}

  StatusOr<BenchResult> run() {
    BenchResult result;
    result.promptTokens = uint32_t(prompt.size());
    bool hasDrafter =
        artifact.root().loop() && artifact.root().loop()->draft() >= 0;
    // Side by side, so that whatever else the machine does hits both.
    Runs speculative, plain;
    for (unsigned repeat = 0; repeat < options.repeats; ++repeat) {
      // Each in front of the other as often: the first texts of a process are
      // slower.
      bool plainFirst = repeat % 2 == 1;
      if (plainFirst)
        TANDEM_RETURN_IF_ERROR(addRun(false, plain));
      if (hasDrafter)
        TANDEM_RETURN_IF_ERROR(addRun(true, speculative));
      if (!plainFirst)
        TANDEM_RETURN_IF_ERROR(addRun(false, plain));
    }
    result.newTokens = uint32_t(plain.last.ids.size());
    result.prefillSeconds = median((hasDrafter ? speculative : plain).prefill);
    if (hasDrafter) {
      TANDEM_ASSIGN_OR_RETURN(result.speculative, summarize(true, speculative));
    }
    TANDEM_ASSIGN_OR_RETURN(result.plain, summarize(false, plain));
    if (options.kernels)
      TANDEM_RETURN_IF_ERROR(addPrefillKernels(result.prefillKernels));
    result.sameIds = !hasDrafter || options.forcedAcceptLength ||
                     speculative.last.ids == plain.last.ids;
    return result;
  }

private:
  /// What was measured of one side.
  struct Runs {
    std::vector<double> prefill, decode, round, accepted, bytes, drafted;
    std::optional<HeadCounts> heads;
    Generation last;
  };

  const Artifact &artifact;
  Device &device;
  std::span<const uint32_t> prompt;
  const BenchOptions &options;

  StatusOr<Generation> write(Device &on, bool useDrafter) {
    TANDEM_ASSIGN_OR_RETURN(Speculator speculator,
                            Speculator::create(artifact, on));
    if (useDrafter && options.chooseRows)
      TANDEM_RETURN_IF_ERROR(speculator.measureRounds());
    GenerateOptions generate;
    generate.maxNewTokens = options.newTokens;
    generate.ignoreStopTokens = true;
    generate.useDrafter = useDrafter;
    generate.blockRows = options.blockRows;
    generate.chooseRows = options.chooseRows;
    if (useDrafter)
      generate.forcedAcceptLength = options.forcedAcceptLength;
    NullSink sink;
    return speculator.generate(prompt, generate, sink);
  }

  Status addRun(bool useDrafter, Runs &runs) {
    TANDEM_ASSIGN_OR_RETURN(std::optional<HeadCounts> before,
                            readHeadCounts(artifact, device));
    TANDEM_ASSIGN_OR_RETURN(runs.last, write(device, useDrafter));
    TANDEM_ASSIGN_OR_RETURN(std::optional<HeadCounts> after,
                            readHeadCounts(artifact, device));
    if (after)
      runs.heads = runs.heads.value_or(HeadCounts()) + (*after - *before);
    const Generation &text = runs.last;
    size_t rounds = countRounds(text, useDrafter);
    runs.prefill.push_back(text.prefillSeconds);
    runs.decode.push_back(text.decodeSeconds);
    runs.round.push_back(rounds ? text.decodeSeconds / double(rounds) : 0);
    runs.accepted.push_back(text.meanAcceptLength());
    runs.drafted.push_back(text.draftedShare());
    runs.bytes.push_back(
        weightBytesPerRound(artifact, useDrafter, text.draftedShare()));
    return Status();
  }

  StatusOr<BenchSide> summarize(bool useDrafter, const Runs &runs) {
    BenchSide side;
    side.weightBytesPerRound = median(runs.bytes);
    side.meanAcceptLength = median(runs.accepted);
    side.draftedShare = median(runs.drafted);
    side.heads = runs.heads;
    side.roundSeconds = median(runs.round);
    Generation typical = runs.last;
    typical.decodeSeconds = median(runs.decode);
    side.tokensPerSecond = typical.tokensPerSecond();
    if (side.roundSeconds == 0)
      return side;

    TimingDevice timing(device, artifact.root().programs()->size());
    TANDEM_ASSIGN_OR_RETURN(Generation timed, write(timing, useDrafter));
    const artifact::Loop &loop = *artifact.root().loop();
    std::vector<int32_t> programs = {loop.step()};
    if (useDrafter)
      programs = {loop.draft(), loop.verify(), loop.accept()};
    // Some rounds may be steps.
    if (useDrafter && options.chooseRows)
      programs.push_back(loop.step());
    for (int32_t program : programs)
      side.programSeconds.emplace_back(
          artifact.root().programs()->Get(uint32_t(program))->name()->str(),
          timing.seconds[size_t(program)] /
              double(countRounds(timed, useDrafter)));
    if (options.kernels)
      for (int32_t program : programs)
        TANDEM_RETURN_IF_ERROR(addKernels(uint32_t(program), side.kernels));
    return side;
  }

  /// Measures the launches that read the last chunk of the prompt, where it
  /// stands.
  Status addPrefillKernels(std::vector<KernelTime> &kernels) {
    LoopDriver driver(artifact, device);
    const artifact::Loop &loop = driver.loop();
    auto last = uint32_t((prompt.size() - 1) / loop.chunk() * loop.chunk());
    TANDEM_RETURN_IF_ERROR(driver.writeCount(driver.ports().accepted, 0));
    TANDEM_RETURN_IF_ERROR(driver.writeCount(driver.ports().start, last));
    ChunkPrograms programs = driver.chunkFor(prompt.size() - last);
    TANDEM_RETURN_IF_ERROR(addKernels(uint32_t(programs.prefill), kernels));
    if (!driver.hasDrafter())
      return Status();
    return addKernels(uint32_t(programs.context), kernels);
  }

  /// Measures the launches of \p program behind the text that was written last.
  Status addKernels(uint32_t program, std::vector<KernelTime> &kernels) {
    const artifact::Artifact &root = artifact.root();
    const auto &launches = *root.programs()->Get(program)->launches();
    // A step moves on by itself, up to a block beyond the context.
    size_t runs = std::min<size_t>(5, root.loop()->block());
    std::vector<std::vector<double>> seconds(launches.size());
    for (size_t run = 0; run < runs; ++run) {
      TANDEM_ASSIGN_OR_RETURN(std::vector<double> once,
                              device.profile(program));
      for (size_t index = 0; index < once.size(); ++index)
        seconds[index].push_back(once[index]);
    }
    std::map<std::string, KernelTime> byFamily;
    for (uint32_t index = 0; index < launches.size(); ++index) {
      const artifact::Launch &launch = *launches.Get(index);
      std::string family =
          root.kernels()->Get(launch.kernel())->family()->str();
      KernelTime &time = byFamily[family];
      time.family = family;
      time.program = root.programs()->Get(program)->name()->str();
      ++time.launches;
      time.seconds += median(seconds[index]);
      time.weightBytes += weightBytesRead(artifact, launch);
    }
    size_t first = kernels.size();
    for (auto &[family, time] : byFamily)
      kernels.push_back(std::move(time));
    std::sort(kernels.begin() + ptrdiff_t(first), kernels.end(),
              [](const KernelTime &left, const KernelTime &right) {
                return left.seconds > right.seconds;
              });
    return Status();
  }
};

} // namespace

StatusOr<BenchResult> bench(const Artifact &artifact, Device &device,
                            std::span<const uint32_t> prompt,
                            const BenchOptions &options) {
  assert(options.repeats >= 1 && options.newTokens >= 1);
  return Bencher(artifact, device, prompt, options).run();
}

std::vector<uint32_t> repeatIds(std::span<const uint32_t> ids, size_t length) {
  std::vector<uint32_t> result(length);
  for (size_t index = 0; index < length; ++index)
    result[index] = ids[index % ids.size()];
  return result;
}

} // namespace tandem
