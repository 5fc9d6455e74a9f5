//===- TextStream.h - Text from tokens, piece by piece ----------*- C++ -*-===//

#ifndef TANDEM_RUNTIME_TEXTSTREAM_H
#define TANDEM_RUNTIME_TEXTSTREAM_H

#include "runtime/Tokenizer.h"
#include "runtime/Utf8.h"

#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// Turns tokens into text that can be shown at once: whole characters only,
/// and nothing that could turn out to be the beginning of a stop string. Put
/// together, the pieces are the whole text before the first stop string.
class TextStream {
public:
  /// \p tokenizer outlives the stream. Stop strings are not empty.
  TextStream(const Tokenizer &tokenizer, std::vector<std::string> stops)
      : tokenizer(tokenizer), stops(std::move(stops)) {}

  /// Appends a token. Returns false when a stop string is complete: the text
  /// has ended before it.
  bool push(uint32_t token);

  /// Text that is certain and was not taken before.
  std::string take();

  /// Ends the text: what was held back becomes part of it.
  void finish();

private:
  bool append(std::string_view text);

  const Tokenizer &tokenizer;
  std::vector<std::string> stops;
  Utf8Stream characters;
  /// Text that was not taken; the last `held` bytes may begin a stop string.
  std::string pending;
  size_t held = 0;
  bool stopped = false;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_TEXTSTREAM_H
