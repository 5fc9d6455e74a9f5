//===- Response.cpp - Answers of OpenAI's API -----------------------------===//

#include "runtime/server/Response.h"

#include "runtime/Utf8.h"

#include <algorithm>
#include <cstdio>

namespace tandem::server {

using Json = ResponseWriter::Json;

static std::string dump(const Json &object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ResponseWriter::ResponseWriter(const Request &request,
                               const Tokenizer &tokenizer, std::string model,
                               std::string id, int64_t created)
    : request(request), tokenizer(tokenizer), model(std::move(model)),
      id(std::move(id)), created(created) {}

/// The text of a token alone. One that is not text by itself, because it ends
/// inside a character, is spelled byte by byte, as OpenAI does.
std::string ResponseWriter::textOf(uint32_t token) const {
  std::string_view bytes = tokenizer.bytes(token);
  if (countValidUtf8(bytes) == bytes.size())
    return std::string(bytes);
  std::string text = "bytes:";
  for (char byte : bytes) {
    char buffer[8];
    std::snprintf(buffer, sizeof(buffer), "\\x%02x", unsigned(uint8_t(byte)));
    text += buffer;
  }
  return text;
}

Json ResponseWriter::logprobsOf(const std::vector<ScoredToken> &scored) {
  Json tokens = Json::array(), values = Json::array(), tops = Json::array(),
       offsets = Json::array();
  for (const ScoredToken &entry : scored) {
    tokens.push_back(textOf(entry.token));
    offsets.push_back(offset);
    for (char byte : tokenizer.bytes(entry.token))
      offset += (uint8_t(byte) & 0xc0) != 0x80;
    if (!entry.logprobs) {
      values.push_back(nullptr);
      tops.push_back(nullptr);
      continue;
    }
    values.push_back(entry.logprobs->chosen.logprob);
    // The token itself is among the others even when it is not one of the
    // likeliest.
    Json top = Json::object();
    for (const TokenLogprob &other : entry.logprobs->top)
      top.emplace(textOf(other.token), other.logprob);
    if (!entry.logprobs->top.empty())
      top.emplace(tokens.back().get<std::string>(),
                  entry.logprobs->chosen.logprob);
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

Json ResponseWriter::chatLogprobsOf(
    const std::vector<ScoredToken> &scored) const {
  auto describe = [this](const TokenLogprob &token) {
    Json bytes = Json::array();
    for (char byte : tokenizer.bytes(token.token))
      bytes.push_back(unsigned(uint8_t(byte)));
    return Json{{"token", textOf(token.token)},
                {"logprob", token.logprob},
                {"bytes", std::move(bytes)}};
  };
  Json content = Json::array();
  for (const ScoredToken &entry : scored) {
    if (!entry.logprobs)
      continue;
    Json object = describe(entry.logprobs->chosen);
    Json top = Json::array();
    for (const TokenLogprob &other : entry.logprobs->top)
      top.push_back(describe(other));
    object["top_logprobs"] = std::move(top);
    content.push_back(std::move(object));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json ResponseWriter::head(bool stream) const {
  const char *object =
      isChat() ? stream ? "chat.completion.chunk" : "chat.completion"
               : "text_completion";
  return {
      {"id", id}, {"object", object}, {"created", created}, {"model", model}};
}

/// \p object as an event; every one but the last says that it has no usage
/// when that is going to come.
std::string ResponseWriter::event(Json object) const {
  if (request.includeUsage && !object.contains("usage"))
    object["usage"] = nullptr;
  return "data: " + dump(object) + "\n\n";
}

std::string ResponseWriter::chunk(size_t index, const AnswerPart &part,
                                  bool first) {
  if (index != current) {
    current = index;
    offset = 0;
  }
  Json choice = {{"index", index}};
  bool scores = request.generate.logprobs.has_value();
  if (isChat()) {
    Json delta = Json::object();
    if (first) {
      delta["role"] = "assistant";
      delta["content"] = "";
    }
    if (!part.reasoning.empty())
      delta["reasoning_content"] = part.reasoning;
    if (!part.content.empty())
      delta["content"] = part.content;
    choice["delta"] = std::move(delta);
    choice["logprobs"] =
        scores && !part.tokens.empty() ? chatLogprobsOf(part.tokens) : Json();
  } else {
    choice["text"] = part.content;
    choice["logprobs"] = scores ? logprobsOf(part.tokens) : Json();
  }
  choice["finish_reason"] = nullptr;
  Json object = head(true);
  object["choices"] = Json::array({std::move(choice)});
  return event(std::move(object));
}

std::string ResponseWriter::lastChunk(size_t index,
                                      std::string_view finishReason) {
  Json choice = {{"index", index}};
  if (isChat())
    choice["delta"] = Json::object();
  else
    choice["text"] = "";
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finishReason;
  Json object = head(true);
  object["choices"] = Json::array({std::move(choice)});
  return event(std::move(object));
}

static Json usageOf(const Usage &usage) {
  return {{"prompt_tokens", usage.promptTokens},
          {"completion_tokens", usage.answerTokens},
          {"total_tokens", usage.promptTokens + usage.answerTokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.reusedTokens}}}};
}

std::string ResponseWriter::usageChunk(const Usage &usage) {
  Json object = head(true);
  object["choices"] = Json::array();
  object["usage"] = usageOf(usage);
  return event(std::move(object));
}

std::string ResponseWriter::errorChunk(const ApiError &error) {
  return "data: " + error.toJson() + "\n\n";
}

void ResponseWriter::addChoice(const AnswerPart &answer,
                               std::string_view finishReason) {
  Json choice = {{"index", choices.size()}};
  bool scores = request.generate.logprobs.has_value();
  offset = 0;
  if (isChat()) {
    Json message = {{"role", "assistant"}, {"content", answer.content}};
    if (!answer.reasoning.empty())
      message["reasoning_content"] = answer.reasoning;
    message["refusal"] = nullptr;
    choice["message"] = std::move(message);
    choice["logprobs"] = scores ? chatLogprobsOf(answer.tokens) : Json();
  } else {
    choice["text"] = answer.content;
    choice["logprobs"] = scores ? logprobsOf(answer.tokens) : Json();
  }
  choice["finish_reason"] = finishReason;
  choices.push_back(std::move(choice));
}

std::string ResponseWriter::body(const Usage &usage) {
  Json object = head(false);
  object["choices"] = choices;
  object["usage"] = usageOf(usage);
  return dump(object);
}

} // namespace tandem::server
