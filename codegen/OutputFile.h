//===- OutputFile.h - Files that appear when they are whole -----*- C++ -*-===//
//
// A file is written under a temporary name in the folder of its own and renamed
// at the end, so that nobody ever finds half of it, and two writers of one path
// do not mix. Errors and signals leave neither of the two behind; what is left
// when the process is killed outright, the next writer in the folder removes.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_OUTPUTFILE_H
#define TANDEM_CODEGEN_OUTPUTFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <string>

namespace tandem::codegen {

/// A file that is being written.
class OutputFile {
public:
  /// Starts to write \p path. All that can be known of the trouble with it is
  /// known here, so call this before the long work. Errors are one line that
  /// begins with the path: a missing or read-only folder, or a path that is
  /// something else than a file.
  static llvm::Expected<OutputFile> create(llvm::StringRef path);

  OutputFile(OutputFile &&) = default;
  OutputFile &operator=(OutputFile &&) = delete;
  /// Removes a file that was not finished.
  ~OutputFile();

  /// What is written here. Its errors are kept until check() or finish().
  llvm::raw_fd_ostream &os() { return *stream; }

  /// Asks for room for a file of \p bytes, where the file system can tell.
  llvm::Error reserve(uint64_t bytes);

  /// The first error of a write so far.
  llvm::Error check();

  /// Brings everything to the disk and gives the file its name.
  llvm::Error finish();

  llvm::StringRef getPath() const { return path; }

private:
  OutputFile(llvm::StringRef path, std::string temporary, int file);

  /// An error of the operating system at this file.
  llvm::Error fail(std::error_code error) const;

  std::string path;
  std::string temporary;
  /// Null when the file is finished or moved away.
  std::unique_ptr<llvm::raw_fd_ostream> stream;
  int file;
};

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_OUTPUTFILE_H
