// Views of weight matrices in any tensor type. Views never own: the checkpoint that holds the mapping outlives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/tensor_type.h"

namespace kda {

/// A matrix [rows, cols], row-major; rows follow each other without padding and start at any address.
struct QMatView {
  TensorType type = TensorType::kF32;
  const std::byte* data = nullptr;
  int64_t rows = 0;  // outputs
  int64_t cols = 0;  // inputs, a multiple of the block length
  int64_t row_bytes = 0;

  explicit operator bool() const noexcept { return data != nullptr; }
};

/// n() matrices of one shape and type, anywhere in memory: the experts of a layer, or the heads of an absorbed
/// projection.
struct QMatsView {
  TensorType type = TensorType::kF32;
  std::span<const std::byte* const> data;  // first byte of each matrix
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_bytes = 0;

  [[nodiscard]] int64_t n() const noexcept { return static_cast<int64_t>(data.size()); }
  [[nodiscard]] QMatView operator[](int64_t i) const noexcept {
    return {type, data[static_cast<size_t>(i)], rows, cols, row_bytes};
  }
  explicit operator bool() const noexcept { return !data.empty(); }
};

}  // namespace kda
