//===- CudaPorts.h - Ports in the memory of a device ------------*- C++ -*-===//
//
// What the host writes goes through pinned memory behind the work given
// before, without waiting. Reading waits; the small ports (counts and tokens)
// then come over all together, since whoever reads one reads the next.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_CUDAPORTS_H
#define TANDEM_RUNTIME_CUDA_CUDAPORTS_H

#include "runtime/Artifact.h"
#include "runtime/cuda/CudaHandle.h"

#include <span>
#include <vector>

namespace tandem::cuda {

class CudaPorts {
public:
  /// Allocates the ports of \p artifact. All work goes to \p stream, which
  /// outlives the ports.
  static StatusOr<CudaPorts> create(const CudaApi &api, Stream stream,
                                    const Artifact &artifact);

  /// Where port \p index lies on the device.
  DevicePointer address(uint32_t index) const {
    return memory.get() + ports[index].offset;
  }

  /// As Device::write and Device::read.
  Status write(uint32_t index, std::span<const std::byte> data);
  Status read(uint32_t index, std::span<std::byte> data);

  /// Waits for all work.
  Status synchronize();
  /// To be called when something else than write() changes ports.
  void changed() { mirrorIsValid = false; }

private:
  struct Port {
    uint64_t offset;
    uint64_t size;
    /// Where its copy lies in `mirror`; none for a large port.
    std::optional<uint64_t> mirrorOffset;
  };
  /// Ports that are copied to the mirror by one call.
  struct Group {
    uint64_t offset;
    uint64_t size;
    uint64_t mirrorOffset;
  };

  CudaPorts(const CudaApi &api, Stream stream) : api(&api), stream(stream) {}
  /// Plans the mirror; returns its size.
  uint64_t planMirror();
  Status updateMirror();
  std::byte *bytes(const PinnedMemory &pinned) const {
    return static_cast<std::byte *>(pinned.get());
  }

  const CudaApi *api;
  Stream stream;
  DeviceMemory memory;
  std::vector<Port> ports;
  std::vector<Group> groups;
  PinnedMemory mirror;
  bool mirrorIsValid = false;
  /// What was written and may not be on the device yet: the first `staged`
  /// bytes.
  PinnedMemory staging;
  uint64_t staged = 0;
};

} // namespace tandem::cuda

#endif // TANDEM_RUNTIME_CUDA_CUDAPORTS_H
