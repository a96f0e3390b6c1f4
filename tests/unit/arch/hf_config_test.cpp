#include <gtest/gtest.h>

#include "arch/model_config.h"
#include "formats/json.h"
#include "support/expect_error.h"
#include "support/shared_data.h"
#include "support/tiny_model.h"

namespace kda {
namespace {

using test::expect_error;
using test::TinyModel;

Json tiny_config() { return TinyModel().config; }

/// The tiny configuration with one key (a JSON pointer) replaced.
Json with(const char* pointer, const Json& value) {
  Json config = tiny_config();
  config[Json::json_pointer(pointer)] = value;
  return config;
}

Json without(const char* key) {
  Json config = tiny_config();
  config.erase(key);
  return config;
}

void expect_refused(const Json& config, ErrorCode code, const std::string& part) {
  expect_error(code, part, [&] { (void)read_hf_config(config, "config.json"); });
}

TEST(HfConfig, ReadsTheReleasedConfiguration) {
  KDA_SHARED_OR_SKIP(shared);
  const ModelConfig c =
      read_hf_config(read_json_file(shared / "data/config/kimi-linear-48b-a3b-instruct.config.json"), "config.json");
  EXPECT_EQ(c.architecture, "kimi-linear");
  EXPECT_EQ(c.vocab_size, 163840);
  EXPECT_EQ(c.hidden_size, 2304);
  EXPECT_EQ(c.context_length, 1048576);
  EXPECT_EQ(c.rms_norm_eps, 1e-5F);
  EXPECT_EQ(c.qk_norm_eps, 1e-6F);
  EXPECT_FALSE(c.tied_embeddings);
  EXPECT_EQ(c.kda_heads, 32);
  EXPECT_EQ(c.kda_head_dim, 128);
  EXPECT_EQ(c.conv_kernel, 4);
  EXPECT_EQ(c.n_heads, 32);
  EXPECT_EQ(c.q_lora_rank, 0);
  EXPECT_EQ(c.kv_lora_rank, 512);
  EXPECT_EQ(c.qk_nope_head_dim, 128);
  EXPECT_EQ(c.qk_rope_head_dim, 64);
  EXPECT_EQ(c.v_head_dim, 128);
  EXPECT_EQ(c.intermediate_size, 9216);
  EXPECT_EQ(c.n_experts, 256);
  EXPECT_EQ(c.n_experts_used, 8);
  EXPECT_EQ(c.n_shared_experts, 1);
  EXPECT_EQ(c.moe_intermediate_size, 1024);
  EXPECT_EQ(c.n_expert_groups, 1);
  EXPECT_TRUE(c.renormalize_experts);
  EXPECT_EQ(c.routed_scaling_factor, 2.446F);
  // The pattern ends early: no every-fourth rule gives it.
  ASSERT_EQ(c.n_layers(), 27);
  std::vector<int64_t> mla;
  for (int64_t i = 0; i < c.n_layers(); ++i) {
    if (c.layers[i].attention == AttentionKind::kMla) mla.push_back(i);
    EXPECT_EQ(c.layers[i].ffn, i == 0 ? FfnKind::kDense : FfnKind::kMoe);
  }
  EXPECT_EQ(mla, (std::vector<int64_t>{3, 7, 11, 15, 19, 23, 26}));
  EXPECT_EQ(c.count(AttentionKind::kKda), 20);
}

TEST(HfConfig, RefusesTheKimiK3Configuration) {
  KDA_SHARED_OR_SKIP(shared);
  const Json config = read_json_file(shared / "data/config/kimi-k3-config.json");
  expect_refused(config, ErrorCode::kUnsupported, "Kimi K3 features are not supported by this version");
  expect_refused(config.at("text_config"), ErrorCode::kUnsupported, "Kimi K3 features are not supported");
}

TEST(HfConfig, UsesTheDefaultsOfTheClass) {
  Json config = tiny_config();
  for (const char* key :
       {"rms_norm_eps", "hidden_act", "num_key_value_heads", "moe_renormalize", "q_lora_rank",
        "moe_router_activation_func", "routed_scaling_factor", "first_k_dense_replace", "moe_layer_freq",
        "num_shared_experts", "num_expert_group", "topk_group", "tie_word_embeddings", "head_dim", "architectures"})
    config.erase(key);
  const ModelConfig c = read_hf_config(config, "config.json");
  EXPECT_EQ(c.rms_norm_eps, 1e-6F);
  EXPECT_TRUE(c.renormalize_experts);
  EXPECT_EQ(c.q_lora_rank, 0);
  EXPECT_EQ(c.routed_scaling_factor, 1.0F);
  EXPECT_EQ(c.n_shared_experts, 0);
  EXPECT_EQ(c.n_expert_groups, 1);
  EXPECT_EQ(c.n_expert_groups_used, 1);
  EXPECT_FALSE(c.tied_embeddings);
  for (const LayerConfig& layer : c.layers) EXPECT_EQ(layer.ffn, FfnKind::kMoe);
}

TEST(HfConfig, HonoursWhatDiffersFromTheReleasedModel) {
  EXPECT_EQ(read_hf_config(with("/q_lora_rank", 48), "").q_lora_rank, 48);
  EXPECT_FALSE(read_hf_config(with("/moe_renormalize", false), "").renormalize_experts);
  EXPECT_TRUE(read_hf_config(with("/tie_word_embeddings", true), "").tied_embeddings);
  const ModelConfig every_second = read_hf_config(with("/moe_layer_freq", 2), "");
  EXPECT_EQ(every_second.layers[1].ffn, FfnKind::kDense);
  EXPECT_EQ(every_second.layers[2].ffn, FfnKind::kMoe);
  const ModelConfig dense = read_hf_config(with("/num_experts", nullptr), "");
  for (const LayerConfig& layer : dense.layers) EXPECT_EQ(layer.ffn, FfnKind::kDense);
  Json grouped = with("/num_expert_group", 3);
  grouped["topk_group"] = 2;
  EXPECT_EQ(read_hf_config(grouped, "").n_expert_groups_used, 2);
  grouped["use_grouped_topk"] = false;
  EXPECT_EQ(read_hf_config(grouped, "").n_expert_groups, 1);
  Json renamed = without("model_max_length");
  renamed["max_position_embeddings"] = 777;
  EXPECT_EQ(read_hf_config(renamed, "").context_length, 777);
}

TEST(HfConfig, TakesAnyNumberOfExperts) { EXPECT_EQ(read_hf_config(with("/num_experts", 1000), "").n_experts, 1000); }

TEST(HfConfig, ReadsTheLayerListsWithoutGuessing) {
  const auto lists = [](std::vector<int> kda, std::vector<int> full) {
    Json config = tiny_config();
    config["linear_attn_config"]["kda_layers"] = kda;
    config["linear_attn_config"]["full_attn_layers"] = full;
    return config;
  };
  const ModelConfig c = read_hf_config(lists({4, 2}, {3, 1}), "");  // in any order
  EXPECT_EQ(c.layers[0].attention, AttentionKind::kMla);
  EXPECT_EQ(c.layers[1].attention, AttentionKind::kKda);
  EXPECT_EQ(c.layers[2].attention, AttentionKind::kMla);
  EXPECT_EQ(c.layers[3].attention, AttentionKind::kKda);
  EXPECT_EQ(read_hf_config(lists({1, 2, 3, 4}, {}), "").count(AttentionKind::kMla), 0);
  EXPECT_EQ(read_hf_config(lists({}, {1, 2, 3, 4}), "").count(AttentionKind::kKda), 0);

  expect_refused(lists({1, 2, 4}, {3, 4}), ErrorCode::kFormat, "layer 4 is named twice");
  expect_refused(lists({1, 1, 2}, {3, 4}), ErrorCode::kFormat, "layer 1 is named twice");
  expect_refused(lists({0, 1, 2}, {3}), ErrorCode::kFormat, "kda_layers names layer 0, expected 1 to 4");
  expect_refused(lists({1, 2, 4}, {5}), ErrorCode::kFormat, "full_attn_layers names layer 5, expected 1 to 4");
  expect_refused(lists({1, 2}, {3}), ErrorCode::kFormat, "num_hidden_layers is 4, but");
  Json gap = lists({1, 2, 4}, {4});
  expect_refused(gap, ErrorCode::kFormat, "layer 4 is named twice");
  gap["num_hidden_layers"] = 3;
  gap["linear_attn_config"]["kda_layers"] = {1, 3};
  gap["linear_attn_config"]["full_attn_layers"] = {3};
  expect_refused(gap, ErrorCode::kFormat, "layer 3 is named twice");
  expect_refused(lists({1, 2, -3}, {4}), ErrorCode::kFormat, "names layer -3");
}

TEST(HfConfig, NamesTheLayerThatNoListHas) {
  Json config = tiny_config();
  config["num_hidden_layers"] = 3;
  config["linear_attn_config"]["kda_layers"] = {1, 3};
  config["linear_attn_config"]["full_attn_layers"] = Json::array({2});
  EXPECT_EQ(read_hf_config(config, "").n_layers(), 3);
  config["num_hidden_layers"] = 4;
  expect_refused(config, ErrorCode::kFormat,
                 "num_hidden_layers is 4, but linear_attn_config.kda_layers and "
                 "full_attn_layers name 3 layers");
}

struct Refusal {
  const char* pointer;
  Json value;
  ErrorCode code;
  const char* message;
};

TEST(HfConfig, RefusesByNameWhatIsNotSupported) {
  const Refusal refusals[] = {
      {"/model_type", "llama", ErrorCode::kUnsupported, "model_type is \"llama\", supported by this version is"},
      {"/model_type", "kimi_k3", ErrorCode::kUnsupported, "Kimi K3 features are not supported by this version"},
      {"/architectures", Json::array({"LlamaForCausalLM"}), ErrorCode::kUnsupported,
       "architectures is [\"LlamaForCausalLM\"], supported by this version is [\"KimiLinearForCausalLM\"]"},
      {"/hidden_act", "gelu", ErrorCode::kUnsupported, "hidden_act is \"gelu\", supported by this version is \"silu\""},
      {"/mla_use_nope", false, ErrorCode::kUnsupported,
       "mla_use_nope is false, expected true: rotary positions (RoPE)"},
      {"/mla_use_nope", nullptr, ErrorCode::kUnsupported, "mla_use_nope is missing (false by default), expected true"},
      {"/moe_router_activation_func", "softmax", ErrorCode::kUnsupported,
       "moe_router_activation_func is \"softmax\", supported by this version is \"sigmoid\""},
      {"/rope_scaling",
       {{"type", "yarn"}},
       ErrorCode::kUnsupported,
       "rope_scaling is an object of 1 keys, expected null"},
      {"/num_nextn_predict_layers", 1, ErrorCode::kUnsupported, "num_nextn_predict_layers is 1, expected 0"},
      {"/quantization_config",
       {{"quant_method", "fp8"}},
       ErrorCode::kUnsupported,
       "quantization_config is present (\"fp8\")"},
      {"/logit_scale", 0.5, ErrorCode::kUnsupported, "logit_scale is 0.5"},
      {"/num_key_value_heads", 1, ErrorCode::kUnsupported, "num_key_value_heads is 1"},
      {"/attn_res_block_size", 12, ErrorCode::kUnsupported,
       "attn_res_block_size is 12: Kimi K3 features are not supported by this version"},
      {"/mla_use_output_gate", true, ErrorCode::kUnsupported,
       "mla_use_output_gate is true: Kimi K3 features are not supported by this version"},
      {"/routed_expert_hidden_size", 64, ErrorCode::kUnsupported,
       "routed_expert_hidden_size is 64: Kimi K3 features are not supported by this version"},
      {"/linear_attn_config/gate_lower_bound", -5.0, ErrorCode::kUnsupported,
       "linear_attn_config.gate_lower_bound is -5.0: Kimi K3 features are not supported by this version"},
      {"/linear_attn_config/use_full_rank_gate", true, ErrorCode::kUnsupported,
       "linear_attn_config.use_full_rank_gate is true: Kimi K3 features are not supported by this version"},
  };
  for (const Refusal& r : refusals) expect_refused(with(r.pointer, r.value), r.code, r.message);
  // Switched off, they change nothing.
  for (const char* key : {"/attn_res_block_size", "/linear_attn_config/gate_lower_bound", "/rope_scaling"})
    EXPECT_NO_THROW((void)read_hf_config(with(key, nullptr), ""));
  EXPECT_NO_THROW((void)read_hf_config(with("/mla_use_output_gate", false), ""));
}

TEST(HfConfig, NamesKeyExpectedAndFoundOfWrongTypes) {
  const Refusal refusals[] = {
      {"/hidden_size", "64", ErrorCode::kFormat, "config.json: hidden_size is \"64\", expected an integer"},
      {"/hidden_size", 64.0, ErrorCode::kFormat, "hidden_size is 64.0, expected an integer"},
      {"/hidden_size", 18446744073709551615U, ErrorCode::kFormat,
       "hidden_size is 18446744073709551615, expected an integer"},
      {"/hidden_size", nullptr, ErrorCode::kFormat, "hidden_size is missing"},
      {"/tie_word_embeddings", 1, ErrorCode::kFormat, "tie_word_embeddings is 1, expected true or false"},
      {"/rms_norm_eps", "small", ErrorCode::kFormat, "rms_norm_eps is \"small\", expected a number"},
      {"/rms_norm_eps", 1e300, ErrorCode::kFormat, "rms_norm_eps is 1e+300, expected a number that fits 32 bits"},
      {"/hidden_act", 3, ErrorCode::kFormat, "hidden_act is 3, expected a string"},
      {"/linear_attn_config", Json::array(), ErrorCode::kFormat, "linear_attn_config is [], expected an object"},
      {"/linear_attn_config/kda_layers", 3, ErrorCode::kFormat,
       "linear_attn_config.kda_layers is 3, expected an array of integers"},
      {"/linear_attn_config/kda_layers",
       {1, "2", 4},
       ErrorCode::kFormat,
       "linear_attn_config.kda_layers is \"2\", expected an integer"},
      {"/linear_attn_config/num_heads", nullptr, ErrorCode::kFormat, "linear_attn_config.num_heads is missing"},
  };
  for (const Refusal& r : refusals) expect_refused(with(r.pointer, r.value), r.code, r.message);
  expect_refused(Json::array(), ErrorCode::kFormat, "the document is [], expected an object");
  expect_refused(Json::object(), ErrorCode::kUnsupported, "model_type is \"\"");
  expect_refused(without("linear_attn_config"), ErrorCode::kFormat, "linear_attn_config is missing");
  expect_refused(without("model_max_length"), ErrorCode::kFormat, "model_max_length is missing");
}

TEST(HfConfig, RefusesSizesThatMakeNoSense) {
  const Refusal refusals[] = {
      {"/hidden_size", 0, ErrorCode::kFormat, "config.json: hidden size is 0, expected 1 to 1048576"},
      {"/hidden_size", 1 << 21, ErrorCode::kFormat, "hidden size is 2097152, expected 1 to 1048576"},
      {"/vocab_size", -1, ErrorCode::kFormat, "vocabulary size is -1"},
      {"/linear_attn_config/num_heads", 1 << 22, ErrorCode::kFormat, "KDA width is 4194304 * 32"},
      {"/linear_attn_config/short_conv_kernel_size", 0, ErrorCode::kFormat, "convolution kernel size is 0"},
      {"/qk_nope_head_dim", 0, ErrorCode::kFormat, "qk_nope_head_dim is 0"},
      {"/q_lora_rank", -4, ErrorCode::kFormat, "q_lora_rank is -4"},
      {"/num_experts_per_token", 7, ErrorCode::kFormat, "number of experts used is 7, expected 1 to 6"},
      {"/num_expert_group", 4, ErrorCode::kFormat, "6 experts in 4 groups"},
      {"/num_expert_group", 6, ErrorCode::kFormat, "expert groups hold 1 expert"},
      {"/topk_group", 2, ErrorCode::kFormat, "number of expert groups used is 2, expected 1 to 1"},
      {"/num_shared_experts", -1, ErrorCode::kFormat, "number of shared experts is -1"},
      {"/routed_scaling_factor", 0, ErrorCode::kFormat, "routed scaling factor is 0, expected a finite number > 0"},
      {"/rms_norm_eps", -1e-5, ErrorCode::kFormat, "RMS norm epsilon is -1e-05"},
      {"/moe_layer_freq", 0, ErrorCode::kFormat, "moe_layer_freq is 0"},
      {"/model_max_length", int64_t{1} << 62, ErrorCode::kFormat, "context length is 4611686018427387904"},
  };
  for (const Refusal& r : refusals) expect_refused(with(r.pointer, r.value), r.code, r.message);
  Json few = with("/num_expert_group", 3);  // two groups of two cannot give five experts
  few["topk_group"] = 2;
  few["num_experts_per_token"] = 5;
  expect_refused(few, ErrorCode::kFormat, "number of experts used is 5, expected at most 4");
  Json cache = with("/model_max_length", int64_t{1} << 40);
  cache["kv_lora_rank"] = 1 << 20;
  expect_refused(cache, ErrorCode::kFormat, "size of the latent cache");
}

}  // namespace
}  // namespace kda
