// Memory laid out once: a bump allocator that can also only measure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"

namespace kda {

/// Hands out pieces of one block of memory. A default-made arena hands out nothing but counts, so the code that lays
/// out a workspace also says, exactly, how many bytes it takes: run it once on a measuring arena and once on a real
/// one.
class Arena {
 public:
  static constexpr size_t kAlignment = 64;  // a cache line; no kernel asks for more

  /// Measures.
  Arena() = default;
  /// memory must outlive everything that is taken, be aligned to kAlignment and hold peak_bytes() of the measuring run.
  explicit Arena(std::span<std::byte> memory) : base_(memory.data()), size_bytes_(memory.size()) {}

  [[nodiscard]] bool measuring() const noexcept { return base_ == nullptr; }

  /// Room for n elements, not initialised; nullptr while measuring.
  template <typename T>
  [[nodiscard]] T* take(int64_t n) {
    const size_t begin = used_bytes_;
    used_bytes_ += (static_cast<size_t>(n) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    peak_bytes_ = std::max(peak_bytes_, used_bytes_);
    if (measuring()) return nullptr;
    KDA_CHECK(used_bytes_ <= size_bytes_);
    return reinterpret_cast<T*>(base_ + begin);
  }

  /// For memory that is used by turns: rewind(position) lets the next user begin where an earlier one did, and
  /// skip_to_peak() goes behind all of them.
  [[nodiscard]] size_t position() const noexcept { return used_bytes_; }
  void rewind(size_t position) noexcept { used_bytes_ = position; }
  void skip_to_peak() noexcept { used_bytes_ = peak_bytes_; }
  [[nodiscard]] size_t peak_bytes() const noexcept { return peak_bytes_; }

 private:
  std::byte* base_ = nullptr;
  size_t size_bytes_ = 0;
  size_t used_bytes_ = 0;
  size_t peak_bytes_ = 0;
};

}  // namespace kda
