// config.json of a Hugging Face folder -> ModelConfig.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "arch/model_config.h"
#include "base/error.h"

namespace kda {

namespace {

constexpr size_t kMaxShownValue = 60;  // characters of a value in a message

std::string show(const Json& value) {
  if (value.is_object()) return fmt::format("an object of {} keys", value.size());
  if (value.is_array() && value.size() > 8) return fmt::format("an array of {} elements", value.size());
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kMaxShownValue) text = text.substr(0, kMaxShownValue) + "...";
  return text;
}

/// Typed access to the keys of one JSON object. null counts as absent, as in the Python class.
class Fields {
 public:
  Fields(const Json& object, std::string subject, std::string prefix)
      : object_(object), subject_(std::move(subject)), prefix_(std::move(prefix)) {
    if (!object_.is_object()) {
      fail(ErrorCode::kFormat, "{}: {} is {}, expected an object", subject_,
           prefix_.empty() ? "the document" : prefix_.substr(0, prefix_.size() - 1), show(object_));
    }
  }

  [[nodiscard]] const Json* find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  [[nodiscard]] const Json& require(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) fail(ErrorCode::kFormat, "{}: {}{} is missing", subject_, prefix_, key);
    return *value;
  }

  [[nodiscard]] int64_t integer(const char* key) const { return to_integer(require(key), key); }
  [[nodiscard]] int64_t integer_or(const char* key, int64_t otherwise) const {
    const Json* value = find(key);
    return value == nullptr ? otherwise : to_integer(*value, key);
  }
  [[nodiscard]] bool boolean_or(const char* key, bool otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) wrong_type(key, "true or false", *value);
    return value->get<bool>();
  }
  [[nodiscard]] float number_or(const char* key, float otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number()) wrong_type(key, "a number", *value);
    const double x = value->get<double>();
    if (!(std::abs(x) <= std::numeric_limits<float>::max())) wrong_type(key, "a number that fits 32 bits", *value);
    return static_cast<float>(x);
  }
  [[nodiscard]] std::string text_or(const char* key, std::string otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) wrong_type(key, "a string", *value);
    return value->get<std::string>();
  }
  [[nodiscard]] std::vector<int64_t> integers(const char* key) const {
    const Json& value = require(key);
    if (!value.is_array()) wrong_type(key, "an array of integers", value);
    std::vector<int64_t> result;
    result.reserve(value.size());
    for (const Json& element : value) result.push_back(to_integer(element, key));
    return result;
  }
  [[nodiscard]] Fields object(const char* key) const { return {require(key), subject_, prefix_ + key + "."}; }

  /// Throws kUnsupported when the key's value is anything but null or false.
  void refuse_k3(const char* key) const {
    const Json* value = find(key);
    if (value != nullptr && *value != Json(false)) {
      fail(ErrorCode::kUnsupported, "{}: {}{} is {}: Kimi K3 features are not supported by this version", subject_,
           prefix_, key, show(*value));
    }
  }

 private:
  [[noreturn]] void wrong_type(const char* key, const char* expected, const Json& found) const {
    fail(ErrorCode::kFormat, "{}: {}{} is {}, expected {}", subject_, prefix_, key, show(found), expected);
  }
  [[nodiscard]] int64_t to_integer(const Json& value, const char* key) const {
    constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > kMax)) {
      wrong_type(key, "an integer", value);
    }
    return value.get<int64_t>();
  }

  const Json& object_;
  std::string subject_;
  std::string prefix_;
};

void refuse_unsupported(const Fields& f, const std::string& subject) {
  const std::string model_type = f.text_or("model_type", "");
  if (model_type == "kimi_k3" || f.find("text_config") != nullptr) {
    fail(ErrorCode::kUnsupported,
         "{}: model_type is \"{}\": Kimi K3 features are not supported by this version, supported is \"kimi_linear\"",
         subject, model_type);
  }
  if (model_type != "kimi_linear") {
    fail(ErrorCode::kUnsupported, "{}: model_type is \"{}\", supported by this version is \"kimi_linear\"", subject,
         model_type);
  }
  if (const Json* architectures = f.find("architectures")) {
    const Json expected = "KimiLinearForCausalLM";
    if (!architectures->is_array() ||
        std::find(architectures->begin(), architectures->end(), expected) == architectures->end()) {
      fail(ErrorCode::kUnsupported, "{}: architectures is {}, supported by this version is [{}]", subject,
           show(*architectures), show(expected));
    }
  }
  for (const char* key :
       {"gate_lower_bound", "use_full_rank_gate", "mla_use_output_gate", "attn_res_block_size",
        "routed_expert_hidden_size", "latent_moe_use_norm", "activation_situ_beta", "activation_situ_linear_beta"}) {
    f.refuse_k3(key);
  }
  if (const std::string act = f.text_or("hidden_act", "silu"); act != "silu") {
    fail(ErrorCode::kUnsupported, "{}: hidden_act is \"{}\", supported by this version is \"silu\"", subject, act);
  }
  if (const std::string act = f.text_or("moe_router_activation_func", "sigmoid"); act != "sigmoid") {
    fail(ErrorCode::kUnsupported, "{}: moe_router_activation_func is \"{}\", supported by this version is \"sigmoid\"",
         subject, act);
  }
  if (const Json* scaling = f.find("rope_scaling")) {
    fail(ErrorCode::kUnsupported,
         "{}: rope_scaling is {}, expected null: this architecture applies no rotary positions, so there is nothing to "
         "scale; remove the key",
         subject, show(*scaling));
  }
  if (const int64_t n = f.integer_or("num_nextn_predict_layers", 0); n != 0) {
    fail(ErrorCode::kUnsupported,
         "{}: num_nextn_predict_layers is {}, expected 0: layers that predict several tokens are not supported by this "
         "version",
         subject, n);
  }
  if (const Json* quantization = f.find("quantization_config")) {
    const bool named = quantization->is_object() && quantization->contains("quant_method");
    fail(ErrorCode::kUnsupported,
         "{}: quantization_config is present ({}): quantised folders are not supported by this version, use the "
         "unquantised checkpoint or a GGUF file",
         subject, named ? show((*quantization)["quant_method"]) : show(*quantization));
  }
  if (const float scale = f.number_or("logit_scale", 1.0F); scale != 1.0F) {
    fail(ErrorCode::kUnsupported, "{}: logit_scale is {}, supported by this version is 1", subject, scale);
  }
}

/// Layer kinds from the two explicit lists, which count from 1.
std::vector<LayerConfig> read_attention_kinds(const Fields& f, int64_t n_layers, const std::string& subject) {
  const Fields linear = f.object("linear_attn_config");
  std::vector<int64_t> lists[2] = {linear.integers("kda_layers"), linear.integers("full_attn_layers")};
  constexpr const char* kNames[2] = {"kda_layers", "full_attn_layers"};
  constexpr AttentionKind kKinds[2] = {AttentionKind::kKda, AttentionKind::kMla};

  const auto n_listed = static_cast<int64_t>(lists[0].size() + lists[1].size());
  if (n_layers < 1 || n_layers > n_listed) {
    fail(ErrorCode::kFormat,
         "{}: num_hidden_layers is {}, but linear_attn_config.kda_layers and full_attn_layers name {} layers", subject,
         n_layers, n_listed);
  }
  std::vector<std::optional<AttentionKind>> kinds(static_cast<size_t>(n_layers));
  for (int which = 0; which < 2; ++which) {
    for (const int64_t number : lists[which]) {
      if (number < 1 || number > n_layers) {
        fail(ErrorCode::kFormat, "{}: linear_attn_config.{} names layer {}, expected 1 to {} (layers count from 1)",
             subject, kNames[which], number, n_layers);
      }
      std::optional<AttentionKind>& kind = kinds[static_cast<size_t>(number - 1)];
      if (kind.has_value()) {
        fail(ErrorCode::kFormat,
             "{}: layer {} is named twice in linear_attn_config.kda_layers and full_attn_layers, expected once",
             subject, number);
      }
      kind = kKinds[which];
    }
  }
  std::vector<LayerConfig> layers(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (!kinds[i].has_value()) {
      fail(ErrorCode::kFormat,
           "{}: layer {} is neither in linear_attn_config.kda_layers nor in full_attn_layers, expected in one of them",
           subject, i + 1);
    }
    layers[i].attention = *kinds[i];
  }
  return layers;
}

void read_kda(const Fields& f, ModelConfig& c) {
  const Fields linear = f.object("linear_attn_config");
  for (const char* key : {"gate_lower_bound", "use_full_rank_gate"}) linear.refuse_k3(key);
  if (c.count(AttentionKind::kKda) == 0) return;
  c.kda_heads = linear.integer("num_heads");
  c.kda_head_dim = linear.integer("head_dim");
  c.conv_kernel = linear.integer("short_conv_kernel_size");
}

void read_mla(const Fields& f, const std::string& subject, ModelConfig& c) {
  if (c.count(AttentionKind::kMla) == 0) return;
  if (!f.boolean_or("mla_use_nope", false)) {
    fail(ErrorCode::kUnsupported,
         "{}: mla_use_nope is {}, expected true: rotary positions (RoPE) in the attention layers are not supported by "
         "this version",
         subject, f.find("mla_use_nope") == nullptr ? "missing (false by default)" : "false");
  }
  c.n_heads = f.integer("num_attention_heads");
  if (const int64_t n = f.integer_or("num_key_value_heads", c.n_heads); n != c.n_heads) {
    fail(ErrorCode::kUnsupported,
         "{}: num_key_value_heads is {}, supported by this version is num_attention_heads ({})", subject, n, c.n_heads);
  }
  c.q_lora_rank = f.integer_or("q_lora_rank", 0);
  c.kv_lora_rank = f.integer("kv_lora_rank");
  c.qk_nope_head_dim = f.integer("qk_nope_head_dim");
  c.qk_rope_head_dim = f.integer("qk_rope_head_dim");
  c.v_head_dim = f.integer("v_head_dim");
}

void read_feed_forward(const Fields& f, const std::string& subject, ModelConfig& c) {
  const int64_t n_experts = f.integer_or("num_experts", 0);
  const int64_t first_moe = f.integer_or("first_k_dense_replace", 0);
  const int64_t every = f.integer_or("moe_layer_freq", 1);
  if (every < 1) fail(ErrorCode::kFormat, "{}: moe_layer_freq is {}, expected at least 1", subject, every);
  bool any_dense = false;
  bool any_moe = false;
  for (int64_t i = 0; i < c.n_layers(); ++i) {
    const bool moe = n_experts != 0 && i >= first_moe && i % every == 0;
    c.layers[static_cast<size_t>(i)].ffn = moe ? FfnKind::kMoe : FfnKind::kDense;
    any_moe = any_moe || moe;
    any_dense = any_dense || !moe;
  }
  if (any_dense) c.intermediate_size = f.integer("intermediate_size");
  if (!any_moe) return;
  c.n_experts = n_experts;
  c.n_experts_used = f.integer("num_experts_per_token");
  c.n_shared_experts = f.integer_or("num_shared_experts", 0);
  c.moe_intermediate_size = f.integer("moe_intermediate_size");
  if (f.boolean_or("use_grouped_topk", true)) {
    c.n_expert_groups = f.integer_or("num_expert_group", 1);
    c.n_expert_groups_used = f.integer_or("topk_group", 1);
  }
  c.renormalize_experts = f.boolean_or("moe_renormalize", true);
  c.routed_scaling_factor = f.number_or("routed_scaling_factor", 1.0F);
}

}  // namespace

ModelConfig read_hf_config(const Json& config, const std::string& subject) {
  const Fields f(config, subject, "");
  refuse_unsupported(f, subject);

  ModelConfig c;
  c.architecture = "kimi-linear";
  c.vocab_size = f.integer("vocab_size");
  c.hidden_size = f.integer("hidden_size");
  c.context_length = f.find("model_max_length") == nullptr && f.find("max_position_embeddings") != nullptr
                         ? f.integer("max_position_embeddings")
                         : f.integer("model_max_length");
  c.rms_norm_eps = f.number_or("rms_norm_eps", 1e-6F);
  c.tied_embeddings = f.boolean_or("tie_word_embeddings", false);
  c.layers = read_attention_kinds(f, f.integer("num_hidden_layers"), subject);
  read_kda(f, c);
  read_mla(f, subject, c);
  read_feed_forward(f, subject, c);
  validate(c, subject);
  return c;
}

}  // namespace kda
