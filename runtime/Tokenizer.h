//===- Tokenizer.h - Text to token ids and back -----------------*- C++ -*-===//
//
// Byte-level BPE on the tables of an artefact, which are used where they lie.
// Ids equal those of Hugging Face's `tokenizers` for the same tokenizer.json:
//
//   text ─▶ added tokens ─▶ NFC ─▶ pieces ─▶ bytes ─▶ merges ─▶ ids
//           (raw text)             (pattern)         (lowest rank first)
//
// Two tables of Unicode stand behind this. Classes in the pattern are those of
// the PCRE2 at hand, Unicode 14 in Debian 12: letters that are younger (CJK
// extension H, Kawi) count as symbols, so that a word of them is cut
// differently. NFC is that of Unicode 15; `tokenizers` orders marks that are
// younger than Unicode 9 as they stand.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_TOKENIZER_H
#define TANDEM_RUNTIME_TOKENIZER_H

#include "runtime/Artifact_generated.h"
#include "runtime/Status.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// What encode() does where the text spells an added token.
enum class AddedTokens : uint8_t {
  /// It becomes that token: prompts that contain markup on purpose.
  Recognize,
  /// It is text like any other: what a user typed, so that nobody can close
  /// his own turn by writing `<|im_end|>`.
  Ignore,
};

/// Constant after create(): all calls may come from several threads at once.
class Tokenizer {
public:
  /// \p tables have passed checkTokenizer (Artifact::open does that) and must
  /// outlive the tokenizer. Fails with InvalidFile when the pattern does not
  /// compile or the text of an added token is not UTF-8.
  static StatusOr<Tokenizer> create(const artifact::Tokenizer &tables);

  Tokenizer(Tokenizer &&) noexcept;
  Tokenizer &operator=(Tokenizer &&) noexcept;
  ~Tokenizer();

  /// Token ids of \p text, at most 1 GiB. Fails with InvalidArgument and the
  /// offset of the first bad byte when it is not UTF-8. Takes about linear time
  /// for any text.
  StatusOr<std::vector<uint32_t>>
  encode(std::string_view text,
         AddedTokens added = AddedTokens::Recognize) const;

  /// The bytes that \p token stands for, which may end inside a character.
  /// Empty for ids that are no token: a model's output is often wider than its
  /// vocabulary.
  std::string_view bytes(uint32_t token) const;

  /// The text of \p tokens: their bytes, with U+FFFD for what is not UTF-8.
  /// Added tokens are spelled out.
  std::string decode(std::span<const uint32_t> tokens) const;

private:
  struct Tables;
  explicit Tokenizer(std::unique_ptr<const Tables> tables);

  std::unique_ptr<const Tables> tables;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_TOKENIZER_H
