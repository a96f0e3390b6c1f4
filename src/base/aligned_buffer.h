// Owned memory: zero-filled, aligned to a page, taken from the operating system lazily.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kda {

/// Anonymous mapping: untouched pages cost nothing. Movable, not copyable.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  /// Throws Error(kLimit) when the system refuses. bytes may be 0.
  explicit AlignedBuffer(size_t bytes);
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] size_t size_bytes() const noexcept { return size_bytes_; }

  /// The first n elements as T.
  template <typename T>
  [[nodiscard]] std::span<T> as(size_t n) const noexcept {
    return {reinterpret_cast<T*>(data_), n};
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace kda
