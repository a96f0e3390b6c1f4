// Kimi Delta Attention (arXiv 2510.26692). H heads of K channels, C = H * K; all after the products in fp32.
//
//   q, k, v = silu(conv(W_q x)), silu(conv(W_k x)), silu(conv(W_v x))       [C] each
//             conv: y_t[c] = sum_{j < taps} w[c, j] * x_{t - taps + 1 + j}[c], zero before the first token
//   q, k    = q / sqrt(sum q^2 + eps) * K^-0.5,  k / sqrt(sum k^2 + eps)    per head, eps = 1e-6
//   g       = a[h] * softplus(F_b F_a x + dt)                               [C], a = -exp(A_log): the log of the decay
//   beta    = sigmoid(W_beta x)                                             [H]
//
// Per head, with the state S [K, V] (kept transposed, a row a value channel):
//   S = diag(exp(g)) S;   S = S + k (beta (v - S^T k))^T;   o = S^T q
//
//   out     = W_o concat_h( rms_norm(o_h; o_norm) * sigmoid(G_b G_a x)_h )
#include "layers/kda.h"

namespace kda {

KdaScratch::KdaScratch(const ModelConfig& config, int64_t max_tokens, Arena& arena)
    : q(take_matrix(arena, max_tokens, config.kda_width())),
      k(take_matrix(arena, max_tokens, config.kda_width())),
      v(take_matrix(arena, max_tokens, config.kda_width())),
      f(take_matrix(arena, max_tokens, config.kda_width())),
      gate(take_matrix(arena, max_tokens, config.kda_width())),
      beta(take_matrix(arena, max_tokens, config.kda_heads)),
      f_low(take_matrix(arena, max_tokens, config.kda_head_dim)),
      gate_low(take_matrix(arena, max_tokens, config.kda_head_dim)),
      out(take_matrix(arena, max_tokens, config.kda_width())),
      f_low_x(arena, max_tokens, config.kda_head_dim),
      gate_low_x(arena, max_tokens, config.kda_head_dim),
      out_x(arena, max_tokens, config.kda_width()) {}

KdaLayer::KdaLayer(const ModelConfig& config, const KdaWeights& weights) : config_(config), weights_(weights) {
  const std::span<const float> conv[3] = {weights.conv_q, weights.conv_k, weights.conv_v};
  const auto width = static_cast<size_t>(config.kda_width());
  const auto taps = static_cast<size_t>(config.conv_kernel);
  for (size_t s = 0; s < 3; ++s) {
    conv_[s].resize(taps * width);
    for (size_t c = 0; c < width; ++c) {
      for (size_t j = 0; j < taps; ++j) conv_[s][j * width + c] = conv[s][c * taps + j];
    }
  }
}

int64_t KdaLayer::owned_bytes() const noexcept {
  return int64_t{3} * config_.conv_kernel * config_.kda_width() * int64_t{sizeof(float)};
}

KdaOp KdaLayer::recurrence(const KdaState& state) const noexcept {
  return {.n_heads = config_.kda_heads,
          .head_dim = config_.kda_head_dim,
          .taps = config_.conv_kernel,
          .pending = state.pending,
          .conv = {conv_[0].data(), conv_[1].data(), conv_[2].data()},
          .a = weights_.a,
          .dt_bias = weights_.dt_bias,
          .o_norm = weights_.o_norm,
          .qk_norm_eps = config_.qk_norm_eps,
          .o_norm_eps = config_.rms_norm_eps,
          .state = state.state,
          .conv_tail = state.conv_tail};
}

void KdaLayer::settle(Ops& ops, const KdaState& state) const { ops.kda(recurrence(state)); }

void KdaLayer::forward(Ops& ops, Activation& x, std::span<const Segment> segments, int64_t layer, KdaScratch& scratch,
                       const MatView& out, const Trace& trace) const {
  const int64_t n = x.f32().rows;
  const KdaWeights& w = weights_;
  const KdaRows rows = {.q = scratch.q.first_rows(n),
                        .k = scratch.k.first_rows(n),
                        .v = scratch.v.first_rows(n),
                        .f = scratch.f.first_rows(n),
                        .beta = scratch.beta.first_rows(n)};
  const MatView gate = scratch.gate.first_rows(n);
  const MatView f_low = scratch.f_low.first_rows(n);
  const MatView gate_low = scratch.gate_low.first_rows(n);
  const MatView gated = scratch.out.first_rows(n);

  const Product from_x[] = {{&x, w.q, rows.q},       {&x, w.k, rows.k},  {&x, w.v, rows.v},
                            {&x, w.beta, rows.beta}, {&x, w.f_a, f_low}, {&x, w.g_a, gate_low}};
  trace.inputs({TensorId::kKdaQ, TensorId::kKdaK, TensorId::kKdaV, TensorId::kKdaQkv, TensorId::kBeta,
                TensorId::kDecayDown, TensorId::kGateDown},
               x.f32());
  ops.matmul(from_x);
  scratch.f_low_x.set(f_low);
  scratch.gate_low_x.set(gate_low);
  const Product gates[] = {{&scratch.f_low_x, w.f_b, rows.f}, {&scratch.gate_low_x, w.g_b, gate}};
  trace.inputs({TensorId::kDecayUp}, f_low);
  trace.inputs({TensorId::kGateUp}, gate_low);
  ops.matmul(gates);

  std::vector<float> raw_values;
  if (trace) raw_values.resize(static_cast<size_t>(n * config_.kda_width()));
  const MatView raw_out = {raw_values.data(), n, config_.kda_width(), config_.kda_width()};
  int64_t begin = 0;
  for (const Segment& segment : segments) {
    const KdaState state = segment.state->kda(layer, segment.tentative ? segment.n() : 0);
    KdaOp op = recurrence(state);
    op.x = rows.rows_from(begin, segment.n());
    op.tentative = segment.tentative;
    op.gate = gate.rows_from(begin, segment.n());
    op.out = gated.rows_from(begin, segment.n());
    op.trace = static_cast<bool>(trace);
    if (trace) op.raw_out = raw_out.rows_from(begin, segment.n());
    ops.kda(op);
    if (segment.tentative) {
      const std::pair<const MatView&, const MatView&> copies[] = {{op.x.q, state.kept.q},
                                                                  {op.x.k, state.kept.k},
                                                                  {op.x.v, state.kept.v},
                                                                  {op.x.f, state.kept.f},
                                                                  {op.x.beta, state.kept.beta}};
      for (const auto& [from, to] : copies) ops.copy(from, to);
    }
    begin += segment.n();
  }
  if (trace) {
    const int64_t n_heads = config_.kda_heads;
    trace.put("kda.q", rows.q, n_heads);
    trace.put("kda.k", rows.k, n_heads);
    trace.put("kda.v", rows.v, n_heads);
    trace.put("kda.log_decay", rows.f, n_heads);
    trace.put("kda.beta", rows.beta);
    trace.put("kda.o", raw_out, n_heads);
    trace.put("kda.o_gated", gated, n_heads);
  }

  scratch.out_x.set(gated);
  const Product output[] = {{&scratch.out_x, w.o, out}};
  trace.inputs({TensorId::kKdaOutput}, gated);
  ops.matmul(output);
}

}  // namespace kda
