//===- SafetensorsReader.cpp - Tensors from files -------------------------===//

#include "runtime/SafetensorsIo.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

namespace tandem {

using nlohmann::json;

/// The limit of the format for the length of the header.
static constexpr uint64_t headerLimit = 100'000'000;
static constexpr size_t rankLimit = 8;

/// Bytes of one element; 0 for a type that is not known.
static uint64_t dtypeSize(std::string_view dtype) {
  static constexpr struct {
    std::string_view name;
    uint64_t size;
  } sizes[] = {{"BOOL", 1},    {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1},
               {"F8_E4M3", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
               {"BF16", 2},    {"I32", 4}, {"U32", 4}, {"F32", 4},
               {"F64", 8},     {"I64", 8}, {"U64", 8}};
  for (const auto &entry : sizes)
    if (entry.name == dtype)
      return entry.size;
  return 0;
}

std::string describe(const TensorInfo &tensor) {
  std::string text = tensor.dtype + " [";
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis)
    text += concat(axis ? ", " : "", tensor.shape[axis]);
  return text + "]";
}

StatusOr<uint64_t> tensorBytes(const TensorInfo &tensor) {
  uint64_t size = dtypeSize(tensor.dtype);
  if (size == 0)
    return invalidFile("unknown dtype '", tensor.dtype, "'");
  for (uint64_t dimension : tensor.shape)
    if (__builtin_mul_overflow(size, dimension, &size))
      return invalidFile("the shape is too large");
  return size;
}

namespace {

/// An entry of the header.
struct Entry {
  TensorInfo info;
  std::vector<uint64_t> offsets;
  bool hasShape = false;
};

/// Reads the header event by event instead of into a tree: a key that appears
/// twice would vanish in a tree, and a hostile nesting fill the memory.
class HeaderParser final : public json::json_sax_t {
public:
  std::vector<Entry> entries;
  /// What is wrong, when an event returned false.
  std::string problem;

  bool start_object(size_t) override {
    if (depth == 0 || (depth == 1 && !lastKey.empty()))
      return enter();
    return unexpected("an object");
  }
  bool end_object() override {
    --depth;
    inMetadata &= depth != 1;
    fields.clear();
    return true;
  }
  bool key(std::string &name) override {
    lastKey = name;
    if (depth == 1) {
      if (!names.insert(name).second)
        return stop(concat("tensor '", name, "' appears twice"));
      inMetadata = name == "__metadata__";
      if (!inMetadata)
        entries.emplace_back().info.name = name;
      return true;
    }
    if (!fields.insert(name).second)
      return stop(
          concat("key '", name, "' of '", subject(), "' appears twice"));
    return true;
  }
  bool start_array(size_t) override {
    if (depth != 2 || inMetadata ||
        (lastKey != "shape" && lastKey != "data_offsets"))
      return unexpected("an array");
    if (lastKey == "shape")
      entries.back().hasShape = true;
    return enter();
  }
  bool end_array() override {
    --depth;
    return true;
  }
  bool string(std::string &value) override {
    if (depth == 2 && inMetadata)
      return true;
    if (depth != 2 || lastKey != "dtype")
      return unexpected("a string");
    entries.back().info.dtype = value;
    return true;
  }
  bool number_unsigned(uint64_t value) override {
    if (depth != 3)
      return unexpected("a number");
    auto &array =
        lastKey == "shape" ? entries.back().info.shape : entries.back().offsets;
    if (array.size() >= rankLimit)
      return stop(concat("'", lastKey, "' of '", subject(), "' is longer than ",
                         rankLimit));
    array.push_back(value);
    return true;
  }
  bool number_integer(int64_t) override {
    return unexpected("a negative number");
  }
  bool number_float(double, const std::string &) override {
    return unexpected("a number that is no integer");
  }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool binary(json::binary_t &) override { return unexpected("binary data"); }
  bool parse_error(size_t position, const std::string &,
                   const nlohmann::detail::exception &) override {
    return stop(concat("the header is not valid JSON at byte ", position));
  }

private:
  /// Open objects and arrays.
  unsigned depth = 0;
  bool inMetadata = false;
  std::string lastKey;
  std::set<std::string> names, fields;

  std::string subject() const {
    return inMetadata || entries.empty() ? "__metadata__"
                                         : entries.back().info.name;
  }
  bool enter() {
    ++depth;
    return true;
  }
  bool stop(std::string message) {
    problem = std::move(message);
    return false;
  }
  bool unexpected(std::string_view what) {
    if (depth == 0)
      return stop("the header is not a JSON object");
    return stop(
        concat("tensor '", subject(), "' has ", what, " where none belongs"));
  }
};

} // namespace

StatusOr<SafetensorsReader> SafetensorsReader::open(const std::string &path) {
  TANDEM_ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::open(path));
  SafetensorsReader reader(std::move(mapping));
  TANDEM_RETURN_IF_ERROR(reader.parse());
  return reader;
}

Status SafetensorsReader::parse() {
  std::span<const std::byte> file = mapping.bytes();
  uint64_t length = 0;
  if (file.size() < sizeof(length))
    return invalidFile("is too short for a safetensors file (", file.size(),
                       " bytes)");
  std::memcpy(&length, file.data(), sizeof(length));
  std::span<const std::byte> body = file.subspan(sizeof(length));
  if (length == 0 || length > headerLimit || length > body.size())
    return invalidFile("not a safetensors file: a header of ", length,
                       " bytes in a file of ", file.size());
  std::string_view text(reinterpret_cast<const char *>(body.data()), length);
  if (text.front() != '{')
    return invalidFile("not a safetensors file: the header is not JSON");
  std::span<const std::byte> data = body.subspan(length);
  HeaderParser header;
  if (!json::sax_parse(text.begin(), text.end(), &header))
    return invalidFile(header.problem);

  struct Range {
    uint64_t begin, end;
    size_t entry;
  };
  std::vector<Range> ranges;
  for (size_t index = 0; index < header.entries.size(); ++index) {
    const Entry &entry = header.entries[index];
    auto bad = [&](const auto &...parts) {
      return invalidFile("tensor '", entry.info.name, "': ", parts...);
    };
    if (entry.info.dtype.empty() || !entry.hasShape ||
        entry.offsets.size() != 2)
      return bad("expected dtype, shape and data_offsets");
    StatusOr<uint64_t> size = tensorBytes(entry.info);
    if (!size.isOk())
      return bad(size.status().message());
    uint64_t begin = entry.offsets[0], end = entry.offsets[1];
    if (begin > end || end > data.size())
      return bad("data_offsets [", begin, ", ", end,
                 "] are outside the data of ", data.size(), " bytes");
    if (end - begin != *size)
      return bad("has ", end - begin, " bytes, ", describe(entry.info),
                 " needs ", *size);
    ranges.push_back({begin, end, index});
  }

  std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t end = 0;
  for (const Range &range : ranges) {
    TensorInfo &info = header.entries[range.entry].info;
    if (range.begin != end)
      return invalidFile("tensor '", info.name, "' begins at ", range.begin,
                         ", the one before ends at ", end);
    end = range.end;
    entries.push_back(
        {std::move(info), data.subspan(range.begin, range.end - range.begin)});
  }
  if (end != data.size())
    return invalidFile("the tensors end at ", end, ", the data at ",
                       data.size());
  return Status();
}

const SafetensorsReader::Tensor *
SafetensorsReader::find(std::string_view name) const {
  for (const Tensor &tensor : entries)
    if (tensor.name == name)
      return &tensor;
  return nullptr;
}

} // namespace tandem
