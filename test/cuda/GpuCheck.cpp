//===- GpuCheck.cpp - Runs every kernel on a GPU against plain loops ------===//
//
// TandemGpuCheck DIRECTORY [cubin|ptx]...
// TandemGpuCheck DIRECTORY bench [cubin|ptx] [TITLE]...
//
// DIRECTORY is what TandemGpuKernels has written. Prints a line for every
// kernel and shape; ends with 1 when one of them is wrong, with 77 when there
// is no driver. bench: what the kernels of a large pair cost, or those of them
// whose titles begin with one of the given ones. With
// TANDEM_GPU_CHECKS=N only every Nth check, for tools that make them slow.
//
//===----------------------------------------------------------------------===//

#include "test/cuda/Benchmarks.h"
#include "test/cuda/Run.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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

/// Opens the device for this process; says what it is when \p isFirst.
static void openDevice(const Driver &driver, const std::string &kind,
                       bool isFirst) {
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
  if (isFirst)
    std::printf("%s, driver for CUDA %d.%d, %s\n", name, version / 1000,
                version % 1000 / 10, kind.c_str());
}

/// Runs the checks from progress.check on.
static void runChecks(const Suite &suite, const std::string &directory,
                      const std::string &kind, Progress &progress) {
  Driver driver;
  openDevice(driver, kind, progress.check == 0);
  const char *some = std::getenv("TANDEM_GPU_CHECKS");
  size_t every = some ? std::max(std::atoi(some), 1) : 1;
  Run run(driver, directory, kind);
  for (; progress.check < suite.checks.size(); ++progress.check) {
    if (progress.check % every != 0)
      continue;
    // A kernel that does not end takes its process along.
    alarm(some ? 900 : 90);
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
  if (!kinds.empty() && kinds[0] == "bench") {
    std::vector<Benchmark> benchmarks = addBenchmarks(suite);
    std::string kind = kinds.size() > 1 ? kinds[1] : "cubin";
    if (kinds.size() > 2)
      std::erase_if(benchmarks, [&](const Benchmark &bench) {
        return bench.title != "copy" &&
               std::none_of(kinds.begin() + 2, kinds.end(),
                            [&](const std::string &title) {
                              return bench.title.starts_with(title);
                            });
      });
    Driver driver;
    openDevice(driver, kind, true);
    Run run(driver, argv[1], kind);
    runBenchmarks(run, benchmarks);
    return 0;
  }
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
