// The product with fp32 activations for any weight type, made from the decoder of the type and the F32 product of a
// set.
#pragma once

#include <algorithm>

#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"
#include "quant/codec.h"

namespace kda {

/// Decodes 16 rows at a time into the scratch and multiplies them by kProduct, which must not use the scratch itself.
template <TensorType kType, MatmulFn kProduct>
void matmul_by_rows(const MatmulArgs& args) {
  constexpr int64_t kRows = 16;  // matmul_scratch_bytes() holds that many
  auto* rows = reinterpret_cast<float*>(args.scratch);
  for (int64_t begin = args.row_begin; begin < args.row_end; begin += kRows) {
    const int64_t n_rows = std::min(kRows, args.row_end - begin);
    for (int64_t r = 0; r < n_rows; ++r) {
      dequantize_row(kType, args.w + (begin + r) * args.w_row_bytes, rows + r * args.k, args.k);
    }
    MatmulArgs tile = args;
    tile.w = args.scratch;
    tile.w_row_bytes = args.k * 4;
    tile.row_begin = 0;
    tile.row_end = n_rows;
    tile.y = args.y + begin;
    kProduct(tile);
  }
}

/// Fills matmul_f32 for every weight type from the F32 product of a set.
template <MatmulFn kProduct>
void fill_matmul_f32(KernelTable& table) {
  const auto set = [&table](TensorType type, MatmulFn fn) { table.matmul_f32[static_cast<uint32_t>(type)] = fn; };
  using T = TensorType;
  set(T::kF32, kProduct);
  set(T::kF16, matmul_by_rows<T::kF16, kProduct>);
  set(T::kBF16, matmul_by_rows<T::kBF16, kProduct>);
  set(T::kQ4_0, matmul_by_rows<T::kQ4_0, kProduct>);
  set(T::kQ4_1, matmul_by_rows<T::kQ4_1, kProduct>);
  set(T::kQ5_0, matmul_by_rows<T::kQ5_0, kProduct>);
  set(T::kQ5_1, matmul_by_rows<T::kQ5_1, kProduct>);
  set(T::kQ8_0, matmul_by_rows<T::kQ8_0, kProduct>);
  set(T::kQ2_K, matmul_by_rows<T::kQ2_K, kProduct>);
  set(T::kQ3_K, matmul_by_rows<T::kQ3_K, kProduct>);
  set(T::kQ4_K, matmul_by_rows<T::kQ4_K, kProduct>);
  set(T::kQ5_K, matmul_by_rows<T::kQ5_K, kProduct>);
  set(T::kQ6_K, matmul_by_rows<T::kQ6_K, kProduct>);
  set(T::kIQ2_XXS, matmul_by_rows<T::kIQ2_XXS, kProduct>);
  set(T::kIQ2_XS, matmul_by_rows<T::kIQ2_XS, kProduct>);
  set(T::kIQ2_S, matmul_by_rows<T::kIQ2_S, kProduct>);
  set(T::kIQ3_XXS, matmul_by_rows<T::kIQ3_XXS, kProduct>);
  set(T::kIQ3_S, matmul_by_rows<T::kIQ3_S, kProduct>);
  set(T::kIQ1_S, matmul_by_rows<T::kIQ1_S, kProduct>);
  set(T::kIQ1_M, matmul_by_rows<T::kIQ1_M, kProduct>);
  set(T::kIQ4_NL, matmul_by_rows<T::kIQ4_NL, kProduct>);
  set(T::kIQ4_XS, matmul_by_rows<T::kIQ4_XS, kProduct>);
  set(T::kTQ1_0, matmul_by_rows<T::kTQ1_0, kProduct>);
  set(T::kTQ2_0, matmul_by_rows<T::kTQ2_0, kProduct>);
  set(T::kMXFP4, matmul_by_rows<T::kMXFP4, kProduct>);
  set(T::kNVFP4, matmul_by_rows<T::kNVFP4, kProduct>);
  set(T::kQ1_0, matmul_by_rows<T::kQ1_0, kProduct>);
  set(T::kQ2_0, matmul_by_rows<T::kQ2_0, kProduct>);
}

}  // namespace kda
