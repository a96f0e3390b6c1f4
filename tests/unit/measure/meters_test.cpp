#include "measure/meters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/expect_error.h"

namespace kda {
namespace {

/// Logits, shifted by a constant, of a distribution.
std::vector<float> logits(std::initializer_list<double> probabilities, double shift = 0) {
  std::vector<float> out;
  for (const double p : probabilities) out.push_back(static_cast<float>(std::log(p) + shift));
  return out;
}

TEST(Meters, MeanAndItsStandardError) {
  MeanMeter m;
  for (const double x : {1e9 + 1, 1e9 + 2, 1e9 + 3, 1e9 + 6}) m.add(x);
  EXPECT_DOUBLE_EQ(m.mean().value, 1e9 + 3);
  EXPECT_NEAR(m.mean().error, std::sqrt(14.0 / 3 / 4), 1e-7) << "variance 14/3 over 4 values";
  MeanMeter one;
  one.add(5);
  EXPECT_TRUE(std::isnan(one.mean().error));
}

TEST(Meters, ARowOfLogitsBecomesProbabilities) {
  const auto x = logits({0.25, 0.5, 0.25}, 40);
  const ScoredRow row = score_row(x);
  EXPECT_NEAR(row.log_probability(0), std::log(0.25), 4e-6) << "floats near 40 lie that far apart";
  EXPECT_EQ(row.top, 1);
  const std::vector<float> wide = {-3e38F, 3e38F};  // no overflow
  EXPECT_EQ(score_row(wide).log_probability(1), 0);
  const std::vector<float> bad = {1, std::numeric_limits<float>::quiet_NaN()};
  test::expect_error(ErrorCode::kFormat, "the logit of token 1 is nan", [&] { (void)score_row(bad); });
}

TEST(Meters, PerplexityOfAUniformModelIsItsVocabulary) {
  const std::vector<float> x(100, 3.5F);
  PerplexityMeter m;
  for (int32_t id = 0; id < 10; ++id) m.add(score_row(x), id);
  EXPECT_NEAR(m.perplexity().value, 100, 1e-9);
  EXPECT_NEAR(m.perplexity().error, 0, 1e-9);
  EXPECT_NEAR(m.loss().value, std::log(100.0), 1e-12);
}

TEST(Meters, DivergenceIsThatOfTheModelFromTheBase) {
  const auto p = logits({0.5, 0.25, 0.25});
  const auto q = logits({0.25, 0.5, 0.25}, -7);
  DivergenceMeter m;
  m.add(score_row(p), score_row(q), 0);
  m.add(score_row(p), score_row(p), 0);
  const double d = 0.5 * std::log(2.0) - 0.25 * std::log(2.0);
  EXPECT_NEAR(m.mean().value, d / 2, 1e-7);
  EXPECT_NEAR(m.largest(), d, 1e-7);
  EXPECT_NEAR(m.quantile(0.5), d / 2, 1e-7);
  EXPECT_NEAR(m.quantile(1), d, 1e-7);
  EXPECT_EQ(m.quantile(0), 0);
  EXPECT_DOUBLE_EQ(m.same_top().value, 0.5);
  EXPECT_NEAR(m.perplexity_ratio().value, std::sqrt(2.0), 1e-6) << "half the tokens are half as likely";
}

TEST(Meters, AModelDivergesFromItselfByNothing) {
  std::vector<float> x;
  for (int i = 0; i < 1000; ++i) x.push_back(std::sin(static_cast<float>(i)) * 17);
  DivergenceMeter m;
  for (int i = 0; i < 3; ++i) m.add(score_row(x), score_row(x), 7);
  EXPECT_EQ(m.mean().value, 0);
  EXPECT_EQ(m.largest(), 0);
  EXPECT_EQ(m.perplexity_ratio().value, 1);
  EXPECT_EQ(m.same_top().value, 1);
}

}  // namespace
}  // namespace kda
