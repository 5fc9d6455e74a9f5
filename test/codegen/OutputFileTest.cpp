//===- OutputFileTest.cpp - Files appear when they are whole --------------===//

#include "codegen/OutputFile.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include "gtest/gtest.h"

#include <csignal>
#include <random>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace llvm;
using tandem::codegen::OutputFile;

namespace {

class OutputFileTest : public testing::Test {
protected:
  OutputFileTest() {
    EXPECT_FALSE(sys::fs::createUniqueDirectory("tandem", folder));
  }
  ~OutputFileTest() override { sys::fs::remove_directories(folder); }

  std::string pathTo(StringRef name) {
    SmallString<256> path = folder;
    sys::path::append(path, name);
    return path.str().str();
  }

  /// Names in the folder, sorted.
  std::vector<std::string> list() {
    std::vector<std::string> names;
    std::error_code error;
    for (sys::fs::directory_iterator it(folder, error), end; it != end;
         it.increment(error))
      names.push_back(sys::path::filename(it->path()).str());
    llvm::sort(names);
    return names;
  }

  static std::string read(const std::string &path) {
    auto buffer = MemoryBuffer::getFile(path);
    return buffer ? (*buffer)->getBuffer().str() : "missing";
  }

  static void write(const std::string &path, StringRef text) {
    std::error_code error;
    raw_fd_ostream(path, error) << text;
    EXPECT_FALSE(error);
  }

  static std::string errorOf(StringRef path) {
    Expected<OutputFile> file = OutputFile::create(path);
    return file ? "none" : toString(file.takeError());
  }

  using Names = std::vector<std::string>;
  SmallString<256> folder;
};

TEST_F(OutputFileTest, HasItsNameAtTheEnd) {
  std::string path = pathTo("a");
  write(path, "old");
  Expected<OutputFile> file = OutputFile::create(path);
  ASSERT_TRUE(bool(file));
  file->os() << "new";
  file->os().flush();
  EXPECT_EQ(read(path), "old");
  EXPECT_EQ(list().size(), 2u);
  EXPECT_EQ(toString(file->finish()), "");
  EXPECT_EQ(read(path), "new");
  EXPECT_EQ(list(), Names{"a"});
}

TEST_F(OutputFileTest, LeavesNothingWhenNotFinished) {
  {
    Expected<OutputFile> file = OutputFile::create(pathTo("a"));
    ASSERT_TRUE(bool(file));
    OutputFile moved = std::move(*file);
    moved.os() << "half";
    EXPECT_EQ(list().size(), 1u);
  }
  EXPECT_EQ(list(), Names{});
}

TEST_F(OutputFileTest, WritersOfOnePathDoNotMix) { // P7.04
  Expected<OutputFile> first = OutputFile::create(pathTo("a"));
  Expected<OutputFile> second = OutputFile::create(pathTo("a"));
  ASSERT_TRUE(bool(first) && bool(second));
  first->os() << "first";
  second->os() << "second";
  EXPECT_EQ(toString(second->finish()), "");
  EXPECT_EQ(read(pathTo("a")), "second");
  EXPECT_EQ(toString(first->finish()), "");
  EXPECT_EQ(read(pathTo("a")), "first");
  EXPECT_EQ(list(), Names{"a"});
}

TEST_F(OutputFileTest, RemovesWhatAKilledWriterLeft) {
  auto age = [&](const std::string &path) {
    struct timeval times[2] = {};
    EXPECT_EQ(utimes(path.c_str(), times), 0);
  };
  write(pathTo(".tandem-tmp-1"), "old");
  age(pathTo(".tandem-tmp-1"));
  // As young as one that is about to be locked.
  write(pathTo(".tandem-tmp-2"), "young");
  // Old, but its writer is alive.
  Expected<OutputFile> alive = OutputFile::create(pathTo("a"));
  ASSERT_TRUE(bool(alive));
  EXPECT_EQ(list().size(), 2u);
  for (const std::string &name : list())
    if (name != ".tandem-tmp-2")
      age(pathTo(name));
  Expected<OutputFile> other = OutputFile::create(pathTo("b"));
  ASSERT_TRUE(bool(other));
  EXPECT_EQ(list().size(), 3u);
  EXPECT_EQ(toString(alive->finish()), "");
  EXPECT_EQ(toString(other->finish()), "");
  EXPECT_EQ(list(), (Names{".tandem-tmp-2", "a", "b"}));
}

/// P7.12: whenever a signal comes, the temporary file goes.
TEST_F(OutputFileTest, SignalsLeaveNothing) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      // Handlers of files that other tests wrote are there once and for all.
      if (auto before = signal(SIGINT, SIG_DFL); before != SIG_IGN)
        signal(SIGINT, before);
      for (;;)
        if (Expected<OutputFile> file = OutputFile::create(pathTo("a"));
            !file || errorToBool(file->finish()))
          _exit(1);
    }
    while (list().empty())
      usleep(100);
    usleep(random() % 1000);
    kill(child, SIGINT);
    int status;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
    sys::fs::remove(pathTo("a"));
    ASSERT_EQ(list(), Names{}) << "in round " << round;
  }
}

TEST_F(OutputFileTest, NamesOfAnyKind) { // P7.10
  for (std::string name : {std::string("a b %d %%% \"quoted\" 'x'"),
                           std::string("\xd1\x82\xd0\xb5\xd1\x81\xd1\x82"),
                           std::string(255, 'n')}) {
    Expected<OutputFile> file = OutputFile::create(pathTo(name));
    ASSERT_TRUE(bool(file));
    EXPECT_EQ(toString(file->finish()), "");
    EXPECT_EQ(list(), Names{name});
    sys::fs::remove(pathTo(name));
  }
}

TEST_F(OutputFileTest, PathsThatAreNoFiles) { // P7.06
  EXPECT_EQ(errorOf(folder), (folder + ": is a directory, not a file").str());
  EXPECT_EQ(errorOf("/dev/null"), "/dev/null: is not a regular file");
  EXPECT_EQ(errorOf(""), "the path of the output is empty");
  std::string missing = pathTo("no/a");
  EXPECT_EQ(errorOf(missing), missing + ": No such file or directory");
  write(pathTo("file"), "");
  std::string below = pathTo("file/a");
  EXPECT_EQ(errorOf(below), below + ": Not a directory");
  std::string slash = pathTo("a/");
  EXPECT_EQ(errorOf(slash), slash + ": is not the name of a file");
  std::string longName = pathTo(std::string(256, 'n'));
  EXPECT_EQ(errorOf(longName), longName + ": File name too long");
}

TEST_F(OutputFileTest, MoreThanAnyDiskHolds) { // P7.07
  Expected<OutputFile> file = OutputFile::create(pathTo("a"));
  ASSERT_TRUE(bool(file));
  std::string error = toString(file->reserve(uint64_t(1) << 61));
  // A file system that cannot reserve says nothing.
  if (!error.empty()) {
    EXPECT_TRUE(StringRef(error).starts_with(pathTo("a") + ": ")) << error;
  }
}

} // namespace
