// One tile of keys enters the softmax of one query row, as in avx2/online_softmax.h.
#pragma once

#include "kernels/avx512/simd.h"
#include "kernels/avx512/vexp.h"

namespace kda::avx512 {
namespace {

/// Turns scores p [kMlaTileKeys], of which the row sees the first n >= 1, into weights, 0 for the other keys. Returns
/// the factor for ctx: 0 when nothing came before.
inline float weigh_row(float* p, int64_t n, bool first, SoftmaxState& state) {
  constexpr int kVectors = kMlaTileKeys / 16;
  __m512 score[kVectors];
  __m512 largest = _mm512_set1_ps(first ? p[0] : state.max);
  for (int i = 0; i < kVectors; ++i) {
    score[i] = _mm512_loadu_ps(p + 16 * i);
    largest = _mm512_mask_max_ps(largest, first_lanes(n - 16 * i), largest, score[i]);
  }
  const float max = _mm512_reduce_max_ps(largest);
  const __m512 shift = _mm512_set1_ps(max);
  __m512 sum = _mm512_setzero_ps();
  for (int i = 0; i < kVectors; ++i) {
    const __m512 weight = _mm512_maskz_mov_ps(first_lanes(n - 16 * i), exp_ps(_mm512_sub_ps(score[i], shift)));
    _mm512_storeu_ps(p + 16 * i, weight);
    sum = _mm512_add_ps(sum, weight);
  }
  const float total = sum_of_lanes(sum);
  if (first) {
    state = {max, total};
    return 0;
  }
  const float shrink = _mm512_cvtss_f32(exp_ps(_mm512_set1_ps(state.max - max)));
  state = {max, state.sum * shrink + total};
  return shrink;
}

}  // namespace
}  // namespace kda::avx512
