#include "arch/tensor_schema.h"

#include <charconv>
#include <cstddef>

#include "base/error.h"

namespace kda {

namespace {

using Id = TensorId;
using Scope = TensorScope;
using enum Dim;

constexpr auto kMatrix = TensorStorage::kMatrix;
constexpr auto kVector = TensorStorage::kVector;
constexpr auto kSame = TensorTransform::kNone;
constexpr auto kStack = TensorTransform::kStackExperts;

constexpr TensorSpec row(Id id, Scope scope, TensorStorage storage, std::string_view hf, std::string_view gguf,
                         DimList dims) {
  return {id, scope, storage, kSame, false, hf, dims, gguf, {}, dims};
}

constexpr TensorSpec expert_row(Id id, std::string_view hf, std::string_view gguf, Dim rows, Dim cols) {
  return {id, Scope::kMoe, kMatrix, kStack, false, hf, {rows, cols}, gguf, {}, {kExperts, rows, cols}};
}

constexpr TensorSpec conv_row(Id id, std::string_view hf, std::string_view gguf) {
  return {
      id, Scope::kKda, kVector, kSame, false, hf, {kKdaWidth, kOne, kTaps}, gguf, {}, {kOne, kKdaWidth, kOne, kTaps}};
}

// Names and shapes: the checkpoint of Kimi-Linear-48B-A3B and the GGUF files that llama.cpp's converter makes of it.
constexpr TensorSpec kSchema[] = {
    row(Id::kTokenEmbedding, Scope::kModel, kMatrix, "model.embed_tokens.weight", "token_embd.weight",
        {kVocab, kHidden}),
    row(Id::kOutputNorm, Scope::kModel, kVector, "model.norm.weight", "output_norm.weight", {kHidden}),
    row(Id::kOutput, Scope::kUntied, kMatrix, "lm_head.weight", "output.weight", {kVocab, kHidden}),
    row(Id::kAttentionNorm, Scope::kLayer, kVector, "model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight",
        {kHidden}),
    row(Id::kFfnNorm, Scope::kLayer, kVector, "model.layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight",
        {kHidden}),

    row(Id::kKdaQ, Scope::kKda, kMatrix, "model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight",
        {kKdaWidth, kHidden}),
    row(Id::kKdaK, Scope::kKda, kMatrix, "model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight",
        {kKdaWidth, kHidden}),
    row(Id::kKdaV, Scope::kKda, kMatrix, "model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight",
        {kKdaWidth, kHidden}),
    {Id::kKdaQkv, Scope::kKda, kMatrix, kSame, true, {}, {}, "blk.#.attn_qkv.weight", {}, {kKdaQkv, kHidden}},
    conv_row(Id::kConvQ, "model.layers.#.self_attn.q_conv1d.weight", "blk.#.ssm_conv1d_q.weight"),
    conv_row(Id::kConvK, "model.layers.#.self_attn.k_conv1d.weight", "blk.#.ssm_conv1d_k.weight"),
    conv_row(Id::kConvV, "model.layers.#.self_attn.v_conv1d.weight", "blk.#.ssm_conv1d_v.weight"),
    row(Id::kDecayDown, Scope::kKda, kMatrix, "model.layers.#.self_attn.f_a_proj.weight", "blk.#.ssm_f_a.weight",
        {kKdaHeadDim, kHidden}),
    row(Id::kDecayUp, Scope::kKda, kMatrix, "model.layers.#.self_attn.f_b_proj.weight", "blk.#.ssm_f_b.weight",
        {kKdaWidth, kKdaHeadDim}),
    row(Id::kBeta, Scope::kKda, kMatrix, "model.layers.#.self_attn.b_proj.weight", "blk.#.ssm_beta.weight",
        {kKdaHeads, kHidden}),
    {Id::kDecayRate,
     Scope::kKda,
     kVector,
     TensorTransform::kNegExp,
     false,
     "model.layers.#.self_attn.A_log",
     {kOne, kOne, kKdaHeads, kOne},
     "blk.#.ssm_a",
     {},
     {kOne, kOne, kKdaHeads, kOne}},
    {Id::kDtBias,
     Scope::kKda,
     kVector,
     kSame,
     false,
     "model.layers.#.self_attn.dt_bias",
     {kKdaWidth},
     "blk.#.ssm_dt.bias",
     "blk.#.ssm_dt",
     {kKdaWidth}},
    row(Id::kGateDown, Scope::kKda, kMatrix, "model.layers.#.self_attn.g_a_proj.weight", "blk.#.ssm_g_a.weight",
        {kKdaHeadDim, kHidden}),
    row(Id::kGateUp, Scope::kKda, kMatrix, "model.layers.#.self_attn.g_b_proj.weight", "blk.#.ssm_g_b.weight",
        {kKdaWidth, kKdaHeadDim}),
    row(Id::kKdaNorm, Scope::kKda, kVector, "model.layers.#.self_attn.o_norm.weight", "blk.#.ssm_norm.weight",
        {kKdaHeadDim}),
    row(Id::kKdaOutput, Scope::kKda, kMatrix, "model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight",
        {kHidden, kKdaWidth}),

    row(Id::kMlaQ, Scope::kMlaDirectQ, kMatrix, "model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight",
        {kMlaQuery, kHidden}),
    row(Id::kMlaQDown, Scope::kMlaLowRankQ, kMatrix, "model.layers.#.self_attn.q_a_proj.weight",
        "blk.#.attn_q_a.weight", {kMlaQRank, kHidden}),
    row(Id::kMlaQNorm, Scope::kMlaLowRankQ, kVector, "model.layers.#.self_attn.q_a_layernorm.weight",
        "blk.#.attn_q_a_norm.weight", {kMlaQRank}),
    row(Id::kMlaQUp, Scope::kMlaLowRankQ, kMatrix, "model.layers.#.self_attn.q_b_proj.weight", "blk.#.attn_q_b.weight",
        {kMlaQuery, kMlaQRank}),
    row(Id::kMlaKvDown, Scope::kMla, kMatrix, "model.layers.#.self_attn.kv_a_proj_with_mqa.weight",
        "blk.#.attn_kv_a_mqa.weight", {kMlaKvDown, kHidden}),
    row(Id::kMlaKvNorm, Scope::kMla, kVector, "model.layers.#.self_attn.kv_a_layernorm.weight",
        "blk.#.attn_kv_a_norm.weight", {kMlaLatent}),
    {Id::kMlaKvUp,
     Scope::kMla,
     kMatrix,
     kSame,
     true,
     "model.layers.#.self_attn.kv_b_proj.weight",
     {kMlaKvUp, kMlaLatent},
     "blk.#.attn_kv_b.weight",
     {},
     {kMlaKvUp, kMlaLatent}},
    {Id::kMlaKUp,
     Scope::kMla,
     kMatrix,
     TensorTransform::kSplitHeads,
     false,
     {},
     {},
     "blk.#.attn_k_b.weight",
     {},
     {kMlaHeads, kMlaLatent, kMlaNope}},
    {Id::kMlaVUp,
     Scope::kMla,
     kMatrix,
     TensorTransform::kSplitHeads,
     false,
     {},
     {},
     "blk.#.attn_v_b.weight",
     {},
     {kMlaHeads, kMlaValue, kMlaLatent}},
    row(Id::kMlaOutput, Scope::kMla, kMatrix, "model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight",
        {kHidden, kMlaWidth}),

    row(Id::kDenseGate, Scope::kDense, kMatrix, "model.layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight",
        {kFfn, kHidden}),
    row(Id::kDenseUp, Scope::kDense, kMatrix, "model.layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight",
        {kFfn, kHidden}),
    row(Id::kDenseDown, Scope::kDense, kMatrix, "model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight",
        {kHidden, kFfn}),
    row(Id::kRouter, Scope::kMoe, kMatrix, "model.layers.#.block_sparse_moe.gate.weight", "blk.#.ffn_gate_inp.weight",
        {kExperts, kHidden}),
    {Id::kRouterBias,
     Scope::kMoe,
     kVector,
     kSame,
     false,
     "model.layers.#.block_sparse_moe.gate.e_score_correction_bias",
     {kExperts},
     "blk.#.exp_probs_b.bias",
     "blk.#.exp_probs_b",
     {kExperts}},
    expert_row(Id::kExpertGate, "model.layers.#.block_sparse_moe.experts.*.w1.weight", "blk.#.ffn_gate_exps.weight",
               kExpertFfn, kHidden),
    expert_row(Id::kExpertUp, "model.layers.#.block_sparse_moe.experts.*.w3.weight", "blk.#.ffn_up_exps.weight",
               kExpertFfn, kHidden),
    {Id::kExpertGateUp,
     Scope::kMoe,
     kMatrix,
     kStack,
     true,
     {},
     {},
     "blk.#.ffn_gate_up_exps.weight",
     {},
     {kExperts, kExpertGateUp, kHidden}},
    expert_row(Id::kExpertDown, "model.layers.#.block_sparse_moe.experts.*.w2.weight", "blk.#.ffn_down_exps.weight",
               kHidden, kExpertFfn),
    row(Id::kSharedGate, Scope::kShared, kMatrix, "model.layers.#.block_sparse_moe.shared_experts.gate_proj.weight",
        "blk.#.ffn_gate_shexp.weight", {kSharedFfn, kHidden}),
    row(Id::kSharedUp, Scope::kShared, kMatrix, "model.layers.#.block_sparse_moe.shared_experts.up_proj.weight",
        "blk.#.ffn_up_shexp.weight", {kSharedFfn, kHidden}),
    row(Id::kSharedDown, Scope::kShared, kMatrix, "model.layers.#.block_sparse_moe.shared_experts.down_proj.weight",
        "blk.#.ffn_down_shexp.weight", {kHidden, kSharedFfn}),
};

constexpr bool ids_are_indices() {
  size_t i = 0;
  for (const TensorSpec& spec : kSchema) {
    if (static_cast<size_t>(spec.id) != i++) return false;
  }
  return i == static_cast<size_t>(Id::kSharedDown) + 1;
}
static_assert(ids_are_indices());

int64_t size_of(Dim dim, const ModelConfig& c) noexcept {
  switch (dim) {
    case kEnd:
    case kOne:
      return 1;
    case kVocab:
      return c.vocab_size;
    case kHidden:
      return c.hidden_size;
    case kKdaHeads:
      return c.kda_heads;
    case kKdaHeadDim:
      return c.kda_head_dim;
    case kKdaWidth:
      return c.kda_width();
    case kKdaQkv:
      return 3 * c.kda_width();
    case kTaps:
      return c.conv_kernel;
    case kMlaHeads:
      return c.n_heads;
    case kMlaQuery:
      return c.n_heads * c.qk_head_dim();
    case kMlaQRank:
      return c.q_lora_rank;
    case kMlaKvDown:
      return c.latent_dim();
    case kMlaLatent:
      return c.kv_lora_rank;
    case kMlaNope:
      return c.qk_nope_head_dim;
    case kMlaValue:
      return c.v_head_dim;
    case kMlaKvUp:
      return c.n_heads * (c.qk_nope_head_dim + c.v_head_dim);
    case kMlaWidth:
      return c.n_heads * c.v_head_dim;
    case kFfn:
      return c.intermediate_size;
    case kExperts:
      return c.n_experts;
    case kExpertFfn:
      return c.moe_intermediate_size;
    case Dim::kExpertGateUp:
      return 2 * c.moe_intermediate_size;
    case kSharedFfn:
      return c.shared_intermediate_size();
  }
  return 0;
}

}  // namespace

std::span<const TensorSpec> tensor_schema() noexcept { return kSchema; }

const TensorSpec& tensor_spec(TensorId id) noexcept { return kSchema[static_cast<size_t>(id)]; }

bool applies(const TensorSpec& spec, const ModelConfig& config, int64_t layer) noexcept {
  if (spec.scope == Scope::kModel) return true;
  if (spec.scope == Scope::kUntied) return !config.tied_embeddings;
  const LayerConfig& l = config.layers[static_cast<size_t>(layer)];
  switch (spec.scope) {
    case Scope::kModel:
    case Scope::kUntied:
    case Scope::kLayer:
      return true;
    case Scope::kKda:
      return l.attention == AttentionKind::kKda;
    case Scope::kMla:
      return l.attention == AttentionKind::kMla;
    case Scope::kMlaDirectQ:
      return l.attention == AttentionKind::kMla && config.q_lora_rank == 0;
    case Scope::kMlaLowRankQ:
      return l.attention == AttentionKind::kMla && config.q_lora_rank > 0;
    case Scope::kDense:
      return l.ffn == FfnKind::kDense;
    case Scope::kMoe:
      return l.ffn == FfnKind::kMoe;
    case Scope::kShared:
      return l.ffn == FfnKind::kMoe && config.n_shared_experts > 0;
  }
  return false;
}

std::string tensor_name(std::string_view pattern, int64_t layer, int64_t expert) {
  std::string name;
  name.reserve(pattern.size() + 8);
  for (const char c : pattern) {
    if (c == '#') {
      name += std::to_string(layer);
    } else if (c == '*') {
      name += std::to_string(expert);
    } else {
      name += c;
    }
  }
  return name;
}

std::optional<TensorMatch> match_gguf_name(std::string_view name) noexcept {
  // Put the number of the layer aside: "blk.12.attn_q.weight" is layer 12 of the pattern "blk.#.attn_q.weight".
  constexpr std::string_view kLayerPrefix = "blk.";
  int64_t layer = 0;
  std::string_view rest = name;
  if (name.starts_with(kLayerPrefix)) {
    const char* const end = name.data() + name.size();
    const auto [after, error] = std::from_chars(name.data() + kLayerPrefix.size(), end, layer);
    if (error != std::errc() || layer < 0) return std::nullopt;
    rest = std::string_view(after, static_cast<size_t>(end - after));
  }
  const auto fits = [&](std::string_view pattern) {
    if (rest.size() == name.size()) return pattern == name;
    const size_t mark = pattern.find('#');
    return mark != std::string_view::npos && pattern.substr(mark + 1) == rest;
  };
  for (const TensorSpec& spec : kSchema) {
    if (!spec.gguf.empty() && (fits(spec.gguf) || fits(spec.gguf_old))) return TensorMatch{&spec, layer};
  }
  return std::nullopt;
}

std::vector<int64_t> tensor_shape(const DimList& dims, const ModelConfig& config) {
  std::vector<int64_t> shape;
  for (const Dim dim : dims) {
    if (dim == kEnd) break;
    shape.push_back(size_of(dim, config));
  }
  return shape;
}

}  // namespace kda
