//===- DraftVocabulary.h - Which tokens are drafted -------------*- C++ -*-===//

#ifndef TANDEM_TOOLS_QCOMPILE_DRAFTVOCABULARY_H
#define TANDEM_TOOLS_QCOMPILE_DRAFTVOCABULARY_H

#include "models/TokenizerData.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

namespace tandem::qcompile {

/// The ids of \p tokenizer in the text file \p path. Errors, which name the
/// file: it cannot be read, is empty or is not UTF-8.
llvm::Expected<std::vector<uint32_t>>
readTokens(llvm::StringRef path, const models::TokenizerData &tokenizer);

/// Chooses \p count of \p vocabulary tokens, ascending: all of \p kept, of
/// which there are no more than that, then those that \p text has most often,
/// of equals the lowest, then the lowest.
llvm::SmallVector<int64_t> chooseTokens(int64_t count, int64_t vocabulary,
                                        llvm::ArrayRef<int64_t> kept,
                                        llvm::ArrayRef<uint32_t> text);

} // namespace tandem::qcompile

#endif // TANDEM_TOOLS_QCOMPILE_DRAFTVOCABULARY_H
