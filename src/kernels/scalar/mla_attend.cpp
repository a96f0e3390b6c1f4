// Softmax attention in one pass over the keys, a tile at a time. For each query row, with m the largest score so far:
//   l = sum exp(score - m),   ctx = sum exp(score - m) * value
// A tile that raises m first scales l and ctx by exp(m_old - m_new).
#include "kernels/scalar/dot.h"
#include "kernels/scalar/online_softmax.h"
#include "kernels/scalar/scalar.h"

namespace kda::scalar {

void mla_attend(const MlaAttendArgs& args) {
  for (int64_t begin = args.key_begin; begin < args.key_end; begin += kMlaTileKeys) {  // in cache for all rows
    const float* keys = args.cache + begin * args.dim_qk;
    for (int64_t r = 0; r < args.n_rows; ++r) {
      const int64_t n = std::min({kMlaTileKeys, args.key_end - begin, args.n_keys[r] - begin});
      if (n <= 0) continue;
      float p[kMlaTileKeys];
      for (int64_t j = 0; j < n; ++j) p[j] = args.scale * dot(args.q[r], keys + j * args.dim_qk, args.dim_qk);
      float* ctx = args.ctx[r];
      enter_tile(p, n, begin == args.key_begin, args.states[r], ctx, args.dim_v);
      for (int64_t j = 0; j < n; ++j) {
        const float* value = keys + j * args.dim_qk;
        for (int64_t i = 0; i < args.dim_v; ++i) ctx[i] += p[j] * value[i];
      }
    }
  }
}

}  // namespace kda::scalar
