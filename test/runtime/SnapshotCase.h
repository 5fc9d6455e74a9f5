//===- SnapshotCase.h - What every device does with snapshots ---*- C++ -*-===//
//
// For the machines of CpuDeviceTest and CudaProgramsTest, which have the same
// programs: `calls` counts its runs in the first state and writes the count to
// the port `calls`.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_RUNTIME_SNAPSHOTCASE_H
#define TANDEM_TEST_RUNTIME_SNAPSHOTCASE_H

#include "test/runtime/TestArtifact.h"

#include <gtest/gtest.h>
#include <string>

namespace tandem::test {

/// \p spec with more states, in which the programs `calls 1` to `calls 4`
/// count.
inline ArtifactSpec withStates(ArtifactSpec spec) {
  spec.states[0].kind = "delta";
  for (const char *kind : {"key_value", "window", "conv", "key_value"}) {
    auto state = uint32_t(spec.states.size());
    // Sizes that are padded differently.
    spec.states.push_back(
        {"state" + std::to_string(state), 4 + 60 * state, {}, kind});
    for (ProgramSpec &program : spec.programs)
      if (program.name == "calls") {
        ProgramSpec other = program;
        other.name += " " + std::to_string(state);
        Operand &operand = other.launches[0].operands[0];
        operand = Operand(0, state, artifact::Space::state);
        spec.programs.push_back(other);
        break;
      }
  }
  return spec;
}

/// \p machine has room for two snapshots.
template <typename Machine> void expectSnapshots(Machine &machine) {
  ASSERT_EQ(machine.device->snapshots(), 2u);
  auto count = [&](const std::string &program) {
    machine.run(program.c_str());
    return machine.template read<int32_t>("calls", 1)[0];
  };
  auto countAll = [&] {
    return std::vector<int32_t>{count("calls"), count("calls 1"),
                                count("calls 2"), count("calls 3"),
                                count("calls 4")};
  };
  using Counts = std::vector<int32_t>;
  EXPECT_EQ(countAll(), (Counts{1, 1, 1, 1, 1}));
  ASSERT_TRUE(machine.device->save(1).isOk());
  EXPECT_EQ(countAll(), (Counts{2, 2, 2, 2, 2}));
  ASSERT_TRUE(machine.device->save(0).isOk());
  EXPECT_EQ(countAll(), (Counts{3, 3, 3, 3, 3}));
  // The first and the last key_value state go on.
  ASSERT_TRUE(machine.device->restore(1).isOk());
  EXPECT_EQ(countAll(), (Counts{2, 4, 2, 2, 4}));
  ASSERT_TRUE(machine.device->restore(0).isOk());
  EXPECT_EQ(countAll(), (Counts{3, 5, 3, 3, 5}));
  // More than once, and over another one.
  ASSERT_TRUE(machine.device->restore(1).isOk());
  ASSERT_TRUE(machine.device->save(0).isOk());
  EXPECT_EQ(countAll(), (Counts{2, 6, 2, 2, 6}));
  ASSERT_TRUE(machine.device->restore(0).isOk());
  EXPECT_EQ(countAll(), (Counts{2, 7, 2, 2, 7}));
  // Zeros are no part of them.
  ASSERT_TRUE(machine.device->reset().isOk());
  ASSERT_TRUE(machine.device->restore(1).isOk());
  Counts counts = countAll();
  // Keys and values may have stayed.
  counts[1] = counts[4] = 0;
  EXPECT_EQ(counts, (Counts{2, 0, 2, 2, 0}));
}

} // namespace tandem::test

#endif // TANDEM_TEST_RUNTIME_SNAPSHOTCASE_H
