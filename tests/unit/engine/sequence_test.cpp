#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "layers/tensor_sink.h"
#include "unit/engine/engine_support.h"

namespace kda {
namespace {

using test::copy;
using test::some_ids;

class SequenceTest : public test::EngineTest {};

template <typename F>
ErrorCode error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::kIo;
}

TEST_F(SequenceTest, FeedingInPartsEqualsFeedingAtOnce) {
  const auto ids = some_ids(70);
  const auto sequence = engine_->new_sequence(200);
  for (const int32_t id : ids) sequence->feed({&id, 1});
  EXPECT_EQ(copy(sequence->logits()), cold(ids));
  EXPECT_TRUE(std::ranges::equal(sequence->tokens(), ids));
}

// Right guesses in a row, wrong ones at once, after some, and none at all.
TEST_F(SequenceTest, GuessesChangeNoBit) {
  const auto ids = some_ids(60);
  const auto sequence = engine_->new_sequence(100);
  const auto plain = engine_->new_sequence(100);
  uint32_t seed = 7;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!sequence->feed_guessed(ids[i])) {
      seed = seed * 1664525 + 1013904223;
      std::vector<int32_t> guesses;
      const size_t n_right = seed >> 20 & 7;
      for (size_t j = i + 1; j < ids.size() && j <= i + n_right; ++j) guesses.push_back(ids[j]);
      if ((seed >> 16 & 1) != 0) guesses.insert(guesses.end(), {95, 0, 95});
      sequence->feed_guessing(ids[i], guesses);
    }
    plain->feed({&ids[i], 1});
    ASSERT_EQ(sequence->size(), static_cast<int64_t>(i) + 1);
    ASSERT_EQ(copy(sequence->logits()), copy(plain->logits())) << i;
  }
  EXPECT_TRUE(std::ranges::equal(sequence->tokens(), ids));
}

TEST_F(SequenceTest, EverythingElseForgetsGuesses) {
  const auto ids = some_ids(40);
  const auto span = std::span(ids);
  const auto start = [&] {  // 10 tokens, the last with two right guesses of which one was asked for
    auto sequence = engine_->new_sequence(100);
    sequence->feed(span.first(9));
    sequence->feed_guessing(ids[9], span.subspan(10, 2));
    EXPECT_TRUE(sequence->feed_guessed(ids[10]));
    return sequence;
  };
  {
    const auto sequence = start();
    const int32_t other = 95 - ids[11];
    sequence->feed({&other, 1});
    EXPECT_FALSE(sequence->feed_guessed(ids[11]));
    std::vector<int32_t> expected(ids.begin(), ids.begin() + 11);
    expected.push_back(other);
    EXPECT_EQ(copy(sequence->logits()), cold(expected));
  }
  {
    const auto sequence = start();
    EXPECT_EQ(sequence->sync(span.first(30), {}), 11);
    EXPECT_EQ(copy(sequence->logits()), cold(span.first(30)));
  }
  {
    const auto sequence = start();
    sequence->keep_snapshot();
    EXPECT_FALSE(sequence->feed_guessed(ids[11]));
    sequence->feed(some_ids(5, 3));
    EXPECT_EQ(sequence->sync(span.first(20), {}), 11);
    EXPECT_EQ(copy(sequence->logits()), cold(span.first(20)));
  }
  {
    const auto sequence = start();
    EXPECT_EQ(sequence->sync(span.first(10), {}), 0);  // not in the state, and no snapshot there
    EXPECT_EQ(copy(sequence->logits()), cold(span.first(10)));
  }
  {
    const auto sequence = start();
    sequence->clear();
    EXPECT_FALSE(sequence->feed_guessed(ids[11]));
    sequence->feed(span.first(5));
    EXPECT_EQ(copy(sequence->logits()), cold(span.first(5)));
  }
}

TEST_F(SequenceTest, GuessesThatDoNotFitAreLeftOut) {
  const auto ids = some_ids(30);
  const auto sequence = engine_->new_sequence(12);
  sequence->feed_guessing(ids[0], std::span(ids).subspan(1, 20));  // the engine takes seven
  for (size_t i = 1; i <= 7; ++i) EXPECT_TRUE(sequence->feed_guessed(ids[i]));
  EXPECT_FALSE(sequence->feed_guessed(ids[8]));
  sequence->feed_guessing(ids[8], std::span(ids).subspan(9, 7));  // the context has room for three
  for (size_t i = 9; i <= 11; ++i) EXPECT_TRUE(sequence->feed_guessed(ids[i]));
  EXPECT_FALSE(sequence->feed_guessed(ids[12]));
  EXPECT_EQ(copy(sequence->logits()), cold(std::span(ids).first(12)));
  EXPECT_EQ(error_of([&] { sequence->feed_guessing(ids[12], {}); }), ErrorCode::kLimit);
  EXPECT_EQ(error_of([&] { engine_->new_sequence(12)->feed_guessing(1, std::vector<int32_t>{96}); }),
            ErrorCode::kUsage);
}

TEST_F(SequenceTest, WithoutTokensThereAreNoLogits) {
  const auto sequence = engine_->new_sequence(10);
  EXPECT_TRUE(sequence->logits().empty());
  sequence->feed({});
  EXPECT_EQ(sequence->size(), 0);
}

TEST_F(SequenceTest, ATokenOutOfRangeIsRefusedBeforeAnyWork) {
  const auto sequence = engine_->new_sequence(10);
  for (const int32_t bad : {-1, 96, std::numeric_limits<int32_t>::max()}) {
    EXPECT_EQ(error_of([&] { sequence->feed(std::vector<int32_t>{1, bad}); }), ErrorCode::kUsage);
  }
  EXPECT_EQ(sequence->size(), 0);
}

TEST_F(SequenceTest, MoreTokensThanTheContextHoldsAreRefusedBeforeAnyWork) {
  const auto sequence = engine_->new_sequence(10);
  sequence->feed(some_ids(4));
  const auto before = copy(sequence->logits());
  EXPECT_EQ(error_of([&] { sequence->feed(some_ids(7)); }), ErrorCode::kLimit);
  EXPECT_EQ(error_of([&] { (void)sequence->sync(some_ids(11), {}); }), ErrorCode::kLimit);
  EXPECT_EQ(sequence->size(), 4);
  EXPECT_EQ(copy(sequence->logits()), before);
  sequence->feed(some_ids(6, 2));  // fills it to the brim
  EXPECT_EQ(sequence->size(), 10);
}

TEST_F(SequenceTest, AllLogitsAreThoseOfEachPrefix) {
  const auto ids = some_ids(40);
  const auto sequence = engine_->new_sequence(100);
  int64_t n = 0;
  sequence->feed_all_logits(ids, [&](int64_t position, std::span<const float> logits) {
    ASSERT_EQ(position, n++);
    ASSERT_EQ(copy(logits), cold(std::span(ids).first(static_cast<size_t>(n))));
  });
  EXPECT_EQ(n, 40);
  EXPECT_EQ(copy(sequence->logits()), cold(ids));
}

TEST_F(SequenceTest, ProgressIsToldAndStopsBetweenBatches) {
  const auto ids = some_ids(40);
  const auto sequence = engine_->new_sequence(100);
  std::vector<int64_t> told;
  EXPECT_EQ(error_of([&] {
              sequence->feed(ids, [&](int64_t done, int64_t total) {
                EXPECT_EQ(total, 40);
                told.push_back(done);
                return done < 32;
              });
            }),
            ErrorCode::kInterrupted);
  EXPECT_EQ(told, (std::vector<int64_t>{0, 4, 8, 12, 16, 20, 24, 28, 32}));  // four layers a batch of 16
  EXPECT_EQ(sequence->size(), 32);                                           // what was computed stays
  EXPECT_TRUE(sequence->logits().empty());
  sequence->feed(std::span(ids).subspan(32));
  EXPECT_EQ(copy(sequence->logits()), cold(ids));
}

TEST_F(SequenceTest, StopsBetweenLayersAndKeepsTheBatchesBefore) {
  const auto ids = some_ids(40);
  const auto sequence = engine_->new_sequence(100);
  EXPECT_EQ(error_of([&] { sequence->feed(ids, [](int64_t done, int64_t) { return done < 24; }); }),
            ErrorCode::kInterrupted);
  EXPECT_EQ(sequence->size(), 16);
  sequence->feed(std::span(ids).subspan(16));
  EXPECT_EQ(copy(sequence->logits()), cold(ids));
  EXPECT_EQ(
      error_of([&] { (void)sequence->sync(some_ids(70, 2), {}, [](int64_t done, int64_t) { return done < 24; }); }),
      ErrorCode::kInterrupted);
  (void)sequence->sync(ids, {});
  EXPECT_EQ(copy(sequence->logits()), cold(ids));
}

TEST_F(SequenceTest, SyncAfterAnInterruptionGoesOn) {
  const auto ids = some_ids(48);
  const auto sequence = engine_->new_sequence(100);
  EXPECT_EQ(error_of([&] { (void)sequence->sync(ids, {}, [](int64_t done, int64_t) { return done < 32; }); }),
            ErrorCode::kInterrupted);
  EXPECT_EQ(sequence->sync(ids, {}), 32);
  EXPECT_EQ(copy(sequence->logits()), cold(ids));
}

TEST_F(SequenceTest, SyncToAPrefixThatHasNoLogitsComputesThemAgain) {
  const auto ids = some_ids(48);
  const auto sequence = engine_->new_sequence(100);
  EXPECT_EQ(error_of([&] { (void)sequence->sync(ids, {}, [](int64_t done, int64_t) { return done < 32; }); }),
            ErrorCode::kInterrupted);
  const auto prefix = std::span(ids).first(32);
  (void)sequence->sync(prefix, {});
  EXPECT_EQ(copy(sequence->logits()), cold(prefix));
}

TEST_F(SequenceTest, SyncExtendsWhatIsThere) {
  const auto ids = some_ids(60);
  const auto sequence = engine_->new_sequence(100);
  EXPECT_EQ(sequence->sync(std::span(ids).first(20), {}), 0);
  sequence->feed(std::span(ids).subspan(20, 5));
  EXPECT_EQ(sequence->sync(ids, {}), 25);
  EXPECT_EQ(copy(sequence->logits()), cold(ids));
}

TEST_F(SequenceTest, TheSamePromptAgainCostsNothing) {
  const auto ids = some_ids(30);
  const auto sequence = engine_->new_sequence(100);
  (void)sequence->sync(ids, {});
  const auto expected = copy(sequence->logits());
  EXPECT_EQ(sequence->sync(ids, {}), 30);
  sequence->feed(some_ids(10, 9));  // an answer
  EXPECT_EQ(sequence->sync(ids, {}), 30);
  EXPECT_EQ(copy(sequence->logits()), expected);
  EXPECT_EQ(sequence->size(), 30);
}

TEST_F(SequenceTest, AChangeGoesBackToTheBorderBeforeIt) {
  auto ids = some_ids(60);
  const std::vector<int64_t> borders = {12, 30, 45};
  const auto sequence = engine_->new_sequence(100);
  (void)sequence->sync(ids, borders);
  ids[50] = 95 - ids[50];
  EXPECT_EQ(sequence->sync(ids, borders), 45);
  EXPECT_EQ(copy(sequence->logits()), cold(ids));
  ids[31] = 95 - ids[31];
  EXPECT_EQ(sequence->sync(ids, borders), 30);
  EXPECT_EQ(copy(sequence->logits()), cold(ids));
  ids[3] = 95 - ids[3];
  EXPECT_EQ(sequence->sync(ids, borders), 0);
  EXPECT_EQ(copy(sequence->logits()), cold(ids));
  const auto shorter = std::span(ids).first(30);  // a border itself; its logits were not kept
  EXPECT_EQ(sequence->sync(shorter, borders), 12);
  EXPECT_EQ(copy(sequence->logits()), cold(shorter));
}

TEST_F(SequenceTest, BordersOutsideThePromptAreIgnored) {
  const auto ids = some_ids(20);
  const auto sequence = engine_->new_sequence(100);
  const std::vector<int64_t> borders = {-5, 0, 20, 20, 21, 1000};
  EXPECT_EQ(sequence->sync(ids, borders), 0);
  EXPECT_EQ(copy(sequence->logits()), cold(ids));
}

TEST_F(SequenceTest, KeptSnapshotsAreComeBackTo) {
  const auto ids = some_ids(20);
  const auto sequence = engine_->new_sequence(100);
  sequence->keep_snapshot();  // of nothing: no effect
  sequence->feed(ids);
  sequence->keep_snapshot();
  sequence->feed(some_ids(20, 3));
  auto other = ids;
  other.push_back(7);
  EXPECT_EQ(sequence->sync(other, {}), 20);
  EXPECT_EQ(copy(sequence->logits()), cold(other));
}

TEST_F(SequenceTest, SnapshotsOfTokensThatWereReplacedAreNotComeBackTo) {
  const auto ids = some_ids(60);
  const std::vector<int64_t> borders = {12, 30};
  const auto sequence = engine_->new_sequence(100);
  (void)sequence->sync(ids, borders);
  // Back to 30, whose logits were not kept, so from 12; stopped before the first batch.
  EXPECT_EQ(error_of([&] {
              (void)sequence->sync(std::span(ids).first(30), borders, [](int64_t, int64_t) { return false; });
            }),
            ErrorCode::kInterrupted);
  EXPECT_EQ(sequence->size(), 12);
  sequence->feed(some_ids(25, 6));
  sequence->keep_snapshot();
  (void)sequence->sync(ids, borders);
  EXPECT_EQ(copy(sequence->logits()), cold(ids));
}

TEST_F(SequenceTest, SyncToNothingClears) {
  const auto sequence = engine_->new_sequence(100);
  sequence->feed(some_ids(20));
  EXPECT_EQ(sequence->sync({}, {}), 0);
  EXPECT_EQ(sequence->size(), 0);
}

TEST_F(SequenceTest, ClearForgetsEverything) {
  const auto sequence = engine_->new_sequence(100);
  (void)sequence->sync(some_ids(33, 5), {});
  sequence->clear();
  EXPECT_EQ(sequence->size(), 0);
  EXPECT_TRUE(sequence->logits().empty());
  const auto ids = some_ids(20);
  EXPECT_EQ(sequence->sync(ids, {}), 0);
  EXPECT_EQ(copy(sequence->logits()), cold(ids));
}

TEST_F(SequenceTest, AFailureHalfWayThroughABatchLeavesTheTokensBefore) {
  struct Thrower : TensorSink {
    void put(std::string_view name, std::span<const int64_t>, const float*) override {
      if (name == "l2.attn_out") throw std::runtime_error("enough");
    }
  } sink;
  const auto ids = some_ids(20);
  const auto more = some_ids(10, 4);
  const auto sequence = engine_->new_sequence(100);
  sequence->feed(ids);
  EXPECT_THROW(sequence->feed_all_logits(more, {}, &sink), std::runtime_error);
  EXPECT_TRUE(std::ranges::equal(sequence->tokens(), ids));
  EXPECT_EQ(copy(sequence->logits()), cold(ids));
  sequence->feed(more);  // the first layers had seen these already
  auto all = ids;
  all.insert(all.end(), more.begin(), more.end());
  EXPECT_EQ(copy(sequence->logits()), cold(all));
}

TEST_F(SequenceTest, SyncAfterAFailureComputesTheSame) {
  struct Thrower : TensorSink {
    void put(std::string_view, std::span<const int64_t>, const float*) override {
      if (--countdown == 0) throw std::runtime_error("enough");
    }
    int countdown = 20;
  } sink;
  const auto ids = some_ids(20);
  const auto sequence = engine_->new_sequence(100);
  sequence->feed(ids);
  EXPECT_THROW(sequence->feed_all_logits(some_ids(10, 4), {}, &sink), std::runtime_error);
  (void)sequence->sync(ids, {});
  EXPECT_EQ(copy(sequence->logits()), cold(ids));
}

TEST_F(SequenceTest, SequencesOfOneEngineDoNotMix) {
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (uint32_t i = 0; i < 4; ++i) sequences.push_back(engine_->new_sequence(100));
  for (size_t step = 0; step < 30; ++step) {
    for (uint32_t i = 0; i < 4; ++i) {
      const auto ids = some_ids(30, 10 + i);
      sequences[i]->feed(std::span(ids).subspan(step, 1));
    }
  }
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(copy(sequences[i]->logits()), cold(some_ids(30, 10 + i)));
}

TEST(DamagedModel, NanWeightsAreAnErrorThatSaysWhatToDo) {
  const test::TempFolder folder;
  test::TinyModel model;
  // One expert of the last layer: most tokens go elsewhere.
  model.tensors.at("model.layers.3.block_sparse_moe.experts.2.w2.weight").values[5] = std::nanf("");
  model.write_folder(folder.path());
  const auto engine = test::open_engine(folder.path(), {.threads = 1});
  const auto sequence = engine->new_sequence(100);
  const auto ids = some_ids(60);
  try {
    sequence->feed(ids);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kFormat);
    EXPECT_NE(std::string(e.what()).find("kda inspect --check"), std::string::npos) << e.what();
  }
  EXPECT_EQ(sequence->size(), 0);
}

}  // namespace
}  // namespace kda
