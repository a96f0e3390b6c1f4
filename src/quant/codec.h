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

/// Encodes n floats for the least squared error (no importance matrix). Values must be finite and
/// can_quantize(type) true.
void quantize_row(TensorType type, const float* src, std::byte* dst, int64_t n) noexcept;

}  // namespace kda
