//===- DraftVocabulary.cpp - Which tokens are drafted ---------------------===//

#include "tools/qcompile/DraftVocabulary.h"
#include "codegen/TokenizerTable.h"
#include "runtime/Tokenizer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <limits>
#include <numeric>

using namespace llvm;
using namespace tandem;

Expected<std::vector<uint32_t>>
qcompile::readTokens(StringRef path, const models::TokenizerData &tokenizer) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> file = MemoryBuffer::getFile(path);
  if (!file)
    return createStringError(file.getError(),
                             path + ": " + file.getError().message());
  StringRef text = (*file)->getBuffer();
  if (text.empty())
    return createStringError(path + ": is empty, expected a text");
  // Texts are cut as the runtime cuts them, by the same code.
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(codegen::serializeTokenizer(builder, tokenizer));
  auto cutter = Tokenizer::create(
      *flatbuffers::GetRoot<artifact::Tokenizer>(builder.GetBufferPointer()));
  if (!cutter.isOk())
    return createStringError(cutter.status().message());
  auto tokens = cutter->encode({text.data(), text.size()});
  if (!tokens.isOk())
    return createStringError(path + ": " + tokens.status().message());
  return std::move(*tokens);
}

SmallVector<int64_t> qcompile::chooseTokens(int64_t count, int64_t vocabulary,
                                            ArrayRef<int64_t> kept,
                                            ArrayRef<uint32_t> text) {
  std::vector<int64_t> uses(vocabulary);
  for (uint32_t token : text)
    if (token < uses.size())
      ++uses[token];
  for (int64_t token : kept)
    if (token >= 0 && token < vocabulary)
      uses[token] = std::numeric_limits<int64_t>::max();
  SmallVector<int64_t> tokens(vocabulary);
  std::iota(tokens.begin(), tokens.end(), 0);
  llvm::stable_sort(tokens, [&](int64_t left, int64_t right) {
    return uses[left] > uses[right];
  });
  tokens.truncate(count);
  llvm::sort(tokens);
  return tokens;
}
