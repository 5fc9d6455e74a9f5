//===- CudaPorts.cpp - Ports in the memory of a device --------------------===//

#include "runtime/cuda/CudaPorts.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tandem::cuda {

/// Ports of at most so many bytes are read all together.
static constexpr uint64_t smallPort = 4096;
/// Copying a gap of so many bytes costs less than another copy.
static constexpr uint64_t smallGap = 16384;
/// Enough for the tokens and counts of many prefill chunks.
static constexpr uint64_t stagingSize = 1 << 20;

StatusOr<CudaPorts> CudaPorts::create(const CudaApi &api, Stream stream,
                                      const Artifact &artifact) {
  CudaPorts result(api, stream);
  const artifact::Artifact &root = artifact.root();
  for (uint32_t index = 0; index < root.ports()->size(); ++index)
    result.ports.push_back({root.ports()->Get(index)->offset(),
                            artifact.portBytes(index), std::nullopt});
  TANDEM_ASSIGN_OR_RETURN(result.memory,
                          allocateDevice(api, root.port_size(), "the ports"));
  TANDEM_ASSIGN_OR_RETURN(
      result.mirror, allocatePinned(api, result.planMirror(), "reading ports"));
  TANDEM_ASSIGN_OR_RETURN(result.staging,
                          allocatePinned(api, stagingSize, "writing ports"));
  if (root.port_size() > 0)
    TANDEM_RETURN_IF_ERROR(
        api.status(api.memset(result.memory.get(), 0, root.port_size(), stream),
                   "cuMemsetD8Async of the ports"));
  return result;
}

uint64_t CudaPorts::planMirror() {
  std::vector<uint32_t> order(ports.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t left, uint32_t right) {
    return ports[left].offset < ports[right].offset;
  });
  uint64_t mirrorSize = 0;
  for (uint32_t index : order) {
    Port &port = ports[index];
    if (port.size > smallPort)
      continue;
    if (groups.empty() ||
        port.offset > groups.back().offset + groups.back().size + smallGap)
      groups.push_back({port.offset, 0, mirrorSize});
    Group &group = groups.back();
    port.mirrorOffset = group.mirrorOffset + (port.offset - group.offset);
    group.size = std::max(group.size, port.offset + port.size - group.offset);
    mirrorSize = group.mirrorOffset + group.size;
  }
  std::erase_if(groups, [](const Group &group) { return group.size == 0; });
  return mirrorSize;
}

Status CudaPorts::synchronize() {
  TANDEM_RETURN_IF_ERROR(
      api->status(api->streamSynchronize(stream), "cuStreamSynchronize"));
  staged = 0;
  return Status();
}

Status CudaPorts::write(uint32_t index, std::span<const std::byte> data) {
  assert(index < ports.size() && data.size() <= ports[index].size);
  mirrorIsValid = false;
  DevicePointer target = address(index);
  while (!data.empty()) {
    if (staged == stagingSize)
      TANDEM_RETURN_IF_ERROR(synchronize());
    size_t size = std::min<uint64_t>(data.size(), stagingSize - staged);
    std::byte *piece = bytes(staging) + staged;
    std::memcpy(piece, data.data(), size);
    TANDEM_RETURN_IF_ERROR(
        api->status(api->memcpyHostToDevice(target, piece, size, stream),
                    "cuMemcpyHtoDAsync to a port"));
    staged += size;
    target += size;
    data = data.subspan(size);
  }
  return Status();
}

Status CudaPorts::updateMirror() {
  for (const Group &group : groups)
    TANDEM_RETURN_IF_ERROR(
        api->status(api->memcpyDeviceToHost(bytes(mirror) + group.mirrorOffset,
                                            memory.get() + group.offset,
                                            group.size, stream),
                    "cuMemcpyDtoHAsync from the ports"));
  TANDEM_RETURN_IF_ERROR(synchronize());
  mirrorIsValid = true;
  return Status();
}

Status CudaPorts::read(uint32_t index, std::span<std::byte> data) {
  assert(index < ports.size() && data.size() <= ports[index].size);
  const Port &port = ports[index];
  if (data.empty())
    return synchronize();
  if (port.mirrorOffset) {
    if (!mirrorIsValid)
      TANDEM_RETURN_IF_ERROR(updateMirror());
    std::memcpy(data.data(), bytes(mirror) + *port.mirrorOffset, data.size());
    return Status();
  }
  TANDEM_RETURN_IF_ERROR(api->status(
      api->memcpyDeviceToHost(data.data(), address(index), data.size(), stream),
      "cuMemcpyDtoHAsync from a port"));
  return synchronize();
}

} // namespace tandem::cuda
