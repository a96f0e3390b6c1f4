// Scalar definition of every block format: what the bytes stand for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/tensor_type.h"

namespace kda {

/// Writes the n floats that a row stands for, bit for bit as the format defines them. n is a multiple of the block
/// length; src may be unaligned. type must be a weight type (type_info(type).is_weight). Thread-safe.
void dequantize_row(TensorType type, const std::byte* src, float* dst, int64_t n) noexcept;

/// Index of the first block whose scale fields (or floats) are not finite, or -1. Same requirements as above.
[[nodiscard]] int64_t find_non_finite_block(TensorType type, const std::byte* src, int64_t n) noexcept;

/// True when quantize_row can write this type.
[[nodiscard]] bool can_quantize(TensorType type) noexcept;

/// Encodes n floats for the least squared error, each weighted by importance[i]: non-negative weights of the columns,
/// such as the mean squared activation that meets them. Null means that all count the same; so do blocks whose weights
/// are all zero. n is a multiple of the block length, values and importance are finite, can_quantize(type) is true, dst
/// may be unaligned. The bytes depend on nothing but the arguments. Thread-safe.
void quantize_row(TensorType type, const float* src, std::byte* dst, int64_t n,
                  const float* importance = nullptr) noexcept;

/// Index of the first value that is infinite or not a number, or -1: what a caller refuses before quantize_row.
[[nodiscard]] int64_t find_non_finite(const float* values, int64_t n) noexcept;

}  // namespace kda
