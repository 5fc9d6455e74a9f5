//===- Service.cpp - Requests in, answers out, without HTTP ---------------===//

#include "runtime/server/Service.h"

#include "runtime/SamplingDefaults.h"
#include "runtime/Utf8.h"
#include "runtime/server/AnswerSink.h"

#include <ctime>
#include <random>

namespace tandem::server {

using Clock = std::chrono::steady_clock;

static double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

static ApiError unavailable(std::string message) {
  return {.status = 503,
          .message = std::move(message),
          .type = "service_unavailable_error"};
}

static uint64_t randomNumber() {
  std::random_device device;
  return uint64_t(device()) << 32 | device();
}

StatusOr<std::unique_ptr<Service>> Service::create(const Artifact &artifact,
                                                   Device &device,
                                                   ServiceOptions options) {
  const artifact::Artifact &root = artifact.root();
  TANDEM_ASSIGN_OR_RETURN(Speculator speculator,
                          Speculator::create(artifact, device));
  if (!root.tokenizer())
    return invalidArgument("has no tokenizer: there is no text to serve");
  TANDEM_ASSIGN_OR_RETURN(Tokenizer tokenizer,
                          Tokenizer::create(*root.tokenizer()));
  StatusOr<ChatTemplate> chat =
      ChatTemplate::find(root.chat(), options.templateName);
  // A template that somebody asked for by a wrong name is a mistake.
  if (options.templateName && !chat.isOk())
    return chat.status();
  if (options.chooseRows)
    TANDEM_RETURN_IF_ERROR(speculator.measureRounds());
  std::unique_ptr<Service> service(
      new Service(artifact, device, std::move(speculator), std::move(tokenizer),
                  std::move(chat), std::move(options)));
  // Counting begins here, whatever was done before.
  TANDEM_ASSIGN_OR_RETURN(std::optional<HeadCounts> counts,
                          readHeadCounts(artifact, device));
  service->heads = counts.value_or(HeadCounts());
  TANDEM_RETURN_IF_ERROR(service->countHeads());
  return StatusOr<std::unique_ptr<Service>>(std::move(service));
}

Service::Service(const Artifact &artifact, Device &device,
                 Speculator speculator, Tokenizer tokenizer,
                 StatusOr<ChatTemplate> chat, ServiceOptions options)
    : artifact(artifact), device(device), speculator(std::move(speculator)),
      tokenizer(std::move(tokenizer)), chat(std::move(chat)),
      options(std::move(options)), started(std::time(nullptr)),
      queue(this->options.queue), metrics(artifact.root().loop()->block()),
      nextId(randomNumber()) {
  // It may be the name of a file, which is any bytes; JSON is not.
  Utf8Stream name;
  std::string &modelName = this->options.modelName;
  std::string whole = name.push(modelName);
  modelName = whole + name.finish();
  // What the API calls a default is for models that can be sampled.
  sampling = this->speculator.canSample()
                 ? defaultSampling(artifact.root().generation())
                 : SamplingOptions::greedy();
}

Status Service::countHeads() {
  TANDEM_ASSIGN_OR_RETURN(std::optional<HeadCounts> counts,
                          readHeadCounts(artifact, device));
  if (counts)
    metrics.addHeads(*counts - heads);
  heads = counts.value_or(HeadCounts());
  return Status();
}

//===----------------------------------------------------------------------===//
// Admission
//===----------------------------------------------------------------------===//

std::optional<ApiError> Service::encodePrompts(Job &job) const {
  const Request &request = job.request;
  auto inPrompt = [](const Status &status) {
    ApiError error = fromStatus(status);
    error.message = "the prompt: " + error.message;
    return error;
  };
  if (request.endpoint == Endpoint::Chat) {
    if (!chat.isOk())
      return ApiError{.status = 400, .message = chat.status().message()};
    ChatOptions how{.thinking =
                        request.thinking.value_or(chat->thinksByDefault()),
                    .keepReasoning = request.keepReasoning};
    auto text = chat->render(request.messages, how);
    if (!text.isOk())
      return fieldError("messages", text.status().message());
    auto prompt = encodeChat(tokenizer, *text);
    if (!prompt.isOk())
      return inPrompt(prompt.status());
    job.prompts.push_back(std::move(prompt->ids));
    job.request.generate.leavesAt = uint32_t(prompt->questionEnd);
    job.beginsInReasoning = chat->answerBeginsInReasoning(how);
  }
  for (const Prompt &prompt : request.prompts) {
    if (const auto *ids = std::get_if<std::vector<uint32_t>>(&prompt)) {
      job.prompts.push_back(*ids);
      continue;
    }
    auto ids = tokenizer.encode(std::get<std::string>(prompt));
    if (!ids.isOk())
      return inPrompt(ids.status());
    job.prompts.push_back(std::move(*ids));
  }
  for (const std::vector<uint32_t> &ids : job.prompts)
    if (Status status = speculator.checkPrompt(ids); !status.isOk()) {
      ApiError error = fromStatus(status);
      error.param = request.endpoint == Endpoint::Chat ? "messages" : "prompt";
      error.code = "context_length_exceeded";
      if (ids.empty())
        error.code = "invalid_value";
      return error;
    }
  return std::nullopt;
}

std::variant<ApiError, std::unique_ptr<Job>>
Service::admit(Endpoint endpoint, std::string_view body) {
  if (draining)
    return unavailable("the server is shutting down");
  auto job = std::make_unique<Job>();
  job->begin = Clock::now();
  RequestDefaults defaults{.sampling = sampling,
                           .canSample = speculator.canSample(),
                           .vocabulary = artifact.root().loop()->vocabulary(),
                           .seed = randomNumber()};
  Request &request = job->request;
  if (auto error = parseRequest(endpoint, body, defaults, request))
    return *error;
  if (!request.model.empty() && request.model != options.modelName)
    return std::get<ApiError>(model(request.model));
  if (request.generate.promptLogprobs && !speculator.canScore())
    return fieldError("echo", "prompts have no log probabilities: the model "
                              "was compiled without 'score'");
  if (auto error = encodePrompts(*job))
    return *error;
  request.generate.useDrafter = options.useDrafter;
  request.generate.blockRows = options.blockRows;
  request.generate.chooseRows = options.chooseRows;
  request.generate.drafts = options.drafts;
  char id[24];
  std::snprintf(id, sizeof(id), "%016llx",
                static_cast<unsigned long long>(nextId++));
  job->id =
      (endpoint == Endpoint::Chat ? "chatcmpl-" : "cmpl-") + std::string(id);
  job->place = queue.enter();
  if (!job->place)
    return ApiError{.status = 429,
                    .message = concat("the queue is full (", options.queue,
                                      " requests): try again later"),
                    .type = "rate_limit_error",
                    .code = "queue_full"};
  return job;
}

//===----------------------------------------------------------------------===//
// Answers
//===----------------------------------------------------------------------===//

static ApiError clientHasGone() {
  return {.status = 499, .message = "the client has gone away"};
}

/// Why a text should not go on.
std::optional<ApiError> Service::whyStop(const Job &job,
                                         const Client &client) const {
  if (cancelled)
    return unavailable("the server is shutting down");
  if (!client.isThere())
    return clientHasGone();
  if (options.timeout > 0 && secondsSince(job.begin) > options.timeout)
    return ApiError{.status = 504,
                    .message = "the request took longer than this server "
                               "allows",
                    .type = "timeout_error",
                    .code = "timeout"};
  return std::nullopt;
}

/// Writes the answer to prompt \p index: as \p events of a stream, or into
/// \p writer.
std::optional<ApiError> Service::writeChoice(Job &job, const Client &client,
                                             EventWriter *events, size_t index,
                                             ResponseWriter &writer,
                                             Usage &usage) {
  const Request &request = job.request;
  const std::vector<uint32_t> &prompt = job.prompts[index];
  std::optional<ApiError> reason;
  AnswerPart answer;
  bool first = true;
  double firstToken = -1;
  AnswerSink *source = nullptr;
  auto send = [&](AnswerPart part) {
    if (!request.stream) {
      answer.reasoning += part.reasoning;
      answer.content += part.content;
      for (ScoredToken &token : part.tokens)
        answer.tokens.push_back(std::move(token));
      return true;
    }
    if (part.empty() && !(first && request.endpoint == Endpoint::Chat))
      return true;
    bool sent = events->push(writer.chunk(index, part, first));
    first = false;
    return sent;
  };
  /// Puts the prompt in front of its answer.
  auto echo = [&]() {
    AnswerPart part;
    const Prompt &given = request.prompts[index];
    if (const auto *text = std::get_if<std::string>(&given))
      part.content = *text;
    else
      part.content = tokenizer.decode(prompt);
    if (request.generate.promptLogprobs) {
      part.tokens = source->takePrompt();
      part.tokens.insert(part.tokens.begin(), {prompt[0], std::nullopt});
    }
    return send(std::move(part));
  };
  bool echoed = !request.echo;
  auto deliver = [&](AnswerPart part) {
    if (firstToken < 0 && source->begun())
      firstToken = secondsSince(job.begin);
    reason = whyStop(job, client);
    if (reason)
      return false;
    // The log probabilities of the prompt are complete with the first token.
    bool sent = true;
    if (!echoed && source->begun()) {
      echoed = true;
      sent = echo();
    }
    if (sent && (!part.empty() || source->begun()))
      sent = send(std::move(part));
    if (!sent)
      reason = clientHasGone();
    return sent;
  };

  bool isChat = request.endpoint == Endpoint::Chat;
  std::optional<ReasoningSplitter> splitter;
  if (isChat)
    splitter.emplace(job.beginsInReasoning);
  AnswerSink sink(tokenizer, request.stops, splitter, deliver);
  source = &sink;
  GenerateOptions generate = request.generate;
  generate.maxNewTokens = request.maxTokens.value_or(
      isChat ? artifact.root().loop()->max_context() : 16);
  // The client learns that its turn has come.
  if (isChat && !send(AnswerPart()))
    return clientHasGone();
  StatusOr<Generation> text = speculator.generate(prompt, generate, sink);
  if (!text.isOk()) {
    broken = text.status().code() != StatusCode::InvalidArgument;
    return fromStatus(text.status());
  }
  broken = false;
  metrics.addText(*text, prompt.size(), firstToken);
  if (Status status = countHeads(); !status.isOk()) {
    broken = true;
    return fromStatus(status);
  }
  usage.promptTokens += prompt.size();
  usage.reusedTokens += text->reusedTokens;
  usage.answerTokens += text->ids.size();
  if (text->finishReason == FinishReason::Cancelled)
    return reason;
  if (!echoed)
    echo();
  send(sink.finish());
  const char *finish =
      text->finishReason == FinishReason::Stop ? "stop" : "length";
  if (!request.stream)
    writer.addChoice(answer, finish);
  else if (!events->push(writer.lastChunk(index, finish)))
    return clientHasGone();
  return std::nullopt;
}

std::variant<ApiError, std::string>
Service::write(Job &job, const Client &client, EventWriter *events) {
  std::optional<ApiError> error;
  bool turn = job.place->wait([&] {
    error = whyStop(job, client);
    return !error;
  });
  if (!turn)
    return *error;
  if (auto reason = whyStop(job, client))
    return *reason;
  ResponseWriter writer(job.request, tokenizer, options.modelName, job.id,
                        std::time(nullptr));
  Usage usage;
  for (size_t index = 0; index < job.prompts.size(); ++index)
    if (auto failed = writeChoice(job, client, events, index, writer, usage))
      return *failed;
  if (!job.request.stream)
    return writer.body(usage);
  if (job.request.includeUsage)
    events->push(writer.usageChunk(usage));
  events->push(ResponseWriter::done());
  return "";
}

std::variant<ApiError, std::string> Service::runStream(Job &job,
                                                       const Client &client) {
  EventWriter events(client, options.unsentBytes, options.sendTimeout);
  if (Status status = events.start(); !status.isOk()) {
    job.place.reset();
    ApiError error = unavailable(status.message());
    client.send(ResponseWriter::errorChunk(error));
    return error;
  }
  auto result = write(job, client, &events);
  // Whoever waits need not wait for the bytes of this answer.
  job.place.reset();
  auto *error = std::get_if<ApiError>(&result);
  if (error && error->status != 499)
    events.push(ResponseWriter::errorChunk(*error));
  // An error that ended the text does not keep the client from reading it.
  bool sent = events.finish([&] {
    return error ? error->status != 499 && client.isThere()
                 : !whyStop(job, client);
  });
  return sent ? result : clientHasGone();
}

std::variant<ApiError, std::string> Service::run(Job &job,
                                                 const Client &client) {
  if (job.request.stream)
    return runStream(job, client);
  auto result = write(job, client, nullptr);
  job.place.reset();
  return result;
}

//===----------------------------------------------------------------------===//
// About the server
//===----------------------------------------------------------------------===//

static nlohmann::ordered_json describe(const std::string &name, int64_t started,
                                       uint32_t context) {
  return {{"id", name},
          {"object", "model"},
          {"created", started},
          {"owned_by", "tandem"},
          {"max_model_len", context}};
}

std::string Service::models() const {
  nlohmann::ordered_json object = {{"object", "list"}};
  object["data"] = nlohmann::ordered_json::array({describe(
      options.modelName, started, artifact.root().loop()->max_context())});
  return object.dump();
}

std::variant<ApiError, std::string>
Service::model(std::string_view name) const {
  if (name == options.modelName)
    return describe(options.modelName, started,
                    artifact.root().loop()->max_context())
        .dump();
  return ApiError{.status = 404,
                  .message = concat("the model '", name,
                                    "' does not exist, this server has '",
                                    options.modelName, "'"),
                  .param = "model",
                  .code = "model_not_found"};
}

std::variant<ApiError, std::string> Service::health() const {
  if (draining)
    return unavailable("the server is shutting down");
  if (broken)
    return unavailable("the last text failed");
  return R"({"status":"ok"})";
}

std::string Service::metricsText() const {
  return metrics.write(queue.running(), queue.waiting());
}

void Service::countRequest(const std::string &endpoint, int status,
                           Clock::time_point begin) {
  metrics.addRequest(endpoint, status, secondsSince(begin));
}

} // namespace tandem::server
