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

/// Addresses of eight rows from row on; those past the end repeat the last one.
struct Rows {
  const std::byte* at[kPanelRows];
  KDA_INLINE Rows(const MatmulArgs& args, int64_t row) {
    for (int64_t r = 0; r < kPanelRows; ++r) {
      at[r] = args.w + smaller(row + r, args.row_end - 1) * args.w_row_bytes;
    }
  }
};

/// Asks for the block at address, which need not be readable. kLevel: of the cache, 1 or 2.
template <typename Block, int kLevel>
KDA_INLINE void prefetch_block(const std::byte* address) {
  for (size_t i = 0; i < sizeof(Block); i += 64) __builtin_prefetch(address + i, 0, 4 - kLevel);
}

KDA_INLINE __m256i broadcast_dword(const void* p) {
  int v;
  __builtin_memcpy(&v, p, 4);
  return _mm256_set1_epi32(v);
}

KDA_INLINE __m256i low_nibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
KDA_INLINE __m256i high_nibbles(__m256i v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }

/// Shuffle indices for the bytes of a lane: index (low byte first) taken from each lane. Where a byte has its top bit
/// set the shuffle gives 0.
KDA_INLINE __m256i in_each_lane(uint32_t index, uint32_t lane_step) {
  const auto of_lane = [&](uint32_t lane) { return static_cast<int>(index + lane * lane_step); };
  // A shuffle takes bytes from within its 128 bits, so the lanes count from 0 twice.
  return _mm256_setr_epi32(of_lane(0), of_lane(1), of_lane(2), of_lane(3), of_lane(0), of_lane(1), of_lane(2),
                           of_lane(3));
}

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

/// Sums of the 16 words of each of eight vectors, vector r in lane r. Four words of a vector must add up in 16 bits.
KDA_INLINE __m256i sums_of_words(const __m256i (&v)[8]) {
  const auto pairs = [](__m256i a, __m256i b) {
    return _mm256_add_epi16(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  };
  const auto quads = [&](__m256i a, __m256i b, __m256i c, __m256i d) {
    const __m256i ab = pairs(a, b);
    const __m256i cd = pairs(c, d);
    const __m256i words = _mm256_add_epi16(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
    return _mm256_madd_epi16(words, _mm256_set1_epi16(1));
  };
  const __m256i first = quads(v[0], v[1], v[2], v[3]);
  const __m256i second = quads(v[4], v[5], v[6], v[7]);
  return _mm256_add_epi32(_mm256_permute2x128_si256(first, second, 0x20),
                          _mm256_permute2x128_si256(first, second, 0x31));
}

/// Signed 8-bit codes times activations, neighbours added in 16 bits: |code| <= 128 and |a| <= 127, so that a sum is at
/// most 32512. (The sign of a code goes to the activation; -128 becomes 128, which an unsigned byte holds.)
KDA_INLINE __m256i signed_products(__m256i codes, __m256i a) {
  return _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(a, codes));
}

/// Products of codes, signed or not, with activations, neighbours added in 16 bits.
template <bool kSigned>
KDA_INLINE __m256i products(__m256i codes, __m256i a) {
  return kSigned ? signed_products(codes, a) : _mm256_maddubs_epi16(codes, a);
}

/// sum over p of side[p] times the sums 2p and 2p + 1: of eight rows, one a lane.
KDA_INLINE __m256i times_sums(const int16_t (&side)[8][16], const int16_t* sums) {
  __m256i total = _mm256_setzero_si256();
  for (int p = 0; p < 8; ++p) {
    total = _mm256_add_epi32(total, _mm256_madd_epi16(load_256(side[p]), broadcast_dword(sums + 2 * p)));
  }
  return total;
}

/// The 16 bits at p[r] + offset of eight rows.
KDA_INLINE __m128i load_words_of_rows(const std::byte* const (&p)[8], int64_t offset) {
  const auto word = [&](int r) {
    uint16_t h;
    __builtin_memcpy(&h, p[r] + offset, 2);
    return static_cast<int16_t>(h);
  };
  return _mm_setr_epi16(word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7));
}

/// The 32 bits there, one row a lane.
KDA_INLINE __m256i load_dwords_of_rows(const std::byte* const (&p)[8], int64_t offset) {
  const auto dword = [&](int r) {
    int v;
    __builtin_memcpy(&v, p[r] + offset, 4);
    return v;
  };
  return _mm256_setr_epi32(dword(0), dword(1), dword(2), dword(3), dword(4), dword(5), dword(6), dword(7));
}

/// The f16 there.
KDA_INLINE __m256 load_f16_of_rows(const std::byte* const (&p)[8], int64_t offset) {
  return _mm256_cvtph_ps(load_words_of_rows(p, offset));
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

/// Walks over the rows and tokens of a product:
///   native<kT>(row, token)       rows [row, row + 8), kT tokens from token on
///   unpack(row, i)               rows [row, row + 8) into panel i, 0 or 1
///   multiply<kT>(row, token)     the unpacked rows [row, row + 16), kT tokens from token on
template <typename Native, typename Unpack, typename Multiply>
KDA_INLINE void for_rows_and_tokens(const MatmulArgs& args, Native native, Unpack unpack, Multiply multiply) {
  if (args.n == 0) return;
  if (args.n < kPanelTokens) {
    for (int64_t row = args.row_begin; row < args.row_end; row += 8) {
      if (args.n == 1) {
        native.template operator()<1>(row, 0);
      } else if (args.n == 2) {
        native.template operator()<2>(row, 0);
      } else {
        native.template operator()<3>(row, 0);
      }
    }
    return;
  }
  for (int64_t row = args.row_begin; row < args.row_end; row += 16) {
    unpack(row, 0);
    unpack(row + 8, 1);
    int64_t token = 0;
    for (; token + 4 <= args.n; token += 4) multiply.template operator()<4>(row, token);
    if (args.n - token == 3) {
      multiply.template operator()<3>(row, token);
    } else if (args.n - token == 2) {
      multiply.template operator()<2>(row, token);
    } else if (args.n - token == 1) {
      multiply.template operator()<1>(row, token);
    }
  }
}

}  // namespace
}  // namespace kda::avx2
