//===- Linker.cpp - Object files to a shared object -----------------------===//

#include "codegen/cpu/Linker.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <mutex>

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

static llvm::Error writeFile(StringRef path, llvm::ArrayRef<char> bytes) {
  std::error_code error;
  llvm::raw_fd_ostream stream(path, error, llvm::sys::fs::OF_None);
  if (!error) {
    stream.write(bytes.data(), bytes.size());
    stream.close();
    error = stream.error();
    stream.clear_error();
  }
  if (error)
    return llvm::createStringError(error, "cannot write " + path + ": " +
                                              error.message());
  return llvm::Error::success();
}

llvm::Expected<std::vector<char>>
tandem::codegen::linkSharedObject(llvm::ArrayRef<std::vector<char>> objects) {
  // lld keeps its state in globals, and may leave them unusable.
  static std::mutex oneAtATime;
  static bool isUsable = true;
  std::lock_guard<std::mutex> lock(oneAtATime);
  if (!isUsable)
    return llvm::createStringError("the linker failed before");

  SmallString<128> folder;
  if (std::error_code error =
          llvm::sys::fs::createUniqueDirectory("tandem-link", folder))
    return llvm::createStringError(error, "cannot create a temporary folder: " +
                                              error.message());
  llvm::scope_exit removeFolder(
      [&] { llvm::sys::fs::remove_directories(folder); });
  auto inFolder = [&](const llvm::Twine &name) {
    SmallString<128> path = folder;
    llvm::sys::path::append(path, name);
    return std::string(path);
  };

  std::string output = inFolder("kernels.so");
  std::vector<std::string> arguments = {
      "ld.lld", "-shared", "--threads=1", "-z", "defs", "-z", "now",
      // Nothing is told apart by name but the kernels.
      "-s", "--build-id=none", "--hash-style=gnu", "-soname=kernels.so", "-o",
      output};
  for (size_t i = 0; i < objects.size(); ++i) {
    std::string path = inFolder("kernel" + llvm::Twine(i) + ".o");
    if (llvm::Error error = writeFile(path, objects[i]))
      return error;
    arguments.push_back(path);
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
