//===- ChatFiles.h - How a checkpoint talks ---------------------*- C++ -*-===//

#ifndef TANDEM_MODELS_CHATFILES_H
#define TANDEM_MODELS_CHATFILES_H

#include "models/ChatData.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace tandem::models {

/// Reads the chat template and the generation defaults of the checkpoint in
/// \p directory: chat_template.jinja, otherwise `chat_template` of
/// tokenizer_config.json (the one called `default` when there are several);
/// generation_config.json; and the size of the model from config.json. Files
/// that are not there say nothing. Errors: a malformed file.
llvm::Expected<ChatData> readChatFiles(llvm::StringRef directory);

} // namespace tandem::models

#endif // TANDEM_MODELS_CHATFILES_H
