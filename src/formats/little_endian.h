// Numbers at any address of a little-endian file.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>

namespace kda {

static_assert(std::endian::native == std::endian::little, "the file formats are read in place, as little-endian");

/// The T whose bytes begin at p; sizeof(T) bytes must be readable.
template <typename T>
[[nodiscard]] T load_le(const std::byte* p) noexcept {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

}  // namespace kda
