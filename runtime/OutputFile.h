//===- OutputFile.h - Files that appear when they are whole -----*- C++ -*-===//

#ifndef TANDEM_RUNTIME_OUTPUTFILE_H
#define TANDEM_RUNTIME_OUTPUTFILE_H

#include "runtime/Status.h"

#include <cstddef>
#include <span>
#include <string>

namespace tandem {

/// A file that gets its name when it is finished, so that nobody ever finds
/// half of it. Until then it has none, or a temporary one where the file system
/// has no files without. A path that is a device or a pipe (/dev/stdout) is
/// written directly.
class OutputFile {
public:
  static StatusOr<OutputFile> create(const std::string &path);

  OutputFile(OutputFile &&other) noexcept
      : path(std::move(other.path)), temporary(std::move(other.temporary)),
        file(std::exchange(other.file, -1)), isDirect(other.isDirect) {}
  OutputFile &operator=(OutputFile &&other) noexcept {
    std::swap(path, other.path);
    std::swap(temporary, other.temporary);
    std::swap(file, other.file);
    std::swap(isDirect, other.isDirect);
    return *this;
  }
  /// Removes a file that was not finished.
  ~OutputFile();

  Status write(std::span<const std::byte> data);
  /// Brings everything to the disk and gives the file its name.
  Status finish();

private:
  OutputFile(std::string path, std::string temporary, int file, bool isDirect)
      : path(std::move(path)), temporary(std::move(temporary)), file(file),
        isDirect(isDirect) {}

  std::string path;
  /// Empty while the file has no name.
  std::string temporary;
  int file;
  /// Whether `path` itself is written.
  bool isDirect;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_OUTPUTFILE_H
