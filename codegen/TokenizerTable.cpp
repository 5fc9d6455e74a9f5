//===- TokenizerTable.cpp - The tokenizer in an artefact ------------------===//

#include "codegen/TokenizerTable.h"

using namespace tandem;

flatbuffers::Offset<artifact::Tokenizer>
codegen::serializeTokenizer(flatbuffers::FlatBufferBuilder &builder,
                            const models::TokenizerData &data) {
  std::vector<uint32_t> offsets = {0};
  std::vector<uint8_t> bytes;
  for (const std::string &token : data.tokens) {
    bytes.insert(bytes.end(), token.begin(), token.end());
    offsets.push_back(uint32_t(bytes.size()));
  }
  std::vector<artifact::Merge> merges;
  merges.reserve(data.merges.size());
  for (const models::TokenizerData::Merge &merge : data.merges)
    merges.emplace_back(merge.left, merge.right, merge.result, merge.rank);
  std::vector<flatbuffers::Offset<artifact::AddedToken>> added;
  for (const models::TokenizerData::AddedToken &token : data.added)
    added.push_back(artifact::CreateAddedToken(
        builder, token.id, builder.CreateString(token.content), token.special,
        token.normalized, token.singleWord, token.leftStrip, token.rightStrip));

  auto offsetsVector = builder.CreateVector(offsets);
  auto bytesVector = builder.CreateVector(bytes);
  auto byteTokensVector = builder.CreateVector(data.byteTokens.data(), 256);
  auto mergesVector = builder.CreateVectorOfStructs(merges);
  auto addedVector = builder.CreateVector(added);
  auto pattern = builder.CreateString(data.pattern);
  auto sortedVector = builder.CreateVector(data.sortedTokens);
  return artifact::CreateTokenizer(
      builder, offsetsVector, bytesVector, byteTokensVector, mergesVector,
      addedVector, pattern, data.nfc, data.ignoreMerges, sortedVector);
}
