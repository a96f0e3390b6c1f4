// Softmax attention in one pass over the keys, a tile at a time. For each query row, with m the largest score so far:
//   l = sum exp(score - m),   ctx = sum exp(score - m) * value
// A tile that raises m first scales l and ctx by exp(m_old - m_new). At the end ctx /= l. Only exponents <= 0 are
// formed.
#include <algorithm>
#include <cmath>

#include "kernels/scalar/dot.h"
#include "kernels/scalar/scalar.h"

namespace kda::scalar {

namespace {

struct RowState {
  float max;
  float sum;
};

// The tile's keys [0, n) enter one row; first says that nothing came before.
void attend_tile(const MlaAttendArgs& args, const float* keys, int64_t n, const float* q, bool first, RowState& state,
                 float* ctx) {
  float p[kMlaTileKeys];
  float max = 0;
  for (int64_t j = 0; j < n; ++j) {
    p[j] = args.scale * dot(q, keys + j * args.dim_qk, args.dim_qk);
    max = j == 0 ? p[0] : std::max(max, p[j]);
  }
  if (first) {
    state = {max, 0};
    std::fill_n(ctx, args.dim_v, 0.0F);
  } else if (max > state.max) {
    const float shrink = std::exp(state.max - max);
    state = {max, state.sum * shrink};
    for (int64_t i = 0; i < args.dim_v; ++i) ctx[i] *= shrink;
  }
  for (int64_t j = 0; j < n; ++j) {
    p[j] = std::exp(p[j] - state.max);
    state.sum += p[j];
    const float* value = keys + j * args.dim_qk;
    for (int64_t i = 0; i < args.dim_v; ++i) ctx[i] += p[j] * value[i];
  }
}

}  // namespace

void mla_attend(const MlaAttendArgs& args) {
  auto* states = reinterpret_cast<RowState*>(args.scratch);
  int64_t most_keys = 0;
  for (int64_t r = 0; r < args.n_rows; ++r) most_keys = std::max(most_keys, args.n_keys[r]);

  for (int64_t begin = 0; begin < most_keys; begin += kMlaTileKeys) {  // a tile stays in cache for all rows
    const float* keys = args.cache + begin * args.dim_qk;
    for (int64_t r = 0; r < args.n_rows; ++r) {
      const int64_t n = std::min(kMlaTileKeys, args.n_keys[r] - begin);
      if (n > 0) attend_tile(args, keys, n, args.q[r], begin == 0, states[r], args.ctx[r]);
    }
  }
  for (int64_t r = 0; r < args.n_rows; ++r) {
    const float inverse = 1 / states[r].sum;
    for (int64_t i = 0; i < args.dim_v; ++i) args.ctx[r][i] *= inverse;
  }
}

}  // namespace kda::scalar
