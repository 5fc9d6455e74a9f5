//===- TextFile.cpp - Small files, whole ----------------------------------===//

#include "runtime/TextFile.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace tandem {

StatusOr<std::string> readTextFile(const std::string &path) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return systemError("cannot open", errno);
  std::string text;
  char buffer[1 << 16];
  while (true) {
    ssize_t size = read(file, buffer, sizeof(buffer));
    if (size < 0 && errno == EINTR)
      continue;
    if (size <= 0) {
      int error = errno;
      close(file);
      if (size < 0)
        return systemError("cannot read", error);
      return text;
    }
    text.append(buffer, size_t(size));
  }
}

} // namespace tandem
