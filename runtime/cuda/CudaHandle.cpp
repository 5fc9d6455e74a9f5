//===- CudaHandle.cpp - Owners of what the driver gives -------------------===//

#include "runtime/cuda/CudaHandle.h"

#include "runtime/cpu/Memory.h"

namespace tandem::cuda {

StatusOr<DeviceMemory> allocateDevice(const CudaApi &api, uint64_t size,
                                      std::string_view purpose) {
  if (size == 0)
    return DeviceMemory();
  DevicePointer pointer = 0;
  TANDEM_RETURN_IF_ERROR(api.status(api.memAlloc(&pointer, size),
                                    "cuMemAlloc of ", formatBytes(size),
                                    " for ", purpose));
  return DeviceMemory(api, pointer);
}

StatusOr<PinnedMemory> allocatePinned(const CudaApi &api, uint64_t size,
                                      std::string_view purpose) {
  if (size == 0)
    return PinnedMemory();
  void *pointer = nullptr;
  TANDEM_RETURN_IF_ERROR(
      api.status(api.memHostAlloc(&pointer, size, memHostAllocDeviceMap),
                 "cuMemHostAlloc of ", formatBytes(size), " for ", purpose));
  return PinnedMemory(api, pointer);
}

StatusOr<OwnedEvent> createEvent(const CudaApi &api, bool timing) {
  Event event = nullptr;
  TANDEM_RETURN_IF_ERROR(
      api.status(api.eventCreate(&event, timing ? 0 : eventDisableTiming),
                 "cuEventCreate"));
  return OwnedEvent(api, event);
}

} // namespace tandem::cuda
