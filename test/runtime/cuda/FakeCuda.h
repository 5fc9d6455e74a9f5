//===- FakeCuda.h - A CUDA driver without a GPU -----------------*- C++ -*-===//
//
// A shared object with the entry points of libcuda.so.1 that the runtime uses,
// for machines without a GPU. It is as unfriendly as a driver may be: memory
// of the device has addresses that the host cannot use and is full of garbage,
// and nothing happens before somebody waits for it. Kernels are functions of
// FakeKernels.cpp; an image only says which of them it has. Calls can be made
// to fail.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_RUNTIME_CUDA_FAKECUDA_H
#define TANDEM_TEST_RUNTIME_CUDA_FAKECUDA_H

#include "runtime/cuda/CudaTypes.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tandem::test {

/// What a fake kernel gets.
struct FakeLaunch {
  uint32_t gridX, gridY, gridZ;
  uint32_t blockX;
  uint32_t shared;
  std::vector<uint64_t> parameters;

  /// The memory behind parameter \p index: \p count elements of type T. Null,
  /// and the launch fails, when that is not memory of the device.
  template <typename T> T *memory(size_t index, size_t count = 1) const {
    return static_cast<T *>(find(parameters[index], count * sizeof(T)));
  }
  static void *find(uint64_t address, size_t size);
  /// As cudaGraphSetConditional in a kernel.
  static void setCondition(cuda::ConditionHandle handle, uint32_t value);
};

struct FakeKernel {
  std::function<void(const FakeLaunch &)> function;
  /// Bytes of each parameter.
  std::vector<uint32_t> parameterSizes;
  int maxThreads = 1024;
  int declaredShared = 0;
};

/// All kernels there are, by name.
const std::map<std::string, FakeKernel> &fakeKernels();

/// The machine, and what happened on it.
struct FakeMachine {
  int driverVersion = 13000;
  int devices = 1;
  int major = 8, minor = 6;
  int sharedBytes = 99 << 10;
  size_t freeBytes = size_t(1) << 30;
  size_t totalBytes = size_t(24) << 30;
  /// The call that fails, with what, after how many that do not.
  std::string failingCall;
  cuda::Result failure = cuda::Result::InvalidValue;
  unsigned callsBeforeFailure = 0;
  /// The kernel that touches memory it must not.
  std::string failingKernel;

  /// How often each function was called.
  std::map<std::string, unsigned> calls;
  /// Names of the kernels that ran.
  std::vector<std::string> kernelsRun;
  /// Kernels that may begin before those in front of them have ended.
  std::vector<std::string> kernelsEarly;
  /// Whether graphs with such kernels are refused: as edges, when a graph is
  /// made ready.
  bool refusesEarlyEdges = false, refusesEarlyGraphs = false;
  /// Most shared memory that each kernel asked to have.
  std::map<std::string, int> sharedAsked;
  /// Share of the memory of a multiprocessor that each kernel prefers to be
  /// shared memory, percent; and whether that is refused.
  std::map<std::string, int> carveouts;
  bool refusesCarveouts = false;
  /// Objects and memory not yet given back.
  size_t liveObjects = 0;
  size_t allocatedBytes = 0;
};

/// The symbol `fakeCudaMachine` of the shared object: the machine. `reset`
/// makes it a new one.
using FakeMachineFunction = FakeMachine *(*)(bool reset);

} // namespace tandem::test

#endif // TANDEM_TEST_RUNTIME_CUDA_FAKECUDA_H
