//===- Utf8.cpp - Checking, normalizing and streaming UTF-8 ---------------===//

#include "runtime/Utf8.h"

#include <algorithm>
#include <cassert>
#include <compare>
#include <cstring>
#include <utf8proc.h>
#include <vector>

using namespace tandem;

/// U+FFFD, the replacement character.
static constexpr std::string_view replacement = "\xEF\xBF\xBD";

Utf8Head tandem::readUtf8Head(std::string_view bytes) {
  assert(!bytes.empty());
  using Kind = Utf8Head::Kind;
  uint8_t lead = bytes[0];
  if (lead < 0x80)
    return {Kind::Whole, 1, lead};
  if (lead < 0xC2 || lead > 0xF4)
    return {Kind::Invalid, 1, 0};

  uint32_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint32_t value = lead & (0xFF >> (length + 1));
  // The second byte excludes overlong forms, surrogates and what is above
  // U+10FFFF; the others are free.
  uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (uint32_t i = 1; i < length; ++i) {
    if (i == bytes.size())
      return {Kind::Cut, i, 0};
    uint8_t byte = bytes[i];
    if (byte < low || byte > high)
      return {Kind::Invalid, i, 0};
    value = value << 6 | (byte & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {Kind::Whole, length, value};
}

/// Number of ASCII bytes that `bytes` starts with, rounded down to a multiple
/// of eight.
static size_t countAsciiWords(std::string_view bytes) {
  size_t count = 0;
  while (bytes.size() - count >= 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + count, 8);
    if (word & 0x8080808080808080)
      break;
    count += 8;
  }
  return count;
}

size_t tandem::countValidUtf8(std::string_view bytes) {
  size_t count = 0;
  while (count < bytes.size()) {
    // Most text is ASCII for long stretches.
    if (size_t ascii = countAsciiWords(bytes.substr(count))) {
      count += ascii;
      continue;
    }
    Utf8Head head = readUtf8Head(bytes.substr(count));
    if (head.kind != Utf8Head::Kind::Whole)
      return count;
    count += head.size;
  }
  return count;
}

std::string tandem::normalizeNfc(std::string_view text) {
  // Everything below U+0300 is its own normal form and combines with nothing
  // below U+0300; 0xCC is the lead byte of U+0300.
  if (std::all_of(text.begin(), text.end(),
                  [](char byte) { return uint8_t(byte) < 0xCC; }))
    return std::string(text);

  // utf8proc_map would do all of this, but it orders marks by an insertion
  // sort: minutes for a megabyte of them.
  constexpr auto options =
      utf8proc_option_t(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  while (!text.empty()) {
    Utf8Head head = readUtf8Head(text);
    assert(head.kind == Utf8Head::Kind::Whole);
    text.remove_prefix(head.size);
    if (head.value < 0x80) {
      points.push_back(head.value);
      continue;
    }
    // No canonical decomposition is longer than four code points; the bound is
    // utf8proc's for any decomposition.
    utf8proc_int32_t parts[18];
    int boundClass = 0;
    utf8proc_ssize_t count = utf8proc_decompose_char(
        head.value, parts, std::size(parts), options, &boundClass);
    assert(count > 0 && size_t(count) <= std::size(parts));
    points.insert(points.end(), parts, parts + count);
  }

  // Marks behind a starter stand in the order of their combining classes, those
  // of one class in the order of the text.
  struct Mark {
    int order;
    size_t index;
    utf8proc_int32_t point;
    auto operator<=>(const Mark &) const = default;
  };
  std::vector<Mark> marks;
  for (size_t i = 0; i <= points.size(); ++i) {
    int order = i < points.size() && points[i] >= 0x300
                    ? utf8proc_get_property(points[i])->combining_class
                    : 0;
    if (order) {
      marks.push_back({order, i, points[i]});
      continue;
    }
    std::sort(marks.begin(), marks.end());
    for (size_t m = 0; m < marks.size(); ++m)
      points[i - marks.size() + m] = marks[m].point;
    marks.clear();
  }

  utf8proc_ssize_t count =
      utf8proc_normalize_utf32(points.data(), points.size(), options);
  assert(count >= 0);
  std::string result;
  result.reserve(size_t(count) * 2);
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    utf8proc_uint8_t bytes[4];
    utf8proc_ssize_t size = utf8proc_encode_char(points[i], bytes);
    result.append(reinterpret_cast<char *>(bytes), size);
  }
  return result;
}

std::string Utf8Stream::push(std::string_view bytes) {
  std::string joined;
  if (!pending.empty()) {
    joined = pending;
    joined += bytes;
    bytes = joined;
  }
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    size_t size = countAsciiWords(bytes);
    if (!size) {
      Utf8Head head = readUtf8Head(bytes);
      if (head.kind == Utf8Head::Kind::Cut)
        break;
      size = head.size;
      if (head.kind == Utf8Head::Kind::Invalid) {
        text += replacement;
        bytes.remove_prefix(size);
        continue;
      }
    }
    text += bytes.substr(0, size);
    bytes.remove_prefix(size);
  }
  pending = bytes;
  return text;
}

std::string Utf8Stream::finish() {
  std::string text(pending.empty() ? std::string_view() : replacement);
  pending.clear();
  return text;
}
