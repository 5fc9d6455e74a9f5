//===- Tokenizer.cpp - Text to token ids and back -------------------------===//

#include "runtime/Tokenizer.h"

#include "runtime/Utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <functional>
#include <optional>

using namespace tandem;

namespace {

/// Positions inside a piece are 32 bits wide.
constexpr size_t maxTextBytes = size_t(1) << 30;

//===----------------------------------------------------------------------===//
// Added tokens
//===----------------------------------------------------------------------===//

struct AddedToken {
  /// What is searched for.
  std::string text;
  uint32_t id;
  bool singleWord;
  bool leftStrip;
  bool rightStrip;
};

/// Unicode's White_Space, the `\s` of Hugging Face's strip rules.
bool isSpace(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/// Unicode's word characters (UTS 18, annex C): Alphabetic, marks, decimal
/// digits, connector punctuation and the two joiners.
bool isWord(uint32_t c) {
  switch (utf8proc_category(c)) {
  case UTF8PROC_CATEGORY_LU:
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
  case UTF8PROC_CATEGORY_NL:
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_MC:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_ND:
  case UTF8PROC_CATEGORY_PC:
    return true;
  default:
    // Joiners, and the circled and squared letters, which are symbols.
    return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
           (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
           (c >= 0x1F170 && c <= 0x1F189);
  }
}

/// Bytes of the last code point of \p text, which is valid and not empty.
size_t lastCodePointSize(std::string_view text) {
  size_t size = 1;
  while ((text[text.size() - size] & 0xC0) == 0x80)
    ++size;
  return size;
}

bool endsWithWord(std::string_view text) {
  return !text.empty() &&
         isWord(readUtf8Head(text.substr(text.size() - lastCodePointSize(text)))
                    .value);
}

bool startsWithWord(std::string_view text) {
  return !text.empty() && isWord(readUtf8Head(text).value);
}

/// Bytes of the white space at the end of \p text.
size_t spaceAtEnd(std::string_view text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    size_t size = lastCodePointSize(rest);
    if (!isSpace(readUtf8Head(rest.substr(rest.size() - size)).value))
      break;
    rest.remove_suffix(size);
  }
  return text.size() - rest.size();
}

/// Bytes of the white space at the start of \p text.
size_t spaceAtStart(std::string_view text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    Utf8Head head = readUtf8Head(rest);
    if (!isSpace(head.value))
      break;
    rest.remove_prefix(head.size);
  }
  return text.size() - rest.size();
}

/// Finds added tokens in a text, the leftmost first, of several that start at
/// one place the longest.
class AddedTokenFinder {
public:
  /// To be called once, with all tokens.
  void setTokens(std::vector<AddedToken> all) {
    tokens = std::move(all);
    std::sort(tokens.begin(), tokens.end(),
              [](const AddedToken &a, const AddedToken &b) {
                return a.text < b.text;
              });
    for (const AddedToken &token : tokens)
      starts[uint8_t(token.text[0])] = true;
  }

  /// Calls \p onText for every part of \p text without tokens that is not
  /// empty and \p onToken for every token, in order. Stops at the first
  /// failure of \p onText.
  template <typename OnText, typename OnToken>
  Status split(std::string_view text, OnText onText, OnToken onToken) const {
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      const AddedToken *token =
          starts[uint8_t(text[at])] ? longestAt(text.substr(at)) : nullptr;
      if (!token) {
        ++at;
        continue;
      }
      size_t begin = at;
      size_t end = at + token->text.size();
      // A token that is turned down still hides those that overlap it.
      at = end;
      if (token->singleWord && (endsWithWord(text.substr(0, begin)) ||
                                startsWithWord(text.substr(end))))
        continue;
      // White space that an earlier token took is not given back.
      if (token->leftStrip)
        begin = std::max(begin - spaceAtEnd(text.substr(0, begin)), done);
      if (token->rightStrip)
        end += spaceAtStart(text.substr(end));
      if (begin > done)
        TANDEM_RETURN_IF_ERROR(onText(text.substr(done, begin - done)));
      onToken(token->id);
      done = end;
    }
    if (done < text.size())
      TANDEM_RETURN_IF_ERROR(onText(text.substr(done)));
    return Status();
  }

private:
  /// The longest token that \p text starts with, or null. Narrows the range of
  /// candidates byte by byte.
  const AddedToken *longestAt(std::string_view text) const {
    const AddedToken *longest = nullptr;
    auto low = tokens.begin();
    auto high = tokens.end();
    for (size_t depth = 0; depth < text.size(); ++depth) {
      uint8_t wanted = text[depth];
      // All candidates agree up to here; one that ends here sorts first.
      auto byteOf = [depth](const AddedToken &token) {
        return depth < token.text.size() ? int(uint8_t(token.text[depth])) : -1;
      };
      low = std::partition_point(low, high, [&](const AddedToken &token) {
        return byteOf(token) < wanted;
      });
      high = std::partition_point(low, high, [&](const AddedToken &token) {
        return byteOf(token) == wanted;
      });
      if (low == high)
        break;
      if (low->text.size() == depth + 1)
        longest = &*low;
    }
    return longest;
  }

  /// Sorted by text.
  std::vector<AddedToken> tokens;
  /// Bytes that a token starts with.
  std::array<bool, 256> starts = {};
};

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

/// The pre-tokenizer: cuts a text at the matches of a pattern; matches and the
/// gaps between them are the pieces.
class PieceSplitter {
public:
  /// Compiles \p pattern; an empty one leaves texts whole.
  Status setPattern(std::string_view pattern) {
    if (pattern.empty())
      return Status();
    std::unique_ptr<pcre2_compile_context, Free> context(
        pcre2_compile_context_create(nullptr));
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
    int error = 0;
    PCRE2_SIZE offset = 0;
    code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                             pattern.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                             &error, &offset, context.get()));
    if (!code)
      return invalidFile("tokenizer: pattern, byte ", offset, ": ",
                         describe(error));
    // Where there is no JIT, the interpreter does the same at a sixth of the
    // speed.
    (void)pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
    return Status();
  }

  /// Calls \p onPiece for every piece of \p text, which is valid UTF-8, in
  /// order. Fails when a match exceeds PCRE2's limits.
  template <typename OnPiece>
  Status split(std::string_view text, OnPiece onPiece) const {
    if (!code) {
      onPiece(text);
      return Status();
    }
    std::string masked = maskVowelSeparators(text);
    auto subject = reinterpret_cast<PCRE2_SPTR>(masked.empty() ? text.data()
                                                               : masked.data());
    std::unique_ptr<pcre2_match_data, Free> match(
        pcre2_match_data_create(1, nullptr));
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(match.get());

    size_t done = 0; // End of the last piece.
    size_t from = 0; // Where the search goes on.
    while (from < text.size()) {
      // The text was checked once; checking it for every match is quadratic.
      int result = pcre2_match(code.get(), subject, text.size(), from,
                               PCRE2_NO_UTF_CHECK, match.get(), nullptr);
      if (result == PCRE2_ERROR_JIT_STACKLIMIT)
        result = pcre2_match(code.get(), subject, text.size(), from,
                             PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match.get(),
                             nullptr);
      if (result == PCRE2_ERROR_NOMATCH)
        break;
      if (result < 0)
        return invalidArgument("the tokenizer's pattern failed at byte ", from,
                               " of a text: ", describe(result));
      size_t begin = found[0];
      size_t end = found[1];
      // What could break this, `\K` in look-around, does not compile.
      assert(begin >= done && end >= begin);
      if (begin > done)
        onPiece(text.substr(done, begin - done));
      if (end > begin)
        onPiece(text.substr(begin, end - begin));
      done = end;
      // An empty match cuts as well; the next is looked for behind the code
      // point that follows.
      from = end > begin ? end : end + codePointSize(text.substr(end));
    }
    if (done < text.size())
      onPiece(text.substr(done));
    return Status();
  }

private:
  struct Free {
    void operator()(pcre2_code *p) const { pcre2_code_free(p); }
    void operator()(pcre2_match_data *p) const { pcre2_match_data_free(p); }
    void operator()(pcre2_compile_context *p) const {
      pcre2_compile_context_free(p);
    }
  };

  static std::string describe(int error) {
    PCRE2_UCHAR text[160];
    pcre2_get_error_message(error, text, sizeof(text));
    return reinterpret_cast<const char *>(text);
  }

  static size_t codePointSize(std::string_view text) {
    return text.empty() ? 1 : readUtf8Head(text).size;
  }

  /// PCRE2's `\s` contains U+180E, Unicode's does not (any more). What is
  /// matched has U+200B instead: not white space, otherwise of the same kind
  /// and as many bytes. Empty when there is nothing to replace.
  static std::string maskVowelSeparators(std::string_view text) {
    constexpr std::string_view separator = "\u180E";
    constexpr std::string_view stand = "\u200B";
    std::string masked;
    for (size_t at = text.find(separator); at != text.npos;
         at = text.find(separator, at + separator.size())) {
      if (masked.empty())
        masked = text;
      masked.replace(at, stand.size(), stand);
    }
    return masked;
  }

  std::unique_ptr<pcre2_code, Free> code;
};

//===----------------------------------------------------------------------===//
// Merges
//===----------------------------------------------------------------------===//

/// The merges as they lie in the artefact, sorted by (left, right), and where
/// those of every left token begin: most tokens start few merges.
class MergeTable {
public:
  static constexpr uint32_t none = ~uint32_t(0);

  void setMerges(std::span<const artifact::Merge> all, uint32_t tokens) {
    merges = all;
    begins.reserve(tokens + 1);
    for (uint32_t i = 0; i < merges.size(); ++i)
      while (begins.size() <= merges[i].left())
        begins.push_back(i);
    begins.resize(tokens + 1, uint32_t(merges.size()));
  }

  const artifact::Merge &operator[](uint32_t index) const {
    return merges[index];
  }

  /// Index of the merge of \p left and \p right, or none.
  uint32_t find(uint32_t left, uint32_t right) const {
    uint32_t low = begins[left];
    uint32_t end = begins[left + 1];
    uint32_t high = end;
    while (low < high) {
      uint32_t middle = low + (high - low) / 2;
      if (merges[middle].right() < right)
        low = middle + 1;
      else
        high = middle;
    }
    return low < end && merges[low].right() == right ? low : none;
  }

private:
  std::span<const artifact::Merge> merges;
  std::vector<uint32_t> begins;
};

/// Merges the bytes of pieces to tokens: always the lowest rank, of equal ones
/// the leftmost, until nothing can be merged. Every merge costs O(log n), so
/// the length of a piece does not matter. Reused for many pieces, so that its
/// memory is.
class PieceMerger {
public:
  PieceMerger(const MergeTable &table, std::span<const uint32_t> byteTokens)
      : table(table), byteTokens(byteTokens) {}

  /// Appends the tokens of \p piece, which is not empty, to \p tokens.
  void merge(std::string_view piece, std::vector<uint32_t> &tokens) {
    uint32_t size = piece.size();
    symbols.resize(size);
    candidates.clear();
    for (uint32_t i = 0; i < size; ++i)
      symbols[i] = {byteTokens[uint8_t(piece[i])], i - 1, i + 1, none};
    symbols[size - 1].next = none;
    for (uint32_t i = 0; i + 1 < size; ++i)
      if (updateMerge(i))
        candidates.push_back(candidateAt(i));
    std::make_heap(candidates.begin(), candidates.end(), std::greater<>());

    while (!candidates.empty()) {
      std::pop_heap(candidates.begin(), candidates.end(), std::greater<>());
      uint64_t candidate = candidates.back();
      candidates.pop_back();
      uint32_t position = uint32_t(candidate);
      Symbol &left = symbols[position];
      // Neighbours merge, and leave candidates behind that are none any more.
      if (left.merge == none || candidateAt(position) != candidate)
        continue;
      Symbol &right = symbols[left.next];
      left.token = table[left.merge].result();
      left.next = right.next;
      right.merge = none;
      if (left.next != none)
        symbols[left.next].previous = position;
      if (updateMerge(position))
        pushCandidate(position);
      if (left.previous != none && updateMerge(left.previous))
        pushCandidate(left.previous);
    }
    for (uint32_t i = 0; i != none; i = symbols[i].next)
      tokens.push_back(symbols[i].token);
  }

private:
  static constexpr uint32_t none = MergeTable::none;

  /// A token of the piece, at the position of its first byte.
  struct Symbol {
    uint32_t token;
    /// Neighbours, or none. `0 - 1` is none.
    uint32_t previous;
    uint32_t next;
    /// The merge with the next one, or none; none too when the symbol was
    /// merged into the one before.
    uint32_t merge;
  };

  /// Looks for the merge of a symbol with the next one.
  bool updateMerge(uint32_t position) {
    Symbol &symbol = symbols[position];
    symbol.merge = symbol.next == none
                       ? none
                       : table.find(symbol.token, symbols[symbol.next].token);
    return symbol.merge != none;
  }

  /// Order of candidates: by rank, then by position.
  uint64_t candidateAt(uint32_t position) const {
    return uint64_t(table[symbols[position].merge].rank()) << 32 | position;
  }

  void pushCandidate(uint32_t position) {
    candidates.push_back(candidateAt(position));
    std::push_heap(candidates.begin(), candidates.end(), std::greater<>());
  }

  const MergeTable &table;
  std::span<const uint32_t> byteTokens;
  std::vector<Symbol> symbols;
  /// A heap, the first to merge on top.
  std::vector<uint64_t> candidates;
};

} // namespace

//===----------------------------------------------------------------------===//
// Tokenizer
//===----------------------------------------------------------------------===//

struct Tokenizer::Tables {
  std::span<const uint32_t> tokenOffsets;
  const char *tokenBytes;
  std::span<const uint32_t> byteTokens;
  /// Ids by bytes; empty unless merges are ignored for whole tokens.
  std::span<const uint32_t> sortedTokens;
  bool nfc;
  MergeTable merges;
  PieceSplitter splitter;
  /// Searched for in the text as it is, and in the normalized text.
  AddedTokenFinder rawTokens;
  AddedTokenFinder normalizedTokens;

  std::string_view bytes(uint32_t token) const {
    if (token + size_t(1) >= tokenOffsets.size())
      return {};
    uint32_t begin = tokenOffsets[token];
    return {tokenBytes + begin, tokenOffsets[token + 1] - begin};
  }

  /// The token whose bytes are \p piece, from the sorted ones.
  std::optional<uint32_t> findWhole(std::string_view piece) const {
    auto found =
        std::lower_bound(sortedTokens.begin(), sortedTokens.end(), piece,
                         [this](uint32_t token, std::string_view wanted) {
                           return bytes(token) < wanted;
                         });
    if (found == sortedTokens.end() || bytes(*found) != piece)
      return std::nullopt;
    return *found;
  }
};

/// The numbers of a flatbuffer vector, which a file of our own byte order holds
/// as they are.
static std::span<const uint32_t>
numbers(const flatbuffers::Vector<uint32_t> *vector) {
  if (!vector)
    return {};
  return {vector->data(), vector->size()};
}

Tokenizer::Tokenizer(std::unique_ptr<const Tables> tables)
    : tables(std::move(tables)) {}
Tokenizer::Tokenizer(Tokenizer &&) noexcept = default;
Tokenizer &Tokenizer::operator=(Tokenizer &&) noexcept = default;
Tokenizer::~Tokenizer() = default;

StatusOr<Tokenizer> Tokenizer::create(const artifact::Tokenizer &source) {
  auto result = std::make_unique<Tables>();
  result->tokenOffsets = numbers(source.token_offsets());
  result->tokenBytes =
      reinterpret_cast<const char *>(source.token_bytes()->data());
  result->byteTokens = numbers(source.byte_tokens());
  if (source.ignore_merges())
    result->sortedTokens = numbers(source.sorted_tokens());
  result->nfc = source.nfc();
  if (uint32_t count = source.merges()->size())
    result->merges.setMerges({source.merges()->Get(0), count},
                             result->tokenOffsets.size() - 1);
  else
    result->merges.setMerges({}, result->tokenOffsets.size() - 1);
  if (const flatbuffers::String *pattern = source.pattern())
    TANDEM_RETURN_IF_ERROR(
        result->splitter.setPattern({pattern->data(), pattern->size()}));

  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  uint32_t count = source.added() ? source.added()->size() : 0;
  for (uint32_t i = 0; i < count; ++i) {
    const artifact::AddedToken &added = *source.added()->Get(i);
    AddedToken token = {added.content()->str(), added.id(), added.single_word(),
                        added.left_strip(), added.right_strip()};
    if (token.text.empty() || countValidUtf8(token.text) != token.text.size())
      return invalidFile("tokenizer: added[", i,
                         "]: content is empty or not UTF-8");
    if (added.normalized() && result->nfc)
      token.text = normalizeNfc(token.text);
    (added.normalized() ? normalized : raw).push_back(std::move(token));
  }
  result->rawTokens.setTokens(std::move(raw));
  result->normalizedTokens.setTokens(std::move(normalized));
  return Tokenizer(std::move(result));
}

StatusOr<std::vector<uint32_t>> Tokenizer::encode(std::string_view text,
                                                  AddedTokens added) const {
  if (text.size() > maxTextBytes)
    return invalidArgument("text has ", text.size(), " bytes, at most ",
                           maxTextBytes, " are supported");
  if (size_t valid = countValidUtf8(text); valid != text.size())
    return invalidArgument("text is not UTF-8: invalid byte at offset ", valid);

  std::vector<uint32_t> tokens;
  PieceMerger merger(tables->merges, tables->byteTokens);
  auto onToken = [&](uint32_t token) { tokens.push_back(token); };
  auto onPiece = [&](std::string_view piece) {
    if (std::optional<uint32_t> whole = tables->findWhole(piece))
      tokens.push_back(*whole);
    else
      merger.merge(piece, tokens);
  };
  auto onNormalized = [&](std::string_view section) {
    return tables->splitter.split(section, onPiece);
  };
  auto onRaw = [&](std::string_view section) {
    std::string normalized;
    if (tables->nfc)
      section = normalized = normalizeNfc(section);
    if (added == AddedTokens::Ignore)
      return onNormalized(section);
    return tables->normalizedTokens.split(section, onNormalized, onToken);
  };
  if (added == AddedTokens::Ignore)
    TANDEM_RETURN_IF_ERROR(text.empty() ? Status() : onRaw(text));
  else
    TANDEM_RETURN_IF_ERROR(tables->rawTokens.split(text, onRaw, onToken));
  return tokens;
}

std::string_view Tokenizer::bytes(uint32_t token) const {
  return tables->bytes(token);
}

std::string Tokenizer::decode(std::span<const uint32_t> tokens) const {
  Utf8Stream stream;
  std::string text;
  for (uint32_t token : tokens)
    text += stream.push(bytes(token));
  text += stream.finish();
  return text;
}
