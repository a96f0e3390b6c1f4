// Products of super-blocks with few tokens. Rows stay as the file has them; sixteen rows walk through k together, so
// that what is summed over lanes can be reduced for all of them at once and a register holds one row a lane. The totals
// of a block, and so the results, are those of the panels.
#pragma once

#include "kernels/avx512/superblock.h"

namespace kda::avx512 {
namespace {

// A format has in addition
//   load_codes(block, out)     codes of a block in order, 64 a register
//   Native(rows, at)           the blocks at rows[r] + at:
//     kGroupLength, kOffset      of those codes, which need not be those of the panel; groups of 16 or 32
//     kWide                      codes are above 63, so that the sum of four products needs 32 bits; groups of 32 only
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

/// The same in dwords.
KDA_INLINE __m512i in_halves_32(int low, int high) {
  return _mm512_inserti64x4(_mm512_set1_epi32(low), _mm256_set1_epi32(high), 1);
}

/// Sums of the groups of a block of activations, in words, from those of 16.
template <int kGroupLength>
KDA_INLINE __m256i load_sums(const int16_t* of_16) {
  const __m256i sums = avx2::load_256(of_16);
  if constexpr (kGroupLength == 16) return sums;
  return _mm256_zextsi128_si256(_mm256_cvtepi32_epi16(_mm256_madd_epi16(sums, _mm256_set1_epi16(1))));
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
  using Native = typename Format::Native;
  const Rows rows(args, row);
  Tile tile(args, 256, 0, kT);
  const __m512i index[2] = {scale_indices<Native::kGroupLength>(0), scale_indices<Native::kGroupLength>(1)};
  for (int64_t b = 0; b < args.k / 256; ++b) {
    const int64_t at = b * static_cast<int64_t>(sizeof(Block));
    const Native native(rows.at, at);
    __m512i a[kT][4];
    __m256i sums[kT];
    for (int t = 0; t < kT; ++t) {
      for (int i = 0; i < 4; ++i) a[t][i] = load_512(tile.codes[t] + 256 * b + 64 * i);
      sums[t] = load_sums<Native::kGroupLength>(tile.sums[t] + 16 * b);
    }
    __m512i lanes[kT][kPanelRows];
    for (int r = 0; r < kPanelRows; ++r) {
      const std::byte* block = opaque(rows.at[r] + at);
      const std::byte* next = opaque(block + kPanelRows * args.w_row_bytes);
      for (size_t i = 0; i < sizeof(Block); i += 64) __builtin_prefetch(next + i, 0, 3);
      __m512i codes[4];
      Format::load_codes(block, codes);
      const __m256i scales = native.scales(r, block);
      constexpr int kScales = Native::kWide ? 4 : 2;
      __m512i scale[kScales];
      KDA_UNROLL
      for (int i = 0; i < kScales; ++i) {
        if constexpr (Native::kWide) {  // in dwords, groups 2i and 2i + 1 in the halves
          const __m512i group = _mm512_add_epi32(in_halves_32(0, 1), _mm512_set1_epi32(2 * i));
          scale[i] = _mm512_permutexvar_epi32(group, _mm512_cvtepi16_epi32(scales));
        } else {
          scale[i] = _mm512_permutexvar_epi16(index[i], _mm512_castsi256_si512(scales));
        }
      }
      for (int t = 0; t < kT; ++t) {
        __m512i total = _mm512_setzero_si512();
        if constexpr (Native::kOffset != 0) {
          const __m256i sum = _mm256_madd_epi16(scales, sums[t]);
          total = _mm512_zextsi256_si512(_mm256_mullo_epi32(sum, _mm256_set1_epi32(-Native::kOffset)));
        }
        for (int h = 0; h < 2; ++h) {
          const __m512i first = _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes[2 * h], a[t][2 * h]);
          const __m512i second = _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes[2 * h + 1], a[t][2 * h + 1]);
          if constexpr (Native::kWide) {
            total = _mm512_add_epi32(total, _mm512_mullo_epi32(first, scale[2 * h]));
            total = _mm512_add_epi32(total, _mm512_mullo_epi32(second, scale[2 * h + 1]));
          } else {
            total = _mm512_dpwssd_epi32(total, _mm512_packs_epi32(first, second), scale[h]);
          }
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
        store_min_sums<Format::kMinLength>(avx2::load_256(tile.sums[t] + 16 * b), min_sums);
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

/// With few tokens or many.
template <typename Format>
KDA_INLINE void matmul_k(const MatmulArgs& args) {
  if (args.n < kPanelTokens) {
    return for_rows_with_few_tokens(args, [&]<int kT>(int64_t row) { multiply_native<Format, kT>(args, row); });
  }
  matmul_super<Format>(args);
}

}  // namespace
}  // namespace kda::avx512
