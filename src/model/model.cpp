// x = embed(ids)
// every layer:  x = x + attention(rms_norm(x));  x = x + ffn(rms_norm(x))
// logits = W_output rms_norm(x)
#include "model/model.h"

#include <algorithm>

namespace kda {

namespace {

// Lays T out behind what is taken so far, then gives the memory back for the next one that takes turns with it.
template <typename T, typename... Args>
T take_turn(Arena& arena, Args&&... args) {
  const size_t position = arena.position();
  T scratch(std::forward<Args>(args)..., arena);
  arena.rewind(position);
  return scratch;
}

}  // namespace

Workspace::Workspace(const ModelConfig& config, int64_t n, Arena& arena)
    : max_tokens(n),
      x(take_matrix(arena, n, config.hidden_size)),
      h(take_matrix(arena, n, config.hidden_size)),
      y(take_matrix(arena, n, config.hidden_size)),
      h_x(arena, n, config.hidden_size),
      kda(take_turn<KdaScratch>(arena, config, n)),
      mla(take_turn<MlaScratch>(arena, config, n)),
      dense(take_turn<DenseFfnScratch>(arena, config.intermediate_size, n)),
      moe(take_turn<MoeScratch>(arena, config, n)) {
  arena.skip_to_peak();
}

OpsLimits ops_limits(const ModelConfig& c) noexcept {
  return {.max_cols = std::max({c.hidden_size, c.kda_width(), c.kda_head_dim, c.n_heads * c.v_head_dim, c.q_lora_rank,
                                c.kv_lora_rank, c.qk_nope_head_dim, c.intermediate_size, c.moe_intermediate_size,
                                c.shared_intermediate_size()}),
          .kda_head_dim = c.kda_head_dim,
          .kda_taps = c.conv_kernel,
          .latent_rank = c.kv_lora_rank,
          .latent_pe = c.qk_rope_head_dim,
          .mla_nope = c.qk_nope_head_dim,
          .mla_value = c.v_head_dim,
          .n_experts = c.n_experts};
}

Model::Model(const ModelConfig& config, const ModelWeights& weights, int64_t expand_mla_from)
    : config_(config), weights_(weights) {
  layers_.reserve(config.layers.size());
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const LayerWeights& w = weights.layers[i];
    using Attention = std::variant<KdaLayer, MlaLayer>;
    using Ffn = std::variant<DenseFfn, MoeLayer>;
    layers_.push_back(
        {config.layers[i].attention == AttentionKind::kKda ? Attention(KdaLayer(config, w.kda))
                                                           : Attention(MlaLayer(config, w.mla, expand_mla_from)),
         config.layers[i].ffn == FfnKind::kDense ? Ffn(DenseFfn(w.dense)) : Ffn(MoeLayer(config, w.moe))});
  }
}

int64_t Model::expand_mla_from() const noexcept {
  for (const Layer& layer : layers_) {
    if (const auto* mla = std::get_if<MlaLayer>(&layer.attention)) return mla->expand_from();
  }
  return INT64_MAX;
}

int64_t Model::owned_bytes() const noexcept {
  int64_t bytes = 0;
  for (const Layer& layer : layers_) {
    if (const auto* kda = std::get_if<KdaLayer>(&layer.attention)) bytes += kda->owned_bytes();
  }
  return bytes;
}

void Model::settle(Ops& ops, SequenceState& state) const {
  if (state.n_pending() > 0) {
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (const auto* kda = std::get_if<KdaLayer>(&layers_[i].attention)) {
        kda->settle(ops, state.kda(static_cast<int64_t>(i)));
      }
    }
  }
  state.settled();
}

void Model::forward(Ops& ops, Workspace& workspace, std::span<const Segment> segments, TensorSink* sink,
                    const std::function<void(int64_t)>& each_layer) const {
  int64_t n = 0;
  for (const Segment& segment : segments) {
    KDA_CHECK(segment.n() >= 1 && segment.state->size() + segment.n() <= segment.state->context());
    n += segment.n();
  }
  KDA_CHECK(n >= 1 && n <= workspace.max_tokens);
  const MatView x = workspace.x.first_rows(n);
  const MatView h = workspace.h.first_rows(n);
  const MatView y = workspace.y.first_rows(n);
  int64_t begin = 0;
  for (const Segment& segment : segments) {
    ops.embed(weights_.token_embd, segment.ids, x.rows_from(begin, segment.n()));
    begin += segment.n();
  }
  Trace(sink, -1).put("embed", x);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const auto index = static_cast<int64_t>(i);
    const Trace trace(sink, index);
    ops.rms_norm(x, weights_.layers[i].attn_norm, config_.rms_norm_eps, h);
    trace.put("attn_norm", h);
    workspace.h_x.set(h);
    if (const auto* kda = std::get_if<KdaLayer>(&layer.attention)) {
      kda->forward(ops, workspace.h_x, segments, index, workspace.kda, y, trace);
    } else {
      std::get<MlaLayer>(layer.attention).forward(ops, workspace.h_x, segments, index, workspace.mla, y, trace);
    }
    trace.put("attn_out", y);
    ops.add(y, x);

    ops.rms_norm(x, weights_.layers[i].ffn_norm, config_.rms_norm_eps, h);
    trace.put("ffn_norm", h);
    workspace.h_x.set(h);
    if (const auto* moe = std::get_if<MoeLayer>(&layer.ffn)) {
      moe->forward(ops, workspace.h_x, workspace.moe, y, trace);
    } else {
      std::get<DenseFfn>(layer.ffn).forward(ops, workspace.h_x, workspace.dense, y, trace);
    }
    trace.put("ffn_out", y);
    ops.add(y, x);
    trace.put("out", x);
    if (each_layer && i + 1 < layers_.size()) each_layer(index + 1);
  }
  for (const Segment& segment : segments) {
    segment.tentative ? segment.state->append_tentative(segment.ids) : segment.state->append(segment.ids);
  }
}

void Model::logits(Ops& ops, Workspace& workspace, std::span<const int64_t> rows, const MatView& logits) const {
  const MatView h = workspace.h.first_rows(logits.rows);
  for (int64_t i = 0; i < logits.rows; ++i) {
    ops.rms_norm(workspace.x.rows_from(rows[static_cast<size_t>(i)], 1), weights_.output_norm, config_.rms_norm_eps,
                 h.rows_from(i, 1));
  }
  head(ops, workspace, h, logits, nullptr);
}

void Model::logits(Ops& ops, Workspace& workspace, int64_t first, const MatView& logits, TensorSink* sink) const {
  const MatView h = workspace.h.first_rows(logits.rows);
  ops.rms_norm(workspace.x.rows_from(first, logits.rows), weights_.output_norm, config_.rms_norm_eps, h);
  head(ops, workspace, h, logits, sink);
}

void Model::head(Ops& ops, Workspace& workspace, const MatView& h, const MatView& logits, TensorSink* sink) const {
  workspace.h_x.set(h);
  const Product products[] = {{&workspace.h_x, weights_.output, logits}};
  const Trace trace(sink, -1);
  trace.inputs({TensorId::kOutput}, h);
  ops.matmul(products);
  trace.put("norm", h);
  trace.put("logits", logits);
}

}  // namespace kda
