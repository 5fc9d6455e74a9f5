//===- TextStreamTest.cpp - Text from tokens, piece by piece --------------===//

#include "runtime/TextStream.h"
#include "runtime/Artifact.h"
#include "test/runtime/TestArtifact.h"

#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::test;

namespace {

/// A stream over single bytes, and the tokens 256 and 257 for two words.
class TextStreamTest : public testing::Test {
protected:
  void SetUp() override {
    ArtifactSpec spec;
    spec.tokenizer = byteTokenizer({"the quick", " brown fox"});
    file = spec.write();
    auto opened = Artifact::view(file.bytes());
    ASSERT_TRUE(opened.isOk()) << opened.status().message();
    artifact = std::move(*opened);
    auto created = Tokenizer::create(*artifact->root().tokenizer());
    ASSERT_TRUE(created.isOk()) << created.status().message();
    tokenizer.emplace(std::move(*created));
  }

  TextStream stream(std::vector<std::string> stops = {}) {
    return TextStream(*tokenizer, std::move(stops));
  }

  /// Pushes the bytes of \p text and joins what comes out after each,
  /// separated by '|'.
  static std::string pieces(TextStream &stream, std::string_view text) {
    std::string result;
    for (char byte : text) {
      bool more = stream.push(uint8_t(byte));
      result += stream.take() + "|";
      if (!more)
        return result + "stop";
    }
    stream.finish();
    return result + stream.take();
  }

  FileBytes file;
  std::optional<Artifact> artifact;
  std::optional<Tokenizer> tokenizer;
};

} // namespace

TEST_F(TextStreamTest, OnlyWholeCharactersComeOut) { // P6.01
  TextStream text = stream();
  EXPECT_EQ(pieces(text, "a\xf0\x9f\x98\x80z"), "a||||\xf0\x9f\x98\x80|z|");
}

TEST_F(TextStreamTest, CutCharacterAtTheEndIsReplaced) { // P6.02
  TextStream text = stream();
  EXPECT_EQ(pieces(text, "a\xf0\x9f"), "a|||\xef\xbf\xbd");
}

TEST_F(TextStreamTest, StopStringIsNeverShownNotEvenInPart) {
  TextStream text = stream({"END"});
  EXPECT_EQ(pieces(text, "aENEEND!"), "a|||EN|E|||stop");
}

TEST_F(TextStreamTest, WhatOnlyLooksLikeAStopStringComesOutInTheEnd) {
  TextStream text = stream({"END"});
  EXPECT_EQ(pieces(text, "xEN"), "x|||EN");
}

TEST_F(TextStreamTest, StopStringAcrossAndInsideTokens) { // P8.04
  TextStream text = stream({"own fox"});
  EXPECT_TRUE(text.push(256));
  EXPECT_EQ(text.take(), "the quick");
  EXPECT_FALSE(text.push(257));
  EXPECT_EQ(text.take(), " br");
  EXPECT_FALSE(text.push('x'));
  text.finish();
  EXPECT_EQ(text.take(), "");

  TextStream across = stream({"quick brown"});
  EXPECT_TRUE(across.push(256));
  EXPECT_EQ(across.take(), "the ");
  EXPECT_FALSE(across.push(257));
  EXPECT_EQ(across.take(), "");
}

TEST_F(TextStreamTest, FirstOfSeveralStopStringsCounts) {
  TextStream text = stream({"fox", "brown", "quick br"});
  EXPECT_TRUE(text.push(256));
  EXPECT_FALSE(text.push(257));
  EXPECT_EQ(text.take(), "the ");
}

TEST_F(TextStreamTest, StopStringThatRepeatsItselfIsFound) {
  TextStream text = stream({"aab"});
  EXPECT_EQ(pieces(text, "aaab"), "||a||stop");
}

TEST_F(TextStreamTest, StopStringThatIsTheWholeAnswerLeavesNothing) {
  TextStream text = stream({"the quick"});
  EXPECT_FALSE(text.push(256));
  EXPECT_EQ(text.take(), "");
}

TEST_F(TextStreamTest, TakingLaterGivesTheSameText) {
  TextStream text = stream({"END"});
  for (char byte : std::string_view("some EN text E"))
    EXPECT_TRUE(text.push(uint8_t(byte)));
  EXPECT_EQ(text.take(), "some EN text ");
  text.finish();
  EXPECT_EQ(text.take(), "E");
}

TEST_F(TextStreamTest, TokensOutsideTheVocabularyAreNoText) { // P6.08
  TextStream text = stream();
  EXPECT_TRUE(text.push(100000));
  EXPECT_EQ(text.take(), "");
}
