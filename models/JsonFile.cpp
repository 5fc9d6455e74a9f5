//===- JsonFile.cpp - JSON files of a checkpoint --------------------------===//

#include "models/JsonFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <nlohmann/json.hpp>

#include <vector>

using namespace llvm;
using namespace tandem::models;
using nlohmann::json;

/// Ten times the largest tokenizer.json there is.
static constexpr uint64_t kMaxFileBytes = uint64_t(256) << 20;

/// More than any configuration needs, and little for whoever walks the values.
static constexpr size_t kMaxDepth = 64;

namespace {

/// Builds a document token by token, so that reading stops at the first thing
/// that nlohmann-json alone would let pass.
class DocumentBuilder : public json::json_sax_t {
public:
  json root;
  /// Why reading stopped; where, for what is not JSON at all.
  std::string problem;
  size_t position = 0;

  bool start_object(size_t) override { return open(json::object()); }
  bool start_array(size_t) override { return open(json::array()); }
  bool key(json::string_t &text) override {
    if (containers.back()->contains(text)) {
      problem = "duplicate key " + quote(text);
      return false;
    }
    lastKey = text;
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(json::number_integer_t value) override {
    return add(value);
  }
  bool number_unsigned(json::number_unsigned_t value) override {
    return add(value);
  }
  bool number_float(json::number_float_t value,
                    const json::string_t &) override {
    return add(value);
  }
  bool string(json::string_t &text) override { return add(std::move(text)); }
  bool binary(json::binary_t &) override { return false; } // text has none
  bool parse_error(size_t where, const std::string &,
                   const json::exception &) override {
    position = where;
    return false;
  }

private:
  /// Puts \p value where the document continues.
  json &place(json &&value) {
    if (containers.empty())
      return root = std::move(value);
    json &parent = *containers.back();
    if (parent.is_object())
      return parent[lastKey] = std::move(value);
    parent.push_back(std::move(value));
    return parent.back();
  }
  bool add(json &&value) {
    place(std::move(value));
    return true;
  }
  bool open(json &&container) {
    if (containers.size() == kMaxDepth) {
      problem = "is nested more than " + std::to_string(kMaxDepth) + " deep";
      return false;
    }
    // A parent does not move before its open child is closed.
    containers.push_back(&place(std::move(container)));
    return true;
  }
  bool close() {
    containers.pop_back();
    return true;
  }

  std::vector<json *> containers;
  std::string lastKey;
};

} // namespace

std::string tandem::models::quote(StringRef text) {
  constexpr size_t kLimit = 120;
  std::string result;
  raw_string_ostream os(result);
  os << "'";
  os.write_escaped(text.take_front(kLimit));
  os << (text.size() > kLimit ? "...'" : "'");
  return result;
}

StringRef tandem::models::describeWrongDownload(StringRef contents) {
  if (contents.starts_with("version https://git-lfs"))
    return "is a Git LFS pointer, not the file itself (`git lfs pull` fetches "
           "it)";
  StringRef start = contents.take_front(512).ltrim();
  if (start.starts_with_insensitive("<!doctype") ||
      start.starts_with_insensitive("<html"))
    return "is a web page, not the file itself";
  return "";
}

std::string tandem::models::describe(const json &value) {
  if (value.is_array())
    return "an array of " + std::to_string(value.size());
  if (value.is_object())
    return "an object of " + std::to_string(value.size());
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true,
                                json::error_handler_t::replace);
  if (text.size() > 80)
    text.replace(80, text.npos, "...");
  return text;
}

Expected<json> tandem::models::readJsonFile(StringRef path) {
  auto fail = [path](const Twine &problem) {
    return createStringError(path + ": " + problem);
  };
  sys::fs::file_status status;
  if (std::error_code error = sys::fs::status(path, status))
    return fail(error.message());
  if (!sys::fs::is_regular_file(status))
    return fail("is not a regular file");
  if (status.getSize() > kMaxFileBytes)
    return fail("has " + Twine(status.getSize()) + " bytes, at most " +
                Twine(kMaxFileBytes) + " are read");
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer =
      MemoryBuffer::getFile(path, /*IsText=*/false,
                            /*RequiresNullTerminator=*/false);
  if (std::error_code error = buffer.getError())
    return fail(error.message());

  StringRef text = (*buffer)->getBuffer();
  StringRef start = text.ltrim();
  if (start.empty())
    return fail("is empty");
  if (StringRef wrong = describeWrongDownload(start); !wrong.empty())
    return fail(wrong);
  if (start.starts_with("<"))
    return fail("is a web page or XML, expected JSON");

  // The lexer of nlohmann-json takes a NUL for the end of the text.
  if (text.contains('\0'))
    return fail("holds a NUL byte, expected JSON");

  DocumentBuilder builder;
  if (!json::sax_parse(text.begin(), text.end(), &builder)) {
    if (!builder.problem.empty())
      return fail(builder.problem);
    StringRef before = text.take_front(builder.position);
    return fail("line " + Twine(before.count('\n') + 1) + ", byte " +
                Twine(builder.position) + ": is not JSON");
  }
  json &root = builder.root;
  if (!root.is_object())
    return fail("holds " + describe(root) + ", expected an object");
  return std::move(root);
}
