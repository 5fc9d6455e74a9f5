//===- ConfigFile.h - Keys of a config.json ---------------------*- C++ -*-===//
//
// A configuration is read key by key. The first problem is kept and every read
// behind it returns something harmless, so a list of keys reads like a list;
// takeError() says at the end whether all was well. In every file here a key
// whose value is null counts as absent.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_CONFIGFILE_H
#define TANDEM_MODELS_CONFIGFILE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::models {

class ConfigObject;

/// A JSON file and the first problem with it. Does not move while objects of it
/// are in use.
class ConfigFile {
public:
  /// Reads \p path. Errors as in readJsonFile.
  static llvm::Expected<ConfigFile> open(llvm::StringRef path);

  ConfigFile(ConfigFile &&);
  ~ConfigFile();

  llvm::StringRef getPath() const { return path; }
  ConfigObject getRoot();

  /// Keeps "path: key: message" unless there is a problem already.
  void fail(const llvm::Twine &key, const llvm::Twine &message);
  bool hasFailed() const { return !problem.empty(); }
  /// The first problem, if there is one.
  llvm::Error takeError();

private:
  ConfigFile(llvm::StringRef path, nlohmann::json &&root);

  std::string path;
  std::unique_ptr<nlohmann::json> root;
  std::string problem;
};

/// An object of a ConfigFile. Cheap to copy.
class ConfigObject {
public:
  ConfigObject(ConfigFile &file, const nlohmann::json &object,
               std::string prefix)
      : file(&file), object(&object), prefix(std::move(prefix)) {}

  ConfigFile &getFile() const { return *file; }
  /// The full name of \p key, for messages: "text_config.hidden_size".
  std::string getName(llvm::StringRef key) const { return prefix + key.str(); }
  /// Keeps a problem with \p key.
  void fail(llvm::StringRef key, const llvm::Twine &message) const {
    file->fail(getName(key), message);
  }

  /// Whether \p key is there and not null.
  bool has(llvm::StringRef key) const { return lookup(key); }
  /// All keys whose value is not null.
  std::vector<std::string> getKeys() const;
  /// The value of \p key as JSON text, to compare and to print.
  std::string getText(llvm::StringRef key) const;

  // What find... and get... return when a key has another type, or is out of
  // range, is an absent value; the problem is kept. get... also keeps one when
  // the key is absent.

  std::optional<ConfigObject> findObject(llvm::StringRef key) const;
  std::optional<bool> findFlag(llvm::StringRef key) const;
  std::optional<std::string> findString(llvm::StringRef key) const;
  std::optional<std::vector<std::string>>
  findStrings(llvm::StringRef key) const;
  /// A whole number in [\p min, \p max].
  std::optional<int64_t> findInteger(llvm::StringRef key, int64_t min,
                                     int64_t max) const;
  /// Whole numbers in [\p min, \p max]; a single one counts as a list.
  std::optional<std::vector<int64_t>>
  findIntegers(llvm::StringRef key, int64_t min, int64_t max) const;
  /// A finite number of at least \p min.
  std::optional<double> findNumber(llvm::StringRef key, double min) const;

  /// As find..., 1 when there is none.
  int64_t getInteger(llvm::StringRef key, int64_t min, int64_t max) const;
  /// As find..., 1 when there is none.
  double getNumber(llvm::StringRef key, double min) const;
  /// As find..., empty when there is none.
  std::string getString(llvm::StringRef key) const;

  /// Keeps a problem when \p key is there and is not \p expected.
  void expectFlag(llvm::StringRef key, bool expected) const;
  /// Keeps a problem when \p key is there and none of \p expected.
  void expectString(llvm::StringRef key,
                    llvm::ArrayRef<llvm::StringRef> expected) const;
  /// Keeps a problem when \p key is there and neither null nor empty.
  void expectNothing(llvm::StringRef key) const;

private:
  /// The value of \p key, or null when it is absent or null.
  const nlohmann::json *lookup(llvm::StringRef key) const;
  /// Keeps "is <value>, expected <expected>".
  void mismatch(llvm::StringRef key, const nlohmann::json &value,
                const llvm::Twine &expected) const;

  ConfigFile *file;
  const nlohmann::json *object;
  std::string prefix;
};

} // namespace tandem::models

#endif // TANDEM_MODELS_CONFIGFILE_H
