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
  shares_ = std::make_unique<Share[]>(static_cast<size_t>(max_threads));
  workers_.reserve(static_cast<size_t>(max_threads - 1));
  for (int i = 1; i < max_threads; ++i) workers_.emplace_back([this, i] { worker(i); });
}

ThreadPool::~ThreadPool() { announce(kStop); }

void ThreadPool::set_n_threads(int n) {
  KDA_CHECK(n >= 1 && n <= max_threads());
  n_threads_ = n;
}

int ThreadPool::spins(int n) const noexcept { return n <= n_processors_ ? kSpins : 0; }

void ThreadPool::announce(uint32_t phase) {
  const uint32_t last = phase_.exchange(phase, std::memory_order_acq_rel);
  phase_.notify_all();
  if (threads_of(phase) > threads_of(last)) {
    grown_.fetch_add(1, std::memory_order_release);
    grown_.notify_all();
  }
}

void ThreadPool::run(Work work, const void* context) {
  const int n = n_threads_;
  const uint32_t last = phase_.load(std::memory_order_relaxed);
  const uint32_t phase = ((last >> kCountBits) + 1) << kCountBits | static_cast<uint32_t>(n);
  work_ = work;
  context_ = context;
  left_.store(0, std::memory_order_relaxed);
  gate_.store(uint64_t{phase} << kPhaseShift, std::memory_order_release);
  announce(phase);
  work(context, 0);
  // Who comes from now on finds nothing to do, so that only those inside count.
  const uint64_t came = gate_.fetch_or(kClosed, std::memory_order_acq_rel) & (kClosed - 1);
  const int n_spins = spins(n);
  int turns = 0;
  for (uint32_t left = left_.load(std::memory_order_acquire); left != came;
       left = left_.load(std::memory_order_acquire)) {
    if (++turns < n_spins) {
      relax();
    } else {
      left_.wait(left, std::memory_order_acquire);
    }
  }
}

void ThreadPool::worker(int thread) {
  uint32_t phase = 0;  // the last one seen; some may be missed
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
    if (phase == kStop) return;
    if (thread >= threads_of(phase)) continue;
    const uint64_t gate = gate_.fetch_add(1, std::memory_order_acq_rel);
    if ((gate & kClosed) != 0) continue;
    phase = static_cast<uint32_t>(gate >> kPhaseShift);  // another than announced where this worker was late
    if (thread < threads_of(phase)) work_(context_, thread);
    left_.fetch_add(1, std::memory_order_release);
    left_.notify_one();
  }
}

}  // namespace kda
