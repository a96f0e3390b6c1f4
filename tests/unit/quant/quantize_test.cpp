#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "base/cpu_features.h"
#include "quant/codec.h"
#include "quant/encode.h"

namespace kda {
namespace {

std::vector<std::byte> encoded(TensorType type, const std::vector<float>& x, const float* importance = nullptr) {
  // Every byte must be written, whatever was there.
  std::vector<std::byte> bytes(static_cast<size_t>(row_bytes(type, static_cast<int64_t>(x.size()))), std::byte{0xA5});
  quantize_row(type, x.data(), bytes.data(), static_cast<int64_t>(x.size()), importance);
  return bytes;
}

std::vector<float> round_trip(TensorType type, const std::vector<float>& x, const float* importance = nullptr) {
  const std::vector<std::byte> bytes = encoded(type, x, importance);
  std::vector<float> back(x.size());
  dequantize_row(type, bytes.data(), back.data(), static_cast<int64_t>(x.size()));
  return back;
}

std::vector<TensorType> writable_types() {
  std::vector<TensorType> types;
  for (uint32_t number = 0; number < kTensorTypeCount; ++number) {
    const TensorTypeInfo* info = find_tensor_type(number);
    if (info != nullptr && can_quantize(info->type)) types.push_back(info->type);
  }
  return types;
}

// Both sums weighted by the importance.
double relative_rms_error(TensorType type, const std::vector<float>& x, const float* importance = nullptr) {
  const std::vector<float> back = round_trip(type, x, importance);
  double error = 0;
  double power = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double weight = importance == nullptr ? 1 : importance[i];
    error += weight * (double{x[i]} - back[i]) * (double{x[i]} - back[i]);
    power += weight * x[i] * x[i];
  }
  return std::sqrt(error / power);
}

// Normal numbers from splitmix64, so that the errors can be compared with published ones.
std::vector<float> gaussian(size_t n, uint64_t seed) {
  uint64_t state = seed;
  const auto uniform = [&state] {
    uint64_t z = state += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53;
  };
  std::vector<float> x(n);
  for (float& value : x) {
    const double u1 = uniform();
    const double u2 = uniform();
    value = static_cast<float>(0.02 * std::sqrt(-2 * std::log(1 - u1)) * std::cos(2 * std::numbers::pi * u2));
  }
  return x;
}

// Percent, of the reference encoder on 64 rows of 4096 of these numbers: without an importance matrix, and with one and
// each error weighted by it. 0: that encoder refuses.
struct Published {
  TensorType type;
  double plain;
  double weighted;
};
constexpr Published kPublished[] = {
    {TensorType::kQ4_0, 8.5818, 7.7148},      {TensorType::kQ4_1, 7.8228, 6.3728},
    {TensorType::kQ5_0, 4.2746, 3.8393},      {TensorType::kQ5_1, 3.7809, 3.0845},
    {TensorType::kQ8_0, 0.5346, 0.5342},      {TensorType::kQ2_K, 29.6188, 23.5980},
    {TensorType::kQ3_K, 15.0663, 13.4202},    {TensorType::kQ4_K, 7.1281, 6.4728},
    {TensorType::kQ5_K, 3.6166, 3.2895},      {TensorType::kQ6_K, 1.7781, 1.6191},
    {TensorType::kIQ4_NL, 7.6188, 7.0293},    {TensorType::kIQ4_XS, 7.6773, 7.1059},
    {TensorType::kMXFP4, 11.4071, 11.3540},   {TensorType::kIQ3_S, 16.6578, 12.0393},
    {TensorType::kIQ3_XXS, 21.3436, 15.4001}, {TensorType::kIQ2_S, 26.4968, 22.5114},
    {TensorType::kIQ2_XS, 0, 26.0214},        {TensorType::kIQ2_XXS, 0, 29.7754},
    {TensorType::kIQ1_M, 58.2121, 39.0894},   {TensorType::kIQ1_S, 0, 44.1096},
};

TEST(Quantize, ErrorOnNormalNumbersIsBelowThatOfTheReferenceEncoder) {
  // A sixteenth of the published set is enough to tell them apart; for Q8_0, which has nothing to search, it is not.
  constexpr double kSampling = 1.002;
  const std::vector<float> x = gaussian(size_t{4} * 4096, 1);
  ASSERT_NEAR(x[0], -0.00068534643, 1e-10);
  ASSERT_NEAR(x[1], -0.0500013493, 1e-8);
  std::vector<float> columns = gaussian(4096, 4);
  for (float& v : columns) v = std::exp(50 * v);
  std::vector<float> importance;
  for (int row = 0; row < 4; ++row) importance.insert(importance.end(), columns.begin(), columns.end());
  for (const auto& [type, plain, weighted] : kPublished) {
    const double ours = relative_rms_error(type, x);
    const double ours_weighted = relative_rms_error(type, x, importance.data());
    RecordProperty(std::string(type_info(type).name), std::to_string(ours));
    if (plain > 0) {
      EXPECT_LT(ours, kSampling * 0.01 * plain) << type_info(type).name;
    }
    EXPECT_LT(ours_weighted, kSampling * 0.01 * weighted) << type_info(type).name;
    EXPECT_GT(ours_weighted, 0.007 * weighted) << type_info(type).name << ": too good to be true";
  }
}

TEST(Quantize, AnImportanceMatrixLowersTheWeightedError) {
  const std::vector<float> x = gaussian(4096, 5);
  std::vector<float> importance = gaussian(4096, 6);
  for (float& v : importance) v = std::exp(50 * v);
  const auto weighted = [&](const std::vector<float>& back) {
    double error = 0;
    for (size_t i = 0; i < x.size(); ++i) error += importance[i] * std::pow(double{x[i]} - back[i], 2);
    return error;
  };
  for (const TensorType type : writable_types()) {
    if (type_info(type).block_elements == 1) continue;
    const double with = weighted(round_trip(type, x, importance.data()));
    const double without = weighted(round_trip(type, x));
    const bool is_searched = type != TensorType::kQ8_0 && type != TensorType::kMXFP4;
    EXPECT_LT(with, is_searched ? 0.95 * without : 1.01 * without) << type_info(type).name;
  }
}

TEST(Quantize, ImportanceThatSaysNothingCountsAsEqual) {
  const std::vector<float> x = gaussian(512, 7);
  const std::vector<float> zeros(512, 0.0F);
  const std::vector<float> same(512, 0.125F);
  for (const TensorType type : writable_types()) {
    EXPECT_EQ(encoded(type, x, zeros.data()), encoded(type, x)) << type_info(type).name;
    EXPECT_EQ(encoded(type, x, same.data()), encoded(type, x)) << type_info(type).name;
  }
}

TEST(Quantize, FindsTheFirstValueThatIsNotFinite) {
  std::vector<float> x(40, 1.0F);
  EXPECT_EQ(find_non_finite(x.data(), 40), -1);
  x[33] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(find_non_finite(x.data(), 40), 33);
  x[7] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(find_non_finite(x.data(), 40), 7);
  std::vector<float> runs(600, 1.0F);
  EXPECT_EQ(find_non_finite(runs.data(), 600), -1);
  for (const int64_t at : {599, 512, 511, 256, 255, 0}) {
    runs[static_cast<size_t>(at)] = -std::numeric_limits<float>::infinity();
    EXPECT_EQ(find_non_finite(runs.data(), 600), at);
    EXPECT_EQ(find_non_finite(runs.data(), at), -1);
  }
  EXPECT_EQ(find_non_finite(x.data(), 7), -1);
}

TEST(Quantize, PlainTypesKeepWhatTheyCanHold) {
  const std::vector<float> x{0.0F, -0.0F, 1.5F, -2.25F, 0x1p-20F, 60000};
  EXPECT_EQ(std::memcmp(round_trip(TensorType::kF32, x).data(), x.data(), 24), 0);
  EXPECT_EQ(round_trip(TensorType::kF16, x), x);
  EXPECT_EQ(round_trip(TensorType::kBF16, {1.5F, -2.25F, 0x1p-130F}), (std::vector<float>{1.5F, -2.25F, 0x1p-130F}));
}

TEST(Quantize, WritesTheTypesThatCanBeWritten) {
  EXPECT_EQ(writable_types().size(), 23U);
  EXPECT_TRUE(can_quantize(TensorType::kIQ1_M));
  EXPECT_FALSE(can_quantize(TensorType::kTQ1_0));
  EXPECT_FALSE(can_quantize(TensorType::kI32));
  EXPECT_FALSE(can_quantize(TensorType::kQ8_1));
}

TEST(Quantize, ZerosStayZeroAndAlwaysGiveTheSameBytes) {
  const std::vector<float> x(512);
  for (const TensorType type : writable_types()) {
    for (const float back : round_trip(type, x)) EXPECT_EQ(back, 0.0F) << type_info(type).name;
    EXPECT_EQ(encoded(type, x), encoded(type, x));
  }
}

TEST(Quantize, EveryInstructionSetGivesTheSameBytes) {
#if defined(__x86_64__)
  if (!cpu_features().avx2) GTEST_SKIP() << "this processor has no AVX2";
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> x(2048);
  for (float& value : x) value = std::exp(normal(random)) * normal(random);
  for (size_t i = 512; i < 768; ++i) x[i] = static_cast<float>(static_cast<int>(i % 9) - 4);  // many ties
  for (size_t i = 768; i < 1024; ++i) x[i] = i % 40 == 0 ? 1e30F : 0.0F;
  std::vector<float> importance(x.size());
  for (float& v : importance) v = std::exp(2 * normal(random));
  for (const TensorType type : writable_types()) {
    for (const float* weights : std::initializer_list<const float*>{nullptr, importance.data()}) {
      std::vector<std::byte> bytes(encoded(type, x).size());
      const auto n = static_cast<int64_t>(x.size());
      find_encoder(type)(kBaselineSearch, x.data(), bytes.data(), n, weights);
      std::vector<std::byte> avx2(bytes.size());
      find_encoder(type)(kAvx2Search, x.data(), avx2.data(), n, weights);
      EXPECT_EQ(bytes, avx2) << type_info(type).name;
      EXPECT_EQ(encoded(type, x, weights), avx2) << type_info(type).name;
    }
  }
#endif
}

TEST(Quantize, AnEncodedGridIsReproduced) {
  // Values that lie on a grid of the format come back as they were.
  std::vector<float> x(256);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 7 % 16) - 8) * 0.25F;
  for (const TensorType type : {TensorType::kQ4_0, TensorType::kQ4_1, TensorType::kQ5_1}) {
    EXPECT_EQ(round_trip(type, x), x) << type_info(type).name;
  }
}

TEST(Quantize, EveryFiniteInputDecodesToFiniteValues) {
  constexpr float kMax = std::numeric_limits<float>::max();
  std::vector<std::vector<float>> rows;
  for (const float scale : {kMax, 1e30F, 7e6F, 1e-3F, 1e-8F, 1e-30F, 1e-38F, 1e-44F}) {
    std::vector<float> x(256);
    for (size_t i = 0; i < x.size(); ++i) x[i] = scale * (i % 3 == 0 ? -1.0F : 1.0F / static_cast<float>(1 + i % 7));
    rows.push_back(x);
    for (float& value : x) value = scale;
    rows.push_back(x);
    for (float& value : x) value = -scale;
    rows.push_back(x);
    x.assign(256, -0.0F);
    x[100] = scale;
    rows.push_back(x);
    x = gaussian(256, 8);
    x[77] = -scale;
    rows.push_back(x);
  }
  std::vector<float> huge(256, kMax);
  std::vector<float> one_column(256, 0.0F);
  one_column[3] = 1e-44F;
  for (const TensorType type : writable_types()) {
    if (type == TensorType::kF16 || type == TensorType::kBF16) continue;  // these round as their format says
    for (const std::vector<float>& x : rows) {
      for (const float* importance : std::initializer_list<const float*>{nullptr, huge.data(), one_column.data()}) {
        const std::vector<std::byte> bytes = encoded(type, x, importance);
        EXPECT_EQ(find_non_finite_block(type, bytes.data(), 256), -1) << type_info(type).name << ", " << x[100];
        EXPECT_EQ(find_non_finite(round_trip(type, x, importance).data(), 256), -1) << type_info(type).name;
      }
    }
  }
}

TEST(Quantize, OneOutlierSpoilsItsOwnBlockOnly) {
  std::vector<float> x = gaussian(768, 9);
  const std::vector<float> plain = x;
  x[300] = 1e30F;
  for (const TensorType type : writable_types()) {
    const std::vector<float> with = round_trip(type, x);
    const std::vector<float> without = round_trip(type, plain);
    for (size_t i = 0; i < 768; ++i) {
      if (i / 256 == 1) continue;
      EXPECT_EQ(with[i], without[i]) << type_info(type).name;
    }
    EXPECT_GT(with[300], 1e4F) << type_info(type).name << ": as near as its scale can get";
  }
}

TEST(Quantize, ErrorOfAnElementIsBoundedByItsBlock) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> x(4096);
  for (float& value : x) value = std::exp(2 * normal(random)) * normal(random);
  for (const TensorType type : writable_types()) {
    const std::vector<float> back = round_trip(type, x);
    const auto block = static_cast<size_t>(type_info(type).block_elements);
    const bool is_coarse = 8 * type_info(type).block_bytes < 3 * type_info(type).block_elements;  // below three bits
    for (size_t first = 0; first < x.size(); first += block) {
      float max = 0;
      for (size_t i = first; i < first + block; ++i) max = std::max(max, std::abs(x[i]));
      for (size_t i = first; i < first + block; ++i) {
        EXPECT_LE(std::abs(x[i] - back[i]), max * (is_coarse ? 0.75F : 0.5F)) << type_info(type).name;
      }
    }
  }
}

}  // namespace
}  // namespace kda
