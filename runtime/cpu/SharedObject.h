//===- SharedObject.h - Code images from memory -----------------*- C++ -*-===//
//
// Owns a shared object that was loaded from bytes in memory. Its symbols are
// valid as long as it lives.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CPU_SHAREDOBJECT_H
#define TANDEM_RUNTIME_CPU_SHAREDOBJECT_H

#include "runtime/Status.h"

#include <cstddef>
#include <span>

namespace tandem {

class SharedObject {
public:
  /// Loads \p image through a file that has no name, or, where the system
  /// forbids to run such files, through a private temporary one that is
  /// removed at once.
  static StatusOr<SharedObject> load(std::span<const std::byte> image);

  SharedObject(SharedObject &&other) noexcept
      : handle(std::exchange(other.handle, nullptr)),
        file(std::exchange(other.file, -1)) {}
  SharedObject &operator=(SharedObject &&other) noexcept {
    std::swap(handle, other.handle);
    std::swap(file, other.file);
    return *this;
  }
  ~SharedObject();

  /// Address of an exported symbol; null when there is none.
  void *find(const char *symbol) const;

private:
  SharedObject(void *handle, int file) : handle(handle), file(file) {}

  void *handle;
  /// Open as long as the object is loaded: the loader knows objects by path,
  /// and the path holds this number.
  int file;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_CPU_SHAREDOBJECT_H
