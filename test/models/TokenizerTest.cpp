//===- TokenizerTest.cpp - From tokenizer.json to ids and back ------------===//
//
// Drives both halves of the tokenizer: models reads a checkpoint's files,
// codegen writes the table, the runtime encodes with it. Expected ids of the
// Qwen3, tiny and demo tokenizers were made by Hugging Face's `tokenizers`.
//
//===----------------------------------------------------------------------===//

#include "models/Tokenizer.h"
#include "codegen/TokenizerTable.h"
#include "models/TokenizerPattern.h"
#include "runtime/ArtifactChecks.h"
#include "runtime/Tokenizer.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <memory>
#include <optional>

using namespace tandem;
using models::TokenizerData;
using nlohmann::json;
using Ids = std::vector<uint32_t>;

namespace {

const std::string SourceDir = TANDEM_SOURCE_DIR;
const std::string Qwen3Dir = TANDEM_QWEN3_DIR;

json readJson(const std::string &path) {
  std::ifstream file(path);
  json result = json::parse(file, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(result.is_discarded()) << path;
  return result;
}

/// A tokenizer together with the buffer that it reads from.
class LoadedTokenizer {
public:
  /// Serializes \p data, checks the tables as Artifact::open does and opens
  /// them.
  explicit LoadedTokenizer(const TokenizerData &data) {
    builder.Finish(codegen::serializeTokenizer(builder, data));
    flatbuffers::Verifier verifier(builder.GetBufferPointer(),
                                   builder.GetSize());
    EXPECT_TRUE(verifier.VerifyBuffer<artifact::Tokenizer>());
    const auto &tables =
        *flatbuffers::GetRoot<artifact::Tokenizer>(builder.GetBufferPointer());
    EXPECT_EQ(checkTokenizer(tables).message(), "");
    StatusOr<Tokenizer> opened = Tokenizer::create(tables);
    if (opened.isOk())
      tokenizer.emplace(std::move(*opened));
    else
      error = opened.status();
  }

  const Tokenizer &operator*() const { return *tokenizer; }
  const Tokenizer *operator->() const { return &*tokenizer; }

  /// The ids of \p text, which must be encodable.
  Ids encode(std::string_view text,
             AddedTokens added = AddedTokens::Recognize) const {
    StatusOr<Ids> ids = tokenizer->encode(text, added);
    EXPECT_EQ(ids.status().message(), "");
    return ids.isOk() ? *ids : Ids();
  }

  /// Why there is no tokenizer.
  Status error;

private:
  flatbuffers::FlatBufferBuilder builder;
  std::optional<Tokenizer> tokenizer;
};

std::unique_ptr<LoadedTokenizer> load(const std::string &directory) {
  llvm::Expected<TokenizerData> data = models::readTokenizer(directory);
  if (!data) {
    ADD_FAILURE() << llvm::toString(data.takeError());
    return nullptr;
  }
  auto loaded = std::make_unique<LoadedTokenizer>(*data);
  EXPECT_EQ(loaded->error.message(), "");
  return loaded;
}

/// Reading the tokenizer of Qwen3 takes a while; the tests share it.
const LoadedTokenizer &qwen3() {
  static std::unique_ptr<LoadedTokenizer> loaded = load(Qwen3Dir);
  return *loaded;
}

void expectCases(const LoadedTokenizer &tokenizer, const json &cases) {
  for (const json &entry : cases) {
    std::string text = entry["text"];
    SCOPED_TRACE(text);
    EXPECT_EQ(tokenizer.encode(text), entry["ids"].get<Ids>());
  }
}

//===----------------------------------------------------------------------===//
// A small tokenizer, to be changed by the tests
//===----------------------------------------------------------------------===//

/// The letter that stands for a byte in a byte-level vocabulary.
std::string letter(uint32_t byte) {
  uint32_t c = byte;
  if (byte < 0x21)
    c = 0x100 + byte;
  else if (byte >= 0x7F && byte < 0xA1)
    c = 0x121 + byte - 0x7F;
  else if (byte == 0xAD)
    c = 0x143;
  if (c < 0x80)
    return std::string(1, char(c));
  return {char(0xC0 | c >> 6), char(0x80 | (c & 0x3F))};
}

/// Bytes have their values as ids; a handful of merges, no added tokens.
json makeSmall() {
  json vocabulary = json::object();
  for (uint32_t byte = 0; byte < 256; ++byte)
    vocabulary[letter(byte)] = byte;
  json merges = json::array();
  auto addMerge = [&](const std::string &left, const std::string &right) {
    merges.push_back({left, right});
    vocabulary[left + right] = 255 + merges.size();
  };
  addMerge("a", "b");           // 256
  addMerge("ab", "c");          // 257
  addMerge("b", "c");           // 258
  addMerge("\u0120", "a");      // 259, a space and an a
  addMerge("\u00C3", "\u00A9"); // 260, the bytes of U+00E9
  vocabulary["xyz"] = 261;      // no merge leads there
  return {
      {"version", "1.0"},
      {"added_tokens", json::array()},
      {"normalizer", {{"type", "NFC"}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"},
           {"pattern", {{"Regex", "\\s+(?!\\S)|\\s?\\S+"}}},
           {"behavior", "Isolated"},
           {"invert", false}},
          {{"type", "ByteLevel"},
           {"add_prefix_space", false},
           {"trim_offsets", false},
           {"use_regex", false}}}}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", ""},
        {"end_of_word_suffix", ""},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", vocabulary},
        {"merges", merges}}},
  };
}

json makeAdded(uint32_t id, const std::string &content) {
  return {{"id", id},
          {"content", content},
          {"special", false},
          {"normalized", false},
          {"single_word", false},
          {"lstrip", false},
          {"rstrip", false}};
}

/// A checkpoint directory that is removed again.
class TemporaryDirectory {
public:
  TemporaryDirectory() {
    EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("tokenizer", path));
  }
  ~TemporaryDirectory() { llvm::sys::fs::remove_directories(path); }

  void write(const std::string &name, const std::string &contents) {
    std::ofstream(str() + "/" + name, std::ios::binary) << contents;
  }
  std::string str() const { return std::string(path); }

private:
  llvm::SmallString<128> path;
};

std::unique_ptr<LoadedTokenizer> loadJson(const json &file) {
  TemporaryDirectory directory;
  directory.write("tokenizer.json", file.dump());
  return load(directory.str());
}

/// The error of reading \p directory, without its path.
std::string readError(const TemporaryDirectory &directory) {
  llvm::Expected<TokenizerData> data = models::readTokenizer(directory.str());
  if (data)
    return "no error";
  std::string message = llvm::toString(data.takeError());
  EXPECT_EQ(message.find(directory.str() + "/"), 0u) << message;
  EXPECT_EQ(message.find('\n'), message.npos) << message;
  return message.substr(std::min(message.size(), directory.str().size() + 1));
}

/// The error that \p contents give as tokenizer.json.
std::string errorOfText(const std::string &contents) {
  TemporaryDirectory directory;
  directory.write("tokenizer.json", contents);
  return readError(directory);
}

std::string repeat(std::string_view text, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i)
    result += text;
  return result;
}

//===----------------------------------------------------------------------===//
// Real tokenizers
//===----------------------------------------------------------------------===//

TEST(TokenizerTest, qwen3Cases) { // P6.04
  json cases = readJson(SourceDir + "/test/Inputs/tokenizer-qwen3/cases.json");
  EXPECT_EQ(cases.size(), 25u);
  expectCases(qwen3(), cases);
}

TEST(TokenizerTest, tinyCases) {
  auto tokenizer = load(SourceDir + "/test/Inputs/tiny/target-w4a16");
  json golden = readJson(SourceDir + "/test/Inputs/tiny/golden.json");
  EXPECT_FALSE(golden["tokenizer"].empty());
  expectCases(*tokenizer, golden["tokenizer"]);
}

TEST(TokenizerTest, demoCases) {
  auto tokenizer = load(SourceDir + "/models/demo/target");
  json golden = readJson(SourceDir + "/test/Inputs/demo/golden.json");
  EXPECT_FALSE(golden["tokenizer"].empty());
  expectCases(*tokenizer, golden["tokenizer"]);
}

TEST(TokenizerTest, decodeGivesTheTextBack) {
  for (std::string_view text :
       {"", "plain", "\tmixed 123 \r\n\r\n  end ",
        "na\u00EFve \u4F60\u597D \U0001F468\u200D\U0001F469 \u0395\u03BB",
        "<|im_start|>user\n<think></think>", "\u180E\u180E x\u180E"})
    EXPECT_EQ(qwen3()->decode(qwen3().encode(text)), text);
  // A NUL is a character like any other.
  std::string_view nul("a\0b", 3);
  EXPECT_EQ(qwen3()->decode(qwen3().encode(nul)), nul);
}

TEST(TokenizerTest, bytesOfTokens) {
  EXPECT_EQ(qwen3()->bytes(9707), "Hello");
  EXPECT_EQ(qwen3()->bytes(1879), " world");
  // The beginning of many punctuation marks.
  EXPECT_EQ(qwen3()->bytes(378), "\xE2\x80");
  EXPECT_EQ(qwen3()->bytes(151644), "<|im_start|>");
  // Behind the last token: the padded rows of a head, and any other id.
  for (uint32_t id : {151669u, 151935u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    EXPECT_EQ(qwen3()->bytes(id), "");
    EXPECT_EQ(qwen3()->decode(Ids{9707, id, 1879}), "Hello world");
  }
  // It is completed by the next token, or not.
  EXPECT_EQ(qwen3()->decode(Ids{378, 235, 9707}), "\u200DHello");
  EXPECT_EQ(qwen3()->decode(Ids{378, 9707, 378}), "\uFFFDHello\uFFFD");
}

TEST(TokenizerTest, markupAsText) { // P6.03
  std::string_view text = "hi<|im_end|>\n<think>";
  EXPECT_EQ(qwen3().encode(text), (Ids{6023, 151645, 198, 151667}));
  Ids plain = qwen3().encode(text, AddedTokens::Ignore);
  EXPECT_EQ(plain, (Ids{6023, 27, 91, 318, 6213, 91, 397, 13708, 766, 29}));
  EXPECT_EQ(qwen3()->decode(plain), text);
  EXPECT_EQ(qwen3().encode("", AddedTokens::Ignore), Ids());
}

TEST(TokenizerTest, normalizesBeforeSplitting) { // P6.05
  auto expectSame = [](std::string_view one, std::string_view other) {
    EXPECT_EQ(qwen3().encode(one), qwen3().encode(other)) << other;
    EXPECT_EQ(qwen3()->decode(qwen3().encode(one)), other);
  };
  expectSame("e\u0301", "\u00E9");
  expectSame("\u1112\u1161\u11AB", "\uD55C");  // Hangul
  expectSame("\u212B", "\u00C5");              // the sign for Angstrom
  expectSame("\u2126", "\u03A9");              // the sign for Ohm
  expectSame("a\u0301\u0323", "\u1EA1\u0301"); // marks change places
  // A mark does not combine with an added token, nor across one.
  expectSame("<think>\u0301 e<think>\u0301", "<think>\u0301 e<think>\u0301");
}

TEST(TokenizerTest, invalidTextIsRefused) { // P6.05
  struct Case {
    std::string_view text;
    size_t offset;
  };
  for (Case test : {Case{"ab\xFF", 2}, Case{"\xC3", 0}, Case{"\xC3(", 0},
                    Case{"\u00E9\xE2\x82", 2}, Case{"x\xED\xA0\x80", 1},
                    Case{"12345678\xF4\x90\x80\x80", 8}}) {
    StatusOr<Ids> ids = qwen3()->encode(test.text);
    EXPECT_EQ(ids.status().code(), StatusCode::InvalidArgument);
    EXPECT_EQ(ids.status().message(),
              "text is not UTF-8: invalid byte at offset " +
                  std::to_string(test.offset));
  }
}

// Merging that is quadratic in the length of a piece, matching that checks the
// text again at every match, or sorting marks by insertion would need minutes
// for one of these.
TEST(TokenizerTest, oneVeryLongPiece) { // P6.06
  constexpr size_t Size = 1000000;
  EXPECT_TRUE(qwen3().encode(std::string(Size, 'a')) == Ids(125000, 69440));
  EXPECT_EQ(qwen3().encode(std::string(Size, ' ')).size(), 7813u);
  EXPECT_EQ(qwen3().encode(std::string(Size, '\n')).size(), 31250u);
  EXPECT_EQ(qwen3().encode(std::string(Size, '_')).size(), 15625u);
  EXPECT_EQ(qwen3().encode(repeat("\u7684", Size / 3)), Ids(Size / 3, 9370));
  EXPECT_EQ(qwen3().encode(repeat("<|im_", Size / 5)).size(), 600001u);
  // No EXPECT_EQ: nobody wants to see a megabyte.
  std::string marks = "e" + repeat("\u0301\u0323", Size / 4);
  std::string ordered =
      "\u1EB9" + repeat("\u0323", Size / 4 - 1) + repeat("\u0301", Size / 4);
  EXPECT_TRUE(qwen3()->decode(qwen3().encode(marks)) == ordered);
  std::string letters;
  uint32_t state = 1;
  for (size_t i = 0; i < Size; ++i)
    letters += char('a' + (state = state * 1664525 + 1013904223) % 4096 % 26);
  EXPECT_TRUE(qwen3()->decode(qwen3().encode(letters)) == letters);
}

//===----------------------------------------------------------------------===//
// Merging and splitting
//===----------------------------------------------------------------------===//

TEST(TokenizerTest, lowestRankFirstThenLeftmost) {
  auto tokenizer = loadJson(makeSmall());
  EXPECT_EQ(tokenizer->encode("abc"), (Ids{257}));
  EXPECT_EQ(tokenizer->encode("bc"), (Ids{258}));
  EXPECT_EQ(tokenizer->encode("abab"), (Ids{256, 256}));
  EXPECT_EQ(tokenizer->encode("bcabc"), (Ids{258, 257}));

  json file = makeSmall();
  file["model"]["merges"] = json::array({"a a"});
  file["model"]["vocab"]["aa"] = 262;
  EXPECT_EQ(loadJson(file)->encode("aaaaa"), (Ids{262, 262, 'a'}));
}

TEST(TokenizerTest, mergesAsPairsAndAsText) { // P6.07
  json file = makeSmall();
  json text = {"#version: 0.2"};
  for (const json &pair : file["model"]["merges"])
    text.push_back(pair[0].get<std::string>() + " " +
                   pair[1].get<std::string>());
  std::string_view sample = "abc ab bc \u00E9 aab";
  Ids expected = loadJson(file)->encode(sample);
  file["model"]["merges"] = text;
  EXPECT_EQ(loadJson(file)->encode(sample), expected);
  EXPECT_EQ(expected.size(), 9u);
}

TEST(TokenizerTest, wholePiecesAreNotMergedWhenMergesAreIgnored) {
  json file = makeSmall();
  file["added_tokens"] = json::array({makeAdded(300, "zz")});
  file["added_tokens"][0]["single_word"] = true;
  EXPECT_EQ(loadJson(file)->encode("xyz"), (Ids{'x', 'y', 'z'}));
  file["model"]["ignore_merges"] = true;
  auto tokenizer = loadJson(file);
  EXPECT_EQ(tokenizer->encode("xyz"), (Ids{261}));
  EXPECT_EQ(tokenizer->encode("xyza"), (Ids{'x', 'y', 'z', 'a'}));
  EXPECT_EQ(tokenizer->encode("abc bc"), (Ids{257, ' ', 258}));
  // An added token is no piece of the vocabulary, whatever its text.
  EXPECT_EQ(tokenizer->encode("zz"), (Ids{300}));
  EXPECT_EQ(tokenizer->encode("zz", AddedTokens::Ignore), (Ids{'z', 'z'}));
}

TEST(TokenizerTest, piecesAreMatchesAndGaps) {
  json file = makeSmall();
  json &pretokenizers = file["pre_tokenizer"]["pretokenizers"];
  json &regex = pretokenizers[0]["pattern"]["Regex"];
  regex = "b"; // `a` and `c` are gaps: nothing is left to merge.
  EXPECT_EQ(loadJson(file)->encode("abc"), (Ids{'a', 'b', 'c'}));
  regex = "(?=c)"; // An empty match cuts as well.
  EXPECT_EQ(loadJson(file)->encode("abcabc"), (Ids{256, 'c', 256, 'c'}));
  regex = "q*"; // It matches everywhere, also behind the last character.
  EXPECT_EQ(loadJson(file)->encode("abq\u00E9"), (Ids{'a', 'b', 'q', 260}));

  // The pattern of GPT-2, or none at all.
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  EXPECT_EQ(loadJson(file)->encode("x a a\nab"),
            (Ids{'x', 259, 259, '\n', 256}));
  EXPECT_EQ(loadJson(file)->encode("1ab"), (Ids{'1', 256}));
  file["model"]["merges"].push_back({"1", "ab"});
  file["model"]["vocab"]["1ab"] = 262;
  EXPECT_EQ(loadJson(file)->encode("1ab"), (Ids{'1', 256}));
  file["pre_tokenizer"]["use_regex"] = false;
  EXPECT_EQ(loadJson(file)->encode("1ab"), (Ids{262}));
}

// PCRE2 still counts U+180E as white space, which Unicode stopped to do.
TEST(TokenizerTest, vowelSeparatorIsNoSpace) {
  json file = makeSmall();
  file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\s";
  // The merge of its last two bytes shows whether it is a piece of its own.
  file["model"]["merges"].push_back({letter('x'), letter(0xE1)});
  file["model"]["vocab"]["x" + letter(0xE1)] = 262;
  EXPECT_EQ(loadJson(file)->encode("x\u180E"), (Ids{262, 0xA0, 0x8E}));
  EXPECT_EQ(loadJson(file)->encode("x\u2003"), (Ids{'x', 0xE2, 0x80, 0x83}));
}

//===----------------------------------------------------------------------===//
// Added tokens
//===----------------------------------------------------------------------===//

TEST(TokenizerTest, leftmostThenLongestAddedToken) {
  json file = makeSmall();
  file["added_tokens"] = {makeAdded(300, "<x>"), makeAdded(301, "<x>y"),
                          makeAdded(302, "x>yz"), makeAdded(303, "<x")};
  auto tokenizer = loadJson(file);
  EXPECT_EQ(tokenizer->encode("<x>"), (Ids{300}));
  EXPECT_EQ(tokenizer->encode("<x>yz"), (Ids{301, 'z'}));
  EXPECT_EQ(tokenizer->encode("x>yz<x>y"), (Ids{302, 301}));
  EXPECT_EQ(tokenizer->encode("<<x<"), (Ids{'<', 303, '<'}));
  // The gap in the ids is no token.
  EXPECT_EQ((*tokenizer)->bytes(299), "");
  EXPECT_EQ((*tokenizer)->bytes(303), "<x");
}

TEST(TokenizerTest, addedTokenAsSingleWord) {
  json file = makeSmall();
  file["added_tokens"] = json::array({makeAdded(300, "qr")});
  file["added_tokens"][0]["single_word"] = true;
  auto tokenizer = loadJson(file);
  EXPECT_EQ(tokenizer->encode("qr qr,qr"), (Ids{300, ' ', 300, ',', 300}));
  EXPECT_EQ(tokenizer->encode("qrs"), (Ids{'q', 'r', 's'}));
  EXPECT_EQ(tokenizer->encode("_qr"), (Ids{'_', 'q', 'r'}));
  // Letters, marks and digits of any script make words.
  for (std::string_view word : {"\u4E00", "\u0663", "\u0301", "\u24B6"}) {
    EXPECT_EQ(tokenizer->encode("qr" + std::string(word))[0], uint32_t('q'));
    EXPECT_EQ(tokenizer->encode(std::string(word) + "qr").back(),
              uint32_t('r'));
  }
  EXPECT_EQ(tokenizer->encode("qr\u2014")[0], 300u);
}

TEST(TokenizerTest, addedTokenTakesWhiteSpace) {
  json file = makeSmall();
  file["added_tokens"] = {makeAdded(300, "<l>"), makeAdded(301, "<r>")};
  file["added_tokens"][0]["lstrip"] = true;
  file["added_tokens"][1]["rstrip"] = true;
  auto tokenizer = loadJson(file);
  EXPECT_EQ(tokenizer->encode("x \u3000\n<l> x"), (Ids{'x', 300, ' ', 'x'}));
  EXPECT_EQ(tokenizer->encode("x <r> \u3000\nx"), (Ids{'x', ' ', 301, 'x'}));
  EXPECT_EQ(tokenizer->encode(" <l>"), (Ids{300}));
  EXPECT_EQ(tokenizer->encode("<r> "), (Ids{301}));
  EXPECT_EQ(tokenizer->encode("<r>  <l>"), (Ids{301, 300}));
  // U+200B is no white space.
  EXPECT_EQ(tokenizer->encode("\u200B<l>").size(), 4u);
}

TEST(TokenizerTest, addedTokenInNormalizedText) { // P6.05
  json file = makeSmall();
  file["added_tokens"] = {makeAdded(300, "<e\u0301>"),
                          makeAdded(301, "[e\u0301]")};
  file["added_tokens"][0]["normalized"] = true;
  auto tokenizer = loadJson(file);
  // The first is found in either spelling, the other only as it stands.
  EXPECT_EQ(tokenizer->encode("<e\u0301>"), (Ids{300}));
  EXPECT_EQ(tokenizer->encode("<\u00E9>"), (Ids{300}));
  EXPECT_EQ(tokenizer->encode("[e\u0301]"), (Ids{301}));
  EXPECT_EQ(tokenizer->encode("[\u00E9]"), (Ids{'[', 260, ']'}));
  // It is spelled as in the file.
  EXPECT_EQ((*tokenizer)->bytes(300), "<e\u0301>");
  // Raw tokens come first, also where the other begins earlier.
  file["added_tokens"].push_back(makeAdded(302, "\u0301>x"));
  EXPECT_EQ(loadJson(file)->encode("<e\u0301>x"), (Ids{'<', 'e', 302}));
}

TEST(TokenizerTest, addedTokensOfBothFiles) {
  TemporaryDirectory directory;
  json file = makeSmall();
  // `xyz` is in the vocabulary, with the same id; `<a b>` is too, although it
  // cannot be spelled in the alphabet.
  file["model"]["vocab"]["<a b>"] = 262;
  file["added_tokens"] = {makeAdded(261, "xyz"), makeAdded(262, "<a b>"),
                          makeAdded(300, "<s>")};
  directory.write("tokenizer.json", file.dump());
  json entry = makeAdded(0, "<s>");
  entry.erase("id");
  json more = entry;
  more["content"] = "<t>";
  entry["rstrip"] = true;
  directory.write(
      "tokenizer_config.json",
      json{{"added_tokens_decoder", {{"300", entry}, {"305", more}}},
           {"add_prefix_space", false}}
          .dump());
  auto tokenizer = load(directory.str());
  EXPECT_EQ(tokenizer->encode("<s> <t> xyz"), (Ids{300, 305, ' ', 261}));
  EXPECT_EQ(tokenizer->encode("<a b>"), (Ids{262}));
  EXPECT_EQ((*tokenizer)->decode(Ids{262, 305}), "<a b><t>");
}

//===----------------------------------------------------------------------===//
// Files that are refused
//===----------------------------------------------------------------------===//

TEST(TokenizerErrorTest, files) { // P1.11, P1.23
  TemporaryDirectory directory;
  EXPECT_EQ(readError(directory), "tokenizer.json: No such file or directory");
  directory.write("tokenizer.json", makeSmall().dump());
  EXPECT_EQ(readError(directory), "no error");
  directory.write("tokenizer_config.json", "{");
  EXPECT_EQ(readError(directory),
            "tokenizer_config.json: line 1, byte 2: is not JSON");

  EXPECT_EQ(errorOfText(""), "tokenizer.json: is empty");
  EXPECT_EQ(errorOfText(" \n"), "tokenizer.json: is empty");
  EXPECT_EQ(errorOfText("version https://git-lfs.github.com/spec/v1\noid x\n"),
            "tokenizer.json: is a Git LFS pointer, not the file itself (`git "
            "lfs pull` fetches it)");
  EXPECT_EQ(errorOfText("<!DOCTYPE html><html></html>"),
            "tokenizer.json: is a web page, not the file itself");
  EXPECT_EQ(errorOfText("[]"),
            "tokenizer.json: holds an array of 0, expected an object");
  EXPECT_EQ(errorOfText("{\"a\": \"\xFF\"}"),
            "tokenizer.json: line 1, byte 8: is not JSON");
  EXPECT_EQ(errorOfText("{}"), "tokenizer.json: pre_tokenizer: is missing, "
                               "expected an object of type \"ByteLevel\"");
}

TEST(TokenizerErrorTest, values) { // P6.07
  struct Case {
    /// Where the value is, as a JSON pointer.
    const char *place;
    json value;
    const char *message;
  };
  const std::string split = "/pre_tokenizer/pretokenizers/0";
  const std::string byteLevel = "/pre_tokenizer/pretokenizers/1";
  const Case cases[] = {
      {"/normalizer",
       {{"type", "Lowercase"}},
       "normalizer.type: found \"Lowercase\", expected \"NFC\""},
      {"/normalizer",
       {{"type", "Sequence"},
        {"normalizers", {{{"type", "NFC"}}, {{"type", "Strip"}}}}},
       "normalizer.normalizers[1].type: found \"Strip\", expected \"NFC\""},
      {"/normalizer",
       {{"type", "Sequence"}},
       "normalizer.normalizers: is missing, expected an array"},
      {"/pre_tokenizer", nullptr,
       "pre_tokenizer: found null, expected an object of type \"ByteLevel\""},
      {"/pre_tokenizer",
       {{"type", "Whitespace"}},
       "pre_tokenizer.type: found \"Whitespace\", expected \"ByteLevel\""},
      {"/pre_tokenizer/pretokenizers", json::array(),
       "pre_tokenizer.pretokenizers: found an array of 0, expected a Split and "
       "a ByteLevel"},
      {"/pre_tokenizer/pretokenizers/0/type", "Digits",
       "pre_tokenizer.pretokenizers[0].type: found \"Digits\", expected "
       "\"Split\""},
      {"/pre_tokenizer/pretokenizers/0/behavior", "Removed",
       "pre_tokenizer.pretokenizers[0].behavior: found \"Removed\", expected "
       "\"Isolated\""},
      {"/pre_tokenizer/pretokenizers/0/invert", true,
       "pre_tokenizer.pretokenizers[0].invert: found true, expected false"},
      {"/pre_tokenizer/pretokenizers/0/pattern",
       {{"String", " "}},
       "pre_tokenizer.pretokenizers[0].pattern.Regex: is missing, expected a "
       "string"},
      {"/pre_tokenizer/pretokenizers/0/pattern/Regex", "a(",
       "pre_tokenizer.pretokenizers[0].pattern.Regex: byte 2: missing closing "
       "parenthesis"},
      {"/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\w+",
       "pre_tokenizer.pretokenizers[0].pattern.Regex: byte 0: '\\\\w+' is not "
       "supported in a pattern"},
      {"/pre_tokenizer/pretokenizers/1/use_regex", true,
       "pre_tokenizer.pretokenizers[1].use_regex: is true, expected false "
       "behind a Split"},
      {"/pre_tokenizer/pretokenizers/1/add_prefix_space", true,
       "pre_tokenizer.pretokenizers[1].add_prefix_space: found true, expected "
       "false"},
      {"/pre_tokenizer/pretokenizers/1",
       {{"type", "ByteLevel"}, {"use_regex", false}},
       "pre_tokenizer.pretokenizers[1].add_prefix_space: is missing, expected "
       "false"},
      {"/post_processor",
       {{"type", "TemplateProcessing"}},
       "post_processor.type: found \"TemplateProcessing\", expected "
       "\"ByteLevel\""},
      {"/decoder", nullptr,
       "decoder: found null, expected an object of type \"ByteLevel\""},
      {"/decoder/type", "Metaspace",
       "decoder.type: found \"Metaspace\", expected \"ByteLevel\""},
      {"/model", 3, "model: found 3, expected an object of type \"BPE\""},
      {"/model/type", "WordPiece",
       "model.type: found \"WordPiece\", expected \"BPE\""},
      {"/model/dropout", 0.1, "model.dropout: found 0.1, expected null"},
      {"/model/byte_fallback", true,
       "model.byte_fallback: found true, expected false"},
      {"/model/continuing_subword_prefix", "##",
       "model.continuing_subword_prefix: found \"##\", expected null"},
      {"/model/end_of_word_suffix", "</w>",
       "model.end_of_word_suffix: found \"</w>\", expected null"},
      {"/model/ignore_merges", "no",
       "model.ignore_merges: found \"no\", expected a boolean"},
      {"/model/novelty", 1, "model.novelty: is not known"},
      {"/model/new\nline", 1, "model.new\\nline: is not known"},
      {"/model/vocab", json::array(),
       "model.vocab: found an array of 0, expected an object"},
      {"/model/vocab", json::object(),
       "model.vocab: has no token for byte 0x00"},
      {"/model/vocab/xyz", -1,
       "model.vocab: entry \"xyz\": -1, expected an id below 1048576"},
      {"/model/vocab/xyz", 1.5,
       "model.vocab: entry \"xyz\": 1.5, expected an id below 1048576"},
      {"/model/vocab/xyz", 4294967296,
       "model.vocab: entry \"xyz\": 4294967296, expected an id below 1048576"},
      {"/model/vocab/xyz", 256,
       "model.vocab: entry \"xyz\": id 256 is used twice"},
      {"/model/vocab/x z", 262,
       "model.vocab: entry \"x z\" is not spelled in the byte-level alphabet"},
      {"/model/vocab/\u4E00", 262,
       "model.vocab: entry \"\\u4e00\" is not spelled in the byte-level "
       "alphabet"},
      {"/model/vocab/", 262,
       "model.vocab: entry \"\" is not spelled in the byte-level alphabet"},
      {"/model/merges", json::array(), "model.merges: is empty"},
      {"/model/merges", nullptr, "model.merges: found null, expected an array"},
      {"/model/merges/1",
       {"a", "b", "c"},
       "model.merges[1]: found an array of 3, expected [\"left\", \"right\"] "
       "or \"left right\""},
      {"/model/merges/1", "abc",
       "model.merges[1]: found \"abc\", expected [\"left\", \"right\"] or "
       "\"left right\""},
      {"/model/merges/1", "a b c",
       "model.merges[1]: found \"a b c\", expected [\"left\", \"right\"] or "
       "\"left right\""},
      {"/model/merges/2",
       {"c", "b"},
       "model.merges[2]: the result \"cb\" is not in model.vocab"},
      {"/model/merges/2",
       {"abd", "b"},
       "model.merges[2]: the part \"abd\" is not in model.vocab"},
      {"/model/merges/2", {"a", "b"}, "model.merges[2]: is there twice"},
      {"/added_tokens", 1, "added_tokens: found 1, expected an array"},
      {"/added_tokens/0", 1, "added_tokens[0]: found 1, expected an object"},
      {"/added_tokens/0",
       {{"content", "x"}},
       "added_tokens[0].id: is missing, expected an id below 1048576"},
      {"/added_tokens/0",
       {{"id", 300}},
       "added_tokens[0].content: is missing, expected a string"},
      {"/added_tokens/0", makeAdded(300, ""),
       "added_tokens[0].content: is empty"},
      {"/added_tokens/0",
       {{"id", 300}, {"content", "x"}, {"special", 1}},
       "added_tokens[0].special: found 1, expected a boolean"},
      {"/added_tokens/0", makeAdded(262, "xyz"),
       "model.vocab: entry \"xyz\": id 261, as an added token it has 262"},
      {"/added_tokens/0", makeAdded(261, "<s>"),
       "model.vocab: has another entry for id 261, which is the added token "
       "\"<s>\""},
      {"/added_tokens",
       {makeAdded(300, "<s>"), makeAdded(300, "<t>")},
       "added_tokens[1]: token 300 is \"<t>\", but token 300 is \"<s>\""},
      {"/added_tokens",
       {makeAdded(300, "<s>"), makeAdded(301, "<s>")},
       "added_tokens[1]: token 301 is \"<s>\", but token 300 is \"<s>\""},
  };
  for (const Case &test : cases) {
    json file = makeSmall();
    file[json::json_pointer(test.place)] = test.value;
    EXPECT_EQ(errorOfText(file.dump()),
              std::string("tokenizer.json: ") + test.message)
        << test.place;
  }
}

TEST(TokenizerErrorTest, configuration) {
  TemporaryDirectory directory;
  json file = makeSmall();
  file["added_tokens"] = json::array({makeAdded(300, "<s>")});
  directory.write("tokenizer.json", file.dump());
  auto errorOf = [&](const json &config) {
    directory.write("tokenizer_config.json", config.dump());
    return readError(directory);
  };
  EXPECT_EQ(errorOf({{"add_prefix_space", true}}),
            "tokenizer_config.json: add_prefix_space: found true, expected "
            "false");
  EXPECT_EQ(errorOf({{"add_bos_token", true}}),
            "tokenizer_config.json: add_bos_token: found true, expected false");
  EXPECT_EQ(errorOf({{"added_tokens_decoder", json::array({1})}}),
            "tokenizer_config.json: added_tokens_decoder: found an array of 1, "
            "expected an object");
  EXPECT_EQ(errorOf({{"added_tokens_decoder", {{"-3", {{"content", "x"}}}}}}),
            "tokenizer_config.json: added_tokens_decoder.-3: the key is no id "
            "below 1048576");
  EXPECT_EQ(errorOf({{"added_tokens_decoder", {{"300", {{"content", "x"}}}}}}),
            "tokenizer_config.json: added_tokens_decoder.300: token 300 is "
            "\"x\", but token 300 is \"<s>\"");
  EXPECT_EQ(
      errorOf({{"added_tokens_decoder", {{"301", {{"content", "<s>"}}}}}}),
      "tokenizer_config.json: added_tokens_decoder.301: token 301 is \"<s>\", "
      "but token 300 is \"<s>\"");
}

TEST(TokenizerErrorTest, patterns) { // P6.04
  for (llvm::StringRef same :
       {models::byteLevelPattern,
        llvm::StringLiteral(
            "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+"
            "|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+"
            "(?!\\S)|\\s+"),
        llvm::StringLiteral("[\\p{Lu}\\P{^Ll}]++x{2}|y{2,}|z{2,3}(?>a|b)*?"),
        llvm::StringLiteral("(?<=a)b|(?<!c)[\\]\\-a-z\u4E00-\u9FFF]|\\d")})
    EXPECT_EQ(llvm::toString(models::checkTokenizerPattern(same)), "");
  // Each of these means something else to Oniguruma than to PCRE2, or nothing
  // to one of them.
  for (llvm::StringRef other :
       {"\\w",     "\\W",    "\\b",   "\\h",         "\\v",     "\\x41",
        "\\1",     "\\K",    "\\R",   "\\",          "\\pL",    "\\p{Han}",
        "\\p{L",   "\\p{}",  "^a",    "a$",          "(?<n>a)", "(?i)a",
        "(*UTF)a", "(?m:a)", "(?R)",  "[[:alpha:]]", "[a&&b]",  "[]a]",
        "[^]a]",   "[a[b]]", "a{2}+", "a{2}?",       "a{,2}",   "a{",
        "a{x}"})
    EXPECT_NE(llvm::toString(models::checkTokenizerPattern(other)), "")
        << other.str();
  EXPECT_EQ(llvm::toString(models::checkTokenizerPattern("")), "is empty");
  EXPECT_EQ(llvm::toString(models::checkTokenizerPattern("a\\w\n")),
            "byte 1: '\\\\w\\n' is not supported in a pattern");
}

// What only a damaged artefact can hold; Artifact::open does not look inside
// strings.
TEST(TokenizerErrorTest, damagedTables) {
  TokenizerData data;
  data.tokens.resize(256, "x");
  data.pattern = "a(";
  LoadedTokenizer noPattern(data);
  EXPECT_EQ(noPattern.error.code(), StatusCode::InvalidFile);
  EXPECT_EQ(noPattern.error.message(),
            "tokenizer: pattern, byte 2: missing closing parenthesis");
  data.pattern = "";
  data.added.push_back({.id = 1, .content = "\xFF"});
  LoadedTokenizer noText(data);
  EXPECT_EQ(noText.error.message(),
            "tokenizer: added[0]: content is empty or not UTF-8");
  data.added.clear();
  // A match could end before it begins.
  data.pattern = "(?=ab\\K)";
  LoadedTokenizer backwards(data);
  EXPECT_EQ(
      backwards.error.message(),
      "tokenizer: pattern, byte 8: \\K is not allowed in lookarounds (but "
      "see PCRE2_EXTRA_ALLOW_LOOKAROUND_BSK)");
  // A match takes too many steps.
  data.pattern = "(x+x+)+y";
  LoadedTokenizer endless(data);
  StatusOr<Ids> ids = endless->encode(std::string(100, 'x') + "zy");
  EXPECT_EQ(ids.status().message(), "the tokenizer's pattern failed at byte 0 "
                                    "of a text: match limit exceeded");
}

} // namespace
