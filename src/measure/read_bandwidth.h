// How fast this machine reads memory: what speeds of generation are held against.
#pragma once

#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"

namespace kda {

/// Sums a block of memory larger than caches, each thread its own part of it. Holds the block. One caller at a time.
class ReadBandwidth {
 public:
  static constexpr int64_t kBytes = int64_t{1} << 30;  // several times the last cache of most sockets

  /// Takes so many bytes, or a quarter of what is available where that is less. Throws Error(kLimit) when the system
  /// refuses.
  explicit ReadBandwidth(int n_threads, int64_t bytes = kBytes);

  /// Bytes a second of one pass.
  [[nodiscard]] double measure();
  [[nodiscard]] int64_t size_bytes() const noexcept { return static_cast<int64_t>(memory_.size_bytes()); }

 private:
  ThreadPool pool_;
  AlignedBuffer memory_;
};

}  // namespace kda
