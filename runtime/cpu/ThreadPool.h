//===- ThreadPool.h - Threads that run one task together --------*- C++ -*-===//
//
// A fixed set of threads that share the parts of a task, made for tasks of a
// few microseconds that follow each other closely: a thread that has nothing to
// do spins for a moment before it sleeps.
//
// Threads take parts as they come. Nobody waits for a thread that has taken
// none: where the system gives a core to somebody else, a task takes longer by
// the parts that are lost, not until that thread has its turn again. The thread
// that calls run() takes part as thread 0. One thread at a time calls run().
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CPU_THREADPOOL_H
#define TANDEM_RUNTIME_CPU_THREADPOOL_H

#include "runtime/Status.h"

#include <atomic>
#include <memory>
#include <optional>
#include <pthread.h>
#include <vector>

namespace tandem {

/// Cores this process may use, at least 1: those it is bound to, and no more
/// than its control groups give it the time of.
unsigned usableCores();

class ThreadPool {
public:
  /// Most parts of a task.
  static constexpr uint32_t maxParts = 0xffff;

  /// A pool of \p threads (at least 1), the caller among them. Fails when the
  /// system does not give as many.
  static StatusOr<std::unique_ptr<ThreadPool>> create(unsigned threads);

  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;
  /// Ends and joins the threads.
  ~ThreadPool();

  /// Number of threads, the caller of run() among them.
  unsigned size() const { return unsigned(workers.size()) + 1; }

  /// Processor time that the calling thread and all others have taken so far,
  /// in seconds; none when the system does not say.
  std::optional<double> processorSeconds() const;

  /// Calls `task(part, thread)` once for every part in [0, \p parts), at most
  /// maxParts, on whichever threads there are, thread in [0, size()), and
  /// returns when all have returned.
  template <typename Task> void run(uint32_t parts, const Task &task) {
    runErased(
        parts,
        [](const void *context, uint32_t part, unsigned thread) {
          (*static_cast<const Task *>(context))(part, thread);
        },
        &task);
  }

private:
  using Function = void (*)(const void *context, uint32_t part,
                            unsigned thread);

  struct Worker {
    ThreadPool *pool;
    unsigned index;
    pthread_t thread;
  };

  ThreadPool() = default;
  static void *threadMain(void *worker);
  void runErased(uint32_t parts, Function function, const void *context);
  void work(unsigned index);
  void takeParts(unsigned thread);

  /// Never moved once its thread runs.
  std::vector<Worker> workers;
  unsigned spins = 0;

  // Written by run() while no part is left to take; read by those who took one,
  // before they say that it is done.
  Function function = nullptr;
  const void *context = nullptr;
  std::atomic<bool> ending{false};

  // Each on a cache line of its own: they are written by different threads.
  /// The number of the task (upper 32 bits), its parts and the next one that
  /// nobody has taken (16 bits each). Whoever raises the last number owns the
  /// part, and the task cannot end before that part is done.
  alignas(64) std::atomic<uint64_t> ticket{0};
  /// The number of the task once more, to sleep on.
  alignas(64) std::atomic<uint32_t> round{0};
  /// Parts of the task that are done.
  alignas(64) std::atomic<uint32_t> done{0};
};

} // namespace tandem

#endif // TANDEM_RUNTIME_CPU_THREADPOOL_H
