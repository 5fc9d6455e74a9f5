//===- CpuDeviceTest.cpp - Programs on the processor ----------------------===//

#include "runtime/cpu/CpuDevice.h"
#include "runtime/MemoryAdvice.h"
#include "test/runtime/FakePair.h"
#include "test/runtime/SnapshotCase.h"
#include "test/runtime/TestArtifact.h"

#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <numeric>

#if defined(__x86_64__)
#include <cerrno>
#include <cstddef>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

using namespace tandem;
using namespace tandem::test;
using artifact::Space;

namespace {

std::vector<std::byte> readImage(const char *path) {
  std::ifstream stream(path, std::ios::binary);
  std::vector<char> bytes(std::istreambuf_iterator<char>(stream), {});
  EXPECT_FALSE(bytes.empty()) << path;
  auto *begin = reinterpret_cast<const std::byte *>(bytes.data());
  return {begin, begin + bytes.size()};
}

template <typename T> std::vector<std::byte> bytesOf(std::vector<T> values) {
  auto *begin = reinterpret_cast<const std::byte *>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}

/// Programs around the kernels of TestKernels.c.
ArtifactSpec kernelSpec() {
  ArtifactSpec spec;
  spec.arenaSize = 4096;
  spec.ports = {{"input", ElementType::f32, {100}},
                {"output", ElementType::f32, {100}},
                {"count"},
                {"log", ElementType::i32, {200}},
                {"calls"}};
  spec.states = {{"state", 4}};
  spec.weights = {{"unused", std::vector<std::byte>(5)},
                  {"weight", bytesOf<float>({2.5f})}};
  spec.images = {{readImage(TANDEM_TEST_KERNELS)}};
  spec.kernels = {
      {"add_weight"}, {"record"}, {"count_calls"}, {"use_scratch", 0, 800}};
  Operand input(0, 0, Space::port), output(0, 1, Space::port);
  Operand log(0, 3, Space::port), calls(0, 4, Space::port);
  Operand weight(0, 1, Space::weight), state(0, 0, Space::state);
  Operand arena(1024, 0, Space::arena);
  spec.programs = {// Through the arena, and so twice the weight.
                   {"add",
                    {0, 2},
                    {1},
                    {{0, {input, weight, arena}, 100, 2, 1, true},
                     {0, {arena, weight, output}, 100, 2, 1, true}}},
                   {"record", {}, {3}, {{1, {log}, 100, 2, 10, false}}},
                   {"calls", {}, {4}, {{2, {state, calls}, 1, -1, 1, false}}},
                   {"scratch", {}, {3}, {{3, {log}, 1, -1, 200, false}}}};
  return spec;
}

/// A device and what it stands on.
struct Machine {
  FileBytes file;
  std::optional<Artifact> artifact;
  std::unique_ptr<CpuDevice> device;

  explicit Machine(const ArtifactSpec &spec, unsigned threads = 2,
                   uint32_t snapshots = 0)
      : file(spec.write()) {
    auto opened = Artifact::view(file.bytes());
    EXPECT_TRUE(opened.isOk()) << opened.status().message();
    artifact = std::move(*opened);
    CpuOptions options;
    options.threads = threads;
    options.snapshots = snapshots;
    auto created = CpuDevice::create(*artifact, options);
    if (created.isOk())
      device = std::move(*created);
    else
      problem = created.status().message();
  }

  std::string problem;

  template <typename T>
  void write(const char *port, const std::vector<T> &data) {
    EXPECT_TRUE(
        device->write(*artifact->findPort(port), std::as_bytes(std::span(data)))
            .isOk());
  }
  template <typename T> std::vector<T> read(const char *port, size_t size) {
    std::vector<T> data(size);
    EXPECT_TRUE(device
                    ->read(*artifact->findPort(port),
                           std::as_writable_bytes(std::span(data)))
                    .isOk());
    return data;
  }
  void run(const char *program) {
    EXPECT_TRUE(device->run(*artifact->findProgram(program)).isOk());
  }
};

} // namespace

TEST(CpuDevice, RunsLaunchesInOrderOnLiveRowsOnly) {
  for (unsigned threads : {1u, 2u, 5u}) {
    Machine machine(kernelSpec(), threads);
    ASSERT_TRUE(machine.device) << machine.problem;
    EXPECT_EQ(machine.device->threads(), threads);
    std::vector<float> input(100);
    std::iota(input.begin(), input.end(), 0.0f);
    machine.write("input", input);
    machine.write<float>("output", std::vector<float>(100, -1));
    machine.write<int32_t>("count", {7});
    machine.run("add");
    auto output = machine.read<float>("output", 100);
    for (size_t row = 0; row < 100; ++row)
      EXPECT_EQ(output[row], row < 7 ? float(row) + 5 : -1);
  }
}

TEST(CpuDevice, SplitsItemsEvenly) {
  Machine machine(kernelSpec(), 3);
  ASSERT_TRUE(machine.device) << machine.problem;
  machine.write<int32_t>("count", {42});
  machine.run("record");
  auto log = machine.read<int32_t>("log", 20);
  std::vector<int32_t> begins;
  for (size_t item = 0; item < 10; ++item) {
    begins.push_back(log[2 * item]);
    EXPECT_EQ(log[2 * item + 1], 42);
  }
  EXPECT_EQ(begins, (std::vector<int32_t>{0, 0, 0, 0, 4, 4, 4, 7, 7, 7}));
}

TEST(CpuDevice, LiveRowsAreClampedToTheRowsOfTheLaunch) {
  Machine machine(kernelSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  for (int32_t count : {-5, 1000}) {
    machine.write<int32_t>("count", {count});
    machine.run("record");
    EXPECT_EQ(machine.read<int32_t>("log", 2)[1], count < 0 ? 0 : 100);
  }
}

TEST(CpuDevice, StatesOutliveProgramsUntilReset) {
  // Keys and values of earlier texts are in nobody's way.
  for (auto [kind, behind] :
       {std::pair("delta", 1), std::pair("conv", 1), std::pair("key_value", 4),
        std::pair("window", 4)}) {
    ArtifactSpec spec = kernelSpec();
    spec.states[0].kind = kind;
    Machine machine(spec);
    ASSERT_TRUE(machine.device) << machine.problem;
    for (int32_t call : {1, 2, 3}) {
      machine.run("calls");
      EXPECT_EQ(machine.read<int32_t>("calls", 1)[0], call);
    }
    EXPECT_TRUE(machine.device->reset().isOk());
    EXPECT_EQ(machine.read<int32_t>("calls", 1)[0], 3);
    machine.run("calls");
    EXPECT_EQ(machine.read<int32_t>("calls", 1)[0], behind) << kind;
  }
}

TEST(CpuDevice, SnapshotsAreOfWhatCannotGoBack) {
  Machine machine(withStates(kernelSpec()), 2, /*snapshots=*/2);
  ASSERT_TRUE(machine.device) << machine.problem;
  expectSnapshots(machine);
}

TEST(CpuDevice, SnapshotsNeedMemory) {
  ArtifactSpec spec = kernelSpec();
  spec.stateSize = uint64_t(100) << 40;
  spec.states.push_back({"large", uint64_t(50) << 40, {}, "delta"});
  std::string problem = Machine(spec, 2, /*snapshots=*/2).problem;
  EXPECT_NE(problem.find(", 2 snapshots 102400 GiB, arena "), problem.npos)
      << problem;
}

TEST(CpuDevice, EveryThreadHasScratchOfItsOwn) {
  Machine machine(kernelSpec(), 4);
  ASSERT_TRUE(machine.device) << machine.problem;
  machine.run("scratch");
  EXPECT_EQ(machine.read<int32_t>("log", 200), std::vector<int32_t>(200, 1));
}

TEST(CpuDevice, ShortWritesLeaveTheRestOfAPort) {
  Machine machine(kernelSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  machine.write<float>("input", {1, 2, 3});
  machine.write<float>("input", {9});
  EXPECT_EQ(machine.read<float>("input", 4), (std::vector<float>{9, 2, 3, 0}));
}

TEST(CpuDevice, TwoImagesAndTwoDevicesDoNotMixUp) {
  ArtifactSpec spec = kernelSpec();
  spec.images.push_back(spec.images[0]);
  spec.kernels[2].image = 1;
  Machine first(spec), second(spec);
  ASSERT_TRUE(first.device && second.device);
  first.run("calls");
  first.run("calls");
  second.run("calls");
  EXPECT_EQ(first.read<int32_t>("calls", 1)[0], 2);
  EXPECT_EQ(second.read<int32_t>("calls", 1)[0], 1);
}

TEST(CpuDevice, MissingKernelIsNamed) {
  ArtifactSpec spec = kernelSpec();
  spec.kernels[1].symbol = "recodr";
  EXPECT_EQ(Machine(spec).problem,
            "kernels[1]: images[0] does not export 'recodr'");
}

TEST(CpuDevice, OtherKernelAbiIsRefused) {
  ArtifactSpec spec = kernelSpec();
  spec.images[0].data = readImage(TANDEM_TEST_OTHER_ABI);
  EXPECT_EQ(Machine(spec).problem,
            "images[0]: kernel ABI 77, this qrun calls 1: recompile with this "
            "version of qcompile");
}

TEST(CpuDevice, ImageThatIsNoSharedObjectIsAnError) {
  ArtifactSpec spec = kernelSpec();
  spec.images[0].data.assign(1000, std::byte(1));
  EXPECT_EQ(Machine(spec).problem.find("cannot load the code image: "), 0u);
}

TEST(CpuDevice, UnknownFeatureIsRefused) {
  ArtifactSpec spec = kernelSpec();
  spec.cpuFeatures = {{"sse2", "avx1024"}};
  EXPECT_EQ(Machine(spec).problem,
            "the code needs the processor feature 'avx1024', which this qrun "
            "does not know");
}

#if defined(__x86_64__)
/// From here on arch_prctl fails in this process, as it may in a container.
bool denyArchPrctl() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter = {std::size(program), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(CpuDevice, TileRegistersThatTheSystemDeniesAreRefused) {
  if (!__builtin_cpu_supports("amx-tile"))
    GTEST_SKIP() << "this processor has no tile registers";
  ArtifactSpec spec = kernelSpec();
  spec.cpuFeatures = {{"sse2", "amx-tile"}};
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!denyArchPrctl())
      _exit(2);
    std::string problem = Machine(spec).problem;
    std::fprintf(stderr, "%s\n", problem.c_str());
    _exit(problem != "compiled for native, but the system does not let this "
                     "process use the processor's tile registers: "
                     "arch_prctl: Operation not permitted (recompile with "
                     "--arch x86-64-v4)");
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2)
    GTEST_SKIP() << "this system has no filters of system calls";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

TEST(CpuDevice, ArtefactForAGpuIsRefused) {
  ArtifactSpec spec = kernelSpec();
  spec.arch = "sm_86";
  spec.cpuFeatures.reset();
  for (ImageSpec &image : spec.images)
    image.kind = artifact::ImageKind::cubin;
  EXPECT_EQ(Machine(spec).problem, "compiled for sm_86, not for a CPU");
}

TEST(CpuDevice, TooMuchMemoryIsRefusedBeforeItIsAllocated) { // P7.13
  ArtifactSpec spec = kernelSpec();
  spec.stateSize = uint64_t(100) << 40;
  std::string problem = Machine(spec).problem;
  EXPECT_NE(problem.find("caches 102400 GiB"), problem.npos) << problem;
  EXPECT_NE(problem.find("the function is too large"), problem.npos) << problem;
}

TEST(CpuDevice, AdviceSaysWhatContextWouldFit) { // P7.13
  FakeOptions options;
  options.loop.maxContext = 8192;
  options.states = {{.name = "keys", .size = uint64_t(8) << 30}};
  FakePair pair(
      options, [](auto) { return 0u; },
      [](unsigned, uint32_t right) { return right; });
  EXPECT_EQ(adviseMemory(pair.artifact(), uint64_t(2) << 30),
            "compile with --max-context 6144 or less (now 8192)");
  EXPECT_EQ(adviseMemory(pair.artifact(), (uint64_t(2) << 30) + 1),
            "compile with --max-context 5888 or less (now 8192)");
  EXPECT_EQ(adviseMemory(pair.artifact(), uint64_t(8) << 30),
            "no shorter context would make it fit: it takes a smaller model or "
            "more memory");
  EXPECT_EQ(describeCaches(pair.artifact()), "caches 8.0 GiB");
}

TEST(Memory, SizesReadWell) {
  EXPECT_EQ(formatBytes(0), "0 B");
  EXPECT_EQ(formatBytes(1023), "1023 B");
  EXPECT_EQ(formatBytes(1536), "1.5 KiB");
  EXPECT_EQ(formatBytes(uint64_t(300) << 20), "300 MiB");
  EXPECT_EQ(formatBytes((uint64_t(5) << 30) / 2), "2.5 GiB");
}

TEST(Memory, SomeMemoryIsAvailable) {
  EXPECT_GT(availableMemory(), uint64_t(1) << 20);
}
