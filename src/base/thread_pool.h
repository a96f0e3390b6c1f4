// A fixed set of threads that run short phases in step.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace kda {

/// Numbers of threads include the calling one. Workers spin for a short while after a phase, then sleep, so that phases
/// in quick succession cost little and an idle engine costs nothing. One caller at a time; run() allocates nothing.
class ThreadPool {
 public:
  /// In [1, 65535]; phases run on all of them until set_n_threads().
  explicit ThreadPool(int max_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int max_threads() const noexcept { return static_cast<int>(workers_.size()) + 1; }
  /// Threads that a phase runs on.
  [[nodiscard]] int n_threads() const noexcept { return n_threads_; }
  /// From now on phases run on the first n threads, n in [1, max_threads()]. The others sleep on.
  void set_n_threads(int n);

  /// Calls f(thread, n_threads) on the first n_threads() threads and returns when all are done. f must not throw.
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

  // The value of phase_: the number of threads that a phase runs on, below a count that makes it differ from the last.
  static constexpr int kCountBits = 16;
  static constexpr int kMaxThreads = (1 << kCountBits) - 1;
  [[nodiscard]] static int threads_of(uint32_t phase) noexcept { return static_cast<int>(phase & kMaxThreads); }
  void begin_phase(int n);
  /// Turns of waiting in a loop for a phase on n threads: none where they have to share processors.
  [[nodiscard]] int spins(int n) const noexcept;

  int n_threads_;
  int n_processors_;
  ErasedFn fn_ = nullptr;
  void* context_ = nullptr;
  std::atomic<uint32_t> phase_{0};  // a change wakes the workers of the last phase
  std::atomic<int> running_{0};     // workers that have not finished the current phase
  std::atomic<uint32_t> grown_{0};  // counts phases on more threads than the last; a change wakes the other workers
  std::atomic<int64_t> next_{0};    // of for_each
  std::atomic<bool> stop_{false};
  std::vector<std::jthread> workers_;
};

}  // namespace kda
