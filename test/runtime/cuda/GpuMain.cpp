//===- GpuMain.cpp - Tests that need a GPU --------------------------------===//
//
// Runs the tests of programs and loops on the real driver. Without one, or
// without a GPU, says so and exits with 77.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/CudaContext.h"
#include "runtime/cuda/CudaImage.h"

#include <cstdio>
#include <gtest/gtest.h>

using namespace tandem;

/// Prints what the tests run on.
static Status describeMachine() {
  TANDEM_ASSIGN_OR_RETURN(auto api, cuda::CudaApi::load());
  TANDEM_ASSIGN_OR_RETURN(cuda::CudaContext context,
                          cuda::CudaContext::create(*api, 0));
  uint64_t free = 0, total = 0;
  TANDEM_RETURN_IF_ERROR(context.memory(free, total));
  std::printf("%s, sm_%u, %u KiB of shared memory a block, %.1f GiB of %.1f "
              "GiB free, driver for CUDA %s\n",
              context.name().c_str(), context.architecture(),
              context.sharedBytes() >> 10, double(free) / (1 << 30),
              double(total) / (1 << 30),
              cuda::cudaVersionText(api->driverVersion()).c_str());
  return Status();
}

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  if (Status status = describeMachine(); !status.isOk()) {
    std::printf("skipped: %s\n", status.message().c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
