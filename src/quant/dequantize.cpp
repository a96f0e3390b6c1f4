#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "quant/blocks.h"
#include "quant/codec.h"

namespace kda {

namespace {

void decode(const BlockQ8_0& b, float* out) {
  const float d = f16_to_float(b.d);
  for (int i = 0; i < 32; ++i) out[i] = d * b.qs[i];
}

template <typename Block, int kElements>
void decode_blocks(const std::byte* src, float* dst, int64_t n) {
  const auto* blocks = reinterpret_cast<const Block*>(src);
  for (int64_t b = 0; b < n / kElements; ++b) decode(blocks[b], dst + b * kElements);
}

template <float (*convert)(uint16_t)>
void decode_halves(const std::byte* src, float* dst, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t h;
    std::memcpy(&h, src + 2 * i, 2);
    dst[i] = convert(h);
  }
}

}  // namespace

void dequantize_row(TensorType type, const std::byte* src, float* dst, int64_t n) noexcept {
  switch (type) {
    case TensorType::kF32:
      std::memcpy(dst, src, static_cast<size_t>(n) * 4);
      return;
    case TensorType::kF16:
      return decode_halves<f16_to_float>(src, dst, n);
    case TensorType::kBF16:
      return decode_halves<bf16_to_float>(src, dst, n);
    case TensorType::kQ8_0:
      return decode_blocks<BlockQ8_0, 32>(src, dst, n);
    default:
      KDA_CHECK(!"a weight type");
  }
}

}  // namespace kda
