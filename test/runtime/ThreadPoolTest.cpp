//===- ThreadPoolTest.cpp - Threads that run one task together ------------===//

#include "runtime/cpu/ThreadPool.h"

#include <chrono>
#include <gtest/gtest.h>
#include <thread>

using namespace tandem;

TEST(ThreadPool, EveryThreadRunsEachTaskOnce) {
  for (unsigned threads : {1u, 2u, 3u, 8u}) {
    auto pool = ThreadPool::create(threads);
    ASSERT_TRUE(pool.isOk()) << pool.status().message();
    EXPECT_EQ((*pool)->size(), threads);
    std::vector<unsigned> counts(threads);
    for (unsigned round = 0; round < 2000; ++round)
      (*pool)->run([&](unsigned thread) { ++counts[thread]; });
    EXPECT_EQ(counts, std::vector<unsigned>(threads, 2000));
  }
}

TEST(ThreadPool, ResultsOfATaskAreSeenByTheNext) {
  auto pool = ThreadPool::create(4);
  ASSERT_TRUE(pool.isOk());
  std::vector<unsigned> values(4);
  for (unsigned round = 1; round <= 2000; ++round) {
    (*pool)->run([&](unsigned thread) { values[thread] = round; });
    std::atomic<bool> good{true};
    (*pool)->run([&](unsigned thread) {
      if (values[(thread + 1) % 4] != round)
        good = false;
    });
    ASSERT_TRUE(good) << round;
  }
}

TEST(ThreadPool, SleepingThreadsWake) {
  auto pool = ThreadPool::create(3);
  ASSERT_TRUE(pool.isOk());
  std::atomic<unsigned> calls{0};
  for (unsigned round = 0; round < 5; ++round) {
    // Much longer than they spin.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    (*pool)->run([&](unsigned) { ++calls; });
  }
  EXPECT_EQ(calls, 15u);
}

TEST(ThreadPool, EndsWithoutHavingRun) {
  for (unsigned round = 0; round < 50; ++round)
    EXPECT_TRUE(ThreadPool::create(4).isOk());
}

TEST(ThreadPool, ThereIsACoreToUse) { EXPECT_GE(usableCores(), 1u); }
