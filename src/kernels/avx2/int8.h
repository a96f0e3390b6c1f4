// Pieces of the integer products that do not depend on the block format.
//
// A product takes few tokens in one way and many in another, with the same result for each row and token:
//   few    rows stay as the file has them; eight rows walk through k together, so that what is summed over lanes can be
//          reduced for eight rows at once and a register holds one row a lane;
//   many   sixteen rows are unpacked into two panels in the scratch, where 32 bytes hold four neighbouring columns of
//          eight rows. Four activation codes, broadcast, meet all eight rows in one instruction, and nothing is
//          ever summed over lanes.
// Either way the total of a block is an exact int32, and the float operations that follow are the same.
#pragma once

#include "kernels/avx2/simd.h"

namespace kda::avx2 {
namespace {

/// Tokens from which unpacking panels pays.
constexpr int64_t kPanelTokens = 4;
constexpr int kPanelRows = 8;
/// Tokens that share the loads of a panel: 4 tokens and 2 panels are 8 sums, half of the registers.
constexpr int kTileTokens = 4;

/// Addresses of eight rows from row on; those past the end repeat the last one.
struct Rows {
  const std::byte* at[kPanelRows];
  KDA_INLINE Rows(const MatmulArgs& args, int64_t row) {
    for (int64_t r = 0; r < kPanelRows; ++r) {
      at[r] = args.w + smaller(row + r, args.row_end - 1) * args.w_row_bytes;
    }
  }
};

/// Asks for a block of a row that will be read next, bytes_ahead from here. The address need not be readable.
template <typename Block, _mm_hint kHint>
KDA_INLINE void prefetch_block(const std::byte* block, int64_t bytes_ahead) {
  const auto* address = reinterpret_cast<const char*>(block) + bytes_ahead;
  for (size_t i = 0; i < sizeof(Block); i += 64) _mm_prefetch(address + i, kHint);
}

KDA_INLINE __m256i broadcast_dword(const void* p) {
  int v;
  __builtin_memcpy(&v, p, 4);
  return _mm256_set1_epi32(v);
}

KDA_INLINE __m256i low_nibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
KDA_INLINE __m256i high_nibbles(__m256i v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }

/// 16 bytes from each of two places, the second in the upper half.
KDA_INLINE __m256i load_halves(const void* low, const void* high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(load_128(low)), load_128(high), 1);
}

/// out[i] = dword i of the 16 bytes at p[r] + offset, row r in lane r.
KDA_INLINE void transpose_16_bytes(const std::byte* const (&p)[8], int64_t offset, __m256i (&out)[4]) {
  const auto rows = [&](int r) { return load_halves(p[r] + offset, p[r + 4] + offset); };
  const __m256i a = rows(0);
  const __m256i b = rows(1);
  const __m256i c = rows(2);
  const __m256i d = rows(3);
  const __m256i ab_low = _mm256_unpacklo_epi32(a, b);
  const __m256i ab_high = _mm256_unpackhi_epi32(a, b);
  const __m256i cd_low = _mm256_unpacklo_epi32(c, d);
  const __m256i cd_high = _mm256_unpackhi_epi32(c, d);
  out[0] = _mm256_unpacklo_epi64(ab_low, cd_low);
  out[1] = _mm256_unpackhi_epi64(ab_low, cd_low);
  out[2] = _mm256_unpacklo_epi64(ab_high, cd_high);
  out[3] = _mm256_unpackhi_epi64(ab_high, cd_high);
}

/// The same for 32 bytes: out[0..7].
KDA_INLINE void transpose_32_bytes(const std::byte* const (&p)[8], int64_t offset, __m256i (&out)[8]) {
  __m256i half[4];
  transpose_16_bytes(p, offset, half);
  for (int i = 0; i < 4; ++i) out[i] = half[i];
  transpose_16_bytes(p, offset + 16, half);
  for (int i = 0; i < 4; ++i) out[4 + i] = half[i];
}

/// Sums of the 8 lanes of each of eight vectors, vector r in lane r.
KDA_INLINE __m256i sums_of_lanes(const __m256i (&v)[8]) {
  const auto pairs = [](__m256i a, __m256i b) {  // a02 b02 a13 b13
    return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  };
  const auto quads = [&](__m256i a, __m256i b, __m256i c, __m256i d) {
    const __m256i ab = pairs(a, b);
    const __m256i cd = pairs(c, d);
    return _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
  };
  const __m256i first = quads(v[0], v[1], v[2], v[3]);
  const __m256i second = quads(v[4], v[5], v[6], v[7]);
  return _mm256_add_epi32(_mm256_permute2x128_si256(first, second, 0x20),
                          _mm256_permute2x128_si256(first, second, 0x31));
}

/// sum over p of side[p] times the sums 2p and 2p + 1: of eight rows, one a lane.
KDA_INLINE __m256i times_sums(const int16_t (&side)[8][16], const int16_t* sums) {
  __m256i total = _mm256_setzero_si256();
  for (int p = 0; p < 8; ++p) {
    total = _mm256_add_epi32(total, _mm256_madd_epi16(load_256(side[p]), broadcast_dword(sums + 2 * p)));
  }
  return total;
}

/// The f16 at p[r] + offset for eight rows.
KDA_INLINE __m256 load_f16_of_rows(const std::byte* const (&p)[8], int64_t offset) {
  alignas(16) uint16_t h[8];
  for (int r = 0; r < 8; ++r) __builtin_memcpy(&h[r], p[r] + offset, 2);
  return _mm256_cvtph_ps(load_128(h));
}

/// y[token][row .. row + 7], as far as the rows go.
KDA_INLINE void store_rows(const MatmulArgs& args, int64_t token, int64_t row, __m256 values) {
  float* y = args.y + y_row_of(args, token) * args.y_stride + row;
  const int64_t n = args.row_end - row;
  if (n >= 8) {
    _mm256_storeu_ps(y, values);
  } else if (n > 0) {
    _mm256_maskstore_ps(y, first_lanes(n), values);
  }
}

}  // namespace
}  // namespace kda::avx2
