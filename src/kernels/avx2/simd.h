// Small pieces that the AVX2 kernels share. Everything has internal linkage: see kernel_args.h for why.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_args.h"

// Kernels keep arrays of registers; they stay in registers only when every helper is inlined.
#define KDA_INLINE __attribute__((always_inline)) inline

// Before a loop of known length whose index chooses registers: g++ would keep it and move them about.
#if defined(__clang__)
#define KDA_UNROLL _Pragma("clang loop unroll(full)")
#else
#define KDA_UNROLL _Pragma("GCC unroll 16")
#endif

namespace kda::avx2 {
namespace {

KDA_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/// Makes the value count as changed, so that g++ neither reorders a sum nor puts it off: it would first form all
/// products of an unrolled loop, and spill them.
KDA_INLINE void keep_order(__m256i& v) { asm("" : "+x"(v)); }

/// All bits set in the first n of 8 lanes, 0 <= n <= 8.
KDA_INLINE __m256i first_lanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/// The first n floats at p, zero in the other lanes; reads no others.
KDA_INLINE __m256 load_first(const float* p, int64_t n) { return _mm256_maskload_ps(p, first_lanes(n)); }

KDA_INLINE __m256i load_256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
KDA_INLINE __m128i load_128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
KDA_INLINE void store_256(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }

/// Sums of 8 lanes each of four vectors, always in the order ((0+1)+(2+3)) + ((4+5)+(6+7)).
KDA_INLINE __m128 sums_of_lanes(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 quads = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
  return _mm_add_ps(_mm256_castps256_ps128(quads), _mm256_extractf128_ps(quads, 1));
}

/// The same order for one vector.
KDA_INLINE float sum_of_lanes(__m256 a) { return _mm_cvtss_f32(sums_of_lanes(a, a, a, a)); }

KDA_INLINE int64_t x_row_of(const MatmulArgs& args, int64_t i) { return args.x_rows != nullptr ? args.x_rows[i] : i; }
KDA_INLINE int64_t y_row_of(const MatmulArgs& args, int64_t i) { return args.y_rows != nullptr ? args.y_rows[i] : i; }

}  // namespace
}  // namespace kda::avx2
