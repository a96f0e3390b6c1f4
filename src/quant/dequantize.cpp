#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "quant/blocks.h"
#include "quant/codec.h"
#include "quant/iq_tables.h"
#include "quant/unpack.h"

namespace kda {

namespace {

// A product of all factors of an element has at most 24 significant bits, so it is exact in float whatever the order;
// only the sign of a zero depends on it. Codes are therefore made floats first, scaled, and given their sign last.

template <typename Block>
constexpr int kElements = 256;
template <>
constexpr int kElements<BlockQ1_0> = 128;
template <>
constexpr int kElements<BlockQ2_0> = 64;
template <>
constexpr int kElements<BlockNVFP4> = 64;

template <typename Block>
void decode32(const std::byte* src, float* out, int64_t n) {
  const auto* blocks = reinterpret_cast<const Block*>(src);
  for (int64_t b = 0; b < n / 32; ++b, out += 32) {
    Unpacked32 u;
    unpack(blocks[b], u);
    for (int i = 0; i < 32; ++i) {
      out[i] = u.d * u.code[i];
      if constexpr (kHasMin<Block>) out[i] += u.m;
    }
  }
}

template <typename Block>
void decode256(const std::byte* src, float* out, int64_t n) {
  const auto* blocks = reinterpret_cast<const Block*>(src);
  for (int64_t b = 0; b < n / 256; ++b) {
    Unpacked256 u;
    unpack(blocks[b], u);
    for (int g = 0; g < 16; ++g, out += 16) {
      const float scale = u.d * u.scale[g];
      for (int i = 0; i < 16; ++i) {
        out[i] = scale * u.code[16 * g + i];
        if constexpr (kHasMin<Block>) out[i] -= u.dmin * u.min[g];
      }
    }
  }
}

// The types below have no integer product and go straight to floats.

// -1 where bit j of the mask is set.
float sign(uint32_t mask, int j) { return mask >> j & 1 ? -1.0F : 1.0F; }

// Seven stored sign bits to eight: the number of minus signs is even.
uint32_t even_signs(uint32_t s) { return s | static_cast<uint32_t>(std::popcount(s) & 1) << 7; }

// Nibble k of an array.
int nibble(const uint8_t* bytes, int k) { return bytes[k / 2] >> 4 * (k % 2) & 15; }

// Eight elements of an IQ2 grid.
void decode_iq2_group(float scale, uint16_t row, uint32_t signs, float* out) {
  for (int j = 0; j < 8; ++j) out[j] = scale * kIq2Levels[row >> 2 * j & 3] * sign(signs, j);
}

// Four elements of an IQ3 grid.
void decode_iq3_quad(float scale, uint16_t row, const float* levels, uint32_t signs, float* out) {
  for (int j = 0; j < 4; ++j) out[j] = scale * levels[row >> 3 * j & 7] * sign(signs, j);
}

// Eight elements of the IQ1 grid.
void decode_iq1_group(float scale, uint16_t row, float delta, float* out) {
  for (int j = 0; j < 8; ++j) out[j] = scale * (kIq1Levels[row >> 2 * j & 3] + delta);
}

void decode(const BlockQ1_0& b, float* out) {
  const float d = f16_to_float(b.d);
  for (int i = 0; i < 128; ++i) out[i] = b.qs[i / 8] >> i % 8 & 1 ? d : -d;
}

void decode(const BlockQ2_0& b, float* out) {
  const float d = f16_to_float(b.d);
  for (int i = 0; i < 64; ++i) out[i] = d * static_cast<float>((b.qs[i / 4] >> 2 * (i % 4) & 3) - 1);
}

// Half of the UE4M3 value, because kFp4Levels are doubled. Bit 7 is ignored, 0x7F alone stands for 0.
float nvfp4_scale(uint8_t u) {
  if (u == 0x7F) return 0;
  const int exponent = u >> 3 & 15;
  const auto mantissa = static_cast<float>(u & 7);
  if (exponent == 0) return mantissa * 0x1p-10F;
  return (8 + mantissa) * std::bit_cast<float>((exponent - 7 - 3 - 1 + 127) << 23);
}

void decode(const BlockNVFP4& b, float* out) {
  for (int i = 0; i < 64; ++i) {
    const int group = i / 16;
    out[i] = nvfp4_scale(b.d[group]) * kFp4Levels[b.qs[8 * group + i % 8] >> 4 * (i % 16 / 8) & 15];
  }
}

void decode(const BlockIQ2_XXS& b, float* out) {
  const float d = f16_to_float(b.d);
  for (int e = 0; e < 32; ++e) {
    const uint32_t word = b.groups[e / 4].signs_scale;  // 4 sign indices of 7 bits, scale of 4 bits
    const float scale = d * (0.5F + static_cast<float>(word >> 28)) * 0.25F;
    decode_iq2_group(scale, kIq2XxsGrid[b.groups[e / 4].index[e % 4]], even_signs(word >> 7 * (e % 4) & 127),
                     out + 8 * e);
  }
}

void decode(const BlockIQ2_XS& b, float* out) {
  const float d = f16_to_float(b.d);
  for (int e = 0; e < 32; ++e) {
    const float scale = d * (0.5F + static_cast<float>(nibble(b.scales, e / 2))) * 0.25F;
    decode_iq2_group(scale, kIq2XsGrid[b.qs[e] & 511], even_signs(b.qs[e] >> 9), out + 8 * e);
  }
}

void decode(const BlockIQ2_S& b, float* out) {
  const float d = f16_to_float(b.d);
  for (int e = 0; e < 32; ++e) {
    const float scale = d * (0.5F + static_cast<float>(nibble(b.scales, e / 2))) * 0.25F;
    const int high = b.qh[e / 4] >> 2 * (e % 4) & 3;
    decode_iq2_group(scale, kIq2SGrid[b.qs[e] | high << 8], b.signs[e], out + 8 * e);
  }
}

void decode(const BlockIQ3_XXS& b, float* out) {
  const float d = f16_to_float(b.d);
  for (int t = 0; t < 64; ++t) {
    const uint32_t word = b.signs_scale[t / 8];  // laid out as in IQ2_XXS; a sign index covers two quads
    const float scale = d * (0.5F + static_cast<float>(word >> 28)) * 0.5F;
    const uint32_t signs = even_signs(word >> 7 * (t % 8 / 2) & 127) >> 4 * (t % 2);
    decode_iq3_quad(scale, kIq3XxsGrid[b.qs[t]], kIq3XxsLevels, signs, out + 4 * t);
  }
}

void decode(const BlockIQ3_S& b, float* out) {
  const float d = f16_to_float(b.d);
  for (int t = 0; t < 64; ++t) {
    const float scale = d * static_cast<float>(1 + 2 * nibble(b.scales, t / 8));
    const int high = b.qh[t / 8] >> t % 8 & 1;
    decode_iq3_quad(scale, kIq3SGrid[b.qs[t] | high << 8], kIq3SLevels, uint32_t{b.signs[t / 2]} >> 4 * (t % 2),
                    out + 4 * t);
  }
}

void decode(const BlockIQ1_S& b, float* out) {
  const float d = f16_to_float(b.d);
  for (int e = 0; e < 32; ++e) {
    const int word = b.qh[e / 4];  // 4 times 3 high bits of the row, scale of 3 bits, sign of the shift
    const float scale = d * static_cast<float>(2 * (word >> 12 & 7) + 1);
    const int row = b.qs[e] | (word >> 3 * (e % 4) & 7) << 8;
    decode_iq1_group(scale, kIq1SGrid[row], word & 0x8000 ? -kIq1Delta : kIq1Delta, out + 8 * e);
  }
}

void decode(const BlockIQ1_M& b, float* out) {
  const float d = f16_to_float(iq1_m_scale_bits(b));
  for (int e = 0; e < 32; ++e) {
    const int group = e / 2;  // of 16
    const float scale = d * static_cast<float>(2 * (b.scales[group / 4] >> 3 * (group % 4) & 7) + 1);
    const int high = nibble(b.qh, e);  // 3 high bits of the row, sign of the shift
    decode_iq1_group(scale, kIq1SGrid[b.qs[e] | (high & 7) << 8], high & 8 ? -kIq1Delta : kIq1Delta, out + 8 * e);
  }
}

// Trit n of a byte that holds a fraction in base 3, most significant first: -1, 0 or 1.
float trit(uint8_t byte, int n) {
  constexpr uint8_t kPowers[5] = {1, 3, 9, 27, 81};
  const auto shifted = static_cast<uint8_t>(byte * kPowers[n]);
  return static_cast<float>((3 * shifted >> 8) - 1);
}

void decode(const BlockTQ1_0& b, float* out) {
  const float d = f16_to_float(b.d);
  for (int i = 0; i < 160; ++i) out[i] = d * trit(b.qs[i % 32], i / 32);
  for (int i = 0; i < 80; ++i) out[160 + i] = d * trit(b.qs[32 + i % 16], i / 16);
  for (int i = 0; i < 16; ++i) out[240 + i] = d * trit(b.qh[i % 4], i / 4);
}

void decode(const BlockTQ2_0& b, float* out) {
  const float d = f16_to_float(b.d);
  for (int i = 0; i < 256; ++i) {
    out[i] = d * static_cast<float>((b.qs[i / 128 * 32 + i % 32] >> 2 * (i % 128 / 32) & 3) - 1);
  }
}

template <typename Block>
void decode_each(const std::byte* src, float* out, int64_t n) {
  const auto* blocks = reinterpret_cast<const Block*>(src);
  for (int64_t b = 0; b < n / kElements<Block>; ++b) decode(blocks[b], out + b * kElements<Block>);
}

template <float (*convert)(uint16_t)>
void decode_halves(const std::byte* src, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t h;
    std::memcpy(&h, src + 2 * i, 2);
    out[i] = convert(h);
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
    case TensorType::kQ4_0:
      return decode32<BlockQ4_0>(src, dst, n);
    case TensorType::kQ4_1:
      return decode32<BlockQ4_1>(src, dst, n);
    case TensorType::kQ5_0:
      return decode32<BlockQ5_0>(src, dst, n);
    case TensorType::kQ5_1:
      return decode32<BlockQ5_1>(src, dst, n);
    case TensorType::kQ8_0:
      return decode32<BlockQ8_0>(src, dst, n);
    case TensorType::kIQ4_NL:
      return decode32<BlockIQ4_NL>(src, dst, n);
    case TensorType::kMXFP4:
      return decode32<BlockMXFP4>(src, dst, n);
    case TensorType::kQ2_K:
      return decode256<BlockQ2_K>(src, dst, n);
    case TensorType::kQ3_K:
      return decode256<BlockQ3_K>(src, dst, n);
    case TensorType::kQ4_K:
      return decode256<BlockQ4_K>(src, dst, n);
    case TensorType::kQ5_K:
      return decode256<BlockQ5_K>(src, dst, n);
    case TensorType::kQ6_K:
      return decode256<BlockQ6_K>(src, dst, n);
    case TensorType::kIQ4_XS:
      return decode256<BlockIQ4_XS>(src, dst, n);
    case TensorType::kIQ2_XXS:
      return decode_each<BlockIQ2_XXS>(src, dst, n);
    case TensorType::kIQ2_XS:
      return decode_each<BlockIQ2_XS>(src, dst, n);
    case TensorType::kIQ2_S:
      return decode_each<BlockIQ2_S>(src, dst, n);
    case TensorType::kIQ3_XXS:
      return decode_each<BlockIQ3_XXS>(src, dst, n);
    case TensorType::kIQ3_S:
      return decode_each<BlockIQ3_S>(src, dst, n);
    case TensorType::kIQ1_S:
      return decode_each<BlockIQ1_S>(src, dst, n);
    case TensorType::kIQ1_M:
      return decode_each<BlockIQ1_M>(src, dst, n);
    case TensorType::kTQ1_0:
      return decode_each<BlockTQ1_0>(src, dst, n);
    case TensorType::kTQ2_0:
      return decode_each<BlockTQ2_0>(src, dst, n);
    case TensorType::kNVFP4:
      return decode_each<BlockNVFP4>(src, dst, n);
    case TensorType::kQ1_0:
      return decode_each<BlockQ1_0>(src, dst, n);
    case TensorType::kQ2_0:
      return decode_each<BlockQ2_0>(src, dst, n);
    default:
      check_failed("a weight type", __FILE__, __LINE__);
  }
}

}  // namespace kda
