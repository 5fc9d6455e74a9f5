//===- OutputFile.cpp - Files that appear when they are whole -------------===//

#include "runtime/OutputFile.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tandem {

/// The folder that \p path lies in.
static std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Calls \p take with one temporary name beside \p path after the other until
/// it does not say that there is such a file. Returns the name; empty, with
/// errno, when it says something else.
template <typename Take>
static std::string takeName(const std::string &path, Take take) {
  // Processes of different containers have the same numbers.
  for (unsigned attempt = 0;; ++attempt) {
    std::string name = concat(path, ".tmp-", getpid(), "-", attempt);
    if (take(name.c_str()))
      return name;
    if (errno != EEXIST)
      return "";
  }
}

StatusOr<OutputFile> OutputFile::create(const std::string &path) {
  struct stat info;
  bool exists = stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode))
    return invalidArgument("is a directory, not a file");
  if (exists && !S_ISREG(info.st_mode)) {
    int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0)
      return systemError("cannot create", errno);
    return OutputFile(path, "", file, /*isDirect=*/true);
  }
  // Without a name, nothing is left of it when the process is killed.
  int file =
      open(folderOf(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (file >= 0)
    return OutputFile(path, "", file, /*isDirect=*/false);
  // Not every file system knows that.
  std::string temporary = takeName(path, [&](const char *name) {
    file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return file >= 0;
  });
  if (file < 0)
    return systemError("cannot create", errno);
  return OutputFile(path, std::move(temporary), file, /*isDirect=*/false);
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
  if (!isDirect && fsync(file) != 0)
    return systemError("cannot write", errno);
  if (!isDirect && temporary.empty()) {
    std::string self = concat("/proc/self/fd/", file);
    temporary = takeName(path, [&](const char *name) {
      return linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name,
                    AT_SYMLINK_FOLLOW) == 0;
    });
    if (temporary.empty())
      return systemError("cannot create", errno);
  }
  if (close(std::exchange(file, -1)) != 0) {
    int error = errno;
    if (!isDirect)
      unlink(temporary.c_str());
    return systemError("cannot write", error);
  }
  if (!isDirect && rename(temporary.c_str(), path.c_str()) != 0) {
    int error = errno;
    unlink(temporary.c_str());
    return systemError("cannot rename", error);
  }
  return Status();
}

} // namespace tandem
