//===- InputFolder.h - One input as a file of a folder ----------*- C++ -*-===//
//
// Readers of checkpoints take a folder. A fuzzer has one of its own for its
// whole life, and writes each input there before it is read.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_FUZZ_INPUTFOLDER_H
#define TANDEM_TEST_FUZZ_INPUTFOLDER_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace tandem::fuzz {

/// An empty folder that is removed with everything in it.
class InputFolder {
public:
  InputFolder() {
    const char *root = std::getenv("TMPDIR");
    path = std::string(root ? root : "/tmp") + "/tandem-fuzz-XXXXXX";
    if (!mkdtemp(path.data()))
      std::abort();
  }
  ~InputFolder() { std::filesystem::remove_all(path); }
  InputFolder(const InputFolder &) = delete;

  const std::string &getPath() const { return path; }

  /// Writes \p size bytes to the file \p name of the folder.
  void write(const char *name, const uint8_t *data, size_t size) const {
    std::string inputPath = path + "/" + name;
    // A new file: some file systems write a truncated one to the disk at once.
    std::remove(inputPath.c_str());
    std::FILE *file = std::fopen(inputPath.c_str(), "wb");
    if (!file || std::fwrite(data, 1, size, file) != size || std::fclose(file))
      std::abort();
  }

private:
  std::string path;
};

} // namespace tandem::fuzz

#endif // TANDEM_TEST_FUZZ_INPUTFOLDER_H
