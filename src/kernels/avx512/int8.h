// Pieces of the integer products that do not depend on the block format.
//
// Rows are unpacked into panels in the scratch, where 64 bytes hold four neighbouring columns of sixteen rows, codes
// unsigned. Four activation codes, broadcast, meet all sixteen rows in one instruction (vpdpbusd), which adds to exact
// sums in 32 bits, and nothing is ever summed over lanes. Codes that stand for signed numbers carry an offset; sums
// then start from minus the offset times the sum of the activations.
//
// Two panels go through k together in steps of 32 columns: their weights stay in 16 registers while the tokens of a
// tile pass by, and the totals of the tokens wait in the first-level cache. So a tile may have any number of tokens.
#pragma once

#include "kernels/avx512/simd.h"

namespace kda::avx512 {
namespace {

/// Tokens from which panels in the scratch pay; fewer are multiplied while the codes of a block are in registers.
constexpr int64_t kPanelTokens = 6;
constexpr int kPanelRows = 16;
constexpr int kPanels = 2;
/// Most tokens of a tile: what it keeps in the first-level cache is theirs.
constexpr int64_t kTileTokens = 32;
/// Columns of a step, in quads.
constexpr int kStepQuads = 8;

/// Addresses of sixteen rows.
using RowPointers = const std::byte* [kPanelRows];

/// Those from row on; rows past the end repeat the last one.
struct Rows {
  RowPointers at;
  KDA_INLINE Rows(const MatmulArgs& args, int64_t row) {
    for (int64_t r = 0; r < kPanelRows; ++r) {
      at[r] = args.w + smaller(row + r, args.row_end - 1) * args.w_row_bytes;
    }
  }
};

/// Asks the second-level cache for bytes of the rows after these while their products are formed. The addresses need
/// not be readable.
struct NextRows {
  const std::byte* first;  // nullptr: nothing to ask for
  int64_t row_bytes;

  /// Bytes [begin, begin + length) of part 0 .. 7 of the rows.
  KDA_INLINE void prefetch(int64_t part, int64_t begin, int64_t length) const {
    if (first == nullptr) return;
    constexpr int64_t kRows = kPanels * kPanelRows / 8;
    for (int64_t r = kRows * part; r < kRows * (part + 1); ++r) {
      for (int64_t i = 0; i < length; i += 64) __builtin_prefetch(first + r * row_bytes + begin + i, 0, 2);
    }
  }
};

KDA_INLINE __m512i broadcast_dword(const void* p) {
  int v;
  __builtin_memcpy(&v, p, 4);
  return _mm512_set1_epi32(v);
}

/// Bit by bit: a where mask is set, b elsewhere.
KDA_INLINE __m512i select(__m512i mask, __m512i a, __m512i b) { return _mm512_ternarylogic_epi32(mask, a, b, 0xCA); }
/// (a & mask) | b
KDA_INLINE __m512i and_or(__m512i a, __m512i mask, __m512i b) { return _mm512_ternarylogic_epi32(a, mask, b, 0xEA); }

KDA_INLINE __m512i low_nibbles(__m512i v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
KDA_INLINE __m512i high_nibbles(__m512i v) { return low_nibbles(_mm512_srli_epi16(v, 4)); }

/// Byte i of each dword, as a dword.
template <int i>
KDA_INLINE __m512i byte_of_dwords(__m512i v) {
  if constexpr (i == 3) return _mm512_srli_epi32(v, 24);
  return _mm512_and_si512(_mm512_srli_epi32(v, 8 * i), _mm512_set1_epi32(0xFF));
}

/// The same for signed bytes.
template <int i>
KDA_INLINE __m512i signed_byte_of_dwords(__m512i v) {
  return _mm512_srai_epi32(_mm512_slli_epi32(v, 24 - 8 * i), 24);
}

/// The f16 in the lower halves of the dwords.
KDA_INLINE __m512 f16_of_low_words(__m512i v) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)); }
KDA_INLINE __m512 f16_of_high_words(__m512i v) { return f16_of_low_words(_mm512_srli_epi32(v, 16)); }

/// out[i] = dword i of the 16 bytes at p[r] + offset, row r in lane r.
KDA_INLINE void transpose_16_bytes(const RowPointers& p, int64_t offset, __m512i (&out)[4]) {
  const auto rows = [&](int r) {  // r, r + 4, r + 8, r + 12
    const auto load = [&](int row) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p[row] + offset)); };
    __m512i v = _mm512_castsi128_si512(load(r));
    v = _mm512_inserti32x4(v, load(r + 4), 1);
    v = _mm512_inserti32x4(v, load(r + 8), 2);
    return _mm512_inserti32x4(v, load(r + 12), 3);
  };
  const __m512i a = rows(0);
  const __m512i b = rows(1);
  const __m512i c = rows(2);
  const __m512i d = rows(3);
  const __m512i ab_low = _mm512_unpacklo_epi32(a, b);
  const __m512i ab_high = _mm512_unpackhi_epi32(a, b);
  const __m512i cd_low = _mm512_unpacklo_epi32(c, d);
  const __m512i cd_high = _mm512_unpackhi_epi32(c, d);
  out[0] = _mm512_unpacklo_epi64(ab_low, cd_low);
  out[1] = _mm512_unpackhi_epi64(ab_low, cd_low);
  out[2] = _mm512_unpacklo_epi64(ab_high, cd_high);
  out[3] = _mm512_unpackhi_epi64(ab_high, cd_high);
}

/// The same for 32 bytes: out[0..7].
KDA_INLINE void transpose_32_bytes(const RowPointers& p, int64_t offset, __m512i (&out)[8]) {
  __m512i half[4];
  transpose_16_bytes(p, offset, half);
  for (int i = 0; i < 4; ++i) out[i] = half[i];
  transpose_16_bytes(p, offset + 16, half);
  for (int i = 0; i < 4; ++i) out[4 + i] = half[i];
}

/// Makes the pointer count as unknown: g++ would keep each of its offsets in a register, and spill them.
template <typename T>
KDA_INLINE const T* opaque(const T* p) {
  asm("" : "+r"(p));
  return p;
}

/// sum[i][g][p] += the products of the quads of group g in panel p with those of token i, which start at a[i]. A sum
/// waits four cycles for the one before, so eight of them take turns to keep both multipliers busy.
template <int kTokens, int kGroups>
KDA_INLINE void add_products(const __m512i (&w)[kPanels][kStepQuads], const int8_t* const (&a)[kTokens],
                             __m512i (&sum)[kTokens][kGroups][kPanels]) {
  constexpr int kQuads = kStepQuads / kGroups;
  KDA_UNROLL
  for (int q = 0; q < kQuads; ++q) {
    KDA_UNROLL
    for (int i = 0; i < kTokens; ++i) {
      KDA_UNROLL
      for (int g = 0; g < kGroups; ++g) {
        const int quad = kQuads * g + q;
        const __m512i activations = broadcast_dword(a[i] + 4 * quad);
        for (int p = 0; p < kPanels; ++p) {
          sum[i][g][p] = in_order(_mm512_dpbusd_epi32(sum[i][g][p], w[p][quad], activations));
        }
      }
    }
  }
}

/// Calls multiply<kTokens>(t) until n tokens are done, kMost at a time while there are as many.
template <int kMost, typename Multiply>
KDA_INLINE void for_tokens(int64_t n, Multiply multiply) {
  int64_t t = 0;
  for (; t + kMost <= n; t += kMost) multiply.template operator()<kMost>(t);
  if constexpr (kMost > 2) {
    if (t + 2 <= n) {
      multiply.template operator()<2>(t);
      t += 2;
    }
  }
  if (t < n) multiply.template operator()<1>(t);
}

/// The activations and results of a tile of tokens.
struct Tile {
  int64_t n;
  const int8_t* codes[kTileTokens];
  const int16_t* sums[kTileTokens];
  const float* scales[kTileTokens];
  __m512 y[kTileTokens][kPanels];  // one row a lane

  KDA_INLINE Tile(const MatmulArgs& args, int64_t block, int64_t token, int64_t n_tokens) : n(n_tokens) {
    for (int64_t t = 0; t < n; ++t) {
      const int64_t row = x_row_of(args, token + t);
      codes[t] = args.x.codes + row * args.k;
      sums[t] = args.x.sums + row * (args.k / 16);
      scales[t] = args.x.scales + row * (args.k / block);
      for (__m512& rows : y[t]) rows = _mm512_setzero_ps();
    }
  }

  /// y[token][row ..], as far as the rows go.
  template <int kN = kPanels>
  KDA_INLINE void store(const MatmulArgs& args, int64_t token, int64_t row) const {
    for (int64_t t = 0; t < n; ++t) {
      float* to = args.y + y_row_of(args, token + t) * args.y_stride;
      for (int p = 0; p < kN; ++p) {
        const int64_t first = row + kPanelRows * p;
        _mm512_mask_storeu_ps(to + first, first_lanes(args.row_end - first), y[t][p]);
      }
    }
  }
};

/// Calls multiply<kTokens>(row) for rows [row, row + 16) when there are too few tokens for panels.
template <typename Multiply>
KDA_INLINE void for_rows_with_few_tokens(const MatmulArgs& args, Multiply multiply) {
  static_assert(kPanelTokens == 6);
  const auto all_rows = [&]<int kTokens>() {
    for (int64_t row = args.row_begin; row < args.row_end; row += kPanelRows) {
      multiply.template operator()<kTokens>(row);
    }
  };
  if (args.n == 1) all_rows.template operator()<1>();
  if (args.n == 2) all_rows.template operator()<2>();
  if (args.n == 3) all_rows.template operator()<3>();
  if (args.n == 4) all_rows.template operator()<4>();
  if (args.n == 5) all_rows.template operator()<5>();
}

/// A product whose activations have a scale for every kActBlock elements. kUnit elements, or what is left of a row, go
/// through unpacking and multiplication together. Panels holds what was unpacked of a unit.
///   unpack(rows, unit, panels[p])            sixteen rows
///   multiply(panels, unit, tile, next)       adds the products of the unit to tile.y
template <int64_t kActBlock, int64_t kUnit, typename Panels, typename Unpack, typename Multiply>
KDA_INLINE void for_rows_and_tiles(const MatmulArgs& args, Unpack unpack, Multiply multiply) {
  static_assert(sizeof(Panels) <= kUnit * 64);  // matmul_scratch_bytes()
  auto* panels = reinterpret_cast<Panels*>(args.scratch);
  const int64_t n_units = (args.k + kUnit - 1) / kUnit;
  const int64_t n_tiles = (args.n + kTileTokens - 1) / kTileTokens;
  for (int64_t row = args.row_begin; row < args.row_end; row += kPanels * kPanelRows) {
    const Rows rows[kPanels] = {Rows(args, row), Rows(args, row + kPanelRows)};
    const auto unpack_unit = [&](int64_t unit, Panels& to) {
      for (int p = 0; p < kPanels; ++p) unpack(rows[p].at, unit, to[p]);
    };
    // With one tile each unit is multiplied while it is in the first-level cache.
    for (int64_t u = 0; n_tiles > 1 && u < n_units; ++u) unpack_unit(u, panels[u]);
    NextRows next{args.w + (row + kPanels * kPanelRows) * args.w_row_bytes, args.w_row_bytes};
    for (int64_t i = 0; i < n_tiles; ++i) {  // of even size
      const int64_t token = i * args.n / n_tiles;
      Tile tile(args, kActBlock, token, (i + 1) * args.n / n_tiles - token);
      for (int64_t u = 0; u < n_units; ++u) {
        if (n_tiles == 1) unpack_unit(u, panels[0]);
        multiply(panels[n_tiles == 1 ? 0 : u], u, tile, next);
      }
      tile.store(args, token, row);
      next.first = nullptr;
    }
  }
}

}  // namespace
}  // namespace kda::avx512
