// A fixed set of threads that run short phases in step.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace kda {

/// Numbers of threads include the calling one. Workers spin for a short while after a phase, then sleep, so that phases
/// in quick succession cost little and an idle engine costs nothing. A phase is over when its work is done, whether or
/// not every worker got a processor in time: beside other busy programs that can take a time slice. One caller at a
/// time; for_each() allocates nothing.
class ThreadPool {
 public:
  /// In [1, 65534]; phases run on all of them until set_n_threads().
  explicit ThreadPool(int max_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int max_threads() const noexcept { return static_cast<int>(workers_.size()) + 1; }
  /// Threads that a phase runs on, at most.
  [[nodiscard]] int n_threads() const noexcept { return n_threads_; }
  /// From now on phases run on the first n threads, n in [1, max_threads()]. The others sleep on.
  void set_n_threads(int n);

  /// Calls f(i, thread) for every i in [0, n), thread in [0, n_threads()). A thread goes through a share of its own in
  /// order, so that memory is read on where it was left, and then helps with the others. Any order, so each i must own
  /// its output. f must not throw.
  template <typename F>
  void for_each(int64_t n, F&& f) {
    if (n <= 1 || n_threads_ == 1) {
      for (int64_t i = 0; i < n; ++i) f(i, 0);
      return;
    }
    const int n_threads = n_threads_;
    for (int64_t t = 0; t < n_threads; ++t) {
      shares_[static_cast<size_t>(t)].next.store(n * t / n_threads, std::memory_order_relaxed);
      shares_[static_cast<size_t>(t)].end = n * (t + 1) / n_threads;
    }
    const auto work = [&](int thread) {
      for (int k = 0; k < n_threads; ++k) {
        Share& share = shares_[static_cast<size_t>((thread + k) % n_threads)];
        for (int64_t i = share.next.fetch_add(1, std::memory_order_relaxed); i < share.end;
             i = share.next.fetch_add(1, std::memory_order_relaxed)) {
          f(i, thread);
        }
      }
    };
    run([](const void* context, int thread) { (*static_cast<decltype(&work)>(context))(thread); }, &work);
  }

 private:
  /// Of the i of for_each, which one thread takes first.
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  using Work = void (*)(const void* context, int thread);
  /// Calls work on this thread and on the workers that come before it has returned here.
  void run(Work work, const void* context);
  void worker(int thread);

  // The value of phase_: the number of threads that a phase runs on, below a count that makes it differ from the last.
  static constexpr int kCountBits = 16;
  static constexpr int kMaxThreads = (1 << kCountBits) - 2;
  static constexpr uint32_t kStop = UINT32_MAX;
  [[nodiscard]] static int threads_of(uint32_t phase) noexcept {
    return static_cast<int>(phase & ((1U << kCountBits) - 1));
  }
  void announce(uint32_t phase);
  /// Turns of waiting in a loop for a phase on n threads: none where they have to share processors.
  [[nodiscard]] int spins(int n) const noexcept;

  // The value of gate_: the phase in the upper half, then whether it is over, then the number of workers that came.
  static constexpr int kPhaseShift = 32;
  static constexpr uint64_t kClosed = uint64_t{1} << 31;

  int n_threads_;
  int n_processors_;
  Work work_ = nullptr;
  const void* context_ = nullptr;
  std::atomic<uint64_t> gate_{kClosed};
  std::atomic<uint32_t> phase_{0};   // a change wakes the workers of the last phase
  std::atomic<uint32_t> grown_{0};   // counts phases on more threads than the last; a change wakes the other workers
  std::atomic<uint32_t> left_{0};    // workers that came to the phase and are done
  std::unique_ptr<Share[]> shares_;  // [max_threads]
  std::vector<std::jthread> workers_;
};

}  // namespace kda
