//===- CudaTarget.cpp - GPUs that kernels are made for --------------------===//

#include "codegen/cuda/CudaTarget.h"

#include "llvm/ADT/Twine.h"

using namespace llvm;
using namespace tandem::codegen;

/// sm_86 allows 99 KiB; a little of it is left to what kernels declare
/// themselves.
static constexpr int64_t kSharedLimit = 98 * 1024;

static const CudaTarget targets[] = {{"sm_80", 108, kSharedLimit},
                                     {"sm_86", 80, kSharedLimit},
                                     {"sm_89", 142, kSharedLimit},
                                     {"sm_90", 132, kSharedLimit}};

Expected<CudaTarget> tandem::codegen::getCudaTarget(StringRef arch) {
  for (const CudaTarget &target : targets)
    if (target.arch == arch)
      return target;
  return createStringError("expected sm_80, sm_86, sm_89 or sm_90 as --arch "
                           "of a GPU, got " +
                           arch);
}
