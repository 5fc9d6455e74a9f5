//===- EventWriter.h - Events go out in a thread of their own ---*- C++ -*-===//
//
//   push() ──▶ [event][event][event] ──▶ Client::send()
//   has the    at most so many bytes     may wait for
//   device                               the network
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_SERVER_EVENTWRITER_H
#define TANDEM_RUNTIME_SERVER_EVENTWRITER_H

#include "runtime/Status.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <pthread.h>
#include <string>

namespace tandem::server {

/// Where an answer goes.
struct Client {
  /// Whether somebody still waits for the answer. Called by the thread that
  /// writes the answer.
  std::function<bool()> isThere = {};
  /// Sends an event of a stream; false when nobody takes it. Called by one
  /// thread at a time, not always the same.
  std::function<bool(const std::string &event)> send = {};
  /// Makes a send() that waits in another thread return. Nothing is sent
  /// behind it.
  std::function<void()> disconnect = [] {};
};

/// Sends the events of a stream from a thread of its own, so that who makes
/// them does not wait for a client that reads slowly. Only a full queue is
/// waited for, and not for long.
class EventWriter {
public:
  /// At most \p bytes wait, and one event more. A client is dropped when
  /// push() has waited for it for \p seconds, and when it takes longer than
  /// that for an event that finish() waits for. \p client outlives the writer.
  EventWriter(const Client &client, size_t bytes, double seconds)
      : client(client), limit(bytes), longest(seconds), patience(seconds) {}
  EventWriter(const EventWriter &) = delete;
  /// Without finish() what waits is lost.
  ~EventWriter();

  /// Starts the thread; once, before the other calls. Fails when the system
  /// gives none.
  Status start();

  /// Takes an event; false when the client has gone or is dropped.
  bool push(std::string event);

  /// Waits until all events are sent; nothing is pushed any more. Gives up on a
  /// client that is dropped, and when \p stillWanted, which is asked about ten
  /// times a second, says no: then the client is disconnected. Whether all of
  /// them were sent.
  bool finish(const std::function<bool()> &stillWanted);

private:
  using Clock = std::chrono::steady_clock;

  static void *threadMain(void *writer);
  void work();

  const Client &client;
  const size_t limit;
  /// What an event may take.
  const std::chrono::duration<double> longest;
  /// How long push() may still wait.
  std::chrono::duration<double> patience;
  pthread_t thread;
  bool isStarted = false;

  std::mutex mutex;
  /// An event came or went, or an end.
  std::condition_variable changed;
  /// Events that are not sent; the first one may be on its way.
  std::deque<std::string> events;
  /// Of these events.
  size_t waiting = 0;
  /// Since when the first of them has been the first.
  Clock::time_point begun;
  /// Nobody takes events any more.
  bool isGone = false;
  bool isEnded = false;
};

} // namespace tandem::server

#endif // TANDEM_RUNTIME_SERVER_EVENTWRITER_H
