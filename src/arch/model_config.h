// What a model is: dimensions and the list of its layers, read from a file and checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/json.h"

namespace kda {

class GgufModel;

enum class AttentionKind : uint8_t { kKda, kMla };
enum class FfnKind : uint8_t { kDense, kMoe };
enum class Family : uint8_t { kKimiLinear };

struct LayerConfig {
  AttentionKind attention = AttentionKind::kKda;
  FfnKind ffn = FfnKind::kDense;
  friend bool operator==(const LayerConfig&, const LayerConfig&) = default;
};

/// All sizes are counts of elements. Names as in docs/model.md.
struct ModelConfig {
  Family family = Family::kKimiLinear;
  std::string architecture;  // as GGUF files call it: "kimi-linear"
  std::string name;          // for people; may be empty

  int64_t vocab_size = 0;  // rows of the embedding
  int64_t hidden_size = 0;
  int64_t context_length = 0;  // what the model was trained for
  float rms_norm_eps = 1e-5F;
  bool tied_embeddings = false;
  std::vector<LayerConfig> layers;

  // KDA
  int64_t kda_heads = 0;
  int64_t kda_head_dim = 0;   // key and value channels of a head
  int64_t conv_kernel = 0;    // taps
  float qk_norm_eps = 1e-6F;  // inside the root, added to the sum of squares

  // MLA
  int64_t n_heads = 0;
  int64_t q_lora_rank = 0;  // 0: direct projection
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;  // no rotation is applied
  int64_t v_head_dim = 0;

  // feed-forward
  int64_t intermediate_size = 0;  // dense layers
  int64_t n_experts = 0;
  int64_t n_experts_used = 0;
  int64_t n_shared_experts = 0;
  int64_t moe_intermediate_size = 0;
  int64_t n_expert_groups = 1;
  int64_t n_expert_groups_used = 1;
  bool renormalize_experts = true;
  float routed_scaling_factor = 1.0F;

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;

  [[nodiscard]] int64_t n_layers() const noexcept { return static_cast<int64_t>(layers.size()); }
  [[nodiscard]] int64_t kda_width() const noexcept { return kda_heads * kda_head_dim; }
  [[nodiscard]] int64_t qk_head_dim() const noexcept { return qk_nope_head_dim + qk_rope_head_dim; }
  [[nodiscard]] int64_t latent_dim() const noexcept { return kv_lora_rank + qk_rope_head_dim; }
  [[nodiscard]] int64_t shared_intermediate_size() const noexcept { return n_shared_experts * moe_intermediate_size; }
  [[nodiscard]] int64_t count(AttentionKind kind) const noexcept;
};

/// From config.json of a Hugging Face folder, with the defaults of the model's configuration class. Refuses by name
/// what is not supported (activation, RoPE in MLA, router function, another model_type ...). The result is validated.
/// Throws Error(kFormat | kUnsupported) that starts with `subject`. Thread-safe, as all here.
[[nodiscard]] ModelConfig read_hf_config(const Json& config, const std::string& subject);

/// From the metadata of a GGUF file, in every variant that writers have made; dimensions left out or
/// gets wrong are taken from the tensors, and what was assumed is added to `warnings`. The result is validated.
/// Throws as read_hf_config.
[[nodiscard]] ModelConfig read_gguf_config(const GgufModel& model, std::vector<std::string>& warnings);

/// Checks that the dimensions are positive, consistent and small enough for the arithmetic that follows.
/// Throws Error(kFormat) naming the field, what was expected and what was found.
void validate(const ModelConfig& config, const std::string& subject);

}  // namespace kda
