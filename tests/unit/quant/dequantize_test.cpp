#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/half.h"
#include "quant/blocks.h"
#include "quant/codec.h"
#include "support/shared_data.h"

namespace kda {
namespace {

std::vector<std::byte> from_base64(const std::string& text) {
  std::vector<std::byte> bytes;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(kDigits.find(c));
    n_bits += 6;
    if (n_bits >= 8) {
      n_bits -= 8;
      bytes.push_back(static_cast<std::byte>(bits >> n_bits & 255));
    }
  }
  return bytes;
}

template <typename Block>
std::vector<float> decoded(TensorType type, const Block& block) {
  std::vector<float> out(static_cast<size_t>(type_info(type).block_elements));
  EXPECT_EQ(static_cast<int64_t>(sizeof block), type_info(type).block_bytes);
  dequantize_row(type, reinterpret_cast<const std::byte*>(&block), out.data(), type_info(type).block_elements);
  return out;
}

TEST(Dequantize, GivesThePublishedValuesBitForBit) {
  KDA_SHARED_OR_SKIP(shared);
  const auto goldens = nlohmann::json::parse(std::ifstream(shared / "data/goldens/ggml-blocks.json"));
  int n_types = 0;
  for (const auto& [name, golden] : goldens.at("types").items()) {
    SCOPED_TRACE(name);
    const auto type = parse_tensor_type(name);
    ASSERT_TRUE(type.has_value());
    const TensorTypeInfo& info = type_info(*type);
    EXPECT_EQ(static_cast<int64_t>(info.type), golden.at("ggml_type"));
    EXPECT_EQ(info.block_elements, golden.at("elements_per_block"));
    EXPECT_EQ(info.block_bytes, golden.at("bytes_per_block"));

    const auto blocks = from_base64(golden.at("blocks_base64"));
    const auto values = from_base64(golden.at("values_f32_base64"));
    ASSERT_FALSE(blocks.empty());
    const auto n = static_cast<int64_t>(blocks.size()) / info.block_bytes * info.block_elements;
    ASSERT_EQ(static_cast<int64_t>(values.size()), n * 4);
    std::vector<float> out(static_cast<size_t>(n));
    dequantize_row(*type, blocks.data(), out.data(), n);
    EXPECT_EQ(std::memcmp(out.data(), values.data(), values.size()), 0);
    EXPECT_EQ(find_non_finite_block(*type, blocks.data(), n), -1);
    ++n_types;
  }
  EXPECT_EQ(n_types, 25);
}

TEST(Dequantize, ReadsRowsAtAnyAddress) {
  std::vector<std::byte> bytes(4 * 210 + 3);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 % 101);
  for (uint32_t number = 0; number < kTensorTypeCount; ++number) {
    const TensorTypeInfo* info = find_tensor_type(number);
    if (info == nullptr || !info->is_weight) continue;
    std::vector<float> aligned(static_cast<size_t>(info->block_elements));
    std::vector<float> shifted(aligned.size());
    dequantize_row(info->type, bytes.data(), aligned.data(), info->block_elements);
    std::vector<std::byte> copy(bytes.size() + 1);
    std::memcpy(copy.data() + 1, bytes.data(), bytes.size());
    dequantize_row(info->type, copy.data() + 1, shifted.data(), info->block_elements);
    EXPECT_EQ(std::memcmp(aligned.data(), shifted.data(), aligned.size() * 4), 0) << info->name;
  }
}

TEST(Dequantize, Q1_0IsPlusOrMinusTheScale) {
  BlockQ1_0 block{};
  block.d = float_to_f16(1.5F);
  block.qs[0] = 0b00000101;
  block.qs[15] = 0b10000000;
  const auto x = decoded(TensorType::kQ1_0, block);
  for (size_t i = 0; i < 128; ++i) EXPECT_EQ(x[i], i == 0 || i == 2 || i == 127 ? 1.5F : -1.5F) << i;
}

TEST(Dequantize, Q2_0KeepsNeighboursInOneByte) {
  BlockQ2_0 block{};
  block.d = float_to_f16(-0.5F);
  block.qs[0] = 0b11100100;  // codes 0, 1, 2, 3
  block.qs[15] = 0b01000000;
  const auto x = decoded(TensorType::kQ2_0, block);
  EXPECT_EQ(x[0], 0.5F);
  EXPECT_EQ(x[1], 0.0F);
  EXPECT_EQ(x[2], -0.5F);
  EXPECT_EQ(x[3], -1.0F);
  for (size_t i = 4; i < 63; ++i) EXPECT_EQ(x[i], 0.5F);
  EXPECT_EQ(x[63], 0.0F);
}

TEST(Dequantize, Mxfp4ScalesAreExactForEveryByte) {
  for (int e = 0; e < 255; ++e) {
    BlockMXFP4 block{};
    block.e = static_cast<uint8_t>(e);
    block.qs[0] = 0x12;   // element 0: code 2, element 16: code 1
    block.qs[15] = 0xF8;  // element 15: code 8, element 31: code 15
    const auto x = decoded(TensorType::kMXFP4, block);
    EXPECT_EQ(x[0], static_cast<float>(std::ldexp(1.0, e - 127))) << e;    // 1.0
    EXPECT_EQ(x[16], static_cast<float>(std::ldexp(0.5, e - 127))) << e;   // 0.5
    EXPECT_EQ(std::bit_cast<uint32_t>(x[15]), 0U) << e;                    // minus zero counts as zero
    EXPECT_EQ(x[31], static_cast<float>(std::ldexp(-6.0, e - 127))) << e;  // infinite from e = 253 up
    EXPECT_EQ(x[1], 0.0F);
    EXPECT_EQ(find_non_finite_block(TensorType::kMXFP4, reinterpret_cast<const std::byte*>(&block), 32), -1);
  }
}

TEST(Dequantize, Nvfp4ScalesAreExactForEveryByte) {
  for (int u = 0; u < 256; ++u) {
    BlockNVFP4 block{};
    for (auto& d : block.d) d = 0x38;  // 1.0
    block.d[1] = static_cast<uint8_t>(u);
    block.qs[8] = 0x7A;  // element 16: code 10 (-1), element 24: code 7 (6)
    block.qs[31] = 0x50;
    const int exponent = u >> 3 & 15;
    const double mantissa = u & 7;
    double scale = exponent == 0 ? mantissa * 0x1p-9 : std::ldexp(1 + mantissa / 8, exponent - 7);
    if (u == 0x7F) scale = 0;
    const auto x = decoded(TensorType::kNVFP4, block);
    EXPECT_EQ(x[16], static_cast<float>(-scale)) << u;
    EXPECT_EQ(x[24], static_cast<float>(6 * scale)) << u;
    EXPECT_EQ(x[63], 3.0F);
  }
}

TEST(Dequantize, ScalesMayBeNegativeInfiniteOrNan) {
  BlockQ4_0 block{};
  for (auto& q : block.qs) q = 0x0F;  // 7 and -8
  block.d = float_to_f16(-2);
  EXPECT_EQ(decoded(TensorType::kQ4_0, block)[0], -14.0F);
  EXPECT_EQ(decoded(TensorType::kQ4_0, block)[16], 16.0F);
  block.d = 0xFC00;
  EXPECT_EQ(decoded(TensorType::kQ4_0, block)[0], -INFINITY);
  block.d = 0x7E00;
  EXPECT_TRUE(std::isnan(decoded(TensorType::kQ4_0, block)[0]));
}

// Where the f16 fields of a scale lie in a block, for all types that have some.
struct ScaleField {
  TensorType type;
  int64_t offset;
};
constexpr ScaleField kScaleFields[] = {
    {TensorType::kF16, 0},     {TensorType::kQ4_0, 0},    {TensorType::kQ4_1, 0},   {TensorType::kQ4_1, 2},
    {TensorType::kQ5_0, 0},    {TensorType::kQ5_1, 0},    {TensorType::kQ5_1, 2},   {TensorType::kQ8_0, 0},
    {TensorType::kIQ4_NL, 0},  {TensorType::kQ2_K, 80},   {TensorType::kQ2_K, 82},  {TensorType::kQ3_K, 108},
    {TensorType::kQ4_K, 0},    {TensorType::kQ4_K, 2},    {TensorType::kQ5_K, 0},   {TensorType::kQ5_K, 2},
    {TensorType::kQ6_K, 208},  {TensorType::kIQ2_XXS, 0}, {TensorType::kIQ2_XS, 0}, {TensorType::kIQ2_S, 0},
    {TensorType::kIQ3_XXS, 0}, {TensorType::kIQ3_S, 0},   {TensorType::kIQ1_S, 0},  {TensorType::kIQ4_XS, 0},
    {TensorType::kTQ1_0, 52},  {TensorType::kTQ2_0, 64},  {TensorType::kQ1_0, 0},   {TensorType::kQ2_0, 0},
};

TEST(FindNonFiniteBlock, SeesEveryScaleField) {
  for (const auto& [type, offset] : kScaleFields) {
    const TensorTypeInfo& info = type_info(type);
    std::vector<std::byte> row(static_cast<size_t>(3 * info.block_bytes));
    EXPECT_EQ(find_non_finite_block(type, row.data(), 3 * info.block_elements), -1) << info.name;
    for (const uint16_t bits : std::vector<uint16_t>{0x7C00, 0xFC00, 0x7E01}) {
      std::memcpy(row.data() + 2 * info.block_bytes + offset, &bits, 2);
      EXPECT_EQ(find_non_finite_block(type, row.data(), 3 * info.block_elements), 2) << info.name << " at " << offset;
    }
    const uint16_t largest = 0x7BFF;
    std::memcpy(row.data() + 2 * info.block_bytes + offset, &largest, 2);
    EXPECT_EQ(find_non_finite_block(type, row.data(), 3 * info.block_elements), -1) << info.name;
  }
}

TEST(FindNonFiniteBlock, SeesFloatsAndOddScales) {
  const float floats[] = {1, 3e38F, -0.0F, NAN, INFINITY};
  const auto* bytes = reinterpret_cast<const std::byte*>(floats);
  EXPECT_EQ(find_non_finite_block(TensorType::kF32, bytes, 3), -1);
  EXPECT_EQ(find_non_finite_block(TensorType::kF32, bytes, 5), 3);
  const uint16_t bf16[] = {0x3F80, 0x7F7F, 0x7F80};
  EXPECT_EQ(find_non_finite_block(TensorType::kBF16, reinterpret_cast<const std::byte*>(bf16), 3), 2);
  BlockMXFP4 mxfp4{};
  mxfp4.e = 255;
  EXPECT_EQ(find_non_finite_block(TensorType::kMXFP4, reinterpret_cast<const std::byte*>(&mxfp4), 32), 0);
  BlockIQ1_M iq1_m{};
  iq1_m.scales[2] = 0xC000;
  iq1_m.scales[3] = 0x7000;
  EXPECT_EQ(find_non_finite_block(TensorType::kIQ1_M, reinterpret_cast<const std::byte*>(&iq1_m), 256), 0);
  iq1_m.scales[2] = 0x8000;
  EXPECT_EQ(find_non_finite_block(TensorType::kIQ1_M, reinterpret_cast<const std::byte*>(&iq1_m), 256), -1);
}

}  // namespace
}  // namespace kda
