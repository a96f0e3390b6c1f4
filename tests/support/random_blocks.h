// Random weights in any tensor type: every code and sub-scale can occur, block scales stay moderate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>

#include "quant/tensor_type.h"

namespace kda::test {

/// Offsets of the f16 fields of a block that scale its elements or its minima, the scale first.
[[nodiscard]] std::span<const int64_t> f16_scale_offsets(TensorType type);

/// Writes a row of n elements. Elements are mostly within [-30, 30].
void fill_random_row(TensorType type, int64_t n, std::mt19937& random, std::byte* row);

}  // namespace kda::test
