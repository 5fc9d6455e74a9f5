//===- Status.h - How the runtime reports failure ---------------*- C++ -*-===//
//
// Every function of the runtime that can fail returns a Status, or a StatusOr
// when it also has a result. There are no exceptions and nothing is printed:
// the tool that called prints one line. A message names what was found and
// what was expected, starts in lower case, and has no full stop; the caller
// who knows a file's name puts it in front.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_STATUS_H
#define TANDEM_RUNTIME_STATUS_H

#include <cassert>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tandem {

/// What kind of failure: who has to change something.
enum class StatusCode : uint8_t {
  Ok,
  /// The caller asked for something impossible (ids, lengths, names).
  InvalidArgument,
  /// A file is not what it should be.
  InvalidFile,
  /// A good file, but not for this machine or this version.
  Unsupported,
  /// Not enough memory or threads.
  OutOfResources,
  /// The operating system refused a call.
  System,
};

/// Success, or a code and a message of one line.
class [[nodiscard]] Status {
public:
  /// Success.
  Status() = default;
  /// A failure; \p code is not Ok.
  Status(StatusCode code, std::string message)
      : failureCode(code), text(std::move(message)) {
    assert(code != StatusCode::Ok && "success carries no message");
  }

  bool isOk() const { return failureCode == StatusCode::Ok; }
  StatusCode code() const { return failureCode; }
  /// Empty on success.
  const std::string &message() const { return text; }

private:
  StatusCode failureCode = StatusCode::Ok;
  std::string text;
};

/// A value, or the reason why there is none.
template <typename T> class [[nodiscard]] StatusOr {
public:
  /// \p status is a failure.
  StatusOr(Status status) : failure(std::move(status)) {
    assert(!failure.isOk() && "success needs a value");
  }
  StatusOr(T value) : held(std::move(value)) {}

  bool isOk() const { return held.has_value(); }
  /// Success when there is a value.
  const Status &status() const { return failure; }

  /// The value; only when isOk().
  T &operator*() {
    assert(held && "no value");
    return *held;
  }
  const T &operator*() const {
    assert(held && "no value");
    return *held;
  }
  T *operator->() { return &**this; }
  const T *operator->() const { return &**this; }

private:
  Status failure;
  std::optional<T> held;
};

namespace detail {
inline void append(std::string &out, std::string_view text) { out += text; }
inline void append(std::string &out, char character) { out += character; }
// to_chars, unlike printf, does not look at the locale.
template <std::integral T>
  requires(!std::same_as<T, char>)
void append(std::string &out, T number) {
  char buffer[24];
  auto end = std::to_chars(buffer, buffer + sizeof(buffer), number).ptr;
  out.append(buffer, end);
}
} // namespace detail

/// The parts (text and integers) one after another.
template <typename... Parts> std::string concat(const Parts &...parts) {
  std::string result;
  (detail::append(result, parts), ...);
  return result;
}

/// A failure whose message is made of \p parts as by concat().
template <typename... Parts>
Status failure(StatusCode code, const Parts &...parts) {
  return Status(code, concat(parts...));
}

/// failure() with InvalidArgument.
template <typename... Parts> Status invalidArgument(const Parts &...parts) {
  return failure(StatusCode::InvalidArgument, parts...);
}

/// failure() with InvalidFile.
template <typename... Parts> Status invalidFile(const Parts &...parts) {
  return failure(StatusCode::InvalidFile, parts...);
}

/// "open: No such file or directory" for the error number \p error of the
/// operation \p what.
Status systemError(std::string_view what, int error);

} // namespace tandem

/// Returns from the function when the Status \p expression is a failure.
#define TANDEM_RETURN_IF_ERROR(expression)                                     \
  do {                                                                         \
    if (::tandem::Status tandemStatus = (expression); !tandemStatus.isOk())    \
      return tandemStatus;                                                     \
  } while (false)

#define TANDEM_CONCAT_IMPL(a, b) a##b
#define TANDEM_CONCAT(a, b) TANDEM_CONCAT_IMPL(a, b)
#define TANDEM_ASSIGN_OR_RETURN_IMPL(result, declaration, expression)          \
  auto result = (expression);                                                  \
  if (!result.isOk())                                                          \
    return result.status();                                                    \
  declaration = std::move(*result)

/// Assigns the value of the StatusOr \p expression to \p declaration, which
/// may declare a variable, or returns its failure from the function.
#define TANDEM_ASSIGN_OR_RETURN(declaration, expression)                       \
  TANDEM_ASSIGN_OR_RETURN_IMPL(TANDEM_CONCAT(tandemResult, __LINE__),          \
                               declaration, expression)

#endif // TANDEM_RUNTIME_STATUS_H
