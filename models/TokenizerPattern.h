//===- TokenizerPattern.h - Regular expressions of tokenizers ---*- C++ -*-===//
//
// tokenizer.json holds patterns in the syntax of Oniguruma; the runtime matches
// them with PCRE2. This file knows where the two agree.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_TOKENIZERPATTERN_H
#define TANDEM_MODELS_TOKENIZERPATTERN_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace tandem::models {

/// The pattern of GPT-2, which the ByteLevel pre-tokenizer of Hugging Face has
/// built in (`use_regex`).
inline constexpr llvm::StringLiteral byteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+)"
    R"(| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Checks that \p pattern means the same to Oniguruma and PCRE2 and compiles
/// with the latter. Literals, classes with `\s \S \d \D` and general categories
/// (`\p{Lu}`), groups, look-around and quantifiers are in; anchors, `\w`, `\b`,
/// scripts, back references and whatever else differs are out. The error says
/// what is wrong at which byte.
llvm::Error checkTokenizerPattern(llvm::StringRef pattern);

} // namespace tandem::models

#endif // TANDEM_MODELS_TOKENIZERPATTERN_H
