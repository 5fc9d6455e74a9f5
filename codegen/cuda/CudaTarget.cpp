//===- CudaTarget.cpp - GPUs that kernels are made for --------------------===//

#include "codegen/cuda/CudaTarget.h"

#include "llvm/ADT/Twine.h"

using namespace llvm;
using namespace tandem::codegen;

/// What a block may use of \p kilobytes: a little of it is left to what kernels
/// declare themselves.
static constexpr int64_t getShared(int64_t kilobytes) {
  return (kilobytes - 1) * 1024;
}

static const CudaTarget targets[] = {
    {"sm_80", "sm_80", 108, getShared(163), false, false, false},
    {"sm_86", "sm_86", 80, getShared(99), false, false, false},
    {"sm_89", "sm_89", 142, getShared(99), false, false, false},
    {"sm_90", "sm_90a", 132, getShared(227), true, true, true}};

Expected<CudaTarget> tandem::codegen::getCudaTarget(StringRef arch) {
  for (const CudaTarget &target : targets)
    if (target.arch == arch)
      return target;
  return createStringError("expected sm_80, sm_86, sm_89 or sm_90 as --arch "
                           "of a GPU, got " +
                           arch);
}
