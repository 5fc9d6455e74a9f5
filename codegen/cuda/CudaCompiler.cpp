//===- CudaCompiler.cpp - plan.kernel to cubins and PTX -------------------===//

#include "codegen/cuda/CudaCompiler.h"
#include "codegen/cuda/KernelFiles.h"
#include "codegen/cuda/Nvrtc.h"

#include <atomic>
#include <mutex>
#include <thread>

using namespace llvm;
using namespace tandem::codegen;

const CudaKernel *CudaImage::find(StringRef symbol) const {
  for (const CudaUnit &unit : units)
    for (const CudaKernel &kernel : unit.source.kernels)
      if (kernel.symbol == symbol)
        return &kernel;
  return nullptr;
}

Expected<CudaImage>
tandem::codegen::compileCudaKernels(mlir::ModuleOp planModule,
                                    const CudaTarget &target,
                                    const CudaOptions &options) {
  Expected<std::vector<CudaSource>> sources =
      emitCudaKernels(planModule, target);
  if (!sources)
    return sources.takeError();
  Expected<const Nvrtc *> nvrtc = Nvrtc::get();
  if (!nvrtc)
    return nvrtc.takeError();

  CudaImage image;
  image.target = target;
  image.compilerVersion = (*nvrtc)->getVersion();
  for (CudaSource &source : *sources)
    image.units.emplace_back().source = std::move(source);

  auto compile = [&](const CudaSource &source, StringRef arch) {
    return (*nvrtc)->compile(source.name + ".cu", source.text, getKernelFiles(),
                             arch);
  };
  auto makeCubin = [&](CudaUnit &unit) -> Error {
    Expected<NvrtcResult> result = compile(unit.source, target.cubinArch);
    if (!result)
      return result.takeError();
    unit.cubin = std::move(result->cubin);
    unit.log = std::move(result->log);
    if (target.cubinArch == target.arch)
      unit.ptx = std::move(result->ptx);
    return Error::success();
  };
  auto makePtx = [&](CudaUnit &unit) -> Error {
    StringRef number = target.arch;
    number.consume_front("sm_");
    Expected<NvrtcResult> result =
        compile(unit.source, ("compute_" + number).str());
    if (!result)
      return result.takeError();
    unit.ptx = std::move(result->ptx);
    return Error::success();
  };

  // All cubins, then PTX, where it is not what cubins are made of.
  size_t units = image.units.size();
  size_t tasks = target.cubinArch == target.arch ? units : 2 * units;
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  // The first one that has a problem, whichever thread meets it.
  size_t failedTask = tasks;
  std::string problem;
  auto work = [&] {
    for (size_t index; (index = next++) < tasks;) {
      CudaUnit &unit = image.units[index % units];
      Error error = index < units ? makeCubin(unit) : makePtx(unit);
      if (!error)
        continue;
      std::string text = toString(std::move(error));
      std::lock_guard<std::mutex> lock(mutex);
      if (index < failedTask) {
        failedTask = index;
        problem = std::move(text);
      }
    }
  };
  size_t threads = options.threads
                       ? options.threads
                       : std::max(1u, std::thread::hardware_concurrency());
  threads = std::min(threads, tasks);
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < threads; ++i)
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();
  if (!problem.empty())
    return createStringError(problem);
  return image;
}
