// Products with blocks of 32: w = d * (code - offset) or d * code + m. With activations D * a:
//   P = sum(code * a) - offset * sum(a)     exact in int32
//   y += (d * D) * P,   y += m * (D * sum(a))
#pragma once

#include "kernels/avx2/int8.h"

namespace kda::avx2 {
namespace {

// A format is a class with
//   Block               as in the file
//   kSigned             codes are signed, or else unsigned and at most 31
//   kDepth              quads of columns whose products add up in 16 bits: 2 * kDepth * 127 * largest code < 2^15
//   kHasMin, kOffset    which of the two formulas, and its offset
//   codes(block)        the 32 codes of a block
//   unpack(rows, at, quads)   quads[i]: codes 4i .. 4i + 3 of the blocks at rows[r] + at, one row a lane
//   scales(rows, at)    d of these blocks
//   mins(rows, at)      m of these blocks, with a minimum

/// One block of eight rows, unpacked.
struct alignas(32) Panel32 {
  int8_t codes[8][32];  // four columns of each row: [column / 4][4 * row + column % 4]
  __m256 d;
  __m256 m;
};

/// A block of activations.
struct Acts32 {
  const int8_t* codes;
  const int16_t* sums;
  float scale;
};

KDA_INLINE Acts32 acts_32(const MatmulArgs& args, int64_t token, int64_t block) {
  const int64_t row = x_row_of(args, token);
  return {args.x.codes + row * args.k + block * 32, args.x.sums + row * (args.k / 16) + block * 2,
          args.x.scales[row * (args.k / 32) + block]};
}

/// factor times the sum of the 32 codes, in all lanes.
KDA_INLINE __m256i times_sum(const Acts32& acts, int16_t factor) {
  return _mm256_madd_epi16(broadcast_dword(acts.sums), _mm256_set1_epi16(factor));
}

/// The float operations of a block, from the sum of code * a.
template <typename Format>
KDA_INLINE __m256 add_block(__m256 y, __m256i p, __m256 d, __m256 m, const Acts32& acts) {
  const __m256 scale = _mm256_set1_ps(acts.scale);
  if constexpr (Format::kOffset != 0) p = _mm256_sub_epi32(p, times_sum(acts, Format::kOffset));
  y = _mm256_fmadd_ps(_mm256_mul_ps(d, scale), _mm256_cvtepi32_ps(p), y);
  if constexpr (Format::kHasMin) {
    y = _mm256_fmadd_ps(m, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(times_sum(acts, 1))), y);
  }
  return y;
}

template <typename Format>
KDA_INLINE __m256 mins_or_zero(const std::byte* const (&rows)[8], int64_t at) {
  if constexpr (Format::kHasMin) return Format::mins(rows, at);
  return _mm256_setzero_ps();
}

/// Rows [row, row + 8) and kT tokens from token on, without unpacking.
template <typename Format, int kT>
KDA_INLINE void multiply_native(const MatmulArgs& args, int64_t row, int64_t token) {
  constexpr auto kBlockBytes = static_cast<int64_t>(sizeof(typename Format::Block));
  const Rows rows(args, row);
  __m256 y[kT];
  for (int t = 0; t < kT; ++t) y[t] = _mm256_setzero_ps();
  for (int64_t b = 0; b < args.k / 32; ++b) {
    Acts32 acts[kT];
    __m256i a[kT];
    for (int t = 0; t < kT; ++t) {
      acts[t] = acts_32(args, token + t, b);
      a[t] = load_256(acts[t].codes);
    }
    __m256i lanes[kT][8];
    for (int r = 0; r < 8; ++r) {
      const std::byte* block = rows.at[r] + b * kBlockBytes;
      prefetch_block<typename Format::Block, 1>(block + 8 * args.w_row_bytes);
      const __m256i codes = Format::codes(block);
      for (int t = 0; t < kT; ++t) {
        const __m256i sums = products<Format::kSigned>(codes, a[t]);
        lanes[t][r] = Format::kSigned ? _mm256_madd_epi16(sums, _mm256_set1_epi16(1)) : sums;
      }
    }
    const __m256 d = Format::scales(rows.at, b * kBlockBytes);
    const __m256 m = mins_or_zero<Format>(rows.at, b * kBlockBytes);
    for (int t = 0; t < kT; ++t) {
      const __m256i p = Format::kSigned ? sums_of_lanes(lanes[t]) : sums_of_words(lanes[t]);
      y[t] = add_block<Format>(y[t], p, d, m, acts[t]);
    }
  }
  for (int t = 0; t < kT; ++t) store_rows(args, token + t, row, y[t]);
}

/// The panels of 16 rows, block after block.
using Panels32 = Panel32 (*)[2];

template <typename Format>
KDA_INLINE void unpack_rows(const MatmulArgs& args, int64_t row, int i, Panels32 panels) {
  constexpr auto kBlockBytes = static_cast<int64_t>(sizeof(typename Format::Block));
  const Rows rows(args, row);
  for (int64_t b = 0; b < args.k / 32; ++b) {
    const int64_t at = b * kBlockBytes;
    for (const std::byte* weights : rows.at) {
      prefetch_block<typename Format::Block, 2>(weights + at + 16 * args.w_row_bytes);
    }
    Panel32& panel = panels[b][i];
    __m256i quads[8];
    Format::unpack(rows.at, at, quads);
    for (int q = 0; q < 8; ++q) store_256(panel.codes[q], quads[q]);
    panel.d = Format::scales(rows.at, at);
    panel.m = mins_or_zero<Format>(rows.at, at);
  }
}

/// total[i][t] = sum of code * a of panel i and token t.
template <typename Format, int kT>
KDA_INLINE void multiply_block(const Panel32 (&panel)[2], const Acts32 (&acts)[kT], __m256i (&total)[2][kT]) {
  constexpr int kDepth = Format::kDepth;
  for (auto& sums : total) {
    for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  }
  KDA_UNROLL
  for (int begin = 0; begin < 8; begin += kDepth) {
    __m256i s[2][kT];
    KDA_UNROLL
    for (int q = 0; q < kDepth; ++q) {
      const __m256i w[2] = {load_256(panel[0].codes[begin + q]), load_256(panel[1].codes[begin + q])};
      for (int t = 0; t < kT; ++t) {
        const __m256i a = broadcast_dword(acts[t].codes + 4 * (begin + q));
        for (int i = 0; i < 2; ++i) {
          const __m256i product = products<Format::kSigned>(w[i], a);
          s[i][t] = q == 0 ? product : _mm256_add_epi16(s[i][t], product);
          if (q > 0) keep_order(s[i][t]);
          if (q + 1 < kDepth) continue;
          total[i][t] = _mm256_add_epi32(total[i][t], _mm256_madd_epi16(s[i][t], _mm256_set1_epi16(1)));
          keep_order(total[i][t]);
        }
      }
    }
  }
}

/// Rows [row, row + 16), unpacked, and kT tokens from token on.
template <typename Format, int kT>
KDA_INLINE void multiply_panels(const MatmulArgs& args, Panels32 panels, int64_t row, int64_t token) {
  __m256 y[2][kT];
  for (int t = 0; t < kT; ++t) y[0][t] = y[1][t] = _mm256_setzero_ps();
  for (int64_t b = 0; b < args.k / 32; ++b) {
    Acts32 acts[kT];
    for (int t = 0; t < kT; ++t) acts[t] = acts_32(args, token + t, b);
    __m256i p[2][kT];
    multiply_block<Format, kT>(panels[b], acts, p);
    for (int i = 0; i < 2; ++i) {
      for (int t = 0; t < kT; ++t) {
        y[i][t] = add_block<Format>(y[i][t], p[i][t], panels[b][i].d, panels[b][i].m, acts[t]);
      }
    }
  }
  for (int i = 0; i < 2; ++i) {
    for (int t = 0; t < kT; ++t) store_rows(args, token + t, row + 8 * i, y[i][t]);
  }
}

template <typename Format>
KDA_INLINE void matmul_32(const MatmulArgs& args) {
  static_assert(sizeof(Panel32) * 2 <= 32 * 64);  // matmul_scratch_bytes()
  const auto panels = reinterpret_cast<Panels32>(args.scratch);
  for_rows_and_tokens(
      args, [&]<int kT>(int64_t row, int64_t token) { multiply_native<Format, kT>(args, row, token); },
      [&](int64_t row, int i) { unpack_rows<Format>(args, row, i, panels); },
      [&]<int kT>(int64_t row, int64_t token) { multiply_panels<Format, kT>(args, panels, row, token); });
}

}  // namespace
}  // namespace kda::avx2
