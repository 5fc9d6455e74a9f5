//===- ApiError.cpp - Errors as OpenAI's API reports them -----------------===//

#include "runtime/server/ApiError.h"

#include <nlohmann/json.hpp>

namespace tandem::server {

std::string ApiError::toJson() const {
  using Json = nlohmann::ordered_json;
  auto orNull = [](const std::string &text) {
    return text.empty() ? Json() : Json(text);
  };
  Json object = {{"error",
                  {{"message", message},
                   {"type", type},
                   {"param", orNull(param)},
                   {"code", orNull(code)}}}};
  // The message may quote text of the request.
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ApiError fromStatus(const Status &status) {
  if (status.code() == StatusCode::InvalidArgument)
    return {.status = 400, .message = status.message()};
  return {.status = 500, .message = status.message(), .type = "server_error"};
}

} // namespace tandem::server
