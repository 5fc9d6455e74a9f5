//===- ReasoningSplitter.cpp - Thoughts and answer, apart -----------------===//

#include "runtime/ReasoningSplitter.h"

#include <algorithm>

namespace tandem {

static constexpr std::string_view opening = "<think>", closing = "</think>";

bool ReasoningSplitter::advance(Parts &parts, bool ended) {
  switch (place) {
  case Place::Start: {
    size_t word = held.find_first_not_of(" \n");
    std::string_view rest(held);
    rest.remove_prefix(std::min(word, held.size()));
    if (rest.starts_with(opening)) {
      held.erase(0, word + opening.size());
      place = Place::BeforeReasoning;
      return true;
    }
    if (opening.starts_with(rest) && !ended)
      return false;
    place = Place::Content;
    return true;
  }
  case Place::BeforeReasoning:
  case Place::BeforeContent: {
    size_t word = held.find_first_not_of('\n');
    if (word == std::string::npos) {
      held.clear();
      return false;
    }
    held.erase(0, word);
    place = place == Place::BeforeReasoning ? Place::Reasoning : Place::Content;
    return true;
  }
  case Place::Reasoning: {
    size_t end = held.find(closing);
    bool closed = end != std::string::npos;
    if (!closed && ended) {
      parts.reasoning += held;
      held.clear();
      return false;
    }
    size_t next = closed ? end + closing.size() : 0;
    if (!closed) {
      // The end of the text may begin the mark.
      end = held.size();
      size_t length = std::min(end, closing.size() - 1);
      while (!held.ends_with(closing.substr(0, length)))
        --length;
      end -= length;
    }
    // Line breaks before the mark are not part of the reasoning.
    while (end > 0 && held[end - 1] == '\n')
      --end;
    parts.reasoning.append(held, 0, end);
    held.erase(0, closed ? next : end);
    if (closed)
      place = Place::BeforeContent;
    return closed;
  }
  case Place::Content:
    parts.content += held;
    held.clear();
    return false;
  }
  return false;
}

ReasoningSplitter::Parts ReasoningSplitter::push(std::string_view text) {
  Parts parts;
  held += text;
  while (advance(parts, /*ended=*/false)) {
  }
  return parts;
}

ReasoningSplitter::Parts ReasoningSplitter::finish() {
  Parts parts;
  while (advance(parts, /*ended=*/true)) {
  }
  return parts;
}

} // namespace tandem
