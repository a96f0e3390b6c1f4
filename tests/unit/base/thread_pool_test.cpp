#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
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

}  // namespace
}  // namespace kda
