#include "engine/engine.h"

#include <gtest/gtest.h>

#include <fstream>

#include "arch/model_config.h"
#include "base/error.h"
#include "base/processors.h"
#include "unit/engine/engine_support.h"

namespace kda {
namespace {

using test::copy;
using test::open_engine;
using test::some_ids;
using test::TempFolder;
using test::TinyGgufOptions;
using test::TinyModel;

class EngineOpen : public test::EngineTest {};

TEST_F(EngineOpen, TellsWhatItRunsOn) {
  EXPECT_EQ(engine_->n_threads(), 2);
  EXPECT_FALSE(engine_->isa().empty());
  EXPECT_EQ(open_engine(folder_.path(), {.isa = "scalar"})->isa(), "scalar");
  EXPECT_EQ(open_engine(folder_.path(), {})->n_threads(), available_cores());
  const auto engine = open_engine(folder_.path(), {.threads = 2, .threads_prompt = 5});
  EXPECT_EQ(engine->n_threads(), 2);
  EXPECT_EQ(engine->n_threads(16), 2);
  EXPECT_EQ(engine->n_threads(17), 5);
  EXPECT_EQ(engine_->n_threads(17), 2);  // as threads
}

TEST_F(EngineOpen, RefusesOptionsOutOfRange) {
  for (const EngineOptions& options :
       {EngineOptions{.threads = -1}, EngineOptions{.threads = 100000}, EngineOptions{.threads_prompt = -1},
        EngineOptions{.threads_prompt = 100000}, EngineOptions{.batch_tokens = 0},
        EngineOptions{.batch_tokens = int64_t{1} << 40}}) {
    try {
      (void)open_engine(folder_.path(), options);
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUsage);
    }
  }
}

TEST_F(EngineOpen, ThePlanIsWhatASequenceTakes) {
  const MemoryPlan plan = engine_->memory_plan(100);
  EXPECT_EQ(plan.context, 100);
  // two KDA layers of 2 heads: states [32, 32] and three tails of 3 rows
  const int64_t state = 2 * (2 * 32 * 32 + 3 * 3 * 64) * 4;
  EXPECT_EQ(plan.kda_state, state + 2 * 8 * (4 * 64 + 2) * 4);  // and what passes with seven guesses leave
  EXPECT_EQ(test::open_engine(folder_.path(), {})->memory_plan(100).kda_state, state);
  EXPECT_EQ(plan.latent_cache, 2 * 100 * (32 + 16) * 4 + 100 * 4);
  EXPECT_EQ(engine_->new_sequence(100)->memory_plan().scratch, plan.scratch);
}

TEST_F(EngineOpen, ScratchDoesNotGrowWithTheContext) {
  EXPECT_EQ(engine_->memory_plan(100).scratch, engine_->memory_plan(1'000'000).scratch);
  EXPECT_LT(engine_->memory_plan(3).scratch, engine_->memory_plan(100).scratch);  // less than a batch
}

TEST_F(EngineOpen, AContextThatDoesNotFitIsRefusedWithTheNumbers) {
  try {
    (void)engine_->new_sequence(int64_t{1} << 27);  // 52 GB
    GTEST_SKIP() << "this machine has the memory for it";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kLimit);
    EXPECT_NE(std::string(e.what()).find("134217728 tokens"), std::string::npos) << e.what();
  }
}

TEST_F(EngineOpen, RefusesAContextOutOfRange) {
  for (const int64_t context : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_THROW((void)engine_->new_sequence(context), Error);
    EXPECT_THROW((void)engine_->memory_plan(context), Error);
  }
}

TEST_F(EngineOpen, TheDefaultContextIsTheModelsUpToAFixedLength) {
  EXPECT_EQ(engine_->default_context(), std::min<int64_t>(engine_->config().context_length, 8192));
}

TEST_F(EngineOpen, AFileThatChangedIsNotReadOn) {
  const auto sequence = engine_->new_sequence(50);
  sequence->feed(some_ids(3));
  std::ofstream(folder_.path() / "model.safetensors", std::ios::app) << "x";
  EXPECT_THROW(sequence->feed(some_ids(3)), Error);
  EXPECT_THROW((void)sequence->sync(some_ids(9), {}), Error);
  EXPECT_EQ(sequence->size(), 3);
}

TEST(EngineVariants, EveryFormOfAModelGivesTheSameLogits) {
  const TempFolder folder;
  const TinyModel model;
  const auto ids = some_ids(50);
  const auto logits_of = [&](const std::filesystem::path& path) {
    const auto engine = open_engine(path, {.threads = 1});
    const auto sequence = engine->new_sequence(50);
    sequence->feed(ids);
    return copy(sequence->logits());
  };
  model.write_folder(folder.path());
  const auto expected = logits_of(folder.path());
  using Kv = TinyGgufOptions::KvUp;
  using Count = TinyGgufOptions::HeadCountKv;
  const std::vector<TinyGgufOptions> variants = {
      {},
      {.matrix_type = TensorType::kF16},
      {.matrix_type = TensorType::kBF16},
      {.kv_up = Kv::kUnsplit},
      {.conv_dims = 3},
      {.conv_dims = 2, .decay_dims = 1},
      {.fused_qkv = true},
      {.fused_gate_up = true},
      {.old_names = true, .head_count_kv = Count::kArray32},
      {.length_arrays = true, .n_files = 3},
  };
  for (size_t i = 0; i < variants.size(); ++i) {
    const TempFolder gguf;
    const auto actual = logits_of(model.write_gguf(gguf.path(), variants[i]));
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t j = 0; j < actual.size(); ++j) ASSERT_NEAR(actual[j], expected[j], 1e-5) << "variant " << i;
  }
}

TEST(EngineVariants, Int8ActivationsStayNearTheExactOnes) {
  const TempFolder folder;
  const auto path = TinyModel().write_gguf(folder.path(), {.matrix_type = TensorType::kQ8_0});
  const auto ids = some_ids(50);
  std::vector<float> logits[2];
  for (const bool exact : {false, true}) {
    const auto engine = open_engine(path, {.threads = 2, .exact_activations = exact});
    const auto sequence = engine->new_sequence(50);
    sequence->feed(ids);
    logits[exact ? 1 : 0] = copy(sequence->logits());
  }
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < logits[0].size(); ++i) {
    error += (logits[0][i] - logits[1][i]) * (logits[0][i] - logits[1][i]);
    size += logits[1][i] * logits[1][i];
  }
  EXPECT_GT(error, 0) << "the option has no effect";
  EXPECT_LT(std::sqrt(error / size), 0.05);
}

TEST(EngineVariants, CutsAndThreadsDoNotChangeAQuantisedModelEither) {
  const TempFolder folder;
  const auto path = TinyModel().write_gguf(folder.path(), {.matrix_type = TensorType::kQ8_0});
  const auto ids = some_ids(60);
  std::vector<float> first;
  for (const auto& [threads, for_prompts] : {std::pair{1, 0}, {2, 0}, {3, 0}, {1, 3}, {3, 1}, {3, 2}}) {
    for (const int64_t batch : {int64_t{1}, int64_t{7}, int64_t{20}, int64_t{64}}) {
      const auto engine = open_engine(path, {.threads = threads, .threads_prompt = for_prompts, .batch_tokens = batch});
      const auto sequence = engine->new_sequence(64);
      sequence->feed(ids);
      for (const int32_t id : some_ids(4)) sequence->feed({&id, 1});
      if (first.empty()) first = copy(sequence->logits());
      EXPECT_EQ(copy(sequence->logits()), first)
          << threads << " threads, " << for_prompts << " for prompts, batches of " << batch;
    }
  }
}

}  // namespace
}  // namespace kda
