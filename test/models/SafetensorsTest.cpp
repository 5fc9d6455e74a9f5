//===- SafetensorsTest.cpp - Good, broken and hostile checkpoints ---------===//

#include "models/Safetensors.h"
#include "test/models/TestFiles.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"

#include <gtest/gtest.h>

using namespace llvm;
using namespace tandem::models;

namespace {

/// The message that \p file gives as `f`; "" when it is read.
std::string parse(const std::string &file) {
  std::vector<std::string> warnings;
  // An allocation of exactly this size lets the address sanitizer see the end.
  std::vector<uint8_t> bytes(file.begin(), file.end());
  return getMessage(parseSafetensors(bytes, "f", warnings), "\n");
}

/// The message for a file of \p header and \p dataSize zeros.
std::string parseHeader(const std::string &header, size_t dataSize = 0) {
  return parse(makeSafetensors(header, std::string(dataSize, '\0')));
}

/// A header entry.
std::string entry(const std::string &name, const std::string &dtype,
                  const std::string &shape, const std::string &offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

/// The message that a checkpoint in \p directory gives, without its path.
std::string open(const TempDirectory &directory) {
  return getMessage(Checkpoint::open(directory.getPath()),
                    directory.getPath() + "/");
}

const std::string TensorA = entry("a", "F32", "[2]", "[0,8]");
const std::string FileA =
    makeSafetensors("{" + TensorA + "}", std::string(8, '\1'));
const std::string FileB = makeSafetensors(
    "{" + entry("b", "U8", "[3]", "[0,3]") + "}", std::string(3, '\2'));

} // namespace

//===----------------------------------------------------------------------===//
// One file
//===----------------------------------------------------------------------===//

TEST(SafetensorsTest, ReadsTensors) {
  std::string header =
      "{\"__metadata__\":{\"format\":\"pt\",\"k\":\"\xc3\xa9\"}," +
      entry("s", "BF16", "[]", "[12,14]") + "," +
      entry("m", "I32", "[3,1]", "[0,12]") + "," +
      entry("none", "F32", "[0,7]", "[12,12]") + "}  ";
  std::string data("\1\0\0\0\2\0\0\0\3\0\0\0\x80\x3f", 14);
  std::string file = makeSafetensors(header, data);
  std::vector<std::string> warnings;
  Expected<std::vector<TensorView>> tensors = parseSafetensors(
      {reinterpret_cast<const uint8_t *>(file.data()), file.size()}, "f",
      warnings);
  ASSERT_TRUE(static_cast<bool>(tensors)) << toString(tensors.takeError());
  ASSERT_EQ(tensors->size(), 3u);
  const TensorView &matrix = (*tensors)[0];
  EXPECT_EQ(matrix.name, "m");
  EXPECT_EQ(matrix.dtype, DType::I32);
  EXPECT_EQ(ArrayRef(matrix.shape), ArrayRef<int64_t>({3, 1}));
  EXPECT_EQ(matrix.getNumElements(), 3);
  EXPECT_EQ(support::endian::read32le(matrix.bytes.data() + 8), 3u);
  EXPECT_EQ((*tensors)[1].name, "none");
  EXPECT_EQ((*tensors)[1].getNumElements(), 0);
  EXPECT_EQ((*tensors)[2].name, "s");
  EXPECT_EQ((*tensors)[2].getNumElements(), 1);
  EXPECT_TRUE(warnings.empty());
}

TEST(SafetensorsTest, MetadataMayBeEmptyOrAbsent) { // P1.10
  EXPECT_EQ(parseHeader("{}"), "");
  EXPECT_EQ(parseHeader("{\"__metadata__\":{}}"), "");
  EXPECT_EQ(parseHeader("{\"__metadata__\":{\"a\":{}}}"),
            "f: __metadata__: key 'a' is an object, expected a string");
  EXPECT_EQ(parseHeader("{\"__metadata__\":{\"a\":1}}"),
            "f: __metadata__: key 'a' is a number, expected a string");
  EXPECT_EQ(parseHeader("{\"__metadata__\":null}"),
            "f: __metadata__: is null, expected an object");
}

TEST(SafetensorsTest, UnknownKeysAreWarnings) {
  std::string file =
      makeSafetensors(R"({"a":{"dtype":"U8","extra":[1,{"x":[]}],"shape":[1],)"
                      R"("data_offsets":[0,1]}})",
                      "x");
  std::vector<std::string> warnings;
  auto tensors = parseSafetensors(
      {reinterpret_cast<const uint8_t *>(file.data()), file.size()}, "f",
      warnings);
  ASSERT_TRUE(static_cast<bool>(tensors));
  EXPECT_EQ(warnings, std::vector<std::string>{
                          "f: tensor 'a': ignores unknown key 'extra'"});
}

TEST(SafetensorsTest, FilesThatAreSomethingElse) { // P1.11
  EXPECT_EQ(parse("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
            "f: is a Git LFS pointer, not the file itself (`git lfs pull` "
            "fetches it)");
  EXPECT_EQ(parse("<!DOCTYPE html><html>"),
            "f: is a web page, not the file itself");
  for (int size = 0; size < 8; ++size)
    EXPECT_EQ(parse(std::string(size, '\0')),
              "f: has " + std::to_string(size) +
                  " bytes, too few for a safetensors header");
  EXPECT_EQ(parse(std::string(8, '\0')), "f: the header is not a JSON object");
}

TEST(SafetensorsTest, HeaderLength) { // P1.09
  // Inside the header, 2^63, and all ones.
  EXPECT_EQ(parse(FileA.substr(0, 20)),
            "f: claims a header of 54 bytes in a file of 20; it is truncated "
            "or not safetensors");
  EXPECT_EQ(parse(std::string("\0\0\0\0\0\0\0\x80{}", 10)),
            "f: claims a header of 9223372036854775808 bytes in a file of 10; "
            "it is truncated or not safetensors");
  // More than any header has, in a file that could hold it.
  EXPECT_EQ(parse(std::string("\1\xe1\xf5\5\0\0\0\0", 8) +
                  std::string(100'000'001, ' ')),
            "f: claims a header of 100000001 bytes in a file of 100000009; it "
            "is truncated or not safetensors");
  EXPECT_EQ(parse(std::string(8, '\xff') + "{}"),
            "f: claims a header of 18446744073709551615 bytes in a file of 10; "
            "it is truncated or not safetensors");
}

TEST(SafetensorsTest, HeaderText) {
  EXPECT_EQ(parseHeader("[]"), "f: the header is not a JSON object");
  EXPECT_EQ(parseHeader("\xef\xbb\xbf{}"),
            "f: the header is not a JSON object");
  EXPECT_EQ(parseHeader(" {}"), "f: the header is not a JSON object");
  EXPECT_EQ(parseHeader(std::string("{}\0x", 4)),
            "f: the header is not a JSON object");
  EXPECT_EQ(parseHeader("{} x"), "f: the header is not JSON at byte 4");
  EXPECT_EQ(parseHeader("{\"\xff\":1}"), "f: the header is not JSON at byte 3");
  EXPECT_EQ(parseHeader("{" + TensorA), "f: the header is not JSON at byte 54");
  std::string deep = "{\"a\":{\"x\":" + std::string(100000, '[');
  EXPECT_EQ(parseHeader(deep),
            "f: tensor 'a': the value of 'x' is nested too deeply");
}

TEST(SafetensorsTest, DuplicateKeys) { // P1.08
  EXPECT_EQ(parseHeader("{" + TensorA + "," +
                            entry("a", "F32", "[2]", "[8,16]") + "}",
                        16),
            "f: duplicate tensor name 'a'");
  EXPECT_EQ(parseHeader(R"({"a":{"dtype":"U8","dtype":"U8"}})"),
            "f: tensor 'a': duplicate key 'dtype'");
  EXPECT_EQ(parseHeader(R"({"__metadata__":{"k":"1","k":"2"}})"),
            "f: __metadata__: duplicate key 'k'");
}

TEST(SafetensorsTest, Entries) {
  EXPECT_EQ(parseHeader(R"({"a":[]})"),
            "f: tensor 'a': is an array, expected an object");
  EXPECT_EQ(parseHeader(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1),
            "f: tensor 'a': key 'dtype' is missing");
  EXPECT_EQ(parseHeader(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1),
            "f: tensor 'a': key 'shape' is missing");
  EXPECT_EQ(parseHeader(R"({"a":{"dtype":"U8","shape":[1]}})", 1),
            "f: tensor 'a': key 'data_offsets' is missing");
  EXPECT_EQ(parseHeader("{" + entry("a", "F12", "[1]", "[0,1]") + "}", 1),
            "f: tensor 'a': unknown dtype 'F12'");
  EXPECT_EQ(parseHeader(R"({"a":{"dtype":5}})"),
            "f: tensor 'a': dtype holds a number, expected a string");
  // A name is data: it may hold anything, also what terminals obey.
  EXPECT_EQ(parseHeader(R"({"../\u001b[2J":1})"),
            "f: tensor '../\\033[2J': is a number, expected an object");
}

TEST(SafetensorsTest, Numbers) { // P1.09
  auto shape = [](const std::string &text) {
    return parseHeader("{" + entry("a", "U8", text, "[0,1]") + "}", 1);
  };
  std::string expected = ", expected whole numbers that are not negative";
  EXPECT_EQ(shape("[-1]"),
            "f: tensor 'a': shape holds a negative number" + expected);
  EXPECT_EQ(shape("[1.5]"),
            "f: tensor 'a': shape holds the number 1.5" + expected);
  EXPECT_EQ(shape("[1e0]"),
            "f: tensor 'a': shape holds the number 1e0" + expected);
  EXPECT_EQ(shape("[\"1\"]"), "f: tensor 'a': shape holds a string" + expected);
  EXPECT_EQ(shape("1"), "f: tensor 'a': shape holds a number" + expected);
  EXPECT_EQ(shape("[[1]]"), "f: tensor 'a': shape holds an array" + expected);
  EXPECT_EQ(shape("[9007199254740993]"),
            "f: tensor 'a': shape holds 9007199254740993, expected at most "
            "2^53");
  EXPECT_EQ(shape("[99999999999999999999]"),
            "f: tensor 'a': shape holds the number 99999999999999999999" +
                expected);
  EXPECT_EQ(shape("[1,1,1,1,1,1,1,1,1]"),
            "f: tensor 'a': has more than 8 dimensions");
  // The product leaves 64 bits, and would come back as 0 bytes.
  EXPECT_EQ(parseHeader("{" +
                        entry("a", "U8", "[8589934592,8589934592]", "[0,0]") +
                        "}"),
            "f: tensor 'a': U8 [8589934592, 8589934592] does not fill its 0 "
            "bytes");
}

TEST(SafetensorsTest, Ranges) { // P1.09
  auto offsets = [](const std::string &text) {
    return parseHeader("{" + entry("a", "U8", "[4]", text) + "}", 4);
  };
  EXPECT_EQ(offsets("[0,4]"), "");
  EXPECT_EQ(offsets("[4,0]"), "f: tensor 'a': data_offsets begin at 4 and end "
                              "before, at 0");
  EXPECT_EQ(offsets("[0,5]"),
            "f: tensor 'a': ends at byte 5 of 4 bytes of data; the file is "
            "truncated or the header wrong");
  EXPECT_EQ(offsets("[0,4611686018427387904]"),
            "f: tensor 'a': data_offsets holds 4611686018427387904, expected "
            "at most 2^53");
  EXPECT_EQ(offsets("[0]"),
            "f: tensor 'a': data_offsets has 1 numbers, expected 2");
  EXPECT_EQ(offsets("[0,2,4]"), "f: tensor 'a': data_offsets has more than 2 "
                                "numbers, expected 2");
  EXPECT_EQ(offsets("[0,3]"),
            "f: tensor 'a': U8 [4] does not fill its 3 bytes");
  EXPECT_EQ(parse(FileA.substr(0, FileA.size() - 1)),
            "f: tensor 'a': ends at byte 8 of 7 bytes of data; the file is "
            "truncated or the header wrong");
  EXPECT_EQ(parse(FileA + "x"), "f: 1 bytes follow the last tensor");
}

TEST(SafetensorsTest, RangesTile) {
  auto second = [](const std::string &range, size_t size) {
    return parseHeader(
        "{" + TensorA + "," + entry("b", "U8", "[4]", range) + "}", size);
  };
  EXPECT_EQ(second("[8,12]", 12), "");
  EXPECT_EQ(second("[6,10]", 10),
            "f: tensor 'b': begins at byte 6, expected 8: tensors must not "
            "overlap");
  EXPECT_EQ(second("[9,13]", 13),
            "f: tensor 'b': begins at byte 9, expected 8: tensors must leave "
            "no holes");
}

/// Every prefix of a good file, and every file with one byte changed, is read
/// or refused; the sanitizers watch.
TEST(SafetensorsTest, DamagedFiles) { // P1.09
  for (size_t size = 0; size < FileA.size(); ++size)
    EXPECT_NE(parse(FileA.substr(0, size)), "") << size;
  for (size_t at = 0; at < FileA.size(); ++at)
    for (char value : {'\0', '"', '9', '\x7f', '\xff'}) {
      std::string damaged = FileA;
      damaged[at] = value;
      parse(damaged);
    }
}

//===----------------------------------------------------------------------===//
// A directory
//===----------------------------------------------------------------------===//

TEST(CheckpointTest, ReadsTinyTarget) {
  std::string directory =
      std::string(TANDEM_SOURCE_DIR) + "/test/Inputs/tiny/target-bf16";
  Expected<Checkpoint> opened = Checkpoint::open(directory);
  ASSERT_TRUE(static_cast<bool>(opened)) << toString(opened.takeError());
  // Views must survive a move.
  Checkpoint checkpoint = std::move(*opened);
  EXPECT_EQ(checkpoint.getDirectory(), directory);
  const TensorView *norm = checkpoint.find("model.language_model.norm.weight");
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(norm->dtype, DType::BF16);
  EXPECT_EQ(norm->bytes.size(), 256u);
  EXPECT_EQ(norm->file, directory + "/model.safetensors");
  EXPECT_EQ(checkpoint.find("norm.weight"), nullptr);
  EXPECT_TRUE(is_sorted(checkpoint.getTensors(),
                        [](const TensorView &lhs, const TensorView &rhs) {
                          return lhs.name < rhs.name;
                        }));
}

TEST(CheckpointTest, WithoutIndex) { // P1.07
  TempDirectory directory;
  EXPECT_EQ(
      getMessage(Checkpoint::open(directory.getPath()), directory.getPath()),
      ": holds no .safetensors file and no model.safetensors.index.json");
  EXPECT_EQ(getMessage(Checkpoint::open(directory.getPath("no")),
                       directory.getPath()),
            "/no: is not a directory");
  // Whatever the file is called; several as long as they do not meet.
  directory.write("weights.safetensors", FileA);
  directory.write("more.safetensors", FileB);
  EXPECT_EQ(open(directory), "");
  directory.write("copy.safetensors", FileA);
  EXPECT_EQ(open(directory), "tensor 'a' is in two files, copy.safetensors and "
                             "weights.safetensors");
}

TEST(CheckpointTest, WithIndex) { // P1.06, P1.07
  TempDirectory directory;
  directory.write("1.safetensors", FileA);
  directory.write("2.safetensors", FileB);
  // Files that the index does not name do not count, however broken.
  directory.write("consolidated.safetensors", "junk");
  auto index = [&](const std::string &text) {
    directory.write("model.safetensors.index.json", text);
    return open(directory);
  };
  EXPECT_EQ(index(R"({"metadata":{"total_size":1},"weight_map":)"
                  R"({"a":"1.safetensors","b":"2.safetensors"}})"),
            "");
  auto listed = Checkpoint::listFiles(directory.getPath());
  ASSERT_TRUE(bool(listed));
  EXPECT_EQ(*listed,
            (std::vector<std::string>{"1.safetensors", "2.safetensors"}));
  EXPECT_EQ(index(R"({"weight_map":{"a":"1.safetensors"}})"), "");
  EXPECT_EQ(index(R"({"weight_map":{"a":"3.safetensors",)"
                  R"("b":"4.safetensors"}})"),
            "model.safetensors.index.json: names '3.safetensors', "
            "'4.safetensors', which the directory does not hold");
  EXPECT_EQ(index(R"({"weight_map":{"a":"1.safetensors",)"
                  R"("b":"1.safetensors"}})"),
            "model.safetensors.index.json: lists tensor 'b', which "
            "'1.safetensors' does not hold");
  EXPECT_EQ(index(R"({"weight_map":{"c":"1.safetensors"}})"),
            "1.safetensors: tensor 'a' is not in model.safetensors.index.json");
  EXPECT_EQ(index(R"({"weight_map":{"a":"2.safetensors",)"
                  R"("b":"1.safetensors"}})"),
            "model.safetensors.index.json: says that tensor 'a' is in "
            "'2.safetensors', but it is in 1.safetensors");
  EXPECT_EQ(index(R"({"weight_map":{"a":1}})"),
            "model.safetensors.index.json: weight_map of 'a' is number, "
            "expected a string");
  EXPECT_EQ(index(R"({"weight_map":[]})"),
            "model.safetensors.index.json: weight_map is missing or no object");
  EXPECT_EQ(index(R"({"weight_map":{"a":"1","a":"2"}})"),
            "model.safetensors.index.json: duplicate key 'a'");
  for (const char *name :
       {"../1.safetensors", "/etc/passwd", "x/y", "..", "", "c:x", "a\\\\b"})
    EXPECT_NE(index("{\"weight_map\":{\"a\":\"" + std::string(name) + "\"}}")
                  .find("expected a file name without a folder"),
              std::string::npos)
        << name;
}

TEST(CheckpointTest, TensorInTwoShards) { // P1.07
  TempDirectory directory;
  directory.write("1.safetensors", FileA);
  directory.write("2.safetensors",
                  makeSafetensors("{" + TensorA + "," +
                                      entry("b", "U8", "[1]", "[8,9]") + "}",
                                  std::string(9, '\0')));
  directory.write("model.safetensors.index.json",
                  R"({"weight_map":{"a":"1.safetensors",)"
                  R"("b":"2.safetensors"}})");
  EXPECT_EQ(open(directory),
            "tensor 'a' is in two files, 1.safetensors and 2.safetensors");
}

TEST(CheckpointTest, LinksAreFollowedAndOtherThingsAreNot) { // P7.11
  TempDirectory directory, blobs;
  blobs.write("0123", FileA);
  ASSERT_FALSE(sys::fs::create_link(blobs.getPath("0123"),
                                    directory.getPath("model.safetensors")));
  EXPECT_EQ(open(directory), "");
  TempDirectory folder;
  ASSERT_FALSE(sys::fs::create_directory(folder.getPath("model.safetensors")));
  EXPECT_EQ(open(folder), "model.safetensors: is not a regular file");
  // Links to nothing and to themselves.
  TempDirectory dangling, loop;
  ASSERT_FALSE(sys::fs::create_link(blobs.getPath("4567"),
                                    dangling.getPath("model.safetensors")));
  EXPECT_EQ(open(dangling), "model.safetensors: No such file or directory");
  ASSERT_FALSE(sys::fs::create_link(loop.getPath("model.safetensors"),
                                    loop.getPath("model.safetensors")));
  EXPECT_EQ(open(loop), "model.safetensors: Too many levels of symbolic links");
}
