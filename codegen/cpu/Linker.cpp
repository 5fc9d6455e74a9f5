//===- Linker.cpp - Object files to a shared object -----------------------===//

#include "codegen/cpu/Linker.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
/// lld comes compiled without the sanitizer, and shares with us the inline code
/// of LLVM's allocators: our copy marks memory as unused that its copy hands
/// out unmarked. So nobody marks memory by hand.
extern "C" const char *__asan_default_options() {
  return "allow_user_poisoning=0";
}
#endif
#endif

using namespace tandem::codegen;
using llvm::SmallString;
using llvm::StringRef;

namespace {

/// A file in memory, of which nothing is left when the process is killed.
class MemoryFile {
public:
  /// With the content \p bytes.
  static llvm::Expected<MemoryFile> create(llvm::ArrayRef<char> bytes) {
    int descriptor = memfd_create("tandem-link", MFD_CLOEXEC);
    if (descriptor < 0)
      return makeError();
    MemoryFile file(descriptor);
    while (!bytes.empty()) {
      ssize_t written = write(descriptor, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR)
        continue;
      if (written < 0)
        return makeError();
      bytes = bytes.drop_front(written);
    }
    return file;
  }

  MemoryFile(MemoryFile &&other)
      : descriptor(std::exchange(other.descriptor, -1)) {}
  MemoryFile &operator=(MemoryFile &&) = delete;
  ~MemoryFile() {
    if (descriptor >= 0)
      close(descriptor);
  }

  std::string getPath() const {
    return "/proc/self/fd/" + std::to_string(descriptor);
  }

private:
  explicit MemoryFile(int descriptor) : descriptor(descriptor) {}
  static llvm::Error makeError() {
    std::error_code error(errno, std::generic_category());
    return llvm::createStringError(error, "cannot write a file in memory: " +
                                              error.message());
  }

  int descriptor;
};

} // namespace

llvm::Expected<std::vector<char>>
tandem::codegen::linkSharedObject(llvm::ArrayRef<std::vector<char>> objects) {
  // lld keeps its state in globals, and may leave them unusable.
  static std::mutex oneAtATime;
  static bool isUsable = true;
  std::lock_guard<std::mutex> lock(oneAtATime);
  if (!isUsable)
    return llvm::createStringError("the linker failed before");

  // A name alone: lld writes elsewhere first, and what it gives this name is
  // removed whatever ends the process, but for SIGKILL.
  SmallString<128> output;
  if (std::error_code error = llvm::sys::fs::getPotentiallyUniqueTempFileName(
          "tandem-link", "so", output))
    return llvm::createStringError(error, "cannot name a temporary file: " +
                                              error.message());
  llvm::sys::RemoveFileOnSignal(output);
  llvm::scope_exit removeOutput([&] {
    llvm::sys::fs::remove(output);
    llvm::sys::DontRemoveFileOnSignal(output);
  });

  std::vector<std::string> arguments = {
      "ld.lld", "-shared", "--threads=1", "-z", "defs", "-z", "now",
      // Nothing is told apart by name but the kernels.
      "-s", "--build-id=none", "--hash-style=gnu", "-soname=kernels.so", "-o",
      std::string(output)};
  std::vector<MemoryFile> files;
  for (llvm::ArrayRef<char> object : objects) {
    llvm::Expected<MemoryFile> file = MemoryFile::create(object);
    if (!file)
      return file.takeError();
    arguments.push_back(file->getPath());
    files.push_back(std::move(*file));
  }
  std::vector<const char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(argument.c_str());

  std::string messages;
  llvm::raw_string_ostream stream(messages);
  lld::Result result =
      lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
  isUsable = result.canRunAgain;
  if (result.retCode != 0)
    return llvm::createStringError("cannot link the kernels: " +
                                   StringRef(messages).rtrim());
  auto buffer = llvm::MemoryBuffer::getFile(output, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return llvm::createStringError(buffer.getError(),
                                   "cannot read " + output + ": " +
                                       buffer.getError().message());
  return std::vector<char>((*buffer)->getBufferStart(),
                           (*buffer)->getBufferEnd());
}
