// out[i] = f(x[i]) and the root-mean-square norm. Lengths need not be a multiple of 16: the rest goes through masked
// loads and stores, with the same arithmetic.
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/simd.h"
#include "kernels/avx512/vexp.h"

namespace kda::avx512 {
namespace {

/// Calls step(load, store) for elements 0, 16, 32 ...; load and store touch only elements below n.
template <typename Step>
KDA_INLINE void for_each_16(int64_t n, Step step) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    step([i](const float* p) { return _mm512_loadu_ps(p + i); },
         [i](float* p, __m512 v) { _mm512_storeu_ps(p + i, v); });
  }
  if (i < n) {
    const __mmask16 mask = first_lanes(n - i);
    step([i, mask](const float* p) { return _mm512_maskz_loadu_ps(mask, p + i); },
         [i, mask](float* p, __m512 v) { _mm512_mask_storeu_ps(p + i, mask, v); });
  }
}

float sum_of_squares(const float* x, int64_t n) {
  __m512 sum[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    KDA_UNROLL
    for (int j = 0; j < 4; ++j) {
      const __m512 v = _mm512_loadu_ps(x + i + 16 * j);
      sum[j] = _mm512_fmadd_ps(v, v, sum[j]);
    }
  }
  KDA_UNROLL
  for (int j = 0; j < 4; ++j) {
    const __m512 v = _mm512_maskz_loadu_ps(first_lanes(n - i - 16 * j), x + i + 16 * j);
    sum[j] = _mm512_fmadd_ps(v, v, sum[j]);
  }
  return sum_of_lanes(_mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
}

}  // namespace

void rms_norm(const float* x, const float* w, float eps, int64_t n, float* out) {
  const float mean = sum_of_squares(x, n) / static_cast<float>(n);
  const __m512 scale = _mm512_set1_ps(1.0F / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + eps))));
  for_each_16(n, [&](auto load, auto store) { store(out, _mm512_mul_ps(_mm512_mul_ps(load(x), scale), load(w))); });
}

void silu_mul(const float* gate, const float* up, int64_t n, float* out) {
  for_each_16(n, [&](auto load, auto store) { store(out, _mm512_mul_ps(silu_ps(load(gate)), load(up))); });
}

void silu(float* x, int64_t n) {
  for_each_16(n, [&](auto load, auto store) { store(x, silu_ps(load(x))); });
}

void sigmoid(const float* x, int64_t n, float* out) {
  for_each_16(n, [&](auto load, auto store) { store(out, sigmoid_ps(load(x))); });
}

void axpy(float a, const float* x, int64_t n, float* y) {
  const __m512 factor = _mm512_set1_ps(a);
  for_each_16(n, [&](auto load, auto store) { store(y, _mm512_fmadd_ps(factor, load(x), load(y))); });
}

void conv_silu(const float* const* rows, const float* w, int64_t w_stride, int64_t taps, int64_t n, float* out) {
  for_each_16(n, [&](auto load, auto store) {
    __m512 sum = _mm512_mul_ps(load(w), load(rows[0]));
    for (int64_t j = 1; j < taps; ++j) sum = _mm512_fmadd_ps(load(w + j * w_stride), load(rows[j]), sum);
    store(out, silu_ps(sum));
  });
}

// softplus(z) = max(z, 0) + log1p(u), u = exp(-|z|) in (0, 1];
// log1p(u) = 2 artanh(s), s = u / (2 + u) <= 1/3, with the series up to s^15
void scaled_softplus(const float* x, const float* bias, float a, int64_t n, float* out) {
  const auto constant = [](float value) { return _mm512_set1_ps(value); };
  for_each_16(n, [&](auto load, auto store) {
    const __m512 z = _mm512_add_ps(load(x), load(bias));
    const __m512 u = exp_ps(_mm512_or_ps(z, constant(-0.0F)));
    const __m512 s = _mm512_div_ps(u, _mm512_add_ps(constant(2), u));
    const __m512 s2 = _mm512_mul_ps(s, s);
    __m512 series = constant(1.0F / 15);
    series = _mm512_fmadd_ps(series, s2, constant(1.0F / 13));
    series = _mm512_fmadd_ps(series, s2, constant(1.0F / 11));
    series = _mm512_fmadd_ps(series, s2, constant(1.0F / 9));
    series = _mm512_fmadd_ps(series, s2, constant(1.0F / 7));
    series = _mm512_fmadd_ps(series, s2, constant(1.0F / 5));
    series = _mm512_fmadd_ps(series, s2, constant(1.0F / 3));
    series = _mm512_fmadd_ps(series, s2, constant(1));
    // The second operand of max is the one that survives when there is a NaN.
    const __m512 positive = _mm512_max_ps(_mm512_setzero_ps(), z);
    store(out, _mm512_mul_ps(constant(a), _mm512_fmadd_ps(_mm512_add_ps(s, s), series, positive)));
  });
}

}  // namespace kda::avx512
