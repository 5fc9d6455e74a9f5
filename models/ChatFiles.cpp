//===- ChatFiles.cpp - How a checkpoint talks -----------------------------===//

#include "models/ChatFiles.h"
#include "models/ConfigFile.h"
#include "models/JsonFile.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"

#include <nlohmann/json.hpp>

using namespace llvm;
using namespace tandem::models;
using nlohmann::json;

static SmallString<256> pathOf(StringRef directory, StringRef name) {
  SmallString<256> path(directory);
  sys::path::append(path, name);
  return path;
}

/// The hash of a template, which does not depend on how a tool wrote the file.
static uint64_t hashOf(StringRef text) {
  std::string plain = text.rtrim().str();
  size_t size = 0;
  for (size_t index = 0; index < plain.size(); ++index)
    if (plain[index] != '\r' || plain.substr(index, 2) != "\r\n")
      plain[size++] = plain[index];
  plain.resize(size);
  return xxh3_64bits(plain);
}

/// `chat_template` of tokenizer_config.json; null when there is none.
static Expected<const std::string *> findTemplate(const json &config,
                                                  StringRef path) {
  auto found = config.find("chat_template");
  if (found == config.end() || found->is_null())
    return nullptr;
  if (found->is_string())
    return found->get_ptr<const std::string *>();
  // Several templates, each with a name.
  if (found->is_array())
    for (const json &entry : *found) {
      bool isDefault = entry.is_object() && entry.contains("name") &&
                       entry["name"] == "default" &&
                       entry.contains("template") &&
                       entry["template"].is_string();
      if (isDefault)
        return entry["template"].get_ptr<const std::string *>();
    }
  return createStringError(path + ": chat_template: is " + describe(*found) +
                           ", expected a string, or an array with one called "
                           "'default'");
}

static Expected<std::optional<uint64_t>> readTemplate(StringRef directory) {
  SmallString<256> path = pathOf(directory, "chat_template.jinja");
  if (sys::fs::exists(path)) {
    auto buffer = MemoryBuffer::getFile(path);
    if (!buffer)
      return createStringError(path + ": " + buffer.getError().message());
    return hashOf((*buffer)->getBuffer());
  }
  path = pathOf(directory, "tokenizer_config.json");
  if (!sys::fs::exists(path))
    return std::nullopt;
  Expected<json> config = readJsonFile(path);
  if (!config)
    return config.takeError();
  Expected<const std::string *> text = findTemplate(*config, path);
  if (!text)
    return text.takeError();
  if (!*text)
    return std::nullopt;
  return hashOf(**text);
}

/// Whether a model thinks unless told otherwise: the templates of Qwen3.5's
/// smallest models, which are up to 2048 wide, only think when told to.
static Expected<bool> readThinking(StringRef directory) {
  SmallString<256> path = pathOf(directory, "config.json");
  if (!sys::fs::exists(path))
    return true;
  Expected<ConfigFile> file = ConfigFile::open(path);
  if (!file)
    return file.takeError();
  ConfigObject root = file->getRoot();
  ConfigObject text = root.findObject("text_config").value_or(root);
  std::string type = text.findString("model_type").value_or("");
  int64_t width =
      text.findInteger("hidden_size", 1, INT32_MAX).value_or(INT32_MAX);
  if (Error error = file->takeError())
    return error;
  return !StringRef(type).starts_with("qwen3_5") || width > 2048;
}

static Expected<std::optional<ChatData::Generation>>
readGeneration(StringRef directory) {
  SmallString<256> path = pathOf(directory, "generation_config.json");
  if (!sys::fs::exists(path))
    return std::nullopt;
  Expected<ConfigFile> file = ConfigFile::open(path);
  if (!file)
    return file.takeError();
  ConfigObject root = file->getRoot();
  ChatData::Generation generation;
  generation.sample = root.findFlag("do_sample").value_or(false);
  generation.temperature = root.findNumber("temperature", 0);
  generation.topK = root.findInteger("top_k", 0, INT32_MAX);
  generation.topP = root.findNumber("top_p", 0);
  generation.minP = root.findNumber("min_p", 0);
  generation.repetitionPenalty = root.findNumber("repetition_penalty", 0);
  if (Error error = file->takeError())
    return error;
  return generation;
}

Expected<ChatData> tandem::models::readChatFiles(StringRef directory) {
  ChatData data;
  auto hash = readTemplate(directory);
  if (!hash)
    return hash.takeError();
  data.templateHash = *hash;
  Expected<bool> thinking = readThinking(directory);
  if (!thinking)
    return thinking.takeError();
  data.thinking = *thinking;
  auto generation = readGeneration(directory);
  if (!generation)
    return generation.takeError();
  data.generation = *generation;
  return data;
}
