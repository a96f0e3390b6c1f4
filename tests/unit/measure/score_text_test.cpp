#include "measure/score_text.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "convert/importance_matrix.h"
#include "measure/importance_collector.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "support/tiny_model.h"

namespace kda {
namespace {

std::string no_environment(const char*) { return {}; }

std::unique_ptr<Engine> open(const std::filesystem::path& model, int64_t batch = 16) {
  return Engine::open(model.string(), {.threads = 2, .batch_tokens = batch}, no_environment);
}

TextChunks some_chunks(int64_t n_ctx, int64_t n_chunks) {
  TextChunks out;
  out.n_ctx = n_ctx;
  out.n_chunks = n_chunks;
  for (int64_t i = 0; i < n_ctx * n_chunks; ++i) out.ids.push_back(static_cast<int32_t>(i * i % 89));
  return out;
}

class ScoreTextTest : public testing::Test {
 protected:
  ScoreTextTest() {
    const test::TinyModel model({.mla_layers = {1, 3}});
    exact_ = model.write_gguf(folder_.path());
    for (const auto& [name, type] : {std::pair("q8", TensorType::kQ8_0), std::pair("q4", TensorType::kQ4_0)}) {
      std::filesystem::create_directory(folder_.path() / name);
      (void)model.write_gguf(folder_.path() / name, {.matrix_type = type});
    }
  }
  test::TempFolder folder_;
  std::filesystem::path exact_;
};

TEST_F(ScoreTextTest, TheSecondHalfOfEachChunkIsScoredFromAFreshStart) {
  const auto engine = open(exact_);
  const TextChunks chunks = some_chunks(40, 3);
  std::vector<std::vector<float>> rows;
  std::vector<int32_t> next;
  int64_t told = 0;
  score_text(
      *engine, chunks,
      [&](const ScoredRow& row, int32_t id) {
        rows.emplace_back(row.logits.begin(), row.logits.end());
        next.push_back(id);
      },
      [&](int64_t done, int64_t total) {
        EXPECT_EQ(total, 120);
        EXPECT_GE(done, told);
        told = done;
        return true;
      });
  EXPECT_EQ(told, 120);
  ASSERT_EQ(rows.size(), 3U * 19);
  size_t n = 0;
  for (int64_t c = 0; c < 3; ++c) {
    const auto sequence = engine->new_sequence(40);
    for (size_t t = 0; t + 1 < 40; ++t) {
      sequence->feed(chunks.chunk(c).subspan(t, 1));
      if (t < 20) continue;
      EXPECT_EQ(next[n], chunks.chunk(c)[t + 1]);
      ASSERT_TRUE(std::ranges::equal(rows[n++], sequence->logits())) << c << " " << t;
    }
  }
}

TEST_F(ScoreTextTest, AModelEqualsItselfAndFewerBitsAreFurtherAway) {
  const auto a = open(exact_);
  const auto again = open(exact_, 7);
  const auto q8 = open(folder_.path() / "q8" / "model.gguf");
  const auto q4 = open(folder_.path() / "q4" / "model.gguf");
  const TextChunks chunks = some_chunks(64, 2);
  const auto divergence = [&](const Engine& engine) {
    DivergenceMeter m;
    score_text(*a, engine, chunks,
               [&](const ScoredRow& base, const ScoredRow& row, int32_t next) { m.add(base, row, next); }, {});
    return m;
  };
  EXPECT_EQ(divergence(*again).mean().value, 0);
  EXPECT_EQ(divergence(*again).largest(), 0);
  const double with_8_bits = divergence(*q8).mean().value;
  EXPECT_GT(with_8_bits, 0);
  EXPECT_LT(with_8_bits, divergence(*q4).mean().value);
}

TEST_F(ScoreTextTest, ItCanBeStopped) {
  const auto engine = open(exact_);
  test::expect_error(ErrorCode::kInterrupted, "stopped", [&] {
    score_text(
        *engine, some_chunks(40, 3), [](const ScoredRow&, int32_t) {}, [](int64_t done, int64_t) { return done < 50; });
  });
}

ImportanceMatrix collect(const std::filesystem::path& model, std::span<const int32_t> ids) {
  const auto engine = open(model);
  ImportanceCollector collector(engine->checkpoint());
  engine->new_sequence(static_cast<int64_t>(ids.size()))
      ->feed_all_logits(
          ids, [](int64_t, std::span<const float>) {}, &collector);
  ImportanceMatrix out;
  collector.add_to(out);
  return out;
}

TEST_F(ScoreTextTest, ImportanceIsCollectedOfEveryMatrixOfTheFileByItsName) {
  const test::TinyModel model({.mla_layers = {1, 3}, .experts = 12});
  using Options = test::TinyGgufOptions;
  for (const Options& options :
       {Options{}, Options{.kv_up = Options::KvUp::kUnsplit}, Options{.fused_qkv = true, .fused_gate_up = true}}) {
    const test::TempFolder folder;
    const auto path = model.write_gguf(folder.path(), options);
    const ImportanceMatrix matrix = collect(path, some_chunks(30, 1).ids);
    const GgufModel file = GgufModel::open(path);
    for (const GgufTensor& tensor : file.main().tensors()) {
      const std::string name(tensor.name);
      if (tensor.ne[1] == 1 || !name.ends_with(".weight") || name.find("conv1d") != std::string::npos) continue;
      if (name == "token_embd.weight") continue;  // is no factor of a product
      for (int64_t m = 0; m < tensor.ne[2]; ++m) {
        EXPECT_EQ(static_cast<int64_t>(matrix.of(name, m, tensor.ne[0]).size()), tensor.ne[0]) << name;
      }
    }
  }
}

TEST_F(ScoreTextTest, ExpertsThatNoTokenChoseAreListedAndWeighOne) {
  const test::TinyModel model({.mla_layers = {1, 3}, .experts = 32, .experts_used = 2});
  const test::TempFolder folder;
  const ImportanceMatrix matrix = collect(model.write_gguf(folder.path()), some_chunks(8, 1).ids);
  const auto gaps = matrix.gaps();
  ASSERT_EQ(gaps.size(), 9U) << "gate, up and down of 3 layers";
  for (const auto& gap : gaps) {
    EXPECT_EQ(gap.n_matrices, 32);
    EXPECT_GE(gap.matrices.size(), 16U) << "8 tokens choose 16 experts at most";
    const int64_t columns = gap.tensor.find("down") != std::string::npos ? 32 : 64;
    for (const float x : matrix.of(gap.tensor, gap.matrices[0], columns)) EXPECT_EQ(x, 1);
  }
}

TEST_F(ScoreTextTest, TiedEmbeddingsCountAsOutput) {
  const test::TinyModel model({.tied = true});
  const test::TempFolder folder;
  const ImportanceMatrix matrix = collect(model.write_gguf(folder.path()), some_chunks(8, 1).ids);
  EXPECT_EQ(matrix.of("token_embd.weight", 0, 64).size(), 64U);
  EXPECT_TRUE(matrix.of("output.weight", 0, 64).empty());
}

}  // namespace
}  // namespace kda
