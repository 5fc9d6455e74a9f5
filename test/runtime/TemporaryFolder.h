//===- TemporaryFolder.h - A place for a test's files -----------*- C++ -*-===//

#ifndef TANDEM_TEST_RUNTIME_TEMPORARYFOLDER_H
#define TANDEM_TEST_RUNTIME_TEMPORARYFOLDER_H

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace tandem::test {

/// A folder that goes away with everything in it.
class TemporaryFolder {
public:
  TemporaryFolder() {
    name = std::filesystem::temp_directory_path() / "tandem-test-XXXXXX";
    if (!mkdtemp(name.data()))
      std::abort();
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(name, ignored);
  }

  const std::string &path() const { return name; }

  /// Writes a file and returns its path.
  std::string write(const std::string &file, std::string_view content) const {
    std::string path = name + "/" + file;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  /// The content of a file.
  std::string read(const std::string &file) const {
    std::ifstream stream(name + "/" + file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  /// How many files there are.
  size_t count() const {
    return size_t(std::distance(std::filesystem::directory_iterator(name), {}));
  }

private:
  std::string name;
};

} // namespace tandem::test

#endif // TANDEM_TEST_RUNTIME_TEMPORARYFOLDER_H
