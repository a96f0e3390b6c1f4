// The schema, fed with the released configuration, against the published lists of tensors.
#include "arch/tensor_schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <sstream>

#include "support/shared_data.h"

namespace kda {
namespace {

using Shapes = std::map<std::string, std::vector<int64_t>>;

std::vector<int64_t> parse_shape(const std::string& text) {
  std::vector<int64_t> shape;
  std::stringstream in(text);
  for (std::string part; std::getline(in, part, ',');) shape.push_back(std::stoll(part));
  return shape;
}

/// Lines of three columns, the first line being their names.
std::vector<std::array<std::string, 3>> read_table(const std::filesystem::path& path) {
  std::vector<std::array<std::string, 3>> rows;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::stringstream in(line);
    std::array<std::string, 3> row;
    for (std::string& column : row) std::getline(in, column, '\t');
    rows.push_back(row);
  }
  return rows;
}

/// Calls each(spec, layer) for every row that the model has, alternatives left out.
template <typename Each>
void for_all_tensors(const ModelConfig& config, bool gguf, Each&& each) {
  for (const TensorSpec& spec : tensor_schema()) {
    if (gguf ? spec.gguf.empty() || spec.alternative : spec.hf.empty()) continue;
    const bool once = spec.scope == TensorScope::kModel || spec.scope == TensorScope::kUntied;
    for (int64_t layer = 0; layer < (once ? 1 : config.n_layers()); ++layer)
      if (applies(spec, config, layer)) each(spec, layer);
  }
}

ModelConfig released_config(const std::filesystem::path& shared) {
  return read_hf_config(read_json_file(shared / "data/config/kimi-linear-48b-a3b-instruct.config.json"), "config.json");
}

int64_t product(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

TEST(TensorSchema, YieldsThe610TensorsOfTheReleasedGguf) {
  KDA_SHARED_OR_SKIP(shared);
  Shapes published;
  for (const auto& [name, ne, elements] : read_table(shared / "data/gguf/expected-tensors-610.tsv"))
    published[name] = parse_shape(ne);
  ASSERT_EQ(published.size(), 610U);

  const ModelConfig config = released_config(shared);
  Shapes ours;
  int64_t n_elements = 0;
  for_all_tensors(config, true, [&](const TensorSpec& spec, int64_t layer) {
    std::vector<int64_t> shape = tensor_shape(spec.gguf_dims, config);
    n_elements += product(shape);
    std::reverse(shape.begin(), shape.end());
    EXPECT_TRUE(ours.emplace(tensor_name(spec.gguf, layer), shape).second) << spec.gguf;
  });
  EXPECT_EQ(ours, published);
  EXPECT_EQ(n_elements, 49122681728);
}

TEST(TensorSchema, YieldsThe20493TensorsOfTheReleasedFolder) {
  KDA_SHARED_OR_SKIP(shared);
  Shapes published;
  for (const auto& [name, dtype, shape] : read_table(shared / "data/gguf/hf-tensors.tsv")) {
    const size_t range = name.find("{0..255}");
    if (range == std::string::npos) {
      published[name] = parse_shape(shape);
      continue;
    }
    for (int e = 0; e < 256; ++e)
      published[name.substr(0, range) + std::to_string(e) + name.substr(range + 8)] = parse_shape(shape);
  }
  ASSERT_EQ(published.size(), 20493U);

  const ModelConfig config = released_config(shared);
  Shapes ours;
  int64_t n_elements = 0;
  for_all_tensors(config, false, [&](const TensorSpec& spec, int64_t layer) {
    const std::vector<int64_t> shape = tensor_shape(spec.hf_dims, config);
    const bool experts = spec.hf.find('*') != std::string_view::npos;
    for (int64_t e = 0; e < (experts ? config.n_experts : 1); ++e) {
      n_elements += product(shape);
      EXPECT_TRUE(ours.emplace(tensor_name(spec.hf, layer, e), shape).second) << spec.hf;
    }
  });
  EXPECT_EQ(ours, published);
  EXPECT_EQ(n_elements, 49122681728);
}

TEST(TensorSchema, BothFormatsHoldTheSameNumberOfElements) {
  ModelConfig c;  // every dimension another prime
  c.vocab_size = 2;
  c.hidden_size = 3;
  c.kda_heads = 5;
  c.kda_head_dim = 7;
  c.conv_kernel = 11;
  c.n_heads = 13;
  c.q_lora_rank = 17;
  c.kv_lora_rank = 19;
  c.qk_nope_head_dim = 23;
  c.qk_rope_head_dim = 29;
  c.v_head_dim = 31;
  c.intermediate_size = 37;
  c.n_experts = 41;
  c.moe_intermediate_size = 43;
  c.n_shared_experts = 47;
  for (const TensorSpec& spec : tensor_schema()) {
    if (spec.hf.empty() || spec.gguf.empty()) continue;
    const int64_t stacked = spec.transform == TensorTransform::kStackExperts ? c.n_experts : 1;
    EXPECT_EQ(product(tensor_shape(spec.hf_dims, c)) * stacked, product(tensor_shape(spec.gguf_dims, c))) << spec.hf;
  }
  const auto elements = [&](TensorId id) { return product(tensor_shape(tensor_spec(id).gguf_dims, c)); };
  EXPECT_EQ(elements(TensorId::kMlaKUp) + elements(TensorId::kMlaVUp), elements(TensorId::kMlaKvUp));
  EXPECT_EQ(elements(TensorId::kExpertGate) + elements(TensorId::kExpertUp), elements(TensorId::kExpertGateUp));
  EXPECT_EQ(elements(TensorId::kKdaQ) * 3, elements(TensorId::kKdaQkv));
}

TEST(TensorSchema, PutsNumbersIntoNames) {
  EXPECT_EQ(tensor_name("blk.#.attn_q.weight", 12), "blk.12.attn_q.weight");
  EXPECT_EQ(tensor_name("model.layers.#.experts.*.w1.weight", 3, 255), "model.layers.3.experts.255.w1.weight");
  EXPECT_EQ(tensor_name("output.weight", 5), "output.weight");
}

}  // namespace
}  // namespace kda
