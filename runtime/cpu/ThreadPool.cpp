//===- ThreadPool.cpp - Threads that run one task together ----------------===//

#include "runtime/cpu/ThreadPool.h"

#include "runtime/cpu/ControlGroups.h"

#include <algorithm>
#include <ctime>
#include <sched.h>
#include <unistd.h>

namespace tandem {

/// Cores that the system shows this process.
static unsigned visibleCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    if (int count = CPU_COUNT(&set); count > 0)
      return unsigned(count);
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? unsigned(online) : 1;
}

unsigned usableCores() {
  unsigned cores = visibleCores();
  // Threads in excess of a quota use it up by spinning, and all wait then.
  for (const std::string &group : controlGroups("cpu"))
    cores = std::min(cores, coresOfGroup(group).value_or(cores));
  return cores;
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

std::optional<double> ThreadPool::processorSeconds() const {
  double sum = 0;
  auto add = [&](clockid_t clock) {
    timespec time;
    if (clock_gettime(clock, &time) != 0)
      return false;
    sum += double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
    return true;
  };
  // The clock of the process shows what its other threads have taken up to the
  // last tick of the scheduler, milliseconds ago: longer than a round.
  if (!add(CLOCK_THREAD_CPUTIME_ID))
    return std::nullopt;
  for (const Worker &worker : workers) {
    clockid_t clock;
    if (pthread_getcpuclockid(worker.thread, &clock) != 0 || !add(clock))
      return std::nullopt;
  }
  return sum;
}

void *ThreadPool::threadMain(void *argument) {
  auto *worker = static_cast<Worker *>(argument);
  worker->pool->work(worker->index);
  return nullptr;
}

/// Parts of the task \p ticket, and the next one to take.
static uint32_t partsOf(uint64_t ticket) { return ticket >> 16 & 0xffff; }
static uint32_t nextOf(uint64_t ticket) { return ticket & 0xffff; }

/// Runs parts until all are taken.
void ThreadPool::takeParts(unsigned thread) {
  uint64_t seen = ticket.load(std::memory_order_acquire);
  while (nextOf(seen) < partsOf(seen)) {
    if (!ticket.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel,
                                      std::memory_order_acquire))
      continue;
    function(context, nextOf(seen), thread);
    if (done.fetch_add(1, std::memory_order_acq_rel) + 1 == partsOf(seen))
      done.notify_one();
    seen = ticket.load(std::memory_order_acquire);
  }
}

void ThreadPool::work(unsigned index) {
  // Not the value found at the start: the first round may have begun before
  // this thread did.
  uint32_t seen = 0;
  while (true) {
    waitWhile(round, seen, spins);
    seen = round.load(std::memory_order_acquire);
    if (ending)
      return;
    takeParts(index);
  }
}

void ThreadPool::runErased(uint32_t parts, Function newFunction,
                           const void *newContext) {
  assert(parts <= maxParts);
  // Waking others costs more than one part.
  if (workers.empty() || parts <= 1) {
    for (uint32_t part = 0; part < parts; ++part)
      newFunction(newContext, part, 0);
    return;
  }
  function = newFunction;
  context = newContext;
  done.store(0, std::memory_order_relaxed);
  uint32_t number = round.load(std::memory_order_relaxed) + 1;
  ticket.store(uint64_t(number) << 32 | uint64_t(parts) << 16,
               std::memory_order_release);
  round.store(number, std::memory_order_release);
  round.notify_all();
  takeParts(0);
  // What is left is in the hands of threads that have begun it.
  uint32_t count = 0;
  while ((count = done.load(std::memory_order_acquire)) != parts)
    waitWhile(done, count, spins);
}

} // namespace tandem
