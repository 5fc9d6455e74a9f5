//===- OutputFile.cpp - Files that appear when they are whole -------------===//

#include "codegen/OutputFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <random>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace llvm;
using namespace tandem::codegen;

/// First part of temporary names. The name of the file is not in them, because
/// it may be as long as names can be.
static constexpr StringLiteral kPrefix = ".tandem-tmp-";

static std::error_code lastError() {
  return std::error_code(errno, std::generic_category());
}

static Error errorAt(StringRef path, std::error_code error) {
  return createStringError(error, path + ": " + error.message());
}

/// Removes the temporary files in \p folder whose writers are gone: a writer
/// holds a lock on its file. A file that is not a minute old may be one that
/// its writer has not locked yet.
static void removeStaleFiles(StringRef folder) {
  std::error_code error;
  for (sys::fs::directory_iterator it(folder, error), end; it != end && !error;
       it.increment(error)) {
    if (!sys::path::filename(it->path()).starts_with(kPrefix))
      continue;
    int file = open(it->path().c_str(),
                    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0)
      continue;
    struct stat info;
    if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) &&
        std::time(nullptr) - info.st_mtime > 60 &&
        flock(file, LOCK_EX | LOCK_NB) == 0)
      unlink(it->path().c_str());
    close(file);
  }
}

/// Removes \p path when a signal ends the process. LLVM's handlers also take
/// over signals that are ignored, as under nohup; those stay ignored.
static void removeOnSignal(StringRef path) {
  constexpr int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR2};
  struct sigaction before[std::size(signals)];
  for (auto [number, action] : zip_equal(signals, before))
    sigaction(number, nullptr, &action);
  sys::RemoveFileOnSignal(path);
  for (auto [number, action] : zip_equal(signals, before))
    if (action.sa_handler == SIG_IGN)
      sigaction(number, &action, nullptr);
}

namespace {

/// Keeps signals waiting for this thread while it lives.
class HeldSignals {
public:
  HeldSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
  }
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }

private:
  sigset_t before;
};

} // namespace

OutputFile::OutputFile(StringRef path, std::string temporary, int file)
    : path(path), temporary(std::move(temporary)),
      stream(std::make_unique<raw_fd_ostream>(file, /*shouldClose=*/false)),
      file(file) {
  stream->SetBufferSize(size_t(1) << 20);
}

OutputFile::~OutputFile() {
  if (!stream)
    return;
  // An error that nobody asked for would abort in the stream's destructor.
  stream->flush();
  stream->clear_error();
  stream.reset();
  close(file);
  unlink(temporary.c_str());
  sys::DontRemoveFileOnSignal(temporary);
}

Expected<OutputFile> OutputFile::create(StringRef path) {
  struct stat info;
  if (path.empty())
    return createStringError("the path of the output is empty");
  if (stat(path.str().c_str(), &info) != 0) {
    // Such as a name that is too long, which only the last step would find.
    if (errno != ENOENT)
      return errorAt(path, lastError());
  } else if (!S_ISREG(info.st_mode)) {
    return createStringError(path + (S_ISDIR(info.st_mode)
                                         ? ": is a directory, not a file"
                                         : ": is not a regular file"));
  }
  if (sys::path::filename(path) == "." || path.ends_with("/"))
    return createStringError(path + ": is not the name of a file");

  SmallString<256> folder = sys::path::parent_path(path);
  removeStaleFiles(folder.empty() ? StringRef(".") : StringRef(folder));
  std::random_device random;
  for (;;) {
    SmallString<256> temporary = folder;
    sys::path::append(temporary, kPrefix + utohexstr(random(), true) +
                                     utohexstr(random(), true));
    // A signal must not find a file that nobody would remove.
    HeldSignals held;
    int file =
        open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && (errno == EEXIST || errno == EINTR))
      continue;
    if (file < 0)
      return errorAt(path, lastError());
    removeOnSignal(temporary);
    flock(file, LOCK_EX | LOCK_NB);
    return OutputFile(path, temporary.str().str(), file);
  }
}

Error OutputFile::fail(std::error_code error) const {
  return errorAt(path, error);
}

Error OutputFile::reserve(uint64_t bytes) {
  // Not posix_fallocate, which would write zeros where there is no support.
  if (fallocate(file, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) == 0 ||
      (errno != ENOSPC && errno != EFBIG && errno != EDQUOT))
    return Error::success();
  std::error_code error = lastError();
  return createStringError(error, path + ": " + error.message() + " (needs " +
                                      Twine(bytes) + " bytes)");
}

Error OutputFile::check() {
  if (!stream->has_error())
    return Error::success();
  return fail(stream->error());
}

Error OutputFile::finish() {
  stream->flush();
  if (Error error = check())
    return error;
  if (fsync(file) != 0)
    return fail(lastError());
  if (std::rename(temporary.c_str(), path.c_str()) != 0)
    return fail(lastError());
  stream.reset();
  sys::DontRemoveFileOnSignal(temporary);
  // The data are on the disk: close has nothing left to fail at.
  close(file);
  return Error::success();
}
