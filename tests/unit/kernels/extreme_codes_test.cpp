#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/half.h"
#include "kernel_sets.h"
#include "quant/codec.h"
#include "support/random_blocks.h"

namespace kda {
namespace {

using Param = std::tuple<const char*, TensorType>;

std::vector<TensorType> types_with_integer_products() {
  std::vector<TensorType> types;
  for (uint32_t number = 0; number < kTensorTypeCount; ++number) {
    if (scalar_kernels().matmul[number].format != ActFormat::kF32) types.push_back(TensorType{number});
  }
  return types;
}

// Sums of products in 16 bits are one step from overflow where all codes are as large as they can be.
class ExtremeCodesTest : public testing::TestWithParam<Param> {};

TEST_P(ExtremeCodesTest, DoNotOverflow) {
  const KernelTable* kernels = test::find_kernel_set(std::get<0>(GetParam()));
  if (kernels == nullptr) GTEST_SKIP() << std::get<0>(GetParam()) << " is not built in or not supported here";
  const TensorType type = std::get<1>(GetParam());
  const TensorTypeInfo& info = type_info(type);
  const MatmulKernel& product = kernels->matmul[static_cast<uint32_t>(type)];
  constexpr int64_t kK = 512;
  constexpr int64_t kTokens = 5;
  const int64_t block = product.format == ActFormat::kQ8Block32 ? 32 : 256;

  for (const int fill : {0x00, 0xFF, 0x7F, 0x80, 0x81, 0x0F, 0xF0, 0x77, 0x88, 0x55, 0xAA}) {
    std::vector<std::byte> row(static_cast<size_t>(row_bytes(type, kK)), std::byte(fill));
    for (int64_t b = 0; b < kK / info.block_elements; ++b) {
      for (const int64_t offset : test::f16_scale_offsets(type)) {
        const uint16_t d = float_to_f16(0.5F);
        std::memcpy(row.data() + b * info.block_bytes + offset, &d, sizeof d);
      }
      if (type == TensorType::kMXFP4) row[static_cast<size_t>(b * info.block_bytes)] = std::byte{127};
    }
    std::vector<float> w(kK);
    dequantize_row(type, row.data(), w.data(), kK);

    // Tokens: all 127, all -127, and each with the sign of the weight, so that nothing cancels.
    std::vector<int8_t> codes(kTokens * kK);
    for (int64_t i = 0; i < kK; ++i) {
      const int with_sign = w[static_cast<size_t>(i)] < 0 ? -127 : 127;
      const int of_token[kTokens] = {127, -127, with_sign, -with_sign, i % 2 == 0 ? 127 : -127};
      for (int64_t t = 0; t < kTokens; ++t) codes[static_cast<size_t>(t * kK + i)] = static_cast<int8_t>(of_token[t]);
    }
    std::vector<int16_t> sums(kTokens * kK / 16);
    for (size_t i = 0; i < codes.size(); ++i) sums[i / 16] = static_cast<int16_t>(sums[i / 16] + codes[i]);
    const std::vector<float> scales(static_cast<size_t>(kTokens * kK / block), 1.0F);
    const AlignedBuffer scratch(static_cast<size_t>(matmul_scratch_bytes(kK)));

    for (const int64_t n : {int64_t{1}, kTokens}) {
      for (int64_t first = 0; first + n <= kTokens; ++first) {
        float y[kTokens] = {};
        MatmulArgs args;
        args.w = row.data();
        args.w_row_bytes = row_bytes(type, kK);
        args.k = kK;
        args.row_end = 1;
        args.x.codes = codes.data() + first * kK;
        args.x.scales = scales.data() + first * kK / block;
        args.x.sums = sums.data() + first * kK / 16;
        args.n = n;
        args.y = y;
        args.y_stride = 1;
        args.scratch = scratch.data();
        product.fn(args);
        for (int64_t t = 0; t < n; ++t) {
          double expected = 0;
          double magnitude = 0;
          for (int64_t i = 0; i < kK; ++i) {
            const double term = double{w[static_cast<size_t>(i)]} * codes[static_cast<size_t>((first + t) * kK + i)];
            expected += term;
            magnitude += std::abs(term);
          }
          // The minimum may cancel with the rest: its part is at most 63 * 0.5 a code.
          magnitude += 2 * 31.5 * 127 * kK;
          EXPECT_NEAR(y[t], expected, 40 * test::kUnit * magnitude) << "bytes " << fill << " token " << first + t;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, ExtremeCodesTest,
                         testing::Combine(testing::ValuesIn(test::kKernelSets),
                                          testing::ValuesIn(types_with_integer_products())),
                         [](const testing::TestParamInfo<Param>& param) {
                           return std::string(std::get<0>(param.param)) + "_" +
                                  std::string(type_info(std::get<1>(param.param)).name);
                         });

}  // namespace
}  // namespace kda
