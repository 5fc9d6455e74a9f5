//===- FakeDriver.h - The fake driver of the tests --------------*- C++ -*-===//

#ifndef TANDEM_TEST_RUNTIME_CUDA_FAKEDRIVER_H
#define TANDEM_TEST_RUNTIME_CUDA_FAKEDRIVER_H

#include "test/runtime/cuda/FakeCuda.h"

namespace tandem::test {

/// The machine behind the driver that TANDEM_LIBCUDA names, which is the fake;
/// a new one with \p reset.
FakeMachine &fakeDriver(bool reset = false);

} // namespace tandem::test

#endif // TANDEM_TEST_RUNTIME_CUDA_FAKEDRIVER_H
