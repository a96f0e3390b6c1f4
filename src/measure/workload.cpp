#include "measure/workload.h"

#include <initializer_list>
#include <span>

#include "state/sequence_state.h"

namespace kda {

namespace {

/// Sums over the weights that a token reads.
struct Sums {
  int64_t macs = 0;
  int64_t bytes = 0;

  void add(const QMatView& w) noexcept {
    macs += w.rows * w.cols;
    bytes += w.rows * w.row_bytes;
  }
  void add(const QMatsView& w, int64_t n_used) noexcept {
    macs += n_used * w.rows * w.cols;
    bytes += n_used * w.rows * w.row_bytes;
  }
  void add(std::span<const float> vector) noexcept { bytes += static_cast<int64_t>(vector.size_bytes()); }

  void add(const KdaWeights& w, const ModelConfig& c) noexcept {
    for (const QMatView& m : {w.q, w.k, w.v, w.f_a, w.f_b, w.beta, w.g_a, w.g_b, w.o}) add(m);
    for (const auto& v : {w.conv_q, w.conv_k, w.conv_v, w.a, w.dt_bias, w.o_norm}) add(v);
    macs += 3 * c.kda_width() * (c.conv_kernel + c.kda_head_dim);
  }
  void add(const MlaWeights& w) noexcept {
    for (const QMatView& m : {w.q, w.q_a, w.q_b, w.kv_a, w.o}) add(m);
    for (const auto& v : {w.q_a_norm, w.kv_a_norm}) add(v);
    add(w.k_b, w.k_b.n());
    add(w.v_b, w.v_b.n());
  }
  void add(const DenseFfnWeights& w) noexcept {
    for (const QMatView& m : {w.gate, w.up, w.down}) add(m);
  }
  void add(const MoeWeights& w, int64_t n_used) noexcept {
    add(w.router);
    add(w.router_bias);
    for (const QMatsView& m : {w.gate, w.up, w.down}) add(m, n_used);
    add(w.shared);
  }
};

/// Pairs of a token and one that it looks at, for n tokens behind `position` others.
int64_t n_pairs(int64_t position, int64_t n) noexcept { return n * position + n * (n + 1) / 2; }

}  // namespace

Workload::Workload(const ModelConfig& config, const ModelWeights& weights)
    : pair_macs_(config.count(AttentionKind::kMla) * config.n_heads * (config.qk_head_dim() + config.v_head_dim)),
      state_bytes_(SequenceState::recurrent_bytes(config)),
      latent_bytes_(SequenceState::latent_bytes(config, 1)) {
  Sums layers;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const LayerWeights& w = weights.layers[i];
    layers.add(w.attn_norm);
    layers.add(w.ffn_norm);
    if (config.layers[i].attention == AttentionKind::kKda) {
      layers.add(w.kda, config);
    } else {
      layers.add(w.mla);
    }
    if (config.layers[i].ffn == FfnKind::kDense) {
      layers.add(w.dense);
    } else {
      layers.add(w.moe, config.n_experts_used);
    }
  }
  Sums head;
  head.add(weights.output_norm);
  head.add(weights.output);
  token_macs_ = layers.macs;
  head_macs_ = head.macs;
  weight_bytes_ = layers.bytes + head.bytes + weights.token_embd.row_bytes;
}

int64_t Workload::prompt_macs(int64_t position, int64_t n) const noexcept {
  return n * token_macs_ + head_macs_ + n_pairs(position, n) * pair_macs_;
}

int64_t Workload::generation_bytes(int64_t position, int64_t n) const noexcept {
  return n * (weight_bytes_ + 2 * state_bytes_ + latent_bytes_) + n_pairs(position, n) * latent_bytes_;
}

}  // namespace kda
