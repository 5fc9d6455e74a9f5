//===- StopTokens.h - Where a text ends -------------------------*- C++ -*-===//
//
// No single file of a checkpoint names all tokens that end a text: Qwen3.5
// has <|endoftext|> in config.json and <|im_end|> in the tokenizer's files.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_STOPTOKENS_H
#define TANDEM_MODELS_STOPTOKENS_H

#include "models/Config.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <vector>

namespace tandem::models {

/// The tokens that end a text, each once: `eos_token_id` of
/// generation_config.json, those of \p config, and `eos_token` of
/// tokenizer_config.json, looked up in the tokenizer's own tables. Files that
/// \p directory does not hold name none. Errors: a malformed file, a token
/// outside the vocabulary, an eos_token that the tokenizer does not know.
llvm::Expected<std::vector<int32_t>> readStopTokens(llvm::StringRef directory,
                                                    const TargetConfig &config);

} // namespace tandem::models

#endif // TANDEM_MODELS_STOPTOKENS_H
