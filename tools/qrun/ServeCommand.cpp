//===- ServeCommand.cpp - qrun serve --------------------------------------===//
//
// HTTP for runtime/server. cpp-httplib gives every connection a thread and
// reports by exceptions, none of which leaves this file.
//
//===----------------------------------------------------------------------===//

#include "tools/qrun/Commands.h"

#include "runtime/server/Service.h"
#include "tools/qrun/Connection.h"
#include "tools/qrun/ConnectionThreads.h"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <httplib.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace tandem::qrun {

using server::ApiError;
using server::Endpoint;
using Clock = std::chrono::steady_clock;

namespace {

/// The routes of one server.
class Server {
public:
  Server(server::Service &service, const ServeFlags &flags)
      : service(service), flags(flags) {
    // Every connection has a thread, those that are idle between two requests
    // too; so there can be more of them than requests that wait.
    size_t threads = flags.queue + 64;
    http.new_task_queue = [threads] { return new ConnectionThreads(threads); };
    // Without the library's SO_REUSEPORT, with which two servers would share
    // a port and its requests.
    http.set_socket_options([this](socket_t socket) {
      int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
      listener = socket;
    });
    http.set_tcp_nodelay(true);
    http.set_keep_alive_max_count(10000);
    http.set_read_timeout(std::chrono::seconds(30));
    http.set_write_timeout(std::chrono::microseconds(
        std::max<int64_t>(int64_t(flags.sendTimeout * 1e6), 1)));
    http.set_payload_max_length(largestBody());
    addRoutes();
  }

  /// Binds to the port of the flags; returns it.
  StatusOr<int> bind() {
    errno = 0;
    int port = flags.port;
    bool bound = true;
    if (port == 0)
      port = http.bind_to_any_port(flags.host);
    else
      bound = http.bind_to_port(flags.host, port);
    if (!bound || port < 0)
      return systemError(
          concat("cannot listen on ", flags.host, ":", flags.port), errno);
    // The library has five connections wait at most. The system refuses others,
    // or lets them try again a second later.
    if (::listen(listener, SOMAXCONN) != 0)
      return systemError(
          concat("cannot listen on ", flags.host, ":", flags.port), errno);
    return port;
  }

  /// Answers until stop().
  Status listen() {
    bool stopped = http.listen_after_bind();
    hasListened = true;
    if (!stopped)
      return Status(StatusCode::System, concat("cannot accept connections on ",
                                               flags.host, ":", flags.port));
    return Status();
  }

  /// Ends listen(), which has been called or is about to be.
  void stop() {
    // The library forgets a stop that comes before it listens.
    while (!http.is_running() && !hasListened)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    http.stop();
  }

  /// Requests whose answers are being written.
  unsigned active() const { return activeRequests; }

private:
  /// Counts a request from its admission to the end of its answer.
  class Active {
  public:
    Active(std::atomic<unsigned> &count) : count(count) { ++count; }
    ~Active() { --count; }

  private:
    std::atomic<unsigned> &count;
  };

  static void setError(httplib::Response &response, const ApiError &error) {
    response.status = error.status;
    if (error.status == 429)
      response.set_header("Retry-After", "1");
    response.set_content(error.toJson(), "application/json");
  }

  static void setResult(httplib::Response &response,
                        const std::variant<ApiError, std::string> &result) {
    if (const auto *error = std::get_if<ApiError>(&result))
      setError(response, *error);
    else
      response.set_content(std::get<std::string>(result), "application/json");
  }

  size_t largestBody() const { return size_t(flags.maxBodyMegabytes) << 20; }

  /// Whether the library hands requests like this one to takeBody().
  static bool mayHaveBody(const httplib::Request &request) {
    return request.method == "POST" || request.method == "PUT" ||
           request.method == "PATCH" || request.method == "DELETE";
  }

  bool isAuthorized(const httplib::Request &request) const {
    if (flags.apiKey.empty() || !request.path.starts_with("/v1/"))
      return true;
    std::string given = request.get_header_value("Authorization");
    std::string expected = "Bearer " + flags.apiKey;
    // Takes the same time wherever they differ.
    unsigned difference = given.size() != expected.size();
    for (size_t index = 0; index < expected.size(); ++index)
      difference |= unsigned(expected[index]) ^
                    unsigned(index < given.size() ? given[index] : 0);
    return difference == 0;
  }

  void addRoutes() {
    using httplib::Request;
    using httplib::Response;
    http.set_pre_routing_handler([this](const Request &in, Response &out) {
      // Patterns of paths are matched by recursion, letter by letter.
      constexpr size_t longestPath = 512;
      if (in.path.size() > longestPath)
        setError(out, {.status = 414,
                       .message = concat("the path is longer than ",
                                         longestPath, " bytes")});
      else if (mayHaveBody(in) || isAuthorized(in))
        return httplib::Server::HandlerResponse::Unhandled;
      else
        setUnauthorized(out);
      return httplib::Server::HandlerResponse::Handled;
    });
    auto withBody = [this](const Request &in, Response &out,
                           const httplib::ContentReader &reader) {
      takeBody(in, out, reader);
    };
    const char *anyPath = R"([\s\S]*)";
    http.Post(anyPath, withBody);
    http.Put(anyPath, withBody);
    http.Patch(anyPath, withBody);
    http.Delete(anyPath, withBody);
    http.Get("/v1/models", [this](const Request &, Response &out) {
      out.set_content(service.models(), "application/json");
    });
    http.Get("/v1/models/(.+)", [this](const Request &in, Response &out) {
      setResult(out, service.model(in.matches[1].str()));
    });
    http.Get("/health", [this](const Request &, Response &out) {
      setResult(out, service.health());
    });
    http.Get("/metrics", [this](const Request &, Response &out) {
      out.set_content(service.metricsText(), "text/plain; version=0.0.4");
    });
    http.set_error_handler(
        [this](const Request &in, Response &out) { explain(in, out); });
    http.set_exception_handler(
        [](const Request &, Response &out, std::exception_ptr) {
          setError(out, {.status = 500,
                         .message = "the request could not be handled",
                         .type = "server_error"});
        });
  }

  static void setUnauthorized(httplib::Response &out) {
    setError(out, {.status = 401,
                   .message = "the API key is missing or wrong",
                   .code = "invalid_api_key"});
  }

  /// Answers a request that may have a body. All of the body is read whatever
  /// the answer is: what is left of it would be the connection's next request.
  /// The library's own way to read takes no form of more than 8 KiB, which is
  /// what curl says its data are, and has no limit for a body that is
  /// compressed or comes in chunks.
  void takeBody(const httplib::Request &in, httplib::Response &out,
                const httplib::ContentReader &reader) {
    std::string body;
    bool isTooLarge = false;
    auto append = [&](const char *data, size_t size) {
      isTooLarge |= size > largestBody() - body.size();
      if (!isTooLarge)
        body.append(data, size);
      return true;
    };
    bool wasRead = true;
    bool isForm = in.is_multipart_form_data();
    if (isForm)
      reader([](const httplib::MultipartFormData &) { return true; },
             [](const char *, size_t) { return true; });
    else if (in.has_header("Content-Length") ||
             in.has_header("Transfer-Encoding"))
      wasRead = reader(append);
    if (!isAuthorized(in))
      return setUnauthorized(out);
    if (isForm)
      return setError(
          out, {.status = 400, .message = "the body is a form, expected JSON"});
    // explain() says more about these.
    if (isTooLarge)
      out.status = 413;
    if (isTooLarge || !wasRead)
      return;
    if (in.method == "POST" && in.path == "/v1/completions")
      answer(Endpoint::Completions, in, body, out);
    else if (in.method == "POST" && in.path == "/v1/chat/completions")
      answer(Endpoint::Chat, in, body, out);
    else
      out.status = 404;
  }

  /// Gives answers of the library, which have no body, the API's form.
  void explain(const httplib::Request &in, httplib::Response &out) const {
    if (!out.body.empty())
      return;
    ApiError error{.status = out.status, .message = ""};
    bool posts =
        in.path == "/v1/completions" || in.path == "/v1/chat/completions";
    bool gets = in.path == "/v1/models" || in.path == "/health" ||
                in.path == "/metrics";
    if (out.status == 404 && (posts || gets)) {
      error.status = 405;
      out.set_header("Allow", posts ? "POST" : "GET");
      error.message = concat(in.path, " takes ", posts ? "POST" : "GET");
      error.code = "method_not_allowed";
    } else if (out.status == 404) {
      error.message = concat("there is no ", in.path);
      error.code = "not_found";
    } else if (out.status == 413) {
      error.message =
          concat("the body is larger than ", flags.maxBodyMegabytes, " MiB");
      error.code = "body_too_large";
    } else {
      error.message = "the request is not understood";
    }
    setError(out, error);
  }

  void answer(Endpoint endpoint, const httplib::Request &in,
              std::string_view body, httplib::Response &out) {
    Clock::time_point begin = Clock::now();
    // Before it is admitted: a server that drains waits for it, or refuses it.
    auto active = std::make_shared<Active>(activeRequests);
    auto admitted = service.admit(endpoint, body);
    if (const auto *error = std::get_if<ApiError>(&admitted)) {
      setError(out, *error);
      return count(endpoint, error->status, begin);
    }
    // The library wants functions that can be copied.
    std::shared_ptr<server::Job> job =
        std::move(std::get<std::unique_ptr<server::Job>>(admitted));
    int socket = findSocket(in.remote_addr, in.remote_port);
    server::Client client;
    client.isThere = [socket] { return isConnected(socket); };
    client.disconnect = [socket] { disconnect(socket); };
    if (!job->request.stream) {
      auto result = service.run(*job, client);
      setResult(out, result);
      return count(endpoint, statusOf(result), begin);
    }
    out.set_header("Cache-Control", "no-cache");
    out.set_chunked_content_provider(
        "text/event-stream", [this, active, job, client, endpoint,
                              begin](size_t, httplib::DataSink &sink) mutable {
          client.send = [&sink](const std::string &event) {
            return sink.write(event.data(), event.size());
          };
          auto result = service.run(*job, client);
          count(endpoint, statusOf(result), begin);
          active.reset();
          if (statusOf(result) == 499)
            return false;
          sink.done();
          return true;
        });
  }

  static int statusOf(const std::variant<ApiError, std::string> &result) {
    const auto *error = std::get_if<ApiError>(&result);
    return error ? error->status : 200;
  }

  void count(Endpoint endpoint, int status, Clock::time_point begin) {
    service.countRequest(endpoint == Endpoint::Chat ? "chat" : "completions",
                         status, begin);
  }

  server::Service &service;
  const ServeFlags &flags;
  httplib::Server http;
  /// The socket that clients connect to.
  socket_t listener = INVALID_SOCKET;
  std::atomic<unsigned> activeRequests = 0;
  std::atomic<bool> hasListened = false;
};

} // namespace

/// What clients call the model of \p flags.
static std::string modelName(const ServeFlags &flags) {
  if (!flags.modelName.empty())
    return flags.modelName;
  return std::filesystem::path(flags.artifact).stem().string();
}

namespace {

/// Waits for SIGINT and SIGTERM in a thread of its own, because handlers may
/// do next to nothing. The first signal drains the server: what was admitted
/// is answered. The second one ends the answers, too, and the third one, or
/// one that comes before there is a server, the process.
class SignalThread {
public:
  /// All threads that are made from now on leave the signals to this one.
  SignalThread() {
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    thread = std::thread([this] { wait(); });
  }
  ~SignalThread() { end(); }

  /// Stops waiting.
  void end() {
    ended = true;
    if (thread.joinable())
      thread.join();
  }

  /// From now on signals are about these two, which live until end().
  void watch(Server &newServer, server::Service &newService) {
    service = &newService;
    server = &newServer;
  }

private:
  bool signalled() {
    timespec moment = {0, 50'000'000};
    return sigtimedwait(&signals, nullptr, &moment) > 0;
  }

  void wait() {
    while (!ended && !signalled()) {
    }
    if (ended)
      return;
    if (!server)
      _exit(130);
    service->drain();
    bool again = false;
    auto takeSignal = [&] {
      if (!signalled())
        return;
      if (again)
        _exit(130);
      again = true;
      service->cancel();
    };
    while (server.load()->active() > 0 && !ended)
      takeSignal();
    server.load()->stop();
    // Connections that are open end in a while, or when a client likes.
    while (!ended)
      takeSignal();
  }

  sigset_t signals;
  std::atomic<bool> ended = false;
  std::atomic<Server *> server = nullptr;
  server::Service *service = nullptr;
  std::thread thread;
};

} // namespace

Status serve(const ServeFlags &flags) {
  SignalThread signals;
  TANDEM_ASSIGN_OR_RETURN(Session session, load(flags, conversationSnapshots));
  server::ServiceOptions options;
  options.modelName = modelName(flags);
  options.queue = flags.queue;
  options.timeout = flags.timeout;
  options.sendTimeout = flags.sendTimeout;
  options.templateName = flags.templateName;
  options.useDrafter = !flags.noDraft;
  options.blockRows = flags.block.value_or(0);
  options.chooseRows = !flags.block;
  options.drafts = flags.drafts;
  auto service = server::Service::create(session.artifact, session.device(),
                                         std::move(options));
  if (!service.isOk())
    return inFile(flags.artifact, service.status());

  Server server(**service, flags);
  TANDEM_ASSIGN_OR_RETURN(int port, server.bind());
  std::printf("serving %s on http://%s:%d\n", modelName(flags).c_str(),
              flags.host.c_str(), port);
  if (!(*service)->chatStatus().isOk())
    std::printf("no chats: %s\n", (*service)->chatStatus().message().c_str());
  std::fflush(stdout);
  signals.watch(server, **service);
  Status listened = server.listen();
  signals.end();
  return listened;
}

} // namespace tandem::qrun
