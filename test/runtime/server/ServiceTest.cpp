//===- ServiceTest.cpp - Answers of OpenAI's API, with fake programs ------===//

#include "runtime/server/Service.h"
#include "test/runtime/FakePair.h"

#include <array>
#include <condition_variable>
#include <gtest/gtest.h>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

using namespace tandem;
using namespace tandem::server;
using namespace tandem::test;
using Json = nlohmann::json;

namespace {

constexpr uint32_t imEnd = 257, vocabulary = 260;

/// Says the alphabet, and ends it: behind a letter comes the next one, behind
/// anything else the first.
uint32_t alphabet(std::span<const uint32_t> tokens) {
  uint32_t last = tokens.back();
  if (last == 'z')
    return imEnd;
  return last >= 'a' && last < 'z' ? last + 1 : 'a';
}

/// A service on a fake pair that is right about two of three drafts.
class ServiceTest : public testing::Test {
protected:
  void SetUp() override { start({}); }

  void start(ServiceOptions options, Target target = alphabet,
             bool searches = false) {
    service.reset();
    FakeOptions fake;
    fake.searches = searches;
    fake.loop = {.block = 4,
                 .maxContext = 200,
                 .vocabulary = vocabulary,
                 .stopTokens = {imEnd}};
    fake.tokenizer =
        byteTokenizer({"<|im_start|>", "<|im_end|>", "<think>", "</think>"});
    fake.tokenizer->addedIds = {256, 257, 258, 259};
    fake.tokenizer->addedNames = {"<|im_start|>", "<|im_end|>", "<think>",
                                  "</think>"};
    pair.emplace(fake, target, [](unsigned slot, uint32_t right) {
      return slot < 3 ? right : 'Q';
    });
    options.modelName = "fake";
    if (!options.templateName)
      options.templateName = "qwen3.5";
    // Counts that are about to begin again.
    if (auto counts = pair->artifact().findPort("head_counts")) {
      const uint32_t before[] = {~0u, ~0u - 1, ~0u - 4, 7};
      ASSERT_TRUE(
          pair->write(*counts, std::as_bytes(std::span(before))).isOk());
    }
    auto created = Service::create(pair->artifact(), *pair, options);
    ASSERT_TRUE(created.isOk()) << created.status().message();
    service = std::move(*created);
  }

  /// Runs a request; events of a stream are joined.
  std::pair<int, std::string> post(Endpoint endpoint, const std::string &body) {
    auto admitted = service->admit(endpoint, body);
    if (auto *error = std::get_if<ApiError>(&admitted))
      return {error->status, error->toJson()};
    std::string events;
    Client client{.isThere = [] { return true; },
                  .send =
                      [&](const std::string &event) {
                        events += event;
                        return true;
                      }};
    auto result =
        service->run(*std::get<std::unique_ptr<Job>>(admitted), client);
    if (auto *error = std::get_if<ApiError>(&result))
      return {error->status, events + error->toJson()};
    return {200, events + std::get<std::string>(result)};
  }

  Json complete(const std::string &fields) {
    auto [status, body] = post(Endpoint::Completions, "{" + fields + "}");
    EXPECT_EQ(status, 200) << body;
    return Json::parse(body, nullptr, false);
  }
  Json chat(const std::string &content, const std::string &fields = "") {
    auto [status, body] = post(
        Endpoint::Chat, R"({"messages":[{"role":"user","content":")" + content +
                            R"("}],"temperature":0)" + fields + "}");
    EXPECT_EQ(status, 200) << body;
    return Json::parse(body, nullptr, false);
  }

  /// The events of a stream, which has to end in [DONE].
  std::vector<Json> stream(Endpoint endpoint, const std::string &body) {
    auto [status, text] = post(endpoint, body);
    EXPECT_EQ(status, 200);
    std::vector<Json> events;
    std::string last;
    while (!text.empty()) {
      size_t end = text.find("\n\n");
      EXPECT_TRUE(text.starts_with("data: "));
      last = text.substr(6, end - 6);
      text.erase(0, end + 2);
      if (last != "[DONE]")
        events.push_back(Json::parse(last));
    }
    EXPECT_EQ(last, "[DONE]");
    return events;
  }

  std::optional<FakePair> pair;
  std::unique_ptr<Service> service;
};

} // namespace

TEST_F(ServiceTest, Completion) {
  Json answer = complete(R"("prompt":"abc","max_tokens":5,"temperature":0)");
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["model"], "fake");
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("cmpl-"));
  ASSERT_EQ(answer["choices"].size(), 1u);
  EXPECT_EQ(answer["choices"][0], Json({{"index", 0},
                                        {"text", "defgh"},
                                        {"logprobs", nullptr},
                                        {"finish_reason", "length"}}));
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 5);
  EXPECT_EQ(answer["usage"]["total_tokens"], 8);
}

TEST_F(ServiceTest, CompletionsAreSixteenTokensLong) {
  EXPECT_EQ(complete(R"("prompt":"a","temperature":0)")["choices"][0]["text"],
            "bcdefghijklmnopq");
}

TEST_F(ServiceTest, FinishReasons) { // P3.14
  auto finish = [&](const std::string &fields) {
    Json choice = complete(R"("temperature":0,)" + fields)["choices"][0];
    return choice["text"].get<std::string>() + "/" +
           choice["finish_reason"].get<std::string>();
  };
  EXPECT_EQ(finish(R"("prompt":"w","max_tokens":9)"), "xyz/stop");
  EXPECT_EQ(finish(R"("prompt":"w","max_tokens":3)"), "xyz/length");
  EXPECT_EQ(finish(R"("prompt":"w","max_tokens":4)"), "xyz/stop");
  EXPECT_EQ(finish(R"("prompt":"w","max_tokens":5,"ignore_eos":true)"),
            "xyz<|im_end|>a/length");
  EXPECT_EQ(finish(R"("prompt":"a","max_tokens":9,"stop":"ef")"), "bcd/stop");
  EXPECT_EQ(finish(R"("prompt":"a","max_tokens":9,"stop":["zz","b"])"),
            "/stop");
  EXPECT_EQ(finish(R"("prompt":"a","max_tokens":4,"stop":"efg")"),
            "bcde/length");
  EXPECT_EQ(finish(R"("prompt":"a","max_tokens":9,"stop_token_ids":[101])"),
            "bcd/stop");
  EXPECT_EQ(finish(R"("prompt":"a","max_tokens":0)"), "/length");
}

TEST_F(ServiceTest, SeveralPromptsAreSeveralChoices) {
  Json answer =
      complete(R"("prompt":["a","k",[120]],"max_tokens":2,"temperature":0)");
  ASSERT_EQ(answer["choices"].size(), 3u);
  EXPECT_EQ(answer["choices"][1]["text"], "lm");
  EXPECT_EQ(answer["choices"][2]["text"], "yz");
  EXPECT_EQ(answer["choices"][2]["index"], 2);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 3);
}

// What lm-eval's local-completions does to score a continuation.
TEST_F(ServiceTest, EchoedPromptsHaveLogprobs) {
  Json choice =
      complete(R"("prompt":[97,98,113],"max_tokens":1,)"
               R"("temperature":0,"logprobs":1,"echo":true)")["choices"][0];
  EXPECT_EQ(choice["text"], "abqr");
  const Json &logprobs = choice["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json({"a", "b", "q", "r"}));
  EXPECT_EQ(logprobs["text_offset"], Json({0, 1, 2, 3}));
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  // The fake target gives its token 1 and all others 0.
  double likely = 1 - std::log(std::exp(1.0) + vocabulary - 1);
  EXPECT_NEAR(logprobs["token_logprobs"][1].get<double>(), likely, 1e-5);
  EXPECT_NEAR(logprobs["token_logprobs"][2].get<double>(), likely - 1, 1e-5);
  EXPECT_NEAR(logprobs["top_logprobs"][2]["c"].get<double>(), likely, 1e-5);
  EXPECT_NEAR(logprobs["top_logprobs"][2]["q"].get<double>(), likely - 1, 1e-5);
  EXPECT_EQ(logprobs["top_logprobs"][1].size(), 1u);
  // The prompt alone.
  choice = complete(R"("prompt":"abq","max_tokens":0,"logprobs":0,)"
                    R"("temperature":0,"echo":true)")["choices"][0];
  EXPECT_EQ(choice["text"], "abq");
  EXPECT_EQ(choice["logprobs"]["token_logprobs"].size(), 3u);
  EXPECT_EQ(complete(R"("prompt":"ab","max_tokens":2,"temperature":0,)"
                     R"("echo":true)")["choices"][0]["text"],
            "abcd");
}

TEST_F(ServiceTest, LogprobsFollowTheTextAroundStops) { // P8.04
  Json choice = complete(R"("prompt":"a","max_tokens":9,"temperature":0,)"
                         R"("logprobs":0,"stop":"ef")")["choices"][0];
  EXPECT_EQ(choice["text"], "bcd");
  EXPECT_EQ(choice["logprobs"]["tokens"], Json({"b", "c", "d"}));
}

TEST_F(ServiceTest, TokensThatAreNoTextAreSpelledInBytes) {
  Target euro = [](std::span<const uint32_t> tokens) {
    constexpr uint32_t bytes[] = {0xe2, 0x82, 0xac, 'x'};
    return bytes[(tokens.size() - 1) % 4];
  };
  start({}, euro);
  Json choice = complete(R"("prompt":"p","max_tokens":6,"temperature":0,)"
                         R"("logprobs":0)")["choices"][0];
  // The last character is cut: it comes out as one that says so.
  EXPECT_EQ(choice["text"], "\u20acx\ufffd");
  EXPECT_EQ(choice["logprobs"]["tokens"],
            Json({"bytes:\\xe2", "bytes:\\x82", "bytes:\\xac", "x",
                  "bytes:\\xe2", "bytes:\\x82"}));
  EXPECT_EQ(choice["logprobs"]["text_offset"], Json({0, 1, 1, 1, 2, 3}));
}

TEST_F(ServiceTest, Chat) {
  Json answer =
      chat("hi", R"(,"max_tokens":4,)"
                 R"("chat_template_kwargs":{"enable_thinking":false})");
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(
      answer["choices"][0],
      Json(
          {{"index", 0},
           {"message",
            {{"role", "assistant"}, {"content", "abcd"}, {"refusal", nullptr}}},
           {"logprobs", nullptr},
           {"finish_reason", "length"}}));
  // Without a length, until the model ends it.
  answer = chat("hi");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(answer["choices"][0]["message"]["reasoning_content"],
            "abcdefghijklmnopqrstuvwxyz");
}

TEST_F(ServiceTest, ChatSplitsReasoning) {
  Target thinker = [](std::span<const uint32_t> tokens) -> uint32_t {
    switch (tokens.back()) {
    case 't':
      return 259;
    case 259:
      return 'o';
    case 'o':
      return imEnd;
    default:
      return 't';
    }
  };
  start({}, thinker);
  Json message = chat("hi")["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "t");
  EXPECT_EQ(message["content"], "o");
}

TEST_F(ServiceTest, ChatLogprobs) {
  Json choice = chat("hi", R"(,"max_tokens":2,"logprobs":true,)"
                           R"("top_logprobs":2)")["choices"][0];
  const Json &content = choice["logprobs"]["content"];
  ASSERT_EQ(content.size(), 2u);
  EXPECT_EQ(content[0]["token"], "a");
  EXPECT_EQ(content[0]["bytes"], Json({97}));
  EXPECT_EQ(content[0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(content[0]["top_logprobs"][0]["token"], "a");
}

TEST_F(ServiceTest, ChatStream) { // P8.01
  auto events = stream(
      Endpoint::Chat,
      R"({"messages":[{"role":"user","content":"x"}],"temperature":0,)"
      R"("stream":true,"stream_options":{"include_usage":true},)"
      R"("chat_template_kwargs":{"enable_thinking":false},"max_tokens":9})");
  ASSERT_GE(events.size(), 4u);
  std::string text;
  for (size_t index = 0; index + 1 < events.size(); ++index) {
    const Json &event = events[index];
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    EXPECT_EQ(event["id"], events[0]["id"]);
    EXPECT_TRUE(event["usage"].is_null());
    const Json &choice = event["choices"][0];
    // One reason, with the last chunk.
    bool last = index + 2 == events.size();
    EXPECT_EQ(choice["finish_reason"], last ? Json("length") : Json());
    EXPECT_EQ(choice["delta"].contains("role"), index == 0);
    text += choice["delta"].value("content", "");
  }
  EXPECT_EQ(text, "abcdefghi");
  EXPECT_TRUE(events.back()["choices"].empty());
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 9);
}

TEST_F(ServiceTest, StreamsSayWhatWholeAnswersSay) { // P8.01, P8.08
  for (const char *fields :
       {R"("prompt":"a","max_tokens":9)", R"("prompt":"w","max_tokens":9)",
        R"("prompt":"a","max_tokens":9,"stop":"ef")",
        R"("prompt":"a","max_tokens":1)",
        R"("prompt":"a","max_tokens":5,"stop":"efg")",
        R"("prompt":"ab","max_tokens":9,"echo":true)",
        R"("prompt":"ab","max_tokens":9,"echo":true,"logprobs":2)",
        R"("prompt":["a","k"],"max_tokens":3,"logprobs":0,"stop":"m")",
        R"("prompt":"ab","max_tokens":0,"echo":true)",
        R"("prompt":"a","max_tokens":30,"seed":4,"temperature":1)"}) {
    std::string body = std::string(fields);
    if (body.find("temperature") == std::string::npos)
      body += R"(,"temperature":0)";
    Json whole = complete(body);
    auto events =
        stream(Endpoint::Completions, "{" + body + R"(,"stream":true})");
    std::vector<Json> joined(whole["choices"].size(), Json::object());
    for (const Json &event : events) {
      const Json &choice = event["choices"][0];
      Json &into = joined[choice["index"].get<size_t>()];
      into["text"] = into.value("text", "") + choice["text"].get<std::string>();
      into["finish_reason"] = choice["finish_reason"];
      if (choice["logprobs"].is_object())
        for (const auto &[name, list] : choice["logprobs"].items())
          for (const Json &element : list)
            into["logprobs"][name].push_back(element);
    }
    for (size_t index = 0; index < joined.size(); ++index) {
      const Json &expected = whole["choices"][index];
      EXPECT_EQ(joined[index]["text"], expected["text"]) << fields;
      EXPECT_EQ(joined[index]["finish_reason"], expected["finish_reason"]);
      EXPECT_EQ(joined[index].value("logprobs", Json()), expected["logprobs"])
          << fields;
    }
  }
}

TEST_F(ServiceTest, SameSeedSameText) {
  std::string body = R"("prompt":"a","max_tokens":30,"temperature":1,"seed":)";
  Json first = complete(body + "1"), again = complete(body + "1");
  EXPECT_EQ(first["choices"], again["choices"]);
  EXPECT_NE(first["choices"], complete(body + "2")["choices"]);
}

TEST_F(ServiceTest, ConversationsAreNotPrefilledAgain) {
  std::string prompt = "some text that is long enough";
  auto ask = [&] {
    return complete(R"("max_tokens":6,"temperature":0,"prompt":)" +
                    Json(prompt).dump());
  };
  Json first = ask();
  EXPECT_EQ(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  size_t known = prompt.size() + 5;
  prompt += first["choices"][0]["text"].get<std::string>() + " and more";
  Json second = ask();
  EXPECT_EQ(second["usage"]["prompt_tokens_details"]["cached_tokens"], known);
  start({});
  EXPECT_EQ(ask()["choices"], second["choices"]);
}

TEST_F(ServiceTest, PromptsThatDoNotFit) { // P8.03
  auto [status, body] =
      post(Endpoint::Completions,
           R"({"prompt":")" + std::string(200, 'a') + R"("})");
  EXPECT_EQ(status, 400);
  Json error = Json::parse(body)["error"];
  EXPECT_EQ(error["message"], "the prompt has 200 tokens, prompt and answer "
                              "together can have 200");
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_EQ(error["param"], "prompt");
  // A budget that does not fit is cut.
  Json answer = complete(R"("max_tokens":1000,"temperature":0,"prompt":")" +
                         std::string(195, 'a') + "\"");
  EXPECT_EQ(answer["choices"][0]["text"], "bcdef");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(post(Endpoint::Completions, R"({"prompt":""})").first, 400);
}

TEST_F(ServiceTest, OtherModelsDoNotExist) {
  auto [status, body] =
      post(Endpoint::Completions, R"({"prompt":"a","model":"gpt"})");
  EXPECT_EQ(status, 404);
  EXPECT_EQ(Json::parse(body)["error"]["code"], "model_not_found");
  complete(R"("prompt":"a","model":"fake")");
  EXPECT_EQ(Json::parse(service->models())["data"][0]["id"], "fake");
}

TEST_F(ServiceTest, FullQueueRefusesAndOrderIsKept) { // P8.07
  start({.queue = 1});
  std::string body = R"({"prompt":"a","max_tokens":3,"temperature":0})";
  auto first = service->admit(Endpoint::Completions, body);
  auto second = service->admit(Endpoint::Completions, body);
  auto third = service->admit(Endpoint::Completions, body);
  ASSERT_TRUE(std::holds_alternative<ApiError>(third));
  EXPECT_EQ(std::get<ApiError>(third).status, 429);
  EXPECT_EQ(std::get<ApiError>(third).code, "queue_full");
  Client client{.isThere = [] { return true; }, .send = nullptr};
  std::atomic<bool> firstDone = false, inOrder = false;
  std::thread waiting([&] {
    service->run(*std::get<std::unique_ptr<Job>>(second), client);
    inOrder = firstDone.load();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  firstDone = true;
  service->run(*std::get<std::unique_ptr<Job>>(first), client);
  waiting.join();
  EXPECT_TRUE(inOrder);
  // There is room again.
  EXPECT_EQ(post(Endpoint::Completions, body).first, 200);
}

TEST_F(ServiceTest, ClientsThatLeaveStopTheirText) { // P8.02
  std::string body =
      R"({"ignore_eos":true,"temperature":0,"max_tokens":100,"prompt":")" +
      std::string(100, '.') + R"("})";
  // Before a turn, during the prefill, and during the answer.
  for (int calls : {0, 1, 3, 16}) {
    auto admitted = service->admit(Endpoint::Completions, body);
    int left = calls;
    Client client{.isThere = [&] { return left-- > 0; }, .send = nullptr};
    auto result =
        service->run(*std::get<std::unique_ptr<Job>>(admitted), client);
    ASSERT_TRUE(std::holds_alternative<ApiError>(result));
    EXPECT_EQ(std::get<ApiError>(result).status, 499);
  }
  EXPECT_EQ(pair->history().size() > 0, true);
  EXPECT_EQ(
      complete(R"("prompt":"abc","max_tokens":2,"temperature":0)")["choices"][0]
                                                                  ["text"],
      "de");
}

TEST_F(ServiceTest, StreamsThatNobodyTakesStop) { // P8.02
  auto admitted = service->admit(
      Endpoint::Completions,
      R"({"prompt":"a","max_tokens":100,"stream":true,"ignore_eos":true})");
  int events = 0;
  Client client{.isThere = [] { return true; },
                .send = [&](const std::string &) { return ++events < 2; }};
  auto result = service->run(*std::get<std::unique_ptr<Job>>(admitted), client);
  ASSERT_TRUE(std::holds_alternative<ApiError>(result));
  EXPECT_EQ(std::get<ApiError>(result).status, 499);
  EXPECT_EQ(events, 2);
}

namespace {

/// A client that takes nothing until it is released, or disconnected.
struct SlowClient : Client {
  SlowClient() {
    isThere = [] { return true; };
    send = [this](const std::string &event) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return reads || disconnected; });
      text += event;
      return !disconnected;
    };
    disconnect = [this] { set(disconnected); };
  }
  void set(bool &flag) {
    {
      std::lock_guard lock(mutex);
      flag = true;
    }
    changed.notify_all();
  }

  std::mutex mutex;
  std::condition_variable changed;
  bool reads = false, disconnected = false;
  std::string text;
};

} // namespace

TEST_F(ServiceTest, SlowClientsDoNotHoldTheDevice) {
  start({.sendTimeout = 1000});
  auto admitted = service->admit(
      Endpoint::Completions,
      R"({"prompt":"a","max_tokens":9,"stream":true,"temperature":0})");
  SlowClient slow;
  std::variant<ApiError, std::string> result;
  std::thread other([&] {
    result = service->run(*std::get<std::unique_ptr<Job>>(admitted), slow);
  });
  // Has to wait for the turn, and for nothing else.
  EXPECT_EQ(
      complete(R"("prompt":"k","max_tokens":2,"temperature":0)")["choices"][0]
                                                                ["text"],
      "lm");
  EXPECT_EQ(slow.text, "");
  slow.set(slow.reads);
  other.join();
  EXPECT_TRUE(std::holds_alternative<std::string>(result));
  EXPECT_FALSE(slow.disconnected);
  EXPECT_TRUE(slow.text.ends_with("data: [DONE]\n\n")) << slow.text;
}

TEST_F(ServiceTest, ClientsThatDoNotReadAreDropped) {
  // Their queue is full in the middle of the text, or has room for all of it.
  for (size_t unsentBytes : {size_t(1), size_t(1) << 20}) {
    start({.sendTimeout = 0.05, .unsentBytes = unsentBytes});
    auto admitted =
        service->admit(Endpoint::Completions,
                       R"({"prompt":"a","max_tokens":100,"stream":true,)"
                       R"("ignore_eos":true,"temperature":0})");
    SlowClient slow;
    auto result = service->run(*std::get<std::unique_ptr<Job>>(admitted), slow);
    ASSERT_TRUE(std::holds_alternative<ApiError>(result));
    EXPECT_EQ(std::get<ApiError>(result).status, 499);
    EXPECT_TRUE(slow.disconnected);
    if (unsentBytes == 1) {
      EXPECT_LT(pair->history().size(), 50u);
    } else {
      EXPECT_GT(pair->history().size(), 90u);
    }
    complete(R"("prompt":"a","max_tokens":2,"temperature":0)");
  }
}

TEST_F(ServiceTest, TimeEndsRequests) {
  start({.timeout = 1e-9});
  auto [status, body] = post(Endpoint::Completions, R"({"prompt":"a"})");
  EXPECT_EQ(status, 504);
  EXPECT_EQ(Json::parse(body)["error"]["code"], "timeout");
}

TEST_F(ServiceTest, DrainingRefusesNewRequestsOnly) {
  auto admitted =
      service->admit(Endpoint::Completions,
                     R"({"prompt":"a","max_tokens":2,"temperature":0})");
  service->drain();
  EXPECT_EQ(post(Endpoint::Completions, R"({"prompt":"a"})").first, 503);
  EXPECT_TRUE(std::holds_alternative<ApiError>(service->health()));
  Client client{.isThere = [] { return true; }, .send = nullptr};
  auto result = service->run(*std::get<std::unique_ptr<Job>>(admitted), client);
  EXPECT_TRUE(std::holds_alternative<std::string>(result));
}

TEST_F(ServiceTest, BrokenDeviceIsNoHealth) { // P8.07
  EXPECT_TRUE(std::holds_alternative<std::string>(service->health()));
  pair->failingProgram = "verify";
  auto [status, body] =
      post(Endpoint::Completions, R"({"prompt":"a","temperature":0})");
  EXPECT_EQ(status, 500);
  EXPECT_EQ(Json::parse(body)["error"]["type"], "server_error");
  EXPECT_TRUE(std::holds_alternative<ApiError>(service->health()));
  // An error in a stream that has begun is an event.
  auto [streamed, events] = post(
      Endpoint::Completions, R"({"prompt":"a","temperature":0,"stream":true})");
  EXPECT_EQ(streamed, 500);
  EXPECT_TRUE(
      events.find(R"(data: {"error":{"message":"the device is gone")") !=
      std::string::npos)
      << events;
  pair->failingProgram = "";
  complete(R"("prompt":"a","temperature":0)");
  EXPECT_TRUE(std::holds_alternative<std::string>(service->health()));
}

TEST_F(ServiceTest, ChatsWithoutATemplateAreRefused) {
  FakeOptions fake;
  fake.loop = {.vocabulary = vocabulary};
  fake.tokenizer = byteTokenizer();
  FakePair plain(fake, alphabet,
                 [](unsigned, uint32_t right) { return right; });
  auto created = Service::create(plain.artifact(), plain, {.modelName = "m"});
  ASSERT_TRUE(created.isOk());
  auto admitted = (*created)->admit(
      Endpoint::Chat, R"({"messages":[{"role":"user","content":"x"}]})");
  ASSERT_TRUE(std::holds_alternative<ApiError>(admitted));
  EXPECT_EQ(std::get<ApiError>(admitted).message,
            "the checkpoint has no chat template: choose one with --template "
            "qwen3, qwen3.5 or qwen3.6");
  EXPECT_FALSE(
      Service::create(plain.artifact(), plain, {.templateName = "x"}).isOk());
}

TEST_F(ServiceTest, NamesThatAreNotUtf8AreReplaced) {
  FakeOptions fake;
  fake.loop = {.vocabulary = vocabulary};
  fake.tokenizer = byteTokenizer();
  FakePair plain(fake, alphabet,
                 [](unsigned, uint32_t right) { return right; });
  auto created =
      Service::create(plain.artifact(), plain, {.modelName = "m\xff\xc3"});
  ASSERT_TRUE(created.isOk());
  const char *name = "m\xef\xbf\xbd\xef\xbf\xbd";
  EXPECT_EQ(Json::parse((*created)->models())["data"][0]["id"], name);
  EXPECT_TRUE(std::holds_alternative<std::string>((*created)->model(name)));
}

TEST_F(ServiceTest, MetricsAreInTheFormatOfPrometheus) {
  complete(R"("prompt":"abc","max_tokens":9,"temperature":0)");
  service->countRequest("completions", 200, std::chrono::steady_clock::now());
  std::string text = service->metricsText();
  for (const char *line :
       {"tandem_requests_total{endpoint=\"completions\",status=\"200\"} 1\n",
        "tandem_requests_running 0\n", "tandem_requests_waiting 0\n",
        "tandem_prompt_tokens_total 3\n", "tandem_generated_tokens_total 9\n",
        // One token of the prefill, then 3 + 3 + 2.
        "tandem_accept_length_bucket{le=\"2\"} 1\n",
        "tandem_accept_length_bucket{le=\"3\"} 3\n",
        "tandem_accept_length_bucket{le=\"+Inf\"} 3\n",
        "tandem_accept_length_sum 8\n",
        "tandem_time_to_first_token_seconds_count 1\n",
        "# TYPE tandem_request_seconds histogram\n"})
    EXPECT_TRUE(text.find(line) != std::string::npos) << line << text;
}

TEST_F(ServiceTest, MetricsSayWhatSearchedHeadsComputed) {
  // Nothing of heads that are read whole.
  EXPECT_EQ(service->metricsText().find("tandem_head"), std::string::npos);
  start({}, alphabet, /*searches=*/true);
  auto read = [&] {
    std::array<uint32_t, 4> counts = {};
    EXPECT_TRUE(pair->read(*pair->artifact().findPort("head_counts"),
                           std::as_writable_bytes(std::span(counts)))
                    .isOk());
    return counts;
  };
  // What was counted before the service began does not count.
  const std::array<uint32_t, 4> before = read();
  auto expectCounts = [&] {
    std::array<uint32_t, 4> now = read();
    std::string text = service->metricsText();
    const char *names[] = {"searches", "rows", "tiles", "full_passes"};
    for (size_t place = 0; place < now.size(); ++place) {
      std::string line = concat("\ntandem_head_", names[place], "_total ",
                                now[place] - before[place], "\n");
      EXPECT_NE(text.find(line), std::string::npos) << line << text;
    }
    return now[0] - before[0];
  };
  EXPECT_EQ(expectCounts(), 0u);
  const char *body = R"("prompt":"abc","max_tokens":9,"temperature":0)";
  complete(body);
  uint32_t searches = expectCounts();
  EXPECT_EQ(searches, pair->runs["verify"] + pair->runs["step"]);
  EXPECT_GT(searches, 1u);
  complete(body);
  EXPECT_GT(expectCounts(), searches);
}
