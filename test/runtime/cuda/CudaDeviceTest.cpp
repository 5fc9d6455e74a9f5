//===- CudaDeviceTest.cpp - What a GPU device asks of the driver ----------===//

#include "test/runtime/cuda/CudaMachine.h"
#include "test/runtime/cuda/FakeDriver.h"
#include "test/runtime/cuda/TestPtx.h"

using namespace tandem;
using namespace tandem::test;
using cuda::Result;

namespace {

/// A new machine for every test, all of which is given back at its end.
class CudaDeviceTest : public testing::Test {
protected:
  void SetUp() override { fake = &fakeDriver(/*reset=*/true); }
  void TearDown() override {
    EXPECT_EQ(fake->liveObjects, 0u);
    EXPECT_EQ(fake->allocatedBytes, 0u);
    fakeDriver(/*reset=*/true);
  }

  /// Why there is no device for \p spec; "" when there is one.
  static std::string problemOf(const ArtifactSpec &spec, unsigned ordinal = 0) {
    CudaOptions options;
    options.ordinal = ordinal;
    return CudaMachine(spec, options).problem;
  }

  FakeMachine *fake;
};

/// Kernels as a cubin for sm_86, and as PTX.
ArtifactSpec cubinSpec() {
  ArtifactSpec spec = programsSpec();
  spec.arch = "sm_86";
  spec.images.insert(
      spec.images.begin(),
      {fakeCubin(86, {"add_weight", "count_calls", "count_in_scratch",
                      "reverse_in_shared", "log_blocks"}),
       artifact::ImageKind::cubin});
  return spec;
}

} // namespace

TEST_F(CudaDeviceTest, CubinsOfTheSameMajorRunOnNoSmallerMinor) {
  fake->minor = 9;
  EXPECT_EQ(problemOf(cubinSpec()), "");
  EXPECT_EQ(fake->calls["cuModuleLoadDataEx"], 1u);
}

TEST_F(CudaDeviceTest, PtxRunsWhereTheCubinDoesNot) { // P7.03
  fake->major = 9;
  fake->minor = 0;
  EXPECT_EQ(problemOf(cubinSpec()), "");
  fake->major = 8;
  EXPECT_EQ(problemOf(cubinSpec()), "");
}

TEST_F(CudaDeviceTest, ADriverTooOldForTheCubinGetsThePtx) {
  fake->driverVersion = 12040;
  EXPECT_EQ(problemOf(cubinSpec()), "");
}

TEST_F(CudaDeviceTest, OtherDeviceIsNamed) { // P7.03
  fake->major = 7;
  fake->minor = 5;
  EXPECT_EQ(problemOf(cubinSpec()), "built for sm_86, device is sm_75");
}

TEST_F(CudaDeviceTest, NeededDriverIsNamed) { // P7.02
  fake->driverVersion = 12080;
  ArtifactSpec spec = cubinSpec();
  spec.images.pop_back();
  EXPECT_EQ(problemOf(spec), "needs a driver for CUDA 13.0 or newer, the one "
                             "of this machine is for CUDA 12.8");
  spec.images = {
      {bytesOf(".version 99.0\n.target sm_80\n"), artifact::ImageKind::ptx}};
  EXPECT_EQ(problemOf(spec), "needs a driver for CUDA 103.0 or newer, the one "
                             "of this machine is for CUDA 12.8");
}

TEST_F(CudaDeviceTest, ImagesThatAreNoneAreNamed) {
  ArtifactSpec spec = cubinSpec();
  spec.images[0].data = bytesOf(std::string(100, 'x'));
  EXPECT_EQ(problemOf(spec), "images[0]: is not a cubin");
  spec.images[0].data = bytesOf("short");
  EXPECT_EQ(problemOf(spec), "images[0]: is too short for a cubin (5 bytes)");
  spec.images[0].kind = artifact::ImageKind::ptx;
  EXPECT_EQ(problemOf(spec),
            "images[0]: is not PTX: expected lines '.version N.N' and "
            "'.target sm_N' at its head");
}

TEST_F(CudaDeviceTest, PtxThatDoesNotCompileIsShown) {
  ArtifactSpec spec = programsSpec();
  spec.images[0].data = bytesOf(testPtx() + "a mistake");
  EXPECT_EQ(problemOf(spec),
            "images[0] (ptx for sm_80): cuModuleLoadDataEx of PTX: a PTX JIT "
            "compilation failed (CUDA_ERROR_INVALID_PTX): ptxas application "
            "ptx input, line 9; error   : Not a name of any known instruction");
}

TEST_F(CudaDeviceTest, KernelsAreCheckedAgainstTheirTables) {
  ArtifactSpec spec = programsSpec();
  spec.kernels[1].symbol = "cuont_calls";
  EXPECT_EQ(problemOf(spec),
            "kernels[1]: no image that runs on sm_86 has 'cuont_calls'");
  spec = programsSpec();
  spec.kernels[3].block = 512;
  EXPECT_EQ(problemOf(spec), "kernels[3] 'reverse_in_shared': is launched with "
                             "512 threads a block, can have 256");
  spec = programsSpec();
  spec.kernels[3].shared = 99 << 10;
  EXPECT_EQ(problemOf(spec),
            "kernels[3] 'reverse_in_shared': needs 99.1 KiB of shared memory, "
            "a block of this device has 99.0 KiB");
  spec = programsSpec();
  spec.programs[1].launches[0].operands.pop_back();
  EXPECT_EQ(problemOf(spec),
            "kernels[1] 'count_calls': parameter 2 has 8 bytes, the launch for "
            "a launch gives it 4");
}

TEST_F(CudaDeviceTest, SharedMemoryIsAskedForBeyond48KiBOnly) {
  EXPECT_EQ(problemOf(programsSpec()), "");
  EXPECT_EQ(fake->sharedAsked,
            (std::map<std::string, int>{{"reverse_in_shared", 64 << 10}}));
}

TEST_F(CudaDeviceTest, AllKernelsPreferSharedMemoryWhereLaunchesBeginEarly) {
  EXPECT_EQ(problemOf(programsSpec()), "");
  EXPECT_TRUE(fake->carveouts.empty()) << "on sm_86";

  fake->major = 9;
  fake->minor = 0;
  EXPECT_EQ(problemOf(programsSpec()), "");
  std::map<std::string, int> all;
  for (const KernelSpec &kernel : programsSpec().kernels)
    all[kernel.symbol] = 100;
  EXPECT_EQ(fake->carveouts, all);

  // What cannot be had is done without, but not the shared memory itself.
  fake->carveouts.clear();
  fake->sharedAsked.clear();
  fake->refusesCarveouts = true;
  EXPECT_EQ(problemOf(programsSpec()), "");
  EXPECT_TRUE(fake->carveouts.empty());
  EXPECT_EQ(fake->sharedAsked.count("reverse_in_shared"), 1u);
}

TEST_F(CudaDeviceTest, MissingDriverAndDevicesAreNamed) {
  fake->devices = 0;
  EXPECT_EQ(problemOf(programsSpec()),
            "there is no GPU: cuInit: no CUDA-capable device is detected "
            "(CUDA_ERROR_NO_DEVICE)");
  fake->devices = 1;
  EXPECT_EQ(problemOf(programsSpec(), 3),
            "there is no device cuda:3: this machine has 1 GPU, cuda:0");

  std::string library = std::getenv("TANDEM_LIBCUDA");
  setenv("TANDEM_LIBCUDA", "libno-such-driver.so.1", 1);
  std::string problem = problemOf(programsSpec());
  EXPECT_EQ(problem.find("cannot open the NVIDIA driver: "
                         "libno-such-driver.so.1: "),
            0u)
      << problem;
  EXPECT_EQ(problem.find('\n'), problem.npos);
  // Some library, but not that of a driver.
  setenv("TANDEM_LIBCUDA", "libm.so.6", 1);
  EXPECT_EQ(problemOf(programsSpec()),
            "the NVIDIA driver has no cuInit: a driver for CUDA 11.4 or newer "
            "is needed");
  setenv("TANDEM_LIBCUDA", library.c_str(), 1);
}

TEST_F(CudaDeviceTest, ArtefactForACpuIsRefused) {
  ArtifactSpec spec;
  spec.arch = "x86-64-v3";
  EXPECT_EQ(problemOf(spec), "compiled for x86-64-v3, not for a GPU");
  EXPECT_EQ(fake->calls["cuInit"], 0u);
}

TEST_F(CudaDeviceTest, TooMuchMemoryIsRefusedBeforeItIsAllocated) { // P7.13
  fake->freeBytes = size_t(100) << 20;
  ArtifactSpec spec = programsSpec();
  spec.stateSize = uint64_t(3) << 30;
  spec.arenaSize = uint64_t(1) << 30;
  spec.kernels[2].scratch = uint64_t(1) << 29;
  std::string problem = problemOf(spec);
  EXPECT_EQ(problem,
            "needs 4.6 GiB of GPU memory: weights 68 B, caches 3.0 GiB, arena "
            "1.0 GiB, scratch 512 MiB; 100 MiB of 24.0 GiB are free on Fake "
            "GPU: the function is too large for this machine");
  EXPECT_EQ(fake->calls["cuMemAlloc_v2"], 0u);
  spec.states[0] = {"state", uint64_t(1) << 30, {}, "delta"};
  CudaOptions options;
  options.snapshots = 2;
  problem = CudaMachine(spec, options).problem;
  EXPECT_NE(problem.find(", 2 snapshots 2.0 GiB, arena 1.0 GiB"), problem.npos)
      << problem;
  // A sum that does not fit into 64 bits.
  spec.kernels.resize(5, {.symbol = "count_calls"});
  for (KernelSpec &kernel : spec.kernels)
    kernel.scratch = uint64_t(1) << 48;
  EXPECT_NE(problemOf(spec).find("scratch 1310720 GiB"), std::string::npos);
}

TEST_F(CudaDeviceTest, EveryCallThatFailsIsNamedAndAllIsGivenBack) {
  // Whatever fails while a device is made leaves nothing behind: see TearDown.
  fake->failingCall = "cuMemAlloc_v2";
  fake->failure = Result::OutOfMemory;
  EXPECT_EQ(problemOf(programsSpec()),
            "cuMemAlloc of 68 B for the weights: out of memory "
            "(CUDA_ERROR_OUT_OF_MEMORY)");
  fake->callsBeforeFailure = fake->calls["cuMemAlloc_v2"] + 1;
  EXPECT_EQ(problemOf(programsSpec()),
            "cuMemAlloc of 64 B for the caches: out of memory "
            "(CUDA_ERROR_OUT_OF_MEMORY)");

  EXPECT_EQ((*fake = {}, problemOf(programsSpec())), "");
  std::map<std::string, unsigned> used = fake->calls;
  for (const auto &[call, count] : used)
    for (unsigned before = 0; before < count; ++before) {
      FakeMachine &machine = fakeDriver(/*reset=*/true);
      machine.failingCall = call;
      machine.callsBeforeFailure = before;
      std::string problem = problemOf(programsSpec());
      // Whether a kernel takes no more parameters is asked by failing.
      if (call != "cuFuncGetParamInfo" && call != "cuCtxSetCurrent") {
        EXPECT_NE(problem, "") << call << " " << before;
      }
      EXPECT_EQ(machine.liveObjects, 0u) << call << " " << before;
    }
}

TEST_F(CudaDeviceTest, ErrorsOfKernelsArriveWhenSomebodyWaits) {
  CudaMachine machine(programsSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  fake->failingKernel = "count_calls";
  machine.run("nothing");
  machine.run("calls");
  int32_t value = 0;
  Status status =
      machine.device->read(4, std::as_writable_bytes(std::span(&value, 1)));
  std::string expected =
      "program 'calls' or one before it: cuStreamSynchronize: an illegal "
      "memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)";
  EXPECT_EQ(status.message(), expected);
  // And every time from then on.
  EXPECT_FALSE(machine.device->run(0).isOk());
  EXPECT_FALSE(machine.device->read(0, {}).isOk());
}

TEST_F(CudaDeviceTest, NothingIsAllocatedBehindTheLoad) {
  CudaMachine machine(programsSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  size_t objects = fake->liveObjects;
  fake->calls.clear();
  for (unsigned turn = 0; turn < 3; ++turn) {
    machine.write<float>("input", std::vector<float>(1000, 1));
    machine.write<int32_t>("count", {5});
    machine.run("add");
    machine.read<float>("output", 1000);
    machine.read<int32_t>("count", 1);
    EXPECT_TRUE(machine.device->reset().isOk());
  }
  EXPECT_EQ(fake->liveObjects, objects);
  for (const char *call : {"cuMemAlloc_v2", "cuMemHostAlloc", "cuGraphCreate",
                           "cuGraphInstantiateWithFlags"})
    EXPECT_EQ(fake->calls[call], 0u) << call;
  EXPECT_EQ(fake->calls["cuGraphLaunch"], 3u);
}

TEST_F(CudaDeviceTest, SmallPortsAreReadTogether) {
  CudaMachine machine(programsSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  machine.run("calls");
  fake->calls.clear();
  machine.read<int32_t>("calls", 1);
  machine.read<int32_t>("count", 1);
  machine.read<int32_t>("log", 100);
  EXPECT_EQ(fake->calls["cuMemcpyDtoHAsync_v2"], 1u);
  EXPECT_EQ(fake->calls["cuStreamSynchronize"], 1u);
}

TEST_F(CudaDeviceTest, WeightsGoOverInPiecesWithProgress) {
  ArtifactSpec spec = programsSpec();
  spec.weights[0].data.resize(50 << 20);
  for (size_t index = 0; index < spec.weights[0].data.size(); ++index)
    spec.weights[0].data[index] = std::byte(index * 7 >> 10);
  std::vector<uint64_t> done;
  CudaOptions options;
  options.progress = [&](uint64_t now, uint64_t total) {
    done.push_back(now);
    EXPECT_EQ(total, (50u << 20) + 4);
  };
  CudaMachine machine(spec, options);
  ASSERT_TRUE(machine.device) << machine.problem;
  EXPECT_EQ(done, (std::vector<uint64_t>{16 << 20, 32 << 20, 48 << 20,
                                         (50 << 20) + 4}));
  // The weight behind the large one is in its place.
  machine.write<float>("input", {1});
  machine.write<int32_t>("count", {1});
  machine.run("add");
  EXPECT_EQ(machine.read<float>("output", 1)[0], 6);
}

TEST_F(CudaDeviceTest, OldDriversWithoutNewFunctionsDo) {
  fake->driverVersion = 11040;
  CudaMachine machine(programsSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  machine.run("calls");
  EXPECT_EQ(machine.read<int32_t>("calls", 1)[0], 1);
}

namespace {
/// A program of three launches of a kernel that can start early.
ArtifactSpec earlySpec() {
  ArtifactSpec spec = programsSpec();
  spec.kernels[1].startsEarly = true;
  for (ProgramSpec &program : spec.programs)
    if (program.name == "calls")
      program.launches.resize(3, program.launches.at(0));
  return spec;
}

/// What a run of it counts.
int32_t countCalls(CudaMachine &machine) {
  machine.run("calls");
  return machine.read<int32_t>("calls", 1)[0];
}
} // namespace

TEST_F(CudaDeviceTest, KernelsStartEarlyBehindKernelsWhereTheGpuCan) {
  CudaMachine old(earlySpec());
  ASSERT_TRUE(old.device) << old.problem;
  EXPECT_EQ(fake->calls["cuGraphAddDependencies_v2"], 0u);
  EXPECT_EQ(countCalls(old), 3);

  fake->major = 9;
  fake->minor = 0;
  CudaMachine machine(earlySpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  EXPECT_EQ(fake->kernelsEarly, std::vector<std::string>(2, "count_calls"));
  EXPECT_EQ(countCalls(machine), 3);
}

TEST_F(CudaDeviceTest, DriversThatRefuseEarlyKernelsGetThemLate) {
  fake->major = 9;
  fake->minor = 0;
  fake->refusesEarlyEdges = true;
  CudaMachine edges(earlySpec());
  ASSERT_TRUE(edges.device) << edges.problem;
  EXPECT_EQ(countCalls(edges), 3);

  fake->refusesEarlyEdges = false;
  fake->refusesEarlyGraphs = true;
  CudaMachine graphs(earlySpec());
  ASSERT_TRUE(graphs.device) << graphs.problem;
  EXPECT_EQ(countCalls(graphs), 3);
  EXPECT_TRUE(fake->kernelsEarly.empty());
}
