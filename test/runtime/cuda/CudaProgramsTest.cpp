//===- CudaProgramsTest.cpp - Programs on a GPU, or on the fake one -------===//
//
// Runs on both: nothing here knows that the driver may be a fake.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/SnapshotCase.h"
#include "test/runtime/cuda/CudaMachine.h"
#include "test/runtime/cuda/TestPtx.h"

#include <numeric>

using namespace tandem;
using namespace tandem::test;

TEST(CudaPrograms, LaunchesRunInOrderOnLiveRowsOnly) {
  CudaMachine machine(programsSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  std::vector<float> input(1000);
  std::iota(input.begin(), input.end(), 0.0f);
  machine.write("input", input);
  for (int32_t count : {7, 1000, 0, 5000}) {
    machine.write<float>("output", std::vector<float>(1000, -1));
    machine.write<int32_t>("count", {count});
    machine.run("add");
    auto output = machine.read<float>("output", 1000);
    for (size_t row = 0; row < 1000; ++row)
      ASSERT_EQ(output[row], int32_t(row) < count ? float(row) + 5 : -1);
  }
}

TEST(CudaPrograms, StatesOutliveProgramsUntilReset) {
  CudaMachine machine(programsSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  for (int32_t call : {1, 2, 3}) {
    machine.run("calls");
    EXPECT_EQ(machine.read<int32_t>("calls", 1)[0], call);
  }
  EXPECT_TRUE(machine.device->reset().isOk());
  EXPECT_EQ(machine.read<int32_t>("calls", 1)[0], 3);
  machine.run("calls");
  EXPECT_EQ(machine.read<int32_t>("calls", 1)[0], 1);
}

TEST(CudaPrograms, SnapshotsAreOfWhatCannotGoBack) {
  CudaOptions options;
  options.snapshots = 2;
  CudaMachine machine(withStates(programsSpec()), options);
  ASSERT_TRUE(machine.device) << machine.problem;
  expectSnapshots(machine);
}

TEST(CudaPrograms, ScratchIsZeroAtFirstAndKept) {
  CudaMachine machine(programsSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  for (int32_t call : {1, 2, 3}) {
    machine.run("scratch");
    EXPECT_EQ(machine.read<int32_t>("calls", 1)[0], call);
  }
}

TEST(CudaPrograms, ALotOfSharedMemoryIsAskedFor) {
  CudaMachine machine(programsSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  machine.run("shared");
  auto log = machine.read<int32_t>("log", 256);
  for (int32_t thread = 0; thread < 256; ++thread)
    ASSERT_EQ(log[size_t(thread)], (255 - thread) * 3);
}

TEST(CudaPrograms, GridsHaveThreeDimensions) {
  CudaMachine machine(programsSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  machine.run("grid");
  auto log = machine.read<int32_t>("log", 12);
  for (int32_t block = 0; block < 12; ++block)
    EXPECT_EQ(log[size_t(block)], block * 1000 + 32);
}

TEST(CudaPrograms, AProgramWithoutLaunchesDoesNothing) {
  CudaMachine machine(programsSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  machine.run("nothing");
  EXPECT_TRUE(machine.device->read(0, {}).isOk());
}

TEST(CudaPrograms, PortsAreZeroAtFirstAndShortWritesLeaveTheRest) {
  CudaMachine machine(programsSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  EXPECT_EQ(machine.read<float>("input", 4), (std::vector<float>(4)));
  machine.write<float>("input", {1, 2, 3});
  machine.write<float>("input", {9});
  EXPECT_EQ(machine.read<float>("input", 4), (std::vector<float>{9, 2, 3, 0}));
}

TEST(CudaPrograms, WritesKeepTheirOrderAmongRuns) {
  // What was written must not change before the program has read it.
  CudaMachine machine(programsSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  machine.write<float>("input", std::vector<float>(1000, 1));
  machine.write<int32_t>("count", {600});
  machine.run("add");
  machine.write<float>("input", std::vector<float>(1000, 2));
  machine.write<int32_t>("count", {300});
  machine.run("add");
  machine.write<int32_t>("count", {0});
  machine.write<float>("input", {7});
  machine.run("add");
  auto output = machine.read<float>("output", 601);
  EXPECT_EQ(output[299], 7);
  EXPECT_EQ(output[300], 6);
  EXPECT_EQ(output[599], 6);
  EXPECT_EQ(output[600], 0);
}

TEST(CudaPrograms, LargePortsGoThroughInPieces) {
  // Larger than the pinned memory that writes go through.
  CudaMachine machine(programsSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  std::vector<int32_t> data(600000);
  std::iota(data.begin(), data.end(), 17);
  machine.write("large", data);
  machine.write<int32_t>("count", {5});
  EXPECT_EQ(machine.read<int32_t>("large", data.size()), data);
  EXPECT_EQ(machine.read<int32_t>("count", 1)[0], 5);
}

TEST(CudaPrograms, TwoDevicesDoNotMixUp) {
  CudaMachine first(programsSpec()), second(programsSpec());
  ASSERT_TRUE(first.device && second.device);
  first.run("calls");
  first.run("calls");
  second.run("calls");
  EXPECT_EQ(first.read<int32_t>("calls", 1)[0], 2);
  EXPECT_EQ(second.read<int32_t>("calls", 1)[0], 1);
}

TEST(CudaPrograms, TimesAreMeasured) {
  CudaMachine machine(programsSpec());
  ASSERT_TRUE(machine.device) << machine.problem;
  ASSERT_TRUE(machine.device->startClock().isOk());
  machine.run("add");
  auto seconds = machine.device->stopClock();
  ASSERT_TRUE(seconds.isOk()) << seconds.status().message();
  EXPECT_GT(*seconds, 0);
  EXPECT_LT(*seconds, 1);

  auto launches =
      machine.device->profile(*machine.artifact->findProgram("add"));
  ASSERT_TRUE(launches.isOk()) << launches.status().message();
  ASSERT_EQ(launches->size(), 2u);
  for (double launch : *launches) {
    EXPECT_GT(launch, 0);
    EXPECT_LT(launch, 1);
  }
  auto bandwidth = machine.device->measureBandwidth();
  ASSERT_TRUE(bandwidth.isOk()) << bandwidth.status().message();
  EXPECT_GT(*bandwidth, 1e9);
}
