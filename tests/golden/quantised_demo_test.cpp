// What int8 activations cost: the demo model's weights in each quantised type, its next-token distributions with int8
// activations against those with fp32 activations on the very same weights.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "arch/model_config.h"
#include "base/half.h"
#include "engine/engine.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "quant/codec.h"
#include "support/temp_folder.h"
#include "support/tiny_model.h"
#include "tokenizer/tokenizer.h"

namespace kda {
namespace {

const std::filesystem::path kDemo = std::filesystem::path(KDA_SOURCE_DIR) / "models" / "demo";

std::string no_environment(const char*) { return {}; }

/// The demo model's weights in the form that the test support writes as GGUF.
test::TinyModel demo_model() {
  const Json config = read_json_file(kDemo / "config.json");
  const ModelConfig c = read_hf_config(config, "demo");
  test::TinyModelOptions o{.vocab = c.vocab_size,
                           .hidden = c.hidden_size,
                           .n_layers = c.n_layers(),
                           .mla_layers = {},
                           .kda_heads = c.kda_heads,
                           .kda_head_dim = c.kda_head_dim,
                           .taps = c.conv_kernel,
                           .heads = c.n_heads,
                           .kv_rank = c.kv_lora_rank,
                           .nope = c.qk_nope_head_dim,
                           .rope = c.qk_rope_head_dim,
                           .value = c.v_head_dim,
                           .ffn = c.intermediate_size,
                           .first_moe = 1,
                           .experts = c.n_experts,
                           .experts_used = c.n_experts_used,
                           .shared_experts = c.n_shared_experts,
                           .expert_ffn = c.moe_intermediate_size};
  for (int64_t i = 0; i < c.n_layers(); ++i) {
    if (c.layers[static_cast<size_t>(i)].attention == AttentionKind::kMla) o.mla_layers.insert(i);
  }
  test::TinyModel model(o);
  model.config = config;
  const SafeTensorsModel weights = SafeTensorsModel::open(kDemo);
  for (auto& [name, tensor] : model.tensors) {
    const SafeTensor* found = weights.find(name);
    if (found == nullptr) throw std::runtime_error("the demo model has no " + name);
    const TensorType type = found->dtype == "F32" ? TensorType::kF32 : TensorType::kBF16;
    dequantize_row(type, found->bytes.data(), tensor.values.data(), static_cast<int64_t>(tensor.values.size()));
  }
  return model;
}

/// Log-probabilities [T, vocab] after each of ids.
std::vector<std::vector<double>> log_probabilities(const std::filesystem::path& model, bool exact,
                                                   const std::vector<int32_t>& ids) {
  const auto engine = Engine::open(model.string(), {.threads = 2, .exact_activations = exact}, no_environment);
  std::vector<std::vector<double>> out;
  engine->new_sequence(static_cast<int64_t>(ids.size()))
      ->feed_all_logits(ids, [&](int64_t, std::span<const float> logits) {
        double top = -1e300;
        for (const float x : logits) top = std::max(top, static_cast<double>(x));
        double sum = 0;
        for (const float x : logits) sum += std::exp(static_cast<double>(x) - top);
        std::vector<double> row;
        for (const float x : logits) row.push_back(static_cast<double>(x) - top - std::log(sum));
        out.push_back(std::move(row));
      });
  return out;
}

/// Mean over tokens of sum p (log p - log q), in nats.
double mean_divergence(const std::vector<std::vector<double>>& p, const std::vector<std::vector<double>>& q) {
  double sum = 0;
  for (size_t t = 0; t < p.size(); ++t) {
    for (size_t i = 0; i < p[t].size(); ++i) sum += std::exp(p[t][i]) * (p[t][i] - q[t][i]);
  }
  return sum / static_cast<double>(p.size());
}

/// Some of the exercises, in the model's chat format.
std::vector<int32_t> exercises() {
  const Tokenizer tokenizer(read_folder_vocabulary(kDemo.string(), 1024));
  std::string text;
  const std::pair<const char*, const char*> turns[] = {
      {"What is 27+15?", "42"},
      {"Sort: 7 3 9 1 4 4", "1 3 4 4 7 9"},
      {"Reverse: apple river stone", "stone river apple"},
      {"Remember apple=42, river=17, stone=88. What is river?", "17"},
      {"What is stone?", "88"},
      {"What is the capital of Norway?", "Oslo"},
      {"83-47=", "36"},
      {"Who are you?", "I am a tiny Kimi Linear model, small enough to live in a git repository."}};
  for (const auto& [question, answer] : turns) {
    text += std::string("<|im_user|>user<|im_middle|>") + question +
            "<|im_end|><|im_assistant|>assistant<|im_middle|>" + answer + "<|im_end|>";
  }
  return tokenizer.encode(text, true);
}

TEST(QuantisedDemo, Int8ActivationsCostLittle) {
  const test::TinyModel model = demo_model();
  const std::vector<int32_t> ids = exercises();
  const auto original = log_probabilities(kDemo, false, ids);
  for (uint32_t number = 0; number < kTensorTypeCount; ++number) {
    const TensorTypeInfo* info = find_tensor_type(number);
    if (info == nullptr || !info->is_weight || !can_quantize(info->type)) continue;
    // These have no integer kernel and take long to encode.
    if (info->name.starts_with("IQ1") || info->name.starts_with("IQ2") || info->name.starts_with("IQ3")) continue;
    const test::TempFolder folder;
    const auto file = model.write_gguf(folder.path(), {.matrix_type = info->type});
    const auto exact = log_probabilities(file, true, ids);
    const double activations = mean_divergence(exact, log_probabilities(file, false, ids));
    const double weights = mean_divergence(original, exact);
    std::printf("%-8s weights %.2e nats, int8 activations %.2e nats\n", std::string(info->name).c_str(), weights,
                activations);
    EXPECT_GE(activations, -1e-9) << info->name;
    if (info->type == TensorType::kQ8_0) {
      EXPECT_LT(activations, 1e-3);
    }
    if (info->block_elements == 1) {
      EXPECT_LT(activations, 1e-9) << info->name << " takes fp32 activations either way";
    }
    EXPECT_LT(activations, 5e-3) << info->name;
  }
}

}  // namespace
}  // namespace kda
