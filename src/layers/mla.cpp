// Multi-head latent attention, no positional encoding. H heads, R latent, N nope, P positional channels (which exist
// but are not rotated), V value channels a head.
//
//   q               = W_q x, or W_qb rms_norm(W_qa x)              [H, N + P]
//   c, k_pe         = W_kva x;   c = rms_norm(c)                   [R], [P], shared by all heads: a row of the cache
//
// Absorbed form, for few tokens:
//   q_abs_h         = K_h q_nope_h                                 [R]: with k_h = K_h^T c, q_nope . k_h = q_abs . c
//   score_h(t, s)   = (q_abs_h,t . c_s + q_pe_h,t . k_pe_s) / sqrt(N + P),  s <= t
//   ctx_h           = sum_s softmax_s(score) c_s                   [R]
//   out             = W_o concat_h( V_h ctx_h )
// Expanded form, for many:
//   score_h(t, s)   = (q_nope_h,t . K_h^T c_s + q_pe_h,t . k_pe_s) / sqrt(N + P),  s <= t
//   out             = W_o concat_h( sum_s softmax_s(score) V_h c_s )
//
// A pair of token and key costs 2 R + P multiplications a head in the first form and N + P + V in the second, where a
// key costs R (N + V) more, once for all tokens: for the 48B model 1,088, 320 and 131,072, so it pays from 171 tokens
// on. The form depends on the number of tokens in the segment alone, unless the segment names it; within a form a
// token's result does not depend on how a prompt was cut into batches.
#include "layers/mla.h"

#include <algorithm>
#include <cmath>

namespace kda {

namespace {

// Smaller batches are never expanded of themselves, whatever it saves: tokens decoded one by one and several drafted
// ones shall have the same bits.
constexpr int64_t kLeastExpanded = 32;

int64_t tile_tokens(int64_t max_tokens) { return std::min(max_tokens, kMlaTileTokens); }

}  // namespace

MlaScratch::MlaScratch(const ModelConfig& config, int64_t max_tokens, Arena& arena)
    : q_low(take_matrix(arena, max_tokens, config.q_lora_rank)),
      q(take_matrix(arena, max_tokens, config.n_heads * config.qk_head_dim())),
      kv(take_matrix(arena, max_tokens, config.latent_dim())),
      q_latent(take_matrix(arena, tile_tokens(max_tokens) * config.n_heads, config.latent_dim())),
      ctx(take_matrix(arena, tile_tokens(max_tokens) * config.n_heads, config.kv_lora_rank)),
      out(take_matrix(arena, max_tokens, config.n_heads * config.v_head_dim)),
      q_low_x(arena, max_tokens, config.q_lora_rank),
      q_nope_x(arena, tile_tokens(max_tokens) * config.n_heads, config.qk_nope_head_dim),
      ctx_x(arena, tile_tokens(max_tokens) * config.n_heads, config.kv_lora_rank),
      out_x(arena, max_tokens, config.n_heads * config.v_head_dim),
      head_rows(arena.take<int32_t>(tile_tokens(max_tokens) * config.n_heads)),
      heads(arena.take<int32_t>(config.n_heads)),
      begin(arena.take<int32_t>(config.n_heads + 1)),
      states(arena.take<SoftmaxState>(config.n_heads * max_tokens)) {}

MlaLayer::MlaLayer(const ModelConfig& c, const MlaWeights& weights, int64_t expand_from)
    : config_(c), weights_(weights), expand_from_(expand_from) {
  if (expand_from > 0) return;
  const int64_t more_a_key = c.kv_lora_rank * (c.qk_nope_head_dim + c.v_head_dim);
  const int64_t less_a_pair = 2 * c.kv_lora_rank - c.qk_nope_head_dim - c.v_head_dim;
  expand_from_ = less_a_pair <= 0 ? INT64_MAX : std::max(kLeastExpanded, more_a_key / less_a_pair + 1);
}

void MlaLayer::forward(Ops& ops, Activation& x, std::span<const Segment> segments, int64_t layer, MlaScratch& scratch,
                       const MatView& out, const Trace& trace) const {
  const ModelConfig& c = config_;
  const MlaWeights& w = weights_;
  const int64_t n = x.f32().rows;
  const int64_t n_heads = c.n_heads;
  const int64_t rope = c.qk_rope_head_dim;
  const int64_t rank = c.kv_lora_rank;
  const MatView q = scratch.q.first_rows(n);
  const MatView kv = scratch.kv.first_rows(n);

  if (w.q_a) {
    const MatView q_low = scratch.q_low.first_rows(n);
    const Product from_x[] = {{&x, w.q_a, q_low}, {&x, w.kv_a, kv}};
    trace.inputs({TensorId::kMlaQDown, TensorId::kMlaKvDown}, x.f32());
    ops.matmul(from_x);
    ops.rms_norm(q_low, w.q_a_norm, c.rms_norm_eps, q_low);
    scratch.q_low_x.set(q_low);
    const Product from_q_low[] = {{&scratch.q_low_x, w.q_b, q}};
    trace.inputs({TensorId::kMlaQUp}, q_low);
    ops.matmul(from_q_low);
  } else {
    const Product from_x[] = {{&x, w.q, q}, {&x, w.kv_a, kv}};
    trace.inputs({TensorId::kMlaQ, TensorId::kMlaKvDown}, x.f32());
    ops.matmul(from_x);
  }
  trace.put("mla.q", q, n_heads);

  int64_t first = 0;
  for (const Segment& segment : segments) {
    const MatView rows = {segment.state->latents(layer) + segment.state->size() * c.latent_dim(), segment.n(),
                          c.latent_dim(), c.latent_dim()};
    const MatView from = kv.rows_from(first, segment.n());
    ops.rms_norm(from.columns(0, rank), w.kv_a_norm, c.rms_norm_eps, rows.columns(0, rank));
    ops.copy(from.columns(rank, rope), rows.columns(rank, rope));
    trace.put("mla.latent", rows.columns(0, rank));
    trace.inputs({TensorId::kMlaKvUp}, rows.columns(0, rank));  // what the product reads that is not absorbed
    trace.put("mla.k_pe", rows.columns(rank, rope));
    first += segment.n();
  }

  const MatView heads_out = scratch.out.first_rows(n);
  std::vector<float> all_ctx;  // for the trace
  const auto absorbed = [&](int64_t begin, int64_t end) {
    for (; begin < end; begin += kMlaTileTokens) {
      const int64_t n_tile = std::min(kMlaTileTokens, end - begin);
      attend(ops, segments, layer, begin, begin + n_tile, scratch, trace);
      if (trace) all_ctx.insert(all_ctx.end(), scratch.ctx.data, scratch.ctx.row(n_tile * n_heads));
    }
  };
  int64_t begin = 0;  // of the rows that have no output yet
  int64_t end = 0;
  for (const Segment& segment : segments) {
    const int64_t segment_begin = end;
    end += segment.n();
    if (!expands(segment) || trace) continue;
    absorbed(begin, segment_begin);
    ops.mla_expanded({.n_heads = n_heads,
                      .first_position = segment.state->size(),
                      .scale = scale(),
                      .q = q.rows_from(segment_begin, segment.n()),
                      .cache = segment.state->latents(layer),
                      .k_b = &w.k_b,
                      .v_b = &w.v_b,
                      .states = scratch.states,
                      .out = heads_out.rows_from(segment_begin, segment.n())});
    begin = end;
  }
  absorbed(begin, n);
  if (trace) trace.put("mla.ctx", {all_ctx.data(), n, n_heads * rank, n_heads * rank}, n_heads);
  scratch.out_x.set(heads_out);
  const Product output[] = {{&scratch.out_x, w.o, out}};
  trace.inputs({TensorId::kMlaOutput}, heads_out);
  ops.matmul(output);
}

bool MlaLayer::expands(const Segment& segment) const noexcept {
  if (segment.mla_form == MlaForm::kAuto) return segment.n() >= expand_from_;
  return segment.mla_form == MlaForm::kExpanded;
}

float MlaLayer::scale() const noexcept { return 1 / std::sqrt(static_cast<float>(config_.qk_head_dim())); }

void MlaLayer::attend(Ops& ops, std::span<const Segment> segments, int64_t layer, int64_t begin, int64_t end,
                      MlaScratch& scratch, const Trace& trace) const {
  const ModelConfig& c = config_;
  const int64_t n = end - begin;
  const MatView q = scratch.q.rows_from(begin, n);
  const MatView out = scratch.out.rows_from(begin, n);
  const int64_t n_heads = c.n_heads;
  const int64_t rank = c.kv_lora_rank;
  // Each head's rows go through that head's matrix.
  for (int64_t head = 0; head < n_heads; ++head) {
    scratch.heads[head] = static_cast<int32_t>(head);
    scratch.begin[head] = static_cast<int32_t>(head * n);
    for (int64_t t = 0; t < n; ++t) scratch.head_rows[head * n + t] = static_cast<int32_t>(t * n_heads + head);
  }
  scratch.begin[n_heads] = static_cast<int32_t>(n_heads * n);
  const Grouping by_head = {.n_groups = n_heads,
                            .matrix = scratch.heads,
                            .begin = scratch.begin,
                            .x_rows = scratch.head_rows,
                            .y_rows = scratch.head_rows};

  const MatView q_heads = q.split(n_heads);  // [U * H, N + P]
  const MatView q_latent = scratch.q_latent.first_rows(n * n_heads);
  scratch.q_nope_x.set(q_heads.columns(0, c.qk_nope_head_dim));
  const GroupedProduct absorb[] = {{&scratch.q_nope_x, &weights_.k_b, q_latent.columns(0, rank), &by_head}};
  trace.inputs({TensorId::kMlaKUp}, scratch.q_nope_x.f32(), by_head);
  ops.matmul({}, absorb);
  ops.copy(q_heads.columns(c.qk_nope_head_dim, c.qk_rope_head_dim), q_latent.columns(rank, c.qk_rope_head_dim));

  const MatView ctx = scratch.ctx.first_rows(n * n_heads);
  int64_t first = 0;  // of the segment, in the batch
  for (const Segment& segment : segments) {
    const int64_t from = std::max(begin, first);
    const int64_t to = std::min(end, first + segment.n());
    if (from < to) {
      ops.mla_attend({.n_heads = n_heads,
                      .dim_v = rank,
                      .first_position = segment.state->size() + from - first,
                      .scale = scale(),
                      .q = q_latent.rows_from((from - begin) * n_heads, (to - from) * n_heads),
                      .cache = segment.state->latents(layer),
                      .ctx = ctx.rows_from((from - begin) * n_heads, (to - from) * n_heads)});
    }
    first += segment.n();
  }
  scratch.ctx_x.set(ctx);
  const GroupedProduct expand[] = {{&scratch.ctx_x, &weights_.v_b, out.split(n_heads), &by_head}};
  trace.inputs({TensorId::kMlaVUp}, ctx, by_head);
  ops.matmul({}, expand);
}

}  // namespace kda
