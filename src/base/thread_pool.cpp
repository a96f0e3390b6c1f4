#include "base/thread_pool.h"

#include "base/error.h"
#include "base/processors.h"

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

ThreadPool::ThreadPool(int max_threads) : n_threads_(max_threads), n_processors_(available_processors()) {
  KDA_CHECK(max_threads >= 1 && max_threads <= kMaxThreads);
  workers_.reserve(static_cast<size_t>(max_threads - 1));
  for (int i = 1; i < max_threads; ++i) workers_.emplace_back([this, i] { worker(i); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  begin_phase(max_threads());
}

void ThreadPool::set_n_threads(int n) {
  KDA_CHECK(n >= 1 && n <= max_threads());
  n_threads_ = n;
}

int ThreadPool::spins(int n) const noexcept { return n <= n_processors_ ? kSpins : 0; }

void ThreadPool::begin_phase(int n) {
  const uint32_t last = phase_.load(std::memory_order_relaxed);
  phase_.store(((last >> kCountBits) + 1) << kCountBits | static_cast<uint32_t>(n), std::memory_order_release);
  phase_.notify_all();
  if (n > threads_of(last)) {
    grown_.fetch_add(1, std::memory_order_release);
    grown_.notify_all();
  }
}

void ThreadPool::run_erased(ErasedFn fn, void* context) {
  const int n = n_threads_;
  if (n == 1) return fn(context, 0, 1);
  fn_ = fn;
  context_ = context;
  running_.store(n - 1, std::memory_order_relaxed);
  begin_phase(n);
  fn(context, 0, n);
  int turns = 0;
  for (int left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire)) {
    if (++turns < spins(n)) {
      relax();
    } else {
      running_.wait(left, std::memory_order_acquire);
    }
  }
}

// A phase that a worker takes part in lasts until the worker is done, so none is missed; of the others it may see any.
void ThreadPool::worker(int thread) {
  uint32_t phase = 0;  // the last one seen
  while (true) {
    if (thread < threads_of(phase)) {
      const uint32_t seen = phase;
      const int n_spins = spins(threads_of(seen));
      for (int turns = 0; (phase = phase_.load(std::memory_order_acquire)) == seen;) {
        if (++turns < n_spins) {
          relax();
        } else {
          phase_.wait(seen, std::memory_order_acquire);
        }
      }
    } else {
      // Taken before the phase, so that one with more threads in between ends the wait.
      const uint32_t grown = grown_.load(std::memory_order_acquire);
      phase = phase_.load(std::memory_order_acquire);
      if (thread >= threads_of(phase)) grown_.wait(grown, std::memory_order_acquire);
    }
    if (thread >= threads_of(phase)) continue;
    if (stop_.load(std::memory_order_relaxed)) return;
    fn_(context_, thread, threads_of(phase));
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

}  // namespace kda
