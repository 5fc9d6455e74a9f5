//===- FakeDriver.cpp - The fake driver of the tests ----------------------===//

#include "test/runtime/cuda/FakeDriver.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <gtest/gtest.h>

namespace tandem::test {

FakeMachine &fakeDriver(bool reset) {
  static auto function = [] {
    void *library = dlopen(TANDEM_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "fakeCudaMachine") : nullptr;
    if (!symbol) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::abort();
    }
    return reinterpret_cast<FakeMachineFunction>(symbol);
  }();
  return *function(reset);
}

} // namespace tandem::test

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  // Also when somebody has a GPU.
  setenv("TANDEM_LIBCUDA", TANDEM_FAKE_CUDA, 1);
  return RUN_ALL_TESTS();
}
