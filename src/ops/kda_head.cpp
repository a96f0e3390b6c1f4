// The equations stand in layers/kda.cpp; here is the order in which one head walks through them.
#include "ops/kda_head.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kda {

namespace {

constexpr int64_t kMaxConvTaps = 1024;  // configurations with more are refused

// What a head carries from token to token.
struct HeadState {
  float* state;         // [V, K]
  float* tail[3];       // q, k, v: [taps - 1, K]
  int64_t tail_stride;  // floats from a row of a tail to the next
};

// y[t] = silu(sum_j w[j] * x[t - (taps - 1) + j]) over the head's columns; rows before the batch come from the tail.
void convolve(const KernelTable& kernels, const KdaOp& op, const MatView& x, const float* w, const float* tail,
              int64_t tail_stride, int64_t column, int64_t begin, int64_t n_tokens, float* y) {
  KDA_CHECK(op.taps <= kMaxConvTaps);
  const float* rows[kMaxConvTaps];
  const int64_t dim = op.head_dim;
  const int64_t width = op.n_heads * dim;
  for (int64_t t = 0; t < n_tokens; ++t) {
    for (int64_t j = 0; j < op.taps; ++j) {
      const int64_t from = t - (op.taps - 1) + j;  // relative to `begin`; the tail is what lies just before it
      rows[j] = from < 0 ? tail + (from + op.taps - 1) * tail_stride : x.row(begin + from) + column;
    }
    kernels.conv_silu(rows, w + column, width, op.taps, dim, y + t * dim);
  }
}

// Makes the tail the last taps - 1 rows of [tail; x[begin, begin + n_tokens)], the head's columns only.
void advance_tail(const KdaOp& op, const MatView& x, float* tail, int64_t tail_stride, int64_t column, int64_t begin,
                  int64_t n_tokens) {
  for (int64_t i = 0; i < op.taps - 1; ++i) {
    const int64_t from = n_tokens + i - (op.taps - 1);
    const float* row = from < 0 ? tail + (from + op.taps - 1) * tail_stride : x.row(begin + from) + column;
    std::memcpy(tail + i * tail_stride, row, static_cast<size_t>(op.head_dim) * sizeof(float));
  }
}

// x = x / sqrt(sum x^2 + eps) * scale. Eight sums side by side: exact enough in fp32, and in one order everywhere.
void l2_norm(float* x, int64_t n, float eps, float scale) {
  float sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int64_t j = 0; j < 8; ++j) sums[j] += x[i + j] * x[i + j];
  }
  for (; i < n; ++i) sums[i % 8] += x[i] * x[i];
  const float sum = ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
  const float factor = scale / std::sqrt(sum + eps);
  for (i = 0; i < n; ++i) x[i] *= factor;
}

// Takes rows into `memory`; their outputs go to op.out when they are those at hand.
void run_rows(const KernelTable& kernels, const KdaOp& op, const KdaRows& rows, bool at_hand, int64_t head,
              const HeadState& memory, float* scratch) {
  const int64_t dim = op.head_dim;
  const int64_t column = head * dim;
  const int64_t chunk_floats = kKdaChunkTokens * dim;
  float* const q = scratch;
  float* const k = q + chunk_floats;
  float* const v = k + chunk_floats;
  float* const log_decay = v + chunk_floats;
  float* const o = log_decay + chunk_floats;
  float* const beta = o + chunk_floats;
  float* const gate = beta + kKdaChunkTokens;
  const MatView* const projections[3] = {&rows.q, &rows.k, &rows.v};
  float* const convolved[3] = {q, k, v};
  const float q_scale = 1 / std::sqrt(static_cast<float>(dim));

  for (int64_t begin = 0; begin < rows.q.rows; begin += kKdaChunkTokens) {
    const int64_t n = std::min(kKdaChunkTokens, rows.q.rows - begin);
    for (int64_t s = 0; s < 3; ++s) {
      convolve(kernels, op, *projections[s], op.conv[s], memory.tail[s], memory.tail_stride, column, begin, n,
               convolved[s]);
      advance_tail(op, *projections[s], memory.tail[s], memory.tail_stride, column, begin, n);
    }
    for (int64_t t = 0; t < n; ++t) {
      l2_norm(q + t * dim, dim, op.qk_norm_eps, q_scale);
      l2_norm(k + t * dim, dim, op.qk_norm_eps, 1);
      kernels.scaled_softplus(rows.f.row(begin + t) + column, op.dt_bias.data() + column,
                              op.a[static_cast<size_t>(head)], dim, log_decay + t * dim);
      beta[t] = rows.beta.row(begin + t)[head];
    }
    kernels.sigmoid(beta, n, beta);
    kernels.kda_head({.n_tokens = n,
                      .dim_k = dim,
                      .dim_v = dim,
                      .stride_qk = dim,
                      .stride_v = dim,
                      .q = q,
                      .k = k,
                      .v = v,
                      .log_decay = log_decay,
                      .beta = beta,
                      .stride_beta = 1,
                      .state = memory.state,
                      .o = o});
    if (!at_hand) continue;
    for (int64_t t = 0; t < n; ++t) {
      float* out = op.out.row(begin + t) + column;
      kernels.rms_norm(o + t * dim, op.o_norm.data(), op.o_norm_eps, dim, out);
      kernels.sigmoid(op.gate.row(begin + t) + column, dim, gate);
      for (int64_t i = 0; i < dim; ++i) out[i] *= gate[i];
    }
    if (op.trace) {  // the projections of this chunk are not needed any more: the next one's past is in the tail
      const MatView to[5] = {rows.q, rows.k, rows.v, rows.f, op.raw_out};
      const float* const from[5] = {q, k, v, log_decay, o};
      for (int64_t t = 0; t < n; ++t) {
        for (int64_t m = 0; m < 5; ++m) std::copy_n(from[m] + t * dim, dim, to[m].row(begin + t) + column);
        rows.beta.row(begin + t)[head] = beta[t];
      }
    }
  }
}

}  // namespace

void kda_head(const KernelTable& kernels, const KdaOp& op, int64_t head, float* scratch) {
  const int64_t dim = op.head_dim;
  const int64_t width = op.n_heads * dim;
  const int64_t tail_rows = op.taps - 1;
  HeadState memory = {.state = op.state + head * dim * dim, .tail = {}, .tail_stride = width};
  for (int64_t s = 0; s < 3; ++s) memory.tail[s] = op.conv_tail + s * tail_rows * width + head * dim;
  run_rows(kernels, op, op.pending, false, head, memory, scratch);
  if (op.tentative) {
    float* const copy = scratch + (5 * kKdaChunkTokens + 1) * dim + kKdaChunkTokens;  // of state and tails
    std::copy_n(memory.state, dim * dim, copy);
    memory.state = copy;
    for (int64_t s = 0; s < 3; ++s) {
      float* const tail = copy + (dim + s * tail_rows) * dim;
      for (int64_t i = 0; i < tail_rows; ++i) std::copy_n(memory.tail[s] + i * width, dim, tail + i * dim);
      memory.tail[s] = tail;
    }
    memory.tail_stride = dim;
  }
  run_rows(kernels, op, op.x, true, head, memory, scratch);
}

}  // namespace kda
