//===- Nvrtc.h - NVIDIA's run-time compiler, opened by name -----*- C++ -*-===//
//
// The library is looked for when it is first needed, so that neither building
// nor installing Tandem takes a CUDA toolkit, and compiling takes no GPU.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_CUDA_NVRTC_H
#define TANDEM_CODEGEN_CUDA_NVRTC_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace tandem::codegen {

/// A file that sources may include.
struct NvrtcHeader {
  const char *name;
  const char *text;
};

struct NvrtcResult {
  std::vector<char> cubin;
  /// Without the terminating zero.
  std::vector<char> ptx;
  /// What the compiler said: registers, shared memory and spills of each
  /// kernel, then warnings.
  std::string log;
};

/// The functions of the library. Safe to use from several threads.
class Nvrtc {
public:
  /// The library of this process, which stays open. Looked for in this order:
  /// the file or directory that the environment variable TANDEM_NVRTC names;
  /// libnvrtc.so.13, .12 and .11.2 as the system finds them; CUDA_HOME and
  /// /usr/local/cuda; the system's library directory; Python packages nvidia/*
  /// of VIRTUAL_ENV; CONDA_PREFIX. Errors: none is found, with what to install.
  static llvm::Expected<const Nvrtc *> get();

  /// Version of the library: 13000 for 13.0.
  int getVersion() const { return version; }
  /// Where the library is.
  const std::string &getPath() const { return path; }

  /// Compiles \p source, called \p name in messages, for \p arch (`sm_86`;
  /// `compute_86` gives PTX alone). Errors carry the compiler's log.
  llvm::Expected<NvrtcResult> compile(llvm::StringRef name,
                                      llvm::StringRef source,
                                      llvm::ArrayRef<NvrtcHeader> headers,
                                      llvm::StringRef arch) const;

private:
  using Program = struct ProgramObject *;

  Nvrtc() = default;
  llvm::Error open();
  /// Opens the library \p file; an error says why not.
  llvm::Error openFile(const std::string &file);
  llvm::Error resolve(void *library);
  llvm::Error fail(llvm::StringRef call, int result) const;

  std::string path;
  int version = 0;

  int (*createProgram)(Program *, const char *source, const char *name,
                       int headers, const char *const *texts,
                       const char *const *names) = nullptr;
  int (*destroyProgram)(Program *) = nullptr;
  int (*compileProgram)(Program, int count,
                        const char *const *options) = nullptr;
  int (*getLogSize)(Program, size_t *) = nullptr;
  int (*getLog)(Program, char *) = nullptr;
  int (*getCubinSize)(Program, size_t *) = nullptr;
  int (*getCubin)(Program, char *) = nullptr;
  int (*getPtxSize)(Program, size_t *) = nullptr;
  int (*getPtx)(Program, char *) = nullptr;
  const char *(*getErrorString)(int) = nullptr;
};

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CUDA_NVRTC_H
