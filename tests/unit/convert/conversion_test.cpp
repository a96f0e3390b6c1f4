#include "convert/conversion.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>

#include "convert/importance_matrix.h"
#include "formats/gguf.h"
#include "quant/codec.h"
#include "support/expect_error.h"
#include "support/shared_data.h"
#include "support/temp_folder.h"
#include "support/tiny_model.h"
#include "weights/checkpoint.h"

namespace kda {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TempFolder;
using test::TinyModel;
using test::TinyModelOptions;

const ConvertProgress kGoOn = [](int64_t, int64_t) { return true; };

std::string read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// 256 bytes and two merges as text; the other ids are special.
void write_vocabulary(const fs::path& folder) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::ofstream file(folder / "tiktoken.model");
  for (unsigned byte = 0; byte < 256; ++byte) {
    file << kDigits[byte >> 2] << kDigits[(byte & 3) << 4] << "== " << byte << '\n';
  }
  file << "YWI= 256\nYWJj 257\n";  // ab, abc
  std::ofstream(folder / "tokenizer_config.json")
      << R"({"added_tokens_decoder": {"258": {"content": "[BOS]"}, "259": {"content": "[EOS]"},
            "260": {"content": "<|im_end|>"}, "261": {"content": "[PAD]"}},
            "bos_token": "[BOS]", "eos_token": "[EOS]", "pad_token": "[PAD]", "chat_template": "{{ messages }}"})";
}

TinyModelOptions with_vocabulary(TinyModelOptions options = {}) {
  options.vocab = 270;
  return options;
}

class ConversionTest : public testing::Test {
 protected:
  fs::path folder_of(const TinyModel& model, const test::TinyFolderOptions& options = {}) {
    const fs::path folder = files_.path() / fmt::format("folder-{}", n_folders_++);
    fs::create_directory(folder);
    model.write_folder(folder, options);
    write_vocabulary(folder);
    return folder;
  }
  static Conversion convert(const fs::path& source, const TypeOptions& types) {
    return Conversion::to_types({fs::is_directory(source) ? ModelKind::kFolder : ModelKind::kGguf, source}, types);
  }
  fs::path out(const std::string& name) const { return files_.path() / name; }
  static std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  TempFolder files_;
  int n_folders_ = 0;
};

/// Tensors of both files: the same names, shapes but for dimensions of 1, types and bytes.
void expect_same_tensors(const fs::path& ours, const fs::path& expected) {
  const GgufModel a = GgufModel::open(ours);
  const GgufModel b = GgufModel::open(expected);
  size_t n = 0;
  for (const GgufFile& part : b.parts()) {
    for (const GgufTensor& tensor : part.tensors()) {
      ++n;
      const GgufTensor* found = a.find_tensor(tensor.name);
      ASSERT_NE(found, nullptr) << tensor.name;
      EXPECT_EQ(found->type, tensor.type) << tensor.name;
      EXPECT_TRUE(std::equal(found->ne, found->ne + 4, tensor.ne)) << tensor.name;
      EXPECT_TRUE(std::equal(found->bytes.begin(), found->bytes.end(), tensor.bytes.begin(), tensor.bytes.end()))
          << tensor.name;
    }
  }
  size_t n_ours = 0;
  for (const GgufFile& part : a.parts()) n_ours += part.tensors().size();
  EXPECT_EQ(n_ours, n);
}

TEST_F(ConversionTest, OfAFolderGivesTheTensorsThatTheFormatDescribes) {
  TinyModelOptions low_rank = with_vocabulary({.n_layers = 3, .mla_layers = {0, 2}, .q_rank = 32, .shared_experts = 2});
  for (const TinyModelOptions& options : {with_vocabulary(), low_rank}) {
    const TinyModel model(options);
    const fs::path expected = model.write_gguf(files_.path());
    for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBF16}) {
      const fs::path folder = folder_of(model, {.type = type, .n_files = 2});
      convert(folder, {.type = "f32"}).write(out("f32.gguf"), {}, {.n_threads = 3, .check = true}, kGoOn);
      expect_same_tensors(out("f32.gguf"), expected);
    }
  }
}

TEST_F(ConversionTest, WritesMetadataThatGiveTheConfigurationBack) {
  const TinyModel model(with_vocabulary({.experts = 8, .groups = 2, .groups_used = 1, .renormalize = false}));
  const fs::path folder = folder_of(model);
  convert(folder, {.type = "q8_0"}).write(out("m.gguf"), {}, {}, kGoOn);
  const auto from = Checkpoint::open({ModelKind::kFolder, folder});
  const auto to = Checkpoint::open({ModelKind::kGguf, out("m.gguf")});
  ModelConfig expected = from->config();
  expected.name = to->config().name;
  EXPECT_EQ(to->config(), expected);
  EXPECT_TRUE(to->warnings().empty());
  EXPECT_EQ(to->chat_template(), "{{ messages }}");
  const GgufFile& file = to->gguf()->main();
  EXPECT_EQ(file.get_int("kimi-linear.attention.value_length"), model.options().kv_rank);
  EXPECT_EQ(file.get_int("general.file_type"), 7);
  EXPECT_EQ(file.get_int("tokenizer.ggml.eot_token_id"), 260);
  EXPECT_EQ(file.get_strings("tokenizer.ggml.merges"), (std::vector<std::string_view>{"a b", "ab c"}));
  EXPECT_EQ(file.get_strings("tokenizer.ggml.tokens")->at(32), "\u0120");
  EXPECT_EQ(file.get_ints("tokenizer.ggml.token_type")->at(258), 3);
}

TEST_F(ConversionTest, GivesTiedModelsAHead) {
  const TinyModel model(with_vocabulary({.tied = true}));
  convert(folder_of(model), {.type = "bf16"}).write(out("m.gguf"), {}, {}, kGoOn);
  const GgufModel made = GgufModel::open(out("m.gguf"));
  ASSERT_NE(made.find_tensor("output.weight"), nullptr);
  const auto head = made.find_tensor("output.weight")->bytes;
  const auto embedding = made.find_tensor("token_embd.weight")->bytes;
  EXPECT_TRUE(std::equal(head.begin(), head.end(), embedding.begin(), embedding.end()));
}

TEST_F(ConversionTest, EncodesEachRowAsTheCodecDoes) {
  const TinyModel model(with_vocabulary());
  convert(folder_of(model), {.type = "q4_0", .recipe = Recipe::kPure})
      .write(out("q.gguf"), {}, {.n_threads = 2}, kGoOn);
  expect_same_tensors(out("q.gguf"), model.write_gguf(files_.path(), {.matrix_type = TensorType::kQ4_0}));
}

TEST_F(ConversionTest, WeighsTheColumnsOfEachExpertByItsImportance) {
  const TinyModel model(with_vocabulary());
  const std::string name = "blk.1.ffn_down_exps.weight";
  const int64_t cols = model.options().expert_ffn;
  const int64_t n_experts = model.options().experts;
  ImportanceMatrix matrix;
  std::vector<double> sums;
  for (int64_t i = 0; i < n_experts * cols; ++i) sums.push_back(1 + static_cast<double>(i * i % 97));
  const std::vector<int64_t> counts(static_cast<size_t>(n_experts), 3);
  matrix.set(name, cols, sums, counts);
  matrix.write(out("importance.gguf"));
  const fs::path source = model.write_gguf(files_.path());
  const Conversion weighed =
      convert(source, {.type = "q4_0", .recipe = Recipe::kPure, .importance = out("importance.gguf")});
  weighed.write(out("q.gguf"), {}, {.n_threads = 2}, kGoOn);
  ASSERT_FALSE(weighed.notes().empty());
  EXPECT_NE(weighed.notes().back().find("no data for"), std::string::npos) << "the other tensors";

  const GgufModel from = GgufModel::open(source);
  const GgufModel to = GgufModel::open(out("q.gguf"));
  EXPECT_EQ(to.main().get_string("quantize.imatrix.file"), "importance.gguf");
  const auto* values = reinterpret_cast<const float*>(from.find_tensor(name)->bytes.data());
  const GgufTensor& made = *to.find_tensor(name);
  std::vector<std::byte> row(static_cast<size_t>(row_bytes(TensorType::kQ4_0, cols)));
  int64_t n_changed = 0;
  for (int64_t r = 0; r < made.n_elements() / cols; ++r) {
    const std::byte* found = made.bytes.data() + r * static_cast<int64_t>(row.size());
    quantize_row(TensorType::kQ4_0, values + r * cols, row.data(), cols, matrix.of(name, r / made.ne[1], cols).data());
    EXPECT_EQ(std::memcmp(found, row.data(), row.size()), 0) << "row " << r;
    quantize_row(TensorType::kQ4_0, values + r * cols, row.data(), cols);
    n_changed += std::memcmp(found, row.data(), row.size()) != 0 ? 1 : 0;
  }
  EXPECT_GT(n_changed, 0) << "the importance made no difference";
}

TEST_F(ConversionTest, GivesTheSameBytesForAnyNumberOfThreads) {
  const fs::path folder = folder_of(TinyModel(with_vocabulary({.hidden = 256, .expert_ffn = 256})));
  const Conversion conversion = convert(folder, {.type = "q4_k_m"});
  conversion.write(out("1.gguf"), {}, {.n_threads = 1}, kGoOn);
  conversion.write(out("5.gguf"), {}, {.n_threads = 5}, kGoOn);
  EXPECT_EQ(read_all(out("1.gguf")), read_all(out("5.gguf")));
}

TEST_F(ConversionTest, SplitsAndMergesWithoutLoss) {
  const fs::path folder = folder_of(TinyModel(with_vocabulary()));
  convert(folder, {.type = "q8_0"}).write(out("whole.gguf"), {}, {}, kGoOn);
  const Conversion copy = Conversion::copy(out("whole.gguf"));
  const SplitOptions split{.max_tensors = 30};
  copy.write(out("part.gguf"), split, {.check = true}, kGoOn);
  const std::vector<fs::path> parts = copy.output_paths(out("part.gguf"), split);
  ASSERT_GE(parts.size(), 2U);
  EXPECT_EQ(parts[0].filename(), fmt::format("part-00001-of-{:05d}.gguf", parts.size()));
  EXPECT_EQ(GgufModel::open(parts[0]).parts().size(), parts.size());
  Conversion::copy(parts[0]).write(out("merged.gguf"), {}, {}, kGoOn);
  EXPECT_EQ(read_all(out("merged.gguf")), read_all(out("whole.gguf")));
  // --keep-split, and a limit in bytes below that of any tensor.
  convert(parts[0], {.type = "f16", .allow_requantize = true}).write(out("again.gguf"), {.keep = true}, {}, kGoOn);
  EXPECT_EQ(GgufModel::open(out(fmt::format("again-00001-of-{:05d}.gguf", parts.size()))).parts().size(), parts.size());
  EXPECT_EQ(copy.output_paths(out("x.gguf"), {.max_bytes = 1}).size(), copy.tensors().size());
}

TEST_F(ConversionTest, CopiesLongRowsInSlices) {
  std::vector<float> values(600'001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  GgufWriter writer;
  writer.add_string("general.architecture", "something else");
  const int64_t ne[] = {static_cast<int64_t>(values.size())};
  writer.add_tensor("long", TensorType::kF32, ne, std::as_bytes(std::span(values)));
  writer.write(out("long.gguf"));
  Conversion::copy(out("long.gguf")).write(out("copy.gguf"), {}, {.n_threads = 3}, kGoOn);
  EXPECT_EQ(read_all(out("copy.gguf")), read_all(out("long.gguf")));
}

TEST_F(ConversionTest, KeepsMetadataItDoesNotKnow) {
  const TinyModel model(with_vocabulary());
  const fs::path source = model.write_gguf(files_.path(), {.add_keys = [](GgufWriter& w) {
                                             w.add_string("someone.elses", "note");
                                             w.add_uint32("general.file_type", 0);
                                           }});
  convert(source, {.type = "q8_0"}).write(out("q.gguf"), {}, {}, kGoOn);
  const GgufModel made = GgufModel::open(out("q.gguf"));
  EXPECT_EQ(made.main().get_string("someone.elses"), "note");
  EXPECT_EQ(made.main().get_int("general.file_type"), 7);
  EXPECT_EQ(made.main().get_int("general.quantization_version"), 2);
}

TEST_F(ConversionTest, RefusesToQuantiseTwiceUnlessTold) {
  const fs::path source = TinyModel(with_vocabulary()).write_gguf(files_.path(), {.matrix_type = TensorType::kQ8_0});
  expect_error(ErrorCode::kUsage, "has type Q8_0 already", [&] { convert(source, {.type = "q4_0"}); });
  convert(source, {.type = "q4_0", .allow_requantize = true}).write(out("q.gguf"), {}, {}, kGoOn);
  EXPECT_TRUE(fs::exists(out("q.gguf")));
}

TEST_F(ConversionTest, NamesTheTensorThatHoldsNan) {
  const TinyModel model(with_vocabulary());
  const fs::path folder = folder_of(model, {.type = TensorType::kF32, .edit = [](auto& entries) {
                                              for (test::SafeTensorEntry& entry : entries) {
                                                if (entry.name.find("experts.3.w2") == std::string::npos) continue;
                                                const float bad = std::numeric_limits<float>::quiet_NaN();
                                                std::memcpy(entry.bytes.data() + 4, &bad, sizeof bad);
                                              }
                                            }});
  const fs::path target = files_.path() / "target";
  fs::create_directory(target);
  for (const char* type : {"q8_0", "f32", "bf16"}) {
    expect_error(ErrorCode::kFormat, "ffn_down_exps.weight holds NaN or infinity in row 192",
                 [&] { convert(folder, {.type = type}).write(target / "q.gguf", {}, {}, kGoOn); });
  }
  EXPECT_TRUE(names_in(target).empty());
}

TEST_F(ConversionTest, RefusesNumbersTooLargeForTheType) {
  TinyModel model(with_vocabulary());
  model.tensors.at("lm_head.weight").values[0] = 1e30F;
  const fs::path folder = folder_of(model);
  expect_error(ErrorCode::kUnsupported, "tensor output.weight: row 0 holds values too large for type F16",
               [&] { convert(folder, {.type = "f16"}).write(out("q.gguf"), {}, {}, kGoOn); });
}

TEST_F(ConversionTest, NeverWritesOverItsInput) {
  const fs::path source = TinyModel(with_vocabulary()).write_gguf(files_.path());
  const std::string before = read_all(source);
  fs::create_symlink(source, out("link.gguf"));
  const Conversion conversion = convert(source, {.type = "q8_0"});
  for (const fs::path& target : {source, out("link.gguf")}) {
    expect_error(ErrorCode::kIo, "is read from", [&] { conversion.write(target, {}, {}, kGoOn); });
  }
  EXPECT_EQ(read_all(source), before);
}

/// Runs until more than `bytes` are written.
void interrupt(const Conversion& conversion, const fs::path& path, const SplitOptions& split, int64_t bytes) {
  expect_error(ErrorCode::kInterrupted, "interrupted", [&] {
    conversion.write(path, split, {.identity = "v1"}, [bytes](int64_t done, int64_t) { return done < bytes; });
  });
}

TEST_F(ConversionTest, GoesOnWhereItWasInterrupted) {
  const Conversion conversion = convert(folder_of(TinyModel(with_vocabulary())), {.type = "q8_0"});
  const fs::path target = files_.path() / "target";
  fs::create_directory(target);
  for (const SplitOptions& split : {SplitOptions{}, SplitOptions{.max_tensors = 20}}) {
    conversion.write(out("expected.gguf"), split, {}, kGoOn);
    const std::vector<fs::path> expected = conversion.output_paths(out("expected.gguf"), split);
    const std::vector<fs::path> made = conversion.output_paths(target / "q.gguf", split);
    const int64_t total = total_bytes(conversion.tensors());
    for (const int64_t stop : {total / 5, total / 2, total - 1}) {
      interrupt(conversion, target / "q.gguf", split, stop);
      EXPECT_FALSE(fs::exists(made.front()));
      uintmax_t smallest = std::numeric_limits<uintmax_t>::max();  // size of what is there while the work goes on
      int64_t last = 0;
      conversion.write(target / "q.gguf", split, {.identity = "v1", .resume = true}, [&](int64_t done, int64_t) {
        uintmax_t size = 0;
        for (const auto& file : fs::directory_iterator(target)) size += file.file_size();
        smallest = std::min(smallest, size);
        EXPECT_GT(done, last);
        last = done;
        return true;
      });
      EXPECT_GT(smallest, static_cast<uintmax_t>(stop / 4)) << "work was done again";
      EXPECT_EQ(last, total);
      for (size_t i = 0; i < made.size(); ++i) EXPECT_EQ(read_all(made[i]), read_all(expected[i]));
      EXPECT_EQ(names_in(target).size(), made.size()) << "something is left over";
      for (const fs::path& file : made) fs::remove(file);
    }
  }
}

TEST_F(ConversionTest, TrustsOnlyWholeTensorsWhenItGoesOn) {
  const Conversion conversion = convert(folder_of(TinyModel(with_vocabulary())), {.type = "q8_0"});
  conversion.write(out("expected.gguf"), {}, {}, kGoOn);
  interrupt(conversion, out("q.gguf"), {}, total_bytes(conversion.tensors()) / 2);
  {
    std::fstream partial(out("q.gguf.partial"), std::ios::in | std::ios::out | std::ios::binary);
    partial.seekp(static_cast<std::streamoff>(fs::file_size(out("q.gguf.partial")) / 2));
    partial.write("damage", 6);
  }
  conversion.write(out("q.gguf"), {}, {.identity = "v1", .resume = true}, kGoOn);
  EXPECT_EQ(read_all(out("q.gguf")), read_all(out("expected.gguf")));
}

TEST_F(ConversionTest, CanBeInterruptedWhileItLooksForWhereToGoOn) {
  const Conversion conversion = convert(folder_of(TinyModel(with_vocabulary())), {.type = "q8_0"});
  conversion.write(out("expected.gguf"), {}, {}, kGoOn);
  interrupt(conversion, out("q.gguf"), {}, total_bytes(conversion.tensors()) / 2);
  const std::string before = read_all(out("q.gguf.partial"));
  expect_error(ErrorCode::kInterrupted, "interrupted", [&] {
    conversion.write(out("q.gguf"), {}, {.identity = "v1", .resume = true}, [](int64_t, int64_t) { return false; });
  });
  EXPECT_EQ(read_all(out("q.gguf.partial")), before);
  conversion.write(out("q.gguf"), {}, {.identity = "v1", .resume = true}, kGoOn);
  EXPECT_EQ(read_all(out("q.gguf")), read_all(out("expected.gguf")));
}

TEST_F(ConversionTest, DoesNotMixTwoRuns) {
  const fs::path folder = folder_of(TinyModel(with_vocabulary()));
  const Conversion conversion = convert(folder, {.type = "q8_0"});
  interrupt(conversion, out("q.gguf"), {}, total_bytes(conversion.tensors()) / 2);
  expect_error(ErrorCode::kUsage, "begun with other input or options", [&] {
    convert(folder, {.type = "q4_0"}).write(out("q.gguf"), {}, {.identity = "v1", .resume = true}, kGoOn);
  });
  expect_error(ErrorCode::kUsage, "begun with other input or options",
               [&] { conversion.write(out("q.gguf"), {}, {.identity = "v2", .resume = true}, kGoOn); });
  // A second writer at the same time is refused.
  conversion.write(out("q.gguf"), {}, {.identity = "v1", .resume = true}, [&](int64_t, int64_t) {
    expect_error(ErrorCode::kIo, "another run is writing", [&] { conversion.write(out("q.gguf"), {}, {}, kGoOn); });
    return true;
  });
}

TEST_F(ConversionTest, NeedsAFolderForItsOutput) {
  const Conversion conversion = convert(folder_of(TinyModel(with_vocabulary())), {.type = "q8_0"});
  expect_error(ErrorCode::kIo, "none/q.gguf: cannot create",
               [&] { conversion.write(out("none/q.gguf"), {}, {}, kGoOn); });
  fs::create_directory(out("folder.gguf"));
  expect_error(ErrorCode::kIo, "found a folder", [&] { conversion.write(out("folder.gguf"), {}, {}, kGoOn); });
}

TEST(Plan, ListsThe610TensorsOfTheReleasedModel) {
  KDA_SHARED_OR_SKIP(shared);
  const auto path = shared / "data/config/kimi-linear-48b-a3b-instruct.config.json";
  std::map<std::string, std::string> ours, published;
  for (const PlannedTensor& t : list_tensors(read_hf_config(read_json_file(path), path.string()))) {
    ours[t.name] = fmt::format("{}", fmt::join(t.ne, ","));
  }
  std::ifstream table(shared / "data/gguf/expected-tensors-610.tsv");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    const size_t tab = line.find('\t');
    published[line.substr(0, tab)] = line.substr(tab + 1, line.rfind('\t') - tab - 1);
  }
  ASSERT_EQ(published.size(), 610U);
  EXPECT_EQ(ours, published);
}

TEST(Presets, AreRefusedByName) {
  expect_error(ErrorCode::kUsage, "type 'q4_k_x' is not known, expected one of F32, F16",
               [] { static_cast<void>(find_quant_preset("q4_k_x")); });
  EXPECT_EQ(find_quant_preset("q4_k_m").file_type, 15U);
}

}  // namespace
}  // namespace kda
