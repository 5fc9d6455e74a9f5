//===- ThreadPool.h - Threads that run one task together --------*- C++ -*-===//
//
// A fixed set of threads that run the same task at the same time, made for
// tasks of a few microseconds that follow each other closely: a thread that
// has nothing to do spins for a moment before it sleeps. The thread that calls
// run() takes part as thread 0. One thread at a time calls run().
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CPU_THREADPOOL_H
#define TANDEM_RUNTIME_CPU_THREADPOOL_H

#include "runtime/Status.h"

#include <atomic>
#include <memory>
#include <pthread.h>
#include <vector>

namespace tandem {

/// Cores this process may use, at least 1.
unsigned usableCores();

class ThreadPool {
public:
  /// A pool of \p threads (at least 1), the caller among them. Fails when the
  /// system does not give as many.
  static StatusOr<std::unique_ptr<ThreadPool>> create(unsigned threads);

  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;
  /// Ends and joins the threads.
  ~ThreadPool();

  /// Number of threads, the caller of run() among them.
  unsigned size() const { return unsigned(workers.size()) + 1; }

  /// Calls `task(thread)` once on every thread, thread in [0, size()), and
  /// returns when all have returned.
  template <typename Task> void run(const Task &task) {
    runErased(
        [](const void *context, unsigned thread) {
          (*static_cast<const Task *>(context))(thread);
        },
        &task);
  }

private:
  using Function = void (*)(const void *context, unsigned thread);

  struct Worker {
    ThreadPool *pool;
    unsigned index;
    pthread_t thread;
  };

  ThreadPool() = default;
  static void *threadMain(void *worker);
  void runErased(Function function, const void *context);
  void work(unsigned index);

  /// Never moved once its thread runs.
  std::vector<Worker> workers;
  unsigned spins = 0;

  // Written by run() before `round` is raised, read by the workers after.
  Function function = nullptr;
  const void *context = nullptr;
  bool ending = false;

  // Each on its own cache line: the workers write one, the caller the other.
  alignas(64) std::atomic<uint32_t> round{0};
  alignas(64) std::atomic<uint32_t> running{0};
};

} // namespace tandem

#endif // TANDEM_RUNTIME_CPU_THREADPOOL_H
