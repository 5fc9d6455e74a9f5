//===- ConnectionThreads.h - A thread for every connection ------*- C++ -*-===//

#ifndef TANDEM_TOOLS_QRUN_CONNECTIONTHREADS_H
#define TANDEM_TOOLS_QRUN_CONNECTIONTHREADS_H

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <httplib.h>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem::qrun {

/// Threads in which cpp-httplib serves connections. They are started when there
/// are connections for them, unlike those of the library, which are all started
/// at once and end the process when the system does not give as many.
class ConnectionThreads final : public httplib::TaskQueue {
public:
  /// At most \p limit threads; further connections wait for one.
  explicit ConnectionThreads(size_t limit) : limit(limit) {}

  /// Serves \p connection in a thread, or in this one where the system gives
  /// none at all.
  void enqueue(std::function<void()> connection) override;

  /// Serves what waits, then ends and joins the threads.
  void shutdown() override;

private:
  void work();
  bool startThread();

  size_t limit;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::thread> threads;
  std::deque<std::function<void()>> waiting;
  /// Threads that have no connection.
  size_t idle = 0;
  bool ended = false;
};

} // namespace tandem::qrun

#endif // TANDEM_TOOLS_QRUN_CONNECTIONTHREADS_H
