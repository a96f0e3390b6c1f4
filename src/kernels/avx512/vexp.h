// exp and the logistic function of 16 floats; the polynomial and its error are those of avx2/vexp.h.
#pragma once

#include "kernels/avx512/simd.h"

namespace kda::avx512 {
namespace {

/// e^x = 2^n e^r with n = round(x log2 e). -inf and everything below -103.98 give 0, everything above 88.73 inf, NaN
/// stays.
KDA_INLINE __m512 exp_ps(__m512 x) {
  // The second operand of min and max is the one that survives when there is a NaN.
  x = _mm512_max_ps(_mm512_set1_ps(-104.0F), _mm512_min_ps(_mm512_set1_ps(89.0F), x));
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p0F)),  // log2 e
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  // ln 2 in two parts; the first has 16 bits, so that n times it is exact.
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e4p-1F), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20F), r);
  __m512 q = _mm512_set1_ps(0x1.6a2256p-10F);
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0x1.123b02p-7F));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0x1.5558f8p-5F));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0x1.55549p-3F));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0x1.fffffcp-2F));
  const __m512 p = _mm512_add_ps(_mm512_set1_ps(1.0F), _mm512_fmadd_ps(_mm512_mul_ps(r, r), q, r));
  return _mm512_scalef_ps(p, n);
}

/// Numerator and denominator of 1 / (1 + e^-x), from z = e^-|x|: 1 / (1 + z) or z / (1 + z), so that nothing overflows
/// and small results keep their precision.
struct Sigmoid {
  __m512 numerator;
  __m512 denominator;
};

KDA_INLINE Sigmoid sigmoid_parts(__m512 x) {
  const __m512 one = _mm512_set1_ps(1.0F);
  const __m512 z = exp_ps(_mm512_or_ps(x, _mm512_set1_ps(-0.0F)));
  return {_mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(x)), one, z), _mm512_add_ps(one, z)};
}

KDA_INLINE __m512 sigmoid_ps(__m512 x) {
  const Sigmoid s = sigmoid_parts(x);
  return _mm512_div_ps(s.numerator, s.denominator);
}

/// x / (1 + e^-x)
KDA_INLINE __m512 silu_ps(__m512 x) {
  const Sigmoid s = sigmoid_parts(x);
  return _mm512_div_ps(_mm512_mul_ps(x, s.numerator), s.denominator);
}

}  // namespace
}  // namespace kda::avx512
