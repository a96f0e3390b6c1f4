// What a checkpoint refuses, and what it tells beside the weights.
#include "weights/checkpoint.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "formats/gguf.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "support/tiny_model.h"

namespace kda {
namespace {

using test::expect_error;
using test::SafeTensorEntry;
using test::TempFolder;
using test::TinyFolderOptions;
using test::TinyGgufOptions;
using test::TinyModel;
using Entries = std::vector<SafeTensorEntry>;

std::unique_ptr<Checkpoint> open_folder(const TinyModel& model, const TempFolder& folder,
                                        const TinyFolderOptions& options = {}) {
  model.write_folder(folder.path(), options);
  return Checkpoint::open({ModelKind::kFolder, folder.path()});
}

std::unique_ptr<Checkpoint> open_gguf(const TinyModel& model, const TempFolder& folder,
                                      const TinyGgufOptions& options = {}) {
  return Checkpoint::open({ModelKind::kGguf, model.write_gguf(folder.path(), options)});
}

void expect_gguf_refused(const TinyGgufOptions& options, ErrorCode code, const std::string& part) {
  const TempFolder folder;
  expect_error(code, part, [&] { (void)open_gguf(TinyModel(), folder, options); });
}

void expect_folder_refused(const std::function<void(Entries&)>& edit, ErrorCode code, const std::string& part) {
  const TempFolder folder;
  expect_error(code, part, [&] { (void)open_folder(TinyModel(), folder, {.edit = edit}); });
}

SafeTensorEntry& entry(Entries& entries, const std::string& name) {
  return *std::find_if(entries.begin(), entries.end(), [&](const SafeTensorEntry& e) { return e.name == name; });
}

std::function<void(Entries&)> without(const std::vector<std::string>& names) {
  return [names](Entries& entries) {
    std::erase_if(entries, [&](const SafeTensorEntry& e) {
      return std::find(names.begin(), names.end(), e.name) != names.end();
    });
  };
}

/// A GGUF file in which a tensor is replaced by zeros of another shape or type.
TinyGgufOptions with_tensor(const char* name, TensorType type, std::vector<int64_t> ne) {
  static const std::vector<std::byte> zeros(1 << 16);
  const int64_t n_rows = [&] {
    int64_t n = 1;
    for (size_t i = 1; i < ne.size(); ++i) n *= ne[i];
    return n;
  }();
  const auto bytes = static_cast<size_t>(n_rows * row_bytes(type, ne[0]));
  return {.omit = {name},
          .add_tensors = [=](GgufWriter& w) { w.add_tensor(name, type, ne, std::span(zeros).first(bytes)); }};
}

TEST(Checkpoint, NamesAllMissingTensorsTogether) {
  expect_gguf_refused({.omit = {"output_norm.weight", "blk.1.ssm_beta.weight"}}, ErrorCode::kFormat,
                      "2 tensors are missing: output_norm.weight, blk.1.ssm_beta.weight");
  expect_folder_refused(
      without({"model.norm.weight", "model.layers.3.block_sparse_moe.experts.2.w3.weight"}), ErrorCode::kFormat,
      "2 tensors are missing: model.norm.weight, model.layers.3.block_sparse_moe.experts.2.w3.weight");
  expect_folder_refused([](Entries& entries) { entries.resize(1); }, ErrorCode::kFormat, " more");
  expect_folder_refused(without({"lm_head.weight"}), ErrorCode::kFormat, "1 tensor is missing: lm_head.weight");
}

TEST(Checkpoint, NamesTheVariantsItLookedFor) {
  expect_gguf_refused({.omit = {"blk.0.attn_q.weight"}}, ErrorCode::kFormat,
                      "missing: blk.0.attn_q.weight (or blk.0.attn_qkv.weight)");
  expect_gguf_refused({.omit = {"blk.2.attn_k_b.weight"}}, ErrorCode::kFormat,
                      "missing: blk.2.attn_k_b.weight (or blk.2.attn_kv_b.weight)");
  expect_gguf_refused({.omit = {"blk.1.ffn_gate_exps.weight"}}, ErrorCode::kFormat,
                      "missing: blk.1.ffn_gate_exps.weight (or blk.1.ffn_gate_up_exps.weight)");
}

TEST(Checkpoint, RefusesWrongShapesWithBoth) {
  expect_gguf_refused(with_tensor("blk.0.ssm_dt.bias", TensorType::kF32, {63}), ErrorCode::kFormat,
                      "tensor 'blk.0.ssm_dt.bias' has shape {63}, expected {64}");
  expect_gguf_refused(with_tensor("blk.0.attn_k.weight", TensorType::kF32, {32, 128}), ErrorCode::kFormat,
                      "tensor 'blk.0.attn_k.weight' has shape {32, 128}, expected {64, 64}");
  // As many elements, but experts and rows swapped.
  expect_gguf_refused(with_tensor("blk.1.ffn_up_exps.weight", TensorType::kF32, {64, 6, 32}), ErrorCode::kFormat,
                      "tensor 'blk.1.ffn_up_exps.weight' has shape {64, 6, 32}, expected {64, 32, 6}");
  expect_gguf_refused(with_tensor("blk.2.attn_k_b.weight", TensorType::kF32, {64, 32, 2}), ErrorCode::kFormat,
                      "tensor 'blk.2.attn_k_b.weight' has shape {64, 32, 2}, expected {32, 32, 3}");
  expect_folder_refused(
      [](Entries& entries) {
        entry(entries, "model.layers.0.self_attn.q_conv1d.weight").shape = {4, 1, 64};
      },
      ErrorCode::kFormat, "has shape [4, 1, 64], expected [64, 1, 4]");
}

TEST(Checkpoint, RefusesTypesThatAreNotWeights) {
  expect_gguf_refused(with_tensor("blk.0.attn_k.weight", TensorType::kI32, {64, 64}), ErrorCode::kUnsupported,
                      "tensor 'blk.0.attn_k.weight' has type I32, expected a type of weights");
  expect_gguf_refused(with_tensor("output_norm.weight", TensorType::kF64, {64}), ErrorCode::kUnsupported,
                      "tensor 'output_norm.weight' has type F64, expected F32, F16 or BF16");
  expect_gguf_refused(with_tensor("output_norm.weight", TensorType::kQ8_0, {64}), ErrorCode::kUnsupported,
                      "tensor 'output_norm.weight' has type Q8_0, expected F32, F16 or BF16");
}

TEST(Checkpoint, RefusesFolderTypesThatItCannotRead) {
  const auto retype = [](const char* dtype, size_t bytes) {
    return [=](Entries& entries) {
      SafeTensorEntry& e = entry(entries, "model.layers.0.self_attn.k_proj.weight");
      e.dtype = dtype;
      e.bytes.resize(64 * 64 * bytes);
    };
  };
  for (const auto& [dtype, bytes] : {std::pair{"F64", 8}, {"F8_E4M3", 1}, {"I32", 4}, {"U8", 1}})
    expect_folder_refused(retype(dtype, bytes), ErrorCode::kUnsupported,
                          fmt::format("tensor 'model.layers.0.self_attn.k_proj.weight' has type {}, expected F32, F16 "
                                      "or BF16",
                                      dtype));
}

TEST(Checkpoint, RefusesExpertsOfSeveralTypes) {
  expect_folder_refused(
      [](Entries& entries) {
        SafeTensorEntry& e = entry(entries, "model.layers.1.block_sparse_moe.experts.3.w2.weight");
        e.dtype = "F16";
      },
      ErrorCode::kUnsupported, "experts.3.w2.weight' has type F16, expected BF16");
}

TEST(Checkpoint, RefusesSeparateScales) {
  const std::vector<std::byte> zeros(4);
  for (const char* name : {"blk.0.attn_q.scale", "blk.0.attn_q.input_scale"})
    expect_gguf_refused({.add_tensors = [&](GgufWriter& w) { w.add_tensor(name, TensorType::kF32, {{1}}, zeros); }},
                        ErrorCode::kUnsupported, fmt::format("tensor '{}': weights with separate scale tensors", name));
}

TEST(Checkpoint, WarnsOfTensorsThatItDoesNotUse) {
  const std::vector<std::byte> zeros(4);
  const TempFolder folder;
  const auto checkpoint = open_gguf(TinyModel(), folder, {.add_tensors = [&](GgufWriter& w) {
                                      w.add_tensor("rope_freqs.weight", TensorType::kF32, {{1}}, zeros);
                                      w.add_tensor("blk.0.extra\x1b.bias", TensorType::kI8, {{4}}, zeros);
                                    }});
  ASSERT_EQ(checkpoint->warnings().size(), 1U);
  EXPECT_NE(checkpoint->warnings()[0].find("2 tensors are not used: 'rope_freqs.weight', 'blk.0.extra\\x1b.bias'"),
            std::string::npos)
      << checkpoint->warnings()[0];
  int64_t all = 0;
  for (const TensorListing& t : checkpoint->tensors()) all += t.bytes;
  EXPECT_EQ(checkpoint->mapped_bytes(), all - 8);
}

TEST(Checkpoint, TakesOneValueThatIsNotNegativeForLogarithmsEverywhere) {
  TinyModel model;
  // All negative in two layers: those alone would look like -exp(A_log).
  for (const char* layer : {"0", "1"})
    for (float& x : model.tensors.at(fmt::format("model.layers.{}.self_attn.A_log", layer)).values) x = -1.5F;
  const TempFolder folder;
  const auto checkpoint = open_gguf(model, folder, {.raw_decay = true});
  EXPECT_FLOAT_EQ(checkpoint->weights().layers[0].kda.a[0], -std::exp(-1.5F));
  ASSERT_EQ(checkpoint->warnings().size(), 1U);
  EXPECT_NE(checkpoint->warnings()[0].find("taken for A_log"), std::string::npos);
}

TEST(Checkpoint, RefusesDecayRatesThatAreNoNumbers) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 100.0F}) {
    TinyModel model;
    model.tensors.at("model.layers.1.self_attn.A_log").values[1] = bad;
    const TempFolder folder;
    expect_error(ErrorCode::kFormat, "tensor model.layers.1.self_attn.A_log is",
                 [&] { (void)open_folder(model, folder); });
  }
}

TEST(Checkpoint, FindsNanAndInfinityAndNamesTheRow) {
  TinyModel model;
  model.tensors.at("model.layers.1.self_attn.o_proj.weight").values[5 * 64 + 9] =
      std::numeric_limits<float>::infinity();
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBF16}) {
    const TempFolder folder;
    const auto checkpoint = open_gguf(model, folder, {.matrix_type = type});
    expect_error(ErrorCode::kFormat, "tensor 'blk.1.attn_output.weight'", [&] { checkpoint->check_values(); });
    expect_error(ErrorCode::kFormat, "in row 5, element 9", [&] { checkpoint->check_values(); });
  }
  const TempFolder folder;
  const auto checkpoint = open_folder(model, folder);
  expect_error(ErrorCode::kFormat, "model.layers.1.self_attn.o_proj.weight", [&] { checkpoint->check_values(); });
}

TEST(Checkpoint, RefusesNanInVectorsThatLogitsWouldNotShow) {
  TinyModel model;
  model.tensors.at("model.layers.1.block_sparse_moe.gate.e_score_correction_bias").values[3] =
      std::numeric_limits<float>::quiet_NaN();
  const TempFolder folder;
  expect_error(ErrorCode::kFormat, "e_score_correction_bias holds NaN or infinity at position 3",
               [&] { (void)open_folder(model, folder); });
}

TEST(Checkpoint, FindsScalesThatAreNotFinite) {
  const TinyModel model;
  std::vector<std::byte> bytes = test::encode(TensorType::kQ8_0, model.tensors.at("lm_head.weight").values, 64);
  bytes[7 * 68 + 35] = std::byte{0x7E};  // row of 2 blocks of 34 bytes; the upper half of the second one's scale: NaN
  const TempFolder folder;
  const auto checkpoint =
      open_gguf(model, folder, {.omit = {"output.weight"}, .add_tensors = [&](GgufWriter& w) {
                                  w.add_tensor("output.weight", TensorType::kQ8_0, {{64, 96}}, bytes);
                                }});
  expect_error(ErrorCode::kFormat,
               "tensor 'output.weight' of type Q8_0 holds NaN or infinity in row 7, elements 32 to 63",
               [&] { checkpoint->check_values(); });
}

TEST(Checkpoint, NoticesThatAFileChanged) {
  const TempFolder folder;
  const auto checkpoint = open_folder(TinyModel(), folder);
  checkpoint->check_unchanged();
  std::ofstream(folder.path() / "model.safetensors", std::ios::app) << "x";
  expect_error(ErrorCode::kIo, "model.safetensors", [&] { checkpoint->check_unchanged(); });
}

TEST(Checkpoint, HasAFingerprintThatCopiesShareAndOthersDoNot) {
  const auto fingerprint = [](const TinyModel& model, const TinyGgufOptions& options = {}) {
    const TempFolder folder;
    return open_gguf(model, folder, options)->fingerprint();
  };
  const TinyModel model;
  const uint64_t one = fingerprint(model);
  EXPECT_EQ(fingerprint(model), one);
  EXPECT_NE(fingerprint(TinyModel({.seed = 2})), one);
  EXPECT_NE(fingerprint(model, {.matrix_type = TensorType::kBF16}), one);
  EXPECT_NE(fingerprint(model, {.add_keys = [](GgufWriter& w) { w.add_string("general.version", "other"); }}), one);
  TinyModel changed;
  changed.tensors.at("model.embed_tokens.weight").values[0] += 0.5F;
  EXPECT_NE(fingerprint(changed), one);
}

TEST(Checkpoint, OutlivesItsFilesNames) {
  const TinyModel model;
  const TempFolder folder;
  const auto checkpoint = open_folder(model, folder);
  std::filesystem::remove(folder.path() / "model.safetensors");
  checkpoint->check_values();
}

TEST(Checkpoint, ReadsTheChatTemplateOfAGgufFile) {
  const TempFolder folder;
  EXPECT_EQ(open_gguf(TinyModel(), folder)->chat_template(), "");
  const auto add = [](GgufWriter& w) { w.add_string("tokenizer.chat_template", "{{ x }}"); };
  EXPECT_EQ(open_gguf(TinyModel(), folder, {.add_keys = add})->chat_template(), "{{ x }}");
}

TEST(Checkpoint, ReadsTheChatTemplateOfAFolder) {
  const TinyModel model;
  const TempFolder folder;
  const auto with = [&](const char* file, const std::string& text) {
    std::ofstream(folder.path() / file) << text;
    return open_folder(model, folder)->chat_template();
  };
  const char* const kConfig = "tokenizer_config.json";
  EXPECT_EQ(with(kConfig, "{}"), "");
  EXPECT_EQ(with(kConfig, R"({"chat_template": null})"), "");
  EXPECT_EQ(with(kConfig, R"({"chat_template": "one"})"), "one");
  EXPECT_EQ(with(kConfig, R"({"chat_template": [{"name": "tool_use", "template": "a"},
                                                {"name": "default", "template": "b"}]})"),
            "b");
  EXPECT_EQ(with(kConfig, R"({"chat_template": [{"name": "rag", "template": "a"}]})"), "");
  expect_error(ErrorCode::kFormat, "chat_template is of type number",
               [&] { with(kConfig, R"({"chat_template": 3})"); });
  expect_error(ErrorCode::kFormat, "is not an object of strings", [&] { with(kConfig, R"({"chat_template": [3]})"); });
  EXPECT_EQ(with("chat_template.jinja", "file"), "file");
}

TEST(Checkpoint, ListsMetadataInFileOrder) {
  const TempFolder folder;
  const auto add = [](GgufWriter& w) {
    w.add_string("general.description", std::string(300, 'x') + "\n");
    w.add_string("general.note", "two\nlines\x1b");
    w.add_string_array("general.tags", std::vector<std::string>{"a", "b"});
  };
  const auto gguf = open_gguf(TinyModel(), folder, {.add_keys = add})->metadata();
  EXPECT_EQ(gguf[0], (std::pair<std::string, std::string>{"general.architecture", "kimi-linear"}));
  const auto value = [](const auto& list, const std::string& key) {
    const auto it = std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.first == key; });
    return it == list.end() ? "absent" : it->second;
  };
  EXPECT_EQ(value(gguf, "kimi-linear.attention.head_count_kv"), "[0, 0, 1, 0]");
  EXPECT_EQ(value(gguf, "kimi-linear.expert_weights_scale"), "2.446");
  EXPECT_EQ(value(gguf, "kimi-linear.block_count"), "4");
  EXPECT_EQ(value(gguf, "general.tags"), "[2 strings]");
  EXPECT_EQ(value(gguf, "general.note"), "two\\nlines\\x1b");
  EXPECT_EQ(value(gguf, "general.description"), std::string(200, 'x') + "... (301 bytes)");

  const auto config = open_folder(TinyModel(), folder)->metadata();
  EXPECT_EQ(value(config, "model_type"), "kimi_linear");
  EXPECT_EQ(value(config, "q_lora_rank"), "null");
  EXPECT_EQ(value(config, "mla_use_nope"), "true");
}

TEST(Checkpoint, ListsTensorsAsTheFormatWritesThem) {
  const TempFolder folder;
  const auto find = [](const std::vector<TensorListing>& list, const std::string& name) {
    return *std::find_if(list.begin(), list.end(), [&](const TensorListing& t) { return t.name == name; });
  };
  const TensorListing gguf = find(open_gguf(TinyModel(), folder)->tensors(), "blk.2.attn_kv_a_mqa.weight");
  EXPECT_EQ(gguf.type, "F32");
  EXPECT_EQ(gguf.shape, (std::vector<int64_t>{64, 48}));
  EXPECT_EQ(gguf.bytes, 64 * 48 * 4);
  const TensorListing hf = find(open_folder(TinyModel(), folder)->tensors(), "model.layers.2.self_attn.o_proj.weight");
  EXPECT_EQ(hf.type, "BF16");
  EXPECT_EQ(hf.shape, (std::vector<int64_t>{64, 96}));
}

TEST(Checkpoint, SaysWhatIsMissingInAFolder) {
  const TempFolder folder;
  expect_error(ErrorCode::kNotFound, "config.json", [&] {
    (void)Checkpoint::open({ModelKind::kFolder, folder.path()});
  });
  std::ofstream(folder.path() / "config.json") << TinyModel().config.dump();
  expect_error(ErrorCode::kNotFound, "safetensors", [&] {
    (void)Checkpoint::open({ModelKind::kFolder, folder.path()});
  });
}

}  // namespace
}  // namespace kda
