//===- CudaImage.h - What a code image says of itself -----------*- C++ -*-===//
//
// A cubin names its architecture in its ELF header, PTX in its first lines.
// Both tell how new a driver must be. Needs no driver.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_CUDAIMAGE_H
#define TANDEM_RUNTIME_CUDA_CUDAIMAGE_H

#include "runtime/Artifact_generated.h"
#include "runtime/Status.h"

#include <cstddef>
#include <span>

namespace tandem::cuda {

/// Version of CUDA of the oldest driver that the runtime uses, for any image.
inline constexpr int oldestCudaVersion = 11040;

/// "12.4" for 12040.
std::string cudaVersionText(int version);

struct ImageNeeds {
  /// Compute capability times 10: 86 for sm_86.
  unsigned architecture;
  /// Version of CUDA of the oldest driver that loads the image.
  int cudaVersion;
};

/// Reads it from \p image, which is of kind \p kind (cubin or ptx). Errors: the
/// bytes are no such image.
StatusOr<ImageNeeds> imageNeeds(artifact::ImageKind kind,
                                std::span<const std::byte> image);

/// Whether a device of compute capability \p device (times 10) runs an image
/// for \p architecture: a cubin wants the same major number and no smaller
/// minor one, PTX no smaller number.
bool runsOn(artifact::ImageKind kind, unsigned architecture, unsigned device);

} // namespace tandem::cuda

#endif // TANDEM_RUNTIME_CUDA_CUDAIMAGE_H
