//===- GpuCheck.cpp - Runs every kernel on a GPU against plain loops ------===//
//
// TandemGpuCheck DIRECTORY [cubin|ptx]...
//
// DIRECTORY is what TandemGpuKernels has written. Prints a line for every
// kernel and shape; ends with 1 when one of them is wrong.
//
//===----------------------------------------------------------------------===//

#include "test/cuda/Run.h"
#include "test/cuda/Suite.h"

using namespace tandem::gpucheck;

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY [cubin|ptx]...\n", argv[0]);
    return 2;
  }
  std::vector<std::string> kinds(argv + 2, argv + argc);
  if (kinds.empty())
    kinds = {"cubin", "ptx"};

  Driver driver;
  driver.expect(driver.init(0), "cuInit");
  int device = 0, version = 0;
  char name[100] = "";
  void *context = nullptr;
  driver.expect(driver.deviceGet(&device, 0), "cuDeviceGet");
  driver.expect(driver.deviceGetName(name, sizeof(name), device),
                "cuDeviceGetName");
  driver.expect(driver.driverGetVersion(&version), "cuDriverGetVersion");
  driver.expect(driver.primaryContextRetain(&context, device),
                "cuDevicePrimaryCtxRetain");
  driver.expect(driver.contextSetCurrent(context), "cuCtxSetCurrent");
  std::printf("%s, driver for CUDA %d.%d\n", name, version / 1000,
              version % 1000 / 10);

  Suite suite = makeSuite();
  int failures = 0, lines = 0;
  for (const std::string &kind : kinds) {
    Run run(driver, argv[1], kind);
    for (const auto &check : suite.checks)
      check(run);
    failures += run.failures;
    lines += run.lines;
    std::fflush(stdout);
  }
  std::printf("%d of %d failed\n", failures, lines);
  return failures != 0;
}
