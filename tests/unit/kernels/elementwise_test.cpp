#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "kernel_sets.h"
#include "support/guarded_buffer.h"

namespace kda {
namespace {

// Floats that end at an unreadable page.
class Floats {
 public:
  explicit Floats(const std::vector<float>& values) : buffer_(values.size() * 4), size_(values.size()) {
    std::memcpy(buffer_.data(), values.data(), buffer_.size_bytes());
  }
  explicit Floats(size_t size) : Floats(std::vector<float>(size, -777.0F)) {}
  [[nodiscard]] float* data() const { return buffer_.as<float>(); }
  float operator[](size_t i) const { return data()[i]; }
  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(size_); }

 private:
  test::GuardedBuffer buffer_;
  size_t size_;
};

std::vector<float> random_floats(size_t n, float strength, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = strength * normal(random);
  return values;
}

std::vector<size_t> sizes() {
  std::vector<size_t> all{128, 2304, 4096};
  for (size_t n = 1; n <= 70; ++n) all.push_back(n);
  return all;
}

class ElementwiseTest : public test::KernelSetTest {};

TEST_P(ElementwiseTest, RmsNormIsWithinTheRoundingOfItsSum) {
  for (const size_t n : sizes()) {
    for (const float strength : {1e-4F, 1.0F, 1e6F}) {
      const Floats x(random_floats(n, strength, 51));
      const Floats w(random_floats(n, 1, 52));
      const Floats out(n);
      constexpr float kEps = 1e-5F;
      kernels->rms_norm(x.data(), w.data(), kEps, x.size(), out.data());
      double mean = 0;
      for (size_t i = 0; i < n; ++i) mean += double{x[i]} * x[i] / static_cast<double>(n);
      for (size_t i = 0; i < n; ++i) {
        const double expected = double{x[i]} * w[i] / std::sqrt(mean + double{kEps});
        EXPECT_NEAR(out[i], expected, std::abs(expected) * (static_cast<double>(n) / 2 + 6) * test::kUnit) << n;
      }
    }
  }
}

TEST_P(ElementwiseTest, RmsNormMayBeDoneInPlace) {
  const std::vector<float> x = random_floats(131, 1, 53);
  const Floats w(random_floats(131, 1, 54));
  const Floats out(131);
  kernels->rms_norm(Floats(x).data(), w.data(), 1e-6F, 131, out.data());
  const Floats in_place(x);
  kernels->rms_norm(in_place.data(), w.data(), 1e-6F, 131, in_place.data());
  EXPECT_EQ(std::memcmp(in_place.data(), out.data(), 131 * 4), 0);
}

TEST_P(ElementwiseTest, RmsNormOfZerosIsZero) {
  const Floats x(std::vector<float>(37));
  const Floats w(random_floats(37, 1, 55));
  const Floats out(37);
  kernels->rms_norm(x.data(), w.data(), 1e-6F, 37, out.data());
  for (size_t i = 0; i < 37; ++i) EXPECT_EQ(out[i], 0.0F);
}

// Relative error allowed to exp and what follows it: eight units in the last place.
constexpr double kExpError = 16 * test::kUnit;
// Below this a result may be rounded to zero: exp(-x) no longer fits.
constexpr double kTiny = 1e-35;

std::vector<float> wide_floats(size_t n, uint32_t seed) {
  std::vector<float> x = random_floats(n, 30, seed);
  constexpr float kEdges[] = {0.0F, -0.0F, 1e-30F, -1e-30F, 87, -87, 89, -89, 104, -104, 1e4F, -1e4F, 1e30F, -1e30F};
  for (size_t i = 0; i < n && i < std::size(kEdges); ++i) x[n - 1 - i] = kEdges[i];
  return x;
}

TEST_P(ElementwiseTest, SigmoidAndSiluFollowTheirFormulas) {
  for (const size_t n : sizes()) {
    const std::vector<float> values = wide_floats(n, 56);
    const std::vector<float> ups = random_floats(n, 2, 57);
    const Floats x(values);
    const Floats up(ups);
    const Floats sigmoid(n);
    const Floats product(n);
    const Floats silu(values);
    kernels->sigmoid(x.data(), x.size(), sigmoid.data());
    kernels->silu(silu.data(), silu.size());
    kernels->silu_mul(x.data(), up.data(), x.size(), product.data());
    for (size_t i = 0; i < n; ++i) {
      const double s = 1 / (1 + std::exp(-double{values[i]}));
      const double y = values[i] * s;
      EXPECT_NEAR(sigmoid[i], s, kExpError * s + kTiny) << values[i];
      EXPECT_NEAR(silu[i], y, kExpError * std::abs(y) + kTiny) << values[i];
      EXPECT_NEAR(product[i], y * ups[i], kExpError * std::abs(y * ups[i]) + kTiny) << values[i];
    }
  }
}

TEST_P(ElementwiseTest, SiluMulMayOverwriteTheGate) {
  const std::vector<float> gate = wide_floats(77, 58);
  const Floats up(random_floats(77, 1, 59));
  const Floats out(77);
  kernels->silu_mul(Floats(gate).data(), up.data(), 77, out.data());
  const Floats in_place(gate);
  kernels->silu_mul(in_place.data(), up.data(), 77, in_place.data());
  EXPECT_EQ(std::memcmp(in_place.data(), out.data(), 77 * 4), 0);
}

// Activations of one token must come out alike in whatever batch and piece they are computed.
TEST_P(ElementwiseTest, AnElementsBitsDoNotDependOnItsPosition) {
  const std::vector<float> values = wide_floats(67, 60);
  const Floats x(values);
  const Floats sigmoid(67);
  const Floats silu(values);
  kernels->sigmoid(x.data(), 67, sigmoid.data());
  kernels->silu(silu.data(), 67);
  for (size_t i = 0; i < 67; ++i) {
    const Floats one(std::vector<float>{values[i]});
    const Floats out(1);
    kernels->sigmoid(one.data(), 1, out.data());
    EXPECT_EQ(out[0], sigmoid[i]);
    kernels->silu(one.data(), 1);
    EXPECT_EQ(one[0], silu[i]);
  }
}

TEST_P(ElementwiseTest, AxpyAddsAMultiple) {
  for (const size_t n : sizes()) {
    const std::vector<float> x = random_floats(n, 1, 61);
    const std::vector<float> y = random_floats(n, 1, 62);
    const Floats from(x);
    const Floats to(y);
    kernels->axpy(0.37F, from.data(), from.size(), to.data());
    for (size_t i = 0; i < n; ++i) {
      const double product = double{0.37F} * x[i];
      EXPECT_NEAR(to[i], y[i] + product, 2 * test::kUnit * (std::abs(y[i]) + std::abs(product)));
    }
  }
}

TEST_P(ElementwiseTest, ScaledSoftplusIsWithinAFewRoundingsOfTheFormula) {
  std::vector<float> z;
  for (float x = -86; x < 86; x += 0.0137F) z.push_back(x);
  for (const float x : {0.0F, 1e-30F, 20.0F, 100.0F, 2661.0F, 1e30F}) z.push_back(x);
  const std::vector<float> zero(z.size());
  std::vector<float> actual(z.size());
  kernels->scaled_softplus(z.data(), zero.data(), -2.0F, static_cast<int64_t>(z.size()), actual.data());
  for (size_t i = 0; i < z.size(); ++i) {
    const double x = z[i];
    const double expected = -2 * (std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))));
    ASSERT_NEAR(actual[i] / expected, 1, 6e-7) << x;
  }
}

TEST_P(ElementwiseTest, ScaledSoftplusKeepsInfinityAndNan) {
  const float inf = std::numeric_limits<float>::infinity();
  const float z[] = {-200, -inf, inf, std::nanf(""), -std::nanf("")};
  const float zero[5] = {};
  float actual[5];
  kernels->scaled_softplus(z, zero, 1, 5, actual);
  EXPECT_LT(actual[0], 1e-37F);
  EXPECT_LT(actual[1], 1e-37F);
  EXPECT_EQ(actual[2], inf);
  EXPECT_TRUE(std::isnan(actual[3]));
  EXPECT_TRUE(std::isnan(actual[4]));
}

TEST_P(ElementwiseTest, ConvSiluIsTheSumOverTheTaps) {
  for (const size_t n : sizes()) {
    for (size_t taps = 1; taps <= 5; ++taps) {
      const Floats w(random_floats((taps - 1) * (n + 3) + n, 1, 61));
      std::vector<std::unique_ptr<Floats>> memory;
      std::vector<const float*> rows;
      for (size_t j = 0; j < taps; ++j) {
        memory.push_back(std::make_unique<Floats>(random_floats(n, 1, static_cast<uint32_t>(62 + j))));
        rows.push_back(memory.back()->data());
      }
      const Floats out(n);
      const auto columns = static_cast<int64_t>(n);
      kernels->conv_silu(rows.data(), w.data(), columns + 3, static_cast<int64_t>(taps), columns, out.data());
      for (size_t i = 0; i < n; ++i) {
        double sum = 0;
        double magnitude = 0;
        for (size_t j = 0; j < taps; ++j) {
          sum += double{w[j * (n + 3) + i]} * rows[j][i];
          magnitude += std::abs(double{w[j * (n + 3) + i]} * rows[j][i]);
        }
        EXPECT_NEAR(out[i], sum / (1 + std::exp(-sum)), (magnitude + 1) * 8 * test::kUnit) << n << ", " << taps;
      }
    }
  }
}

KDA_FOR_EVERY_KERNEL_SET(ElementwiseTest);

}  // namespace
}  // namespace kda
