// NumPy's .npy files, the few kinds that tools here exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace kda {

/// Reads a one-dimensional array of integers (int32, int64, uint16, uint32; little-endian).
/// Throws Error(kFormat) naming what was found instead.
[[nodiscard]] std::vector<int64_t> read_npy_ints(const std::filesystem::path& path);

/// The same from bytes; `name` is used in messages. Never reads outside `bytes`.
[[nodiscard]] std::vector<int64_t> parse_npy_ints(std::span<const std::byte> bytes, const std::string& name);

/// Writes float32 values, row-major, in the given shape. Temporary name, then rename. Throws Error(kIo), or
/// Error(kUsage) when the shape does not fit the values.
void write_npy_floats(const std::filesystem::path& path, std::span<const float> values, std::span<const int64_t> shape);

}  // namespace kda
