// One tile of keys enters the softmax of one query row.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/kernel_args.h"

namespace kda::scalar {

/// Turns scores p[0, n), n >= 1, into exp(p - max) with the largest score so far, and scales what came before in state
/// and ctx [dim_v] by exp(max_old - max_new). first: nothing came before. Only exponents <= 0 are formed.
inline void enter_tile(float* p, int64_t n, bool first, SoftmaxState& state, float* ctx, int64_t dim_v) {
  const float max = *std::max_element(p, p + n);
  if (first) {
    state = {max, 0};
    std::fill_n(ctx, dim_v, 0.0F);
  } else if (max > state.max) {
    const float shrink = std::exp(state.max - max);
    state = {max, state.sum * shrink};
    for (int64_t i = 0; i < dim_v; ++i) ctx[i] *= shrink;
  }
  for (int64_t j = 0; j < n; ++j) {
    p[j] = std::exp(p[j] - state.max);
    state.sum += p[j];
  }
}

}  // namespace kda::scalar
