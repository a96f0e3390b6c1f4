// The delta rule of one head, in the order of avx2/kda_head.cpp: one pass over the state a token, where the last line
// of a token waits for the first of the next one. Eight rows of the state, which fit the first-level cache, walk
// through a run of tokens before the next eight do: with fewer, a token would wait for the sums of the one before.
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/simd.h"
#include "kernels/avx512/vexp.h"

namespace kda::avx512 {
namespace {

constexpr int64_t kRunFloats = 4096;  // decays of a run that are kept at a time
static_assert(kRunFloats >= kMaxKdaDimK);
constexpr int64_t kMaxRun = 32;  // tokens
constexpr int kBlock = 8;        // rows

struct Run {
  const KdaHeadArgs& args;
  int64_t begin;         // first token
  int64_t n_tokens;      // in [1, kMaxRun]
  const float* decay;    // [n_tokens, dim_k]: exp(log_decay)
  const float* k_dot_q;  // [n_tokens]
  const float* k(int64_t t) const { return args.k + (begin + t) * args.stride_qk; }
  const float* q(int64_t t) const { return args.q + (begin + t) * args.stride_qk; }
};

/// Calls step(i, load, store) for i = 0, 16, 32 ... below n; load and store leave elements from n on alone.
template <typename Step>
KDA_INLINE void for_columns(int64_t n, Step step) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    step(
        i, [](const float* p) { return _mm512_loadu_ps(p); }, [](float* p, __m512 v) { _mm512_storeu_ps(p, v); });
  }
  if (i < n) {
    const __mmask16 mask = first_lanes(n - i);
    step(
        i, [mask](const float* p) { return _mm512_maskz_loadu_ps(mask, p); },
        [mask](float* p, __m512 v) { _mm512_mask_storeu_ps(p, mask, v); });
  }
}

/// Sums over the columns; of rows that are not there: zeros.
struct Products {
  __m512 with_k[kBlock];
  __m512 with_q[kBlock];
};

/// S = (S + d k_before^T) * decay, or without the first term for the first token of a run; then S k and S q.
template <int kRows, bool kWaiting>
KDA_INLINE void decay_and_multiply(const Run& run, float* state, int64_t t, const float* d, Products& p) {
  const int64_t n = run.args.dim_k;
  const float* decay = run.decay + t * n;
  const float* k = run.k(t);
  const float* q = run.q(t);
  const float* k_before = kWaiting ? run.k(t - 1) : nullptr;
  __m512 factor[kRows];
  KDA_UNROLL
  for (int r = 0; r < kBlock; ++r) p.with_k[r] = p.with_q[r] = _mm512_setzero_ps();
  KDA_UNROLL
  for (int r = 0; r < kRows; ++r) factor[r] = kWaiting ? _mm512_set1_ps(d[r]) : _mm512_setzero_ps();
  for_columns(n, [&](int64_t i, auto load, auto store) {
    const __m512 decay_i = load(decay + i);
    const __m512 k_i = load(k + i);
    const __m512 q_i = load(q + i);
    const __m512 before_i = kWaiting ? load(k_before + i) : _mm512_setzero_ps();
    KDA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      float* s_i = state + r * n + i;
      __m512 s = load(s_i);
      if (kWaiting) s = _mm512_fmadd_ps(before_i, factor[r], s);
      s = _mm512_mul_ps(s, decay_i);
      store(s_i, s);
      p.with_k[r] = _mm512_fmadd_ps(s, k_i, p.with_k[r]);
      p.with_q[r] = _mm512_fmadd_ps(s, q_i, p.with_q[r]);
    }
  });
}

/// S = S + d k^T for the last token of a run.
template <int kRows>
KDA_INLINE void add_waiting(const Run& run, float* state, const float* d) {
  const int64_t n = run.args.dim_k;
  const float* k = run.k(run.n_tokens - 1);
  for_columns(n, [&](int64_t i, auto load, auto store) {
    const __m512 k_i = load(k + i);
    KDA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      float* s_i = state + r * n + i;
      store(s_i, _mm512_fmadd_ps(k_i, _mm512_set1_ps(d[r]), load(s_i)));
    }
  });
}

KDA_INLINE __m256 sums_of_rows(const __m512 (&rows)[kBlock]) {
  return _mm256_set_m128(sums_of_lanes(rows[4], rows[5], rows[6], rows[7]),
                         sums_of_lanes(rows[0], rows[1], rows[2], rows[3]));
}

/// Rows [row, row + kRows) of the state through all tokens of a run.
template <int kRows>
KDA_INLINE void walk_rows(const Run& run, int64_t row) {
  const KdaHeadArgs& args = run.args;
  const auto mask = static_cast<__mmask8>((1 << kRows) - 1);
  float* state = args.state + row * args.dim_k;
  alignas(32) float d[kBlock] = {};
  for (int64_t t = 0; t < run.n_tokens; ++t) {
    Products p;
    if (t == 0) {
      decay_and_multiply<kRows, false>(run, state, t, d, p);
    } else {
      decay_and_multiply<kRows, true>(run, state, t, d, p);
    }
    const int64_t token = run.begin + t;
    const __m256 value = _mm256_maskz_loadu_ps(mask, args.v + token * args.stride_v + row);
    const __m256 delta = _mm256_mul_ps(_mm256_set1_ps(args.beta[token * args.stride_beta]),
                                       _mm256_sub_ps(value, sums_of_rows(p.with_k)));
    _mm256_store_ps(d, delta);
    const __m256 out = _mm256_fmadd_ps(_mm256_set1_ps(run.k_dot_q[t]), delta, sums_of_rows(p.with_q));
    _mm256_mask_storeu_ps(args.o + token * args.stride_v + row, mask, out);
  }
  add_waiting<kRows>(run, state, d);
}

}  // namespace

void kda_head(const KdaHeadArgs& args) {
  alignas(64) float decay[kRunFloats];
  float k_dot_q[kMaxRun];
  const int64_t n = args.dim_k;
  const int64_t longest = smaller(kMaxRun, kRunFloats / n);
  for (int64_t begin = 0; begin < args.n_tokens; begin += longest) {
    const Run run{args, begin, smaller(longest, args.n_tokens - begin), decay, k_dot_q};
    for (int64_t t = 0; t < run.n_tokens; ++t) {
      const float* log_decay = args.log_decay + (begin + t) * args.stride_qk;
      __m512 sum = _mm512_setzero_ps();
      for_columns(n, [&](int64_t i, auto load, auto store) {
        store(decay + t * n + i, exp_ps(load(log_decay + i)));
        sum = _mm512_fmadd_ps(load(run.k(t) + i), load(run.q(t) + i), sum);
      });
      k_dot_q[t] = sum_of_lanes(sum);
    }
    int64_t row = 0;
    for (; row + kBlock <= args.dim_v; row += kBlock) walk_rows<kBlock>(run, row);
    for (; row < args.dim_v; ++row) walk_rows<1>(run, row);
  }
}

}  // namespace kda::avx512
