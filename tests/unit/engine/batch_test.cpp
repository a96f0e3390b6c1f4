#include "engine/batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "unit/engine/engine_support.h"

namespace kda {
namespace {

using test::copy;
using test::some_ids;

class BatchTest : public test::EngineTest {
 protected:
  template <typename F>
  static ErrorCode error_of(F&& f) {
    try {
      f();
    } catch (const Error& e) {
      return e.code();
    }
    ADD_FAILURE() << "nothing was thrown";
    return ErrorCode::kIo;
  }
};

// Sequences of other lengths decode side by side; new ones bring their prompts while others decode.
TEST_F(BatchTest, EverySequenceGetsTheBitsThatItGetsAlone) {
  Batch batch(*engine_, 5, 100);
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<std::vector<int32_t>> texts;
  for (uint32_t i = 0; i < 5; ++i) {
    sequences.push_back(engine_->new_sequence(100));
    texts.push_back(some_ids(30 + 5 * i, i + 1));
  }
  std::vector<size_t> done(5, 0);
  for (size_t step = 0; step < 30; ++step) {
    std::vector<Batch::Item> items;
    for (size_t s = 0; s < 5 && s <= step; ++s) {
      const size_t n = std::min(texts[s].size() - done[s], done[s] == 0 ? 7 + 2 * s : size_t{1});
      if (n == 0) continue;
      items.push_back({sequences[s].get(), std::span(texts[s]).subspan(done[s], n)});
      done[s] += n;
    }
    std::ranges::rotate(items, items.begin() + static_cast<std::ptrdiff_t>(step % items.size()));
    batch.feed(items);
    for (size_t s = 0; s < 5; ++s) {
      if (done[s] == 0) continue;
      ASSERT_EQ(copy(sequences[s]->logits()), cold(std::span(texts[s]).first(done[s]))) << step << " " << s;
    }
  }
}

TEST_F(BatchTest, TakesGuessesThatWereRightIntoTheState) {
  const auto ids = some_ids(20);
  const auto one = engine_->new_sequence(100);
  const auto other = engine_->new_sequence(100);
  one->feed_guessing(ids[0], std::span(ids).subspan(1, 3));
  EXPECT_TRUE(one->feed_guessed(ids[1]));
  Batch batch(*engine_, 2, 32);
  Batch::Item items[] = {{one.get(), std::span(ids).subspan(2, 9)}, {other.get(), std::span(ids).first(5)}};
  batch.feed(items);
  EXPECT_FALSE(one->feed_guessed(ids[2]));
  EXPECT_EQ(copy(one->logits()), cold(std::span(ids).first(11)));
  EXPECT_EQ(copy(other->logits()), cold(std::span(ids).first(5)));
}

TEST_F(BatchTest, ABadSequenceLeavesTheOthersAlone) {
  const test::TempFolder folder;
  test::TinyModel model({.mla_layers = {1, 3}});
  auto& embedding = model.tensors.at("model.embed_tokens.weight");
  embedding.values[embedding.values.size() - 1] = std::nanf("");  // of token 95
  model.write_folder(folder.path());
  const auto engine = test::open_engine(folder.path(), {.threads = 2});
  const auto bad = engine->new_sequence(50);
  const auto good = engine->new_sequence(50);
  const auto alone = engine->new_sequence(50);
  const auto ids = std::vector<int32_t>{4, 8, 15, 16, 23, 42};
  const int32_t nan_id = 95;
  Batch batch(*engine, 2, 8);
  bad->feed(std::span(ids).first(2));
  Batch::Item items[] = {{bad.get(), {&nan_id, 1}}, {good.get(), ids}};
  batch.feed(items);
  EXPECT_NE(items[0].error.find("tokens 2 to 2 yield numbers that are not finite"), std::string::npos);
  EXPECT_EQ(items[1].error, "");
  alone->feed(ids);
  EXPECT_EQ(copy(good->logits()), copy(alone->logits()));
  EXPECT_EQ(bad->size(), 2);
  // The bad one is of use again: it comes back to what it held.
  items[0].ids = std::span(ids).subspan(2, 3);
  items[1].ids = std::span(ids).first(1);
  batch.feed(items);
  EXPECT_EQ(items[0].error, "");
  const auto again = engine->new_sequence(50);
  again->feed(std::span(ids).first(5));
  EXPECT_EQ(copy(bad->logits()), copy(again->logits()));
}

TEST_F(BatchTest, RefusesWhatDoesNotFitBeforeAnyWork) {
  const auto a = engine_->new_sequence(10);
  const auto b = engine_->new_sequence(10);
  const auto ids = some_ids(12);
  const auto span = std::span<const int32_t>(ids);
  Batch batch(*engine_, 2, 8);
  const auto feed = [&](std::vector<Batch::Item> items) { batch.feed(items); };
  EXPECT_EQ(error_of([&] { feed({{a.get(), span.first(5)}, {b.get(), span.first(4)}}); }), ErrorCode::kUsage);
  EXPECT_EQ(error_of([&] { feed({{a.get(), span.first(1)}, {a.get(), span.first(1)}}); }), ErrorCode::kUsage);
  EXPECT_EQ(error_of([&] { feed({{a.get(), span.first(1)}, {b.get(), {}}}); }), ErrorCode::kUsage);
  EXPECT_EQ(error_of([&] { feed({{nullptr, span.first(1)}}); }), ErrorCode::kUsage);
  EXPECT_EQ(error_of([&] {
              feed({{a.get(), span.first(1)}, {b.get(), span.subspan(1, 1)}, {a.get(), span}});
            }),
            ErrorCode::kUsage);
  const int32_t bad = 96;
  EXPECT_EQ(error_of([&] { feed({{a.get(), span.first(1)}, {b.get(), {&bad, 1}}}); }), ErrorCode::kUsage);
  EXPECT_EQ(a->size() + b->size(), 0);
  feed({{a.get(), span.first(8)}});
  EXPECT_EQ(error_of([&] { feed({{b.get(), span.first(1)}, {a.get(), span.first(3)}}); }), ErrorCode::kLimit);
  EXPECT_EQ(a->size(), 8);
  EXPECT_EQ(b->size(), 0);
  EXPECT_EQ(error_of([&] { Batch(*engine_, 0, 8); }), ErrorCode::kUsage);
  EXPECT_EQ(error_of([&] { Batch(*engine_, 9, 8); }), ErrorCode::kUsage);
}

TEST_F(BatchTest, AnItemMayNameTheFormOfItsAttention) {
  const auto ids = some_ids(60);
  const auto cold_of = [&](int64_t expand_mla_from, int64_t n) {
    const auto engine = test::open_engine(folder_.path(), {.threads = 2, .expand_mla_from = expand_mla_from});
    const auto sequence = engine->new_sequence(100);
    sequence->feed(std::span(ids).first(static_cast<size_t>(n)));
    return copy(sequence->logits());
  };
  Batch batch(*engine_, 3, 100);
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (int i = 0; i < 3; ++i) sequences.push_back(engine_->new_batch_sequence(100));
  const auto span = std::span<const int32_t>(ids);
  Batch::Item items[] = {{.sequence = sequences[0].get(), .ids = span, .mla_form = MlaForm::kAbsorbed},
                         {.sequence = sequences[1].get(), .ids = span.first(5), .mla_form = MlaForm::kExpanded},
                         {.sequence = sequences[2].get(), .ids = span.first(3), .mla_form = MlaForm::kAbsorbed}};
  batch.feed(items);
  EXPECT_EQ(copy(sequences[0]->logits()), cold_of(EngineOptions::kNever, 60));
  EXPECT_EQ(copy(sequences[1]->logits()), cold_of(1, 5));
  EXPECT_EQ(copy(sequences[2]->logits()), cold_of(EngineOptions::kNever, 3));
  EXPECT_NE(cold_of(1, 5), cold_of(EngineOptions::kNever, 5));
}

TEST_F(BatchTest, ASequenceForBatchesOnlyHasNoPassesOfItsOwn) {
  const auto ids = some_ids(20);
  const auto sequence = engine_->new_batch_sequence(100);
  EXPECT_EQ(sequence->max_guesses(), 0);
  EXPECT_LT(sequence->memory_plan().scratch, engine_->memory_plan(100).scratch / 4);
  EXPECT_EQ(sequence->memory_plan().latent_cache, engine_->memory_plan(100).latent_cache);
  EXPECT_EQ(error_of([&] { sequence->feed(ids); }), ErrorCode::kUsage);
  EXPECT_EQ(error_of([&] { sequence->feed_guessing(1, ids); }), ErrorCode::kUsage);
  EXPECT_EQ(error_of([&] { sequence->feed_all_logits(ids, {}); }), ErrorCode::kUsage);
  EXPECT_EQ(error_of([&] { (void)sequence->sync(ids, {}); }), ErrorCode::kUsage);
  EXPECT_EQ(error_of([&] { sequence->keep_snapshot(); }), ErrorCode::kUsage);
  Batch batch(*engine_, 1, 32);
  Batch::Item items[] = {{.sequence = sequence.get(), .ids = ids}};
  batch.feed(items);
  EXPECT_EQ(copy(sequence->logits()), cold(ids));
  sequence->clear();
  EXPECT_EQ(sequence->size(), 0);
  batch.feed(items);
  EXPECT_EQ(copy(sequence->logits()), cold(ids));
}

TEST_F(BatchTest, ABadPassEmptiesASequenceForBatchesOnly) {
  const test::TempFolder folder;
  test::TinyModel model({.mla_layers = {1, 3}});
  auto& embedding = model.tensors.at("model.embed_tokens.weight");
  embedding.values[embedding.values.size() - 1] = std::nanf("");  // of token 95
  model.write_folder(folder.path());
  const auto engine = test::open_engine(folder.path(), {.threads = 2});
  const auto sequence = engine->new_batch_sequence(50);
  Batch batch(*engine, 1, 8);
  const std::vector<int32_t> ids = {4, 8, 15, 95};
  Batch::Item items[] = {{.sequence = sequence.get(), .ids = std::span(ids).first(2)}};
  batch.feed(items);
  items[0].ids = std::span(ids).subspan(2);
  batch.feed(items);
  EXPECT_NE(items[0].error, "");
  EXPECT_EQ(sequence->size(), 0);
  items[0].ids = std::span(ids).first(3);
  batch.feed(items);
  EXPECT_EQ(items[0].error, "");
  const auto alone = engine->new_sequence(50);
  alone->feed(std::span(ids).first(3));
  EXPECT_EQ(copy(sequence->logits()), copy(alone->logits()));
}

}  // namespace
}  // namespace kda
