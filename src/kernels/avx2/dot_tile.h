// The fp32 dot products of four rows with up to three others, the inner loop of the F32 products and of attention.
#pragma once

#include "kernels/avx2/simd.h"

namespace kda::avx2 {
namespace {

/// How weights are read as floats: 8 from p, or the first n of 8 with zeros after them.
struct F32Values {
  static constexpr int64_t kBytes = 4;
  static KDA_INLINE __m256 load(const std::byte* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
  static KDA_INLINE __m256 load_first(const std::byte* p, int64_t n) {
    return avx2::load_first(reinterpret_cast<const float*>(p), n);
  }
};

/// Widths of two bytes have no masked load: the rest of a row goes through a buffer.
KDA_INLINE __m128i load_first_halves(const std::byte* p, int64_t n) {
  alignas(16) uint16_t halves[8] = {};
  for (int64_t i = 0; i < n; ++i) __builtin_memcpy(&halves[i], p + 2 * i, 2);
  return load_128(halves);
}

struct F16Values {
  static constexpr int64_t kBytes = 2;
  static KDA_INLINE __m256 load(const std::byte* p) { return _mm256_cvtph_ps(load_128(p)); }
  static KDA_INLINE __m256 load_first(const std::byte* p, int64_t n) {
    return _mm256_cvtph_ps(load_first_halves(p, n));
  }
};

struct BF16Values {
  static constexpr int64_t kBytes = 2;
  static KDA_INLINE __m256 widen(__m128i halves) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  static KDA_INLINE __m256 load(const std::byte* p) { return widen(load_128(p)); }
  static KDA_INLINE __m256 load_first(const std::byte* p, int64_t n) { return widen(load_first_halves(p, n)); }
};

/// out[t] = dot products of w[0..3] with x[t] over n elements. Lane l of a sum takes the elements i with i % 8 = l in
/// order, whatever kT is: 12 sums, 4 rows of w and 1 of x make 16 registers and a little more, which g++ folds.
template <typename Values, int kT>
KDA_INLINE void dot_tile(const std::byte* const (&w)[4], const float* const (&x)[kT], int64_t n, __m128 (&out)[kT]) {
  __m256 sum[kT][4];
  for (auto& row : sum) {
    for (__m256& s : row) s = _mm256_setzero_ps();
  }
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 a[kT];
    for (int t = 0; t < kT; ++t) a[t] = _mm256_loadu_ps(x[t] + i);
    for (int r = 0; r < 4; ++r) {
      const __m256 b = Values::load(w[r] + i * Values::kBytes);
      for (int t = 0; t < kT; ++t) sum[t][r] = _mm256_fmadd_ps(b, a[t], sum[t][r]);
    }
  }
  if (i < n) {
    for (int r = 0; r < 4; ++r) {
      const __m256 b = Values::load_first(w[r] + i * Values::kBytes, n - i);
      for (int t = 0; t < kT; ++t) sum[t][r] = _mm256_fmadd_ps(b, load_first(x[t] + i, n - i), sum[t][r]);
    }
  }
  for (int t = 0; t < kT; ++t) out[t] = sums_of_lanes(sum[t][0], sum[t][1], sum[t][2], sum[t][3]);
}

}  // namespace
}  // namespace kda::avx2
