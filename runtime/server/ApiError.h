//===- ApiError.h - Errors as OpenAI's API reports them ---------*- C++ -*-===//

#ifndef TANDEM_RUNTIME_SERVER_APIERROR_H
#define TANDEM_RUNTIME_SERVER_APIERROR_H

#include "runtime/Status.h"

#include <string>

namespace tandem::server {

/// What a client gets in place of an answer.
struct ApiError {
  /// Of HTTP.
  int status;
  std::string message;
  /// `invalid_request_error`, `server_error` ...
  std::string type = "invalid_request_error";
  /// The field that is wrong; empty: none.
  std::string param = {};
  /// For programs; empty: none.
  std::string code = {};

  /// {"error": {"message", "type", "param", "code"}}.
  std::string toJson() const;
};

/// A field that is wrong: status 400.
inline ApiError fieldError(std::string param, std::string message) {
  return {.status = 400,
          .message = std::move(message),
          .param = std::move(param),
          .code = "invalid_value"};
}

/// A failure of the runtime: the client's fault when it says InvalidArgument.
ApiError fromStatus(const Status &status);

} // namespace tandem::server

#endif // TANDEM_RUNTIME_SERVER_APIERROR_H
