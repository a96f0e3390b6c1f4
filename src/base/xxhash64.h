// XXH64 with seed 0, by Yann Collet's specification: a fast checksum against accidents, not against forgers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace kda {

/// Takes the bytes in any cuts. One thread at a time.
class XxHash64 {
 public:
  void update(std::span<const std::byte> bytes) noexcept;
  /// Of all bytes so far; more may follow.
  [[nodiscard]] uint64_t digest() const noexcept;

 private:
  static constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87U;
  static constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4FU;

  void take_stripe(const std::byte* p) noexcept;

  std::array<uint64_t, 4> lanes_{kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
  std::array<std::byte, 32> tail_{};  // bytes that do not fill a stripe yet
  size_t n_tail_ = 0;
  uint64_t n_bytes_ = 0;
};

/// Of one run of bytes.
[[nodiscard]] uint64_t xxhash64(std::span<const std::byte> bytes) noexcept;

}  // namespace kda
