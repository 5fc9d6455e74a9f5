//===- SharedObject.cpp - Code images from memory -------------------------===//

#include "runtime/cpu/SharedObject.h"

#include <cerrno>
#include <cstdlib>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tandem {

static Status writeAll(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return systemError("cannot write the code image", errno);
    bytes = bytes.subspan(size_t(written));
  }
  return Status();
}

static Status loaderError() {
  const char *text = dlerror();
  return invalidFile("cannot load the code image: ",
                     std::string_view(text ? text : "unknown error"));
}

StatusOr<SharedObject> SharedObject::load(std::span<const std::byte> image) {
  Status problem;
  int file = memfd_create("tandem-kernels", MFD_CLOEXEC);
  if (file >= 0) {
    problem = writeAll(file, image);
    if (problem.isOk()) {
      std::string path = concat("/proc/self/fd/", file);
      if (void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
        return SharedObject(handle, file);
      problem = loaderError();
    }
    close(file);
  }

  const char *folder = std::getenv("TMPDIR");
  std::string path =
      concat(std::string_view(folder && *folder ? folder : "/tmp"),
             "/tandem-kernels-XXXXXX");
  file = mkstemp(path.data());
  if (file < 0)
    return problem.isOk() ? systemError(concat("cannot create ", path), errno)
                          : problem;
  problem = writeAll(file, image);
  close(file);
  void *handle = nullptr;
  if (problem.isOk()) {
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      problem = loaderError();
  }
  unlink(path.c_str());
  if (!problem.isOk())
    return problem;
  return SharedObject(handle, -1);
}

SharedObject::~SharedObject() {
  if (handle)
    dlclose(handle);
  if (file >= 0)
    close(file);
}

void *SharedObject::find(const char *symbol) const {
  return dlsym(handle, symbol);
}

} // namespace tandem
