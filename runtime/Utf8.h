//===- Utf8.h - Checking, normalizing and streaming UTF-8 -------*- C++ -*-===//
//
// Text enters the runtime as bytes that claim to be UTF-8 and leaves it as the
// bytes of tokens, which may end inside a character. Nothing here keeps state
// outside its arguments; every function may be called from any thread.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_UTF8_H
#define TANDEM_RUNTIME_UTF8_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

/// What stands at the start of some bytes.
struct Utf8Head {
  enum class Kind : uint8_t {
    /// A code point: `value`, in `size` bytes.
    Whole,
    /// No code point starts so; `size` bytes count as one error (Unicode's
    /// "maximal subpart", which is what Python and Rust replace by one U+FFFD).
    Invalid,
    /// All the bytes, at most three, are the beginning of a code point.
    Cut,
  };
  Kind kind;
  /// Bytes, at least 1.
  uint32_t size;
  /// The code point when `kind` is Whole, otherwise 0.
  uint32_t value;
};

/// Looks at the first code point of `bytes`, which must not be empty.
/// Surrogates, overlong forms and values above U+10FFFF are invalid.
Utf8Head readUtf8Head(std::string_view bytes);

/// Number of bytes before the first that is not part of a valid code point;
/// `bytes.size()` when all of it is UTF-8.
size_t countValidUtf8(std::string_view bytes);

/// Unicode normalization form C (Unicode 15) of `text`, which must be valid
/// UTF-8. Takes O(n log n) for any input, long runs of combining marks
/// included.
std::string normalizeNfc(std::string_view text);

/// Turns bytes that arrive in arbitrary pieces into text: only whole code
/// points come out, each invalid sequence as one U+FFFD. The concatenated
/// output does not depend on how the bytes were cut.
class Utf8Stream {
public:
  /// Takes more bytes; returns the text that is complete now, maybe empty.
  std::string push(std::string_view bytes);

  /// Ends the text: returns U+FFFD when it stops inside a code point, otherwise
  /// nothing. The stream can then be used for another text.
  std::string finish();

private:
  /// The beginning of a code point, at most three bytes.
  std::string pending;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_UTF8_H
