// A fixed set of threads that run short phases in step.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace kda {

/// n_threads() includes the calling thread. Workers spin for a short while after a phase, then sleep, so that phases in
/// quick succession cost little and an idle engine costs nothing. One caller at a time; run() allocates nothing.
class ThreadPool {
 public:
  /// n_threads >= 1.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int n_threads() const noexcept { return n_threads_; }

  /// Calls f(thread, n_threads) on every thread and returns when all are done. f must not throw.
  template <typename F>
  void run(F&& f) {
    using Fn = std::remove_reference_t<F>;
    run_erased([](void* p, int thread, int n) { (*static_cast<Fn*>(p))(thread, n); },
               const_cast<void*>(static_cast<const void*>(&f)));
  }

  /// Calls f(i) for every i in [0, n); threads take the next i as they get free. Any order, so each i must own its
  /// output.
  template <typename F>
  void for_each(int64_t n, F&& f) {
    if (n <= 0) return;
    if (n == 1 || n_threads_ == 1) {
      for (int64_t i = 0; i < n; ++i) f(i);
      return;
    }
    next_.store(0, std::memory_order_relaxed);
    run([&](int, int) {
      for (int64_t i = next_.fetch_add(1, std::memory_order_relaxed); i < n;
           i = next_.fetch_add(1, std::memory_order_relaxed)) {
        f(i);
      }
    });
  }

 private:
  using ErasedFn = void (*)(void*, int, int);
  void run_erased(ErasedFn fn, void* context);
  void worker(int thread);

  int n_threads_;
  int spins_;  // none where threads have to share a processor
  ErasedFn fn_ = nullptr;
  void* context_ = nullptr;
  std::atomic<uint32_t> phase_{0};  // counts phases; a change wakes the workers
  std::atomic<int> running_{0};     // workers that have not finished the current phase
  std::atomic<int64_t> next_{0};    // of for_each
  std::atomic<bool> stop_{false};
  std::vector<std::jthread> workers_;
};

}  // namespace kda
