// The delta rule of one head, state S [dim_v, dim_k] in fp32 (the equations: layers/kda.cpp). For each token:
//   S = S * exp(log_decay)                       by column
//   a = S k,  b = S q,  d = beta * (v - a)       by row
//   o = b + (k . q) d
//   S = S + d k^T
// One pass over the state a token: the last line waits and is done together with the first line of the next token,
// where the row is loaded anyway. Rows need nothing from each other, so four of them, which fit the first-level cache,
// walk through a run of tokens before the next four do. What waits is done at the end of a run; the arithmetic on an
// element is the same wherever runs end.
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/simd.h"
#include "kernels/avx2/vexp.h"

namespace kda::avx2 {
namespace {

constexpr int64_t kRunFloats = 4096;  // decays of a run that are kept at a time
static_assert(kRunFloats >= kMaxKdaDimK);
constexpr int64_t kMaxRun = 32;  // tokens

struct Run {
  const KdaHeadArgs& args;
  int64_t begin;         // first token
  int64_t n_tokens;      // in [1, kMaxRun]
  const float* decay;    // [n_tokens, dim_k]: exp(log_decay)
  const float* k_dot_q;  // [n_tokens]
  const float* k(int64_t t) const { return args.k + (begin + t) * args.stride_qk; }
  const float* q(int64_t t) const { return args.q + (begin + t) * args.stride_qk; }
};

/// Reads and writes of 8 floats at i, or of those before n.
template <bool kWhole>
struct Columns {
  __m256i mask;
  KDA_INLINE __m256 load(const float* p) const { return kWhole ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, mask); }
  KDA_INLINE void store(float* p, __m256 v) const {
    if (kWhole) {
      _mm256_storeu_ps(p, v);
    } else {
      _mm256_maskstore_ps(p, mask, v);
    }
  }
};

/// Calls step(i, columns) for i = 0, 8, 16 ... below n.
template <typename Step>
KDA_INLINE void for_columns(int64_t n, Step step) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) step(i, Columns<true>{});
  if (i < n) step(i, Columns<false>{first_lanes(n - i)});
}

/// Dot products with k and with q of kRows rows of the state.
template <int kRows>
struct Products {
  __m256 with_k[4];
  __m256 with_q[4];
};

/// S = (S + d k_before^T) * decay, or without the first term for the first token of a run; then S k and S q.
template <int kRows, bool kWaiting>
KDA_INLINE Products<kRows> decay_and_multiply(const Run& run, float* state, int64_t t, const float* d) {
  const int64_t n = run.args.dim_k;
  const float* decay = run.decay + t * n;
  const float* k = run.k(t);
  const float* q = run.q(t);
  const float* k_before = kWaiting ? run.k(t - 1) : nullptr;
  Products<kRows> p;
  for (int r = 0; r < 4; ++r) p.with_k[r] = p.with_q[r] = _mm256_setzero_ps();
  __m256 factor[kRows];
  for (int r = 0; r < kRows; ++r) factor[r] = kWaiting ? _mm256_broadcast_ss(d + r) : _mm256_setzero_ps();
  for_columns(n, [&](int64_t i, auto columns) {
    const __m256 decay_i = columns.load(decay + i);
    const __m256 k_i = columns.load(k + i);
    const __m256 q_i = columns.load(q + i);
    const __m256 before_i = kWaiting ? columns.load(k_before + i) : _mm256_setzero_ps();
    for (int r = 0; r < kRows; ++r) {
      float* s_i = state + r * n + i;
      __m256 s = columns.load(s_i);
      if (kWaiting) s = _mm256_fmadd_ps(before_i, factor[r], s);
      s = _mm256_mul_ps(s, decay_i);
      columns.store(s_i, s);
      p.with_k[r] = _mm256_fmadd_ps(s, k_i, p.with_k[r]);
      p.with_q[r] = _mm256_fmadd_ps(s, q_i, p.with_q[r]);
    }
  });
  return p;
}

/// S = S + d k^T for the last token of a run.
template <int kRows>
KDA_INLINE void add_waiting(const Run& run, float* state, const float* d) {
  const int64_t n = run.args.dim_k;
  const float* k = run.k(run.n_tokens - 1);
  for_columns(n, [&](int64_t i, auto columns) {
    const __m256 k_i = columns.load(k + i);
    for (int r = 0; r < kRows; ++r) {
      float* s_i = state + r * n + i;
      columns.store(s_i, _mm256_fmadd_ps(k_i, _mm256_broadcast_ss(d + r), columns.load(s_i)));
    }
  });
}

/// Rows [row, row + kRows) of the state through all tokens of a run.
template <int kRows>
KDA_INLINE void walk_rows(const Run& run, int64_t row) {
  const KdaHeadArgs& args = run.args;
  float* state = args.state + row * args.dim_k;
  float d[4] = {};
  for (int64_t t = 0; t < run.n_tokens; ++t) {
    const Products<kRows> p =
        t == 0 ? decay_and_multiply<kRows, false>(run, state, t, d) : decay_and_multiply<kRows, true>(run, state, t, d);
    const int64_t token = run.begin + t;
    const float* v = args.v + token * args.stride_v + row;
    float* o = args.o + token * args.stride_v + row;
    const __m128 a = sums_of_lanes(p.with_k[0], p.with_k[1], p.with_k[2], p.with_k[3]);
    const __m128 b = sums_of_lanes(p.with_q[0], p.with_q[1], p.with_q[2], p.with_q[3]);
    const __m128 value = kRows == 4 ? _mm_loadu_ps(v) : _mm_load_ss(v);
    const __m128 delta = _mm_mul_ps(_mm_set1_ps(args.beta[token * args.stride_beta]), _mm_sub_ps(value, a));
    const __m128 out = _mm_fmadd_ps(_mm_set1_ps(run.k_dot_q[t]), delta, b);
    _mm_storeu_ps(d, delta);
    if (kRows == 4) {
      _mm_storeu_ps(o, out);
    } else {
      _mm_store_ss(o, out);
    }
  }
  add_waiting<kRows>(run, state, d);
}

}  // namespace

void kda_head(const KdaHeadArgs& args) {
  alignas(32) float decay[kRunFloats];
  float k_dot_q[kMaxRun];
  const int64_t n = args.dim_k;
  const int64_t longest = smaller(kMaxRun, kRunFloats / n);
  for (int64_t begin = 0; begin < args.n_tokens; begin += longest) {
    const Run run{args, begin, smaller(longest, args.n_tokens - begin), decay, k_dot_q};
    for (int64_t t = 0; t < run.n_tokens; ++t) {
      const float* log_decay = args.log_decay + (begin + t) * args.stride_qk;
      __m256 sum = _mm256_setzero_ps();
      for_columns(n, [&](int64_t i, auto columns) {
        columns.store(decay + t * n + i, exp_ps(columns.load(log_decay + i)));
        sum = _mm256_fmadd_ps(columns.load(run.k(t) + i), columns.load(run.q(t) + i), sum);
      });
      k_dot_q[t] = sum_of_lanes(sum);
    }
    int64_t row = 0;
    for (; row + 4 <= args.dim_v; row += 4) walk_rows<4>(run, row);
    for (; row < args.dim_v; ++row) walk_rows<1>(run, row);
  }
}

}  // namespace kda::avx2
