// What variants_test.cpp cannot show: refusals and what is assumed.
#include <gtest/gtest.h>

#include "arch/model_config.h"
#include "formats/gguf.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "support/tiny_model.h"

namespace kda {
namespace {

using test::expect_error;
using test::TempFolder;
using test::TinyGgufOptions;
using test::TinyModel;
using test::TinyModelOptions;

struct Result {
  ModelConfig config;
  std::vector<std::string> warnings;
};

Result read(const TinyGgufOptions& options, const TinyModelOptions& model = {}) {
  const TempFolder folder;
  const GgufModel file = GgufModel::open(TinyModel(model).write_gguf(folder.path(), options));
  Result result;
  result.config = read_gguf_config(file, result.warnings);
  return result;
}

using AddKeys = std::function<void(GgufWriter&)>;

/// The standard file with a key replaced.
TinyGgufOptions with(const char* key, AddKeys add) { return {.omit = {key}, .add_keys = std::move(add)}; }

void expect_refused(const TinyGgufOptions& options, ErrorCode code, const std::string& part,
                    const TinyModelOptions& model = {}) {
  expect_error(code, part, [&] { (void)read(options, model); });
}

TEST(GgufConfig, NamesAnUnknownArchitectureAndWhatIsSupported) {
  expect_refused(with("general.architecture", [](GgufWriter& w) { w.add_string("general.architecture", "foo"); }),
                 ErrorCode::kUnsupported, "architecture is 'foo', supported by this version is \"kimi-linear\"");
  expect_refused(with("general.architecture", [](GgufWriter& w) { w.add_string("general.architecture", "kimi-k3"); }),
                 ErrorCode::kUnsupported, "Kimi K3 features are not supported by this version");
  expect_refused({.omit = {"general.architecture"}}, ErrorCode::kFormat, "general.architecture is missing");
}

TEST(GgufConfig, NamesKeysThatNothingReplaces) {
  for (const char* key : {"kimi-linear.block_count", "kimi-linear.embedding_length", "kimi-linear.context_length",
                          "kimi-linear.attention.layer_norm_rms_epsilon", "kimi-linear.attention.head_count",
                          "kimi-linear.expert_used_count"})
    expect_refused({.omit = {key}}, ErrorCode::kFormat, std::string("metadata key ") + key + " is missing");
}

TEST(GgufConfig, RefusesOtherGatingFunctions) {
  expect_refused(
      with("kimi-linear.expert_gating_func", [](GgufWriter& w) { w.add_uint32("kimi-linear.expert_gating_func", 1); }),
      ErrorCode::kUnsupported, "kimi-linear.expert_gating_func is 1, supported by this version is 2 (sigmoid)");
}

TEST(GgufConfig, SaysThatItAssumesSigmoid) {
  const Result result = read({.omit = {"kimi-linear.expert_gating_func"}});
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_NE(result.warnings[0].find("expert_gating_func is missing: sigmoid is assumed"), std::string::npos);
}

TEST(GgufConfig, SaysThatItAssumesNoScale) {
  const Result result = read({.omit = {"kimi-linear.expert_weights_scale"}});
  EXPECT_EQ(result.config.routed_scaling_factor, 1.0F);
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_NE(result.warnings[0].find("expert_weights_scale is missing: 1 is assumed"), std::string::npos);
}

TEST(GgufConfig, RenormalisesUnlessTheFileSaysNo) {
  EXPECT_TRUE(read({}).config.renormalize_experts);
  EXPECT_FALSE(read({}, {.renormalize = false}).config.renormalize_experts);
}

TEST(GgufConfig, TakesThePositionalWidthFromTheTensor) {
  const Result result = read({.bogus_keys = true});
  EXPECT_EQ(result.config.qk_rope_head_dim, 16);
  EXPECT_EQ(result.config.qk_nope_head_dim, 32);
  EXPECT_EQ(result.config.v_head_dim, 32);
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_NE(result.warnings[0].find("rope.dimension_count is 72, but blk.2.attn_kv_a_mqa.weight has 16 rows beside the "
                                    "32 of the latent"),
            std::string::npos)
      << result.warnings[0];
}

TEST(GgufConfig, TrustsTheRowsOfTheEmbedding) {
  const Result listed = read({.listed_tokens = 98});
  EXPECT_EQ(listed.config.vocab_size, 96);
  ASSERT_EQ(listed.warnings.size(), 1U);
  EXPECT_NE(listed.warnings[0].find("lists 98 tokens, but token_embd.weight has 96 rows"), std::string::npos);
  const Result key =
      read(with("kimi-linear.vocab_size", [](GgufWriter& w) { w.add_uint32("kimi-linear.vocab_size", 98); }));
  EXPECT_EQ(key.config.vocab_size, 96);
  ASSERT_EQ(key.warnings.size(), 1U);
}

TEST(GgufConfig, TakesTheEmbeddingWhenThereIsNoHead) {
  const Result result = read({.omit = {"output.weight"}});
  EXPECT_TRUE(result.config.tied_embeddings);
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_NE(result.warnings[0].find("output.weight is missing: token_embd.weight is used"), std::string::npos);
}

TEST(GgufConfig, GoesWithoutSharedExpertsThatAreNotThere) {
  std::set<std::string> omit;
  for (const char* layer : {"1", "2", "3"})
    for (const char* part : {"gate", "up", "down"})
      omit.insert("blk." + std::string(layer) + ".ffn_" + part + "_shexp.weight");
  const Result result = read({.omit = omit});
  EXPECT_EQ(result.config.n_shared_experts, 0);
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_NE(result.warnings[0].find("expert_shared_count is 1, but there is no blk.1.ffn_down_shexp.weight"),
            std::string::npos);
}

TEST(GgufConfig, RefusesGroupsWithoutTheirNumber) {
  expect_refused({.omit = {"kimi-linear.expert_group_count"}}, ErrorCode::kFormat,
                 "kimi-linear.expert_group_used_count is 2, expected 1 or kimi-linear.expert_group_count beside it",
                 {.experts = 8, .groups = 4, .groups_used = 2});
}

TEST(GgufConfig, RefusesArraysThatDoNotFit) {
  const auto counts = [](const char* key, std::vector<int32_t> values) {
    return with(key, [key, values](GgufWriter& w) { w.add_int32_array(key, values); });
  };
  expect_refused(counts("kimi-linear.attention.head_count_kv", {0, 0, 1}), ErrorCode::kFormat,
                 "head_count_kv has 3 elements, expected one for each of the 4 layers");
  expect_refused(counts("kimi-linear.attention.head_count", {0, 0, 0, 0}), ErrorCode::kFormat,
                 "attention.head_count of layer 2 is 0, expected at least 1");
  expect_refused(counts("kimi-linear.expert_feed_forward_length", {0, 32, 64, 32}), ErrorCode::kUnsupported,
                 "expert_feed_forward_length is 64 in layer 2 and 32 before, expected one value");
}

TEST(GgufConfig, RefusesHostileCountsBeforeItAllocates) {
  expect_refused(
      with("kimi-linear.block_count", [](GgufWriter& w) { w.add_uint32("kimi-linear.block_count", 0xFFFFFFFFU); }),
      ErrorCode::kFormat, "block_count is 4294967295, expected 1 to 65536");
  expect_refused(
      with("kimi-linear.expert_count", [](GgufWriter& w) { w.add_uint32("kimi-linear.expert_count", 0xFFFFFFFFU); }),
      ErrorCode::kFormat, "number of experts is 4294967295");
  expect_refused(with("kimi-linear.kda.head_dim", [](GgufWriter& w) { w.add_string("kimi-linear.kda.head_dim", "x"); }),
                 ErrorCode::kFormat, "kimi-linear.kda.head_dim");
}

TEST(GgufConfig, RefusesLayersThatPredictSeveralTokens) {
  expect_refused({.add_keys = [](GgufWriter& w) { w.add_uint32("kimi-linear.nextn_predict_layers", 1); }},
                 ErrorCode::kUnsupported, "nextn_predict_layers is 1, expected 0");
}

TEST(GgufConfig, NamesTheTensorThatItWouldDeriveFrom) {
  expect_refused(
      {.omit = {"kimi-linear.kda.head_dim", "blk.0.ssm_norm.weight"}}, ErrorCode::kFormat,
      "tensor blk.0.ssm_norm.weight is missing, needed because the metadata do not tell kimi-linear.kda.head_dim");
  expect_refused({.omit = {"token_embd.weight"}}, ErrorCode::kFormat, "tensor token_embd.weight is missing");
}

}  // namespace
}  // namespace kda
