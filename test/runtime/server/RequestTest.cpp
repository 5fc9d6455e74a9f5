//===- RequestTest.cpp - Requests of OpenAI's API -------------------------===//

#include "runtime/server/Request.h"

#include <chrono>
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::server;

namespace {

RequestDefaults someDefaults() {
  RequestDefaults defaults;
  defaults.vocabulary = 100;
  defaults.sampling.temperature = 0.6f;
  defaults.sampling.topK = 20;
  defaults.seed = 77;
  return defaults;
}

Request parsed(Endpoint endpoint, std::string_view body,
               const RequestDefaults &defaults = someDefaults()) {
  Request request;
  auto error = parseRequest(endpoint, body, defaults, request);
  EXPECT_FALSE(error) << body << ": " << (error ? error->message : "");
  return request;
}

/// The error of \p body: "param: message".
std::string errorOf(Endpoint endpoint, std::string_view body) {
  Request request;
  auto error = parseRequest(endpoint, body, someDefaults(), request);
  EXPECT_TRUE(error) << body;
  if (!error)
    return "";
  EXPECT_EQ(error->status, 400);
  return error->param + ": " + error->message;
}

/// A completion with \p fields behind its prompt.
std::string completion(const std::string &fields) {
  return R"({"prompt":"x",)" + fields + "}";
}
std::string chat(const std::string &fields) {
  return R"({"messages":[{"role":"user","content":"x"}],)" + fields + "}";
}

constexpr Endpoint completions = Endpoint::Completions;
constexpr Endpoint chats = Endpoint::Chat;

} // namespace

TEST(Request, ManyFieldsTakeNoLongerEach) {
  // Minutes, if every field were looked for among all before it.
  std::string bias;
  for (unsigned index = 0; index < 400000; ++index)
    bias += concat(index ? "," : "", "\"", index, "\":1");
  auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(errorOf(completions, completion("\"logit_bias\":{" + bias + "}")),
            ": logit_bias: token 100 is out of range (100 tokens)");
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  EXPECT_LT(seconds.count(), 20);
}

TEST(Request, PromptsOfAllKinds) {
  EXPECT_EQ(parsed(completions, R"({"prompt":"hi"})").prompts,
            (std::vector<Prompt>{"hi"}));
  EXPECT_EQ(parsed(completions, R"({"prompt":["a","b"]})").prompts,
            (std::vector<Prompt>{"a", "b"}));
  EXPECT_EQ(parsed(completions, R"({"prompt":[1,2]})").prompts,
            (std::vector<Prompt>{std::vector<uint32_t>{1, 2}}));
  EXPECT_EQ(parsed(completions, R"({"prompt":[[1],[2,3]]})").prompts,
            (std::vector<Prompt>{std::vector<uint32_t>{1},
                                 std::vector<uint32_t>{2, 3}}));
}

TEST(Request, WrongPromptsAreErrors) { // P8.05
  constexpr const char *kinds =
      "prompt: 'prompt' must be a string, an array of ids, or an array of "
      "those";
  for (const char *body :
       {R"({"prompt":7})", R"({"prompt":[]})", R"({"prompt":{}})",
        R"({"prompt":[{}]})", R"({"prompt":["a",true]})"})
    EXPECT_EQ(errorOf(completions, body), kinds);
  EXPECT_EQ(errorOf(completions, "{}"), "prompt: 'prompt' is missing");
  EXPECT_EQ(errorOf(completions, R"({"prompt":null})"),
            "prompt: 'prompt' is missing");
  for (const char *body : {R"({"prompt":[100]})", R"({"prompt":[-1]})",
                           R"({"prompt":[1.5]})", R"({"prompt":[1,"a"]})"})
    EXPECT_EQ(errorOf(completions, body),
              "prompt: 'prompt' has an id that is not an integer below 100");
}

TEST(Request, BodiesThatAreNoObjects) { // P8.05
  for (const char *body : {"", "{", "nonsense", "{\"a\":NaN}", "\xff",
                           R"({"prompt":"\ud83d"})", "{\"prompt\":\"\xc0\"}"})
    EXPECT_EQ(errorOf(completions, body), ": the body is not valid JSON");
  EXPECT_EQ(errorOf(completions, "[1]"), ": the body is not a JSON object");
  EXPECT_EQ(errorOf(completions, std::string(100000, '[')),
            ": the body is nested deeper than 32 levels");
  // Brackets in text are text.
  parsed(completions, R"({"prompt":")" + std::string(1000, '[') + R"(\"[{"})");
}

TEST(Request, UnknownFieldsAreErrors) { // P8.06
  EXPECT_EQ(errorOf(completions, completion(R"("temprature":1)")),
            "temprature: 'temprature' is not a field of this request");
  EXPECT_EQ(errorOf(completions, completion(R"("messages":[])")),
            "messages: 'messages' is not a field of this request");
  // Labels are not about the answer.
  parsed(completions, completion(R"("user":"me","metadata":{"a":1})"));
}

TEST(Request, DefaultsAreThoseOfTheCheckpoint) {
  Request request = parsed(completions, R"({"prompt":"x"})");
  ASSERT_TRUE(request.generate.sampling);
  EXPECT_EQ(request.generate.sampling->temperature, 0.6f);
  EXPECT_EQ(request.generate.sampling->topK, 20u);
  EXPECT_EQ(request.generate.sampling->seed, 77u);
  EXPECT_FALSE(request.maxTokens);
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.generate.logprobs);
  EXPECT_TRUE(request.generate.reusePrefix);
}

TEST(Request, TemperatureZeroIsLeftToThePrograms) {
  EXPECT_FALSE(
      parsed(completions, completion(R"("temperature":0)")).generate.sampling);
  EXPECT_TRUE(
      parsed(completions, completion(R"("temperature":0,"presence_penalty":1)"))
          .generate.sampling);
}

TEST(Request, SamplingFields) {
  Request request = parsed(
      completions,
      completion(
          R"("temperature":1.5,"top_k":-1,"top_p":0.5,"min_p":0.1,)"
          R"("repetition_penalty":1.1,"presence_penalty":-2,)"
          R"("frequency_penalty":2,"seed":-5,"logit_bias":{"7":-100,"2":1.5})"));
  ASSERT_TRUE(request.generate.sampling);
  const SamplingOptions &sampling = *request.generate.sampling;
  EXPECT_EQ(sampling.temperature, 1.5f);
  EXPECT_EQ(sampling.topK, 0u);
  EXPECT_EQ(sampling.topP, 0.5f);
  EXPECT_EQ(sampling.minP, 0.1f);
  EXPECT_EQ(sampling.repetitionPenalty, 1.1f);
  EXPECT_EQ(sampling.presencePenalty, -2);
  EXPECT_EQ(sampling.frequencyPenalty, 2);
  EXPECT_EQ(sampling.seed, uint64_t(-5));
  EXPECT_EQ(sampling.logitBias,
            (std::vector<std::pair<uint32_t, float>>{{2, 1.5f}, {7, -100.0f}}));
}

TEST(Request, NumbersOutsideTheirRangeNameTheField) { // P8.06
  EXPECT_EQ(errorOf(completions, completion(R"("temperature":-1)")),
            "temperature: 'temperature' must be a number from 0 to 100");
  EXPECT_EQ(errorOf(completions, completion(R"("temperature":"1")")),
            "temperature: 'temperature' must be a number from 0 to 100");
  EXPECT_EQ(errorOf(completions, completion(R"("top_p":0)")),
            "top_p: 'top_p' must be more than 0");
  EXPECT_EQ(errorOf(completions, completion(R"("top_p":2)")),
            "top_p: 'top_p' must be a number from 0 to 1");
  for (const char *value :
       {"-1", "1.5", "\"5\"", "1e9", "99999999999999999999"})
    EXPECT_EQ(
        errorOf(completions,
                completion("\"max_tokens\":" + std::string(value))),
        "max_tokens: 'max_tokens' must be an integer from 0 to 2147483647")
        << value;
  EXPECT_EQ(errorOf(chats, chat(R"("max_tokens":0)")),
            "max_tokens: 'max_tokens' must be an integer from 1 to 2147483647");
  EXPECT_EQ(errorOf(completions, completion(R"("n":2)")),
            "n: 'n' must be an integer from 1 to 1");
  EXPECT_EQ(errorOf(completions, completion(R"("logprobs":50)")),
            "logprobs: 'logprobs' must be an integer from 0 to 20");
  EXPECT_EQ(errorOf(completions, completion(R"("logprobs":true)")),
            "logprobs: 'logprobs' must be an integer from 0 to 20");
  EXPECT_EQ(errorOf(completions, completion(R"("logit_bias":{"1":101})")),
            ": logit_bias: the bias of token 1 must be from -100 to 100");
  EXPECT_EQ(errorOf(completions, completion(R"("logit_bias":{"100":1})")),
            ": logit_bias: token 100 is out of range (100 tokens)");
  EXPECT_EQ(errorOf(completions, completion(R"("logit_bias":{"a":1})")),
            "logit_bias: 'logit_bias' must be an object of ids and numbers "
            "from -100 to 100");
  EXPECT_EQ(errorOf(completions, completion(R"("logit_bias":{"1":1,"01":1})")),
            "logit_bias: 'logit_bias' has an id twice");
}

TEST(Request, Stops) {
  EXPECT_EQ(parsed(completions, completion(R"("stop":"a")")).stops,
            std::vector<std::string>{"a"});
  EXPECT_EQ(parsed(completions, completion(R"("stop":["a","bc"])")).stops,
            (std::vector<std::string>{"a", "bc"}));
  EXPECT_TRUE(parsed(completions, completion(R"("stop":[])")).stops.empty());
  EXPECT_TRUE(parsed(completions, completion(R"("stop":null)")).stops.empty());
  EXPECT_EQ(parsed(completions, completion(R"("stop_token_ids":[3,9])"))
                .generate.stopTokens,
            (std::vector<uint32_t>{3, 9}));
  for (const char *value : {R"("")", R"(["a",""])", "[1]"})
    EXPECT_EQ(
        errorOf(completions, completion("\"stop\":" + std::string(value))),
        "stop: 'stop' has an element that is not a text");
  EXPECT_EQ(errorOf(completions, completion(R"("stop":7)")),
            "stop: 'stop' must be a string or an array of at most 16");
}

TEST(Request, Streams) {
  Request request = parsed(
      chats, chat(R"("stream":true,"stream_options":{"include_usage":true})"));
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.includeUsage);
  EXPECT_EQ(errorOf(chats, chat(R"("stream_options":{})")),
            "stream_options: 'stream_options' needs 'stream' to be true");
  EXPECT_EQ(
      errorOf(chats, chat(R"("stream":true,"stream_options":{"x":1})")),
      "stream_options.x: 'stream_options.x' is not a field of this request");
  EXPECT_EQ(errorOf(chats, chat(R"("stream":1)")),
            "stream: 'stream' must be true or false");
}

TEST(Request, Messages) {
  Request request = parsed(chats, R"({"messages":[
      {"role":"developer","content":"be kind"},
      {"role":"user","content":[{"type":"text","text":"a"},
                                {"type":"text","text":"b"}],"name":"me"},
      {"role":"assistant","content":null,"reasoning_content":"hm"},
      {"role":"user","content":""}]})");
  ASSERT_EQ(request.messages.size(), 4u);
  EXPECT_EQ(request.messages[0].role, ChatRole::System);
  EXPECT_EQ(request.messages[1].content, "ab");
  EXPECT_EQ(request.messages[2].content, "");
  EXPECT_EQ(request.messages[2].reasoning, "hm");
  EXPECT_FALSE(request.messages[3].reasoning);
}

TEST(Request, WrongMessagesNameTheirPlace) {
  auto error = [](const std::string &message) {
    return errorOf(chats, R"({"messages":[{"role":"user","content":"a"},)" +
                              message + "]}");
  };
  EXPECT_EQ(error("7"), "messages[1]: 'messages[1]' must be an object");
  EXPECT_EQ(error(R"({"content":"x"})"),
            "messages[1].role: 'messages[1].role' must be 'system', 'user' or "
            "'assistant'");
  EXPECT_EQ(error(R"({"role":"tool","content":"x"})"),
            "messages[1].role: 'messages[1].role' asks for tools, which are "
            "not supported");
  EXPECT_EQ(error(R"({"role":"user"})"),
            "messages[1].content: 'messages[1].content' is missing");
  EXPECT_EQ(error(R"({"role":"user","content":5})"),
            "messages[1].content: 'messages[1].content' must be a string or an "
            "array of parts");
  EXPECT_EQ(error(R"({"role":"user","content":[{"type":"image_url"}]})"),
            "messages[1].content: 'messages[1].content' has a part that is not "
            "text: only text is supported");
  EXPECT_EQ(errorOf(chats, R"({"messages":[]})"),
            "messages: 'messages' must be an array of at least one message");
}

TEST(Request, WhatIsNotOfferedIsRefused) { // P8.06
  EXPECT_EQ(errorOf(chats, chat(R"("tools":[{"type":"function"}])")),
            "tools: 'tools' is not supported");
  EXPECT_EQ(errorOf(chats, chat(R"("response_format":{"type":"json_object"})")),
            "response_format: 'response_format' must be of type 'text'");
  EXPECT_EQ(errorOf(completions, completion(R"("suffix":"x")")),
            "suffix: 'suffix' is not supported");
  EXPECT_EQ(errorOf(completions, completion(R"("best_of":2)")),
            "best_of: 'best_of' must be an integer from 1 to 1");
  // Asking for what happens anyway is fine.
  parsed(chats, chat(R"("tools":[],"tool_choice":"none",)"
                     R"("response_format":{"type":"text"},"n":1)"));
}

TEST(Request, ChatOptions) {
  Request request =
      parsed(chats, chat(R"("chat_template_kwargs":{"enable_thinking":false,)"
                         R"("preserve_thinking":true},"logprobs":true,)"
                         R"("top_logprobs":3,"max_completion_tokens":9)"));
  EXPECT_EQ(request.thinking, false);
  EXPECT_TRUE(request.keepReasoning);
  EXPECT_EQ(request.generate.logprobs, 3u);
  EXPECT_EQ(request.maxTokens, 9u);
  EXPECT_EQ(errorOf(chats, chat(R"("top_logprobs":3)")),
            "top_logprobs: 'top_logprobs' needs 'logprobs' to be true");
  EXPECT_EQ(errorOf(chats, chat(R"("chat_template_kwargs":{"x":1})")),
            "chat_template_kwargs.x: 'chat_template_kwargs.x' is not a field "
            "of this request");
  EXPECT_EQ(errorOf(chats, chat(R"("max_tokens":1,"max_completion_tokens":2)")),
            "max_tokens: 'max_tokens' and 'max_completion_tokens' disagree");
}

TEST(Request, ModelWithoutLogitsIsGreedy) {
  RequestDefaults defaults = someDefaults();
  defaults.sampling = SamplingOptions::greedy();
  defaults.canSample = false;
  EXPECT_FALSE(
      parsed(completions, R"({"prompt":"x"})", defaults).generate.sampling);
  Request request;
  for (const char *field : {R"("temperature":1)", R"("logprobs":0)"}) {
    auto error =
        parseRequest(completions, completion(field), defaults, request);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->message,
              "this model was compiled without logits: it can only write the "
              "likeliest tokens, and has no log probabilities");
  }
}
