//===- Queue.cpp - One request at a time, the others in order -------------===//

#include "runtime/server/Queue.h"

#include <algorithm>
#include <chrono>

namespace tandem::server {

std::unique_ptr<Queue::Place> Queue::enter() {
  std::lock_guard lock(mutex);
  if (places.size() > limit)
    return nullptr;
  places.push_back(next++);
  return std::make_unique<Place>(*this, places.back());
}

size_t Queue::running() const {
  std::lock_guard lock(mutex);
  return std::min<size_t>(places.size(), 1);
}

size_t Queue::waiting() const {
  std::lock_guard lock(mutex);
  return places.size() - std::min<size_t>(places.size(), 1);
}

Queue::Place::~Place() {
  {
    std::lock_guard lock(queue.mutex);
    std::erase(queue.places, number);
  }
  queue.moved.notify_all();
}

bool Queue::Place::wait(const std::function<bool()> &stillWanted) {
  std::unique_lock lock(queue.mutex);
  while (queue.places.front() != number) {
    queue.moved.wait_for(lock, std::chrono::milliseconds(100));
    // The answer may need a system call.
    lock.unlock();
    bool wanted = stillWanted();
    lock.lock();
    if (!wanted)
      return false;
  }
  return true;
}

} // namespace tandem::server
