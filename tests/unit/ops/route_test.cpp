#include <gtest/gtest.h>

#include <cmath>

#include "unit/ops/ops_support.h"

namespace kda {
namespace {

using test::Matrix;
using test::OpsBox;

class RouteTest : public testing::Test {
 protected:
  // Routes rows of logits; experts_ and weights_ are [T, k].
  void route(Matrix logits, std::vector<float> bias, RouteOp op, int threads = 1) {
    const int64_t n = logits.n_rows;
    AlignedBuffer memory(size_t{1} << 20);
    Arena arena({memory.data(), memory.size_bytes()});
    Routing routing(arena, n, logits.n_cols, op.n_used);
    op.scores = logits.view();
    op.bias = bias;
    OpsBox(threads, scalar_kernels(), {.n_experts = logits.n_cols})->route(op, routing);
    experts_.assign(routing.experts, routing.experts + n * op.n_used);
    weights_.assign(routing.weights, routing.weights + n * op.n_used);
    n_groups_ = routing.n_groups;
    matrix_.assign(routing.matrix, routing.matrix + n_groups_);
    begin_.assign(routing.begin, routing.begin + n_groups_ + 1);
    tokens_.assign(routing.tokens, routing.tokens + n * op.n_used);
    slots_.assign(routing.slots, routing.slots + n * op.n_used);
  }
  static Matrix row(std::initializer_list<float> values) {
    Matrix m(1, static_cast<int64_t>(values.size()));
    m.values = values;
    return m;
  }
  static float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

  std::vector<int32_t> experts_, matrix_, begin_, tokens_, slots_;
  std::vector<float> weights_;
  int64_t n_groups_ = 0;
};

TEST_F(RouteTest, TheBiasChoosesButDoesNotWeigh) {
  route(row({0, 1, 2, -1}), {0, 0, 0, 0.9F}, {.n_used = 2, .factor = 2});
  EXPECT_EQ(experts_, (std::vector<int32_t>{3, 2}));  // 0.27 + 0.9 before 0.88
  EXPECT_FLOAT_EQ(weights_[0], 2 * sigmoid(-1));
  EXPECT_FLOAT_EQ(weights_[1], 2 * sigmoid(2));
}

TEST_F(RouteTest, TheLowerIndexWinsATie) {
  route(row({1, 1, 1, 1}), {0, 0, 0, 0}, {.n_used = 3});
  EXPECT_EQ(experts_, (std::vector<int32_t>{0, 1, 2}));
}

TEST_F(RouteTest, RenormalisedWeightsSumToTheFactor) {
  route(row({0, 1, 2, 3}), {0, 0, 0, 0}, {.n_used = 2, .renormalize = true, .factor = 2.446F});
  EXPECT_FLOAT_EQ(weights_[0] + weights_[1], 2.446F);
  EXPECT_FLOAT_EQ(weights_[0] / weights_[1], sigmoid(3) / sigmoid(2));
}

TEST_F(RouteTest, ASingleExpertKeepsItsScore) {
  route(row({0, 1, 2, 3}), {0, 0, 0, 0}, {.n_used = 1, .renormalize = true, .factor = 2});
  EXPECT_FLOAT_EQ(weights_[0], 2 * sigmoid(3));
}

TEST_F(RouteTest, OnlyTheBestGroupsTakePart) {
  // Groups (0, 1), (2, 3), (4, 5): by the sum of their two largest, the last two win although expert 0 is the largest.
  route(row({3, -9, 2, 2, 2.5F, 1}), {0, 0, 0, 0, 0, 0}, {.n_groups = 3, .n_groups_used = 2, .n_used = 3});
  EXPECT_EQ(experts_, (std::vector<int32_t>{4, 2, 3}));
}

TEST_F(RouteTest, OfEqualGroupsTheLowerIsKept) {
  route(row({1, 2, 2, 1, 1, 2}), {0, 0, 0, 0, 0, 0}, {.n_groups = 3, .n_groups_used = 1, .n_used = 2});
  EXPECT_EQ(experts_, (std::vector<int32_t>{1, 0}));
}

TEST_F(RouteTest, SortsAllPairsByExpert) {
  Matrix logits(300, 8, 1);
  const RouteOp op{.n_used = 3};
  route(logits, std::vector<float>(8), op);
  const auto experts = experts_;
  const auto weights = weights_;
  ASSERT_EQ(begin_.front(), 0);
  ASSERT_EQ(begin_.back(), 900);
  int32_t last_slot = -1;
  for (size_t g = 0; g < static_cast<size_t>(n_groups_); ++g) {
    ASSERT_LT(begin_[g], begin_[g + 1]);
    last_slot = -1;
    for (auto i = static_cast<size_t>(begin_[g]); i < static_cast<size_t>(begin_[g + 1]); ++i) {
      ASSERT_EQ(experts[static_cast<size_t>(slots_[i])], matrix_[g]);
      ASSERT_EQ(tokens_[i], slots_[i] / 3);
      ASSERT_GT(slots_[i], last_slot);  // each once, in order
      last_slot = slots_[i];
    }
  }
  route(logits, std::vector<float>(8), op, 3);
  EXPECT_EQ(experts_, experts);
  EXPECT_EQ(weights_, weights);
}

TEST_F(RouteTest, NanScoresStillPickExistingExperts) {
  route(row({std::nanf(""), std::nanf(""), std::nanf(""), std::nanf("")}), {0, 0, 0, 0},
        {.n_groups = 2, .n_groups_used = 1, .n_used = 2});
  for (const int32_t e : experts_) EXPECT_TRUE(e >= 0 && e < 4);
}

TEST(CpuOps, CombineWeighsSlotsInOrder) {
  Matrix y(6, 3, 1), out(2, 3);
  const std::vector<float> weights = {0.5F, -1, 2, 0, 0.25F, 3};
  OpsBox(2, scalar_kernels(), {})->combine(y.view(), weights.data(), 3, out.view());
  for (int64_t t = 0; t < 2; ++t) {
    for (int64_t i = 0; i < 3; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < 3; ++j) sum += weights[static_cast<size_t>(t * 3 + j)] * y.at(t * 3 + j, i);
      EXPECT_EQ(out.at(t, i), sum);
    }
  }
}

TEST(CpuOps, AllFiniteSeesOneBadNumber) {
  Matrix x(3, 1001, 1);
  OpsBox ops(1, scalar_kernels(), {});
  EXPECT_TRUE(ops->all_finite(x.view()));
  x.at(2, 1000) = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(ops->all_finite(x.view()));
  EXPECT_TRUE(ops->all_finite(x.view().first_rows(2)));
  x.at(0, 5) = std::nanf("");
  EXPECT_FALSE(ops->all_finite(x.view().first_rows(2)));
}

}  // namespace
}  // namespace kda
