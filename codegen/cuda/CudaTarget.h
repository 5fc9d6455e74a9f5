//===- CudaTarget.h - GPUs that kernels are made for ------------*- C++ -*-===//

#ifndef TANDEM_CODEGEN_CUDA_CUDATARGET_H
#define TANDEM_CODEGEN_CUDA_CUDATARGET_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>

namespace tandem::codegen {

struct CudaTarget {
  /// As `--arch`: `sm_86`.
  std::string arch;
  /// What cubins are made for: `arch`, with instructions that later GPUs do not
  /// have (sm_90a). PTX, which later ones read, is made for `arch`.
  std::string cubinArch;
  /// Multiprocessors that there should be work for: those of A100, A10G, L40S
  /// and H200. Part of the order of sums, so one number per architecture.
  int64_t processors;
  /// Shared memory that a block may use, in bytes.
  int64_t sharedLimit;
  /// Whether it copies stretches of memory as a whole: cp.async.bulk.
  bool copiesStretches;
  /// Whether four warps multiply together: wgmma.
  bool multipliesInGroups;
  /// Whether kernels can wait for those in front of them: griddepcontrol.
  bool startsEarly;
};

/// The target \p arch. Errors: there is none of that name.
llvm::Expected<CudaTarget> getCudaTarget(llvm::StringRef arch);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CUDA_CUDATARGET_H
