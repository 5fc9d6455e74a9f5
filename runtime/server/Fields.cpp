//===- Fields.cpp - Checked access to a JSON object -----------------------===//

#include "runtime/server/Fields.h"

namespace tandem::server {

static std::string numberText(double value) {
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  return std::string(buffer, end);
}

const Fields::Json *Fields::find(std::string_view name) {
  known.emplace(name);
  auto field = object.find(name);
  return field == object.end() || field->is_null() ? nullptr : &*field;
}

void Fields::fail(std::string_view name, std::string_view what) {
  std::string path = prefix + std::string(name);
  fail(fieldError(path, concat("'", path, "' ", what)));
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const Json *field = find(name);
  if (!field)
    return std::nullopt;
  if (!field->is_boolean()) {
    fail(name, "must be true or false");
    return std::nullopt;
  }
  return field->get<bool>();
}

std::optional<std::string> Fields::string(std::string_view name) {
  const Json *field = find(name);
  if (!field)
    return std::nullopt;
  if (!field->is_string()) {
    fail(name, "must be a string");
    return std::nullopt;
  }
  return field->get<std::string>();
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t low,
                                       int64_t high) {
  const Json *field = find(name);
  if (!field)
    return std::nullopt;
  bool fits = field->is_number_integer() &&
              !(field->is_number_unsigned() &&
                field->get<uint64_t>() > uint64_t(INT64_MAX)) &&
              field->get<int64_t>() >= low && field->get<int64_t>() <= high;
  if (!fits) {
    fail(name, concat("must be an integer from ", low, " to ", high));
    return std::nullopt;
  }
  return field->get<int64_t>();
}

std::optional<double> Fields::number(std::string_view name, double low,
                                     double high) {
  const Json *field = find(name);
  if (!field)
    return std::nullopt;
  if (!field->is_number() || !(field->get<double>() >= low) ||
      !(field->get<double>() <= high)) {
    fail(name, concat("must be a number from ", numberText(low), " to ",
                      numberText(high)));
    return std::nullopt;
  }
  return field->get<double>();
}

std::optional<ApiError> Fields::finish() {
  for (const auto &[name, value] : object.items())
    if (!first && !known.contains(name))
      fail(name, "is not a field of this request");
  return first;
}

} // namespace tandem::server
