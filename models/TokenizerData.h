//===- TokenizerData.h - A tokenizer between two formats --------*- C++ -*-===//
//
// What models/Tokenizer.cpp reads from tokenizer.json and what
// codegen/TokenizerTable.cpp writes into an artefact, field by field the table
// `Tokenizer` of runtime/Artifact.fbs. Plain data on std alone, because codegen
// includes it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_TOKENIZERDATA_H
#define TANDEM_MODELS_TOKENIZERDATA_H

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::models {

/// A byte-level BPE tokenizer.
struct TokenizerData {
  /// The tokens `left` and `right` become `result`. Lower rank first.
  struct Merge {
    uint32_t left;
    uint32_t right;
    uint32_t result;
    uint32_t rank;
  };

  /// A token that is found in the text as a whole, never by merging.
  struct AddedToken {
    uint32_t id = 0;
    /// UTF-8, not empty.
    std::string content;
    bool special = false;
    /// Searched for in the normalized text instead of the raw one.
    bool normalized = false;
    /// Only where no word character stands before or behind it.
    bool singleWord = false;
    /// Takes the white space on that side with it.
    bool leftStrip = false;
    bool rightStrip = false;
  };

  /// Raw bytes of every token by id, added ones included. Empty for ids that no
  /// token has.
  std::vector<std::string> tokens;
  /// Token of every single byte.
  std::array<uint32_t, 256> byteTokens = {};
  /// Sorted by (left, right), which are unique, as are the ranks.
  std::vector<Merge> merges;
  /// Sorted by id; ids and contents are unique.
  std::vector<AddedToken> added;
  /// Pattern of the pre-tokenizer; empty when texts are not split.
  std::string pattern;
  /// Whether texts are brought to Unicode normalization form C.
  bool nfc = false;
  /// Whether a piece that is a token as a whole is not merged.
  bool ignoreMerges = false;
  /// With ignoreMerges: the ids of the vocabulary by their bytes. Added tokens
  /// that are not in the vocabulary are not here. Empty otherwise.
  std::vector<uint32_t> sortedTokens;
};

} // namespace tandem::models

#endif // TANDEM_MODELS_TOKENIZERDATA_H
