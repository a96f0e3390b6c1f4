// What the encoders share: a block brought to a common size, and the encoder of each type with a given SearchTable.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "quant/search.h"
#include "quant/tensor_type.h"

namespace kda {

/// Encodes n floats (whole blocks). importance may be null; see quantize_row.
using EncodeFn = void (*)(const SearchTable& search, const float* src, std::byte* dst, int64_t n,
                          const float* importance);

/// nullptr for a type that the file does not write. One function a family and a file.
EncodeFn encoder_of_block32(TensorType type) noexcept;
EncodeFn encoder_of_k_block(TensorType type) noexcept;
EncodeFn encoder_of_iq_block(TensorType type) noexcept;
EncodeFn encoder_of_iq1_block(TensorType type) noexcept;

/// Any type that can be written.
EncodeFn find_encoder(TensorType type) noexcept;

/// The values of a block times a power of two that brings the largest between 1 and 2, and the weights of its columns
/// over their mean: so that no sum of squares overflows or vanishes, whatever the values are. A block whose values are
/// all too small for its format has zeros.
template <int kElements>
struct Scaled {
  float x[kElements];
  float w[kElements];
  float unit;  // the power of two
  float back;  // 1 / unit
};

/// Nearest f16 that is finite: a scale past the largest would turn the whole block into infinities.
inline uint16_t to_scale(float x) { return float_to_f16(std::clamp(x, -65504.0F, 65504.0F)); }

/// What to_scale stored, as a scale of the values of a Scaled.
template <int kElements>
float stored_scale(uint16_t bits, const Scaled<kElements>& in) {
  return f16_to_float(bits) * in.unit;
}

/// Fills a Scaled. Values below `smallest` (a power of two, at least 2^-126) count as zero where they are a block's
/// largest.
void scale_block(const SearchTable& search, const float* src, const float* importance, int n, float smallest, float* x,
                 float* w, float& unit, float& back);

/// No f16 scale is so small that values below this become anything but 0.
inline constexpr float kSmallestForF16 = 0x1p-40F;

/// An EncodeFn from the encoder of a block.
template <typename Block, int kElements, void (*kEncode)(const SearchTable&, const Scaled<kElements>&, Block&)>
void encode_each(const SearchTable& search, const float* src, std::byte* dst, int64_t n, const float* importance) {
  auto* blocks = reinterpret_cast<Block*>(dst);
  Scaled<kElements> in;
  for (int64_t b = 0; b < n / kElements; ++b) {
    scale_block(search, src + b * kElements, importance == nullptr ? nullptr : importance + b * kElements, kElements,
                kSmallestForF16, in.x, in.w, in.unit, in.back);
    kEncode(search, in, blocks[b]);
  }
}

/// 32 codes of four bits, split by halves.
inline void pack_nibbles(const int8_t* codes, uint8_t (&qs)[16]) {
  for (int i = 0; i < 16; ++i) qs[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[i + 16] & 15) << 4);
}

}  // namespace kda
