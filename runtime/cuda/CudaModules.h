//===- CudaModules.h - The kernels of an artefact on a device ---*- C++ -*-===//
//
// Chooses among the code images those that the device and its driver run,
// loads them when a kernel asks for them, and finds the kernels.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_CUDAMODULES_H
#define TANDEM_RUNTIME_CUDA_CUDAMODULES_H

#include "runtime/Artifact.h"
#include "runtime/cuda/CudaHandle.h"
#include "runtime/cuda/CudaImage.h"

#include <vector>

namespace tandem::cuda {

/// What kernels can use of a device.
struct DeviceLimits {
  /// Compute capability times 10.
  unsigned architecture;
  /// Most shared memory of a block, bytes.
  uint32_t sharedBytes;
};

/// Loads \p image, which is of kind \p kind; of PTX, the driver makes code.
/// The message of a failure has the first line of the driver's log.
StatusOr<OwnedModule> loadModule(const CudaApi &api, artifact::ImageKind kind,
                                 std::span<const std::byte> image);

class CudaModules {
public:
  /// Looks at all images of \p artifact, which outlives the call only, and
  /// loads none. Errors: none of them is for this device; all that are need a
  /// newer driver. The message says what is needed and what was found.
  static StatusOr<CudaModules> create(const CudaApi &api,
                                      const DeviceLimits &limits,
                                      const Artifact &artifact);

  /// Finds kernel \p index of the same \p artifact and makes it ready to be
  /// launched as its table says. Errors: no image that runs here has it, it
  /// was compiled for fewer threads, it needs more shared memory than there is.
  StatusOr<Function> find(const Artifact &artifact, uint32_t index);

private:
  struct Image {
    ImageNeeds needs;
    /// Whether device and driver run it.
    bool usable;
    /// Nothing until a kernel asks for it.
    OwnedModule module;
  };

  CudaModules(const CudaApi &api, const DeviceLimits &limits)
      : api(&api), limits(limits) {}
  Status load(const Artifact &artifact, uint32_t image);
  Status prepare(const artifact::Kernel &kernel, Function function) const;

  const CudaApi *api;
  DeviceLimits limits;
  std::vector<Image> images;
};

} // namespace tandem::cuda

#endif // TANDEM_RUNTIME_CUDA_CUDAMODULES_H
