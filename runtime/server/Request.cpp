//===- Request.cpp - Requests of OpenAI's API -----------------------------===//

#include "runtime/server/Request.h"

#include "runtime/server/Fields.h"

#include <algorithm>
#include <limits>

namespace tandem::server {

using Json = Fields::Json;

namespace {

/// Reads one request. Every function reads some fields of the body.
class Parser {
public:
  Parser(const Json &body, const RequestDefaults &defaults, Request &request)
      : fields(body, ""), defaults(defaults), request(request) {}

  std::optional<ApiError> parse() {
    if (auto model = fields.string("model"))
      request.model = *model;
    if (request.endpoint == Endpoint::Chat)
      readChat();
    else
      readCompletion();
    readLengths();
    readStream();
    readStops();
    readSampling();
    refuse();
    return fields.finish();
  }

private:
  Fields fields;
  const RequestDefaults &defaults;
  Request &request;

  bool isChat() const { return request.endpoint == Endpoint::Chat; }

  //===--------------------------------------------------------------------===//
  // Completions
  //===--------------------------------------------------------------------===//

  /// Ids in \p array; empty and an error when something else is there.
  std::vector<uint32_t> readIds(const Json &array) {
    std::vector<uint32_t> ids;
    for (const Json &id : array) {
      if (!id.is_number_unsigned() ||
          id.get<uint64_t>() >= defaults.vocabulary) {
        fields.fail("prompt", concat("has an id that is not an integer below ",
                                     defaults.vocabulary));
        return {};
      }
      ids.push_back(id.get<uint32_t>());
    }
    return ids;
  }

  void readCompletion() {
    const Json *prompt = fields.find("prompt");
    if (!prompt)
      return fields.fail("prompt", "is missing");
    constexpr std::string_view kinds =
        "must be a string, an array of ids, or an array of those";
    if (prompt->is_string())
      request.prompts.emplace_back(prompt->get<std::string>());
    else if (!prompt->is_array() || prompt->empty())
      return fields.fail("prompt", kinds);
    else if (prompt->front().is_number())
      request.prompts.emplace_back(readIds(*prompt));
    else {
      if (prompt->size() > maxPrompts)
        return fields.fail("prompt",
                           concat("must be at most ", maxPrompts, " prompts"));
      for (const Json &one : *prompt)
        if (one.is_string())
          request.prompts.emplace_back(one.get<std::string>());
        else if (one.is_array())
          request.prompts.emplace_back(readIds(one));
        else
          return fields.fail("prompt", kinds);
    }
    request.echo = fields.boolean("echo").value_or(false);
    if (auto count = fields.integer("logprobs", 0, maxLogprobs)) {
      request.generate.logprobs = uint32_t(*count);
      request.generate.promptLogprobs = request.echo;
    }
    if (auto best = fields.integer("best_of", 1, 1))
      (void)best;
    if (auto suffix = fields.string("suffix"); suffix && !suffix->empty())
      fields.fail("suffix", "is not supported");
  }

  //===--------------------------------------------------------------------===//
  // Chats
  //===--------------------------------------------------------------------===//

  /// The text of a message: a string, or an array of parts of text.
  std::optional<std::string> readContent(Fields &message) {
    const Json *content = message.find("content");
    if (!content)
      return std::nullopt;
    if (content->is_string())
      return content->get<std::string>();
    if (!content->is_array()) {
      message.fail("content", "must be a string or an array of parts");
      return std::nullopt;
    }
    std::string text;
    for (const Json &part : *content) {
      auto type = part.is_object() ? part.find("type") : part.end();
      bool isText = part.is_object() && type != part.end() && *type == "text" &&
                    part.contains("text") && part["text"].is_string();
      if (!isText) {
        message.fail("content", "has a part that is not text: only text is "
                                "supported");
        return std::nullopt;
      }
      text += part["text"].get<std::string>();
    }
    return text;
  }

  void readMessage(const Json &object, size_t index) {
    std::string prefix = concat("messages[", index, "]");
    if (!object.is_object())
      return fields.fail(prefix, "must be an object");
    Fields message(object, prefix + ".");
    std::string role = message.string("role").value_or("");
    ChatMessage result{ChatRole::User, ""};
    if (role == "system" || role == "developer")
      result.role = ChatRole::System;
    else if (role == "assistant")
      result.role = ChatRole::Assistant;
    else if (role == "tool" || role == "function")
      message.fail("role", "asks for tools, which are not supported");
    else if (role != "user")
      message.fail("role", "must be 'system', 'user' or 'assistant'");
    // Answers that came as a call of a tool have no content.
    std::optional<std::string> content = readContent(message);
    if (!content && result.role != ChatRole::Assistant)
      message.fail("content", "is missing");
    result.content = content.value_or("");
    // Two spellings are in use.
    result.reasoning = message.string("reasoning_content");
    if (auto reasoning = message.string("reasoning"); !result.reasoning)
      result.reasoning = reasoning;
    message.find("name");
    message.find("refusal");
    if (const Json *calls = message.find("tool_calls");
        calls && !calls->empty())
      message.fail("tool_calls", "is not supported");
    if (auto error = message.finish())
      return fields.fail(*error);
    request.messages.push_back(std::move(result));
  }

  void readChat() {
    const Json *messages = fields.find("messages");
    if (!messages)
      return fields.fail("messages", "is missing");
    if (!messages->is_array() || messages->empty())
      return fields.fail("messages",
                         "must be an array of at least one message");
    for (size_t index = 0; index < messages->size(); ++index)
      readMessage((*messages)[index], index);

    if (const Json *given = fields.find("chat_template_kwargs")) {
      if (!given->is_object())
        return fields.fail("chat_template_kwargs", "must be an object");
      Fields options(*given, "chat_template_kwargs.");
      request.thinking = options.boolean("enable_thinking");
      request.keepReasoning =
          options.boolean("preserve_thinking").value_or(false);
      if (auto error = options.finish())
        fields.fail(*error);
    }
    bool logprobs = fields.boolean("logprobs").value_or(false);
    auto top = fields.integer("top_logprobs", 0, maxLogprobs);
    if (top && !logprobs)
      fields.fail("top_logprobs", "needs 'logprobs' to be true");
    if (logprobs)
      request.generate.logprobs = uint32_t(top.value_or(0));
  }

  //===--------------------------------------------------------------------===//
  // Both
  //===--------------------------------------------------------------------===//

  void readLengths() {
    // A completion of nothing is how prompts are scored.
    int64_t least = isChat() ? 1 : 0;
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    auto length = fields.integer("max_tokens", least, most);
    if (isChat()) {
      auto newer = fields.integer("max_completion_tokens", least, most);
      if (length && newer && *length != *newer)
        fields.fail("max_tokens", "and 'max_completion_tokens' disagree");
      if (newer)
        length = newer;
    }
    if (length)
      request.maxTokens = uint32_t(*length);
    if (auto count = fields.integer("n", 1, 1))
      (void)count;
  }

  void readStream() {
    request.stream = fields.boolean("stream").value_or(false);
    const Json *given = fields.find("stream_options");
    if (!given)
      return;
    if (!request.stream)
      return fields.fail("stream_options", "needs 'stream' to be true");
    if (!given->is_object())
      return fields.fail("stream_options", "must be an object");
    Fields options(*given, "stream_options.");
    request.includeUsage = options.boolean("include_usage").value_or(false);
    if (auto error = options.finish())
      fields.fail(*error);
  }

  void readStops() {
    if (const Json *stop = fields.find("stop")) {
      Json list = stop->is_string() ? Json::array({*stop}) : *stop;
      if (!list.is_array() || list.size() > maxStops)
        return fields.fail("stop", concat("must be a string or an array of at "
                                          "most ",
                                          maxStops));
      for (const Json &one : list) {
        if (!one.is_string() || one.get<std::string>().empty())
          return fields.fail("stop", "has an element that is not a text");
        request.stops.push_back(one.get<std::string>());
      }
    }
    if (const Json *ids = fields.find("stop_token_ids")) {
      if (!ids->is_array() || ids->size() > maxStops)
        return fields.fail("stop_token_ids",
                           concat("must be an array of at most ", maxStops));
      for (const Json &id : *ids) {
        if (!id.is_number_unsigned() ||
            id.get<uint64_t>() >= defaults.vocabulary)
          return fields.fail("stop_token_ids",
                             concat("has an element that is not an integer "
                                    "below ",
                                    defaults.vocabulary));
        request.generate.stopTokens.push_back(id.get<uint32_t>());
      }
    }
    request.generate.ignoreStopTokens =
        fields.boolean("ignore_eos").value_or(false);
  }

  void readBias(SamplingOptions &sampling) {
    const Json *bias = fields.find("logit_bias");
    if (!bias)
      return;
    constexpr std::string_view kind =
        "must be an object of ids and numbers from -100 to 100";
    if (!bias->is_object())
      return fields.fail("logit_bias", kind);
    for (const auto &[name, value] : bias->items()) {
      uint32_t token = 0;
      const char *end = name.data() + name.size();
      auto parsed = std::from_chars(name.data(), end, token);
      if (parsed.ec != std::errc() || parsed.ptr != end || name.empty() ||
          !value.is_number())
        return fields.fail("logit_bias", kind);
      sampling.logitBias.emplace_back(token, value.get<float>());
    }
    // "7" and "07" are different names.
    std::sort(sampling.logitBias.begin(), sampling.logitBias.end());
    for (size_t index = 1; index < sampling.logitBias.size(); ++index)
      if (sampling.logitBias[index - 1].first ==
          sampling.logitBias[index].first)
        return fields.fail("logit_bias", "has an id twice");
  }

  void readSampling() {
    SamplingOptions sampling = defaults.sampling;
    if (auto value = fields.number("temperature", 0, 100))
      sampling.temperature = float(*value);
    if (auto value =
            fields.integer("top_k", -1, std::numeric_limits<int32_t>::max()))
      sampling.topK = *value < 0 ? 0 : uint32_t(*value);
    if (auto value = fields.number("top_p", 0, 1)) {
      sampling.topP = float(*value);
      if (sampling.topP == 0)
        fields.fail("top_p", "must be more than 0");
    }
    if (auto value = fields.number("min_p", 0, 1))
      sampling.minP = float(*value);
    if (auto value = fields.number("repetition_penalty", 0.01, 100))
      sampling.repetitionPenalty = float(*value);
    if (auto value = fields.number("presence_penalty", -2, 2))
      sampling.presencePenalty = float(*value);
    if (auto value = fields.number("frequency_penalty", -2, 2))
      sampling.frequencyPenalty = float(*value);
    readBias(sampling);
    sampling.seed = defaults.seed;
    if (auto value = fields.integer("seed", std::numeric_limits<int64_t>::min(),
                                    std::numeric_limits<int64_t>::max()))
      sampling.seed = uint64_t(*value);

    if (Status status = checkSampling(sampling, defaults.vocabulary);
        !status.isOk())
      fields.fail(fromStatus(status));
    // Programs decide faster than the host does.
    bool plain = sampling.temperature == 0 && sampling.logitBias.empty() &&
                 sampling.repetitionPenalty == 1 &&
                 sampling.presencePenalty == 0 &&
                 sampling.frequencyPenalty == 0;
    if (!plain)
      request.generate.sampling = std::move(sampling);
    if ((request.generate.sampling || request.generate.logprobs) &&
        !defaults.canSample)
      fields.fail(ApiError{
          .status = 400,
          .message = "this model was compiled without logits: it can only "
                     "write the likeliest tokens, and has no log "
                     "probabilities"});
  }

  /// Fields that ask for something that is not offered, unless they ask for
  /// what happens anyway; and fields that only label a request.
  void refuse() {
    for (const char *name : {"user", "metadata", "store", "service_tier",
                             "safety_identifier", "prompt_cache_key"})
      fields.find(name);
    if (!isChat())
      return;
    for (const char *name : {"tools", "functions"})
      if (const Json *value = fields.find(name); value && !value->empty())
        fields.fail(name, "is not supported");
    for (const char *name : {"tool_choice", "function_call"})
      if (const Json *value = fields.find(name);
          value && *value != "none" && *value != "auto")
        fields.fail(name, "is not supported");
    fields.boolean("parallel_tool_calls");
    if (const Json *format = fields.find("response_format")) {
      bool isText = format->is_object() && format->contains("type") &&
                    (*format)["type"] == "text";
      if (!isText)
        fields.fail("response_format", "must be of type 'text'");
    }
    if (const Json *modalities = fields.find("modalities");
        modalities && *modalities != Json::array({"text"}))
      fields.fail("modalities", "must be [\"text\"]");
  }
};

} // namespace

/// Whether brackets are nested deeper than a request has any use for. The
/// parser does not mind, but whoever takes such a value apart might.
static bool isTooDeep(std::string_view body) {
  unsigned depth = 0;
  bool inString = false;
  for (size_t index = 0; index < body.size(); ++index) {
    char character = body[index];
    if (inString) {
      if (character == '\\')
        ++index;
      else if (character == '"')
        inString = false;
    } else if (character == '"') {
      inString = true;
    } else if (character == '[' || character == '{') {
      if (++depth > maxDepth)
        return true;
    } else if ((character == ']' || character == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

std::optional<ApiError> parseRequest(Endpoint endpoint, std::string_view body,
                                     const RequestDefaults &defaults,
                                     Request &request) {
  request = Request();
  request.endpoint = endpoint;
  request.generate.reusePrefix = true;
  if (isTooDeep(body))
    return ApiError{.status = 400,
                    .message = concat("the body is nested deeper than ",
                                      maxDepth, " levels")};
  Json object = Json::parse(body.begin(), body.end(), nullptr,
                            /*allow_exceptions=*/false);
  if (object.is_discarded())
    return ApiError{.status = 400, .message = "the body is not valid JSON"};
  if (!object.is_object())
    return ApiError{.status = 400, .message = "the body is not a JSON object"};
  return Parser(object, defaults, request).parse();
}

} // namespace tandem::server
