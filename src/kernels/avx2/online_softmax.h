// One tile of keys enters the softmax of one query row. With m the largest score so far:
//   l = sum exp(score - m),   ctx = sum exp(score - m) * value
// A tile that raises m scales l and ctx by exp(m_old - m_new). Only exponents <= 0 are formed.
#pragma once

#include "kernels/avx2/simd.h"
#include "kernels/avx2/vexp.h"

namespace kda::avx2 {
namespace {

KDA_INLINE float largest_lane(__m256 v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

/// Turns scores p [kMlaTileKeys], of which the row sees the first n >= 1, into weights, 0 for the other keys. Returns
/// the factor for ctx: 0 when nothing came before.
inline float weigh_row(float* p, int64_t n, bool first, SoftmaxState& state) {
  __m256 largest = _mm256_set1_ps(first ? p[0] : state.max);
  for (int64_t i = 0; i < n; i += 8) {
    const __m256 seen = _mm256_castsi256_ps(first_lanes(smaller(n - i, 8)));
    largest = _mm256_max_ps(largest, _mm256_blendv_ps(largest, _mm256_loadu_ps(p + i), seen));
  }
  const float max = largest_lane(largest);
  const __m256 shift = _mm256_set1_ps(max);
  __m256 sum = _mm256_setzero_ps();
  for (int64_t i = 0; i < kMlaTileKeys; i += 8) {
    const __m256 seen = _mm256_castsi256_ps(first_lanes(n - i < 0 ? 0 : smaller(n - i, 8)));
    const __m256 weight = _mm256_and_ps(exp_ps(_mm256_sub_ps(_mm256_loadu_ps(p + i), shift)), seen);
    _mm256_storeu_ps(p + i, weight);
    sum = _mm256_add_ps(sum, weight);
  }
  const float total = sum_of_lanes(sum);
  if (first) {
    state = {max, total};
    return 0;
  }
  const float shrink = _mm256_cvtss_f32(exp_ps(_mm256_set1_ps(state.max - max)));
  state = {max, state.sum * shrink + total};
  return shrink;
}

}  // namespace
}  // namespace kda::avx2
