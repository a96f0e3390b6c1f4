// Rows of a planned tensor, from the source's bytes to the bytes of the output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "convert/importance_matrix.h"
#include "convert/plan.h"

namespace kda {

/// Floats [n, cols] of rows first .. first + n - 1. dst has room for them; `scratch` is the calling thread's own.
void read_rows(const PlannedTensor& tensor, int64_t first, int64_t n, float* dst, std::vector<float>& scratch);

/// Encodes rows; buffers are the calling thread's own.
class RowEncoder {
 public:
  /// importance: what the columns weigh, or nullptr; lives as long as this.
  explicit RowEncoder(const ImportanceMatrix* importance = nullptr) : importance_(importance) {}

  /// Units (PlannedTensor::unit) first .. first + n - 1 in tensor.type; dst has room for them. Throws Error(kFormat)
  /// naming the tensor and row that hold NaN or infinity, Error(kUnsupported) when the type's scales cannot hold the
  /// values, and what ImportanceMatrix::of throws.
  void encode(const PlannedTensor& tensor, int64_t first, int64_t n, std::byte* dst);

 private:
  const ImportanceMatrix* importance_;
  std::vector<float> values_;
  std::vector<float> scratch_;
};

}  // namespace kda
