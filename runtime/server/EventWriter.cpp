//===- EventWriter.cpp - Events go out in a thread of their own -----------===//

#include "runtime/server/EventWriter.h"

namespace tandem::server {

Status EventWriter::start() {
  // std::thread would throw.
  int error = pthread_create(&thread, nullptr, threadMain, this);
  if (error)
    return systemError("pthread_create", error);
  isStarted = true;
  return Status();
}

EventWriter::~EventWriter() {
  if (!isStarted)
    return;
  {
    std::lock_guard lock(mutex);
    isEnded = true;
  }
  changed.notify_all();
  pthread_join(thread, nullptr);
}

void *EventWriter::threadMain(void *writer) {
  static_cast<EventWriter *>(writer)->work();
  return nullptr;
}

void EventWriter::work() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return isEnded || isGone || !events.empty(); });
    if (isEnded || isGone)
      return;
    // Stays where it is while others are put behind it.
    const std::string &event = events.front();
    lock.unlock();
    bool sent = client.send(event);
    lock.lock();
    waiting -= event.size();
    events.pop_front();
    begun = Clock::now();
    isGone |= !sent;
    changed.notify_all();
  }
}

bool EventWriter::push(std::string event) {
  std::unique_lock lock(mutex);
  Clock::time_point asked = Clock::now();
  bool hasRoom = changed.wait_for(lock, patience,
                                  [&] { return isGone || waiting < limit; });
  patience -= Clock::now() - asked;
  isGone |= !hasRoom;
  if (!isGone) {
    if (events.empty())
      begun = Clock::now();
    waiting += event.size();
    events.push_back(std::move(event));
  }
  bool isTaken = !isGone;
  lock.unlock();
  changed.notify_all();
  return isTaken;
}

bool EventWriter::finish(const std::function<bool()> &stillWanted) {
  std::unique_lock lock(mutex);
  auto isSettled = [&] { return isGone || events.empty(); };
  while (!changed.wait_for(lock, std::chrono::milliseconds(100), isSettled)) {
    lock.unlock();
    bool isWanted = stillWanted();
    lock.lock();
    isGone |= !isWanted || Clock::now() - begun > longest;
  }
  bool isSent = !isGone;
  lock.unlock();
  if (!isSent)
    client.disconnect();
  return isSent;
}

} // namespace tandem::server
