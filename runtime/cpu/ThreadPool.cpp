//===- ThreadPool.cpp - Threads that run one task together ----------------===//

#include "runtime/cpu/ThreadPool.h"

#include <sched.h>
#include <unistd.h>

namespace tandem {

unsigned usableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    if (int count = CPU_COUNT(&set); count > 0)
      return unsigned(count);
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? unsigned(online) : 1;
}

/// Tells the core that this thread only waits.
static void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits until \p value is not \p old: spinning first, since waking a thread
/// that sleeps takes longer than most launches.
static void waitWhile(std::atomic<uint32_t> &value, uint32_t old,
                      unsigned spins) {
  for (unsigned spin = 0; spin < spins; ++spin) {
    if (value.load(std::memory_order_acquire) != old)
      return;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
}

StatusOr<std::unique_ptr<ThreadPool>> ThreadPool::create(unsigned threads) {
  assert(threads >= 1);
  std::unique_ptr<ThreadPool> pool(new ThreadPool);
  // About 50 microseconds. Spinning threads in excess of the cores would only
  // keep the others from working.
  pool->spins = threads <= usableCores() ? 2000 : 0;
  pool->workers.reserve(threads - 1);
  for (unsigned index = 1; index < threads; ++index) {
    Worker &worker = pool->workers.emplace_back(Worker{pool.get(), index, {}});
    int error = pthread_create(&worker.thread, nullptr, threadMain, &worker);
    if (error != 0) {
      pool->workers.pop_back();
      return failure(StatusCode::OutOfResources, "cannot start thread ",
                     index + 1, " of ", threads, ": ",
                     systemError("pthread_create", error).message());
    }
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  ending = true;
  round.fetch_add(1, std::memory_order_release);
  round.notify_all();
  for (Worker &worker : workers)
    pthread_join(worker.thread, nullptr);
}

void *ThreadPool::threadMain(void *argument) {
  auto *worker = static_cast<Worker *>(argument);
  worker->pool->work(worker->index);
  return nullptr;
}

void ThreadPool::work(unsigned index) {
  // Not the value found at the start: the first round may have begun before
  // this thread did.
  uint32_t seen = 0;
  while (true) {
    waitWhile(round, seen, spins);
    ++seen;
    if (ending)
      return;
    function(context, index);
    if (running.fetch_sub(1, std::memory_order_acq_rel) == 1)
      running.notify_one();
  }
}

void ThreadPool::runErased(Function newFunction, const void *newContext) {
  if (workers.empty())
    return newFunction(newContext, 0);
  function = newFunction;
  context = newContext;
  running.store(uint32_t(workers.size()), std::memory_order_relaxed);
  round.fetch_add(1, std::memory_order_release);
  round.notify_all();
  newFunction(newContext, 0);
  while (uint32_t left = running.load(std::memory_order_acquire))
    waitWhile(running, left, spins);
}

} // namespace tandem
