//===- SourceFiles.cpp - What an artefact was made from -------------------===//

#include "codegen/SourceFiles.h"
#include "dialects/lm/LmDialect.h"
#include "models/Safetensors.h"
#include "models/Synthetic.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace llvm;
using namespace tandem;

/// The small files of a checkpoint that can change what is compiled.
static constexpr StringLiteral kSmallFiles[] = {
    "config.json", "generation_config.json", "tokenizer.json",
    "chat_template.jinja", "tokenizer_config.json"};

/// Names of the files that a checkpoint in \p directory is read from, sorted.
static Expected<std::vector<std::string>> listNames(StringRef directory,
                                                    bool isSynthetic) {
  std::vector<std::string> names;
  auto addIfThere = [&](StringRef name) {
    SmallString<256> path(directory);
    sys::path::append(path, name);
    if (sys::fs::is_regular_file(path))
      names.push_back(name.str());
  };
  for (StringRef name : kSmallFiles)
    addIfThere(name);
  if (!isSynthetic) {
    addIfThere("model.safetensors.index.json");
    Expected<std::vector<std::string>> weights =
        models::Checkpoint::listFiles(directory);
    if (!weights)
      return weights.takeError();
    append_range(names, std::move(*weights));
  }
  llvm::sort(names);
  return names;
}

/// Bytes of \p contents that the hash covers.
static size_t getHashedSize(StringRef name, StringRef contents) {
  if (!name.ends_with(".safetensors") || contents.size() < 8)
    return contents.size();
  uint64_t header = support::endian::read64le(contents.data());
  return std::min<uint64_t>(contents.size(),
                            SaturatingAdd<uint64_t>(8, header));
}

/// One line about the file \p name of \p directory, the checkpoint \p key.
static Expected<std::string> describeFile(StringRef key, StringRef directory,
                                          StringRef name) {
  SmallString<256> path(directory);
  sys::path::append(path, name);
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false,
                                      /*RequiresNullTerminator=*/false);
  if (!buffer)
    return createStringError(buffer.getError(),
                             path + ": " + buffer.getError().message());
  StringRef contents = (*buffer)->getBuffer();
  uint64_t hash = XXH3_64bits(contents.data(), getHashedSize(name, contents));
  return utohexstr(hash, /*LowerCase=*/true, /*Width=*/16) + " " +
         std::to_string(contents.size()) + " " + (key + "/" + name).str();
}

Expected<std::vector<std::string>> codegen::listSources(mlir::ModuleOp module) {
  std::vector<std::string> lines;
  auto checkpoints = module->getAttrOfType<mlir::DictionaryAttr>(
      lm::LmDialect::kCheckpointsAttrName);
  if (!checkpoints)
    return lines;
  for (mlir::NamedAttribute checkpoint : checkpoints) {
    auto name = mlir::dyn_cast<mlir::StringAttr>(checkpoint.getValue());
    if (!name)
      continue;
    std::string directory = models::getCheckpointDirectory(name);
    Expected<std::vector<std::string>> names = listNames(
        directory, models::SyntheticCheckpoint::parse(name).has_value());
    if (!names)
      return names.takeError();
    for (const std::string &name : *names) {
      Expected<std::string> line =
          describeFile(checkpoint.getName(), directory, name);
      if (!line)
        return line.takeError();
      lines.push_back(std::move(*line));
    }
  }
  return lines;
}
