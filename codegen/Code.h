//===- Code.h - Compiled kernels, as an artefact holds them -----*- C++ -*-===//
//
// What the backends have in common for whoever writes a file: images of code,
// and the kernels in them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_CODE_H
#define TANDEM_CODEGEN_CODE_H

#include "codegen/cpu/CpuCompiler.h"
#include "codegen/cuda/CudaCompiler.h"
#include "runtime/Artifact_generated.h"

#include <optional>

namespace tandem::codegen {

struct CodeImage {
  artifact::ImageKind kind;
  std::vector<char> bytes;
};

struct CodeKernel {
  /// Exported symbol of the image: the name of the `plan.kernel`.
  std::string symbol;
  /// Its family, as the plan prints it.
  std::string family;
  /// Index of the image.
  uint32_t image = 0;
  /// Bytes: of a thread on a processor, of the whole grid on a GPU.
  uint64_t scratch = 0;
  /// GPU: threads and dynamic shared memory (bytes) of a block, the blocks of a
  /// launch, and whether it may begin early.
  uint32_t block = 0;
  uint32_t shared = 0;
  CudaGridRule grid;
  bool startsEarly = false;
};

struct Code {
  /// As `--arch`.
  std::string arch;
  /// Features that the processor must have, in the spelling of
  /// `__builtin_cpu_supports`; none for a GPU.
  std::optional<std::vector<std::string>> cpuFeatures;
  std::vector<CodeImage> images;
  /// In an order that depends on the plan alone.
  std::vector<CodeKernel> kernels;

  bool isForGpu() const { return !cpuFeatures; }
  /// Bytes of all images.
  uint64_t getSize() const;
};

/// The code of a processor: one image.
Code makeCode(const CpuTarget &target, CpuImage image);

/// The code of a GPU: for every unit of \p image a cubin, and behind it the
/// same kernels as PTX, for the driver of a device that the cubin is not for.
Code makeCode(CudaImage image);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CODE_H
