#include "base/thread_pool.h"

#include "base/cpu_features.h"
#include "base/error.h"

namespace kda {

namespace {

// About 20 us on a current core: longer than the gap between two phases of one token, far shorter than a time slice, so
// a machine that others use as well is not blocked by waiting threads.
constexpr int kSpins = 4000;

inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(int n_threads)
    : n_threads_(n_threads), spins_(n_threads <= available_processors() ? kSpins : 0) {
  KDA_CHECK(n_threads >= 1);
  workers_.reserve(static_cast<size_t>(n_threads - 1));
  for (int i = 1; i < n_threads; ++i) workers_.emplace_back([this, i] { worker(i); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  phase_.fetch_add(1, std::memory_order_release);
  phase_.notify_all();
}

void ThreadPool::run_erased(ErasedFn fn, void* context) {
  if (n_threads_ == 1) return fn(context, 0, 1);
  fn_ = fn;
  context_ = context;
  running_.store(n_threads_ - 1, std::memory_order_relaxed);
  phase_.fetch_add(1, std::memory_order_release);
  phase_.notify_all();
  fn(context, 0, n_threads_);
  int spins = 0;
  for (int left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire)) {
    if (++spins < spins_) {
      relax();
    } else {
      running_.wait(left, std::memory_order_acquire);
    }
  }
}

void ThreadPool::worker(int thread) {
  uint32_t seen = 0;
  while (true) {
    int spins = 0;
    while (phase_.load(std::memory_order_acquire) == seen) {
      if (++spins < spins_) {
        relax();
      } else {
        phase_.wait(seen, std::memory_order_acquire);
      }
    }
    ++seen;
    if (stop_.load(std::memory_order_relaxed)) return;
    fn_(context_, thread, n_threads_);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

}  // namespace kda
