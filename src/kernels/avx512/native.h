// Products of super-blocks with few tokens. Rows stay as the file has them; sixteen rows walk through k together, so
// that what is summed over lanes can be reduced for all of them at once and a register holds one row a lane. The totals
// of a block, and so the results, are those of the panels.
#pragma once

#include "kernels/avx512/superblock.h"

namespace kda::avx512 {
namespace {

// A format has in addition
//   load_codes(block, out)     codes of a block in order, 64 a register, none above 63
//   Native(rows, at)           the blocks at rows[r] + at:
//     scales(r, block)           scales of row r, one a group, in words; block: its address
//     d(), dmin()                one row a lane; dmin with minima only
//     min_pair(i)                as in SuperPanel

/// Sums of the 16 lanes of each of sixteen vectors, vector r in lane r.
KDA_INLINE __m512i sums_of_lanes(const __m512i (&v)[16]) {
  const auto pairs = [](__m512i a, __m512i b) {  // in each four lanes: a02 b02 a13 b13
    return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  };
  const auto quads = [&](const __m512i* rows) {
    const __m512i ab = pairs(rows[0], rows[1]);
    const __m512i cd = pairs(rows[2], rows[3]);
    return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  };
  const auto halves = [](__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xDD));
  };
  return halves(halves(quads(v), quads(v + 4)), halves(quads(v + 8), quads(v + 12)));
}

/// 32 bytes in both halves.
KDA_INLINE __m512i load_twice(const std::byte* p) { return _mm512_broadcast_i64x4(avx2::load_256(p)); }

/// Counts to shift the words of the two halves by.
KDA_INLINE __m512i by_halves(int16_t low, int16_t high) {
  return _mm512_inserti64x4(_mm512_set1_epi16(low), _mm256_set1_epi16(high), 1);
}

/// Word indices that give each of the lanes of two registers of codes, packed to words, its scale.
template <int kGroupLength>
KDA_INLINE __m512i scale_indices(int half) {
  // A pack takes four lanes of the first and four of the second register in turn: elements 16j .. 16j + 15 and 64 more.
  constexpr int kFirst = kGroupLength == 16 ? 1 : 2;  // lanes of four that share a group
  const auto index = [&](int64_t lane) { return (8 * half + lane) / kFirst * 0x0001000100010001; };
  return _mm512_setr_epi64(index(0), index(4), index(1), index(5), index(2), index(6), index(3), index(7));
}

/// Rows [row, row + 16) and kT tokens.
template <typename Format, int kT>
KDA_INLINE void multiply_native(const MatmulArgs& args, int64_t row) {
  using Block = typename Format::Block;
  const Rows rows(args, row);
  Tile tile(args, 256, 0, kT);
  const __m512i index[2] = {scale_indices<Format::kGroupLength>(0), scale_indices<Format::kGroupLength>(1)};
  for (int64_t b = 0; b < args.k / 256; ++b) {
    const int64_t at = b * static_cast<int64_t>(sizeof(Block));
    const typename Format::Native native(rows.at, at);
    __m512i a[kT][4];
    __m256i sums[kT];
    for (int t = 0; t < kT; ++t) {
      for (int i = 0; i < 4; ++i) a[t][i] = load_512(tile.codes[t] + 256 * b + 64 * i);
      sums[t] = avx2::load_256(tile.sums[t] + 16 * b);
    }
    __m512i lanes[kT][kPanelRows];
    for (int r = 0; r < kPanelRows; ++r) {
      const std::byte* block = opaque(rows.at[r] + at);
      const std::byte* next = opaque(block + kPanelRows * args.w_row_bytes);
      for (size_t i = 0; i < sizeof(Block); i += 64) __builtin_prefetch(next + i, 0, 3);
      __m512i codes[4];
      Format::load_codes(block, codes);
      const __m256i scales = native.scales(r, block);
      const __m512i wide = _mm512_castsi256_si512(scales);
      const __m512i scale[2] = {_mm512_permutexvar_epi16(index[0], wide), _mm512_permutexvar_epi16(index[1], wide)};
      for (int t = 0; t < kT; ++t) {
        __m512i total = _mm512_setzero_si512();
        if constexpr (Format::kOffset != 0) {
          const __m256i offset =
              _mm256_mullo_epi32(_mm256_madd_epi16(scales, sums[t]), _mm256_set1_epi32(-Format::kOffset));
          total = _mm512_zextsi256_si512(offset);
        }
        for (int h = 0; h < 2; ++h) {
          const __m512i first = _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes[2 * h], a[t][2 * h]);
          const __m512i second = _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes[2 * h + 1], a[t][2 * h + 1]);
          total = _mm512_dpwssd_epi32(total, _mm512_packs_epi32(first, second), scale[h]);
        }
        lanes[t][r] = total;
      }
    }
    for (int t = 0; t < kT; ++t) {
      const float scale = tile.scales[t][b];
      __m512 y = add_scaled(tile.y[t][0], native.d(), scale, sums_of_lanes(lanes[t]));
      if constexpr (Format::kMinLength != 0) {
        __m512i m = _mm512_setzero_si512();
        alignas(32) int16_t min_sums[16];
        store_min_sums<Format::kMinLength>(sums[t], min_sums);
        for (int i = 0; i < 128 / Format::kMinLength; ++i) {
          m = _mm512_dpwssd_epi32(m, native.min_pair(i), broadcast_dword(min_sums + 2 * i));
        }
        y = subtract_scaled(y, native.dmin(), scale, m);
      }
      tile.y[t][0] = y;
    }
  }
  tile.store<1>(args, 0, row);
}

template <typename Format>
KDA_INLINE void matmul_few(const MatmulArgs& args) {
  for (int64_t row = args.row_begin; row < args.row_end; row += kPanelRows) {
    if (args.n == 1) {
      multiply_native<Format, 1>(args, row);
    } else if (args.n == 2) {
      multiply_native<Format, 2>(args, row);
    } else if (args.n == 3) {
      multiply_native<Format, 3>(args, row);
    }
  }
}

}  // namespace
}  // namespace kda::avx512
