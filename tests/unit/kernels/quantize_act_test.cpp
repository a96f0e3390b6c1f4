#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernel_sets.h"
#include "support/guarded_buffer.h"

namespace kda {
namespace {

struct Quantized {
  std::vector<int8_t> codes;
  std::vector<float> scales;
  std::vector<int16_t> sums;
};

class QuantizeActTest : public test::KernelSetTest {
 protected:
  // Input and outputs end at an unreadable page.
  static Quantized run(const KernelTable& kernels, int block, const std::vector<float>& x) {
    const size_t k = x.size();
    const test::GuardedBuffer in(k * 4);
    const test::GuardedBuffer codes(k);
    const test::GuardedBuffer scales(k / static_cast<size_t>(block) * 4);
    const test::GuardedBuffer sums(k / 16 * 2);
    std::memcpy(in.data(), x.data(), k * 4);
    const QuantizeActFn fn = block == 32 ? kernels.quantize_block32 : kernels.quantize_block256;
    fn(in.as<float>(), static_cast<int64_t>(k), codes.as<int8_t>(), scales.as<float>(), sums.as<int16_t>());
    return {{codes.as<int8_t>(), codes.as<int8_t>() + k},
            {scales.as<float>(), scales.as<float>() + k / static_cast<size_t>(block)},
            {sums.as<int16_t>(), sums.as<int16_t>() + k / 16}};
  }

  Quantized run(int block, const std::vector<float>& x) const { return run(*kernels, block, x); }
};

TEST_P(QuantizeActTest, CodesAreTheNearestOfTheBlocksGrid) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const int block : {32, 256}) {
    std::vector<float> x(static_cast<size_t>(9 * 256));
    for (float& v : x) v = normal(random) * std::exp(3 * normal(random));
    const Quantized q = run(block, x);
    for (size_t b = 0; b < x.size() / static_cast<size_t>(block); ++b) {
      const size_t first = b * static_cast<size_t>(block);
      float max = 0;
      for (size_t i = first; i < first + static_cast<size_t>(block); ++i) max = std::max(max, std::abs(x[i]));
      EXPECT_EQ(q.scales[b], max / 127);
      int largest = 0;
      for (size_t i = first; i < first + static_cast<size_t>(block); ++i) {
        EXPECT_LE(std::abs(x[i] - double{q.scales[b]} * q.codes[i]), double{q.scales[b]} * (0.5 + 1e-4));
        largest = std::max(largest, std::abs(int{q.codes[i]}));
      }
      EXPECT_EQ(largest, 127);
    }
    for (size_t g = 0; g < q.sums.size(); ++g) {
      int sum = 0;
      for (size_t i = 0; i < 16; ++i) sum += q.codes[16 * g + i];
      EXPECT_EQ(q.sums[g], sum);
    }
  }
}

TEST_P(QuantizeActTest, RoundsTiesToEven) {
  std::vector<float> x(256);
  x[0] = -127;  // the scale is 1
  const float ties[] = {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F, 126.5F, -125.5F};
  const int expected[] = {0, 2, 2, 0, -2, -2, 126, -126};
  std::memcpy(x.data() + 1, ties, sizeof ties);
  for (const int block : {32, 256}) {
    const Quantized q = run(block, x);
    EXPECT_EQ(q.codes[0], -127);
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(q.codes[1 + i], expected[i]) << ties[i];
  }
}

TEST_P(QuantizeActTest, AZeroOrTinyBlockHasScaleZero) {
  for (const int block : {32, 256}) {
    std::vector<float> x(512);
    x[3] = 0x1p-101F;
    x[7] = -std::numeric_limits<float>::denorm_min();
    x[9] = -0.0F;
    const Quantized q = run(block, x);
    for (const float s : q.scales) EXPECT_EQ(s, 0.0F);
    for (const int8_t c : q.codes) EXPECT_EQ(c, 0);
    for (const int16_t s : q.sums) EXPECT_EQ(s, 0);
  }
}

TEST_P(QuantizeActTest, HugeValuesKeepTheirCodesInRange) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (const int block : {32, 256}) {
    std::vector<float> x(512, -kLargest);
    x[5] = kLargest;
    x[6] = kLargest / 2;
    const Quantized q = run(block, x);
    EXPECT_EQ(q.codes[0], -127);
    EXPECT_EQ(q.codes[5], 127);
    EXPECT_TRUE(q.codes[6] == 63 || q.codes[6] == 64);
    EXPECT_EQ(q.scales[0], kLargest / 127);
    EXPECT_EQ(q.sums[16], -127 * 16);
  }
}

TEST_P(QuantizeActTest, ANonFiniteElementMakesTheScaleNonFinite) {
  for (const int block : {32, 256}) {
    for (const float bad : {std::nanf(""), -std::nanf(""), INFINITY, -INFINITY}) {
      std::vector<float> x(512, 1.0F);
      x[256 + 17] = bad;
      const Quantized q = run(block, x);
      EXPECT_EQ(q.scales[0], 1.0F / 127);
      EXPECT_FALSE(std::isfinite(q.scales[256 / static_cast<size_t>(block)]));
      for (size_t i = 256; i < 256 + static_cast<size_t>(block); ++i) EXPECT_EQ(q.codes[i], 0);
      EXPECT_EQ(q.sums[16], 0);
    }
  }
}

TEST_P(QuantizeActTest, AgreesWithTheScalarSetBitForBit) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (const int block : {32, 256}) {
    for (int round = 0; round < 50; ++round) {
      std::vector<float> x(static_cast<size_t>(256 * (1 + round % 5)));
      const float scale = std::exp(20 * normal(random));
      for (float& v : x) v = round % 2 == 0 ? scale * normal(random) : std::round(4 * normal(random)) / 2;
      const Quantized ours = run(block, x);
      const Quantized expected = run(scalar_kernels(), block, x);
      EXPECT_EQ(ours.codes, expected.codes);
      EXPECT_EQ(ours.scales, expected.scales);
      EXPECT_EQ(ours.sums, expected.sums);
    }
  }
}

KDA_FOR_EVERY_KERNEL_SET(QuantizeActTest);

}  // namespace
}  // namespace kda
