//===- CudaHandle.h - Owners of what the driver gives -----------*- C++ -*-===//

#ifndef TANDEM_RUNTIME_CUDA_CUDAHANDLE_H
#define TANDEM_RUNTIME_CUDA_CUDAHANDLE_H

#include "runtime/cuda/CudaApi.h"

#include <utility>

namespace tandem::cuda {

/// Owns a \p T, or nothing, and gives it back by the function \p Release of
/// the driver. The context must be current then, and the api alive. A failure
/// to give back has nobody to tell: the next call reports it.
template <typename T, auto Release> class CudaHandle {
public:
  CudaHandle() = default;
  CudaHandle(const CudaApi &api, T value) : api(&api), value(value) {}
  CudaHandle(CudaHandle &&other) noexcept
      : api(other.api), value(std::exchange(other.value, T())) {}
  CudaHandle &operator=(CudaHandle &&other) noexcept {
    std::swap(api, other.api);
    std::swap(value, other.value);
    return *this;
  }
  ~CudaHandle() {
    if (value)
      (void)(api->*Release)(value);
  }

  /// Zero or null when nothing is owned.
  T get() const { return value; }
  explicit operator bool() const { return value; }

private:
  const CudaApi *api = nullptr;
  T value = T();
};

using DeviceMemory = CudaHandle<DevicePointer, &CudaApi::memFree>;
/// Memory of the host that the device can copy from and to by itself.
using PinnedMemory = CudaHandle<void *, &CudaApi::memFreeHost>;
using OwnedStream = CudaHandle<Stream, &CudaApi::streamDestroy>;
using OwnedEvent = CudaHandle<Event, &CudaApi::eventDestroy>;
using OwnedModule = CudaHandle<Module, &CudaApi::moduleUnload>;
using OwnedGraph = CudaHandle<Graph, &CudaApi::graphDestroy>;
using OwnedGraphExec = CudaHandle<GraphExec, &CudaApi::graphExecDestroy>;

/// \p size bytes of the device, at a multiple of 256. Nothing for 0 bytes.
/// \p purpose ends the sentence "cuMemAlloc of 2.1 GiB for ".
StatusOr<DeviceMemory> allocateDevice(const CudaApi &api, uint64_t size,
                                      std::string_view purpose);

/// The same for pinned memory of the host.
StatusOr<PinnedMemory> allocatePinned(const CudaApi &api, uint64_t size,
                                      std::string_view purpose);

/// An event for measuring, or for ordering only.
StatusOr<OwnedEvent> createEvent(const CudaApi &api, bool timing);

} // namespace tandem::cuda

#endif // TANDEM_RUNTIME_CUDA_CUDAHANDLE_H
