// What a checkpoint keeps in memory of its own: converted vectors, transposed matrices, tables of pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"

namespace kda {

/// Grows only; what it hands out stays where it is. Not thread-safe while it grows.
class OwnedMemory {
 public:
  [[nodiscard]] std::span<float> floats(int64_t n) { return vector_of(floats_, n); }
  [[nodiscard]] std::span<const std::byte*> pointers(int64_t n) { return vector_of(pointers_, n); }
  /// Zero-filled and aligned to a page. Throws Error(kLimit).
  [[nodiscard]] std::span<std::byte> bytes(int64_t n) {
    const AlignedBuffer& buffer = buffers_.emplace_back(static_cast<size_t>(n));
    size_bytes_ += n;
    return {buffer.data(), buffer.size_bytes()};
  }
  [[nodiscard]] int64_t size_bytes() const noexcept { return size_bytes_; }

 private:
  template <typename T>
  std::span<T> vector_of(std::deque<std::vector<T>>& all, int64_t n) {
    size_bytes_ += n * static_cast<int64_t>(sizeof(T));
    return all.emplace_back(static_cast<size_t>(n));
  }

  std::deque<std::vector<float>> floats_;
  std::deque<std::vector<const std::byte*>> pointers_;
  std::deque<AlignedBuffer> buffers_;
  int64_t size_bytes_ = 0;
};

}  // namespace kda
