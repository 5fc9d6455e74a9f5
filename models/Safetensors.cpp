//===- Safetensors.cpp - The header of a safetensors file -----------------===//
//
// The header is parsed straight into a tensor table, never into a document: the
// memory it takes is then bounded by the tensors it names, whatever else a
// hostile header nests or repeats.
//
//===----------------------------------------------------------------------===//

#include "models/Safetensors.h"
#include "models/JsonFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <nlohmann/json.hpp>

#include <optional>

using namespace llvm;
using namespace tandem::models;

namespace {

/// The limit the reference implementation has.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
/// No tensor of a language model comes near it.
constexpr size_t kMaxRank = 8;
/// How deep the value of a key that is ignored may nest.
constexpr unsigned kMaxIgnoredDepth = 16;

struct DTypeInfo {
  StringLiteral name;
  unsigned width;
};

/// Indexed by DType.
constexpr DTypeInfo kDTypes[] = {
    {"BOOL", 1},    {"U8", 1},      {"I8", 1},  {"F8_E5M2", 1},
    {"F8_E4M3", 1}, {"F8_E8M0", 1}, {"I16", 2}, {"U16", 2},
    {"F16", 2},     {"BF16", 2},    {"I32", 4}, {"U32", 4},
    {"F32", 4},     {"I64", 8},     {"U64", 8}, {"F64", 8}};

std::optional<DType> parseDType(StringRef name) {
  for (auto [index, info] : enumerate(kDTypes))
    if (info.name == name)
      return static_cast<DType>(index);
  return std::nullopt;
}

/// A tensor as the header states it.
struct Entry {
  std::string name;
  std::optional<DType> dtype;
  std::optional<SmallVector<int64_t, 4>> shape;
  /// Relative to the end of the header.
  std::optional<SmallVector<int64_t, 2>> offsets;
};

/// Receives the header token by token. Returns false, with `problem` set, at
/// the first thing that is not as it should be.
class HeaderReader : public nlohmann::json::json_sax_t {
public:
  explicit HeaderReader(std::vector<std::string> &warnings)
      : warnings(warnings) {}

  std::vector<Entry> entries;
  std::string problem;

  bool start_object(size_t) override {
    switch (place) {
    case Place::Start:
      place = Place::Header;
      return true;
    case Place::HeaderValue:
      entryKeys.clear();
      if (inMetadata()) {
        place = Place::Metadata;
        return true;
      }
      entries.emplace_back().name = name;
      place = Place::Entry;
      return true;
    case Place::Ignored:
      return enterIgnored();
    default:
      return unexpected("an object");
    }
  }

  bool key(string_t &text) override {
    switch (place) {
    case Place::Header:
      name = text;
      place = Place::HeaderValue;
      if (!names.insert(text).second)
        return fail("duplicate tensor name " + quote(text));
      return true;
    case Place::Metadata:
    case Place::Entry:
      if (!entryKeys.insert(text).second)
        return fail(subject() + ": duplicate key " + quote(text));
      entryKey = text;
      if (place == Place::Metadata)
        return true;
      if (text == "dtype" || text == "shape" || text == "data_offsets")
        return true;
      warnings.push_back(subject() + ": ignores unknown key " + quote(text));
      place = Place::Ignored;
      return true;
    default:
      return true; // inside an ignored object
    }
  }

  bool end_object() override {
    switch (place) {
    case Place::Header:
      place = Place::End;
      return true;
    case Place::Metadata:
      place = Place::Header;
      return true;
    case Place::Entry: {
      const Entry &entry = entries.back();
      StringRef missing = !entry.dtype     ? "dtype"
                          : !entry.shape   ? "shape"
                          : !entry.offsets ? "data_offsets"
                                           : "";
      if (!missing.empty())
        return fail(subject() + ": key '" + missing.str() + "' is missing");
      place = Place::Header;
      return true;
    }
    default:
      return leaveIgnored();
    }
  }

  bool start_array(size_t) override {
    if (place == Place::Ignored)
      return enterIgnored();
    if (place == Place::Entry && entryKey == "shape") {
      entries.back().shape.emplace();
      place = Place::Shape;
      return true;
    }
    if (place == Place::Entry && entryKey == "data_offsets") {
      entries.back().offsets.emplace();
      place = Place::Offsets;
      return true;
    }
    return unexpected("an array");
  }

  bool end_array() override {
    if (place == Place::Shape || place == Place::Offsets) {
      if (place == Place::Offsets && entries.back().offsets->size() != 2)
        return fail(subject() + ": data_offsets has " +
                    Twine(entries.back().offsets->size()) +
                    " numbers, expected 2");
      place = Place::Entry;
      return true;
    }
    return leaveIgnored();
  }

  bool string(string_t &text) override {
    if (place == Place::Metadata)
      return true;
    if (place == Place::Entry && entryKey == "dtype") {
      entries.back().dtype = parseDType(text);
      if (!entries.back().dtype)
        return fail(subject() + ": unknown dtype " + quote(text));
      return true;
    }
    return scalar("a string");
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place != Place::Shape && place != Place::Offsets)
      return scalar("a number");
    // JSON numbers are exact up to 2^53 in every implementation.
    if (value > (uint64_t(1) << 53))
      return fail(subject() + ": " + entryKey + " holds " + Twine(value) +
                  ", expected at most 2^53");
    if (place == Place::Offsets) {
      entries.back().offsets->push_back(value);
      if (entries.back().offsets->size() > 2)
        return fail(subject() +
                    ": data_offsets has more than 2 numbers, expected 2");
      return true;
    }
    entries.back().shape->push_back(value);
    if (entries.back().shape->size() > kMaxRank)
      return fail(subject() + ": has more than " + Twine(kMaxRank) +
                  " dimensions");
    return true;
  }

  bool number_integer(number_integer_t) override {
    return scalar("a negative number");
  }
  bool number_float(number_float_t, const string_t &text) override {
    return scalar("the number " + text);
  }
  bool null() override { return scalar("null"); }
  bool boolean(bool) override { return scalar("a boolean"); }
  bool binary(binary_t &) override { return scalar("binary data"); }

  bool parse_error(size_t position, const std::string &,
                   const nlohmann::json::exception &) override {
    if (problem.empty())
      problem = "the header is not JSON at byte " + std::to_string(position);
    return false;
  }

private:
  /// Where in the header the next token stands.
  enum class Place {
    Start,
    Header,      ///< between tensors
    HeaderValue, ///< behind a tensor's name
    Entry,       ///< inside a tensor's object
    Metadata,    ///< inside __metadata__
    Shape,
    Offsets,
    Ignored, ///< the value of an unknown key, at depth `ignoredDepth`
    End,
  };

  bool inMetadata() const { return name == "__metadata__"; }

  std::string subject() const {
    return inMetadata() ? std::string("__metadata__") : "tensor " + quote(name);
  }

  bool fail(const Twine &message) {
    problem = message.str();
    return false;
  }

  bool unexpected(const std::string &what) {
    switch (place) {
    case Place::Start:
      return fail("the header is " + what + ", expected an object");
    case Place::HeaderValue:
      return fail(subject() + ": is " + what + ", expected an object");
    case Place::Metadata:
      return fail(subject() + ": key " + quote(entryKey) + " is " + what +
                  ", expected a string");
    default:
      return fail(subject() + ": " + entryKey + " holds " + what +
                  (entryKey == "dtype"
                       ? ", expected a string"
                       : ", expected whole numbers that are not negative"));
    }
  }

  /// A scalar where only an ignored value may have one.
  bool scalar(const std::string &what) {
    if (place != Place::Ignored)
      return unexpected(what);
    if (ignoredDepth == 0)
      place = Place::Entry;
    return true;
  }

  bool enterIgnored() {
    if (++ignoredDepth > kMaxIgnoredDepth)
      return fail(subject() + ": the value of " + quote(entryKey) +
                  " is nested too deeply");
    return true;
  }

  bool leaveIgnored() {
    if (--ignoredDepth == 0)
      place = Place::Entry;
    return true;
  }

  std::vector<std::string> &warnings;
  Place place = Place::Start;
  unsigned ignoredDepth = 0;
  std::string name, entryKey;
  StringSet<> names, entryKeys;
};

/// Bytes that \p entry takes by its shape, or nothing when 64 bits overflow.
std::optional<int64_t> getByteSize(const Entry &entry) {
  // A zero anywhere makes the tensor empty, however large the others are.
  if (is_contained(*entry.shape, 0))
    return 0;
  std::optional<int64_t> size = getByteWidth(*entry.dtype);
  for (int64_t dim : *entry.shape)
    if (size)
      size = checkedMul(*size, dim);
  return size;
}

/// Checks that the ranges of \p entries, sorted by range, tile \p dataSize
/// bytes. Returns a description of the first fault, or an empty string.
std::string checkLayout(ArrayRef<Entry> entries, uint64_t dataSize) {
  int64_t end = 0;
  for (const Entry &entry : entries) {
    std::string subject = "tensor " + quote(entry.name);
    int64_t first = (*entry.offsets)[0], last = (*entry.offsets)[1];
    if (first > last)
      return formatv("{0}: data_offsets begin at {1} and end before, at {2}",
                     subject, first, last);
    if (static_cast<uint64_t>(last) > dataSize)
      return formatv("{0}: ends at byte {1} of {2} bytes of data; the file is "
                     "truncated or the header wrong",
                     subject, last, dataSize);
    std::optional<int64_t> size = getByteSize(entry);
    if (!size || *size != last - first)
      return formatv(
          "{0}: {1} [{2}] does not fill its {3} bytes", subject,
          toString(*entry.dtype),
          join(map_range(*entry.shape, [](int64_t dim) { return itostr(dim); }),
               ", "),
          last - first);
    if (first != end)
      return formatv("{0}: begins at byte {1}, expected {2}: tensors must {3}",
                     subject, first, end,
                     first < end ? "not overlap" : "leave no holes");
    end = last;
  }
  if (static_cast<uint64_t>(end) != dataSize)
    return formatv("{0} bytes follow the last tensor", dataSize - end);
  return "";
}

} // namespace

StringRef tandem::models::toString(DType dtype) {
  return kDTypes[static_cast<unsigned>(dtype)].name;
}

unsigned tandem::models::getByteWidth(DType dtype) {
  return kDTypes[static_cast<unsigned>(dtype)].width;
}

int64_t TensorView::getNumElements() const {
  return bytes.size() / getByteWidth(dtype);
}

raw_ostream &tandem::models::operator<<(raw_ostream &os,
                                        const TensorView &tensor) {
  os << toString(tensor.dtype) << " [";
  interleaveComma(tensor.shape, os);
  return os << "]";
}

Expected<std::vector<TensorView>>
tandem::models::parseSafetensors(ArrayRef<uint8_t> contents, StringRef path,
                                 std::vector<std::string> &warnings) {
  auto fail = [&](const Twine &message) {
    return createStringError(path + ": " + message);
  };
  StringRef text(reinterpret_cast<const char *>(contents.data()),
                 contents.size());
  if (StringRef reason = describeWrongDownload(text); !reason.empty())
    return fail(reason);
  if (contents.size() < 8)
    return fail("has " + Twine(contents.size()) +
                " bytes, too few for a safetensors header");
  uint64_t headerSize = support::endian::read64le(contents.data());
  if (headerSize > kMaxHeaderBytes || headerSize > contents.size() - 8)
    return fail("claims a header of " + Twine(headerSize) +
                " bytes in a file of " + Twine(contents.size()) +
                "; it is truncated or not safetensors");
  // Writers pad with spaces so that the data is aligned. nlohmann-json takes a
  // byte order mark in front and ends at a NUL; the format has neither.
  StringRef header = text.substr(8, headerSize).rtrim(' ');
  if (!header.starts_with("{") || header.contains('\0'))
    return fail("the header is not a JSON object");

  std::vector<std::string> fileWarnings;
  HeaderReader reader(fileWarnings);
  if (!nlohmann::json::sax_parse(header.begin(), header.end(), &reader))
    return fail(reader.problem);
  for (const std::string &warning : fileWarnings)
    warnings.push_back((path + ": " + warning).str());

  std::vector<Entry> &entries = reader.entries;
  sort(entries, [](const Entry &lhs, const Entry &rhs) {
    return *lhs.offsets < *rhs.offsets;
  });
  ArrayRef<uint8_t> data = contents.drop_front(8 + headerSize);
  if (std::string fault = checkLayout(entries, data.size()); !fault.empty())
    return fail(fault);

  std::vector<TensorView> tensors;
  tensors.reserve(entries.size());
  for (Entry &entry : entries) {
    int64_t first = (*entry.offsets)[0], last = (*entry.offsets)[1];
    tensors.push_back({std::move(entry.name), *entry.dtype,
                       std::move(*entry.shape), data.slice(first, last - first),
                       path});
  }
  return tensors;
}
