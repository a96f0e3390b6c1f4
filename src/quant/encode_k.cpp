// Super-blocks of 256: Q2_K to Q6_K and IQ4_XS. Each group gets its best scale (and minimum). These become integers
// under scales of the super-block, where each group tries the integers beside its nearest as well; then the
// super-block's scales are fitted to the codes, and each group chooses again.
#include <cmath>
#include <cstring>

#include "quant/blocks.h"
#include "quant/encode.h"

namespace kda {

namespace {

using In = Scaled<256>;

int nearest(float x, float scale, int low, int high) {
  if (scale == 0) return std::clamp(0, low, high);
  return static_cast<int>(std::clamp(std::nearbyint(x / scale), static_cast<float>(low), static_cast<float>(high)));
}

// Codes with minima. 256 / kGroups elements a group, scales and minima 0..kTopScale.
template <int kGroups>
struct WithMin {
  uint16_t d;
  uint16_t dmin;
  int scale[kGroups];
  int min[kGroups];
  int8_t codes[256];
  CodeSums sums[kGroups];
  float error;
};

template <int kGroups, int kTop, int kTopScale>
struct MinFit {
  static constexpr int kSize = 256 / kGroups;
  const SearchTable& search;
  const In& in;
  WithMin<kGroups>& f;

  // Each group takes the best integers among its own and those beside them, and the codes for them.
  void choose() {
    const float d = stored_scale(f.d, in);
    const float dmin = stored_scale(f.dmin, in);
    f.error = 0;
    for (int g = 0; g < kGroups; ++g) {
      static constexpr int kScaleSteps[8] = {0, -1, 1, 0, 0, -1, 1, 1};
      static constexpr int kMinSteps[8] = {0, 0, 0, -1, 1, -1, 1, -1};
      const float* x = in.x + g * kSize;
      const float* w = in.w + g * kSize;
      int scales[8];
      int mins[8];
      float real_scales[8];
      float real_mins[8];
      for (int c = 0; c < 8; ++c) {
        scales[c] = std::clamp(f.scale[g] + kScaleSteps[c], 0, kTopScale);
        mins[c] = std::clamp(f.min[g] + kMinSteps[c], 0, kTopScale);
        real_scales[c] = d * static_cast<float>(scales[c]);
        real_mins[c] = dmin * static_cast<float>(mins[c]);
      }
      const int best = search.best_of_8(x, w, kSize, real_scales, real_mins, 0, kTop);
      f.scale[g] = scales[best];
      f.min[g] = mins[best];
      f.sums[g] = search.choose_codes(x, w, kSize, {real_scales[best], real_mins[best]}, 0, kTop, f.codes + g * kSize);
      f.error += f.sums[g].error;
    }
  }

  // d and dmin of least squares for the codes and integers at hand: x ~ d (scale code) - dmin min.
  void fit_block_scales() {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (int g = 0; g < kGroups; ++g) {
      const double s = f.scale[g];
      const double m = f.min[g];
      double w = 0;
      double x = 0;
      for (int i = g * kSize; i < (g + 1) * kSize; ++i) {
        w += in.w[i];
        x += in.w[i] * in.x[i];
      }
      aa += s * s * f.sums[g].ll;
      ab += s * m * f.sums[g].l;
      bb += m * m * w;
      ax += s * f.sums[g].xl;
      bx += m * x;
    }
    const double determinant = aa * bb - ab * ab;
    if (determinant > 1e-9 * aa * bb) {
      f.d = to_scale(static_cast<float>((ax * bb - ab * bx) / determinant) * in.back);
      f.dmin = to_scale(static_cast<float>((ax * ab - aa * bx) / determinant) * in.back);
    } else if (aa > 0) {
      f.d = to_scale(static_cast<float>(ax / aa) * in.back);
    }
  }
};

template <int kGroups, int kTop, int kTopScale>
WithMin<kGroups> fit_with_min(const SearchTable& search, const In& in) {
  constexpr int kSize = 256 / kGroups;
  ScaleMin groups[kGroups];
  float max_scale = 0;
  float max_min = 0;
  for (int g = 0; g < kGroups; ++g) {
    groups[g] = search.scale_min(in.x + g * kSize, in.w + g * kSize, kSize, kTop, true);
    max_scale = std::max(max_scale, groups[g].scale);
    max_min = std::max(max_min, groups[g].min);
  }
  WithMin<kGroups> best;
  best.d = to_scale(max_scale / static_cast<float>(kTopScale) * in.back);
  best.dmin = to_scale(max_min / static_cast<float>(kTopScale) * in.back);
  for (int g = 0; g < kGroups; ++g) {
    best.scale[g] = nearest(groups[g].scale, stored_scale(best.d, in), 0, kTopScale);
    best.min[g] = nearest(groups[g].min, stored_scale(best.dmin, in), 0, kTopScale);
  }
  MinFit<kGroups, kTop, kTopScale> fit{search, in, best};
  fit.choose();
  WithMin<kGroups> again = best;
  MinFit<kGroups, kTop, kTopScale> refit{search, in, again};
  refit.fit_block_scales();
  refit.choose();
  return again.error < best.error ? again : best;
}

// Codes without minima, scales of either sign.
template <int kGroups>
struct Symmetric {
  uint16_t d;
  int scale[kGroups];
  int8_t codes[256];
  CodeSums sums[kGroups];
  float error;
};

// Codes -kHalf..kHalf-1.
template <int kHalf>
struct Integers {
  static float scale(const SearchTable& search, const float* x, const float* w, int n) {
    return search.symmetric_scale(x, w, n, kHalf);
  }
  static int best_of_8(const SearchTable& search, const float* x, const float* w, int n, const float (&scales)[8]) {
    static constexpr float kNoMins[8] = {};
    return search.best_of_8(x, w, n, scales, kNoMins, -kHalf, kHalf - 1);
  }
  static CodeSums choose(const SearchTable& search, const float* x, const float* w, int n, float scale, int8_t* codes) {
    return search.choose_codes(x, w, n, {scale, 0}, -kHalf, kHalf - 1, codes);
  }
};

struct Iq4 {
  static float scale(const SearchTable& search, const float* x, const float* w, int n) {
    return search.iq4_scale(x, w, n);
  }
  static int best_of_8(const SearchTable& search, const float* x, const float* w, int n, const float (&scales)[8]) {
    return search.best_of_8_iq4(x, w, n, scales);
  }
  static CodeSums choose(const SearchTable& search, const float* x, const float* w, int n, float scale, int8_t* codes) {
    return search.choose_iq4_codes(x, w, n, scale, codes);
  }
};

template <int kGroups, int kHalfScale, typename Codes>
struct SymmetricFit {
  static constexpr int kSize = 256 / kGroups;
  const SearchTable& search;
  const In& in;
  Symmetric<kGroups>& f;

  // Each group takes the best integer among its own and those near it, and the codes for it.
  void choose() {
    const float d = stored_scale(f.d, in);
    f.error = 0;
    for (int g = 0; g < kGroups; ++g) {
      static constexpr int kSteps[8] = {0, -1, 1, -2, 2, -3, 3, 4};
      const float* x = in.x + g * kSize;
      const float* w = in.w + g * kSize;
      int scales[8];
      float real[8];
      for (int c = 0; c < 8; ++c) {
        scales[c] = std::clamp(f.scale[g] + kSteps[c], -kHalfScale, kHalfScale - 1);
        real[c] = d * static_cast<float>(scales[c]);
      }
      const int best = Codes::best_of_8(search, x, w, kSize, real);
      f.scale[g] = scales[best];
      f.sums[g] = Codes::choose(search, x, w, kSize, real[best], f.codes + g * kSize);
      f.error += f.sums[g].error;
    }
  }

  void fit_block_scale() {
    double ll = 0;
    double xl = 0;
    for (int g = 0; g < kGroups; ++g) {
      const double s = f.scale[g];
      ll += s * s * f.sums[g].ll;
      xl += s * f.sums[g].xl;
    }
    if (ll > 0) f.d = to_scale(static_cast<float>(xl / ll) * in.back);
  }
};

template <int kGroups, int kHalfScale, typename Codes>
Symmetric<kGroups> fit_symmetric(const SearchTable& search, const In& in) {
  constexpr int kSize = 256 / kGroups;
  float groups[kGroups];
  float largest = 0;
  for (int g = 0; g < kGroups; ++g) {
    groups[g] = Codes::scale(search, in.x + g * kSize, in.w + g * kSize, kSize);
    if (std::abs(groups[g]) > std::abs(largest)) largest = groups[g];
  }
  Symmetric<kGroups> best;
  best.d = to_scale(-largest / static_cast<float>(kHalfScale) * in.back);
  for (int g = 0; g < kGroups; ++g) {
    best.scale[g] = nearest(groups[g], stored_scale(best.d, in), -kHalfScale, kHalfScale - 1);
  }
  SymmetricFit<kGroups, kHalfScale, Codes>{search, in, best}.choose();
  Symmetric<kGroups> again = best;
  SymmetricFit<kGroups, kHalfScale, Codes> refit{search, in, again};
  refit.fit_block_scale();
  refit.choose();
  return again.error < best.error ? again : best;
}

// Two bits of each code into planes of 32.
void pack_pairs(const int8_t (&codes)[256], int shift, uint8_t (&qs)[64]) {
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 32; ++i) {
      const int8_t* c = codes + 128 * half + i;
      const auto bits = [&](int plane) { return (c[32 * plane] >> shift & 3) << 2 * plane; };
      qs[32 * half + i] = static_cast<uint8_t>(bits(0) | bits(1) | bits(2) | bits(3));
    }
  }
}

// One bit of each code: bit b of byte i belongs to element 32 b + i.
void pack_bits(const int8_t (&codes)[256], int shift, uint8_t (&bits)[32]) {
  std::memset(bits, 0, sizeof bits);
  for (int b = 0; b < 8; ++b) {
    for (int i = 0; i < 32; ++i) bits[i] |= static_cast<uint8_t>((codes[32 * b + i] >> shift & 1) << b);
  }
}

void encode(const SearchTable& search, const In& in, BlockQ2_K& b) {
  const auto f = fit_with_min<16, 3, 15>(search, in);
  b.d = f.d;
  b.dmin = f.dmin;
  pack_pairs(f.codes, 0, b.qs);
  for (int g = 0; g < 16; ++g) b.scales[g] = static_cast<uint8_t>(f.scale[g] | f.min[g] << 4);
}

void encode(const SearchTable& search, const In& in, BlockQ3_K& b) {
  auto f = fit_symmetric<16, 32, Integers<4>>(search, in);
  for (int8_t& code : f.codes) code = static_cast<int8_t>(code + 4);
  b.d = f.d;
  pack_pairs(f.codes, 0, b.qs);
  pack_bits(f.codes, 2, b.hmask);
  std::memset(b.scales, 0, sizeof b.scales);
  for (int g = 0; g < 16; ++g) {
    const int scale = f.scale[g] + 32;
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

// What Q4_K and Q5_K have in common: all but the fifth bits.
template <int kTop, typename Block>
WithMin<8> encode_by_32(const SearchTable& search, const In& in, Block& b) {
  const auto f = fit_with_min<8, kTop, 63>(search, in);
  b.d = f.d;
  b.dmin = f.dmin;
  pack_scales(f.scale, f.min, b.scales);
  for (int pair = 0; pair < 4; ++pair) {
    for (int i = 0; i < 32; ++i) {
      const int8_t* c = f.codes + 64 * pair + i;
      b.qs[32 * pair + i] = static_cast<uint8_t>((c[0] & 15) | (c[32] & 15) << 4);
    }
  }
  return f;
}

void encode(const SearchTable& search, const In& in, BlockQ4_K& b) { encode_by_32<15>(search, in, b); }

void encode(const SearchTable& search, const In& in, BlockQ5_K& b) {
  pack_bits(encode_by_32<31>(search, in, b).codes, 4, b.qh);
}

void encode(const SearchTable& search, const In& in, BlockQ6_K& b) {
  auto f = fit_symmetric<16, 128, Integers<32>>(search, in);
  for (int8_t& code : f.codes) code = static_cast<int8_t>(code + 32);
  b.d = f.d;
  for (int g = 0; g < 16; ++g) b.scales[g] = static_cast<int8_t>(f.scale[g]);
  pack_pairs(f.codes, 4, b.qh);
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 64; ++i) {  // planes 0 and 1 are low nibbles, 2 and 3 the high ones of the same bytes
      const int8_t* c = f.codes + 128 * half + i;
      b.ql[64 * half + i] = static_cast<uint8_t>((c[0] & 15) | (c[64] & 15) << 4);
    }
  }
}

void encode(const SearchTable& search, const In& in, BlockIQ4_XS& b) {
  const auto f = fit_symmetric<8, 32, Iq4>(search, in);
  b.d = f.d;
  std::memset(b.scales_l, 0, sizeof b.scales_l);
  uint32_t high = 0;
  for (int g = 0; g < 8; ++g) {
    const int scale = f.scale[g] + 32;
    b.scales_l[g / 2] |= static_cast<uint8_t>((scale & 15) << 4 * (g % 2));
    high |= static_cast<uint32_t>(scale >> 4) << 2 * g;
    for (int i = 0; i < 16; ++i) {
      b.qs[16 * g + i] = static_cast<uint8_t>(f.codes[32 * g + i] | f.codes[32 * g + 16 + i] << 4);
    }
  }
  b.scales_h = static_cast<uint16_t>(high);
}

}  // namespace

EncodeFn encoder_of_k_block(TensorType type) noexcept {
  switch (type) {
    case TensorType::kQ2_K:
      return encode_each<BlockQ2_K, 256, encode>;
    case TensorType::kQ3_K:
      return encode_each<BlockQ3_K, 256, encode>;
    case TensorType::kQ4_K:
      return encode_each<BlockQ4_K, 256, encode>;
    case TensorType::kQ5_K:
      return encode_each<BlockQ5_K, 256, encode>;
    case TensorType::kQ6_K:
      return encode_each<BlockQ6_K, 256, encode>;
    case TensorType::kIQ4_XS:
      return encode_each<BlockIQ4_XS, 256, encode>;
    default:
      return nullptr;
  }
}

}  // namespace kda
