#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace kda {
namespace {

// clang 14 has no 16-bit float on x86-64.
#if defined(__aarch64__)
using CompilerHalf = __fp16;
#elif !defined(__clang__)
using CompilerHalf = _Float16;
#endif

TEST(Half, EveryF16PatternSurvivesARoundTrip) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const float x = f16_to_float(static_cast<uint16_t>(h));
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(x))));
    } else {
      ASSERT_EQ(float_to_f16(x), h);
    }
  }
}

TEST(Half, F16AgreesWithTheCompilersConversion) {
#if defined(__clang__) && !defined(__aarch64__)
  GTEST_SKIP() << "this compiler has no 16-bit float";
#else
  uint32_t bits = 12345;
  for (int i = 0; i < 1'000'000; ++i) {
    bits = bits * 1664525U + 1013904223U;
    const float x = std::bit_cast<float>(bits);
    if (std::isnan(x)) continue;
    const auto expected = std::bit_cast<uint16_t>(static_cast<CompilerHalf>(x));
    ASSERT_EQ(float_to_f16(x), expected) << x;
  }
#endif
}

TEST(Half, Bf16RoundsTiesToEven) {
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F808000U)), 0x3F80);  // half way, even below
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F818000U)), 0x3F82);  // half way, even above
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F808001U)), 0x3F81);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x7F7FFFFFU)), 0x7F80);  // overflows to infinity
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7F800001U)))));
}

}  // namespace
}  // namespace kda
