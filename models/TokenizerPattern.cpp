//===- TokenizerPattern.cpp - Regular expressions of tokenizers -----------===//

#include "models/TokenizerPattern.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/raw_ostream.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

using namespace llvm;

namespace {

/// Reads a pattern from left to right and stops at the first construct that is
/// not known to mean the same on both sides. Whether groups and classes are
/// well formed is left to PCRE2.
class PatternScanner {
public:
  explicit PatternScanner(StringRef pattern) : pattern(pattern) {}

  Error scan() {
    bool inClass = false;
    while (at < pattern.size()) {
      StringRef rest = pattern.substr(at);
      size_t size = 1;
      if (rest[0] == '\\')
        size = escapeSize(rest);
      else if (inClass)
        size = classItemSize(rest, inClass);
      else if (rest[0] == '[')
        size = classStartSize(rest, inClass);
      else if (rest[0] == '(')
        size = groupStartSize(rest);
      else if (rest[0] == '{')
        size = intervalSize(rest);
      else if (rest[0] == '^' || rest[0] == '$')
        // Oniguruma's match at every line.
        size = 0;
      if (!size)
        return createStringError("byte " + Twine(at) + ": '" +
                                 printable(rest.take_front(8)) +
                                 "' is not supported in a pattern");
      at += size;
    }
    return Error::success();
  }

private:
  /// For a message of one line.
  static std::string printable(StringRef text) {
    std::string printed;
    raw_string_ostream(printed).write_escaped(text);
    return printed;
  }

  static bool isGeneralCategory(StringRef name) {
    if (name.size() > 2 || name.empty())
      return false;
    StringRef seconds = StringSwitch<StringRef>(name.take_front())
                            .Case("L", "ultmo")
                            .Case("M", "nce")
                            .Case("N", "dlo")
                            .Case("P", "cdseifo")
                            .Case("S", "mcko")
                            .Case("Z", "slp")
                            .Case("C", "cfo")
                            .Default("");
    return !seconds.empty() && (name.size() == 1 || seconds.contains(name[1]));
  }

  /// Each of these returns the size of the construct that \p rest starts with,
  /// or 0 when it is not supported.
  static size_t escapeSize(StringRef rest) {
    if (rest.size() < 2)
      return 0;
    char letter = rest[1];
    if (letter == 'p' || letter == 'P') {
      size_t close = rest.find('}');
      if (close == StringRef::npos || rest[2] != '{')
        return 0;
      StringRef name = rest.slice(3, close);
      name.consume_front("^");
      return isGeneralCategory(name) ? close + 1 : 0;
    }
    // `\w` and `\b` differ in marks and connectors, `\h` and `\v` altogether.
    bool same = StringRef("sSdDrntf").contains(letter) ||
                (isASCII(letter) && isPunct(letter));
    return same ? 2 : 0;
  }

  static size_t classStartSize(StringRef rest, bool &inClass) {
    inClass = true;
    size_t size = rest.starts_with("[^") ? 2 : 1;
    // A bracket in first place is a literal to one and an end to the other.
    return rest.substr(size).starts_with("]") ? 0 : size;
  }

  static size_t classItemSize(StringRef rest, bool &inClass) {
    inClass = rest[0] != ']';
    // Nested classes, POSIX names and intersections.
    return rest[0] == '[' || rest.starts_with("&&") ? 0 : 1;
  }

  static size_t groupStartSize(StringRef rest) {
    if (!rest.starts_with("(?"))
      return rest.starts_with("(*") ? 0 : 1;
    for (StringRef known : {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"})
      if (rest.starts_with(known))
        return known.size();
    return 0;
  }

  static size_t intervalSize(StringRef rest) {
    StringRef tail = rest.drop_front();
    StringRef low = tail.take_while([](char c) { return isDigit(c); });
    tail = tail.drop_front(low.size());
    if (tail.consume_front(","))
      tail = tail.drop_while([](char c) { return isDigit(c); });
    if (low.empty() || !tail.consume_front("}"))
      return 0;
    // `{2}+` is possessive to PCRE2 and a repetition to Oniguruma; `{2}?`
    // differs likewise.
    if (tail.starts_with("+") || tail.starts_with("?"))
      return 0;
    return rest.size() - tail.size();
  }

  StringRef pattern;
  size_t at = 0;
};

} // namespace

Error tandem::models::checkTokenizerPattern(StringRef pattern) {
  if (pattern.empty())
    return createStringError("is empty");
  if (Error error = PatternScanner(pattern).scan())
    return error;
  int code = 0;
  PCRE2_SIZE offset = 0;
  // As in the runtime's Tokenizer.cpp.
  pcre2_code *compiled = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &offset, nullptr);
  if (!compiled) {
    PCRE2_UCHAR text[160];
    pcre2_get_error_message(code, text, sizeof(text));
    return createStringError("byte " + Twine(offset) + ": " +
                             reinterpret_cast<const char *>(text));
  }
  pcre2_code_free(compiled);
  return Error::success();
}
