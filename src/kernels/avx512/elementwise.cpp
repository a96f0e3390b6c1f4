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

}  // namespace kda::avx512
