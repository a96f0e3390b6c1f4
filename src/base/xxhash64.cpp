#include "base/xxhash64.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kda {

namespace {

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87U;
constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4FU;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9U;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63U;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5U;

template <typename T>
uint64_t load(const std::byte* p) noexcept {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

constexpr uint64_t mix(uint64_t lane, uint64_t input) noexcept {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

}  // namespace

void XxHash64::take_stripe(const std::byte* p) noexcept {
  for (size_t i = 0; i < lanes_.size(); ++i) lanes_[i] = mix(lanes_[i], load<uint64_t>(p + 8 * i));
}

void XxHash64::update(std::span<const std::byte> bytes) noexcept {
  n_bytes_ += bytes.size();
  if (n_tail_ > 0) {
    const size_t n = std::min(bytes.size(), tail_.size() - n_tail_);
    std::copy_n(bytes.data(), n, tail_.data() + n_tail_);
    n_tail_ += n;
    bytes = bytes.subspan(n);
    if (n_tail_ < tail_.size()) return;
    take_stripe(tail_.data());
    n_tail_ = 0;
  }
  for (; bytes.size() >= tail_.size(); bytes = bytes.subspan(tail_.size())) take_stripe(bytes.data());
  n_tail_ = bytes.size();
  std::copy_n(bytes.data(), n_tail_, tail_.data());
}

uint64_t XxHash64::digest() const noexcept {
  uint64_t h = kPrime5;
  if (n_bytes_ >= tail_.size()) {
    h = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) + std::rotl(lanes_[3], 18);
    for (const uint64_t lane : lanes_) h = (h ^ mix(0, lane)) * kPrime1 + kPrime4;
  }
  h += n_bytes_;
  size_t at = 0;
  for (; at + 8 <= n_tail_; at += 8) {
    h = std::rotl(h ^ mix(0, load<uint64_t>(tail_.data() + at)), 27) * kPrime1 + kPrime4;
  }
  if (at + 4 <= n_tail_) {
    h = std::rotl(h ^ load<uint32_t>(tail_.data() + at) * kPrime1, 23) * kPrime2 + kPrime3;
    at += 4;
  }
  for (; at < n_tail_; ++at) h = std::rotl(h ^ load<uint8_t>(tail_.data() + at) * kPrime5, 11) * kPrime1;
  h = (h ^ (h >> 33)) * kPrime2;
  h = (h ^ (h >> 29)) * kPrime3;
  return h ^ (h >> 32);
}

uint64_t xxhash64(std::span<const std::byte> bytes) noexcept {
  XxHash64 hash;
  hash.update(bytes);
  return hash.digest();
}

}  // namespace kda
