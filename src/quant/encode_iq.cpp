// IQ2 and IQ3: signs apart from magnitudes, magnitudes on a grid.
#include <bit>
#include <cstring>

#include "quant/blocks.h"
#include "quant/fit_iq.h"
#include "quant/grid_index.h"
#include "quant/iq_tables.h"

namespace kda {

namespace {

using In = Scaled<256>;

// Magnitudes of eight values and the mask of their signs. Where the number of minus signs must be even the value whose
// sign costs least is given the wrong one: at a magnitude l it adds 4 w l |x| to the error, and small values have the
// same smallest l.
uint8_t split_signs(const float* x, const float* w, bool even, float* magnitudes) {
  uint32_t mask = 0;
  int cheapest = 0;
  for (int j = 0; j < 8; ++j) {
    mask |= x[j] < 0 ? 1U << j : 0U;
    magnitudes[j] = std::abs(x[j]);
    if (w[j] * magnitudes[j] < w[cheapest] * magnitudes[cheapest]) cheapest = j;
  }
  if (even && std::popcount(mask) % 2 != 0) {
    mask ^= 1U << cheapest;
    magnitudes[cheapest] = -magnitudes[cheapest];
  }
  return static_cast<uint8_t>(mask);
}

// kTable: the rows of the grid; kLevels: what their entries stand for.
template <int kGroupSize, int kEntries, bool kEvenSigns, const auto& kTable, const auto& kLevels>
struct Grid {
  static constexpr int kGroup = kGroupSize;
  static constexpr int kTopScale = 15;
  using Group = IqGroup<kGroupSize / kEntries, kGroupSize / 8>;

  static Group place(const float* x, const float* w, float scale) {
    static const GridIndex<kEntries> grid(kTable);
    float scaled[8];
    for (int l = 0; l < GridIndex<kEntries>::kLevels; ++l) scaled[l] = scale * kLevels[l];
    Group out{};
    for (int e = 0; e < kGroup / 8; ++e) {
      float y[8];
      const float* weights = w + 8 * e;
      out.masks[e] = split_signs(x + 8 * e, weights, kEvenSigns, y);
      for (int first = 0; first < 8; first += kEntries) {
        const int row = grid.nearest(y + first, weights + first, scaled);
        out.rows[(8 * e + first) / kEntries] = static_cast<uint16_t>(row);
        for (int j = 0; j < kEntries; ++j) {
          const float l = kLevels[grid.level(row, j)];
          const float wl = weights[first + j] * l;
          const float rest = y[first + j] - scale * l;
          out.xl += wl * y[first + j];
          out.ll += wl * l;
          out.error += weights[first + j] * rest * rest;
        }
      }
    }
    return out;
  }
};

// kStarts: usual scales of a group over the square root of its mean square.

struct Iq2Xxs : Grid<32, 8, true, kIq2XxsGrid, kIq2Levels> {
  static constexpr float kDivisor = 8;
  static constexpr float kStarts[] = {0.04F, 0.05F};
};

struct Iq2Xs : Grid<16, 8, true, kIq2XsGrid, kIq2Levels> {
  static constexpr float kDivisor = 8;
  static constexpr float kStarts[] = {0.04F, 0.05F};
};

struct Iq2S : Grid<16, 8, false, kIq2SGrid, kIq2Levels> {
  static constexpr float kDivisor = 8;
  static constexpr float kStarts[] = {0.04F, 0.05F};
};

struct Iq3Xxs : Grid<32, 4, true, kIq3XxsGrid, kIq3XxsLevels> {
  static constexpr float kDivisor = 4;
  static constexpr float kStarts[] = {0.033F, 0.039F, 0.045F};
};

struct Iq3S : Grid<32, 4, false, kIq3SGrid, kIq3SLevels> {
  static constexpr float kDivisor = 1;
  static constexpr float kStarts[] = {0.13F, 0.155F, 0.18F};
};

// Four masks of seven bits and a scale.
uint32_t signs_and_scale(const uint8_t (&masks)[4], int scale) {
  uint32_t word = static_cast<uint32_t>(scale) << 28;
  for (int k = 0; k < 4; ++k) word |= (masks[k] & 127U) << 7 * k;
  return word;
}

// Scales of four bits, the first of two in the low half of a byte.
template <typename Fit, size_t kBytes>
void pack_scales(const Fit& f, uint8_t (&scales)[kBytes]) {
  static_assert(Fit::kGroups == 2 * kBytes);
  for (size_t k = 0; k < kBytes; ++k) scales[k] = static_cast<uint8_t>(f.scale[2 * k] | f.scale[2 * k + 1] << 4);
}

void encode(const SearchTable& /*search*/, const In& in, BlockIQ2_XXS& b) {
  const auto f = fit_iq<Iq2Xxs>(in);
  b.d = f.d;
  for (int g = 0; g < 8; ++g) {
    for (int k = 0; k < 4; ++k) b.groups[g].index[k] = static_cast<uint8_t>(f.groups[g].rows[k]);
    b.groups[g].signs_scale = signs_and_scale(f.groups[g].masks, f.scale[g]);
  }
}

void encode(const SearchTable& /*search*/, const In& in, BlockIQ2_XS& b) {
  const auto f = fit_iq<Iq2Xs>(in);
  b.d = f.d;
  for (int e = 0; e < 32; ++e) {
    const auto& group = f.groups[e / 2];
    b.qs[e] = static_cast<uint16_t>(group.rows[e % 2] | (group.masks[e % 2] & 127) << 9);
  }
  pack_scales(f, b.scales);
}

void encode(const SearchTable& /*search*/, const In& in, BlockIQ2_S& b) {
  const auto f = fit_iq<Iq2S>(in);
  b.d = f.d;
  std::memset(b.qh, 0, sizeof b.qh);
  for (int e = 0; e < 32; ++e) {
    const int row = f.groups[e / 2].rows[e % 2];
    b.qs[e] = static_cast<uint8_t>(row);
    b.qh[e / 4] |= static_cast<uint8_t>(row >> 8 << 2 * (e % 4));
    b.signs[e] = f.groups[e / 2].masks[e % 2];
  }
  pack_scales(f, b.scales);
}

void encode(const SearchTable& /*search*/, const In& in, BlockIQ3_XXS& b) {
  const auto f = fit_iq<Iq3Xxs>(in);
  b.d = f.d;
  for (int g = 0; g < 8; ++g) {
    for (int t = 0; t < 8; ++t) b.qs[8 * g + t] = static_cast<uint8_t>(f.groups[g].rows[t]);
    b.signs_scale[g] = signs_and_scale(f.groups[g].masks, f.scale[g]);
  }
}

void encode(const SearchTable& /*search*/, const In& in, BlockIQ3_S& b) {
  const auto f = fit_iq<Iq3S>(in);
  b.d = f.d;
  for (int g = 0; g < 8; ++g) {
    b.qh[g] = 0;
    for (int t = 0; t < 8; ++t) {
      b.qs[8 * g + t] = static_cast<uint8_t>(f.groups[g].rows[t]);
      b.qh[g] |= static_cast<uint8_t>(f.groups[g].rows[t] >> 8 << t);
    }
    std::memcpy(b.signs + 4 * g, f.groups[g].masks, 4);
  }
  pack_scales(f, b.scales);
}

}  // namespace

EncodeFn encoder_of_iq_block(TensorType type) noexcept {
  switch (type) {
    case TensorType::kIQ2_XXS:
      return encode_each<BlockIQ2_XXS, 256, encode>;
    case TensorType::kIQ2_XS:
      return encode_each<BlockIQ2_XS, 256, encode>;
    case TensorType::kIQ2_S:
      return encode_each<BlockIQ2_S, 256, encode>;
    case TensorType::kIQ3_XXS:
      return encode_each<BlockIQ3_XXS, 256, encode>;
    case TensorType::kIQ3_S:
      return encode_each<BlockIQ3_S, 256, encode>;
    default:
      return nullptr;
  }
}

}  // namespace kda
