// out[i] = f(x[i]) and the root-mean-square norm. Lengths need not be a multiple of 8: the rest goes through masked
// loads and stores, with the same arithmetic.
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/simd.h"
#include "kernels/avx2/vexp.h"

namespace kda::avx2 {
namespace {

/// Calls step(i, load, store) for i = 0, 8, 16 ...; load and store touch only elements below n.
template <typename Step>
KDA_INLINE void for_each_8(int64_t n, Step step) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    step([i](const float* p) { return _mm256_loadu_ps(p + i); },
         [i](float* p, __m256 v) { _mm256_storeu_ps(p + i, v); });
  }
  if (i < n) {
    const __m256i mask = first_lanes(n - i);
    step([i, mask](const float* p) { return _mm256_maskload_ps(p + i, mask); },
         [i, mask](float* p, __m256 v) { _mm256_maskstore_ps(p + i, mask, v); });
  }
}

float sum_of_squares(const float* x, int64_t n) {
  __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (int j = 0; j < 4; ++j) {
      const __m256 v = _mm256_loadu_ps(x + i + 8 * j);
      sum[j] = _mm256_fmadd_ps(v, v, sum[j]);
    }
  }
  for (int j = 0; i < n; i += 8, ++j) {
    const __m256 v = load_first(x + i, smaller(n - i, 8));
    sum[j] = _mm256_fmadd_ps(v, v, sum[j]);
  }
  return sum_of_lanes(_mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), _mm256_add_ps(sum[2], sum[3])));
}

}  // namespace

void rms_norm(const float* x, const float* w, float eps, int64_t n, float* out) {
  const float mean = sum_of_squares(x, n) / static_cast<float>(n);
  const __m256 scale = _mm256_set1_ps(1.0F / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + eps))));
  for_each_8(n, [&](auto load, auto store) { store(out, _mm256_mul_ps(_mm256_mul_ps(load(x), scale), load(w))); });
}

void silu_mul(const float* gate, const float* up, int64_t n, float* out) {
  for_each_8(n, [&](auto load, auto store) { store(out, _mm256_mul_ps(silu_ps(load(gate)), load(up))); });
}

void silu(float* x, int64_t n) {
  for_each_8(n, [&](auto load, auto store) { store(x, silu_ps(load(x))); });
}

void sigmoid(const float* x, int64_t n, float* out) {
  for_each_8(n, [&](auto load, auto store) { store(out, sigmoid_ps(load(x))); });
}

void axpy(float a, const float* x, int64_t n, float* y) {
  const __m256 factor = _mm256_set1_ps(a);
  for_each_8(n, [&](auto load, auto store) { store(y, _mm256_fmadd_ps(factor, load(x), load(y))); });
}

}  // namespace kda::avx2
