//===- Checkpoint.cpp - The files of a checkpoint directory ---------------===//

#include "models/JsonFile.h"
#include "models/Safetensors.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <tuple>

using namespace llvm;
using namespace tandem::models;

/// A mapped file. Its address does not change, so views may point into it.
struct Checkpoint::File {
  std::string path;
  std::unique_ptr<MemoryBuffer> buffer;
};

Checkpoint::Checkpoint(StringRef directory) : directory(directory) {}
Checkpoint::Checkpoint(Checkpoint &&) = default;
Checkpoint &Checkpoint::operator=(Checkpoint &&) = default;
Checkpoint::~Checkpoint() = default;

namespace {

constexpr StringLiteral kIndexName = "model.safetensors.index.json";

std::string joinPath(StringRef directory, StringRef name) {
  SmallString<256> path(directory);
  sys::path::append(path, name);
  return path.str().str();
}

/// Whether \p name stays inside the directory it is looked up in, on any
/// operating system.
bool isBareFileName(StringRef name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(StringRef("/\\:\0", 4)) == StringRef::npos;
}

/// Tensor name to file name, as model.safetensors.index.json says.
using WeightMap = std::map<std::string, std::string>;

Expected<WeightMap> readIndex(StringRef path) {
  Expected<nlohmann::json> index = readJsonFile(path);
  if (!index)
    return index.takeError();
  auto found = index->find("weight_map");
  if (found == index->end() || !found->is_object())
    return createStringError(path + ": weight_map is missing or no object");
  WeightMap result;
  for (const auto &[name, value] : found->items()) {
    const auto *file = value.get_ptr<const std::string *>();
    if (!file)
      return createStringError(path + ": weight_map of " + quote(name) +
                               " is " + value.type_name() +
                               ", expected a string");
    if (!isBareFileName(*file))
      return createStringError(path + ": weight_map of " + quote(name) +
                               " is " + quote(*file) +
                               ", expected a file name without a folder");
    result.emplace(name, *file);
  }
  return result;
}

/// Names of the files that \p index names, sorted.
std::vector<std::string> listNamed(const WeightMap &index) {
  std::set<std::string> names;
  for (const auto &[tensor, file] : index)
    names.insert(file);
  return {names.begin(), names.end()};
}

/// Names of the safetensors files in \p directory, sorted.
Expected<std::vector<std::string>> listAll(StringRef directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (sys::fs::directory_iterator it(directory, error), end;
       it != end && !error; it.increment(error)) {
    StringRef name = sys::path::filename(it->path());
    if (name.ends_with(".safetensors") && !name.starts_with("."))
      names.push_back(name.str());
  }
  if (error)
    return createStringError(directory + ": " + error.message());
  sort(names);
  return names;
}

} // namespace

Error Checkpoint::addFile(StringRef name) {
  auto file = std::make_unique<File>();
  file->path = joinPath(directory, name);
  sys::fs::file_status status;
  if (std::error_code error = sys::fs::status(file->path, status))
    return createStringError(file->path + ": " + error.message());
  if (status.type() != sys::fs::file_type::regular_file)
    return createStringError(file->path + ": is not a regular file");
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFile(
      file->path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return createStringError(file->path + ": " + buffer.getError().message());
  file->buffer = std::move(*buffer);
  Expected<std::vector<TensorView>> parsed = parseSafetensors(
      arrayRefFromStringRef<uint8_t>(file->buffer->getBuffer()), file->path,
      warnings);
  if (!parsed)
    return parsed.takeError();
  llvm::append_range(tensors, std::move(*parsed));
  files.push_back(std::move(file));
  return Error::success();
}

Error Checkpoint::sortTensors() {
  llvm::sort(tensors, [](const TensorView &lhs, const TensorView &rhs) {
    return std::tie(lhs.name, lhs.file) < std::tie(rhs.name, rhs.file);
  });
  auto twin =
      std::adjacent_find(tensors.begin(), tensors.end(),
                         [](const TensorView &lhs, const TensorView &rhs) {
                           return lhs.name == rhs.name;
                         });
  if (twin != tensors.end())
    return createStringError("tensor " + quote(twin->name) +
                             " is in two files, " + twin->file + " and " +
                             std::next(twin)->file);
  return Error::success();
}

const TensorView *Checkpoint::find(StringRef name) const {
  auto found = llvm::lower_bound(tensors, name,
                                 [](const TensorView &tensor, StringRef name) {
                                   return StringRef(tensor.name) < name;
                                 });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

Expected<std::vector<std::string>> Checkpoint::listFiles(StringRef directory) {
  std::string indexPath = joinPath(directory, kIndexName);
  if (!sys::fs::exists(indexPath))
    return listAll(directory);
  Expected<WeightMap> index = readIndex(indexPath);
  if (!index)
    return index.takeError();
  return listNamed(*index);
}

Expected<Checkpoint> Checkpoint::open(StringRef directory) {
  if (!sys::fs::is_directory(directory))
    return createStringError(directory + ": is not a directory");
  Checkpoint result(directory);
  std::string indexPath = joinPath(directory, kIndexName);

  if (!sys::fs::exists(indexPath)) {
    Expected<std::vector<std::string>> names = listAll(directory);
    if (!names)
      return names.takeError();
    if (names->empty())
      return createStringError(
          directory + ": holds no .safetensors file and no " + kIndexName);
    for (const std::string &name : *names)
      if (Error error = result.addFile(name))
        return error;
    if (Error error = result.sortTensors())
      return error;
    return result;
  }

  Expected<WeightMap> index = readIndex(indexPath);
  if (!index)
    return index.takeError();
  std::vector<std::string> names = listNamed(*index);
  // All missing files in one message: they are usually downloaded again.
  std::string missing;
  for (const std::string &name : names)
    if (!sys::fs::exists(joinPath(directory, name)))
      missing += (missing.empty() ? "" : ", ") + quote(name);
  if (!missing.empty())
    return createStringError(indexPath + ": names " + missing +
                             ", which the directory does not hold");
  for (const std::string &name : names)
    if (Error error = result.addFile(name))
      return error;
  if (Error error = result.sortTensors())
    return error;

  for (const TensorView &tensor : result.tensors) {
    auto listed = index->find(tensor.name);
    if (listed == index->end())
      return createStringError(tensor.file + ": tensor " + quote(tensor.name) +
                               " is not in " + kIndexName);
    if (listed->second != sys::path::filename(tensor.file))
      return createStringError(
          indexPath + ": says that tensor " + quote(tensor.name) + " is in " +
          quote(listed->second) + ", but it is in " + tensor.file);
  }
  for (const auto &[tensor, file] : *index)
    if (!result.find(tensor))
      return createStringError(indexPath + ": lists tensor " + quote(tensor) +
                               ", which " + quote(file) + " does not hold");
  return result;
}
