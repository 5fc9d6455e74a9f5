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

  std::atomic<size_t> next = 0;
  std::mutex mutex;
  // Of the first unit that has one, whichever thread meets it.
  size_t failedUnit = image.units.size();
  std::string problem;
  auto work = [&] {
    for (size_t index; (index = next++) < image.units.size();) {
      CudaUnit &unit = image.units[index];
      Expected<NvrtcResult> result =
          (*nvrtc)->compile(unit.source.name + ".cu", unit.source.text,
                            getKernelFiles(), target.arch);
      if (!result) {
        std::string text = toString(result.takeError());
        std::lock_guard<std::mutex> lock(mutex);
        if (index < failedUnit) {
          failedUnit = index;
          problem = std::move(text);
        }
        continue;
      }
      unit.cubin = std::move(result->cubin);
      unit.ptx = std::move(result->ptx);
      unit.log = std::move(result->log);
    }
  };
  size_t threads = options.threads
                       ? options.threads
                       : std::max(1u, std::thread::hardware_concurrency());
  threads = std::min(threads, image.units.size());
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
