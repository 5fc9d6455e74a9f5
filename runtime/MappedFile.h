//===- MappedFile.h - A file as read-only memory ----------------*- C++ -*-===//
//
// Owns a private read-only mapping of a whole regular file. Pages come from
// the page cache when they are touched; the mapping stays valid when the file
// is renamed or removed, not when someone truncates it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_MAPPEDFILE_H
#define TANDEM_RUNTIME_MAPPEDFILE_H

#include "runtime/Status.h"

#include <cstddef>
#include <span>

namespace tandem {

class MappedFile {
public:
  /// Maps \p path, which may be a link to a regular file. Errors: it cannot be
  /// opened, is a directory, pipe or device. An empty file is an empty span.
  static StatusOr<MappedFile> open(const std::string &path);

  MappedFile(MappedFile &&other) noexcept
      : address(std::exchange(other.address, nullptr)),
        size(std::exchange(other.size, 0)) {}
  MappedFile &operator=(MappedFile &&other) noexcept {
    std::swap(address, other.address);
    std::swap(size, other.size);
    return *this;
  }
  ~MappedFile();

  /// All bytes of the file; page-aligned.
  std::span<const std::byte> bytes() const { return {address, size}; }

private:
  MappedFile(const std::byte *address, size_t size)
      : address(address), size(size) {}

  const std::byte *address;
  size_t size;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_MAPPEDFILE_H
