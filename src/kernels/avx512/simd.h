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

}  // namespace
}  // namespace kda::avx512
