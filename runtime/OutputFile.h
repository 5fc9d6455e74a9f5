//===- OutputFile.h - Files that appear when they are whole -----*- C++ -*-===//

#ifndef TANDEM_RUNTIME_OUTPUTFILE_H
#define TANDEM_RUNTIME_OUTPUTFILE_H

#include "runtime/Status.h"

#include <cstddef>
#include <span>
#include <string>

namespace tandem {

/// A file that is written under a temporary name beside its own and renamed at
/// the end, so that nobody ever finds half of it. A path that is a device or a
/// pipe (/dev/stdout) is written directly.
class OutputFile {
public:
  static StatusOr<OutputFile> create(const std::string &path);

  OutputFile(OutputFile &&other) noexcept
      : path(std::move(other.path)), temporary(std::move(other.temporary)),
        file(std::exchange(other.file, -1)) {}
  OutputFile &operator=(OutputFile &&other) noexcept {
    std::swap(path, other.path);
    std::swap(temporary, other.temporary);
    std::swap(file, other.file);
    return *this;
  }
  /// Removes a file that was not finished.
  ~OutputFile();

  Status write(std::span<const std::byte> data);
  /// Brings everything to the disk and gives the file its name.
  Status finish();

private:
  OutputFile(std::string path, std::string temporary, int file)
      : path(std::move(path)), temporary(std::move(temporary)), file(file) {}

  std::string path;
  /// Empty when `path` is written directly.
  std::string temporary;
  int file;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_OUTPUTFILE_H
