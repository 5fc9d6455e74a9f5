//===- CudaContext.h - A GPU of this machine --------------------*- C++ -*-===//

#ifndef TANDEM_RUNTIME_CUDA_CUDACONTEXT_H
#define TANDEM_RUNTIME_CUDA_CUDACONTEXT_H

#include "runtime/cuda/CudaApi.h"

#include <utility>

namespace tandem::cuda {

/// A device and its primary context, which all users in a process share.
class CudaContext {
public:
  /// Takes device \p ordinal, as in `cuda:0`, and makes its context current.
  static StatusOr<CudaContext> create(const CudaApi &api, unsigned ordinal);

  CudaContext(CudaContext &&other) noexcept
      : api(other.api), device(other.device),
        context(std::exchange(other.context, nullptr)),
        deviceName(std::move(other.deviceName)),
        deviceArchitecture(other.deviceArchitecture),
        deviceSharedBytes(other.deviceSharedBytes) {}
  CudaContext &operator=(CudaContext &&) = delete;
  ~CudaContext();

  /// Makes the context that of the calling thread.
  Status makeCurrent() const {
    return api->status(api->contextSetCurrent(context), "cuCtxSetCurrent");
  }

  Context get() const { return context; }
  /// "NVIDIA A10G".
  const std::string &name() const { return deviceName; }
  /// Compute capability times 10.
  unsigned architecture() const { return deviceArchitecture; }
  /// Most shared memory of a block, bytes.
  uint32_t sharedBytes() const { return deviceSharedBytes; }
  /// What can be allocated at this moment, and what the device has, bytes.
  Status memory(uint64_t &free, uint64_t &total) const;

private:
  CudaContext(const CudaApi &api, DeviceNumber device)
      : api(&api), device(device) {}
  StatusOr<int> attribute(DeviceAttribute attribute) const;
  Status describeDevice();

  const CudaApi *api;
  DeviceNumber device;
  Context context = nullptr;
  std::string deviceName;
  unsigned deviceArchitecture = 0;
  uint32_t deviceSharedBytes = 0;
};

} // namespace tandem::cuda

#endif // TANDEM_RUNTIME_CUDA_CUDACONTEXT_H
