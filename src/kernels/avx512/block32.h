// Products with blocks of 32: w = d * (code - offset) or d * code + m, codes unsigned. With activations D * a:
//   P = sum(code * a) - offset * sum(a)     exact in int32
//   y += (d * D) * P,   y += m * (D * sum(a))
#pragma once

#include "kernels/avx512/int8.h"

namespace kda::avx512 {
namespace {

// A format is a class with
//   Block                      as in the file
//   kOffset                    of the codes in the panel
//   kHasMin                    which of the two formulas
//   unpack(rows, at, panel)    the blocks at rows[r] + at to a panel

/// One block of sixteen rows, unpacked.
struct alignas(64) Panel32 {
  __m512i codes[8];  // four columns of each row: [column / 4], bytes 4 * row + column % 4
  __m512 d;
  __m512 m;
};

/// Blocks that a tile takes together.
constexpr int64_t kUnitBlocks = 8;
using Panels32 = Panel32[kUnitBlocks];

/// What a tile needs of such a run of its activations.
struct Tile32 {
  alignas(32) int32_t start[kTileTokens][kUnitBlocks];     // of the sum of each block: -offset * sum(a)
  alignas(32) float scaled_sum[kTileTokens][kUnitBlocks];  // D * sum(a), for minima

  template <typename Format>
  KDA_INLINE Tile32(const Format& /*format*/, const Tile& tile, int64_t block, int64_t n_blocks) {
    const auto words = static_cast<__mmask16>((1 << 2 * n_blocks) - 1);
    const auto floats = static_cast<__mmask8>((1 << n_blocks) - 1);
    for (int64_t t = 0; t < tile.n; ++t) {
      const __m256i of_16 = _mm256_maskz_loadu_epi16(words, tile.sums[t] + block * 2);
      if constexpr (Format::kOffset != 0) {
        avx2::store_256(start[t], _mm256_madd_epi16(of_16, _mm256_set1_epi16(-Format::kOffset)));
      }
      if constexpr (Format::kHasMin) {
        const __m256 sums = _mm256_cvtepi32_ps(_mm256_madd_epi16(of_16, _mm256_set1_epi16(1)));
        _mm256_store_ps(scaled_sum[t], _mm256_mul_ps(_mm256_maskz_loadu_ps(floats, tile.scales[t] + block), sums));
      }
    }
  }
};

/// The float operations of a block, from its sum.
template <typename Format>
KDA_INLINE __m512 add_block(__m512 y, __m512i sum, __m512 d, __m512 m, float scale, float scaled_sum) {
  y = _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(scale)), _mm512_cvtepi32_ps(sum), y);
  if constexpr (Format::kHasMin) y = _mm512_fmadd_ps(m, _mm512_set1_ps(scaled_sum), y);
  return y;
}

/// Adds the products of a block, number i of its run, to the results of the tile.
template <typename Format>
KDA_INLINE void multiply_step(const Panels32 (&panels)[kPanels], int64_t block, int64_t i, const Tile32& acts,
                              Tile& tile) {
  __m512i w[kPanels][kStepQuads];
  __m512 d[kPanels];
  __m512 m[kPanels];
  KDA_UNROLL
  for (int p = 0; p < kPanels; ++p) {
    const Panel32& panel = panels[p][i];
    KDA_UNROLL
    for (int q = 0; q < kStepQuads; ++q) w[p][q] = panel.codes[q];
    d[p] = panel.d;
    m[p] = panel.m;
  }
  for_tokens<4>(tile.n, [&]<int kTokens>(int64_t t) {
    const int8_t* a[kTokens];
    __m512i sum[kTokens][1][kPanels];
    for (int j = 0; j < kTokens; ++j) {
      a[j] = opaque(tile.codes[t + j] + 32 * block);
      for (__m512i& rows : sum[j][0]) {
        rows = Format::kOffset != 0 ? broadcast_dword(&acts.start[t + j][i]) : _mm512_setzero_si512();
      }
    }
    add_products(w, a, sum);
    for (int j = 0; j < kTokens; ++j) {
      for (int p = 0; p < kPanels; ++p) {
        tile.y[t + j][p] = add_block<Format>(tile.y[t + j][p], sum[j][0][p], d[p], m[p], tile.scales[t + j][block],
                                             acts.scaled_sum[t + j][i]);
      }
    }
  });
}

/// Rows [row, row + 16) and kT tokens. Nothing but registers holds what was unpacked.
template <typename Format, int kT>
KDA_INLINE void multiply_few(const MatmulArgs& args, int64_t row) {
  constexpr auto kBlockBytes = static_cast<int64_t>(sizeof(typename Format::Block));
  const Rows rows(args, row);
  Tile tile(args, 32, 0, kT);
  for (int64_t first = 0; first < args.k / 32; first += kUnitBlocks) {
    const int64_t n_blocks = smaller(kUnitBlocks, args.k / 32 - first);
    const Tile32 acts(Format{}, tile, first, n_blocks);
    for (int64_t i = 0; i < n_blocks; ++i) {
      for (int64_t r = 2 * i; r < 2 * i + 2; ++r) {
        const std::byte* next = opaque(rows.at[r] + kPanelRows * args.w_row_bytes + first * kBlockBytes);
        for (int64_t at = 0; at < kUnitBlocks * kBlockBytes; at += 64) __builtin_prefetch(next + at, 0, 3);
      }
      Panel32 panel;
      Format::unpack(rows.at, (first + i) * kBlockBytes, panel);
      KDA_UNROLL
      for (int t = 0; t < kT; ++t) {
        __m512i sum = Format::kOffset != 0 ? broadcast_dword(&acts.start[t][i]) : _mm512_setzero_si512();
        const int8_t* a = opaque(tile.codes[t] + 32 * (first + i));
        KDA_UNROLL
        for (int q = 0; q < 8; ++q) sum = _mm512_dpbusd_epi32(sum, panel.codes[q], broadcast_dword(a + 4 * q));
        tile.y[t][0] =
            add_block<Format>(tile.y[t][0], sum, panel.d, panel.m, tile.scales[t][first + i], acts.scaled_sum[t][i]);
      }
    }
  }
  tile.store<1>(args, 0, row);
}

template <typename Format>
KDA_INLINE void matmul_32(const MatmulArgs& args) {
  if (args.n < kPanelTokens) {
    return for_rows_with_few_tokens(args, [&]<int kT>(int64_t row) { multiply_few<Format, kT>(args, row); });
  }
  constexpr auto kBlockBytes = static_cast<int64_t>(sizeof(typename Format::Block));
  const auto blocks_of = [&args](int64_t unit) { return smaller(kUnitBlocks, args.k / 32 - unit * kUnitBlocks); };
  for_rows_and_tiles<32, 32 * kUnitBlocks, Panels32[kPanels]>(
      args,
      [&](const RowPointers& rows, int64_t unit, Panels32& panels) {
        for (int64_t i = 0; i < blocks_of(unit); ++i) {
          Format::unpack(rows, (unit * kUnitBlocks + i) * kBlockBytes, panels[i]);
        }
      },
      [&](const Panels32(&panels)[kPanels], int64_t unit, Tile& tile, const NextRows& next) {
        const int64_t first = unit * kUnitBlocks;
        const Tile32 acts(Format{}, tile, first, blocks_of(unit));
        for (int64_t i = 0; i < blocks_of(unit); ++i) {
          next.prefetch(i, first * kBlockBytes, blocks_of(unit) * kBlockBytes);
          multiply_step<Format>(panels, first + i, i, acts, tile);
        }
      });
}

}  // namespace
}  // namespace kda::avx512
