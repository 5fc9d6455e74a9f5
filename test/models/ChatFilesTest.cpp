//===- ChatFilesTest.cpp - How a checkpoint talks -------------------------===//

#include "models/ChatFiles.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>

using namespace llvm;
using namespace tandem::models;

namespace {

class ChatFilesTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(sys::fs::createUniqueDirectory("chat-files", folder));
  }
  void TearDown() override { (void)sys::fs::remove_directories(folder); }

  void write(StringRef name, StringRef text) {
    SmallString<256> path(folder);
    sys::path::append(path, name);
    std::ofstream(path.c_str(), std::ios::binary) << text.str();
  }

  ChatData read() {
    Expected<ChatData> data = readChatFiles(folder);
    EXPECT_TRUE(bool(data)) << toString(data.takeError());
    return data ? *data : ChatData();
  }

  SmallString<256> folder;
};

} // namespace

TEST_F(ChatFilesTest, NothingSaysNothing) {
  ChatData data = read();
  EXPECT_FALSE(data.templateHash);
  EXPECT_FALSE(data.generation);
  EXPECT_TRUE(data.thinking);
}

TEST_F(ChatFilesTest, TemplatesOfOneTextHaveOneHash) {
  write("tokenizer_config.json", R"({"chat_template":"{{ a }}\nb"})");
  auto hash = read().templateHash;
  ASSERT_TRUE(hash);
  for (const char *text :
       {"{{ a }}\nb", "{{ a }}\nb\n\n", "{{ a }}\r\nb\r\n"}) {
    write("chat_template.jinja", text);
    EXPECT_EQ(read().templateHash, hash);
  }
  write("chat_template.jinja", "{{ a }}\n b");
  EXPECT_NE(read().templateHash, hash);
}

TEST_F(ChatFilesTest, DefaultOfSeveralTemplates) {
  write("tokenizer_config.json", R"({"chat_template":"x"})");
  auto hash = read().templateHash;
  write("tokenizer_config.json",
        R"({"chat_template":[{"name":"tool_use","template":"y"},
                             {"name":"default","template":"x"}]})");
  EXPECT_EQ(read().templateHash, hash);
  write("tokenizer_config.json", R"({"chat_template":7})");
  Expected<ChatData> data = readChatFiles(folder);
  ASSERT_FALSE(bool(data));
  EXPECT_TRUE(StringRef(toString(data.takeError()))
                  .ends_with("tokenizer_config.json: chat_template: is 7, "
                             "expected a string, or an array with one called "
                             "'default'"));
}

TEST_F(ChatFilesTest, SmallModelsThinkOnlyWhenTold) {
  for (auto [width, thinking] :
       {std::pair(1024, false), {2048, false}, {2560, true}}) {
    write("config.json", (R"({"text_config":{"model_type":"qwen3_5_text",)"
                          R"("hidden_size":)" +
                          Twine(width) + "}}")
                             .str());
    EXPECT_EQ(read().thinking, thinking) << width;
  }
  write("config.json", R"({"model_type":"qwen3","hidden_size":1024})");
  EXPECT_TRUE(read().thinking);
}

TEST_F(ChatFilesTest, GenerationDefaults) {
  write("generation_config.json",
        R"({"do_sample":true,"temperature":0.6,"top_k":20,"top_p":0.95})");
  ChatData data = read();
  ASSERT_TRUE(data.generation);
  EXPECT_TRUE(data.generation->sample);
  EXPECT_EQ(data.generation->temperature, 0.6);
  EXPECT_EQ(data.generation->topK, 20);
  EXPECT_EQ(data.generation->topP, 0.95);
  EXPECT_FALSE(data.generation->minP);
  EXPECT_FALSE(data.generation->repetitionPenalty);
  write("generation_config.json", R"({"top_k":"many"})");
  Expected<ChatData> bad = readChatFiles(folder);
  ASSERT_FALSE(bool(bad));
  consumeError(bad.takeError());
}
