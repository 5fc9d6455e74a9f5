//===- Response.h - Answers of OpenAI's API ---------------------*- C++ -*-===//
//
// Makes the JSON of answers and of the chunks of a stream. Knows nothing of
// how a text comes about.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_SERVER_RESPONSE_H
#define TANDEM_RUNTIME_SERVER_RESPONSE_H

#include "runtime/Logprobs.h"
#include "runtime/Tokenizer.h"
#include "runtime/server/Request.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tandem::server {

/// A token that comes with its log probability. The first token of a prompt
/// has none.
struct ScoredToken {
  uint32_t token = 0;
  std::optional<Logprobs> logprobs;
};

/// A piece of an answer.
struct AnswerPart {
  std::string reasoning, content;
  std::vector<ScoredToken> tokens;

  bool empty() const {
    return reasoning.empty() && content.empty() && tokens.empty();
  }
};

struct Usage {
  size_t promptTokens = 0, reusedTokens = 0, answerTokens = 0;
};

/// Writes the answer to one request, which outlives the writer.
class ResponseWriter {
public:
  using Json = nlohmann::ordered_json;

  /// \p created is in seconds since 1970.
  ResponseWriter(const Request &request, const Tokenizer &tokenizer,
                 std::string model, std::string id, int64_t created);

  /// A chunk of choice \p index as an event of a stream. The first chunk of a
  /// chat also says who speaks.
  std::string chunk(size_t index, const AnswerPart &part, bool first);
  /// The last chunk of a choice: why it ended.
  std::string lastChunk(size_t index, std::string_view finishReason);
  /// What was used, as a chunk without choices.
  std::string usageChunk(const Usage &usage);
  /// The end of a stream.
  static std::string done() { return "data: [DONE]\n\n"; }
  /// An error in a stream that has begun.
  static std::string errorChunk(const ApiError &error);

  /// Adds a whole choice.
  void addChoice(const AnswerPart &answer, std::string_view finishReason);
  /// The whole answer, of the choices so far.
  std::string body(const Usage &usage);

private:
  bool isChat() const { return request.endpoint == Endpoint::Chat; }
  Json head(bool stream) const;
  Json logprobsOf(const std::vector<ScoredToken> &tokens);
  Json chatLogprobsOf(const std::vector<ScoredToken> &tokens) const;
  std::string textOf(uint32_t token) const;
  std::string event(Json object) const;

  const Request &request;
  const Tokenizer &tokenizer;
  std::string model, id;
  int64_t created;
  Json choices = Json::array();
  /// Characters of the text before the next scored token.
  size_t offset = 0;
  /// The choice that `offset` is about.
  size_t current = 0;
};

} // namespace tandem::server

#endif // TANDEM_RUNTIME_SERVER_RESPONSE_H
