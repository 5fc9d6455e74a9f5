//===- Tokenizer.cpp - Reading tokenizer.json -----------------------------===//

#include "models/Tokenizer.h"

#include "models/JsonFile.h"
#include "models/TokenizerPattern.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <nlohmann/json.hpp>

#include <optional>

using namespace llvm;
using namespace tandem::models;
using nlohmann::json;

/// Ids above this are a mistake: no vocabulary has a million tokens, and the
/// table has an entry for every id.
static constexpr uint32_t maxTokens = uint32_t(1) << 20;

namespace {

/// A value of a file and its name there, for messages.
class Node {
public:
  Node(StringRef file, const json &root) : file(file), value(&root) {}

  const json *operator->() const { return value; }
  const json &operator*() const { return *value; }
  /// Whether the key is not there at all or null.
  bool isNull() const { return !value || value->is_null(); }

  /// The member \p name of an object; null when there is none.
  Node member(StringRef name) const {
    Node result = *this;
    result.key = key.empty() ? name.str() : key + "." + name.str();
    result.value = nullptr;
    if (value && value->is_object())
      if (auto found = value->find(name.str()); found != value->end())
        result.value = &*found;
    return result;
  }

  /// Element \p index of an array.
  Node element(size_t index) const {
    Node result = *this;
    result.key = key + "[" + std::to_string(index) + "]";
    result.value = &(*value)[index];
    return result;
  }

  Error fail(const Twine &problem) const {
    // A key can be any text, and a message is one line.
    std::string printed;
    raw_string_ostream(printed).write_escaped(StringRef(key).take_front(200));
    return createStringError(file + ": " + printed + ": " + problem);
  }

  Error failExpected(const Twine &expected) const {
    return fail((value ? "found " + describe(*value) : "is missing") +
                ", expected " + expected);
  }

  /// An array, object or string, or the failure to be one.
  Error checkArray() const {
    return value && value->is_array() ? Error::success()
                                      : failExpected("an array");
  }
  Error checkObject() const {
    return value && value->is_object() ? Error::success()
                                       : failExpected("an object");
  }
  Expected<StringRef> getString() const {
    if (!value || !value->is_string())
      return failExpected("a string");
    return StringRef(value->get_ref<const std::string &>());
  }

  /// A boolean; \p absent when it is not there.
  Expected<bool> getBool(bool absent) const {
    if (isNull())
      return absent;
    if (!value->is_boolean())
      return failExpected("a boolean");
    return value->get<bool>();
  }

  /// A boolean that must be \p wanted; \p absent when it is not there.
  Error checkBool(bool wanted, bool absent) const {
    Expected<bool> found = getBool(absent);
    if (!found)
      return found.takeError();
    if (*found != wanted)
      return failExpected(wanted ? "true" : "false");
    return Error::success();
  }

  /// A token id.
  Expected<uint32_t> getId() const {
    std::optional<uint32_t> id = value ? toId(*value) : std::nullopt;
    if (!id)
      return failExpected("an id below " + Twine(maxTokens));
    return *id;
  }

  static std::optional<uint32_t> toId(const json &value) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= maxTokens)
      return std::nullopt;
    return value.get<uint64_t>();
  }

private:
  StringRef file;
  std::string key;
  /// Null when there is no such member.
  const json *value;
};

/// The printable alphabet in which byte-level vocabularies are spelled: bytes
/// that are printable in Latin-1 stand for themselves, the others for U+0100
/// and on, in their order.
class ByteAlphabet {
public:
  ByteAlphabet() {
    bytes.fill(-1);
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      bool printable = (byte >= 0x21 && byte <= 0x7E) ||
                       (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
      bytes[printable ? byte : next++] = byte;
    }
  }

  /// The bytes that \p text, which is valid UTF-8, stands for; nothing when it
  /// holds other characters.
  std::optional<std::string> decode(StringRef text) const {
    std::string result;
    for (size_t i = 0; i < text.size(); ++i) {
      // All letters are below U+0800: one byte or two.
      uint32_t c = uint8_t(text[i]);
      if (c >= 0xE0)
        return std::nullopt;
      if (c >= 0x80)
        c = (c & 0x1F) << 6 | (uint8_t(text[++i]) & 0x3F);
      if (c >= bytes.size() || bytes[c] < 0)
        return std::nullopt;
      result.push_back(char(bytes[c]));
    }
    return result;
  }

private:
  /// 256 letters: 188 that stand for themselves, 68 from U+0100 on.
  std::array<int16_t, 0x100 + 68> bytes;
};

/// One tokenizer.json on its way to TokenizerData. Every step checks what it
/// reads; the order of the steps is that of run().
class TokenizerReader {
public:
  explicit TokenizerReader(StringRef directory) : directory(directory) {}

  Expected<TokenizerData> run() {
    SmallString<128> path(directory);
    sys::path::append(path, "tokenizer.json");
    Expected<json> file = readJsonFile(path);
    if (!file)
      return file.takeError();
    Node root(path, *file);
    Node model = root.member("model");
    if (Error error = readNormalizer(root.member("normalizer")))
      return error;
    if (Error error = readPreTokenizer(root.member("pre_tokenizer")))
      return error;
    if (Error error = checkPostProcessor(root.member("post_processor")))
      return error;
    if (Error error = checkType(root.member("decoder"), "ByteLevel"))
      return error;
    if (Error error = readModelOptions(model))
      return error;
    // Added tokens come first: they explain vocabulary entries that are not
    // spelled in the alphabet.
    if (Error error = readAddedTokens(root.member("added_tokens")))
      return error;
    if (Error error = readTokenizerConfig())
      return error;
    if (Error error = readVocabulary(model.member("vocab")))
      return error;
    if (Error error = placeAddedTokens(model.member("vocab")))
      return error;
    if (Error error = readMerges(model.member("merges")))
      return error;
    return std::move(data);
  }

private:
  /// An object whose `type` is \p expected.
  static Error checkType(Node node, StringRef expected) {
    Node type = node.member("type");
    if (node.isNull() || !node->is_object())
      return node.failExpected("an object of type \"" + expected + "\"");
    if (type.isNull() || *type != expected.str())
      return type.failExpected("\"" + expected + "\"");
    return Error::success();
  }

  /// Whether \p node is an object of type \p type.
  static bool hasType(Node node, StringRef type) {
    Node found = node.member("type");
    return !found.isNull() && *found == type.str();
  }

  Error readNormalizer(Node node) {
    if (node.isNull())
      return Error::success();
    if (hasType(node, "Sequence")) {
      Node list = node.member("normalizers");
      if (Error error = list.checkArray())
        return error;
      for (size_t i = 0; i < list->size(); ++i)
        if (Error error = readNormalizer(list.element(i)))
          return error;
      return Error::success();
    }
    if (Error error = checkType(node, "NFC"))
      return error;
    data.nfc = true;
    return Error::success();
  }

  /// Either a Split at a pattern followed by ByteLevel, or ByteLevel alone,
  /// which has its own pattern or none.
  Error readPreTokenizer(Node node) {
    if (!hasType(node, "Sequence"))
      return readByteLevel(node);
    Node list = node.member("pretokenizers");
    if (Error error = list.checkArray())
      return error;
    if (list->size() == 1)
      return readByteLevel(list.element(0));
    if (list->size() != 2)
      return list.failExpected("a Split and a ByteLevel");

    Node split = list.element(0);
    if (Error error = checkType(split, "Split"))
      return error;
    Node behavior = split.member("behavior");
    if (behavior.isNull() || *behavior != "Isolated")
      return behavior.failExpected("\"Isolated\"");
    if (Error error = split.member("invert").checkBool(false, false))
      return error;
    Node regex = split.member("pattern").member("Regex");
    Expected<StringRef> pattern = regex.getString();
    if (!pattern)
      return pattern.takeError();
    if (Error error = checkTokenizerPattern(*pattern))
      return regex.fail(toString(std::move(error)));

    Node byteLevel = list.element(1);
    if (Error error = readByteLevel(byteLevel))
      return error;
    if (!data.pattern.empty())
      return byteLevel.member("use_regex")
          .fail("is true, expected false behind a Split");
    data.pattern = *pattern;
    return Error::success();
  }

  Error readByteLevel(Node node) {
    if (Error error = checkType(node, "ByteLevel"))
      return error;
    // Both are true when they are not there.
    if (Error error = node.member("add_prefix_space").checkBool(false, true))
      return error;
    Expected<bool> useRegex = node.member("use_regex").getBool(true);
    if (!useRegex)
      return useRegex.takeError();
    if (*useRegex)
      data.pattern = byteLevelPattern;
    return Error::success();
  }

  /// A ByteLevel post-processor only moves offsets, which are not used here.
  Error checkPostProcessor(Node node) {
    return node.isNull() ? Error::success() : checkType(node, "ByteLevel");
  }

  Error readModelOptions(Node model) {
    if (Error error = checkType(model, "BPE"))
      return error;
    for (const auto &[key, value] : model->items()) {
      Node option = model.member(key);
      if (key == "type" || key == "vocab" || key == "merges" ||
          key == "ignore_merges")
        continue;
      // Every byte has a token, so that nothing is ever unknown.
      if (key == "unk_token" || key == "fuse_unk")
        continue;
      if (key == "byte_fallback") {
        if (Error error = option.checkBool(false, false))
          return error;
      } else if (key == "dropout") {
        if (!value.is_null() && value != 0)
          return option.failExpected("null");
      } else if (key == "continuing_subword_prefix" ||
                 key == "end_of_word_suffix") {
        if (!value.is_null() && value != json(""))
          return option.failExpected("null");
      } else {
        return option.fail("is not known");
      }
    }
    Expected<bool> ignoreMerges =
        model.member("ignore_merges").getBool(/*absent=*/false);
    if (!ignoreMerges)
      return ignoreMerges.takeError();
    data.ignoreMerges = *ignoreMerges;
    return Error::success();
  }

  /// Reads the flags of an added token from an entry of either file.
  static Expected<TokenizerData::AddedToken> readAddedToken(Node entry) {
    TokenizerData::AddedToken token;
    if (Error error = entry.checkObject())
      return error;
    Node content = entry.member("content");
    Expected<StringRef> text = content.getString();
    if (!text)
      return text.takeError();
    if (text->empty())
      return content.fail("is empty");
    token.content = *text;
    for (auto [name, flag] : {std::pair("special", &token.special),
                              std::pair("normalized", &token.normalized),
                              std::pair("single_word", &token.singleWord),
                              std::pair("lstrip", &token.leftStrip),
                              std::pair("rstrip", &token.rightStrip)}) {
      Expected<bool> value = entry.member(name).getBool(/*absent=*/false);
      if (!value)
        return value.takeError();
      *flag = *value;
    }
    return token;
  }

  /// Adds \p token or, when it is there already, takes its flags. \p entry is
  /// where it stands.
  Error addToken(TokenizerData::AddedToken token, Node entry) {
    size_t index = data.added.size();
    auto byContent = addedByContent.try_emplace(token.content, index);
    auto byId = addedById.try_emplace(token.id, index);
    if (byContent.second && byId.second) {
      data.added.push_back(std::move(token));
      return Error::success();
    }
    TokenizerData::AddedToken &other =
        data.added[byId.second ? byContent.first->second : byId.first->second];
    if (other.id != token.id || other.content != token.content)
      return entry.fail("token " + Twine(token.id) + " is " +
                        describe(token.content) + ", but token " +
                        Twine(other.id) + " is " + describe(other.content));
    other = std::move(token);
    return Error::success();
  }

  Error readAddedTokens(Node list) {
    if (list.isNull())
      return Error::success();
    if (Error error = list.checkArray())
      return error;
    for (size_t i = 0; i < list->size(); ++i) {
      Node entry = list.element(i);
      Expected<TokenizerData::AddedToken> token = readAddedToken(entry);
      if (!token)
        return token.takeError();
      Expected<uint32_t> id = entry.member("id").getId();
      if (!id)
        return id.takeError();
      token->id = *id;
      if (Error error = addToken(std::move(*token), entry))
        return error;
    }
    return Error::success();
  }

  /// The configuration repeats the added tokens and may have more of them.
  Error readTokenizerConfig() {
    SmallString<128> path(directory);
    sys::path::append(path, "tokenizer_config.json");
    if (!sys::fs::exists(path))
      return Error::success();
    Expected<json> file = readJsonFile(path);
    if (!file)
      return file.takeError();
    Node root(path, *file);
    for (StringRef key : {"add_prefix_space", "add_bos_token", "add_eos_token"})
      if (Error error = root.member(key).checkBool(false, false))
        return error;
    Node decoder = root.member("added_tokens_decoder");
    if (decoder.isNull())
      return Error::success();
    if (Error error = decoder.checkObject())
      return error;
    for (const auto &[key, value] : decoder->items()) {
      Node entry = decoder.member(key);
      uint32_t id = 0;
      if (!to_integer(key, id, 10) || id >= maxTokens)
        return entry.fail("the key is no id below " + Twine(maxTokens));
      Expected<TokenizerData::AddedToken> token = readAddedToken(entry);
      if (!token)
        return token.takeError();
      token->id = id;
      if (Error error = addToken(std::move(*token), entry))
        return error;
    }
    return Error::success();
  }

  /// Makes \p id the token of \p bytes; false when it is another's already.
  bool placeToken(uint32_t id, StringRef bytes) {
    if (id >= data.tokens.size())
      data.tokens.resize(id + 1);
    if (!data.tokens[id].empty())
      return false;
    data.tokens[id] = bytes;
    return true;
  }

  Error readVocabulary(Node vocabulary) {
    if (Error error = vocabulary.checkObject())
      return error;
    for (const auto &[text, value] : vocabulary->items()) {
      std::optional<uint32_t> id = Node::toId(value);
      if (!id)
        return vocabulary.fail("entry " + describe(text) + ": " +
                               describe(value) + ", expected an id below " +
                               Twine(maxTokens));
      auto found = addedByContent.find(text);
      const TokenizerData::AddedToken *added =
          found == addedByContent.end() ? nullptr : &data.added[found->second];
      if (added && added->id != *id)
        return vocabulary.fail("entry " + describe(text) + ": id " +
                               Twine(*id) + ", as an added token it has " +
                               Twine(added->id));
      std::optional<std::string> bytes = alphabet.decode(text);
      if (text.empty() || (!bytes && !added))
        return vocabulary.fail("entry " + describe(text) +
                               " is not spelled in the byte-level alphabet");
      if (!placeToken(*id, bytes ? *bytes : text))
        return vocabulary.fail("entry " + describe(text) + ": id " +
                               Twine(*id) + " is used twice");
      // What has no spelling in the alphabet cannot come out of a merge.
      if (bytes)
        ids[*bytes] = *id;
    }

    for (uint32_t byte = 0; byte < 256; ++byte) {
      char letter = char(byte);
      auto found = ids.find(StringRef(&letter, 1));
      if (found == ids.end())
        return vocabulary.fail("has no token for byte 0x" +
                               utohexstr(byte, false, 2));
      data.byteTokens[byte] = found->second;
    }
    if (data.ignoreMerges) {
      for (const auto &entry : ids)
        data.sortedTokens.push_back(entry.second);
      llvm::sort(data.sortedTokens, [this](uint32_t a, uint32_t b) {
        return data.tokens[a] < data.tokens[b];
      });
    }
    return Error::success();
  }

  /// Gives the added tokens that are not in the vocabulary their ids. Sorts the
  /// tokens, so that the indexes of addedByContent are void afterwards.
  Error placeAddedTokens(Node vocabulary) {
    llvm::sort(data.added,
               [](const auto &a, const auto &b) { return a.id < b.id; });
    for (const TokenizerData::AddedToken &token : data.added) {
      std::optional<std::string> bytes = alphabet.decode(token.content);
      auto known = bytes ? ids.find(*bytes) : ids.end();
      if (known != ids.end() && known->second == token.id)
        continue;
      if (placeToken(token.id, token.content) ||
          data.tokens[token.id] == token.content)
        continue;
      return vocabulary.fail("has another entry for id " + Twine(token.id) +
                             ", which is the added token " +
                             describe(token.content));
    }
    return Error::success();
  }

  /// Reads merges as pairs (`["a", "b"]`) or, in older files, as text (`a b`).
  Error readMerges(Node list) {
    if (Error error = list.checkArray())
      return error;
    data.merges.reserve(list->size());
    for (size_t i = 0; i < list->size(); ++i) {
      const json &entry = (*list)[i];
      StringRef left, right;
      if (entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
          entry[1].is_string()) {
        left = entry[0].get_ref<const std::string &>();
        right = entry[1].get_ref<const std::string &>();
      } else if (entry.is_string()) {
        StringRef text = entry.get_ref<const std::string &>();
        // The first line of a merges.txt.
        if (text.starts_with("#version"))
          continue;
        std::tie(left, right) = text.split(' ');
      }
      if (left.empty() || right.empty() || right.contains(' '))
        return list.element(i).failExpected(
            "[\"left\", \"right\"] or \"left right\"");
      if (Error error = addMerge(left, right, list, i))
        return error;
    }
    if (data.merges.empty())
      return list.fail("is empty");
    llvm::sort(data.merges, [](const auto &a, const auto &b) {
      return std::pair(a.left, a.right) < std::pair(b.left, b.right);
    });
    auto twice =
        std::adjacent_find(data.merges.begin(), data.merges.end(),
                           [](const auto &a, const auto &b) {
                             return a.left == b.left && a.right == b.right;
                           });
    if (twice != data.merges.end())
      return list.element(std::max(twice->rank, twice[1].rank))
          .fail("is there twice");
    return Error::success();
  }

  /// Appends the merge of two parts, element \p index of \p list.
  Error addMerge(StringRef left, StringRef right, Node list, size_t index) {
    std::optional<std::string> parts[3] = {alphabet.decode(left),
                                           alphabet.decode(right), ""};
    std::string whole = (left + right).str();
    if (parts[0] && parts[1])
      parts[2] = *parts[0] + *parts[1];
    StringRef names[3] = {left, right, whole};
    uint32_t found[3];
    for (int i = 0; i < 3; ++i) {
      auto entry = parts[i] ? ids.find(*parts[i]) : ids.end();
      if (entry == ids.end())
        return list.element(index).fail((i == 2 ? "the result " : "the part ") +
                                        describe(names[i].str()) +
                                        " is not in model.vocab");
      found[i] = entry->second;
    }
    data.merges.push_back({found[0], found[1], found[2], uint32_t(index)});
    return Error::success();
  }

  StringRef directory;
  ByteAlphabet alphabet;
  TokenizerData data;
  /// Indexes into data.added while it grows.
  StringMap<size_t> addedByContent;
  DenseMap<uint32_t, size_t> addedById;
  /// Ids of the vocabulary by their bytes.
  StringMap<uint32_t> ids;
};

} // namespace

Expected<TokenizerData> tandem::models::readTokenizer(StringRef directory) {
  return TokenizerReader(directory).run();
}
