//===- TextStream.cpp - Text from tokens, piece by piece ------------------===//

#include "runtime/TextStream.h"

#include <algorithm>

namespace tandem {

/// Length of the longest end of \p text that begins \p stop.
static size_t overlap(std::string_view text, std::string_view stop) {
  size_t longest = std::min(text.size(), stop.size() - 1);
  for (size_t length = longest; length > 0; --length)
    if (text.ends_with(stop.substr(0, length)))
      return length;
  return 0;
}

bool TextStream::append(std::string_view text) {
  // A stop string that is new ends in the new text, and what came before the
  // held part cannot be its beginning.
  size_t searched = pending.size() - held;
  pending += text;
  size_t first = std::string::npos;
  for (const std::string &stop : stops)
    first = std::min(first, pending.find(stop, searched));
  held = 0;
  if (first != std::string::npos) {
    pending.resize(first);
    stopped = true;
    return false;
  }
  for (const std::string &stop : stops)
    held = std::max(held, overlap(pending, stop));
  return true;
}

bool TextStream::push(uint32_t token) {
  if (stopped)
    return false;
  return append(characters.push(tokenizer.bytes(token)));
}

std::string TextStream::take() {
  std::string text = pending.substr(0, pending.size() - held);
  pending.erase(0, text.size());
  return text;
}

void TextStream::finish() {
  if (!stopped)
    append(characters.finish());
  held = 0;
}

} // namespace tandem
