//===- CudaLoopFaultsTest.cpp - Loops on a GPU that go wrong --------------===//

#include "runtime/Speculator.h"
#include "test/runtime/cuda/CudaMachine.h"
#include "test/runtime/cuda/FakeDriver.h"
#include "test/runtime/cuda/TestPtx.h"

using namespace tandem;
using namespace tandem::test;

namespace {

class CudaLoopFaults : public testing::Test {
protected:
  void SetUp() override { fake = &fakeDriver(/*reset=*/true); }
  void TearDown() override {
    EXPECT_EQ(fake->liveObjects, 0u);
    fakeDriver(/*reset=*/true);
  }

  /// What writing a text with \p machine says; "" when it works.
  static std::string write(CudaMachine &machine) {
    auto speculator = Speculator::create(*machine.artifact, *machine.device);
    NullSink sink;
    std::vector<uint32_t> prompt = {5, 60, 2};
    GenerateOptions options;
    options.maxNewTokens = 100;
    return speculator->generate(prompt, options, sink).status().message();
  }

  /// pairSpec() with kernel \p bad in the place of \p good.
  static ArtifactSpec specWith(const std::string &good,
                               const std::string &bad) {
    ArtifactSpec spec = pairSpec();
    std::string ptx = testPtx();
    ptx.replace(ptx.find(".entry " + good + "("), 7 + good.size(),
                ".entry " + bad);
    spec.images[0].data = bytesOf(ptx);
    for (KernelSpec &kernel : spec.kernels)
      if (kernel.symbol == good)
        kernel.symbol = bad;
    return spec;
  }

  FakeMachine *fake;
};

} // namespace

TEST_F(CudaLoopFaults, OneGraphRunsAllRounds) {
  CudaMachine machine(pairSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  EXPECT_EQ(write(machine), "");
  // The prefill and the loop.
  EXPECT_EQ(fake->calls["cuGraphLaunch"], 2u);
}

TEST_F(CudaLoopFaults, OldDriversLeaveTheLoopToTheHost) {
  fake->driverVersion = 12020;
  CudaMachine machine(pairSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  EXPECT_EQ(machine.device->roundLoop(), nullptr);
  EXPECT_EQ(machine.device->loopProblem().message(),
            "the driver is for CUDA 12.2, loops on the device came with 12.4");
  EXPECT_EQ(write(machine), "");
}

TEST_F(CudaLoopFaults, ADriverThatRefusesTheLoopLeavesItToTheHost) {
  fake->failingCall = "cuGraphAddNode";
  CudaMachine machine(pairSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  EXPECT_EQ(machine.device->loopProblem().message(),
            "cuGraphAddNode for the loop: error 1");
  EXPECT_EQ(write(machine), "");
}

TEST_F(CudaLoopFaults, TokensThatAreNoneEndTheRounds) {
  CudaMachine machine(specWith("verify", "verify_badly"));
  ASSERT_TRUE(machine.device) << machine.problem;
  EXPECT_EQ(write(machine), "no token at position 31: the target's logits are "
                            "not finite there (got -1)");
  // No round ran on tokens that are none.
  EXPECT_EQ(fake->kernelsRun.back(), "tandem_round_end");
}

TEST_F(CudaLoopFaults, CountsThatAreNoneEndTheRounds) {
  CudaMachine machine(specWith("accept", "accept_badly"));
  ASSERT_TRUE(machine.device) << machine.problem;
  EXPECT_EQ(write(machine),
            "the programs count 77 accepted rows, expected 1 to 4");
}

TEST_F(CudaLoopFaults, ErrorsOfKernelsArrive) {
  CudaMachine machine(pairSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  fake->failingKernel = "verify";
  EXPECT_EQ(write(machine),
            "cuStreamQuery of the loop: an illegal memory access was "
            "encountered (CUDA_ERROR_ILLEGAL_ADDRESS)");
}
