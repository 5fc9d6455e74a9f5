//===- Run.cpp - Launches kernels and judges what they write --------------===//

#include "test/cuda/Run.h"

#include <fstream>
#include <sstream>

using namespace tandem::gpucheck;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Memory::Memory(Run &run, size_t bytes) : run(run), bytes(bytes) {
  run.driver.expect(run.driver.memAlloc(&block, bytes + 2 * kGuard),
                    "cuMemAlloc");
  run.driver.expect(run.driver.memset(block, 0xa5, bytes + 2 * kGuard),
                    "cuMemset");
}

Memory::~Memory() {
  std::vector<unsigned char> guard(kGuard);
  for (DevicePointer at : {block, block + kGuard + bytes}) {
    run.driver.expect(run.driver.copyToHost(guard.data(), at, kGuard),
                      "cuMemcpyDtoH");
    for (unsigned char byte : guard)
      if (byte != 0xa5) {
        run.report("guard", "WRITTEN", false);
        break;
      }
  }
  run.driver.memFree(block);
}

void Memory::write(const void *from) {
  run.driver.expect(run.driver.copyToDevice(get(), from, bytes),
                    "cuMemcpyHtoD");
}

void Memory::read(void *to) const {
  run.driver.expect(run.driver.copyToHost(to, get(), bytes), "cuMemcpyDtoH");
}

void Memory::poison() {
  run.driver.expect(run.driver.memset(get(), 0xff, bytes), "cuMemset");
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "gpu-check: %s: cannot be read\n", path.c_str());
    std::exit(1);
  }
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Run::Run(const Driver &driver, const std::string &directory,
         const std::string &kind)
    : driver(driver), kind(kind) {
  driver.expect(driver.eventCreate(&begin, 0), "cuEventCreate");
  driver.expect(driver.eventCreate(&end, 0), "cuEventCreate");
  std::istringstream table(readFile(directory + "/" + kind + ".txt"));
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string name;
    LoadedKernel kernel;
    words >> name >> kernel.file >> kernel.block >> kernel.shared >>
        kernel.scratchBytes;
    for (auto &direction : kernel.grid)
      for (long &number : direction)
        words >> number;
    kernel.file = directory + "/" + kernel.file;
    kernels[name] = kernel;
  }
}

const LoadedKernel &Run::load(const std::string &name) {
  auto found = kernels.find(name);
  if (found == kernels.end()) {
    std::fprintf(stderr, "gpu-check: no kernel %s\n", name.c_str());
    std::exit(1);
  }
  LoadedKernel &kernel = found->second;
  if (kernel.function)
    return kernel;
  void *&module = modules[kernel.file];
  if (!module) {
    std::string image = readFile(kernel.file);
    driver.expect(
        driver.moduleLoad(&module, image.c_str(), 0, nullptr, nullptr),
        ("cuModuleLoadDataEx of " + kernel.file).c_str());
  }
  driver.expect(
      driver.moduleGetFunction(&kernel.function, module, name.c_str()),
      ("cuModuleGetFunction of " + name).c_str());
  // MAX_DYNAMIC_SHARED_SIZE_BYTES.
  if (kernel.shared > 48 * 1024)
    driver.expect(
        driver.functionSetAttribute(kernel.function, 8, int(kernel.shared)),
        ("cuFuncSetAttribute of " + name).c_str());
  // PREFERRED_SHARED_MEMORY_CARVEOUT, as the runtime has it.
  driver.functionSetAttribute(kernel.function, 9, 100);
  if (kernel.scratchBytes) {
    driver.expect(driver.memAlloc(&kernel.scratch, kernel.scratchBytes),
                  "cuMemAlloc");
    driver.expect(driver.memset(kernel.scratch, 0, kernel.scratchBytes),
                  "cuMemset");
  }
  return kernel;
}

void Run::enqueue(const std::string &name, std::vector<DevicePointer> operands,
                  int rows, void *stream, bool isProgrammatic) {
  const LoadedKernel &kernel = load(name);
  // No live rows: all are.
  operands.push_back(0);
  start(kernel, name, operands, rows, stream, isProgrammatic);
}

void Run::start(const LoadedKernel &kernel, const std::string &name,
                std::vector<DevicePointer> &pointers, int rows, void *stream,
                bool isProgrammatic) {
  std::vector<void *> parameters;
  for (DevicePointer &pointer : pointers)
    parameters.push_back(&pointer);
  DevicePointer scratch = kernel.scratch;
  parameters.push_back(&rows);
  parameters.push_back(&scratch);
  // PROGRAMMATIC_STREAM_SERIALIZATION.
  Driver::LaunchAttribute attribute = {6, 0, {1}};
  Driver::LaunchConfig config = {{},     {kernel.block, 1, 1}, kernel.shared,
                                 stream, &attribute,           isProgrammatic};
  for (int i = 0; i < 3; ++i) {
    auto [fixed, perRow, divisor, most, mostRows] = kernel.grid[i];
    long blocks =
        perRow ? fixed * ((perRow * rows + divisor - 1) / divisor) : fixed;
    if (most)
      blocks = std::min(blocks, most);
    config.grid[i] = unsigned(mostRows && rows > mostRows ? 1 : blocks);
  }
  driver.expect(driver.launchKernelEx(&config, kernel.function,
                                      parameters.data(), nullptr),
                ("cuLaunchKernelEx of " + name).c_str());
}

void Run::launch(const std::string &name,
                 const std::vector<const Memory *> &operands, int rows,
                 const Memory *live) {
  const LoadedKernel &kernel = load(name);
  std::vector<DevicePointer> pointers;
  for (const Memory *operand : operands)
    pointers.push_back(operand->get());
  pointers.push_back(live ? live->get() : 0);
  last = [this, &kernel, pointers, rows, name]() mutable {
    start(kernel, name, pointers, rows, nullptr, false);
  };
  last();
  driver.expect(driver.contextSynchronize(), ("running " + name).c_str());
}

double Run::time() {
  constexpr int count = 20;
  driver.expect(driver.eventRecord(begin, nullptr), "cuEventRecord");
  for (int i = 0; i < count; ++i)
    last();
  driver.expect(driver.eventRecord(end, nullptr), "cuEventRecord");
  driver.expect(driver.eventSynchronize(end), "cuEventSynchronize");
  float milliseconds = 0;
  driver.expect(driver.eventElapsedTime(&milliseconds, begin, end),
                "cuEventElapsedTime");
  return milliseconds * 1000 / count;
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

void Run::report(const std::string &what, const std::string &verdict,
                 bool good) {
  std::printf("%-5s %-62s %-28s %s\n", kind.c_str(), what.c_str(),
              verdict.c_str(), good ? "ok" : "FAILED");
  ++lines;
  failures += !good;
}

void Run::compare(const std::string &what, const std::vector<double> &expected,
                  const std::vector<float> &got, double limit,
                  double microseconds) {
  double squares = 0, worst = 0;
  for (double x : expected)
    squares += x * x;
  double rms =
      std::sqrt(squares / double(std::max<size_t>(expected.size(), 1)));
  bool finite = expected.size() <= got.size();
  for (size_t i = 0; finite && i < expected.size(); ++i) {
    double error = std::fabs(got[i] - expected[i]) /
                   (std::fabs(expected[i]) + rms + 1e-30);
    // Not a number is no small error.
    if (!(error <= 1e30))
      finite = false;
    worst = std::max(worst, error);
  }
  char text[64];
  if (microseconds > 0)
    std::snprintf(text, sizeof(text), "%.1e of %.0e %8.1f us", worst, limit,
                  microseconds);
  else
    std::snprintf(text, sizeof(text), "%.1e of %.0e", worst, limit);
  report(what, finite ? text : "NOT FINITE", finite && worst <= limit);
}
