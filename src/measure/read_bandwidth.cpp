#include "measure/read_bandwidth.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>

#include "base/cpu_features.h"

namespace kda {

namespace {

// Streams that a thread reads side by side: enough to keep a core's line fill buffers busy where its prefetcher follows
// one stream too timidly.
constexpr size_t kStreams = 4;
constexpr size_t kLineWords = 8;  // 64 bytes
constexpr size_t kWordsAtATime = kStreams * kLineWords;

size_t whole_lines(int64_t bytes) {
  const auto fits = static_cast<size_t>(std::clamp<int64_t>(available_memory_bytes() / 4, 0, bytes));
  return fits / (kWordsAtATime * sizeof(uint64_t)) * (kWordsAtATime * sizeof(uint64_t));
}

/// Words [begin, end) as kStreams runs of lines.
uint64_t sum(const uint64_t* begin, const uint64_t* end) {
  const size_t run = static_cast<size_t>(end - begin) / kWordsAtATime * kLineWords;
  std::array<uint64_t, kLineWords> sums{};
  for (size_t i = 0; i < run; i += kLineWords) {
    for (size_t s = 0; s < kStreams; ++s) {
      const uint64_t* line = begin + s * run + i;
      for (size_t j = 0; j < kLineWords; ++j) sums[j] += line[j];
    }
  }
  uint64_t total = 0;
  for (const uint64_t x : sums) total += x;
  return total;
}

}  // namespace

ReadBandwidth::ReadBandwidth(int n_threads, int64_t bytes) : pool_(n_threads), memory_(whole_lines(bytes)) {
#ifdef MADV_HUGEPAGE
  // A wish that may be refused: small pages cost faults and translations, and the rate is meant as a ceiling.
  static_cast<void>(madvise(memory_.data(), memory_.size_bytes(), MADV_HUGEPAGE));
#endif
  // Pages that nobody wrote to are all the same one, which would stay in the cache.
  const auto n = static_cast<size_t>(n_threads);
  pool_.for_each(n_threads, [&](int64_t part, int) {
    const size_t begin = memory_.size_bytes() * static_cast<size_t>(part) / n;
    const size_t end = memory_.size_bytes() * static_cast<size_t>(part + 1) / n;
    std::memset(memory_.data() + begin, static_cast<int>(part + 1), end - begin);
  });
}

double ReadBandwidth::measure() {
  const size_t n_words = memory_.size_bytes() / sizeof(uint64_t);
  const uint64_t* words = memory_.as<const uint64_t>(n_words).data();
  std::atomic<uint64_t> total{0};  // used, so that the reading is
  std::atomic<size_t> read{0};
  const auto begin = std::chrono::steady_clock::now();
  const size_t share = n_words / static_cast<size_t>(pool_.n_threads()) / kWordsAtATime * kWordsAtATime;
  pool_.for_each(pool_.n_threads(), [&](int64_t i, int) {
    const uint64_t* const part = words + static_cast<size_t>(i) * share;
    total += sum(part, part + share);
    read += share * sizeof(uint64_t);
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return total.load() == 0 ? 0 : static_cast<double>(read.load()) / seconds;
}

}  // namespace kda
