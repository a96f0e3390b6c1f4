// Products with super-blocks of 256: w = d * scale_g * (code - offset) - dmin * min_g, groups g of 16 or 32, codes
// unsigned. With activations D * a:
//   P = sum_g scale_g * sum(code * a) - offset * sum_g scale_g * sum_g(a),   M = sum_g min_g * sum_g(a)
//   y += (d * D) * P,   y -= (dmin * D) * M
// P and M are exact in int32. A format has a minimum or an offset or neither; only then may its codes be signed.
#pragma once

#include "kernels/avx2/int8.h"

namespace kda::avx2 {
namespace {

// A format is a class with
//   Block                     as in the file
//   kGroupLength              elements that share a scale: 16 or 32
//   kDepth                    quads of columns whose products add up in 16 bits: 2 * kDepth * 127 * largest code < 2^15
//   kSigned                   codes are signed (then kDepth is 1)
//   kHasMin, kHasOffset       with an offset: kOffsetBits, its logarithm
//   unpack(blocks, panel)     eight blocks, one a row, to a panel
//   Native(blocks)            eight blocks as they are:
//     row<kT>(r, acts, lanes)   P of row r, spread over the lanes of lanes[t]
//     d()                       one row a lane
//     dmin(), min_sum(sums)     with a minimum: dmin and M, one row a lane

/// One super-block of eight rows, unpacked.
template <int kGroups>
struct alignas(32) SuperPanel {
  uint8_t codes[64][32];       // four columns of each row: [column / 4][4 * row + column % 4]
  int16_t scale[kGroups][16];  // of row r in 2r and 2r + 1
  int16_t side[8][16];         // minimum of row r, or scale where there is none, for groups of 16 2p and 2p + 1:
                               // [p][2r], [p][2r + 1]
  __m256 d;
  __m256 dmin;
};

/// A super-block of activations.
struct SuperActs {
  const int8_t* codes;
  const int16_t* sums;
  float scale;
};

KDA_INLINE SuperActs super_acts(const MatmulArgs& args, int64_t token, int64_t block) {
  const int64_t row = x_row_of(args, token);
  return {args.x.codes + row * args.k + block * 256, args.x.sums + row * (args.k / 16) + block * 16,
          args.x.scales[row * (args.k / 256) + block]};
}

/// For Native::row: adds the products of 32 codes and those from begin on of each token, times scale.
template <bool kSigned = false, int kT>
KDA_INLINE void add_products(__m256i codes, __m256i scale, const SuperActs (&acts)[kT], int64_t begin,
                             __m256i (&lanes)[kT]) {
  for (int t = 0; t < kT; ++t) {
    const __m256i s = products<kSigned>(codes, load_256(acts[t].codes + begin));
    lanes[t] = _mm256_add_epi32(lanes[t], _mm256_madd_epi16(s, scale));
  }
}

/// y + d * scale * p
KDA_INLINE __m256 add_scaled(__m256 y, __m256 d, float scale, __m256i p) {
  return _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(scale)), _mm256_cvtepi32_ps(p), y);
}

/// y - dmin * scale * m
KDA_INLINE __m256 subtract_scaled(__m256 y, __m256 dmin, float scale, __m256i m) {
  return _mm256_fnmadd_ps(_mm256_mul_ps(dmin, _mm256_set1_ps(scale)), _mm256_cvtepi32_ps(m), y);
}

/// Rows [row, row + 8) and kT tokens from token on, without unpacking.
template <typename Format, int kT>
KDA_INLINE void multiply_native(const MatmulArgs& args, int64_t row, int64_t token) {
  using Block = typename Format::Block;
  const Rows rows(args, row);
  __m256 y[kT];
  for (int t = 0; t < kT; ++t) y[t] = _mm256_setzero_ps();
  for (int64_t b = 0; b < args.k / 256; ++b) {
    const std::byte* blocks[8];
    for (int r = 0; r < 8; ++r) {
      blocks[r] = rows.at[r] + b * static_cast<int64_t>(sizeof(Block));
      prefetch_block<Block, 1>(blocks[r] + 8 * args.w_row_bytes);
    }
    SuperActs acts[kT];
    for (int t = 0; t < kT; ++t) acts[t] = super_acts(args, token + t, b);
    const typename Format::Native native(blocks);
    __m256i lanes[kT][8];
    for (int r = 0; r < 8; ++r) {
      __m256i of_row[kT];
      native.template row<kT>(r, acts, of_row);
      for (int t = 0; t < kT; ++t) lanes[t][r] = of_row[t];
    }
    for (int t = 0; t < kT; ++t) {
      y[t] = add_scaled(y[t], native.d(), acts[t].scale, sums_of_lanes(lanes[t]));
      if constexpr (Format::kHasMin) {
        y[t] = subtract_scaled(y[t], native.dmin(), acts[t].scale, native.min_sum(acts[t].sums));
      }
    }
  }
  for (int t = 0; t < kT; ++t) store_rows(args, token + t, row, y[t]);
}

/// The panels of 16 rows, block after block.
template <typename Format>
using Panels = SuperPanel<256 / Format::kGroupLength> (*)[2];

/// p[i][t] += sum over kDepth quads of columns, from quad begin on, of scale * code * a. The quads share a scale.
/// With few quads the weights stay in registers and each sum is finished at once; with many, the 16-bit sums stay
/// there.
template <typename Format, int kT>
KDA_INLINE void add_quads(const SuperPanel<256 / Format::kGroupLength> (&panel)[2], const SuperActs (&acts)[kT],
                          int begin, __m256i (&p)[2][kT]) {
  constexpr int kDepth = Format::kDepth;
  const int group = begin * 4 / Format::kGroupLength;
  if constexpr (kDepth <= 2) {
    __m256i w[2][kDepth];
    for (int i = 0; i < 2; ++i) {
      for (int q = 0; q < kDepth; ++q) w[i][q] = load_256(panel[i].codes[begin + q]);
    }
    for (int t = 0; t < kT; ++t) {
      __m256i s[2];
      for (int q = 0; q < kDepth; ++q) {
        const __m256i a = broadcast_dword(acts[t].codes + 4 * (begin + q));
        for (int i = 0; i < 2; ++i) {
          const __m256i product = products<Format::kSigned>(w[i][q], a);
          s[i] = q == 0 ? product : _mm256_add_epi16(s[i], product);
        }
      }
      for (int i = 0; i < 2; ++i) {
        p[i][t] = _mm256_add_epi32(p[i][t], _mm256_madd_epi16(s[i], load_256(panel[i].scale[group])));
        keep_order(p[i][t]);
      }
    }
  } else {
    __m256i s[2][kT];
    KDA_UNROLL
    for (int q = 0; q < kDepth; ++q) {
      const __m256i w[2] = {load_256(panel[0].codes[begin + q]), load_256(panel[1].codes[begin + q])};
      for (int t = 0; t < kT; ++t) {
        const __m256i a = broadcast_dword(acts[t].codes + 4 * (begin + q));
        for (int i = 0; i < 2; ++i) {
          const __m256i product = products<Format::kSigned>(w[i], a);
          s[i][t] = q == 0 ? product : _mm256_add_epi16(s[i][t], product);
          keep_order(s[i][t]);
        }
      }
    }
    for (int i = 0; i < 2; ++i) {
      const __m256i scale = load_256(panel[i].scale[group]);
      for (int t = 0; t < kT; ++t) p[i][t] = _mm256_add_epi32(p[i][t], _mm256_madd_epi16(s[i][t], scale));
    }
  }
}

/// Rows [row, row + 16), unpacked, and kT tokens from token on.
template <typename Format, int kT>
KDA_INLINE void multiply_panels(const MatmulArgs& args, Panels<Format> panels, int64_t row, int64_t token) {
  __m256 y[2][kT];
  for (int t = 0; t < kT; ++t) y[0][t] = y[1][t] = _mm256_setzero_ps();
  for (int64_t b = 0; b < args.k / 256; ++b) {
    SuperActs acts[kT];
    for (int t = 0; t < kT; ++t) acts[t] = super_acts(args, token + t, b);
    __m256i p[2][kT];
    for (auto& products : p) {
      for (__m256i& product : products) product = _mm256_setzero_si256();
    }
    for (int begin = 0; begin < 64; begin += Format::kDepth) add_quads<Format, kT>(panels[b], acts, begin, p);
    for (int i = 0; i < 2; ++i) {
      const auto& panel = panels[b][i];
      for (int t = 0; t < kT; ++t) {
        if constexpr (Format::kHasOffset) {
          const __m256i sums = times_sums(panel.side, acts[t].sums);
          p[i][t] = _mm256_sub_epi32(p[i][t], _mm256_slli_epi32(sums, Format::kOffsetBits));
        }
        y[i][t] = add_scaled(y[i][t], panel.d, acts[t].scale, p[i][t]);
        if constexpr (Format::kHasMin) {
          y[i][t] = subtract_scaled(y[i][t], panel.dmin, acts[t].scale, times_sums(panel.side, acts[t].sums));
        }
      }
    }
  }
  for (int i = 0; i < 2; ++i) {
    for (int t = 0; t < kT; ++t) store_rows(args, token + t, row + 8 * i, y[i][t]);
  }
}

template <typename Format>
KDA_INLINE void unpack_rows(const MatmulArgs& args, int64_t row, int i, Panels<Format> panels) {
  const Rows rows(args, row);
  for (int64_t b = 0; b < args.k / 256; ++b) {
    const std::byte* blocks[8];
    for (int r = 0; r < 8; ++r) {
      blocks[r] = rows.at[r] + b * static_cast<int64_t>(sizeof(typename Format::Block));
      prefetch_block<typename Format::Block, 2>(blocks[r] + 16 * args.w_row_bytes);
    }
    Format::unpack(blocks, panels[b][i]);
  }
}

template <typename Format>
KDA_INLINE void matmul_super(const MatmulArgs& args) {
  static_assert(sizeof(SuperPanel<16>) * 2 <= 256 * 64);  // matmul_scratch_bytes()
  const auto panels = reinterpret_cast<Panels<Format>>(args.scratch);
  for_rows_and_tokens(
      args, [&]<int kT>(int64_t row, int64_t token) { multiply_native<Format, kT>(args, row, token); },
      [&](int64_t row, int i) { unpack_rows<Format>(args, row, i, panels); },
      [&]<int kT>(int64_t row, int64_t token) { multiply_panels<Format, kT>(args, panels, row, token); });
}

}  // namespace
}  // namespace kda::avx2
