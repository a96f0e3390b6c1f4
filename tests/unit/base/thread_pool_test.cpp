#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace kda {
namespace {

/// Returns when n threads are in it, each with a number of its own below n; false after ten seconds.
bool all_meet(ThreadPool& pool, int n) {
  std::vector<std::atomic<int>> calls(static_cast<size_t>(n));
  std::atomic<int> inside{0};
  std::atomic<bool> late{false};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  pool.for_each(n, [&](int64_t, int thread) {
    calls.at(static_cast<size_t>(thread))++;
    inside++;
    while (inside.load() < n && !late.load()) {
      std::this_thread::yield();
      if (std::chrono::steady_clock::now() > deadline) late = true;
    }
  });
  for (const auto& c : calls) {
    if (c.load() != 1) return false;
  }
  return true;
}

TEST(ThreadPool, EveryThreadComesToLongPhases) {
  for (int n : {1, 2, 3, 7}) {
    ThreadPool pool(n);
    for (int phase = 0; phase < 20; ++phase) ASSERT_TRUE(all_meet(pool, n)) << n << " threads";
  }
}

TEST(ThreadPool, ForEachCoversEveryIndexOnce) {
  ThreadPool pool(3);
  for (int64_t n : {0, 1, 2, 5, 1000}) {
    std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
    pool.for_each(n, [&](int64_t i, int) { seen[static_cast<size_t>(i)]++; });
    for (auto& s : seen) EXPECT_EQ(s.load(), 1);
  }
}

TEST(ThreadPool, WhatAPhaseWroteIsThereWhenItEnds) {
  ThreadPool pool(4);
  std::vector<int> values(64);
  for (int phase = 0; phase < 5000; ++phase) {
    pool.set_n_threads(1 + phase / 7 % 4);
    pool.for_each(64, [&](int64_t i, int) { ++values[static_cast<size_t>(i)]; });
    ASSERT_EQ(values, std::vector<int>(64, phase + 1));
  }
}

TEST(ThreadPool, WorkersWakeAfterSleeping) {
  ThreadPool pool(2);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(all_meet(pool, 2));
  }
}

TEST(ThreadPool, APhaseRunsOnTheFirstThreadsOnly) {
  ThreadPool pool(4);
  EXPECT_EQ(pool.max_threads(), 4);
  EXPECT_EQ(pool.n_threads(), 4);
  // Every change of the number, at once and after workers went to sleep.
  for (int round = 0; round < 100; ++round) {
    const int n = 1 + round * round / 3 % 4;
    pool.set_n_threads(n);
    EXPECT_EQ(pool.n_threads(), n);
    if (round % 25 == 24) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    for (int phase = 0; phase <= round % 3; ++phase) ASSERT_TRUE(all_meet(pool, n)) << "round " << round;
  }
}

/// How often a thread of this process went to sleep, or -1 where the system does not say.
int64_t times_asleep(int thread_id) {
  std::ifstream in("/proc/self/task/" + std::to_string(thread_id) + "/status");
  for (std::string key; in >> key; in.ignore(1000, '\n')) {
    int64_t n = -1;
    if (key == "voluntary_ctxt_switches:" && in >> n) return n;
  }
  return -1;
}

TEST(ThreadPool, OtherThreadsSleepThroughSmallerPhases) {
  ThreadPool pool(3);
  std::vector<int> ids(3);
  std::atomic<int> inside{0};
  pool.for_each(3, [&](int64_t, int thread) {
    ids[static_cast<size_t>(thread)] = ::gettid();
    inside++;
    while (inside.load() < 3) std::this_thread::yield();
  });
  pool.set_n_threads(2);
  ASSERT_TRUE(all_meet(pool, 2));
  if (times_asleep(ids[2]) < 0) GTEST_SKIP() << "/proc does not count context switches";
  bool slept = false;
  for (int attempt = 0; attempt < 5 && !slept; ++attempt) {  // on a busy machine it notices late that it is not wanted
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const int64_t before = times_asleep(ids[2]);
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the second thread sleeps, and is woken
      ASSERT_TRUE(all_meet(pool, 2));
    }
    slept = times_asleep(ids[2]) == before;
  }
  EXPECT_TRUE(slept);
  pool.set_n_threads(3);
  EXPECT_TRUE(all_meet(pool, 3));
}

}  // namespace
}  // namespace kda
