// One model, written in every form that files have: the configuration and the values behind the views must not differ.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "quant/codec.h"
#include "support/temp_folder.h"
#include "support/tiny_model.h"
#include "weights/checkpoint.h"

namespace kda {
namespace {

using test::TempFolder;
using test::TinyFolderOptions;
using test::TinyGgufOptions;
using test::TinyModel;
using test::TinyModelOptions;
using KvUp = TinyGgufOptions::KvUp;
using HeadCountKv = TinyGgufOptions::HeadCountKv;

using Values = std::map<std::string, std::vector<float>>;

void add(Values& out, const std::string& name, std::span<const float> v) { out[name].assign(v.begin(), v.end()); }

void add(Values& out, const std::string& name, const QMatView& m) {
  std::vector<float>& values = out[name];
  values.resize(static_cast<size_t>(m.rows * m.cols));
  for (int64_t r = 0; r < m.rows; ++r)
    dequantize_row(m.type, m.data + r * m.row_bytes, values.data() + r * m.cols, m.cols);
}

void add(Values& out, const std::string& name, const QMatsView& m) {
  for (int64_t i = 0; i < m.n(); ++i) add(out, fmt::format("{}.{}", name, i), m[i]);
}

/// Everything that weights() shows, as float.
Values values_of(const Checkpoint& checkpoint) {
  const ModelWeights& w = checkpoint.weights();
  Values out;
  add(out, "token_embd", w.token_embd);
  add(out, "output", w.output);
  add(out, "output_norm", w.output_norm);
  for (size_t i = 0; i < w.layers.size(); ++i) {
    const LayerWeights& l = w.layers[i];
    const auto put = [&](const char* name, const auto& view) { add(out, fmt::format("{}.{}", i, name), view); };
    const auto put_ffn = [&](const char* name, const DenseFfnWeights& f) {
      put(fmt::format("{}.gate", name).c_str(), f.gate);
      put(fmt::format("{}.up", name).c_str(), f.up);
      put(fmt::format("{}.down", name).c_str(), f.down);
    };
    put("attn_norm", l.attn_norm);
    put("ffn_norm", l.ffn_norm);
    put("kda.q", l.kda.q);
    put("kda.k", l.kda.k);
    put("kda.v", l.kda.v);
    put("kda.conv_q", l.kda.conv_q);
    put("kda.conv_k", l.kda.conv_k);
    put("kda.conv_v", l.kda.conv_v);
    put("kda.f_a", l.kda.f_a);
    put("kda.f_b", l.kda.f_b);
    put("kda.beta", l.kda.beta);
    put("kda.a", l.kda.a);
    put("kda.dt_bias", l.kda.dt_bias);
    put("kda.g_a", l.kda.g_a);
    put("kda.g_b", l.kda.g_b);
    put("kda.o_norm", l.kda.o_norm);
    put("kda.o", l.kda.o);
    put("mla.q", l.mla.q);
    put("mla.q_a", l.mla.q_a);
    put("mla.q_a_norm", l.mla.q_a_norm);
    put("mla.q_b", l.mla.q_b);
    put("mla.kv_a", l.mla.kv_a);
    put("mla.kv_a_norm", l.mla.kv_a_norm);
    put("mla.k_b", l.mla.k_b);
    put("mla.v_b", l.mla.v_b);
    put("mla.o", l.mla.o);
    put_ffn("dense", l.dense);
    put("moe.router", l.moe.router);
    put("moe.router_bias", l.moe.router_bias);
    put("moe.gate", l.moe.gate);
    put("moe.up", l.moe.up);
    put("moe.down", l.moe.down);
    put_ffn("moe.shared", l.moe.shared);
  }
  return out;
}

ModelConfig without_name(const Checkpoint& checkpoint) {
  ModelConfig config = checkpoint.config();
  config.name.clear();
  return config;
}

void expect_same(const Checkpoint& expected, const Checkpoint& found, const std::string& what) {
  EXPECT_TRUE(without_name(expected) == without_name(found)) << what;
  const Values a = values_of(expected);
  const Values b = values_of(found);
  ASSERT_EQ(a.size(), b.size()) << what;
  for (const auto& [name, values] : a) EXPECT_EQ(values, b.at(name)) << what << ": " << name;
}

std::unique_ptr<Checkpoint> open_folder(const TinyModel& model, const TempFolder& folder,
                                        const TinyFolderOptions& options = {}) {
  model.write_folder(folder.path(), options);
  return Checkpoint::open({ModelKind::kFolder, folder.path()});
}

std::unique_ptr<Checkpoint> open_gguf(const TinyModel& model, const TempFolder& folder,
                                      const TinyGgufOptions& options = {}) {
  return Checkpoint::open({ModelKind::kGguf, model.write_gguf(folder.path(), options)});
}

struct Variant {
  const char* name;
  TinyGgufOptions options;
  int n_warnings = 0;
};

std::vector<Variant> variants() {
  return {
      {"standard", {}},
      {"f16", {.matrix_type = TensorType::kF16, .vector_type = TensorType::kF16, .router_type = TensorType::kF16}},
      {"bf16", {.matrix_type = TensorType::kBF16, .vector_type = TensorType::kBF16, .router_type = TensorType::kBF16}},
      {"kv_b split, heads merged", {.kv_up = KvUp::kSplitFlat}},
      {"kv_b unsplit", {.kv_up = KvUp::kUnsplit}},
      {"kv_b unsplit, f16", {.matrix_type = TensorType::kF16, .kv_up = KvUp::kUnsplit}},
      {"kv_b split and unsplit", {.kv_up = KvUp::kBoth}},
      {"conv of 3 dimensions", {.conv_dims = 3}},
      {"conv of 2 dimensions", {.conv_dims = 2}},
      {"ssm_a of 2 dimensions", {.decay_dims = 2}},
      {"ssm_a of 1 dimension", {.decay_dims = 1}},
      {"ssm_a holds A_log", {.raw_decay = true}, 1},
      {"fused qkv", {.fused_qkv = true}},
      {"fused gate and up", {.fused_gate_up = true}},
      {"names without .bias", {.old_names = true}},
      {"head_count array", {.head_count_array = true}},
      {"length arrays", {.length_arrays = true}},
      {"head_count_kv 32 on MLA layers", {.head_count_kv = HeadCountKv::kArray32}},
      {"head_count_kv without any 0", {.head_count_kv = HeadCountKv::kAllNonZero}},
      {"head_count_kv scalar", {.head_count_kv = HeadCountKv::kScalar}},
      {"head_count_kv absent", {.head_count_kv = HeadCountKv::kAbsent}},
      {"no optional keys", {.optional_keys = false}, 1},  // the gating function is assumed
      {"no optional keys, fused", {.fused_qkv = true, .fused_gate_up = true, .optional_keys = false}, 1},
      {"no optional keys, kv_b unsplit",
       {.kv_up = KvUp::kUnsplit, .head_count_kv = HeadCountKv::kAbsent, .optional_keys = false},
       1},
      {"bogus value_length and rope.dimension_count", {.bogus_keys = true}, 1},
      {"surplus tokens", {.listed_tokens = 98}, 1},
      {"version 2", {.version = 2}},
      {"3 files", {.n_files = 3}},
  };
}

void expect_all_variants_same(const TinyModelOptions& options) {
  const TinyModel model(options);
  const TempFolder reference_folder;
  const auto reference = open_folder(model, reference_folder, {.type = TensorType::kF32});
  EXPECT_TRUE(reference->warnings().empty());
  for (const Variant& variant : variants()) {
    const TempFolder folder;
    const auto found = open_gguf(model, folder, variant.options);
    expect_same(*reference, *found, variant.name);
    const bool harmless = options.mla_layers.empty() && variant.options.bogus_keys;  // nothing to be wrong about
    EXPECT_EQ(found->warnings().size(), (harmless ? 0 : variant.n_warnings) + (options.tied ? 1 : 0))
        << variant.name << ": " << (found->warnings().empty() ? "" : found->warnings()[0]);
    EXPECT_EQ(found->n_parameters(), reference->n_parameters()) << variant.name;
    found->check_values();
  }
  for (const TensorType type : {TensorType::kF16, TensorType::kBF16}) {
    const TempFolder folder;
    expect_same(*reference, *open_folder(model, folder, {.type = type}), "folder");
  }
  const TempFolder folder;
  expect_same(*reference, *open_folder(model, folder, {.type = TensorType::kF32, .n_files = 3}), "folder of 3 files");
}

TEST(Variants, OfTheStandardShapeHoldTheSameModel) { expect_all_variants_same({}); }

TEST(Variants, WithCompressedQueriesAndExpertGroupsHoldTheSameModel) {
  expect_all_variants_same({.mla_layers = {0, 3},
                            .q_rank = 48,
                            .first_moe = 2,
                            .experts = 8,
                            .experts_used = 3,
                            .shared_experts = 2,
                            .groups = 4,
                            .groups_used = 2});
}

TEST(Variants, WithOddShapesAndTiedEmbeddingsHoldTheSameModel) {
  expect_all_variants_same({.vocab = 61,
                            .hidden = 40,
                            .kda_heads = 3,
                            .kda_head_dim = 24,
                            .taps = 5,
                            .heads = 5,
                            .kv_rank = 36,
                            .nope = 20,
                            .rope = 12,
                            .value = 28,
                            .ffn = 56,
                            .shared_experts = 0,
                            .expert_ffn = 24,
                            .renormalize = false,
                            .tied = true});
}

TEST(Variants, WithOneHeadHoldTheSameModel) {  // dimensions of 1 everywhere
  expect_all_variants_same({.kda_heads = 1, .heads = 1, .experts = 2, .experts_used = 1});
}

TEST(Variants, OfOneLayerHoldTheSameModel) {
  expect_all_variants_same({.n_layers = 1, .mla_layers = {}, .first_moe = 0});
}

TEST(Variants, OfQuantisedFilesHoldTheSameModel) {
  const TinyModel model;
  const TempFolder reference_folder;
  const auto reference = open_gguf(model, reference_folder, {.matrix_type = TensorType::kQ8_0});
  EXPECT_EQ(reference->weights().layers[2].mla.k_b.type, TensorType::kQ8_0);
  EXPECT_EQ(reference->weights().layers[1].moe.gate.type, TensorType::kQ8_0);
  for (const Variant& variant : variants()) {
    TinyGgufOptions options = variant.options;
    if (options.kv_up == KvUp::kUnsplit) continue;  // other rows are quantised
    options.matrix_type = TensorType::kQ8_0;
    const TempFolder folder;
    const auto found = open_gguf(model, folder, options);
    expect_same(*reference, *found, variant.name);
    found->check_values();
  }
}

TEST(Checkpoint, DecodesQuantisedKeysThatItMustTranspose) {
  const TinyModel model;
  const TempFolder folder;
  const auto checkpoint = open_gguf(model, folder, {.matrix_type = TensorType::kQ8_0, .kv_up = KvUp::kUnsplit});
  const MlaWeights& mla = checkpoint->weights().layers[2].mla;
  EXPECT_EQ(mla.k_b.type, TensorType::kF32);
  EXPECT_EQ(mla.v_b.type, TensorType::kQ8_0);
  const std::vector<float>& kv = model.tensors.at("model.layers.2.self_attn.kv_b_proj.weight").values;
  const std::vector<std::byte> bytes = test::encode(TensorType::kQ8_0, kv, 32);
  std::vector<float> decoded(kv.size());
  dequantize_row(TensorType::kQ8_0, bytes.data(), decoded.data(), static_cast<int64_t>(kv.size()));
  const Values values = values_of(*checkpoint);
  for (size_t h = 0; h < 3; ++h) {
    for (size_t r = 0; r < 32; ++r) {
      for (size_t n = 0; n < 32; ++n) {
        ASSERT_EQ(values.at(fmt::format("2.mla.k_b.{}", h))[r * 32 + n], decoded[(h * 64 + n) * 32 + r]);
        ASSERT_EQ(values.at(fmt::format("2.mla.v_b.{}", h))[n * 32 + r], decoded[(h * 64 + 32 + n) * 32 + r]);
      }
    }
  }
}

TEST(Checkpoint, ShowsTheSourceValuesThroughItsViews) {
  const TinyModel model;
  const TempFolder folder;
  const auto checkpoint = open_folder(model, folder);
  const Values values = values_of(*checkpoint);
  const auto source = [&](const std::string& name) { return model.tensors.at(name).values; };
  EXPECT_EQ(values.at("token_embd"), source("model.embed_tokens.weight"));
  EXPECT_EQ(values.at("output"), source("lm_head.weight"));
  EXPECT_EQ(values.at("0.kda.conv_k"), source("model.layers.0.self_attn.k_conv1d.weight"));
  EXPECT_EQ(values.at("0.dense.down"), source("model.layers.0.mlp.down_proj.weight"));
  EXPECT_EQ(values.at("2.mla.kv_a"), source("model.layers.2.self_attn.kv_a_proj_with_mqa.weight"));
  EXPECT_EQ(values.at("3.moe.gate.4"), source("model.layers.3.block_sparse_moe.experts.4.w1.weight"));
  EXPECT_EQ(values.at("3.moe.up.5"), source("model.layers.3.block_sparse_moe.experts.5.w3.weight"));
  EXPECT_EQ(values.at("3.moe.down.0"), source("model.layers.3.block_sparse_moe.experts.0.w2.weight"));
  EXPECT_EQ(values.at("3.moe.router_bias"), source("model.layers.3.block_sparse_moe.gate.e_score_correction_bias"));
  const std::vector<float> a_log = source("model.layers.1.self_attn.A_log");
  for (size_t h = 0; h < a_log.size(); ++h) EXPECT_FLOAT_EQ(values.at("1.kda.a")[h], -std::exp(a_log[h]));
  const std::vector<float> kv = source("model.layers.2.self_attn.kv_b_proj.weight");  // [3*(32+32), 32]
  EXPECT_EQ(values.at("2.mla.k_b.1")[5 * 32 + 7], kv[(64 + 7) * 32 + 5]);
  EXPECT_EQ(values.at("2.mla.v_b.2")[5 * 32 + 7], kv[(128 + 32 + 5) * 32 + 7]);
}

TEST(Checkpoint, KeepsTheBitsOfTransposedKeys) {
  const TinyModel model;
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBF16}) {
    const TempFolder folder;
    const auto checkpoint = open_folder(model, folder, {.type = type});
    EXPECT_EQ(checkpoint->weights().layers[2].mla.k_b.type, type);
  }
}

TEST(Checkpoint, MatricesStayInTheMapping) {
  const TinyModel model;
  const TempFolder folder;
  const auto checkpoint = open_gguf(model, folder);
  int64_t vectors = 64;                        // output_norm
  vectors += 4 * 2 * 64;                       // norms of the layers
  vectors += 3 * (3 * 64 * 4 + 2 + 64 + 32);   // convolutions, a, dt_bias, o_norm
  vectors += 32;                               // kv_a_norm
  vectors += 3 * 6;                            // router_bias
  const int64_t pointers = 2 * 3 + 3 * 3 * 6;  // k_b and v_b of 3 heads; 3 layers of 3 times 6 experts
  EXPECT_EQ(checkpoint->owned_bytes(), vectors * 4 + pointers * 8);
  int64_t mapped = 0;
  for (const TensorListing& t : checkpoint->tensors()) mapped += t.bytes;
  EXPECT_EQ(checkpoint->mapped_bytes(), mapped);
  EXPECT_EQ(checkpoint->n_parameters() * 4, mapped);  // all F32
}

}  // namespace
}  // namespace kda
