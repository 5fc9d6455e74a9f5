//===- TestFiles.h - Checkpoints made by tests ------------------*- C++ -*-===//
//
// Directories that disappear again, safetensors files from their parts, and
// copies of the tiny checkpoints to break in one place each.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_MODELS_TESTFILES_H
#define TANDEM_TEST_MODELS_TESTFILES_H

#include "models/Safetensors.h"

#include <nlohmann/json.hpp>

#include <map>
#include <string>

namespace tandem::models {

/// A directory that is removed with everything in it.
class TempDirectory {
public:
  TempDirectory();
  ~TempDirectory();
  TempDirectory(const TempDirectory &) = delete;

  const std::string &getPath() const { return path; }
  std::string getPath(const std::string &name) const {
    return path + "/" + name;
  }
  /// Writes file \p name.
  void write(const std::string &name, const std::string &contents) const;

private:
  std::string path;
};

/// A safetensors file: the length of \p header, \p header, \p data.
std::string makeSafetensors(const std::string &header,
                            const std::string &data = "");

/// The message of \p result with every occurrence of \p directory taken out;
/// empty when it is a value.
template <typename T>
std::string getMessage(llvm::Expected<T> result, const std::string &directory) {
  if (result)
    return "";
  std::string message = llvm::toString(result.takeError());
  for (size_t at; (at = message.find(directory)) != std::string::npos;)
    message.erase(at, directory.size());
  return message;
}

/// A checkpoint directory in memory.
struct EditableCheckpoint {
  struct Tensor {
    std::string dtype;
    std::vector<int64_t> shape;
    std::string bytes;
  };

  /// By tensor name.
  std::map<std::string, Tensor> tensors;
  /// The JSON files by name: config.json and what else there is.
  std::map<std::string, nlohmann::json> files;

  /// Reads checkpoint \p name of test/Inputs/tiny.
  static EditableCheckpoint readTiny(const std::string &name);

  nlohmann::json &config() { return files["config.json"]; }
  /// Writes everything to \p directory.
  void write(const TempDirectory &directory) const;
};

} // namespace tandem::models

#endif // TANDEM_TEST_MODELS_TESTFILES_H
