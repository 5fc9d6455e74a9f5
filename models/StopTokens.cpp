//===- StopTokens.cpp - Where a text ends ---------------------------------===//

#include "models/StopTokens.h"
#include "models/JsonFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <nlohmann/json.hpp>

using namespace llvm;
using namespace tandem::models;
using nlohmann::json;

/// Reads \p name in \p directory; an empty object when it is not there.
static Expected<json> readOptional(StringRef directory, StringRef name) {
  SmallString<256> path(directory);
  sys::path::append(path, name);
  if (!sys::fs::exists(path))
    return json::object();
  return readJsonFile(path);
}

/// The content of an added token, which is a string or an object.
static const std::string *getContent(const json &token) {
  const json *content = &token;
  if (token.is_object()) {
    auto found = token.find("content");
    if (found == token.end())
      return nullptr;
    content = &*found;
  }
  return content->get_ptr<const std::string *>();
}

/// The id of the token whose text is \p content: from tokenizer.json's added
/// tokens, then from tokenizer_config.json's, then from the vocabulary.
static std::optional<int64_t> findToken(const std::string &content,
                                        const json &tokenizer,
                                        const json &config) {
  auto asId = [](const json &value) -> std::optional<int64_t> {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > INT32_MAX)
      return std::nullopt;
    return value.get<int64_t>();
  };
  if (auto added = tokenizer.find("added_tokens");
      added != tokenizer.end() && added->is_array())
    for (const json &token : *added)
      if (const std::string *text = getContent(token);
          text && *text == content && token.contains("id"))
        return asId(token["id"]);
  if (auto added = config.find("added_tokens_decoder");
      added != config.end() && added->is_object())
    for (const auto &[key, token] : added->items())
      if (const std::string *text = getContent(token); text && *text == content)
        if (int64_t id; !StringRef(key).getAsInteger(10, id) && id >= 0)
          return id;
  if (auto model = tokenizer.find("model");
      model != tokenizer.end() && model->is_object())
    if (auto vocabulary = model->find("vocab");
        vocabulary != model->end() && vocabulary->is_object())
      if (auto found = vocabulary->find(content); found != vocabulary->end())
        return asId(*found);
  return std::nullopt;
}

/// The id of the tokenizer's eos_token, if it has one.
static Expected<std::optional<int64_t>> readTokenizerEnd(StringRef directory) {
  Expected<json> config = readOptional(directory, "tokenizer_config.json");
  if (!config)
    return config.takeError();
  auto token = config->find("eos_token");
  if (token == config->end() || token->is_null())
    return std::nullopt;
  const std::string *content = getContent(*token);
  if (!content)
    return createStringError(directory +
                             "/tokenizer_config.json: eos_token: is " +
                             describe(*token) + ", expected a token");
  Expected<json> tokenizer = readOptional(directory, "tokenizer.json");
  if (!tokenizer)
    return tokenizer.takeError();
  std::optional<int64_t> id = findToken(*content, *tokenizer, *config);
  // Without tokenizer.json there is nothing to look it up in; that the file is
  // missing is for whoever needs a tokenizer to say.
  if (!id && !tokenizer->empty())
    return createStringError(
        directory + "/tokenizer_config.json: eos_token: is " + quote(*content) +
        ", which tokenizer.json does not know");
  return id;
}

Expected<std::vector<int32_t>>
tandem::models::readStopTokens(StringRef directory,
                               const TargetConfig &config) {
  std::vector<int32_t> result;
  auto add = [&](int64_t token) {
    if (!is_contained(result, token))
      result.push_back(static_cast<int32_t>(token));
  };

  SmallString<256> path(directory);
  sys::path::append(path, "generation_config.json");
  if (sys::fs::exists(path)) {
    Expected<ConfigFile> file = ConfigFile::open(path);
    if (!file)
      return file.takeError();
    std::optional<std::vector<int64_t>> tokens = file->getRoot().findIntegers(
        "eos_token_id", 0, config.vocabularySize - 1);
    if (Error error = file->takeError())
      return error;
    for_each(tokens.value_or(std::vector<int64_t>()), add);
  }
  for_each(config.endTokens, add);

  Expected<std::optional<int64_t>> token = readTokenizerEnd(directory);
  if (!token)
    return token.takeError();
  if (*token && **token >= config.vocabularySize)
    return createStringError(directory + "/tokenizer.json: eos_token has id " +
                             Twine(**token) + ", expected less than the " +
                             Twine(config.vocabularySize) + " of vocab_size");
  if (*token)
    add(**token);
  return result;
}
