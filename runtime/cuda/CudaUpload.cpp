//===- CudaUpload.cpp - Weights from the file to a device -----------------===//

#include "runtime/cuda/CudaUpload.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace tandem::cuda {

/// Large enough for the full speed of the bus, small enough to be pinned fast.
static constexpr uint64_t pieceSize = 16 << 20;

/// Asks the system to read \p bytes from disk while the piece before is copied.
static void readAhead(std::span<const std::byte> bytes) {
  constexpr uintptr_t page = 4096;
  auto begin = reinterpret_cast<uintptr_t>(bytes.data()) / page * page;
  auto end = reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size();
  // Only a wish.
  (void)madvise(reinterpret_cast<void *>(begin), end - begin, MADV_WILLNEED);
}

Status uploadWeights(const CudaApi &api, Stream stream,
                     std::span<const std::byte> source, DevicePointer target,
                     const std::function<void(uint64_t, uint64_t)> &progress) {
  struct Piece {
    PinnedMemory memory;
    OwnedEvent sent;
  } pieces[2];
  uint64_t size = std::min<uint64_t>(pieceSize, source.size());
  for (Piece &piece : pieces) {
    TANDEM_ASSIGN_OR_RETURN(piece.memory,
                            allocatePinned(api, size, "loading the weights"));
    TANDEM_ASSIGN_OR_RETURN(piece.sent, createEvent(api, /*timing=*/false));
  }
  unsigned turn = 0;
  for (uint64_t done = 0; done < source.size(); turn ^= 1) {
    uint64_t count = std::min(pieceSize, source.size() - done);
    uint64_t ahead = std::min(pieceSize, source.size() - done - count);
    if (ahead > 0)
      readAhead(source.subspan(done + count, ahead));
    Piece &piece = pieces[turn];
    // An event that was never recorded has happened.
    TANDEM_RETURN_IF_ERROR(api.status(api.eventSynchronize(piece.sent.get()),
                                      "loading the weights"));
    std::memcpy(piece.memory.get(), source.data() + done, count);
    TANDEM_RETURN_IF_ERROR(
        api.status(api.memcpyHostToDevice(target + done, piece.memory.get(),
                                          count, stream),
                   "cuMemcpyHtoDAsync of the weights"));
    TANDEM_RETURN_IF_ERROR(api.status(api.eventRecord(piece.sent.get(), stream),
                                      "cuEventRecord behind the weights"));
    done += count;
    if (progress)
      progress(done, source.size());
  }
  return api.status(api.streamSynchronize(stream),
                    "cuStreamSynchronize behind the weights");
}

} // namespace tandem::cuda
