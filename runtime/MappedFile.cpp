//===- MappedFile.cpp - A file as read-only memory ------------------------===//

#include "runtime/MappedFile.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tandem {

/// What keeps the file from being mapped, or success with its size.
static StatusOr<size_t> mappableSize(int file) {
  struct stat info;
  if (fstat(file, &info) != 0)
    return systemError("cannot read the size", errno);
  if (S_ISDIR(info.st_mode))
    return invalidFile("is a directory, not a file");
  if (!S_ISREG(info.st_mode))
    return invalidFile("is not a regular file");
  return static_cast<size_t>(info.st_size);
}

StatusOr<MappedFile> MappedFile::open(const std::string &path) {
  // O_NONBLOCK: opening a pipe without a writer must not hang.
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return systemError("cannot open", errno);
  StatusOr<size_t> size = mappableSize(file);
  if (!size.isOk() || *size == 0) {
    close(file);
    if (!size.isOk())
      return size.status();
    return MappedFile(nullptr, 0);
  }
  void *address = mmap(nullptr, *size, PROT_READ, MAP_PRIVATE, file, 0);
  int error = errno;
  close(file);
  if (address == MAP_FAILED)
    return systemError("cannot map", error);
  return MappedFile(static_cast<const std::byte *>(address), *size);
}

MappedFile::~MappedFile() {
  if (address)
    munmap(const_cast<std::byte *>(address), size);
}

} // namespace tandem
