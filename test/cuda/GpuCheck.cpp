//===- GpuCheck.cpp - Runs every kernel on a GPU against plain loops ------===//
//
// TandemGpuCheck DIRECTORY [cubin|ptx]...
//
// DIRECTORY is what TandemGpuKernels has written. Prints a line for every
// kernel and shape; ends with 1 when one of them is wrong, with 77 when there
// is no driver.
//
//===----------------------------------------------------------------------===//

#include "test/cuda/Run.h"
#include "test/cuda/Suite.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

using namespace tandem::gpucheck;

namespace {
/// What the process that runs checks tells the one that started it.
struct Progress {
  /// The check that runs.
  size_t check;
  int failures, lines;
  bool isDone;
};
} // namespace

/// Runs the checks from progress.check on.
static void runChecks(const Suite &suite, const std::string &directory,
                      const std::string &kind, Progress &progress) {
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
  if (progress.check == 0)
    std::printf("%s, driver for CUDA %d.%d, %s\n", name, version / 1000,
                version % 1000 / 10, kind.c_str());

  Run run(driver, directory, kind);
  for (; progress.check < suite.checks.size(); ++progress.check) {
    // A kernel that does not end takes its process along.
    alarm(90);
    suite.checks[progress.check](run);
    progress.failures += std::exchange(run.failures, 0);
    progress.lines += std::exchange(run.lines, 0);
  }
  progress.isDone = true;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY [cubin|ptx]...\n", argv[0]);
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);
  std::vector<std::string> kinds(argv + 2, argv + argc);
  if (kinds.empty())
    kinds = {"cubin", "ptx"};

  if (!dlopen("libcuda.so.1", RTLD_NOW)) {
    std::fprintf(stderr, "gpu-check: %s\n", dlerror());
    return 77;
  }
  Suite suite = makeSuite();
  auto *progress = static_cast<Progress *>(
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (progress == MAP_FAILED)
    return 1;
  int failures = 0, lines = 0;
  for (const std::string &kind : kinds) {
    *progress = {};
    // After a fault on the device a process can do nothing more there, so the
    // checks behind it run in another.
    while (!progress->isDone && progress->check < suite.checks.size()) {
      pid_t child = fork();
      if (child == 0) {
        runChecks(suite, argv[1], kind, *progress);
        std::fflush(stdout);
        _exit(0);
      }
      int status = 0;
      if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
      if (progress->isDone)
        break;
      std::printf("%-5s check %zu of %zu ended its process (%s %d) FAILED\n",
                  kind.c_str(), progress->check + 1, suite.checks.size(),
                  WIFSIGNALED(status) ? "signal" : "status",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
      ++progress->failures;
      ++progress->lines;
      ++progress->check;
    }
    failures += progress->failures;
    lines += progress->lines;
  }
  std::printf("%d of %d failed\n", failures, lines);
  return failures != 0;
}
