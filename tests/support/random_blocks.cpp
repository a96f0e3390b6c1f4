#include "support/random_blocks.h"

#include <cstring>

#include "base/half.h"

namespace kda::test {

std::span<const int64_t> f16_scale_offsets(TensorType type) {
  using T = TensorType;
  static constexpr int64_t kFirst[] = {0};
  static constexpr int64_t kFirstTwo[] = {0, 2};
  static constexpr int64_t kQ2K[] = {80, 82};
  static constexpr int64_t kQ3K[] = {108};
  static constexpr int64_t kQ6K[] = {208};
  static constexpr int64_t kTq1[] = {52};
  static constexpr int64_t kTq2[] = {64};
  switch (type) {
    case T::kQ4_1:
    case T::kQ5_1:
    case T::kQ4_K:
    case T::kQ5_K:
      return kFirstTwo;
    case T::kQ2_K:
      return kQ2K;
    case T::kQ3_K:
      return kQ3K;
    case T::kQ6_K:
      return kQ6K;
    case T::kTQ1_0:
      return kTq1;
    case T::kTQ2_0:
      return kTq2;
    case T::kF32:
    case T::kBF16:
    case T::kMXFP4:
    case T::kNVFP4:
    case T::kIQ1_M:
      return {};
    default:
      return kFirst;
  }
}

void fill_random_row(TensorType type, int64_t n, std::mt19937& random, std::byte* row) {
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> magnitude(0.002F, 0.02F);
  const auto scale = [&] { return random() % 2 == 0 ? magnitude(random) : -magnitude(random); };
  const TensorTypeInfo& info = type_info(type);
  for (int64_t b = 0; b < n / info.block_elements; ++b, row += info.block_bytes) {
    if (type == TensorType::kF32) {
      const float x = normal(random);
      std::memcpy(row, &x, sizeof x);
      continue;
    }
    if (type == TensorType::kF16 || type == TensorType::kBF16) {
      const uint16_t h = type == TensorType::kF16 ? float_to_f16(normal(random)) : float_to_bf16(normal(random));
      std::memcpy(row, &h, sizeof h);
      continue;
    }
    for (int64_t i = 0; i < info.block_bytes; ++i) row[i] = static_cast<std::byte>(random() & 255);
    for (const int64_t offset : f16_scale_offsets(type)) {
      const uint16_t h = float_to_f16(scale());
      std::memcpy(row + offset, &h, sizeof h);
    }
    if (type == TensorType::kMXFP4) row[0] = static_cast<std::byte>(120 + random() % 8);
    if (type == TensorType::kNVFP4) {
      for (int i = 0; i < 4; ++i) row[i] = static_cast<std::byte>(random() % 0x48);
    }
    if (type == TensorType::kIQ1_M) {  // the scale is spread over the top nibbles of the last four words
      const uint16_t h = float_to_f16(scale());
      for (int i = 0; i < 4; ++i) {
        const auto low = static_cast<uint8_t>(random() & 15);
        row[49 + 2 * i] = static_cast<std::byte>(low | (h >> 4 * i & 15) << 4);
      }
    }
  }
}

}  // namespace kda::test
