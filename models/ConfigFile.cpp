//===- ConfigFile.cpp - Keys of a config.json -----------------------------===//

#include "models/ConfigFile.h"
#include "models/JsonFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <nlohmann/json.hpp>

#include <cmath>

using namespace llvm;
using namespace tandem::models;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// ConfigFile
//===----------------------------------------------------------------------===//

ConfigFile::ConfigFile(StringRef path, json &&root)
    : path(path), root(std::make_unique<json>(std::move(root))) {}
ConfigFile::ConfigFile(ConfigFile &&) = default;
ConfigFile::~ConfigFile() = default;

Expected<ConfigFile> ConfigFile::open(StringRef path) {
  Expected<json> root = readJsonFile(path);
  if (!root)
    return root.takeError();
  return ConfigFile(path, std::move(*root));
}

ConfigObject ConfigFile::getRoot() { return ConfigObject(*this, *root, ""); }

void ConfigFile::fail(const Twine &key, const Twine &message) {
  if (problem.empty())
    problem = (path + ": " + key + ": " + message).str();
}

Error ConfigFile::takeError() {
  if (problem.empty())
    return Error::success();
  return createStringError(problem);
}

//===----------------------------------------------------------------------===//
// ConfigObject
//===----------------------------------------------------------------------===//

const json *ConfigObject::lookup(StringRef key) const {
  auto found = object->find(key.str());
  return found == object->end() || found->is_null() ? nullptr : &*found;
}

void ConfigObject::mismatch(StringRef key, const json &value,
                            const Twine &expected) const {
  fail(key, "is " + describe(value) + ", expected " + expected);
}

std::vector<std::string> ConfigObject::getKeys() const {
  std::vector<std::string> keys;
  for (const auto &[key, value] : object->items())
    if (!value.is_null())
      keys.push_back(key);
  return keys;
}

std::string ConfigObject::getText(StringRef key) const {
  const json *value = lookup(key);
  return value ? describe(*value) : "null";
}

std::optional<ConfigObject> ConfigObject::findObject(StringRef key) const {
  const json *value = lookup(key);
  if (!value)
    return std::nullopt;
  if (!value->is_object()) {
    mismatch(key, *value, "an object");
    return std::nullopt;
  }
  return ConfigObject(*file, *value, getName(key) + ".");
}

std::optional<bool> ConfigObject::findFlag(StringRef key) const {
  const json *value = lookup(key);
  if (!value)
    return std::nullopt;
  if (!value->is_boolean()) {
    mismatch(key, *value, "true or false");
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<std::string> ConfigObject::findString(StringRef key) const {
  const json *value = lookup(key);
  if (!value)
    return std::nullopt;
  if (!value->is_string()) {
    mismatch(key, *value, "a string");
    return std::nullopt;
  }
  return value->get<std::string>();
}

std::optional<std::vector<std::string>>
ConfigObject::findStrings(StringRef key) const {
  const json *value = lookup(key);
  if (!value)
    return std::nullopt;
  if (!value->is_array() ||
      !all_of(*value, [](const json &item) { return item.is_string(); })) {
    mismatch(key, *value, "a list of strings");
    return std::nullopt;
  }
  return value->get<std::vector<std::string>>();
}

/// \p value as a whole number in [\p min, \p max].
static std::optional<int64_t> readInteger(const json &value, int64_t min,
                                          int64_t max) {
  // is_number_unsigned() may be beyond int64_t; get() would wrap it around.
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() &&
       value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)))
    return std::nullopt;
  int64_t number = value.get<int64_t>();
  if (number < min || number > max)
    return std::nullopt;
  return number;
}

std::optional<int64_t> ConfigObject::findInteger(StringRef key, int64_t min,
                                                 int64_t max) const {
  const json *value = lookup(key);
  if (!value)
    return std::nullopt;
  std::optional<int64_t> number = readInteger(*value, min, max);
  if (!number)
    mismatch(key, *value,
             "a whole number from " + Twine(min) + " to " + Twine(max));
  return number;
}

std::optional<std::vector<int64_t>>
ConfigObject::findIntegers(StringRef key, int64_t min, int64_t max) const {
  const json *value = lookup(key);
  if (!value)
    return std::nullopt;
  std::vector<int64_t> numbers;
  auto add = [&](const json &item) {
    std::optional<int64_t> number = readInteger(item, min, max);
    if (!number)
      mismatch(key, item,
               "whole numbers from " + Twine(min) + " to " + Twine(max));
    else
      numbers.push_back(*number);
    return number.has_value();
  };
  if (!value->is_array()) {
    if (!add(*value))
      return std::nullopt;
  } else if (!all_of(*value, add)) {
    return std::nullopt;
  }
  return numbers;
}

std::optional<double> ConfigObject::findNumber(StringRef key,
                                               double min) const {
  const json *value = lookup(key);
  if (!value)
    return std::nullopt;
  double number = value->is_number() ? value->get<double>() : NAN;
  if (!(number >= min) || !std::isfinite(number)) {
    std::string text;
    raw_string_ostream(text) << format("%g", min);
    mismatch(key, *value, "a number of at least " + text);
    return std::nullopt;
  }
  return number;
}

int64_t ConfigObject::getInteger(StringRef key, int64_t min,
                                 int64_t max) const {
  if (!has(key))
    fail(key, "is missing");
  return findInteger(key, min, max).value_or(1);
}

double ConfigObject::getNumber(StringRef key, double min) const {
  if (!has(key))
    fail(key, "is missing");
  return findNumber(key, min).value_or(1);
}

std::string ConfigObject::getString(StringRef key) const {
  if (!has(key))
    fail(key, "is missing");
  return findString(key).value_or("");
}

void ConfigObject::expectFlag(StringRef key, bool expected) const {
  const json *value = lookup(key);
  if (value && *value != json(expected))
    mismatch(key, *value, expected ? "true" : "false");
}

void ConfigObject::expectString(StringRef key,
                                ArrayRef<StringRef> expected) const {
  const json *value = lookup(key);
  if (!value)
    return;
  const auto *text = value->get_ptr<const std::string *>();
  if (!text || !is_contained(expected, *text))
    mismatch(key, *value, "'" + join(expected, "' or '") + "'");
}

void ConfigObject::expectNothing(StringRef key) const {
  const json *value = lookup(key);
  if (value && !(value->is_structured() && value->empty()))
    mismatch(key, *value, "nothing: it is not supported");
}
