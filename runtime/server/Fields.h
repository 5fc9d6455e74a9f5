//===- Fields.h - Checked access to a JSON object ---------------*- C++ -*-===//

#ifndef TANDEM_RUNTIME_SERVER_FIELDS_H
#define TANDEM_RUNTIME_SERVER_FIELDS_H

#include "runtime/Status.h"
#include "runtime/server/ApiError.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace tandem::server {

/// Reads the fields of one object. The first thing that is wrong is kept and
/// can be asked for at the end, so that callers read on without looking. A
/// field that is null counts as absent.
class Fields {
public:
  /// Sorted: the time to read a body of many fields is not their square.
  using Json = nlohmann::json;

  /// \p prefix stands before the names of fields in messages: "messages[0].".
  Fields(const Json &object, std::string prefix)
      : object(object), prefix(std::move(prefix)) {}

  /// The field \p name, null when absent. It counts as known from now on.
  const Json *find(std::string_view name);

  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> string(std::string_view name);
  std::optional<int64_t> integer(std::string_view name, int64_t low,
                                 int64_t high);
  std::optional<double> number(std::string_view name, double low, double high);

  /// Remembers that the field \p name is wrong: \p what says how, behind its
  /// name.
  void fail(std::string_view name, std::string_view what);
  void fail(ApiError error) {
    if (!first)
      first = std::move(error);
  }

  /// The first error; one for the first field that nobody asked for when all
  /// others are right.
  std::optional<ApiError> finish();

  const std::optional<ApiError> &error() const { return first; }

private:
  const Json &object;
  std::string prefix;
  std::set<std::string, std::less<>> known;
  std::optional<ApiError> first;
};

} // namespace tandem::server

#endif // TANDEM_RUNTIME_SERVER_FIELDS_H
