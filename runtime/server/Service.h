//===- Service.h - Requests in, answers out, without HTTP -------*- C++ -*-===//
//
// What a server does between the body of a request and the bytes of its
// answer:
//
//   admit   reads and checks the request, makes tokens of its prompt, and
//           takes a place in the queue, or says why not
//   run     waits for the turn of the request and writes its answer, whole or
//           as events of a stream
//
// Both run in the thread of the connection; events are sent by another one. One
// request at a time uses the device; its caches are kept for the next one,
// which often goes on where this one ends.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_SERVER_SERVICE_H
#define TANDEM_RUNTIME_SERVER_SERVICE_H

#include "runtime/ChatTemplate.h"
#include "runtime/Speculator.h"
#include "runtime/server/EventWriter.h"
#include "runtime/server/Metrics.h"
#include "runtime/server/Queue.h"
#include "runtime/server/Request.h"
#include "runtime/server/Response.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tandem::server {

struct ServiceOptions {
  /// What clients call the model; what is not UTF-8 in it is replaced.
  std::string modelName = {};
  /// Requests that may wait behind the one that runs.
  size_t queue = 32;
  /// Seconds from a request to the end of its answer; 0: as long as it takes.
  double timeout = 600;
  /// Seconds that a client of a stream may leave unread what it got.
  double sendTimeout = 10;
  /// Bytes of a stream that may wait for their client.
  size_t unsentBytes = 1 << 20;
  /// Takes the place of the checkpoint's chat template.
  std::optional<std::string> templateName = std::nullopt;
  bool useDrafter = true;
  /// As those of GenerateOptions.
  uint32_t blockRows = 0;
  bool chooseRows = false;
  DraftChoice drafts = DraftChoice::Likeliest;
};

/// A request that has been admitted.
struct Job {
  Request request;
  std::vector<std::vector<uint32_t>> prompts;
  bool beginsInReasoning = false;
  std::string id;
  std::chrono::steady_clock::time_point begin;
  std::unique_ptr<Queue::Place> place;
};

class Service {
public:
  /// \p artifact and \p device outlive the service. Fails when the artefact
  /// cannot write text, or has no tokenizer. A missing or unknown chat
  /// template is an error of chat requests only.
  static StatusOr<std::unique_ptr<Service>>
  create(const Artifact &artifact, Device &device, ServiceOptions options);

  /// Any thread. The job must end before the service does.
  std::variant<ApiError, std::unique_ptr<Job>> admit(Endpoint endpoint,
                                                     std::string_view body);

  /// Any thread. Returns the body of the answer, empty for a stream, which
  /// goes to the client event by event and may end in an error there; or an
  /// error. Status 499 says that the client has gone away or does not read.
  std::variant<ApiError, std::string> run(Job &job, const Client &client);

  /// Why chats are refused; nothing when they are not.
  const Status &chatStatus() const { return chat.status(); }

  /// Bodies of /v1/models, of /v1/models/NAME, of /health and of /metrics.
  std::string models() const;
  std::variant<ApiError, std::string> model(std::string_view name) const;
  /// An error while nothing can be answered.
  std::variant<ApiError, std::string> health() const;
  std::string metricsText() const;

  /// Counts an answer of \p status to a request that came at \p begin.
  void countRequest(const std::string &endpoint, int status,
                    std::chrono::steady_clock::time_point begin);

  /// From now on nothing is admitted; what was goes on.
  void drain() { draining = true; }
  /// Ends what runs and what waits, too.
  void cancel() { cancelled = true; }

private:
  Service(const Artifact &artifact, Device &device, Speculator speculator,
          Tokenizer tokenizer, StatusOr<ChatTemplate> chat,
          ServiceOptions options);

  std::optional<ApiError> encodePrompts(Job &job) const;
  std::optional<ApiError> writeChoice(Job &job, const Client &client,
                                      EventWriter *events, size_t index,
                                      ResponseWriter &writer, Usage &usage);
  std::variant<ApiError, std::string> write(Job &job, const Client &client,
                                            EventWriter *events);
  std::variant<ApiError, std::string> runStream(Job &job, const Client &client);
  /// Adds to the metrics what heads have counted since the last call.
  Status countHeads();
  std::optional<ApiError> whyStop(const Job &job, const Client &client) const;

  const Artifact &artifact;
  Device &device;
  Speculator speculator;
  Tokenizer tokenizer;
  StatusOr<ChatTemplate> chat;
  ServiceOptions options;
  SamplingOptions sampling;
  int64_t started;
  Queue queue;
  Metrics metrics;
  /// What the device had counted; used by the job that has the device.
  HeadCounts heads;
  std::atomic<uint64_t> nextId;
  std::atomic<bool> draining = false, cancelled = false;
  /// Whether the last text failed by no fault of a client.
  std::atomic<bool> broken = false;
};

} // namespace tandem::server

#endif // TANDEM_RUNTIME_SERVER_SERVICE_H
