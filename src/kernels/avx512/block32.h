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
//   unpack(blocks, panel)      sixteen blocks, one a row, to a panel

/// One block of sixteen rows, unpacked.
struct alignas(64) Panel32 {
  __m512i codes[8];  // four columns of each row: [column / 4], bytes 4 * row + column % 4
  __m512 d;
  __m512 m;
};

/// Blocks that a tile takes together.
constexpr int64_t kChunkBlocks = 8;

/// What a tile needs of a chunk of its activations.
struct Tile32 {
  const int8_t* codes[kTileTokens];
  const float* scales[kTileTokens];
  alignas(32) int32_t start[kTileTokens][kChunkBlocks];     // of the sum of each block: -offset * sum(a)
  alignas(32) float scaled_sum[kTileTokens][kChunkBlocks];  // D * sum(a), for minima

  template <typename Format>
  KDA_INLINE void set(const MatmulArgs& args, const Tile& tile, int64_t block, int64_t n_blocks) {
    const auto words = static_cast<__mmask16>((1 << 2 * n_blocks) - 1);
    const auto floats = static_cast<__mmask8>((1 << n_blocks) - 1);
    for (int64_t t = 0; t < tile.n; ++t) {
      codes[t] = args.x.codes + tile.row[t] * args.k + block * 32;
      scales[t] = args.x.scales + tile.row[t] * (args.k / 32) + block;
      const __m256i of_16 = _mm256_maskz_loadu_epi16(words, args.x.sums + tile.row[t] * (args.k / 16) + block * 2);
      if constexpr (Format::kOffset != 0) {
        avx2::store_256(start[t], _mm256_madd_epi16(of_16, _mm256_set1_epi16(-Format::kOffset)));
      }
      if constexpr (Format::kHasMin) {
        const __m256 sums = _mm256_cvtepi32_ps(_mm256_madd_epi16(of_16, _mm256_set1_epi16(1)));
        _mm256_store_ps(scaled_sum[t], _mm256_mul_ps(_mm256_maskz_loadu_ps(floats, scales[t]), sums));
      }
    }
  }
};

/// Adds the products of kBlocks blocks, block the first of them in the chunk, to the results of the tile.
template <typename Format, int kBlocks>
KDA_INLINE void multiply_step(const Panel32* panels, int64_t block, const Tile32& acts, Tile& tile) {
  __m512i w[8 * kBlocks];
  __m512 d[kBlocks];
  __m512 m[kBlocks];
  KDA_UNROLL
  for (int b = 0; b < kBlocks; ++b) {
    const Panel32& panel = panels[block + b];
    KDA_UNROLL
    for (int q = 0; q < 8; ++q) w[8 * b + q] = panel.codes[q];
    d[b] = panel.d;
    m[b] = panel.m;
  }
  for_tokens<4>(tile.n, [&]<int kTokens>(int64_t t) {
    const int8_t* a[kTokens];
    __m512i sum[kTokens][kBlocks];
    for (int i = 0; i < kTokens; ++i) {
      a[i] = opaque(acts.codes[t + i] + 32 * block);
      for (int b = 0; b < kBlocks; ++b) {
        sum[i][b] = Format::kOffset != 0 ? broadcast_dword(&acts.start[t + i][block + b]) : _mm512_setzero_si512();
      }
    }
    add_products(w, a, sum);
    for (int i = 0; i < kTokens; ++i) {
      __m512 y = tile.y[t + i];
      for (int b = 0; b < kBlocks; ++b) {
        const __m512 scale = _mm512_mul_ps(d[b], _mm512_set1_ps(acts.scales[t + i][block + b]));
        y = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(sum[i][b]), y);
        if constexpr (Format::kHasMin) y = _mm512_fmadd_ps(m[b], _mm512_set1_ps(acts.scaled_sum[t + i][block + b]), y);
      }
      tile.y[t + i] = y;
    }
  });
}

template <typename Format>
KDA_INLINE void multiply_tile(const MatmulArgs& args, const Panel32* panels, Tile& tile, NextRows next) {
  constexpr auto kBlockBytes = static_cast<int64_t>(sizeof(typename Format::Block));
  Tile32 acts;
  for (int64_t begin = 0; begin < args.k / 32; begin += kChunkBlocks) {
    const int64_t n_blocks = smaller(kChunkBlocks, args.k / 32 - begin);
    acts.set<Format>(args, tile, begin, n_blocks);
    for (int64_t b = 0; b < n_blocks; b += 2) {
      next.prefetch(static_cast<int>(b / 2), begin * kBlockBytes, n_blocks * kBlockBytes);
      if (b + 2 <= n_blocks) {
        multiply_step<Format, 2>(panels + begin, b, acts, tile);
      } else {
        multiply_step<Format, 1>(panels + begin, b, acts, tile);
      }
    }
  }
}

template <typename Format>
KDA_INLINE void matmul_32(const MatmulArgs& args) {
  static_assert(sizeof(Panel32) <= 32 * 64);  // matmul_scratch_bytes()
  auto* panels = reinterpret_cast<Panel32*>(args.scratch);
  for_rows_and_tiles(
      args,
      [&](const Rows& rows) {
        for (int64_t b = 0; b < args.k / 32; ++b) {
          const std::byte* blocks[kPanelRows];
          for (int r = 0; r < kPanelRows; ++r) {
            blocks[r] = rows.at[r] + b * static_cast<int64_t>(sizeof(typename Format::Block));
          }
          Format::unpack(blocks, panels[b]);
        }
      },
      [&](Tile& tile, NextRows next) { multiply_tile<Format>(args, panels, tile, next); });
}

}  // namespace
}  // namespace kda::avx512
