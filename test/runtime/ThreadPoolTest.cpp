//===- ThreadPoolTest.cpp - Threads that run one task together ------------===//

#include "runtime/cpu/ThreadPool.h"

#include "runtime/cpu/ControlGroups.h"
#include "test/runtime/TemporaryFolder.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <gtest/gtest.h>
#include <thread>

using namespace tandem;
using namespace tandem::test;

TEST(ThreadPool, EveryPartRunsOnce) {
  for (unsigned threads : {1u, 2u, 3u, 8u})
    for (uint32_t parts : {0u, 1u, 2u, 3u, 8u, 50u}) {
      auto pool = ThreadPool::create(threads);
      ASSERT_TRUE(pool.isOk()) << pool.status().message();
      EXPECT_EQ((*pool)->size(), threads);
      std::vector<unsigned> counts(parts);
      std::atomic<bool> good{true};
      for (unsigned round = 0; round < 300; ++round)
        (*pool)->run(parts, [&](uint32_t part, unsigned thread) {
          ++counts[part];
          if (thread >= threads)
            good = false;
        });
      EXPECT_EQ(counts, std::vector<unsigned>(parts, 300));
      EXPECT_TRUE(good);
    }
}

TEST(ThreadPool, AThreadRunsOnePartAtATime) {
  auto pool = ThreadPool::create(4);
  ASSERT_TRUE(pool.isOk());
  std::vector<std::atomic<unsigned>> inside(4);
  std::atomic<bool> good{true};
  for (unsigned round = 0; round < 300; ++round)
    (*pool)->run(16, [&](uint32_t, unsigned thread) {
      if (++inside[thread] != 1)
        good = false;
      --inside[thread];
    });
  EXPECT_TRUE(good);
}

TEST(ThreadPool, ResultsOfATaskAreSeenByTheNext) {
  auto pool = ThreadPool::create(4);
  ASSERT_TRUE(pool.isOk());
  std::vector<unsigned> values(4);
  for (unsigned round = 1; round <= 2000; ++round) {
    (*pool)->run(4, [&](uint32_t part, unsigned) { values[part] = round; });
    std::atomic<bool> good{true};
    (*pool)->run(4, [&](uint32_t part, unsigned) {
      if (values[(part + 1) % 4] != round)
        good = false;
    });
    ASSERT_TRUE(good) << round;
  }
}

TEST(ThreadPool, TheTimeOfAllThreadsIsKnownAtOnce) {
  auto own = [] {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
  };
  auto pool = ThreadPool::create(2);
  ASSERT_TRUE(pool.isOk());
  // Far shorter than the tick of a scheduler.
  constexpr double work = 0.0003;
  for (unsigned round = 0; round < 20; ++round) {
    std::vector<double> taken(2);
    std::atomic<unsigned> arrived{0};
    std::optional<double> before = (*pool)->processorSeconds();
    ASSERT_TRUE(before);
    (*pool)->run(2, [&](uint32_t part, unsigned) {
      // A part for each thread.
      ++arrived;
      while (arrived < 2)
        std::this_thread::yield();
      double begin = own();
      while (own() - begin < work)
        ;
      taken[part] = own() - begin;
    });
    EXPECT_GE(*(*pool)->processorSeconds() - *before, taken[0] + taken[1]);
  }
}

TEST(ThreadPool, SleepingThreadsWake) {
  auto pool = ThreadPool::create(3);
  ASSERT_TRUE(pool.isOk());
  for (unsigned round = 0; round < 5; ++round) {
    // Much longer than they spin.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    // Nobody can have two parts, because each waits for all others.
    std::atomic<unsigned> arrived{0};
    (*pool)->run(3, [&](uint32_t, unsigned) {
      ++arrived;
      while (arrived < 3)
        std::this_thread::yield();
    });
    EXPECT_EQ(arrived, 3u);
  }
}

TEST(ThreadPool, ThreadsThatAreAwayAreNotWaitedFor) {
  auto pool = ThreadPool::create(2);
  ASSERT_TRUE(pool.isOk());
  // The other thread is busy with a part of the first task ...
  std::atomic<bool> begun{false};
  std::atomic<unsigned> parts{0};
  (*pool)->run(20, [&](uint32_t, unsigned thread) {
    ++parts;
    if (thread == 1) {
      begun = true;
      while (parts < 20)
        std::this_thread::yield();
    } else {
      // ... while the caller does all others.
      while (!begun)
        std::this_thread::yield();
    }
  });
  EXPECT_EQ(parts, 20u);
}

TEST(ThreadPool, EndsWithoutHavingRun) {
  for (unsigned round = 0; round < 50; ++round)
    EXPECT_TRUE(ThreadPool::create(4).isOk());
}

TEST(ThreadPool, ThereIsACoreToUse) { EXPECT_GE(usableCores(), 1u); }

TEST(ControlGroups, QuotasAreCoresRoundedUp) {
  TemporaryFolder folder;
  EXPECT_EQ(coresOfGroup(folder.path()), std::nullopt);
  auto both = [&](const char *text) {
    folder.write("cpu.max", text);
    return coresOfGroup(folder.path());
  };
  EXPECT_EQ(both("max 100000\n"), std::nullopt);
  EXPECT_EQ(both("200000 100000\n"), 2u);
  EXPECT_EQ(both("200001 100000\n"), 3u);
  EXPECT_EQ(both("1000 100000\n"), 1u);
  EXPECT_EQ(both("5"), std::nullopt);
  EXPECT_EQ(both("18446744073709551615 1"), 1u << 20);
  // Version 1.
  TemporaryFolder old;
  old.write("cpu.cfs_period_us", "50000\n");
  old.write("cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(coresOfGroup(old.path()), std::nullopt);
  old.write("cpu.cfs_quota_us", "125000\n");
  EXPECT_EQ(coresOfGroup(old.path()), 3u);
}

TEST(ControlGroups, EveryGroupUpToTheRootCounts) {
  for (const char *controller : {"cpu", "memory"}) {
    std::vector<std::string> groups = controlGroups(controller);
    for (const std::string &group : groups)
      EXPECT_TRUE(group.starts_with("/sys/fs/cgroup")) << group;
    std::string root = "/sys/fs/cgroup", own = root + "/" + controller;
    EXPECT_TRUE(groups.empty() ||
                std::count(groups.begin(), groups.end(), root) +
                        std::count(groups.begin(), groups.end(), own) >
                    0);
  }
}
