//===- OutputFile.cpp - Files that appear when they are whole -------------===//

#include "runtime/OutputFile.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tandem {

StatusOr<OutputFile> OutputFile::create(const std::string &path) {
  struct stat info;
  bool exists = stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode))
    return invalidArgument("is a directory, not a file");
  std::string temporary;
  int file;
  if (exists && !S_ISREG(info.st_mode)) {
    file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    temporary = concat(path, ".tmp-", getpid());
    file =
        open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }
  if (file < 0)
    return systemError("cannot create", errno);
  return OutputFile(path, std::move(temporary), file);
}

OutputFile::~OutputFile() {
  if (file < 0)
    return;
  close(file);
  if (!temporary.empty())
    unlink(temporary.c_str());
}

Status OutputFile::write(std::span<const std::byte> data) {
  while (!data.empty()) {
    ssize_t written = ::write(file, data.data(), data.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return systemError("cannot write", errno);
    data = data.subspan(size_t(written));
  }
  return Status();
}

Status OutputFile::finish() {
  // A pipe cannot be synchronised, and need not.
  if (!temporary.empty() && fsync(file) != 0)
    return systemError("cannot write", errno);
  if (close(std::exchange(file, -1)) != 0) {
    int error = errno;
    if (!temporary.empty())
      unlink(temporary.c_str());
    return systemError("cannot write", error);
  }
  if (!temporary.empty() && rename(temporary.c_str(), path.c_str()) != 0) {
    int error = errno;
    unlink(temporary.c_str());
    return systemError("cannot rename", error);
  }
  return Status();
}

} // namespace tandem
