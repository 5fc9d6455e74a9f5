//===- ConnectionThreads.cpp - A thread for every connection --------------===//

#include "tools/qrun/ConnectionThreads.h"

#include <system_error>

namespace tandem::qrun {

/// Whether there is one more thread now.
bool ConnectionThreads::startThread() {
  try {
    threads.emplace_back([this] { work(); });
    return true;
  } catch (const std::system_error &) {
    return false;
  }
}

void ConnectionThreads::enqueue(std::function<void()> connection) {
  std::unique_lock lock(mutex);
  bool isTaken = waiting.size() < idle ||
                 (threads.size() < limit && startThread()) || !threads.empty();
  if (!isTaken) {
    lock.unlock();
    connection();
    return;
  }
  waiting.push_back(std::move(connection));
  changed.notify_one();
}

void ConnectionThreads::work() {
  std::unique_lock lock(mutex);
  while (true) {
    ++idle;
    changed.wait(lock, [this] { return ended || !waiting.empty(); });
    --idle;
    if (waiting.empty())
      return;
    std::function<void()> connection = std::move(waiting.front());
    waiting.pop_front();
    lock.unlock();
    connection();
    lock.lock();
  }
}

void ConnectionThreads::shutdown() {
  {
    std::lock_guard lock(mutex);
    ended = true;
  }
  changed.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace tandem::qrun
