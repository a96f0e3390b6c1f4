// Small pieces that the AVX-512 kernels share. Everything has internal linkage: see kernel_args.h for why.
#pragma once

#include "kernels/avx2/simd.h"

namespace kda::avx512 {
namespace {

using avx2::smaller;
using avx2::x_row_of;
using avx2::y_row_of;

KDA_INLINE __m512i load_512(const void* p) { return _mm512_loadu_si512(p); }
KDA_INLINE void store_512(void* p, __m512i v) { _mm512_storeu_si512(p, v); }

/// The value, computed where the source says so: g++ would reorder sums, and spill them.
KDA_INLINE __m512i in_order(__m512i v) {
  asm("" : "+v"(v));
  return v;
}

/// The first n of 16 lanes; all of them from 16 on, none up to 0.
KDA_INLINE __mmask16 first_lanes(int64_t n) {
  return static_cast<__mmask16>(n >= 16 ? 0xFFFF : n <= 0 ? 0 : (1 << n) - 1);
}

/// Sums of 16 lanes each of four vectors, always in the same order: within quarters of four lanes 0 + 2 and 1 + 3,
/// those two, then quarters 0 + 2 and 1 + 3, those two.
KDA_INLINE __m128 sums_of_lanes(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  const __m512 quarters = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xEE));
  const __m256 halves = _mm256_add_ps(_mm512_castps512_ps256(quarters), _mm512_extractf32x8_ps(quarters, 1));
  return _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps(halves, 1));
}

/// The same order for one vector.
KDA_INLINE float sum_of_lanes(__m512 a) { return _mm_cvtss_f32(sums_of_lanes(a, a, a, a)); }

}  // namespace
}  // namespace kda::avx512
