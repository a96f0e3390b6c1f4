// IQ1: eight trits a grid row, all shifted by an eighth up or down.
#include "quant/blocks.h"
#include "quant/fit_iq.h"
#include "quant/grid_index.h"
#include "quant/iq_tables.h"

namespace kda {

namespace {

using In = Scaled<256>;

// kShared values have the sign of their shift in common.
template <int kGroupSize, int kShared>
struct Trits {
  static constexpr int kGroup = kGroupSize;
  static constexpr int kTopScale = 7;
  static constexpr float kDivisor = 1;
  static constexpr float kStarts[] = {1.0F, 1.35F};  // usual scales of a group over the square root of its mean square
  using Group = IqGroup<kGroupSize / 8, kGroupSize / 8>;

  static Group place(const float* x, const float* w, float scale) {
    Group out{};
    for (int first = 0; first < kGroup; first += kShared) {
      Shifted best = shifted(x + first, w + first, scale, kIq1Delta);
      const Shifted down = shifted(x + first, w + first, scale, -kIq1Delta);
      const bool is_down = down.error < best.error;
      if (is_down) best = down;
      for (int e = 0; e < kShared / 8; ++e) {
        out.rows[first / 8 + e] = best.rows[e];
        out.masks[first / 8 + e] = is_down ? 1 : 0;
      }
      out.xl += best.xl;
      out.ll += best.ll;
      out.error += best.error;
    }
    return out;
  }

 private:
  struct Shifted {
    uint16_t rows[kShared / 8];
    float xl = 0;
    float ll = 0;
    float error = 0;
  };

  static Shifted shifted(const float* x, const float* w, float scale, float delta) {
    static const GridIndex<8> grid(kIq1SGrid);
    float levels[3];
    for (int l = 0; l < 3; ++l) levels[l] = scale * (kIq1Levels[l] + delta);
    Shifted out;
    for (int e = 0; e < kShared / 8; ++e) {
      const int row = grid.nearest(x + 8 * e, w + 8 * e, levels);
      out.rows[e] = static_cast<uint16_t>(row);
      for (int j = 8 * e; j < 8 * e + 8; ++j) {
        const float l = kIq1Levels[grid.level(row, j % 8)] + delta;
        const float rest = x[j] - scale * l;
        out.xl += w[j] * l * x[j];
        out.ll += w[j] * l * l;
        out.error += w[j] * rest * rest;
      }
    }
    return out;
  }
};

void encode(const SearchTable& /*search*/, const In& in, BlockIQ1_S& b) {
  const auto f = fit_iq<Trits<32, 32>>(in);
  b.d = f.d;
  for (int g = 0; g < 8; ++g) {
    uint32_t word = static_cast<uint32_t>(f.scale[g]) << 12 | static_cast<uint32_t>(f.groups[g].masks[0]) << 15;
    for (int k = 0; k < 4; ++k) {
      const uint32_t row = f.groups[g].rows[k];
      b.qs[4 * g + k] = static_cast<uint8_t>(row);
      word |= row >> 8 << 3 * k;
    }
    b.qh[g] = static_cast<uint16_t>(word);
  }
}

void encode(const SearchTable& /*search*/, const In& in, BlockIQ1_M& b) {
  const auto f = fit_iq<Trits<16, 8>>(in);
  for (int g = 0; g < 16; ++g) {
    uint32_t nibbles = 0;
    for (int k = 0; k < 2; ++k) {
      const uint32_t row = f.groups[g].rows[k];
      b.qs[2 * g + k] = static_cast<uint8_t>(row);
      nibbles |= (row >> 8 | static_cast<uint32_t>(f.groups[g].masks[k]) << 3) << 4 * k;
    }
    b.qh[g] = static_cast<uint8_t>(nibbles);
  }
  for (int k = 0; k < 4; ++k) {
    uint32_t word = static_cast<uint32_t>(f.d >> 4 * k & 15) << 12;
    for (int g = 0; g < 4; ++g) word |= static_cast<uint32_t>(f.scale[4 * k + g]) << 3 * g;
    b.scales[k] = static_cast<uint16_t>(word);
  }
}

}  // namespace

EncodeFn encoder_of_iq1_block(TensorType type) noexcept {
  switch (type) {
    case TensorType::kIQ1_S:
      return encode_each<BlockIQ1_S, 256, encode>;
    case TensorType::kIQ1_M:
      return encode_each<BlockIQ1_M, 256, encode>;
    default:
      return nullptr;
  }
}

}  // namespace kda
