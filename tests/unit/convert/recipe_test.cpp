#include "convert/recipe.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "convert/quant_preset.h"
#include "formats/json.h"
#include "quant/codec.h"
#include "support/expect_error.h"
#include "support/shared_data.h"
#include "support/temp_folder.h"

namespace kda {
namespace {

std::vector<PlannedTensor> released_tensors(const std::filesystem::path& shared) {
  const auto path = shared / "data/config/kimi-linear-48b-a3b-instruct.config.json";
  std::vector<PlannedTensor> tensors = list_tensors(read_hf_config(read_json_file(path), path.string()));
  for (PlannedTensor& tensor : tensors) tensor.source.type = TensorType::kBF16;
  return tensors;
}

std::map<std::string, TensorType> types_of(std::vector<PlannedTensor> tensors, std::string_view preset, Recipe recipe,
                                           const std::vector<TypeRule>& rules = {}) {
  std::vector<std::string> notes;
  choose_types(tensors, find_quant_preset(preset), recipe, rules, notes);
  std::map<std::string, TensorType> out;
  for (const PlannedTensor& tensor : tensors) out[tensor.name] = tensor.type;
  return out;
}

TEST(Recipe, LlamaCppsChoicesAreThoseOfItsTable) {
  KDA_SHARED_OR_SKIP(shared);
  const auto types = types_of(released_tensors(shared), "q4_k_m", Recipe::kLlamaCpp);
  const std::set<int> more_down{0, 1, 2, 5, 8, 11, 14, 17, 20, 23, 24, 25, 26};
  for (int layer = 1; layer < 27; ++layer) {
    const auto down = more_down.count(layer) != 0 ? TensorType::kQ6_K : TensorType::kQ4_K;
    EXPECT_EQ(types.at(fmt::format("blk.{}.ffn_down_exps.weight", layer)), down) << layer;
    EXPECT_EQ(types.at(fmt::format("blk.{}.ffn_down_shexp.weight", layer)), down) << layer;
  }
  for (const int layer : {0, 1, 5, 9, 13, 17, 21, 22, 24, 25}) {
    EXPECT_EQ(types.at(fmt::format("blk.{}.attn_v.weight", layer)), TensorType::kQ6_K) << layer;
  }
  for (const int layer : {2, 4, 6, 8, 10, 12, 14, 16, 18, 20}) {
    EXPECT_EQ(types.at(fmt::format("blk.{}.attn_v.weight", layer)), TensorType::kQ4_K) << layer;
  }
  EXPECT_EQ(types.at("output.weight"), TensorType::kQ6_K);
  EXPECT_EQ(types.at("token_embd.weight"), TensorType::kQ4_K);
  EXPECT_EQ(types.at("blk.0.ssm_f_b.weight"), TensorType::kQ5_0) << "rows of 128 cannot hold blocks of 256";
  EXPECT_EQ(types.at("blk.3.attn_k_b.weight"), TensorType::kQ5_0);
  EXPECT_EQ(types.at("blk.1.ffn_gate_inp.weight"), TensorType::kF32);
  EXPECT_EQ(types.at("blk.0.ssm_conv1d_q.weight"), TensorType::kF32);
  const auto small = types_of(released_tensors(shared), "q2_k", Recipe::kLlamaCpp);
  EXPECT_EQ(small.at("blk.5.ffn_down_exps.weight"), TensorType::kQ3_K);
  EXPECT_EQ(small.at("blk.5.attn_output.weight"), TensorType::kQ3_K);
  EXPECT_EQ(small.at("blk.5.ffn_up_exps.weight"), TensorType::kQ2_K);
  EXPECT_EQ(small.at("blk.3.attn_k_b.weight"), TensorType::kQ4_0);
  const auto fp4 = types_of(released_tensors(shared), "mxfp4_moe", Recipe::kLlamaCpp);
  EXPECT_EQ(fp4.at("blk.5.ffn_up_exps.weight"), TensorType::kMXFP4);
  EXPECT_EQ(fp4.at("blk.3.attn_v_b.weight"), TensorType::kMXFP4);
  EXPECT_EQ(fp4.at("blk.5.attn_q.weight"), TensorType::kQ8_0);
}

// Seen in what llama.cpp's own quantiser writes.
TEST(Recipe, LlamaCppsChoicesForModelsOfEightExpertsAreOthers) {
  ModelConfig config = read_hf_config(read_json_file(std::string(KDA_SOURCE_DIR) + "/models/demo/config.json"), "demo");
  const auto chosen = [&](const char* preset) { return types_of(list_tensors(config), preset, Recipe::kLlamaCpp); };
  ASSERT_EQ(config.n_experts, 8);
  for (const char* preset : {"q2_k", "q4_k_m", "iq4_xs", "q5_0"}) {
    EXPECT_EQ(chosen(preset).at("blk.1.attn_k.weight"), TensorType::kQ8_0) << preset;
    EXPECT_EQ(chosen(preset).at("blk.1.attn_v.weight"), TensorType::kQ8_0) << preset;
  }
  EXPECT_EQ(chosen("q3_k_m").at("blk.3.attn_output.weight"), TensorType::kQ5_K);
  EXPECT_EQ(chosen("q3_k_l").at("blk.3.attn_output.weight"), TensorType::kQ3_K);
  EXPECT_EQ(chosen("q5_k_m").at("blk.3.attn_output.weight"), TensorType::kQ5_K);
  config.n_experts = 16;
  EXPECT_EQ(chosen("q3_k_l").at("blk.3.attn_output.weight"), TensorType::kQ5_K);
  EXPECT_EQ(chosen("q2_k").at("blk.1.attn_k.weight"), TensorType::kQ2_K);
}

TEST(Recipe, OursKeepsDelicateTensorsAtEightBitsInNoMoreBytes) {
  KDA_SHARED_OR_SKIP(shared);
  for (const QuantPreset& preset : quant_presets()) {
    if (!can_quantize(preset.base)) continue;
    std::vector<PlannedTensor> ours = released_tensors(shared);
    std::vector<PlannedTensor> theirs = ours;
    std::vector<std::string> notes;
    choose_types(ours, preset, Recipe::kKda, {}, notes);
    choose_types(theirs, preset, Recipe::kLlamaCpp, {}, notes);
    // With a base of 8 bits there is nothing to take for attn_k_b in BF16 (and, in MXFP4_MOE, the two MLA stacks at 8).
    const int64_t more = preset.base == TensorType::kQ8_0 ? total_bytes(theirs) / 500 : 0;
    EXPECT_LE(total_bytes(ours), total_bytes(theirs) + more) << preset.name;
    EXPECT_GT(total_bytes(ours), total_bytes(theirs) * 99 / 100) << preset.name << ": bits are left over";
    for (const PlannedTensor& tensor : ours) {
      for (const char* part :
           {"ssm_f_a", "ssm_f_b", "ssm_g_a", "ssm_g_b", "ssm_beta", "attn_kv_a_mqa", "attn_k_b", "attn_v_b"}) {
        if (tensor.name.find(part) == std::string::npos) continue;
        EXPECT_GE(tensor.bytes() * 8, tensor.n_elements() * 8) << preset.name << ' ' << tensor.name;
      }
      for (const char* part : {"norm", "conv1d", "ssm_a", "ssm_dt", "exp_probs", "gate_inp"}) {
        if (tensor.name.find(part) == std::string::npos) continue;
        EXPECT_EQ(tensor.type, TensorType::kF32) << preset.name << ' ' << tensor.name;
      }
      if (!is_plain(preset.base) && tensor.name.find("attn_k_b") != std::string::npos) {
        EXPECT_EQ(tensor.type, TensorType::kBF16) << preset.name << ": llama.cpp with AMX aborts on 8 bits";
      }
    }
    EXPECT_EQ(notes, std::vector<std::string>{});
  }
}

TEST(Recipe, PureTakesOneTypeWhereRowsAllow) {
  KDA_SHARED_OR_SKIP(shared);
  std::set<TensorType> types;
  for (const auto& [name, type] : types_of(released_tensors(shared), "q4_k_s", Recipe::kPure)) types.insert(type);
  EXPECT_EQ(types, (std::set{TensorType::kF32, TensorType::kQ4_K, TensorType::kQ5_0}));
}

TEST(Recipe, TheLastRuleThatMatchesWins) {
  KDA_SHARED_OR_SKIP(shared);
  const auto types =
      types_of(released_tensors(shared), "q4_k_m", Recipe::kKda,
               {parse_type_rule("attn_q = q8_0", "t"), parse_type_rule("^blk\\.[02]\\.attn_q=F16", "t")});
  EXPECT_EQ(types.at("blk.0.attn_q.weight"), TensorType::kF16);
  EXPECT_EQ(types.at("blk.1.attn_q.weight"), TensorType::kQ8_0);
  EXPECT_EQ(types.at("blk.2.attn_q.weight"), TensorType::kF16);
}

TEST(Recipe, SaysWhichRulesDoNothing) {
  KDA_SHARED_OR_SKIP(shared);
  std::vector<PlannedTensor> tensors = released_tensors(shared);
  std::vector<std::string> notes;
  const std::vector<TypeRule> rules{parse_type_rule("no_such=q8_0", "t"), parse_type_rule("ffn_norm=q8_0", "t"),
                                    parse_type_rule("blk.3.attn_k_b=q6_k", "t")};
  choose_types(tensors, find_quant_preset("q4_k_m"), Recipe::kKda, rules, notes);
  ASSERT_EQ(notes.size(), 3U);
  EXPECT_EQ(notes[0], "no_such=q8_0 matches no tensor");
  EXPECT_EQ(notes[1], "ffn_norm=q8_0 matches only tensors that are never quantised");
  EXPECT_EQ(notes[2],
            "blk.3.attn_k_b=q6_k: blk.3.attn_k_b.weight has rows of 128, which Q6_K cannot hold: Q8_0 is used");
}

TEST(TypeRules, RefuseWhatTheyCannotMean) {
  using test::expect_error;
  const auto parse = [](const char* text) {
    return [text] { static_cast<void>(parse_type_rule(text, "--tensor-type")); };
  };
  expect_error(ErrorCode::kUsage, "--tensor-type: expected REGEX=TYPE", parse("attn_q"));
  expect_error(ErrorCode::kUsage, "expected REGEX=TYPE", parse("=q8_0"));
  expect_error(ErrorCode::kUsage, "is no type of weights", parse("a=q9"));
  expect_error(ErrorCode::kUsage, "is no type of weights", parse("a=i32"));
  expect_error(ErrorCode::kUsage, "is no regular expression", parse("(=q8_0"));
  expect_error(ErrorCode::kUsage, "expected REGEX=TYPE", parse((std::string(2000, '(') + "=q8_0").c_str()));
}

TEST(TypeRules, ComeFromFilesWithComments) {
  const test::TempFolder folder;
  const auto path = folder.path() / "recipe.txt";
  const auto write = [&](std::string_view text) {
    FILE* f = std::fopen(path.c_str(), "wb");
    ASSERT_EQ(std::fwrite(text.data(), 1, text.size(), f), text.size());
    std::fclose(f);
  };
  write("# a recipe\n\nffn_down_exps = q5_k   # three in four\r\n  attn_[qkv]\\.=Q6_K\n");
  const std::vector<TypeRule> rules = read_type_rules(path);
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0].type, TensorType::kQ5_K);
  EXPECT_TRUE(std::regex_search("blk.1.attn_k.weight", rules[1].pattern));
  EXPECT_FALSE(std::regex_search("blk.1.attn_k_b.weight", rules[1].pattern));
  write("ok=q8_0\nnot a rule\n");
  test::expect_error(ErrorCode::kUsage, "recipe.txt: line 2", [&] { static_cast<void>(read_type_rules(path)); });
}

}  // namespace
}  // namespace kda
