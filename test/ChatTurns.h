//===- ChatTurns.h - Conversations whose thoughts are forgotten -*- C++ -*-===//

#ifndef TANDEM_TEST_CHATTURNS_H
#define TANDEM_TEST_CHATTURNS_H

#include "test/LoadedPair.h"

#include <functional>

namespace tandem::test {

/// Asks \p questions one after the other. As in chats, the prompt of a turn has
/// the questions and answers before it, but of an answer only what follows its
/// first half, the thoughts. \p warm goes on from what it knows, which has to
/// be all tokens up to the end of the question before, and answers everything
/// twice; \p cold prefills every prompt. Both write with \p options and have to
/// write the same.
///
/// Where the bits of a row depend on the rows that are prefilled with it, texts
/// may part where two tokens are nearly as likely: \p mayDiffer(text, token,
/// other) says whether these two are, behind \p text. Returns what \p warm has
/// written.
std::vector<Ids> expectSameTurns(
    LoadedPair &warm, LoadedPair &cold, const std::vector<Ids> &questions,
    GenerateOptions options,
    const std::function<bool(const Ids &text, uint32_t token, uint32_t other)>
        &mayDiffer = nullptr);

} // namespace tandem::test

#endif // TANDEM_TEST_CHATTURNS_H
