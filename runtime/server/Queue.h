//===- Queue.h - One request at a time, the others in order -----*- C++ -*-===//

#ifndef TANDEM_RUNTIME_SERVER_QUEUE_H
#define TANDEM_RUNTIME_SERVER_QUEUE_H

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace tandem::server {

/// A bounded queue in front of the device. Every request waits in the thread
/// of its connection, so nothing is handed over; all calls may come from
/// several threads at once.
class Queue {
public:
  /// A place in the queue, given back when it is destroyed. The queue outlives
  /// its places.
  class Place {
  public:
    Place(Queue &queue, uint64_t number) : queue(queue), number(number) {}
    Place(const Place &) = delete;
    ~Place();

    /// Waits until all requests before this one are gone. Gives up when
    /// \p stillWanted, which is asked about ten times a second, says no.
    bool wait(const std::function<bool()> &stillWanted);

  private:
    Queue &queue;
    uint64_t number;
  };

  /// At most \p waiting requests wait behind the one that runs.
  explicit Queue(size_t waiting) : limit(waiting) {}

  /// A place at the end; null when the queue is full.
  std::unique_ptr<Place> enter();

  /// Requests that run (0 or 1) and that wait.
  size_t running() const;
  size_t waiting() const;

private:
  size_t limit;
  mutable std::mutex mutex;
  std::condition_variable moved;
  uint64_t next = 0;
  /// Numbers of the places; the first one's turn it is.
  std::deque<uint64_t> places;
};

} // namespace tandem::server

#endif // TANDEM_RUNTIME_SERVER_QUEUE_H
