// Encoders: each block gets the scale (and minimum) that minimises its squared error, weighted by the importance of the
// columns, among some candidates, then codes nearest to the values under the scales as they are stored.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/half.h"
#include "quant/blocks.h"
#include "quant/codec.h"
#include "quant/unpack.h"

namespace kda {

namespace {

// Nearest f16 that is finite: a scale past the largest would turn the whole block into infinities.
uint16_t to_scale(float x) { return float_to_f16(std::clamp(x, -65504.0F, 65504.0F)); }

// x / scale to the nearest integer in [low, high], ties to even; 0, or the end of the range next to it, when the scale
// is 0.
int nearest(float x, float scale, int low, int high) {
  const float code = scale == 0 ? 0 : std::nearbyint(x / scale);
  return static_cast<int>(std::clamp(code, static_cast<float>(low), static_cast<float>(high)));
}

// The signed element of largest magnitude, the first one on ties.
float extreme(const float* x, int n) {
  float m = 0;
  for (int i = 0; i < n; ++i) {
    if (std::abs(x[i]) > std::abs(m)) m = x[i];
  }
  return m;
}

// Code of the nearest of 16 levels, the lower code on ties.
int nearest_level(const int8_t (&levels)[16], float x) {
  int best = 0;
  for (int code = 1; code < 16; ++code) {
    if (std::abs(x - static_cast<float>(levels[code])) < std::abs(x - static_cast<float>(levels[best]))) best = code;
  }
  return best;
}

// Scale s for which the codes chosen by code_of(x * inverse) fit best, over the inverse scales [n_inverses]: for given
// codes l, sum (x - s l)^2 is least at s = sum(x l) / sum(l^2), and the least error is at the largest sum(x l)^2 /
// sum(l^2).
template <typename CodeOf>
float best_scale(const float* x, const float* w, int n, const float* inverses, int n_inverses, const CodeOf& code_of) {
  double best_score = 0;
  double best = 0;
  for (int c = 0; c < n_inverses; ++c) {
    double xl = 0;
    double ll = 0;
    for (int i = 0; i < n; ++i) {
      const double l = code_of(x[i] * inverses[c]);
      xl += w[i] * l * x[i];
      ll += w[i] * l * l;
    }
    if (ll > 0 && xl * xl > best_score * ll) {
      best_score = xl * xl / ll;
      best = xl / ll;
    }
  }
  return static_cast<float>(best);
}

// Inverse scales stay finite above this; blocks below it are written as zero.
constexpr float kSmallestEncoded = 0x1p-100F;

// For codes -half..half-1. The element of largest magnitude lands near -half, the end that reaches further.
float symmetric_scale(const float* x, const float* w, int n, int half) {
  const float m = extreme(x, n);
  if (std::abs(m) < kSmallestEncoded) return 0;
  constexpr int kCandidates = 19;
  float inverses[kCandidates];
  for (int c = 0; c < kCandidates; ++c)
    inverses[c] = -(static_cast<float>(half) + 0.1F * static_cast<float>(c - 9)) / m;
  const auto low = static_cast<float>(-half);
  const auto high = static_cast<float>(half - 1);
  return best_scale(x, w, n, inverses, kCandidates, [=](float v) { return std::clamp(std::nearbyint(v), low, high); });
}

// For the 16 levels of IQ4: the element of largest magnitude lands near the lowest level, or on +127.
float iq4_scale(const float* x, const float* w, int n) {
  const float m = extreme(x, n);
  if (std::abs(m) < kSmallestEncoded) return 0;
  constexpr int kCandidates = 16;
  float inverses[kCandidates];
  inverses[0] = 127 / m;
  for (int c = 1; c < kCandidates; ++c) inverses[c] = (static_cast<float>(c - 8) - 127) / m;
  return best_scale(x, w, n, inverses, kCandidates, [](float v) { return kIq4Levels[nearest_level(kIq4Levels, v)]; });
}

struct ScaleMin {
  float scale;
  float min;  // x ~ scale * code + min
};

// For codes 0..top. Candidates put the range of x on top - 1 .. top + 1 steps; for their codes the best scale and
// minimum follow from least squares. With min_below_zero the minimum must not be positive.
ScaleMin best_scale_min(const float* x, const float* w, int n, int top, bool min_below_zero) {
  float low = *std::min_element(x, x + n);
  const float high = *std::max_element(x, x + n);
  if (min_below_zero) low = std::min(low, 0.0F);
  const float range = high - low;
  if (!(range > kSmallestEncoded)) return {0, low};
  if (range > std::numeric_limits<float>::max())
    return {high / static_cast<float>(top) - low / static_cast<float>(top), low};
  ScaleMin best{range / static_cast<float>(top), low};
  double best_error = std::numeric_limits<double>::infinity();
  for (int c = 0; c <= 20; ++c) {
    const float inverse = (static_cast<float>(top) + 0.1F * static_cast<float>(c - 10)) / range;
    double sum_1 = 0;
    double sum_l = 0;
    double sum_ll = 0;
    double sum_x = 0;
    double sum_lx = 0;
    double sum_xx = 0;
    for (int i = 0; i < n; ++i) {
      const double l = std::clamp(std::nearbyint((x[i] - low) * inverse), 0.0F, static_cast<float>(top));
      sum_1 += w[i];
      sum_l += w[i] * l;
      sum_ll += w[i] * l * l;
      sum_x += double{w[i]} * x[i];
      sum_lx += w[i] * l * x[i];
      sum_xx += double{w[i]} * x[i] * x[i];
    }
    const double determinant = sum_1 * sum_ll - sum_l * sum_l;
    if (determinant <= 0) continue;
    double scale = (sum_1 * sum_lx - sum_l * sum_x) / determinant;
    double min = (sum_ll * sum_x - sum_l * sum_lx) / determinant;
    if (min_below_zero && min > 0) {
      min = 0;
      scale = sum_lx / sum_ll;
    }
    const double error = sum_xx + scale * scale * sum_ll + sum_1 * min * min - 2 * scale * sum_lx - 2 * min * sum_x +
                         2 * scale * min * sum_l;
    if (error < best_error) {
      best_error = error;
      best = {static_cast<float>(scale), static_cast<float>(min)};
    }
  }
  return best;
}

// Nibbles split by halves.
void pack_nibbles(const int (&codes)[32], uint8_t (&qs)[16]) {
  for (int i = 0; i < 16; ++i) qs[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[i + 16] & 15) << 4);
}

// Bit 4 of each code.
uint32_t fifth_bits(const int (&codes)[32]) {
  uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) bits |= static_cast<uint32_t>(codes[i] >> 4 & 1) << i;
  return bits;
}

void encode(const float* x, const float* w, BlockQ4_0& b) {
  b.d = to_scale(symmetric_scale(x, w, 32, 8));
  int codes[32];
  for (int i = 0; i < 32; ++i) codes[i] = nearest(x[i], f16_to_float(b.d), -8, 7) + 8;
  pack_nibbles(codes, b.qs);
}

void encode(const float* x, const float* w, BlockQ5_0& b) {
  b.d = to_scale(symmetric_scale(x, w, 32, 16));
  int codes[32];
  for (int i = 0; i < 32; ++i) codes[i] = nearest(x[i], f16_to_float(b.d), -16, 15) + 16;
  pack_nibbles(codes, b.qs);
  b.qh = fifth_bits(codes);
}

// Codes 0..top with the scale and minimum as stored.
template <typename Block>
void choose_codes_with_min(const float* x, const float* w, int top, Block& b, int (&codes)[32]) {
  const ScaleMin s = best_scale_min(x, w, 32, top, false);
  b.d = to_scale(s.scale);
  b.m = to_scale(s.min);
  for (int i = 0; i < 32; ++i) codes[i] = nearest(x[i] - f16_to_float(b.m), f16_to_float(b.d), 0, top);
}

void encode(const float* x, const float* w, BlockQ4_1& b) {
  int codes[32];
  choose_codes_with_min(x, w, 15, b, codes);
  pack_nibbles(codes, b.qs);
}

void encode(const float* x, const float* w, BlockQ5_1& b) {
  int codes[32];
  choose_codes_with_min(x, w, 31, b, codes);
  pack_nibbles(codes, b.qs);
  b.qh = fifth_bits(codes);
}

void encode(const float* x, const float* /*w*/, BlockQ8_0& b) {
  b.d = to_scale(std::abs(extreme(x, 32)) / 127);
  for (int i = 0; i < 32; ++i) b.qs[i] = static_cast<int8_t>(nearest(x[i], f16_to_float(b.d), -127, 127));
}

void encode(const float* x, const float* w, BlockIQ4_NL& b) {
  b.d = to_scale(iq4_scale(x, w, 32));
  const float d = f16_to_float(b.d);
  int codes[32];
  for (int i = 0; i < 32; ++i) codes[i] = nearest_level(kIq4Levels, d == 0 ? 0 : x[i] / d);
  pack_nibbles(codes, b.qs);
}

void encode(const float* x, const float* /*w*/, BlockMXFP4& b) {
  const float max = std::abs(extreme(x, 32));
  // The largest element lies between 4 and 8 units of the scale 2^(e - 127); what lies above 6 becomes 6.
  b.e = static_cast<uint8_t>(max == 0 ? 0 : std::clamp(std::ilogb(max) + 125, 0, 254));
  const float d = mxfp4_scale(b.e);
  int codes[32];
  for (int i = 0; i < 32; ++i) codes[i] = nearest_level(kFp4Levels, x[i] / d);
  pack_nibbles(codes, b.qs);
}

// Scales and minima of the n groups of a super-block, to integers up to top under common f16 scales.
template <typename Block>
void quantize_scales(const ScaleMin* groups, int n, int top, Block& b, int* scales, int* mins) {
  float max_scale = 0;
  float max_min = 0;
  for (int g = 0; g < n; ++g) {
    max_scale = std::max(max_scale, groups[g].scale);
    max_min = std::max(max_min, -groups[g].min);
  }
  b.d = to_scale(max_scale / static_cast<float>(top));
  b.dmin = to_scale(max_min / static_cast<float>(top));
  for (int g = 0; g < n; ++g) {
    scales[g] = nearest(groups[g].scale, f16_to_float(b.d), 0, top);
    mins[g] = nearest(-groups[g].min, f16_to_float(b.dmin), 0, top);
  }
}

// The same for signed scales without minima; the one of largest magnitude becomes -half.
template <typename Block>
void quantize_scales(const float* groups, int n, int half, Block& b, int* scales) {
  b.d = to_scale(extreme(groups, n) / static_cast<float>(-half));
  for (int g = 0; g < n; ++g) scales[g] = nearest(groups[g], f16_to_float(b.d), -half, half - 1);
}

void encode(const float* x, const float* w, BlockQ2_K& b) {
  ScaleMin groups[16];
  for (int g = 0; g < 16; ++g) groups[g] = best_scale_min(x + 16 * g, w + 16 * g, 16, 3, true);
  int scales[16];
  int mins[16];
  quantize_scales(groups, 16, 15, b, scales, mins);
  std::memset(b.qs, 0, sizeof b.qs);
  for (int i = 0; i < 256; ++i) {
    const int g = i / 16;
    const float min = f16_to_float(b.dmin) * static_cast<float>(mins[g]);
    const int code = nearest(x[i] + min, f16_to_float(b.d) * static_cast<float>(scales[g]), 0, 3);
    b.qs[i / 128 * 32 + i % 32] |= static_cast<uint8_t>(code << 2 * (i % 128 / 32));
  }
  for (int g = 0; g < 16; ++g) b.scales[g] = static_cast<uint8_t>(scales[g] | mins[g] << 4);
}

void encode(const float* x, const float* w, BlockQ3_K& b) {
  float groups[16];
  for (int g = 0; g < 16; ++g) groups[g] = symmetric_scale(x + 16 * g, w + 16 * g, 16, 4);
  int scales[16];
  quantize_scales(groups, 16, 32, b, scales);
  std::memset(b.qs, 0, sizeof b.qs);
  std::memset(b.hmask, 0, sizeof b.hmask);
  std::memset(b.scales, 0, sizeof b.scales);
  for (int i = 0; i < 256; ++i) {
    const int code = nearest(x[i], f16_to_float(b.d) * static_cast<float>(scales[i / 16]), -4, 3) + 4;
    b.qs[i / 128 * 32 + i % 32] |= static_cast<uint8_t>((code & 3) << 2 * (i % 128 / 32));
    b.hmask[i % 32] |= static_cast<uint8_t>((code >> 2) << i / 32);
  }
  for (int g = 0; g < 16; ++g) {
    const int scale = scales[g] + 32;
    b.scales[g % 8] |= static_cast<uint8_t>((scale & 15) << 4 * (g / 8));
    b.scales[8 + g % 4] |= static_cast<uint8_t>(scale >> 4 << 2 * (g / 4));
  }
}

// The inverse of unpack_scales(): 8 scales and 8 minima of 6 bits.
void pack_scales(const int (&scales)[8], const int (&mins)[8], uint8_t (&s)[12]) {
  for (int g = 0; g < 4; ++g) {
    s[g] = static_cast<uint8_t>(scales[g] | scales[g + 4] >> 4 << 6);
    s[g + 4] = static_cast<uint8_t>(mins[g] | mins[g + 4] >> 4 << 6);
    s[g + 8] = static_cast<uint8_t>((scales[g + 4] & 15) | (mins[g + 4] & 15) << 4);
  }
}

// Scales, minima and codes 0..top of Q4_K and Q5_K.
template <typename Block>
void choose_codes_by_32(const float* x, const float* w, int top, Block& b, int (&codes)[256]) {
  ScaleMin groups[8];
  for (int g = 0; g < 8; ++g) groups[g] = best_scale_min(x + 32 * g, w + 32 * g, 32, top, true);
  int scales[8];
  int mins[8];
  quantize_scales(groups, 8, 63, b, scales, mins);
  pack_scales(scales, mins, b.scales);
  for (int i = 0; i < 256; ++i) {
    const int g = i / 32;
    const float min = f16_to_float(b.dmin) * static_cast<float>(mins[g]);
    codes[i] = nearest(x[i] + min, f16_to_float(b.d) * static_cast<float>(scales[g]), 0, top);
  }
  std::memset(b.qs, 0, sizeof b.qs);
  for (int i = 0; i < 256; ++i) {
    b.qs[i / 64 * 32 + i % 32] |= static_cast<uint8_t>((codes[i] & 15) << 4 * (i / 32 % 2));
  }
}

void encode(const float* x, const float* w, BlockQ4_K& b) {
  int codes[256];
  choose_codes_by_32(x, w, 15, b, codes);
}

void encode(const float* x, const float* w, BlockQ5_K& b) {
  int codes[256];
  choose_codes_by_32(x, w, 31, b, codes);
  std::memset(b.qh, 0, sizeof b.qh);
  for (int i = 0; i < 256; ++i) b.qh[i % 32] |= static_cast<uint8_t>((codes[i] >> 4) << i / 32);
}

void encode(const float* x, const float* w, BlockQ6_K& b) {
  float groups[16];
  for (int g = 0; g < 16; ++g) groups[g] = symmetric_scale(x + 16 * g, w + 16 * g, 16, 32);
  int scales[16];
  quantize_scales(groups, 16, 128, b, scales);
  for (int g = 0; g < 16; ++g) b.scales[g] = static_cast<int8_t>(scales[g]);
  std::memset(b.ql, 0, sizeof b.ql);
  std::memset(b.qh, 0, sizeof b.qh);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    const int plane = i % 128 / 32;
    const int code = nearest(x[i], f16_to_float(b.d) * static_cast<float>(scales[i / 16]), -32, 31) + 32;
    b.ql[64 * half + 32 * (plane % 2) + i % 32] |= static_cast<uint8_t>((code & 15) << 4 * (plane / 2));
    b.qh[32 * half + i % 32] |= static_cast<uint8_t>((code >> 4) << 2 * plane);
  }
}

void encode(const float* x, const float* w, BlockIQ4_XS& b) {
  float groups[8];
  for (int g = 0; g < 8; ++g) groups[g] = iq4_scale(x + 32 * g, w + 32 * g, 32);
  int scales[8];
  quantize_scales(groups, 8, 32, b, scales);
  std::memset(b.scales_l, 0, sizeof b.scales_l);
  std::memset(b.qs, 0, sizeof b.qs);
  uint32_t high = 0;
  for (int g = 0; g < 8; ++g) {
    const int scale = scales[g] + 32;
    b.scales_l[g / 2] |= static_cast<uint8_t>((scale & 15) << 4 * (g % 2));
    high |= static_cast<uint32_t>(scale >> 4) << 2 * g;
  }
  b.scales_h = static_cast<uint16_t>(high);
  for (int i = 0; i < 256; ++i) {
    const float d = f16_to_float(b.d) * static_cast<float>(scales[i / 32]);
    const int code = nearest_level(kIq4Levels, d == 0 ? 0 : x[i] / d);
    b.qs[i / 32 * 16 + i % 16] |= static_cast<uint8_t>(code << 4 * (i % 32 / 16));
  }
}

// Weights of one block's columns, about 1 each: the importance over its mean, or ones where that is not a number.
template <int kElements>
void block_weights(const float* importance, float (&w)[kElements]) {
  double sum = 0;
  for (int i = 0; importance != nullptr && i < kElements; ++i) sum += importance[i];
  const double factor = sum > 0 ? kElements / sum : 0;
  for (int i = 0; i < kElements; ++i) {
    w[i] = factor > 0 && std::isfinite(factor) ? static_cast<float>(importance[i] * factor) : 1.0F;
  }
}

template <typename Block, int kElements>
void encode_each(const float* src, std::byte* dst, int64_t n, const float* importance) {
  auto* blocks = reinterpret_cast<Block*>(dst);
  for (int64_t b = 0; b < n / kElements; ++b) {
    float w[kElements];
    block_weights(importance == nullptr ? nullptr : importance + b * kElements, w);
    encode(src + b * kElements, w, blocks[b]);
  }
}

template <uint16_t (*convert)(float)>
void encode_halves(const float* src, std::byte* dst, int64_t n, const float* /*importance*/) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t h = convert(src[i]);
    std::memcpy(dst + 2 * i, &h, sizeof h);
  }
}

using EncodeFn = void (*)(const float* src, std::byte* dst, int64_t n, const float* importance);

// nullptr for a type that cannot be written.
EncodeFn encoder(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return [](const float* src, std::byte* dst, int64_t n, const float* /*importance*/) {
        std::memcpy(dst, src, static_cast<size_t>(n) * 4);
      };
    case TensorType::kF16:
      return encode_halves<float_to_f16>;
    case TensorType::kBF16:
      return encode_halves<float_to_bf16>;
    case TensorType::kQ4_0:
      return encode_each<BlockQ4_0, 32>;
    case TensorType::kQ4_1:
      return encode_each<BlockQ4_1, 32>;
    case TensorType::kQ5_0:
      return encode_each<BlockQ5_0, 32>;
    case TensorType::kQ5_1:
      return encode_each<BlockQ5_1, 32>;
    case TensorType::kQ8_0:
      return encode_each<BlockQ8_0, 32>;
    case TensorType::kIQ4_NL:
      return encode_each<BlockIQ4_NL, 32>;
    case TensorType::kMXFP4:
      return encode_each<BlockMXFP4, 32>;
    case TensorType::kQ2_K:
      return encode_each<BlockQ2_K, 256>;
    case TensorType::kQ3_K:
      return encode_each<BlockQ3_K, 256>;
    case TensorType::kQ4_K:
      return encode_each<BlockQ4_K, 256>;
    case TensorType::kQ5_K:
      return encode_each<BlockQ5_K, 256>;
    case TensorType::kQ6_K:
      return encode_each<BlockQ6_K, 256>;
    case TensorType::kIQ4_XS:
      return encode_each<BlockIQ4_XS, 256>;
    default:
      return nullptr;
  }
}

}  // namespace

bool can_quantize(TensorType type) noexcept { return encoder(type) != nullptr; }

void quantize_row(TensorType type, const float* src, std::byte* dst, int64_t n, const float* importance) noexcept {
  const EncodeFn encode = encoder(type);
  KDA_CHECK(encode != nullptr);
  encode(src, dst, n, importance);
}

int64_t find_non_finite(const float* values, int64_t n) noexcept {
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(values[i])) return i;
  }
  return -1;
}

}  // namespace kda
