#include "arch/model_config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace kda {

namespace {

// Far above any real model, low enough that a product of two widths fits 48 bits and one of three fits 62.
constexpr int64_t kMaxLayers = int64_t{1} << 16;
constexpr int64_t kMaxHidden = int64_t{1} << 20;
constexpr int64_t kMaxWidth = int64_t{1} << 22;  // outputs of one projection
constexpr int64_t kMaxKdaHeadDim = 4096;         // as the kernels (kMaxKdaDimK)
constexpr int64_t kMaxVocab = int64_t{1} << 24;
constexpr int64_t kMaxExperts = int64_t{1} << 16;
constexpr int64_t kMaxContext = int64_t{1} << 40;
constexpr int64_t kMaxTaps = 1024;
constexpr int64_t kMaxStateElements = int64_t{1} << 56;  // of all layers together

class Checker {
 public:
  explicit Checker(const std::string& subject) : subject_(subject) {}

  void in_range(const char* field, int64_t value, int64_t low, int64_t high) const {
    if (value < low || value > high) {
      fail(ErrorCode::kFormat, "{}: {} is {}, expected {} to {}", subject_, field, value, low, high);
    }
  }
  void finite(const char* field, float value, bool zero_allowed) const {
    if (!std::isfinite(value) || value < 0 || (value == 0 && !zero_allowed)) {
      fail(ErrorCode::kFormat, "{}: {} is {}, expected a finite number {} 0", subject_, field, value,
           zero_allowed ? ">=" : ">");
    }
  }
  /// Both factors are positive.
  void product(const char* what, int64_t a, int64_t b, int64_t limit) const {
    if (a > limit / b) fail(ErrorCode::kFormat, "{}: {} is {} * {}, expected at most {}", subject_, what, a, b, limit);
  }

 private:
  const std::string& subject_;
};

void validate_kda(const ModelConfig& c, const Checker& check) {
  check.in_range("number of KDA heads", c.kda_heads, 1, kMaxWidth);
  check.in_range("KDA head dimension", c.kda_head_dim, 1, kMaxKdaHeadDim);
  check.product("KDA width", c.kda_heads, c.kda_head_dim, kMaxWidth);
  check.in_range("convolution kernel size", c.conv_kernel, 1, kMaxTaps);
}

void validate_mla(const ModelConfig& c, const Checker& check) {
  check.in_range("number of attention heads", c.n_heads, 1, kMaxWidth);
  check.in_range("q_lora_rank", c.q_lora_rank, 0, kMaxHidden);
  check.in_range("kv_lora_rank", c.kv_lora_rank, 1, kMaxHidden);
  check.in_range("qk_nope_head_dim", c.qk_nope_head_dim, 1, kMaxHidden);
  check.in_range("qk_rope_head_dim", c.qk_rope_head_dim, 0, kMaxHidden);
  check.in_range("v_head_dim", c.v_head_dim, 1, kMaxHidden);
  check.product("width of the attention's queries", c.n_heads, c.qk_head_dim(), kMaxWidth);
  check.product("width of the attention's keys and values", c.n_heads, c.qk_nope_head_dim + c.v_head_dim, kMaxWidth);
  check.product("size of the latent cache (context length * latent width of all layers)", c.context_length,
                c.latent_dim() * c.count(AttentionKind::kMla), kMaxStateElements);
}

void validate_moe(const ModelConfig& c, const std::string& subject, const Checker& check) {
  check.in_range("number of experts", c.n_experts, 1, kMaxExperts);
  check.in_range("number of experts used", c.n_experts_used, 1, c.n_experts);
  check.in_range("expert feed-forward length", c.moe_intermediate_size, 1, kMaxWidth);
  check.in_range("number of shared experts", c.n_shared_experts, 0, kMaxExperts);
  if (c.n_shared_experts > 0) {
    check.product("feed-forward length of the shared experts", c.n_shared_experts, c.moe_intermediate_size, kMaxWidth);
  }
  check.in_range("number of expert groups", c.n_expert_groups, 1, c.n_experts);
  check.in_range("number of expert groups used", c.n_expert_groups_used, 1, c.n_expert_groups);
  if (c.n_experts % c.n_expert_groups != 0) {
    fail(ErrorCode::kFormat, "{}: {} experts in {} groups, expected groups of one size", subject, c.n_experts,
         c.n_expert_groups);
  }
  const int64_t group = c.n_experts / c.n_expert_groups;
  // A group is ranked by the sum of its two best experts.
  if (c.n_expert_groups > 1 && group < 2) {
    fail(ErrorCode::kFormat, "{}: expert groups hold {} expert, expected at least 2", subject, group);
  }
  if (c.n_experts_used > group * c.n_expert_groups_used) {
    fail(ErrorCode::kFormat, "{}: number of experts used is {}, expected at most {} ({} groups of {})", subject,
         c.n_experts_used, group * c.n_expert_groups_used, c.n_expert_groups_used, group);
  }
  check.finite("routed scaling factor", c.routed_scaling_factor, false);
}

}  // namespace

int64_t ModelConfig::count(AttentionKind kind) const noexcept {
  return std::count_if(layers.begin(), layers.end(), [kind](const LayerConfig& l) { return l.attention == kind; });
}

void validate(const ModelConfig& c, const std::string& subject) {
  const Checker check(subject);
  check.in_range("number of layers", c.n_layers(), 1, kMaxLayers);
  check.in_range("vocabulary size", c.vocab_size, 1, kMaxVocab);
  check.in_range("hidden size", c.hidden_size, 1, kMaxHidden);
  check.in_range("context length", c.context_length, 1, kMaxContext);
  check.finite("RMS norm epsilon", c.rms_norm_eps, true);
  check.finite("q/k norm epsilon", c.qk_norm_eps, true);
  if (c.count(AttentionKind::kKda) > 0) validate_kda(c, check);
  if (c.count(AttentionKind::kMla) > 0) validate_mla(c, check);
  const auto is_moe = [](const LayerConfig& l) { return l.ffn == FfnKind::kMoe; };
  if (std::any_of(c.layers.begin(), c.layers.end(), is_moe)) validate_moe(c, subject, check);
  if (!std::all_of(c.layers.begin(), c.layers.end(), is_moe)) {
    check.in_range("feed-forward length", c.intermediate_size, 1, kMaxWidth);
  }
}

}  // namespace kda
