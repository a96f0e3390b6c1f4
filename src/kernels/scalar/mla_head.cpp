// Attention of one head with keys and values made from the latents, a tile of keys at a time for all query rows; the
// softmax is that of mla_attend.cpp.
#include "kernels/kernel_table.h"
#include "kernels/scalar/dot.h"
#include "kernels/scalar/online_softmax.h"
#include "kernels/scalar/scalar.h"

namespace kda::scalar {

namespace {

// out [n_keys, n_panels * kPanelColumns] = latents * up, in short sums: the error stays near that of the last addition.
void expand(const MlaHeadArgs& args, const float* latents, int64_t n_keys, const float* up, int64_t n_panels,
            float* out) {
  constexpr int64_t kShort = 64;
  for (int64_t key = 0; key < n_keys; ++key, latents += args.rank + args.dim_pe) {
    for (int64_t panel = 0; panel < n_panels; ++panel, out += kPanelColumns) {
      const float* w = up + panel * args.rank * kPanelColumns;
      std::fill_n(out, kPanelColumns, 0.0F);
      for (int64_t begin = 0; begin < args.rank; begin += kShort) {
        float sum[kPanelColumns] = {};
        for (int64_t i = begin; i < std::min(begin + kShort, args.rank); ++i) {
          for (int64_t c = 0; c < kPanelColumns; ++c) sum[c] += latents[i] * w[i * kPanelColumns + c];
        }
        for (int64_t c = 0; c < kPanelColumns; ++c) out[c] += sum[c];
      }
    }
  }
}

}  // namespace

void mla_head(const MlaHeadArgs& args) {
  const int64_t key_panels = panels(args.dim_nope);
  const int64_t value_panels = panels(args.dim_v);
  const int64_t latent_dim = args.rank + args.dim_pe;
  float* const keys = args.scratch;
  float* const values = keys + kMlaTileKeys * key_panels * kPanelColumns;
  const int64_t n_all = args.first_position + args.n_rows;
  for (int64_t begin = 0; begin < n_all; begin += kMlaTileKeys) {
    const int64_t n_keys = std::min(kMlaTileKeys, n_all - begin);
    const float* latents = args.cache + begin * latent_dim;
    expand(args, latents, n_keys, args.up, key_panels, keys);
    expand(args, latents, n_keys, args.up + key_panels * args.rank * kPanelColumns, value_panels, values);
    for (int64_t r = std::max<int64_t>(0, begin - args.first_position); r < args.n_rows; ++r) {
      const int64_t n = std::min(kMlaTileKeys, args.first_position + r + 1 - begin);
      const float* q = args.q + r * args.q_stride;
      float p[kMlaTileKeys] = {};
      for (int64_t j = 0; j < n; ++j) {
        p[j] = args.scale * (dot(q, keys + j * key_panels * kPanelColumns, args.dim_nope) +
                             dot(q + args.dim_nope, latents + j * latent_dim + args.rank, args.dim_pe));
      }
      float* out = args.out + r * args.out_stride;
      enter_tile(p, n, begin == 0, args.states[r], out, args.dim_v);
      for (int64_t j = 0; j < n; ++j) {
        const float* value = values + j * value_panels * kPanelColumns;
        for (int64_t i = 0; i < args.dim_v; ++i) out[i] += p[j] * value[i];
      }
    }
  }
  for (int64_t r = 0; r < args.n_rows; ++r) {
    const float inverse = 1 / args.states[r].sum;
    for (int64_t i = 0; i < args.dim_v; ++i) args.out[r * args.out_stride + i] *= inverse;
  }
}

}  // namespace kda::scalar
