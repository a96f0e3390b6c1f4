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

TEST(ThreadPool, EveryThreadRunsEachPhaseOnce) {
  for (int n : {1, 2, 3, 7}) {
    ThreadPool pool(n);
    std::vector<int> calls(static_cast<size_t>(n));
    for (int phase = 0; phase < 1000; ++phase) {
      pool.run([&](int thread, int threads) {
        ASSERT_EQ(threads, n);
        ++calls[static_cast<size_t>(thread)];
      });
    }
    for (int c : calls) EXPECT_EQ(c, 1000);
  }
}

TEST(ThreadPool, ForEachCoversEveryIndexOnce) {
  ThreadPool pool(3);
  for (int64_t n : {0, 1, 2, 5, 1000}) {
    std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
    pool.for_each(n, [&](int64_t i) { seen[static_cast<size_t>(i)]++; });
    for (auto& s : seen) EXPECT_EQ(s.load(), 1);
  }
}

TEST(ThreadPool, WorkersWakeAfterSleeping) {
  ThreadPool pool(2);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> calls{0};
    pool.run([&](int, int) { calls++; });
    EXPECT_EQ(calls.load(), 2);
  }
}

TEST(ThreadPool, APhaseRunsOnTheFirstThreadsOnly) {
  ThreadPool pool(4);
  EXPECT_EQ(pool.max_threads(), 4);
  EXPECT_EQ(pool.n_threads(), 4);
  std::vector<int> calls(4);
  std::vector<int> expected(4);
  // Every change of the number, at once and after workers went to sleep.
  for (int round = 0; round < 2000; ++round) {
    const int n = 1 + round * round / 3 % 4;
    pool.set_n_threads(n);
    if (round % 500 == 499) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    for (int phase = 0; phase <= round % 3; ++phase) {
      pool.run([&](int thread, int threads) {
        ASSERT_EQ(threads, n);
        ++calls[static_cast<size_t>(thread)];
      });
      for (int i = 0; i < n; ++i) ++expected[static_cast<size_t>(i)];
    }
    ASSERT_EQ(calls, expected) << "round " << round;
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
  pool.run([&](int thread, int) { ids[static_cast<size_t>(thread)] = ::gettid(); });
  pool.set_n_threads(2);
  pool.run([](int, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it notices that it is not wanted
  const int64_t before = times_asleep(ids[2]);
  if (before < 0) GTEST_SKIP() << "/proc does not count context switches";
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the second thread sleeps, and is woken
    pool.run([](int, int) {});
  }
  EXPECT_EQ(times_asleep(ids[2]), before);
  pool.set_n_threads(3);
  std::atomic<int> calls{0};
  pool.run([&](int, int) { calls++; });
  EXPECT_EQ(calls.load(), 3);
}

}  // namespace
}  // namespace kda
