//===- CheckTokenizer.cpp - The tokenizer tables of an artefact -----------===//

#include "runtime/ArtifactChecks.h"

#include <utility>

namespace tandem {

Status checkTokenizer(const artifact::Tokenizer &tables) {
  const auto &offsets = *tables.token_offsets();
  if (offsets.size() == 0 || offsets.Get(0) != 0)
    return invalidFile("tokenizer: token_offsets does not start with 0");
  uint32_t tokens = offsets.size() - 1;
  for (uint32_t token = 0; token < tokens; ++token)
    if (offsets.Get(token) > offsets.Get(token + 1))
      return invalidFile("tokenizer: token_offsets[", token + 1,
                         "] is smaller than the one before");
  if (offsets.Get(tokens) > tables.token_bytes()->size())
    return invalidFile("tokenizer: token_offsets end at ", offsets.Get(tokens),
                       ", token_bytes has ", tables.token_bytes()->size());

  auto checkToken = [&](std::string_view what, uint32_t index,
                        uint32_t token) -> Status {
    if (token >= tokens)
      return invalidFile("tokenizer: ", what, "[", index, "]: token ", token,
                         " is out of range (", tokens, " tokens)");
    return Status();
  };
  if (tables.byte_tokens()->size() != 256)
    return invalidFile("tokenizer: byte_tokens has ",
                       tables.byte_tokens()->size(), " entries, expected 256");
  for (uint32_t byte = 0; byte < 256; ++byte)
    TANDEM_RETURN_IF_ERROR(
        checkToken("byte_tokens", byte, tables.byte_tokens()->Get(byte)));

  const auto &merges = *tables.merges();
  for (uint32_t index = 0; index < merges.size(); ++index) {
    const artifact::Merge &merge = *merges.Get(index);
    for (uint32_t token : {merge.left(), merge.right(), merge.result()})
      TANDEM_RETURN_IF_ERROR(checkToken("merges", index, token));
    if (index == 0)
      continue;
    const artifact::Merge &before = *merges.Get(index - 1);
    if (std::pair(before.left(), before.right()) >=
        std::pair(merge.left(), merge.right()))
      return invalidFile("tokenizer: merges[", index,
                         "] is not sorted behind the one before");
  }
  if (const auto *added = tables.added())
    for (uint32_t index = 0; index < added->size(); ++index)
      TANDEM_RETURN_IF_ERROR(
          checkToken("added", index, added->Get(index)->id()));
  if (const auto *sorted = tables.sorted_tokens())
    for (uint32_t index = 0; index < sorted->size(); ++index)
      TANDEM_RETURN_IF_ERROR(
          checkToken("sorted_tokens", index, sorted->Get(index)));
  return Status();
}

} // namespace tandem
