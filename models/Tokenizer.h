//===- Tokenizer.h - Reading tokenizer.json ---------------------*- C++ -*-===//
//
// Takes the byte-level BPE tokenizers of Hugging Face checkpoints. Everything
// in the file that could change ids and is not implemented is refused by name:
// a tokenizer that is almost right makes a model that is quietly worse.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_TOKENIZER_H
#define TANDEM_MODELS_TOKENIZER_H

#include "models/TokenizerData.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace tandem::models {

/// Reads `tokenizer.json` in \p directory and the `added_tokens_decoder` of
/// `tokenizer_config.json`, if that file is there: both may name added tokens,
/// and where both name one, the flags of the latter count, as in transformers.
/// Errors are one line: path of the file, key, what was found and expected.
llvm::Expected<TokenizerData> readTokenizer(llvm::StringRef directory);

} // namespace tandem::models

#endif // TANDEM_MODELS_TOKENIZER_H
