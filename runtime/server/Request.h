//===- Request.h - Requests of OpenAI's API ---------------------*- C++ -*-===//
//
// Reads the body of a request. Everything is checked: a field of the wrong
// type or range, an unknown one, and one that asks for something that is not
// offered are errors that name the field. Nothing is ignored but fields that
// only label a request.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_SERVER_REQUEST_H
#define TANDEM_RUNTIME_SERVER_REQUEST_H

#include "runtime/ChatTemplate.h"
#include "runtime/Speculator.h"
#include "runtime/server/ApiError.h"

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tandem::server {

enum class Endpoint : uint8_t { Completions, Chat };

/// A prompt of /v1/completions: text, or ids.
using Prompt = std::variant<std::string, std::vector<uint32_t>>;

struct Request {
  Endpoint endpoint = Endpoint::Completions;
  /// Empty: not given.
  std::string model;

  /// Of completions.
  std::vector<Prompt> prompts;
  bool echo = false;

  /// Of chats.
  std::vector<ChatMessage> messages;
  std::optional<bool> thinking;
  bool keepReasoning = false;

  bool stream = false;
  bool includeUsage = false;
  /// None: 16 of a completion, what fits of a chat.
  std::optional<uint32_t> maxTokens;
  /// Not empty, each.
  std::vector<std::string> stops;
  /// Everything but maxNewTokens.
  GenerateOptions generate;
};

/// What fields mean that a request does not have.
struct RequestDefaults {
  SamplingOptions sampling;
  /// Whether the artefact can do anything but choose the likeliest token.
  bool canSample = true;
  uint32_t vocabulary = 0;
  /// The seed of a request that has none; another one for every request.
  uint64_t seed = 0;
};

/// Most prompts in one request of completions.
constexpr size_t maxPrompts = 64;
/// Most log probabilities per token.
constexpr uint32_t maxLogprobs = 20;
/// Most stop strings, and stop tokens.
constexpr size_t maxStops = 16;
/// Deepest nesting of a body.
constexpr unsigned maxDepth = 32;

/// Reads \p body into \p request. Returns what is wrong with it.
std::optional<ApiError> parseRequest(Endpoint endpoint, std::string_view body,
                                     const RequestDefaults &defaults,
                                     Request &request);

} // namespace tandem::server

#endif // TANDEM_RUNTIME_SERVER_REQUEST_H
