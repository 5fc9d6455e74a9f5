//===- Memory.h - Memory of a CPU device ------------------------*- C++ -*-===//

#ifndef TANDEM_RUNTIME_CPU_MEMORY_H
#define TANDEM_RUNTIME_CPU_MEMORY_H

#include "runtime/Status.h"

#include <cstddef>

namespace tandem {

/// Bytes this process can still use without swapping or being killed: what
/// the system has available, and what the limits of its memory control groups
/// leave. The page cache counts as available. The largest number when the
/// system does not say.
uint64_t availableMemory();

/// "3.1 GiB", "12 MiB", "300 KiB".
std::string formatBytes(uint64_t bytes);

/// Owns zeroed anonymous memory, page-aligned. Pages are given by the system
/// when they are first touched.
class PageMemory {
public:
  /// \p size bytes; 0 is fine and still has an address.
  static StatusOr<PageMemory> create(uint64_t size);

  PageMemory() = default;
  PageMemory(PageMemory &&other) noexcept
      : address(std::exchange(other.address, nullptr)),
        size(std::exchange(other.size, 0)) {}
  PageMemory &operator=(PageMemory &&other) noexcept {
    std::swap(address, other.address);
    std::swap(size, other.size);
    return *this;
  }
  ~PageMemory();

  std::byte *data() const { return address; }

private:
  std::byte *address = nullptr;
  size_t size = 0;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_CPU_MEMORY_H
