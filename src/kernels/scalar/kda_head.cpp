// One token of the delta rule, S [dim_v, dim_k], all in fp32 (the equations: layers/kda.cpp):
//   S = S * exp(log_decay)        by column
//   d = beta * (v - S k)          against the decayed state
//   S = S + d k^T
//   o = S q
#include <algorithm>
#include <cmath>

#include "kernels/scalar/dot.h"
#include "kernels/scalar/scalar.h"

namespace kda::scalar {

namespace {

// S *= exp(log_decay), in strips of columns: each exponential is formed once, whatever dim_k is.
void decay_state(const KdaHeadArgs& args, const float* log_decay) {
  constexpr int64_t kStrip = 128;
  float decay[kStrip];
  for (int64_t begin = 0; begin < args.dim_k; begin += kStrip) {
    const int64_t n = std::min(kStrip, args.dim_k - begin);
    for (int64_t i = 0; i < n; ++i) decay[i] = std::exp(log_decay[begin + i]);
    for (int64_t j = 0; j < args.dim_v; ++j) {
      float* row = args.state + j * args.dim_k + begin;
      for (int64_t i = 0; i < n; ++i) row[i] *= decay[i];
    }
  }
}

}  // namespace

void kda_head(const KdaHeadArgs& args) {
  for (int64_t t = 0; t < args.n_tokens; ++t) {
    const float* q = args.q + t * args.stride_qk;
    const float* k = args.k + t * args.stride_qk;
    const float* v = args.v + t * args.stride_v;
    float* o = args.o + t * args.stride_v;
    const float beta = args.beta[t * args.stride_beta];
    decay_state(args, args.log_decay + t * args.stride_qk);
    for (int64_t j = 0; j < args.dim_v; ++j) {
      float* row = args.state + j * args.dim_k;
      const float delta = beta * (v[j] - dot(row, k, args.dim_k));
      for (int64_t i = 0; i < args.dim_k; ++i) row[i] += delta * k[i];
      o[j] = dot(row, q, args.dim_k);
    }
  }
}

}  // namespace kda::scalar
