// Attention over a latent cache: both forms, and any split over threads.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/cpu_ops.h"
#include "unit/kernels/kernel_sets.h"
#include "unit/ops/ops_support.h"

namespace kda {
namespace {

using test::Matrix;
using test::OpsBox;

constexpr int64_t kHeads = 5;
constexpr int64_t kRank = 24;
constexpr int64_t kNope = 12;
constexpr int64_t kPe = 4;
constexpr int64_t kValue = 20;

const OpsLimits kLimits{
    .max_cols = kRank, .latent_rank = kRank, .latent_pe = kPe, .mla_nope = kNope, .mla_value = kValue};

class AttentionOp : public test::KernelSetTest {
 protected:
  // Contexts of n tokens from `first` on, in absorbed form.
  std::vector<float> absorbed(int threads, int64_t first, int64_t n, Matrix& q, Matrix& cache) {
    OpsBox ops(threads, *kernels, kLimits);
    Matrix ctx(n * kHeads, kRank);
    ops->mla_attend({.n_heads = kHeads,
                     .dim_v = kRank,
                     .first_position = first,
                     .scale = 0.3F,
                     .q = q.view(first * kHeads, n * kHeads),
                     .cache = cache.values.data(),
                     .ctx = ctx.view()});
    return ctx.values;
  }
};

// More keys than ranges of one wave of parts hold.
TEST_P(AttentionOp, AbsorbedBitsDependNeitherOnTheThreadsNorOnTheOtherTokens) {
  constexpr int64_t kKeys = 60000;
  Matrix q(kKeys * kHeads, kRank + kPe, 1);
  Matrix cache(kKeys, kRank + kPe, 2);
  for (const auto& [first, n] :
       {std::pair<int64_t, int64_t>{0, 1}, {250, 20}, {255, 2}, {1000, 110}, {4095, 3}, {5000, 300}, {kKeys - 2, 2}}) {
    const std::vector<float> expected = absorbed(1, first, n, q, cache);
    for (const int threads : {2, 3, 16}) {
      EXPECT_EQ(absorbed(threads, first, n, q, cache), expected) << threads << " threads, " << n << " from " << first;
    }
    const std::vector<float> last = absorbed(3, first + n - 1, 1, q, cache);
    EXPECT_TRUE(std::equal(last.begin(), last.end(), expected.end() - kHeads * kRank)) << n << " from " << first;
  }
}

TEST_P(AttentionOp, AbsorbedIsTheSoftmaxOverAllRanges) {
  constexpr int64_t kKeys = 1500;
  Matrix q(kKeys * kHeads, kRank + kPe, 3);
  Matrix cache(kKeys, kRank + kPe, 4);
  for (int64_t i = 0; i < kRank; ++i) cache.at(900, i) *= 6;  // a late key outweighs the ranges before it
  const std::vector<float> ctx = absorbed(2, kKeys - 1, 1, q, cache);
  for (int64_t head = 0; head < kHeads; ++head) {
    std::vector<double> out(kRank);
    double total = 0;
    for (int64_t key = 0; key < kKeys; ++key) {
      double score = 0;
      for (int64_t i = 0; i < kRank + kPe; ++i) {
        score += double{q.at((kKeys - 1) * kHeads + head, i)} * cache.at(key, i) * 0.3;
      }
      total += std::exp(score);
      for (int64_t i = 0; i < kRank; ++i) out[static_cast<size_t>(i)] += std::exp(score) * cache.at(key, i);
    }
    for (int64_t i = 0; i < kRank; ++i) {
      EXPECT_NEAR(ctx[static_cast<size_t>(head * kRank + i)], out[static_cast<size_t>(i)] / total, 2e-5);
    }
  }
}

TEST_P(AttentionOp, TheFormsAgreeAndTheExpandedOneDoesNotDependOnTheThreads) {
  constexpr int64_t kKeys = 700;
  constexpr int64_t kTokens = 400;
  constexpr int64_t kFirst = kKeys - kTokens;
  Matrix q(kTokens, kHeads * (kNope + kPe), 5);
  Matrix cache(kKeys, kRank + kPe, 6);
  Matrix k_b(kHeads * kRank, kNope, 7, 0.2F);
  Matrix v_b(kHeads * kValue, kRank, 8, 0.2F);
  std::vector<const std::byte*> k_heads;
  std::vector<const std::byte*> v_heads;
  for (int64_t h = 0; h < kHeads; ++h) {
    k_heads.push_back(reinterpret_cast<const std::byte*>(&k_b.at(h * kRank, 0)));
    v_heads.push_back(reinterpret_cast<const std::byte*>(&v_b.at(h * kValue, 0)));
  }
  const QMatsView k_view{TensorType::kF32, k_heads, kRank, kNope, kNope * 4};
  const QMatsView v_view{TensorType::kF32, v_heads, kValue, kRank, kRank * 4};
  const auto expanded = [&](int threads) {
    OpsBox ops(threads, *kernels, kLimits);
    Matrix out(kTokens, kHeads * kValue);
    std::vector<SoftmaxState> states(kHeads * kTokens);
    ops->mla_expanded({.n_heads = kHeads,
                       .first_position = kFirst,
                       .scale = 0.3F,
                       .q = q.view(),
                       .cache = cache.values.data(),
                       .k_b = &k_view,
                       .v_b = &v_view,
                       .states = states.data(),
                       .out = out.view()});
    return out.values;
  };
  const std::vector<float> out = expanded(1);
  for (const int threads : {2, 7, 17}) EXPECT_EQ(expanded(threads), out) << threads << " threads";

  Matrix q_latent(kKeys * kHeads, kRank + kPe);
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t h = 0; h < kHeads; ++h) {
      float* to = &q_latent.at((kFirst + t) * kHeads + h, 0);
      const float* from = &q.at(t, h * (kNope + kPe));
      for (int64_t i = 0; i < kRank; ++i) {
        for (int64_t c = 0; c < kNope; ++c) to[i] += k_b.at(h * kRank + i, c) * from[c];
      }
      std::copy_n(from + kNope, kPe, to + kRank);
    }
  }
  const std::vector<float> ctx = absorbed(2, kFirst, kTokens, q_latent, cache);
  for (int64_t row = 0; row < kTokens * kHeads; ++row) {
    const int64_t h = row % kHeads;
    for (int64_t v = 0; v < kValue; ++v) {
      double sum = 0;
      for (int64_t i = 0; i < kRank; ++i) {
        sum += double{v_b.at(h * kValue + v, i)} * ctx[static_cast<size_t>(row * kRank + i)];
      }
      EXPECT_NEAR(out[static_cast<size_t>(row * kValue + v)], sum, 1e-5);
    }
  }
}

KDA_FOR_EVERY_KERNEL_SET(AttentionOp);

}  // namespace
}  // namespace kda
