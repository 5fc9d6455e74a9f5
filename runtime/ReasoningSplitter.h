//===- ReasoningSplitter.h - Thoughts and answer, apart ---------*- C++ -*-===//

#ifndef TANDEM_RUNTIME_REASONINGSPLITTER_H
#define TANDEM_RUNTIME_REASONINGSPLITTER_H

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

/// Splits the text of an answer, as it comes, into what stands between
/// `<think>` and `</think>` and what stands behind. Line breaks next to the
/// marks belong to neither. A text without marks is all answer.
class ReasoningSplitter {
public:
  /// \p inside: the prompt has opened the reasoning already.
  explicit ReasoningSplitter(bool inside)
      : place(inside ? Place::BeforeReasoning : Place::Start) {}

  struct Parts {
    std::string reasoning, content;
  };

  /// Takes more text; returns what is certain now.
  Parts push(std::string_view text);
  /// Ends the text: returns what was held back.
  Parts finish();

  /// Whether the next text is reasoning, as far as one can tell.
  bool inReasoning() const {
    return place == Place::BeforeReasoning || place == Place::Reasoning;
  }

private:
  enum class Place : uint8_t {
    /// Nothing but white space so far.
    Start,
    BeforeReasoning,
    Reasoning,
    BeforeContent,
    Content,
  };

  /// Takes what it can from the front of `held`; returns whether it did.
  bool advance(Parts &parts, bool ended);

  Place place;
  std::string held;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_REASONINGSPLITTER_H
