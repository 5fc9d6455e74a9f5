//===- Nvrtc.cpp - NVIDIA's run-time compiler, opened by name -------------===//

#include "codegen/cuda/Nvrtc.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <optional>

using namespace llvm;
using namespace tandem::codegen;

/// SONAMEs, newest first.
static constexpr const char *sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12",
                                          "libnvrtc.so.11.2"};

//===----------------------------------------------------------------------===//
// Finding it
//===----------------------------------------------------------------------===//

/// NVRTC opens its second library by name and does not look beside itself. One
/// that is open already is found, so it is opened by its full path first.
static void openBuiltins(StringRef file) {
  StringRef directory = sys::path::parent_path(file);
  if (directory.empty())
    return;
  std::error_code error;
  for (sys::fs::directory_iterator it(directory, error), end;
       it != end && !error; it.increment(error))
    if (sys::path::filename(it->path()).starts_with("libnvrtc-builtins.so."))
      dlopen(it->path().c_str(), RTLD_NOW | RTLD_GLOBAL);
}

/// Adds the libraries in \p directory to \p files.
static void addDirectory(const Twine &directory,
                         std::vector<std::string> &files) {
  for (const char *soname : sonames) {
    SmallString<256> file;
    directory.toVector(file);
    sys::path::append(file, soname);
    if (sys::fs::exists(file))
      files.push_back(file.str().str());
  }
}

/// Adds what Python's packages have: `lib/python3.*/site-packages/nvidia/*/lib`
/// under \p prefix.
static void addPython(StringRef prefix, std::vector<std::string> &files) {
  SmallString<256> root(prefix);
  sys::path::append(root, "lib");
  std::error_code error;
  for (sys::fs::directory_iterator it(root, error), end; it != end && !error;
       it.increment(error)) {
    if (!sys::path::filename(it->path()).starts_with("python3"))
      continue;
    for (StringRef packages : {"site-packages", "dist-packages"}) {
      SmallString<256> nvidia(it->path());
      sys::path::append(nvidia, packages, "nvidia");
      std::error_code inner;
      for (sys::fs::directory_iterator package(nvidia, inner);
           package != end && !inner; package.increment(inner))
        addDirectory(package->path() + "/lib", files);
    }
  }
}

/// Where the library may be, beside where the system looks for it.
static std::vector<std::string> listFiles() {
  std::vector<std::string> files;
  auto addToolkit = [&](StringRef root) {
    addDirectory(root + "/lib64", files);
    addDirectory(root + "/lib", files);
    addDirectory(root + "/targets/x86_64-linux/lib", files);
  };
  if (const char *home = getenv("CUDA_HOME"))
    addToolkit(home);
  addToolkit("/usr/local/cuda");
  addDirectory("/usr/lib/x86_64-linux-gnu", files);
  if (const char *environment = getenv("VIRTUAL_ENV"))
    addPython(environment, files);
  addPython("/usr/local", files);
  addPython("/usr", files);
  if (const char *conda = getenv("CONDA_PREFIX"))
    addDirectory(Twine(conda) + "/lib", files);
  return files;
}

Error Nvrtc::open() {
  if (const char *chosen = getenv("TANDEM_NVRTC"); chosen && *chosen) {
    std::vector<std::string> files;
    if (sys::fs::is_directory(chosen))
      addDirectory(chosen, files);
    else
      files.push_back(chosen);
    if (files.empty())
      return createStringError(Twine("TANDEM_NVRTC: no libnvrtc.so in ") +
                               chosen);
    if (Error error = openFile(files.front()))
      return createStringError("TANDEM_NVRTC: " + toString(std::move(error)));
    return Error::success();
  }

  std::string problems;
  auto tryFile = [&](const std::string &file) {
    Error error = openFile(file);
    if (!error)
      return true;
    problems += "\n  " + toString(std::move(error));
    return false;
  };
  // Names without a directory go where the system looks.
  for (const char *soname : sonames)
    if (tryFile(soname))
      return Error::success();
  problems.clear();
  for (const std::string &file : listFiles())
    if (tryFile(file))
      return Error::success();
  return createStringError(
      "compiling for a GPU takes NVIDIA's NVRTC, and no libnvrtc.so was found: "
      "install a CUDA toolkit or the Python package nvidia-cuda-nvrtc, or set "
      "TANDEM_NVRTC to the library" +
      problems);
}

Error Nvrtc::openFile(const std::string &file) {
  openBuiltins(file);
  void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return createStringError(dlerror());
  path = file;
  if (Error error = resolve(library)) {
    dlclose(library);
    return error;
  }
  return Error::success();
}

Error Nvrtc::resolve(void *library) {
  StringRef missing;
  auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        dlsym(library, name));
    if (!function)
      missing = name;
  };
  int (*getVersion)(int *, int *) = nullptr;
  find(getVersion, "nvrtcVersion");
  find(createProgram, "nvrtcCreateProgram");
  find(destroyProgram, "nvrtcDestroyProgram");
  find(compileProgram, "nvrtcCompileProgram");
  find(getLogSize, "nvrtcGetProgramLogSize");
  find(getLog, "nvrtcGetProgramLog");
  find(getCubinSize, "nvrtcGetCUBINSize");
  find(getCubin, "nvrtcGetCUBIN");
  find(getPtxSize, "nvrtcGetPTXSize");
  find(getPtx, "nvrtcGetPTX");
  find(getErrorString, "nvrtcGetErrorString");
  if (!missing.empty())
    return createStringError(path + ": has no function " + missing);
  int major = 0, minor = 0;
  if (int result = getVersion(&major, &minor))
    return fail("nvrtcVersion", result);
  version = major * 1000 + minor * 10;
  return Error::success();
}

Expected<const Nvrtc *> Nvrtc::get() {
  static std::mutex mutex;
  static std::optional<Nvrtc> library;
  std::lock_guard<std::mutex> lock(mutex);
  if (!library) {
    Nvrtc opened;
    if (Error error = opened.open())
      return error;
    library = std::move(opened);
  }
  return &*library;
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

Error Nvrtc::fail(StringRef call, int result) const {
  return createStringError(path + ": " + call + ": " + getErrorString(result));
}

Expected<NvrtcResult> Nvrtc::compile(StringRef name, StringRef source,
                                     ArrayRef<NvrtcHeader> headers,
                                     StringRef arch) const {
  std::string nameText = name.str(), sourceText = source.str();
  std::vector<const char *> names, texts;
  for (const NvrtcHeader &header : headers) {
    names.push_back(header.name);
    texts.push_back(header.text);
  }
  Program program = nullptr;
  if (int result =
          createProgram(&program, sourceText.c_str(), nameText.c_str(),
                        int(headers.size()), texts.data(), names.data()))
    return fail("nvrtcCreateProgram", result);
  scope_exit destroy([&] { destroyProgram(&program); });

  std::string archOption = ("--gpu-architecture=" + arch).str();
  // Kernels say themselves where a multiplication and an addition are one
  // instruction (common.cuh).
  const char *options[] = {archOption.c_str(), "--std=c++17", "--fmad=false",
                           "--ptxas-options=-v"};
  int result =
      compileProgram(program, static_cast<int>(std::size(options)), options);

  // Reads text or bytes that the library gives a size of.
  NvrtcResult compiled;
  auto read = [&](int (*getSize)(Program, size_t *),
                  int (*getBytes)(Program, char *), auto &bytes,
                  StringRef call) -> Error {
    size_t size = 0;
    if (int failed = getSize(program, &size))
      return fail(call, failed);
    bytes.resize(size);
    if (int failed = size ? getBytes(program, bytes.data()) : 0)
      return fail(call, failed);
    return Error::success();
  };
  auto dropZeros = [](auto &text) {
    while (!text.empty() && text.back() == '\0')
      text.pop_back();
  };
  if (Error error =
          read(getLogSize, getLog, compiled.log, "nvrtcGetProgramLog"))
    return error;
  dropZeros(compiled.log);
  if (result)
    return createStringError(
        path + ": nvrtcCompileProgram: " + getErrorString(result) + " in " +
        name + "\n" + compiled.log);
  if (Error error =
          read(getCubinSize, getCubin, compiled.cubin, "nvrtcGetCUBIN"))
    return error;
  if (Error error = read(getPtxSize, getPtx, compiled.ptx, "nvrtcGetPTX"))
    return error;
  dropZeros(compiled.ptx);
  return compiled;
}
