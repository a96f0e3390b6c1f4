#include "convert/hf_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "formats/json.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/merges.h"

namespace kda {

namespace {

constexpr uint32_t kQuantizationVersion = 2;
constexpr uint32_t kGatingSigmoid = 2;  // 1 is softmax
constexpr float kDefaultRopeBase = 10000.0F;

// Values of tokenizer.ggml.token_type.
constexpr int32_t kNormal = 1;
constexpr int32_t kControl = 3;
constexpr int32_t kUnused = 5;

/// "Kimi-Linear-48B" -> "Kimi Linear 48B".
std::string with_spaces(std::string text) {
  std::replace(text.begin(), text.end(), '-', ' ');
  return text;
}

void add_if_known(GgufWriter& to, const char* key, const std::string& value) {
  if (!value.empty()) to.add_string(key, value);
}

/// Of `org/name` or a URL that ends so; empty otherwise.
std::string organization_of(std::string_view repository) {
  const size_t slash = repository.rfind('/');
  if (slash == std::string_view::npos || slash == 0) return {};
  const size_t begin = repository.rfind('/', slash - 1);
  return std::string(repository.substr(begin == std::string_view::npos ? 0 : begin + 1,
                                       slash - (begin == std::string_view::npos ? 0 : begin + 1)));
}

std::string url_of(const std::string& repository) {
  return repository.find("://") == std::string::npos ? "https://huggingface.co/" + repository : repository;
}

/// "7.5M", as in names of files.
std::string size_text(int64_t n) {
  const auto value = static_cast<double>(n);
  if (value >= 1e9) return fmt::format("{:.0f}B", value * 1e-9);
  if (value >= 1e6) return fmt::format("{:.{}f}M", value * 1e-6, value < 1e7 ? 1 : 0);
  return fmt::format("{:.0f}K", value * 1e-3);
}

void add_sampling(const std::filesystem::path& folder, GgufWriter& to) {
  const auto path = folder / "generation_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return;
  const Json config = read_json_file(path);
  if (!config.is_object()) return;
  const auto number = [&](const char* key) -> const Json* {
    const auto it = config.find(key);
    return it != config.end() && it->is_number() ? &*it : nullptr;
  };
  if (const Json* x = number("temperature")) to.add_float32("general.sampling.temp", x->get<float>());
  if (const Json* x = number("top_p")) to.add_float32("general.sampling.top_p", x->get<float>());
  if (const Json* x = number("top_k"); x != nullptr && x->is_number_unsigned() && x->get<uint64_t>() < (1U << 30)) {
    to.add_int32("general.sampling.top_k", static_cast<int32_t>(x->get<uint64_t>()));
  }
}

uint32_t u32(int64_t n) {
  if (n < 0 || n > int64_t{UINT32_MAX})
    fail(ErrorCode::kLimit, "config.json: expected numbers below 2^32, found {}", n);
  return static_cast<uint32_t>(n);
}

}  // namespace

void add_general_metadata(const ModelCard& card, const std::filesystem::path& folder, const ModelConfig& config,
                          int64_t n_parameters, const QuantPreset& preset, GgufWriter& to) {
  to.add_string("general.architecture", config.architecture);
  to.add_string("general.type", "model");
  to.add_string("general.name", with_spaces(card.file_name));
  add_if_known(to, "general.finetune", card.finetune);
  add_if_known(to, "general.basename", card.basename);
  to.add_string("general.size_label", card.size_label.empty() ? size_text(n_parameters) : card.size_label);
  if (!card.repository.empty()) {
    to.add_string("general.organization", organization_of(card.repository));
    to.add_string("general.source.repo_url", url_of(card.repository));
  }
  add_if_known(to, "general.license", card.license);
  add_if_known(to, "general.license.name", card.license_name);
  add_if_known(to, "general.license.link", card.license_link);
  if (!card.base_models.empty()) {
    to.add_uint32("general.base_model.count", u32(static_cast<int64_t>(card.base_models.size())));
    for (size_t i = 0; i < card.base_models.size(); ++i) {
      const std::string& base = card.base_models[i];
      const std::string key = fmt::format("general.base_model.{}.", i);
      to.add_string(key + "name", with_spaces(base.substr(base.rfind('/') + 1)));
      if (const std::string who = organization_of(base); !who.empty()) to.add_string(key + "organization", who);
      to.add_string(key + "repo_url", url_of(base));
    }
  }
  if (!card.tags.empty()) to.add_string_array("general.tags", card.tags);
  if (!card.languages.empty()) to.add_string_array("general.languages", card.languages);
  add_sampling(folder, to);
  to.add_uint32("general.file_type", preset.file_type);
  to.add_uint32("general.quantization_version", kQuantizationVersion);
}

void add_architecture_metadata(const ModelConfig& c, const std::filesystem::path& folder, GgufWriter& to) {
  const auto key = [&](const char* name) { return c.architecture + '.' + name; };
  const Json config = read_json_file(folder / "config.json");
  const auto rope = config.find("rope_theta");
  std::vector<int32_t> kv_heads;  // 0 says KDA
  for (const LayerConfig& layer : c.layers) kv_heads.push_back(layer.attention == AttentionKind::kKda ? 0 : 1);
  const auto n_dense = std::find_if(c.layers.begin(), c.layers.end(),
                                    [](const LayerConfig& layer) { return layer.ffn == FfnKind::kMoe; }) -
                       c.layers.begin();

  to.add_uint32(key("block_count"), u32(c.n_layers()));
  to.add_uint32(key("context_length"), u32(c.context_length));
  to.add_uint32(key("embedding_length"), u32(c.hidden_size));
  to.add_uint32(key("feed_forward_length"), u32(c.intermediate_size));
  to.add_uint32(key("attention.head_count"), u32(c.n_heads));
  to.add_int32_array(key("attention.head_count_kv"), kv_heads);
  to.add_float32(key("attention.layer_norm_rms_epsilon"), c.rms_norm_eps);
  to.add_float32(key("rope.freq_base"),
                 rope != config.end() && rope->is_number() ? rope->get<float>() : kDefaultRopeBase);
  to.add_uint32(key("rope.dimension_count"), u32(c.qk_rope_head_dim));
  // What the cache holds of a token: the latent with the positional part as key, the latent alone as value.
  to.add_uint32(key("attention.key_length"), u32(c.latent_dim()));
  to.add_uint32(key("attention.value_length"), u32(c.kv_lora_rank));
  to.add_uint32(key("attention.key_length_mla"), u32(c.qk_head_dim()));
  to.add_uint32(key("attention.value_length_mla"), u32(c.v_head_dim));
  to.add_uint32(key("attention.kv_lora_rank"), u32(c.kv_lora_rank));
  if (c.q_lora_rank > 0) to.add_uint32(key("attention.q_lora_rank"), u32(c.q_lora_rank));
  to.add_uint32(key("ssm.conv_kernel"), u32(c.conv_kernel));
  to.add_uint32(key("kda.head_dim"), u32(c.kda_head_dim));
  to.add_uint32(key("leading_dense_block_count"), u32(n_dense));
  if (c.n_experts > 0) {
    to.add_uint32(key("expert_count"), u32(c.n_experts));
    to.add_uint32(key("expert_used_count"), u32(c.n_experts_used));
    to.add_uint32(key("expert_feed_forward_length"), u32(c.moe_intermediate_size));
    to.add_uint32(key("expert_shared_count"), u32(c.n_shared_experts));
    to.add_uint32(key("expert_gating_func"), kGatingSigmoid);
    if (c.n_expert_groups > 1) to.add_uint32(key("expert_group_count"), u32(c.n_expert_groups));
    to.add_uint32(key("expert_group_used_count"), u32(c.n_expert_groups_used));
    to.add_float32(key("expert_weights_scale"), c.routed_scaling_factor);
    // Readers of this architecture take true for granted.
    if (!c.renormalize_experts) to.add_bool(key("expert_weights_norm"), false);
  }
  to.add_uint32(key("vocab_size"), u32(c.vocab_size));
}

void add_tokenizer_metadata(const Vocabulary& vocabulary, const std::string& chat_template, GgufWriter& to) {
  to.add_string("tokenizer.ggml.model", "gpt2");
  to.add_string("tokenizer.ggml.pre", "kimi-k2");
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  tokens.reserve(vocabulary.bytes.size());
  size_t n_text = 0;
  for (size_t id = 0; id < vocabulary.bytes.size(); ++id) {
    const TokenKind kind = vocabulary.kinds[id];
    if (kind == TokenKind::kText) {
      KDA_CHECK(id == n_text);  // ids are ranks
      ++n_text;
    }
    tokens.push_back(kind == TokenKind::kText ? encode_byte_alphabet(vocabulary.bytes[id]) : vocabulary.bytes[id]);
    types.push_back(kind == TokenKind::kText ? kNormal : kind == TokenKind::kControl ? kControl : kUnused);
  }
  std::vector<std::string> merges;
  for (const auto& [left, right] : derive_merges(std::span(vocabulary.bytes).first(n_text))) {
    merges.push_back(tokens[static_cast<size_t>(left)] + ' ' + tokens[static_cast<size_t>(right)]);
  }
  to.add_string_array("tokenizer.ggml.tokens", tokens);
  to.add_int32_array("tokenizer.ggml.token_type", types);
  to.add_string_array("tokenizer.ggml.merges", merges);

  const auto special = [&](std::string_view name) -> std::optional<int32_t> {
    for (size_t id = n_text; id < vocabulary.bytes.size(); ++id) {
      if (vocabulary.bytes[id] == name) return static_cast<int32_t>(id);
    }
    return std::nullopt;
  };
  const auto add_id = [&](const char* key, std::optional<int32_t> id) {
    if (id) to.add_uint32(key, static_cast<uint32_t>(*id));
  };
  add_id("tokenizer.ggml.bos_token_id", vocabulary.bos);
  add_id("tokenizer.ggml.eos_token_id", vocabulary.eos);
  // A turn of the family's chats ends with this one; eos ends a document.
  add_id("tokenizer.ggml.eot_token_id", vocabulary.eot ? vocabulary.eot : special("<|im_end|>"));
  add_id("tokenizer.ggml.unknown_token_id", special("[UNK]"));
  add_id("tokenizer.ggml.padding_token_id", vocabulary.pad);
  to.add_bool("tokenizer.ggml.add_bos_token", false);
  if (!chat_template.empty()) to.add_string("tokenizer.chat_template", chat_template);
}

}  // namespace kda
