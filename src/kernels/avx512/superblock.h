// Products with super-blocks of 256: w = d * scale_g * (code - offset) - dmin * min_g, groups g of 16 or 32, codes
// unsigned. With activations D * a:
//   P = sum_g scale_g * (sum(code * a) - offset * sum_g(a)),   M = sum_g min_g * sum_g(a)
//   y += (d * D) * P,   y -= (dmin * D) * M
// P and M are exact in int32. Where scale * code fits a byte the panel holds that instead, and the group is the block.
#pragma once

#include "kernels/avx512/int8.h"

namespace kda::avx512 {
namespace {

// A format is a class with
//   Block                     as in the file
//   kGroupLength              elements that share a scale in the panel: 16, 32, or 256 for no scale
//   kOffset                   of the codes in the panel
//   kMinLength                elements that share a minimum: 16, 32, or 0 for no minima
//   unpack(rows, at, panel)   the blocks at rows[r] + at to a panel

/// One super-block of sixteen rows, unpacked.
struct alignas(64) SuperPanel {
  __m512i codes[64];    // four columns of each row: [column / 4], bytes 4 * row + column % 4
  __m512i scale[16];    // of each group, one row a lane
  __m512i min_pair[8];  // minima of groups 2p and 2p + 1 in the words of a lane, one row a lane
  __m512 d;
  __m512 dmin;
};

using SuperPanels = SuperPanel[kPanels];

/// Sums of the runs of kLength activations from those of 16.
template <int kLength>
KDA_INLINE void store_min_sums(__m256i of_16, int16_t (&out)[16]) {
  if constexpr (kLength == 16) avx2::store_256(out, of_16);
  if constexpr (kLength == 32) {
    const __m256i of_32 = _mm256_madd_epi16(of_16, _mm256_set1_epi16(1));
    _mm_store_si128(reinterpret_cast<__m128i*>(out), _mm256_cvtepi32_epi16(of_32));
  }
}

/// What a tile needs of one super-block of its activations, and its totals.
struct SuperTile {
  alignas(64) int32_t start[kTileTokens][16];     // of the sum of each group: -offset * sum(a)
  alignas(32) int16_t min_sums[kTileTokens][16];  // sum(a) of each run that shares a minimum
  __m512i total[kTileTokens][kPanels];

  template <typename Format>
  KDA_INLINE SuperTile(const Format& /*format*/, const Tile& tile, int64_t block) {
    for (int64_t t = 0; t < tile.n; ++t) {
      const __m256i of_16 = avx2::load_256(tile.sums[t] + block * 16);
      __m512i first = _mm512_setzero_si512();
      if constexpr (Format::kGroupLength == 16 && Format::kOffset != 0) {
        store_512(start[t], _mm512_mullo_epi32(_mm512_cvtepi16_epi32(of_16), _mm512_set1_epi32(-Format::kOffset)));
      } else if constexpr (Format::kOffset != 0) {
        const __m256i of_32 = _mm256_madd_epi16(of_16, _mm256_set1_epi16(-Format::kOffset));
        if constexpr (Format::kGroupLength == 32) avx2::store_256(start[t], of_32);
        if constexpr (Format::kGroupLength == 256) {
          first = _mm512_set1_epi32(_mm512_reduce_add_epi32(_mm512_zextsi256_si512(of_32)));
        }
      }
      store_min_sums<Format::kMinLength>(of_16, min_sums[t]);
      for (__m512i& rows : total[t]) rows = first;
    }
  }
};

/// Adds the products of a step to the totals.
template <typename Format>
KDA_INLINE void multiply_step(const SuperPanels& panels, int64_t block, int step, const Tile& tile, SuperTile& acts) {
  constexpr bool kScaled = Format::kGroupLength != 256;
  constexpr int kGroups = kScaled ? 32 / Format::kGroupLength : 1;
  __m512i w[kPanels][kStepQuads];
  __m512i scale[kPanels][kGroups];
  KDA_UNROLL
  for (int p = 0; p < kPanels; ++p) {
    KDA_UNROLL
    for (int q = 0; q < kStepQuads; ++q) w[p][q] = panels[p].codes[kStepQuads * step + q];
    KDA_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      scale[p][g] = kScaled ? panels[p].scale[kGroups * step + g] : _mm512_setzero_si512();
    }
  }
  for_tokens<4 / kGroups>(tile.n, [&]<int kTokens>(int64_t t) {
    const int8_t* a[kTokens];
    __m512i sum[kTokens][kGroups][kPanels];
    for (int i = 0; i < kTokens; ++i) {
      a[i] = opaque(tile.codes[t + i] + 256 * block + 32 * step);
      for (int g = 0; g < kGroups; ++g) {
        for (int p = 0; p < kPanels; ++p) {
          if constexpr (!kScaled) {
            sum[i][g][p] = acts.total[t + i][p];
          } else if constexpr (Format::kOffset != 0) {
            sum[i][g][p] = broadcast_dword(&acts.start[t + i][kGroups * step + g]);
          } else {
            sum[i][g][p] = _mm512_setzero_si512();
          }
        }
      }
    }
    add_products(w, a, sum);
    for (int i = 0; i < kTokens; ++i) {
      for (int p = 0; p < kPanels; ++p) {
        __m512i total = kScaled ? acts.total[t + i][p] : sum[i][0][p];
        for (int g = 0; kScaled && g < kGroups; ++g) {
          total = _mm512_add_epi32(total, _mm512_mullo_epi32(sum[i][g][p], scale[p][g]));
        }
        acts.total[t + i][p] = total;
      }
    }
  });
}

/// y + (d * scale) * p
KDA_INLINE __m512 add_scaled(__m512 y, __m512 d, float scale, __m512i p) {
  return _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(scale)), _mm512_cvtepi32_ps(p), y);
}

/// y - (dmin * scale) * m
KDA_INLINE __m512 subtract_scaled(__m512 y, __m512 dmin, float scale, __m512i m) {
  return _mm512_fnmadd_ps(_mm512_mul_ps(dmin, _mm512_set1_ps(scale)), _mm512_cvtepi32_ps(m), y);
}

template <typename Format>
KDA_INLINE void multiply_block(const SuperPanels& panels, int64_t block, Tile& tile, const NextRows& next) {
  constexpr auto kBlockBytes = static_cast<int64_t>(sizeof(typename Format::Block));
  SuperTile acts(Format{}, tile, block);
  for (int step = 0; step < 8; ++step) {
    next.prefetch(step, block * kBlockBytes, kBlockBytes);
    multiply_step<Format>(panels, block, step, tile, acts);
  }
  for (int64_t t = 0; t < tile.n; ++t) {
    const float scale = tile.scales[t][block];
    for (int p = 0; p < kPanels; ++p) {
      __m512 y = add_scaled(tile.y[t][p], panels[p].d, scale, acts.total[t][p]);
      if constexpr (Format::kMinLength != 0) {
        __m512i m = _mm512_setzero_si512();
        for (int i = 0; i < 128 / Format::kMinLength; ++i) {
          m = _mm512_dpwssd_epi32(m, panels[p].min_pair[i], broadcast_dword(&acts.min_sums[t][2 * i]));
        }
        y = subtract_scaled(y, panels[p].dmin, scale, m);
      }
      tile.y[t][p] = y;
    }
  }
}

template <typename Format>
KDA_INLINE void matmul_super(const MatmulArgs& args) {
  for_rows_and_tiles<256, 256, SuperPanels>(
      args,
      [](const RowPointers& rows, int64_t block, SuperPanel& panel) {
        Format::unpack(rows, block * static_cast<int64_t>(sizeof(typename Format::Block)), panel);
      },
      multiply_block<Format>);
}

}  // namespace
}  // namespace kda::avx512
