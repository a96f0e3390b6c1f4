// Blocks of 32: the scale (and minimum) that fits best, rounded as it is stored, then the nearest codes.
#include <bit>
#include <cmath>

#include "quant/blocks.h"
#include "quant/encode.h"
#include "quant/unpack.h"

namespace kda {

namespace {

using In = Scaled<32>;

// Bit 4 of each code.
uint32_t fifth_bits(const int8_t (&codes)[32]) {
  uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) bits |= static_cast<uint32_t>(codes[i] >> 4 & 1) << i;
  return bits;
}

// Codes counted from 0.
template <int kHalf, typename Block>
void choose_symmetric(const SearchTable& search, const In& in, Block& b, int8_t (&codes)[32]) {
  b.d = to_scale(search.symmetric_scale(in.x, in.w, 32, kHalf) * in.back);
  search.choose_codes(in.x, in.w, 32, {stored_scale(b.d, in), 0}, -kHalf, kHalf - 1, codes);
  for (int8_t& code : codes) code = static_cast<int8_t>(code + kHalf);
}

void encode(const SearchTable& search, const In& in, BlockQ4_0& b) {
  int8_t codes[32];
  choose_symmetric<8>(search, in, b, codes);
  pack_nibbles(codes, b.qs);
}

void encode(const SearchTable& search, const In& in, BlockQ5_0& b) {
  int8_t codes[32];
  choose_symmetric<16>(search, in, b, codes);
  pack_nibbles(codes, b.qs);
  b.qh = fifth_bits(codes);
}

template <int kTop, typename Block>
void choose_with_min(const SearchTable& search, const In& in, Block& b, int8_t (&codes)[32]) {
  const ScaleMin s = search.scale_min(in.x, in.w, 32, kTop, false);
  b.d = to_scale(s.scale * in.back);
  b.m = to_scale(-s.min * in.back);
  search.choose_codes(in.x, in.w, 32, {stored_scale(b.d, in), -stored_scale(b.m, in)}, 0, kTop, codes);
}

void encode(const SearchTable& search, const In& in, BlockQ4_1& b) {
  int8_t codes[32];
  choose_with_min<15>(search, in, b, codes);
  pack_nibbles(codes, b.qs);
}

void encode(const SearchTable& search, const In& in, BlockQ5_1& b) {
  int8_t codes[32];
  choose_with_min<31>(search, in, b, codes);
  pack_nibbles(codes, b.qs);
  b.qh = fifth_bits(codes);
}

void encode(const SearchTable& search, const In& in, BlockIQ4_NL& b) {
  b.d = to_scale(search.iq4_scale(in.x, in.w, 32) * in.back);
  int8_t codes[32];
  search.choose_iq4_codes(in.x, in.w, 32, stored_scale(b.d, in), codes);
  pack_nibbles(codes, b.qs);
}

// At eight bits a search gains nothing that could be seen: the largest magnitude becomes 127.
void encode_q8_0(const SearchTable& search, const float* src, std::byte* dst, int64_t n, const float* /*importance*/) {
  auto* blocks = reinterpret_cast<BlockQ8_0*>(dst);
  for (int64_t b = 0; b < n / 32; ++b, src += 32) {
    blocks[b].d = to_scale(search.max_magnitude(src, 32) / 127);
    const float d = f16_to_float(blocks[b].d);
    search.to_int8(src, 32, d == 0 ? 0 : 1 / d, blocks[b].qs);
  }
}

// Codes for kFp4Levels * scale, and what they cost.
float choose_fp4(const In& in, float scale, int8_t (&codes)[32]) {
  static constexpr float kMiddles[7] = {0.5F, 1.5F, 2.5F, 3.5F, 5, 7, 10};
  const float inverse = 1 / scale;
  float error = 0;
  for (int i = 0; i < 32; ++i) {
    const float v = std::abs(in.x[i]) * inverse;
    int code = 0;
    for (const float middle : kMiddles) code += v > middle ? 1 : 0;  // the smaller magnitude on ties
    const float rest = v - static_cast<float>(kFp4Levels[code]);
    error += in.w[i] * rest * rest;
    codes[i] = static_cast<int8_t>(code | (in.x[i] < 0 && code > 0 ? 8 : 0));
  }
  return error * scale * scale;
}

// Below this a block of MXFP4 is written as zero; the format itself goes a little further down.
constexpr float kSmallestForE8M0 = 0x1p-120F;

void encode_mxfp4(const SearchTable& search, const float* src, std::byte* dst, int64_t n, const float* importance) {
  auto* blocks = reinterpret_cast<BlockMXFP4*>(dst);
  In in;
  for (int64_t b = 0; b < n / 32; ++b) {
    scale_block(search, src + b * 32, importance == nullptr ? nullptr : importance + b * 32, 32, kSmallestForE8M0, in.x,
                in.w, in.unit, in.back);
    // The largest element, between 1 and 2, lies at 4 to 8 units of the scale 2^(e - 127), the largest code at 6; twice
    // that scale may fit the others better, and so may half of it.
    int8_t best[32] = {};
    int best_exponent = 0;
    if (search.max_magnitude(in.x, 32) > 0) {
      const int exponent = std::ilogb(in.back) + 125;
      float least = 3e38F;
      for (int e = std::max(exponent - 1, 0); e <= std::min(exponent + 1, 254); ++e) {
        int8_t codes[32];
        const float error = choose_fp4(in, std::ldexp(0.125F, e - exponent), codes);
        // Above 252 the largest code is past the largest float.
        if (error >= least || e > 252) continue;
        least = error;
        best_exponent = e;
        std::copy_n(codes, 32, best);
      }
    }
    blocks[b].e = static_cast<uint8_t>(best_exponent);
    pack_nibbles(best, blocks[b].qs);
  }
}

}  // namespace

EncodeFn encoder_of_block32(TensorType type) noexcept {
  switch (type) {
    case TensorType::kQ4_0:
      return encode_each<BlockQ4_0, 32, encode>;
    case TensorType::kQ4_1:
      return encode_each<BlockQ4_1, 32, encode>;
    case TensorType::kQ5_0:
      return encode_each<BlockQ5_0, 32, encode>;
    case TensorType::kQ5_1:
      return encode_each<BlockQ5_1, 32, encode>;
    case TensorType::kIQ4_NL:
      return encode_each<BlockIQ4_NL, 32, encode>;
    case TensorType::kQ8_0:
      return encode_q8_0;
    case TensorType::kMXFP4:
      return encode_mxfp4;
    default:
      return nullptr;
  }
}

}  // namespace kda
