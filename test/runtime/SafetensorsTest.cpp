//===- SafetensorsTest.cpp - Tensors, ids and texts in files --------------===//

#include "runtime/IdsFile.h"
#include "runtime/SafetensorsIo.h"
#include "test/runtime/TemporaryFolder.h"

#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

using namespace tandem;
using namespace tandem::test;

namespace {

std::string fileOf(const std::string &header, size_t data) {
  uint64_t length = header.size();
  std::string file(reinterpret_cast<const char *>(&length), 8);
  return file + header + std::string(data, '\1');
}

/// What opening such a file says; "" when it opens.
std::string problemOf(const std::string &file) {
  TemporaryFolder folder;
  return SafetensorsReader::open(folder.write("file", file)).status().message();
}

std::string problemOf(const std::string &header, size_t data) {
  return problemOf(fileOf(header, data));
}

} // namespace

TEST(Safetensors, WhatIsWrittenIsRead) {
  TemporaryFolder folder;
  std::vector<TensorInfo> tensors = {
      {"b", "F32", {2, 3}}, {"a", "I32", {}}, {"empty", "F32", {0, 5}}};
  auto writer = SafetensorsWriter::create(folder.path() + "/file", tensors);
  ASSERT_TRUE(writer.isOk()) << writer.status().message();
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  int32_t number = 42;
  // In pieces that are not tensors.
  auto bytes = std::as_bytes(std::span(values));
  ASSERT_TRUE(writer->append(bytes.first(10)).isOk());
  ASSERT_TRUE(writer->append(bytes.subspan(10)).isOk());
  ASSERT_TRUE(writer->append(std::as_bytes(std::span(&number, 1))).isOk());
  ASSERT_TRUE(writer->finish().isOk());
  EXPECT_EQ(folder.count(), 1u);

  auto reader = SafetensorsReader::open(folder.path() + "/file");
  ASSERT_TRUE(reader.isOk()) << reader.status().message();
  ASSERT_EQ(reader->tensors().size(), 3u);
  const auto *b = reader->find("b");
  ASSERT_TRUE(b);
  EXPECT_EQ(describe(*b), "F32 [2, 3]");
  EXPECT_EQ(std::memcmp(b->data.data(), values.data(), 24), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b->data.data()) % 8, 0u);
  EXPECT_EQ(std::memcmp(reader->find("a")->data.data(), &number, 4), 0);
  EXPECT_EQ(reader->find("c"), nullptr);
}

TEST(Safetensors, FileThatIsNotFinishedLeavesNothing) {
  TemporaryFolder folder;
  folder.write("file", "old");
  {
    std::vector<TensorInfo> tensors = {{"a", "F32", {2}}};
    auto writer = SafetensorsWriter::create(folder.path() + "/file", tensors);
    ASSERT_TRUE(writer.isOk());
  }
  EXPECT_EQ(folder.count(), 1u);
  EXPECT_EQ(folder.read("file"), "old");
}

TEST(Safetensors, KilledWritersLeaveNothing) { // P7.12
  TemporaryFolder folder;
  int probe = open(folder.path().c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (probe < 0)
    GTEST_SKIP() << "the file system has no files without a name";
  close(probe);
  pid_t child = fork();
  if (child == 0) {
    std::vector<TensorInfo> tensors = {{"a", "F32", {2}}};
    auto writer = SafetensorsWriter::create(folder.path() + "/file", tensors);
    _exit(writer.isOk() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(folder.count(), 0u);
}

TEST(Safetensors, NamesThatAKilledWriterLeftAreInNobodysWay) {
  TemporaryFolder folder;
  for (unsigned number : {0u, 1u})
    folder.write(concat("file.tmp-", getpid(), "-", number), "half");
  std::vector<TensorInfo> tensors = {{"a", "U8", {2}}};
  auto writer = SafetensorsWriter::create(folder.path() + "/file", tensors);
  ASSERT_TRUE(writer.isOk());
  ASSERT_TRUE(writer->append(std::as_bytes(std::span("xy", 2))).isOk());
  Status finished = writer->finish();
  EXPECT_TRUE(finished.isOk()) << finished.message();
  EXPECT_TRUE(folder.read("file").ends_with("xy"));
  EXPECT_EQ(folder.count(), 3u);
}

TEST(Safetensors, OutputThatCannotBeWrittenIsAnError) {
  TemporaryFolder folder;
  std::vector<TensorInfo> tensors = {{"a", "F32", {100}}};
  EXPECT_EQ(
      SafetensorsWriter::create(folder.path(), tensors).status().message(),
      "is a directory, not a file");
  EXPECT_EQ(SafetensorsWriter::create(folder.path() + "/no/file", tensors)
                .status()
                .message(),
            "cannot create: No such file or directory");
  EXPECT_EQ(SafetensorsWriter::create("/dev/full", tensors).status().message(),
            "cannot write: No space left on device");
}

TEST(Safetensors, MetadataAndPaddingAreFine) {
  EXPECT_EQ(problemOf(R"({"__metadata__":{"dtype":"x","a":"b"},)"
                      R"("t":{"dtype":"I8","shape":[3],"data_offsets":[0,3]}} )"
                      "   ",
                      3),
            "");
}

TEST(Safetensors, DamagedFilesAreRefused) {
  EXPECT_EQ(problemOf(""), "is too short for a safetensors file (0 bytes)");
  EXPECT_EQ(problemOf("1234567"),
            "is too short for a safetensors file (7 bytes)");
  EXPECT_EQ(problemOf(std::string(8, '\0')),
            "not a safetensors file: a header of 0 bytes in a file of 8");
  EXPECT_NE(problemOf(std::string(20, '\xff')), "");
  EXPECT_EQ(problemOf("[]", 0),
            "not a safetensors file: the header is not JSON");
  EXPECT_EQ(problemOf("{]", 0), "the header is not valid JSON at byte 2");
  EXPECT_NE(problemOf("{} x", 0), "");
  EXPECT_NE(problemOf("{\"\xff\":1}", 0), "");
  EXPECT_EQ(problemOf("{}", 1), "the tensors end at 0, the data at 1");
}

TEST(Safetensors, EntriesAreChecked) {
  auto problem = [](const std::string &entry, size_t data = 4) {
    return problemOf("{\"t\":" + entry + "}", data);
  };
  std::string shape = R"("shape":[1],)", offsets = R"("data_offsets":[0,4])";
  std::string dtype = R"("dtype":"F32",)";
  EXPECT_EQ(problem("{" + dtype + shape + offsets + "}"), "");
  std::string expected = "tensor 't': expected dtype, shape and data_offsets";
  EXPECT_EQ(problem("{" + shape + offsets + "}"), expected);
  EXPECT_EQ(problem("{" + dtype + offsets + "}"), expected);
  EXPECT_EQ(problem("{" + dtype + R"("shape":[1]})"), expected);
  EXPECT_EQ(problem("{" + dtype + shape + R"("data_offsets":[0]})"), expected);
  EXPECT_EQ(problem("3"), "tensor 't' has a number where none belongs");
  EXPECT_EQ(problem("{" + dtype + R"("shape":[-1],)" + offsets + "}"),
            "tensor 't' has a negative number where none belongs");
  EXPECT_EQ(problem("{" + dtype + R"("shape":[1.0],)" + offsets + "}"),
            "tensor 't' has a number that is no integer where none belongs");
  EXPECT_EQ(problem("{" + dtype + R"("shape":[[1]],)" + offsets + "}"),
            "tensor 't' has an array where none belongs");
  EXPECT_EQ(problem("{" + dtype + shape + offsets + R"(,"dtype":"F32"})"),
            "key 'dtype' of 't' appears twice");
  EXPECT_EQ(problem(R"({"dtype":"F31",)" + shape + offsets + "}"),
            "tensor 't': unknown dtype 'F31'");
  EXPECT_EQ(problem("{" + dtype + R"("shape":[2],)" + offsets + "}"),
            "tensor 't': has 4 bytes, F32 [2] needs 8");
  EXPECT_EQ(problem("{" + dtype + shape + R"("data_offsets":[4,0]})"),
            "tensor 't': data_offsets [4, 0] are outside the data of 4 bytes");
  EXPECT_EQ(problem("{" + dtype + shape + R"("data_offsets":[0,8]})"),
            "tensor 't': data_offsets [0, 8] are outside the data of 4 bytes");
  EXPECT_EQ(problem("{" + dtype + R"("shape":[4294967296,4294967296],)" +
                    offsets + "}"),
            "tensor 't': the shape is too large");
  EXPECT_EQ(
      problem("{" + dtype + R"("shape":[1,1,1,1,1,1,1,1,1],)" + offsets + "}"),
      "'shape' of 't' is longer than 8");
}

TEST(Safetensors, TensorsCoverTheDataWithoutOverlapOrHole) {
  auto entry = [](const char *name, int begin, int end) {
    return concat("\"", name, R"(":{"dtype":"I8","shape":[)", end - begin,
                  R"(],"data_offsets":[)", begin, ",", end, "]}");
  };
  auto problem = [&](int begin) {
    return problemOf("{" + entry("a", 0, 3) + "," + entry("b", begin, 6) + "}",
                     6);
  };
  EXPECT_EQ(problem(3), "");
  EXPECT_EQ(problem(2), "tensor 'b' begins at 2, the one before ends at 3");
  EXPECT_EQ(problem(4), "tensor 'b' begins at 4, the one before ends at 3");
  EXPECT_EQ(problemOf("{" + entry("a", 0, 3) + "," + entry("a", 3, 6) + "}", 6),
            "tensor 'a' appears twice");
}

TEST(Safetensors, DeepNestingIsRefusedAtOnce) {
  EXPECT_NE(problemOf("{\"t\":" + std::string(1000000, '['), 0), "");
  EXPECT_NE(problemOf("{\"t\":" + std::string(1000000, '{'), 0), "");
}

TEST(Safetensors, RandomChangesNeverCrash) {
  std::string good =
      fileOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
             R"("b":{"dtype":"I8","shape":[2,2],"data_offsets":[4,8]}})",
             8);
  std::mt19937 random(3);
  TemporaryFolder folder;
  for (unsigned round = 0; round < 200; ++round) {
    std::string bad = good;
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
      bad[random() % bad.size()] = char(random());
    auto reader = SafetensorsReader::open(folder.write("file", bad));
    EXPECT_EQ(reader.isOk(), reader.status().message().empty());
  }
}

TEST(IdsFile, ReadsAnArrayOfIds) {
  TemporaryFolder folder;
  auto ids = readIdsFile(folder.write("ids", " [0, 17, 4294967295]\n"));
  ASSERT_TRUE(ids.isOk()) << ids.status().message();
  EXPECT_EQ(*ids, (std::vector<uint32_t>{0, 17, 4294967295u}));
  EXPECT_TRUE(readIdsFile(folder.write("ids", "[]"))->empty());
}

TEST(IdsFile, AnythingElseIsRefused) {
  TemporaryFolder folder;
  auto problem = [&](const char *text) {
    return readIdsFile(folder.write("ids", text)).status().message();
  };
  for (const char *text : {"", "{}", "[1", "1", "hello", "[1] 2", "\xff"})
    EXPECT_EQ(problem(text), "is not a JSON array of token ids") << text;
  for (const char *text : {"[1, -1]", "[1, 1.5]", "[1, \"2\"]", "[1, [2]]",
                           "[1, 4294967296]", "[1, null]"})
    EXPECT_EQ(problem(text), "element 1 is not a token id") << text;
}
