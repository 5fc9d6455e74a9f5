//===- Utf8Test.cpp - Checking, normalizing and streaming UTF-8 -----------===//

#include "runtime/Utf8.h"

#include <gtest/gtest.h>

using namespace tandem;

namespace {

std::string streamInPieces(std::string_view bytes, size_t pieceSize) {
  Utf8Stream stream;
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += pieceSize)
    text += stream.push(bytes.substr(at, pieceSize));
  return text + stream.finish();
}

TEST(Utf8Test, countsUpToTheFirstBadByte) {
  EXPECT_EQ(countValidUtf8(""), 0u);
  EXPECT_EQ(countValidUtf8("12345678abc"), 11u);
  EXPECT_EQ(countValidUtf8("\u00E9\u4F60\U0001F600"), 9u);
  EXPECT_EQ(countValidUtf8("\xF4\x8F\xBF\xBF"), 4u); // U+10FFFF
  EXPECT_EQ(countValidUtf8("\xF4\x90\x80\x80"), 0u); // one more
  EXPECT_EQ(countValidUtf8("a\xC0\x80"), 1u);        // overlong NUL
  EXPECT_EQ(countValidUtf8("\xE0\x9F\xBF"), 0u);     // overlong U+07FF
  EXPECT_EQ(countValidUtf8("\xF0\x8F\xBF\xBF"), 0u); // overlong U+FFFF
  EXPECT_EQ(countValidUtf8("\xED\x9F\xBF"), 3u);     // U+D7FF
  EXPECT_EQ(countValidUtf8("\xED\xA0\x80"), 0u);     // U+D800, a surrogate
  EXPECT_EQ(countValidUtf8("12345678\x80"), 8u);     // continuation alone
  EXPECT_EQ(countValidUtf8("1234567\xE2\x82"), 7u);  // cut
  EXPECT_EQ(countValidUtf8("\u00E9\xFE"), 2u);       // no lead byte
}

// Every lead byte with every second byte: what is a code point must come back
// as itself, what is not must not be read over.
TEST(Utf8Test, headsOfAllTwoBytes) {
  for (unsigned lead = 0; lead < 256; ++lead)
    for (unsigned second = 0; second < 256; ++second) {
      const char bytes[] = {char(lead), char(second)};
      Utf8Head head = readUtf8Head({bytes, 2});
      bool continues = second >= 0x80 && second < 0xC0;
      if (lead < 0x80) {
        EXPECT_EQ(head.kind, Utf8Head::Kind::Whole);
        EXPECT_EQ(head.size, 1u);
        EXPECT_EQ(head.value, lead);
      } else if (lead >= 0xC2 && lead < 0xE0 && continues) {
        EXPECT_EQ(head.kind, Utf8Head::Kind::Whole);
        EXPECT_EQ(head.size, 2u);
        EXPECT_EQ(head.value, (lead - 0xC0) * 64 + second - 0x80);
      } else if (head.kind == Utf8Head::Kind::Cut) {
        EXPECT_TRUE(lead >= 0xE0 && lead <= 0xF4 && continues);
        EXPECT_EQ(head.size, 2u);
      } else {
        EXPECT_EQ(head.kind, Utf8Head::Kind::Invalid);
        EXPECT_EQ(head.size, 1u);
      }
    }
}

TEST(Utf8Test, streamIsTheSameForEveryCut) {
  const std::string_view text = "a\u00E9\u4F60 \U0001F468\u200D\U0001F469 "
                                "12345678 \U0001F1E8\U0001F1FF\u010D";
  for (size_t pieceSize = 1; pieceSize <= text.size(); ++pieceSize)
    EXPECT_EQ(streamInPieces(text, pieceSize), text) << pieceSize;
  // One replacement for each beginning of a code point, as Python and Rust do.
  const std::string_view broken = "a\xF0\x9F\x98g\xE2\x82\xE2\x82\xAC\xFF\xC3"
                                  "\xED\xA0\x80 \xF0\x9F";
  const std::string_view repaired = "a\uFFFDg\uFFFD\u20AC\uFFFD\uFFFD\uFFFD"
                                    "\uFFFD\uFFFD \uFFFD";
  for (size_t pieceSize = 1; pieceSize <= broken.size(); ++pieceSize)
    EXPECT_EQ(streamInPieces(broken, pieceSize), repaired) << pieceSize;
}

TEST(Utf8Test, streamHoldsBackWhatIsNotComplete) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("x\xF0\x9F"), "x");
  EXPECT_EQ(stream.push(""), "");
  EXPECT_EQ(stream.push("\x98"), "");
  EXPECT_EQ(stream.push("\x80y"), "\U0001F600y");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.push("\xE4\xBD"), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  // It starts anew.
  EXPECT_EQ(stream.push("z"), "z");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Test, normalizationFormC) {
  EXPECT_EQ(normalizeNfc(""), "");
  EXPECT_EQ(normalizeNfc("plain \u00E9"), "plain \u00E9");
  EXPECT_EQ(normalizeNfc("e\u0301"), "\u00E9");
  EXPECT_EQ(normalizeNfc(std::string_view("\0e\u0301\0", 5)),
            std::string_view("\0\u00E9\0", 4));
  EXPECT_EQ(normalizeNfc("\u212B"), "\u00C5");
  EXPECT_EQ(normalizeNfc("\u1112\u1161\u11AB"), "\uD55C");
  EXPECT_EQ(normalizeNfc("\uAC00\u11A8"), "\uAC01");
  // Excluded from composition.
  EXPECT_EQ(normalizeNfc("\u0958"), "\u0915\u093C");
  // Compatibility characters stay.
  EXPECT_EQ(normalizeNfc("\uFB01\u2460"), "\uFB01\u2460");
  // Marks are ordered by class, and stay in order within one: the dot below
  // goes first and composes, then the two above.
  EXPECT_EQ(normalizeNfc("q\u0307\u0308\u0323"), "q\u0323\u0307\u0308");
  EXPECT_EQ(normalizeNfc("a\u0302\u0323"), "\u1EAD");
  EXPECT_EQ(normalizeNfc("\u0301\u0323"), "\u0323\u0301");
  EXPECT_EQ(normalizeNfc("\U0001D157\U0001D165"), "\U0001D157\U0001D165");
}

} // namespace
