#include "convert/row_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "quant/codec.h"

namespace kda {

namespace {

/// Rows [first, first + n) of a piece that is stored as [cols, rows]; dst [n, cols].
void read_transposed(TensorType type, const std::byte* piece, int64_t rows, int64_t cols, int64_t first, int64_t n,
                     float* dst, std::vector<float>& scratch) {
  scratch.resize(static_cast<size_t>(rows));
  const int64_t bytes = row_bytes(type, rows);
  for (int64_t c = 0; c < cols; ++c) {
    dequantize_row(type, piece + c * bytes, scratch.data(), rows);
    for (int64_t r = 0; r < n; ++r) dst[r * cols + c] = scratch[static_cast<size_t>(first + r)];
  }
}

/// The matrix of a stack that a row belongs to; 0 for plain tensors.
int64_t matrix_of(const PlannedTensor& tensor, int64_t row) noexcept {
  return tensor.ne.size() > 2 ? row / tensor.ne[1] : 0;
}

[[noreturn]] void refuse_values(const PlannedTensor& tensor, int64_t row) {
  fail(ErrorCode::kFormat, "tensor {} holds NaN or infinity in row {}, expected finite numbers", tensor.name, row);
}

/// Blocks first .. first + n - 1 as they are.
void copy_blocks(const PlannedTensor& tensor, int64_t first, int64_t n, std::byte* dst) {
  const TensorTypeInfo& type = type_info(tensor.type);
  const int64_t piece_blocks = tensor.n_units() / static_cast<int64_t>(tensor.source.pieces.size());
  for (const int64_t end = first + n; first < end;) {
    const int64_t at = first % piece_blocks;
    const int64_t run = std::min(piece_blocks - at, end - first);
    const std::byte* src = tensor.source.pieces[static_cast<size_t>(first / piece_blocks)] + at * type.block_bytes;
    if (const int64_t bad = find_non_finite_block(tensor.type, src, run * type.block_elements); bad >= 0) {
      refuse_values(tensor, (first + bad) * type.block_elements / tensor.cols());
    }
    std::memcpy(dst, src, static_cast<size_t>(run * type.block_bytes));
    dst += run * type.block_bytes;
    first += run;
  }
}

}  // namespace

void read_rows(const PlannedTensor& tensor, int64_t first, int64_t n, float* dst, std::vector<float>& scratch) {
  const RowSource& source = tensor.source;
  const int64_t cols = tensor.cols();
  const int64_t piece_rows = tensor.n_rows() / static_cast<int64_t>(source.pieces.size());
  float* const begin = dst;
  for (const int64_t end = first + n; first < end;) {
    const std::byte* piece = source.pieces[static_cast<size_t>(first / piece_rows)];
    const int64_t row = first % piece_rows;
    const int64_t run = std::min(piece_rows - row, end - first);
    if (source.transform == RowTransform::kTranspose) {
      read_transposed(source.type, piece, piece_rows, cols, row, run, dst, scratch);
    } else {
      dequantize_row(source.type, piece + row * row_bytes(source.type, cols), dst, run * cols);
    }
    first += run;
    dst += run * cols;
  }
  if (source.transform == RowTransform::kNegExp) {
    // In double, as the loader of folders does it.
    for (float* x = begin; x != dst; ++x) *x = static_cast<float>(-std::exp(static_cast<double>(*x)));
  }
}

void RowEncoder::encode(const PlannedTensor& tensor, int64_t first, int64_t n, std::byte* dst) {
  if (tensor.verbatim()) {
    copy_blocks(tensor, first, n, dst);
    return;
  }
  const int64_t cols = tensor.cols();
  const int64_t out_bytes = row_bytes(tensor.type, cols);
  values_.resize(static_cast<size_t>(n * cols));
  read_rows(tensor, first, n, values_.data(), scratch_);
  for (int64_t r = 0; r < n; ++r, dst += out_bytes) {
    const float* row = values_.data() + r * cols;
    if (find_non_finite(row, cols) >= 0) refuse_values(tensor, first + r);
    std::span<const float> weights;
    if (importance_ != nullptr && tensor.quantisable()) {
      weights = importance_->of(tensor.name, matrix_of(tensor, first + r), cols);
    }
    quantize_row(tensor.type, row, dst, cols, weights.empty() ? nullptr : weights.data());
    if (find_non_finite_block(tensor.type, dst, cols) >= 0) {
      fail(ErrorCode::kUnsupported,
           "tensor {}: row {} holds values too large for type {}, choose another with --tensor-type", tensor.name,
           first + r, type_info(tensor.type).name);
    }
  }
}

}  // namespace kda
