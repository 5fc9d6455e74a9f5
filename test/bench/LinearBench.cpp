//===- LinearBench.cpp - How fast linear kernels are ----------------------===//
//
// Compiles quant_linear and the head for every arithmetic and measures them on
// one thread, for several numbers of rows, beside plain reading of as many
// bytes. Weights are taken from more memory than caches hold, one copy after
// the other. Counters: bytes of weights a second, and multiplications.
//
//   ninja LinearBench && bin/LinearBench --benchmark_filter=i8
//
//===----------------------------------------------------------------------===//

#include "codegen/cpu/CpuCompiler.h"
#include "dialects/plan/PlanOps.h"
#include "runtime/KernelAbi.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

#include <benchmark/benchmark.h>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace tandem;

namespace {

/// More than what a core has to itself, and most of what cores share.
constexpr size_t memoryBytes = size_t(512) << 20;
constexpr int64_t maxRows = 64;

/// A kernel to measure: its text, and the bytes of its weight.
struct Case {
  std::string name;
  std::string family;
  std::string parameters;
  int64_t outputs, columns;
  size_t weightBytes;
  /// Items of a launch.
  int64_t items;
  TandemKernel kernel = nullptr;
  uint64_t scratch = 0;
};

std::vector<Case> makeCases() {
  std::vector<Case> cases;
  struct Shape {
    int64_t outputs, columns;
  };
  for (const char *arithmetic : {"f32", "bf16", "i8"}) {
    for (Shape shape : {Shape{18432, 2560}, {2560, 9216}, {7168, 1024}})
      cases.push_back({"w4_" + std::string(arithmetic) + "_" +
                           std::to_string(shape.outputs) + "x" +
                           std::to_string(shape.columns),
                       "quant_linear",
                       "arithmetic = " + std::string(arithmetic) +
                           ", bits = 4 : i64, group = 32 : i64, scale = bf16",
                       shape.outputs, shape.columns,
                       size_t(shape.outputs * shape.columns / 32 * 18),
                       shape.outputs / 16});
    if (std::strcmp(arithmetic, "i8") != 0)
      cases.push_back(
          {"dense_" + std::string(arithmetic) + "_16384x1024", "linear",
           "arithmetic = " + std::string(arithmetic) + ", element = bf16",
           16384, 1024, size_t(16384) * 1024 * 2, 1024});
  }
  return cases;
}

void *loadImage(const std::vector<char> &image) {
  int file = memfd_create("kernels", MFD_CLOEXEC);
  if (file < 0 || write(file, image.data(), image.size()) !=
                      static_cast<ssize_t>(image.size()))
    return nullptr;
  return dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW);
}

/// Compiles all cases for this processor; says what is wrong.
bool compile(std::vector<Case> &cases) {
  std::string text;
  for (const Case &one : cases)
    text += "plan.kernel @" + one.name + " " + one.family + " {" +
            one.parameters + ", outputs = " + std::to_string(one.outputs) +
            " : i64, columns = " + std::to_string(one.columns) + " : i64}\n";
  mlir::MLIRContext context;
  context.loadDialect<plan::PlanDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    return false;
  auto target = codegen::getCpuTarget("native");
  if (!target) {
    llvm::errs() << llvm::toString(target.takeError()) << "\n";
    return false;
  }
  auto image = codegen::compileCpuKernels(*module, *target);
  if (!image) {
    llvm::errs() << llvm::toString(image.takeError()) << "\n";
    return false;
  }
  void *handle = loadImage(image->sharedObject);
  for (size_t i = 0; handle && i < cases.size(); ++i) {
    cases[i].kernel =
        reinterpret_cast<TandemKernel>(dlsym(handle, cases[i].name.c_str()));
    cases[i].scratch = image->kernels[i].scratchBytes;
  }
  return handle != nullptr;
}

void measure(benchmark::State &state, const Case &one, std::byte *memory) {
  int64_t rows = state.range(0);
  std::vector<float> x(size_t(rows * one.columns));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = float(i % 37) * 0.1f - 1.8f;
  std::vector<float> y(size_t(rows * one.outputs));
  auto *scratch = static_cast<std::byte *>(
      std::aligned_alloc(64, (one.scratch + 127) / 64 * 64));
  size_t copies = memoryBytes / one.weightBytes, copy = 0;
  for (auto _ : state) {
    void *operands[] = {x.data(), memory + copy++ % copies * one.weightBytes,
                        y.data()};
    TandemKernelArgs arguments = {operands, rows, 0, one.items, scratch};
    one.kernel(&arguments);
  }
  using benchmark::Counter;
  state.counters["bytes"] =
      Counter(double(one.weightBytes), Counter::kIsIterationInvariantRate);
  state.counters["multiplications"] =
      Counter(double(rows * one.outputs * one.columns),
              Counter::kIsIterationInvariantRate);
  std::free(scratch);
}

void measureReading(benchmark::State &state, const std::byte *memory) {
  constexpr size_t piece = size_t(16) << 20;
  typedef uint64_t Vector __attribute__((vector_size(32)));
  size_t next = 0;
  Vector sums[8] = {};
  for (auto _ : state) {
    const auto *from = reinterpret_cast<const Vector *>(
        memory + next++ % (memoryBytes / piece) * piece);
    for (size_t i = 0; i < piece / sizeof(Vector); i += 8)
      for (size_t lane = 0; lane < 8; ++lane)
        sums[lane] += from[i + lane];
    benchmark::DoNotOptimize(sums);
  }
  state.counters["bytes"] = benchmark::Counter(
      double(piece), benchmark::Counter::kIsIterationInvariantRate);
}

} // namespace

int main(int argc, char **argv) {
  auto *memory = static_cast<std::byte *>(
      std::aligned_alloc(size_t(2) << 20, memoryBytes));
  std::memset(memory, 0x3c, memoryBytes);
  std::vector<Case> cases = makeCases();
  if (!compile(cases))
    return 1;
  benchmark::RegisterBenchmark(
      "read", [=](benchmark::State &state) { measureReading(state, memory); });
  for (const Case &one : cases) {
    auto *registered = benchmark::RegisterBenchmark(
        one.name.c_str(), [&one, memory](benchmark::State &state) {
          measure(state, one, memory);
        });
    for (int64_t rows : {1, 2, 4, 8, 16})
      registered->Arg(rows);
    registered->Arg(maxRows);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
