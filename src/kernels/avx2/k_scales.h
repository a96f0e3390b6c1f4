// Scales of super-blocks, for eight rows at once: one row a lane.
#pragma once

#include "kernels/avx2/int8.h"

namespace kda::avx2 {
namespace {

/// Q4_K and Q5_K start alike, with d, dmin, and 8 scales and 8 minima of 6 bits in 12 bytes: byte k < 4 scale k, byte 4
/// + k minimum k, byte 8 + k the low halves of scale and minimum 4 + k, whose top bits are those of bytes k and 4 + k.
/// scale[g] and min[g] get that of group g twice a lane.
KDA_INLINE void load_k_scales(const std::byte* const (&blocks)[8], int16_t (&scale)[8][16], int16_t (&min)[8][16],
                              __m256& d, __m256& dmin) {
  __m256i word[4];
  transpose_16_bytes(blocks, 0, word);
  const __m256i low_words = _mm256_and_si256(word[0], _mm256_set1_epi32(0xFFFF));
  const __m256i halves = _mm256_packus_epi32(low_words, _mm256_srli_epi32(word[0], 16));
  const __m256i in_order = _mm256_permute4x64_epi64(halves, 0xD8);  // d of 8 rows, dmin of 8 rows
  d = _mm256_cvtph_ps(_mm256_castsi256_si128(in_order));
  dmin = _mm256_cvtph_ps(_mm256_extracti128_si256(in_order, 1));

  const auto spread = [](__m256i bytes, int16_t* out) {
    for (uint32_t b = 0; b < 4; ++b) {
      store_256(out + 16 * b, _mm256_shuffle_epi8(bytes, in_each_lane(0x80008000U + 0x00010001U * b, 0x00040004U)));
    }
  };
  const __m256i six_bits = _mm256_set1_epi8(0x3F);
  const __m256i low_bits = _mm256_set1_epi8(0x0F);
  const auto top_bits = [](__m256i v) { return _mm256_and_si256(_mm256_srli_epi32(v, 2), _mm256_set1_epi8(0x30)); };
  spread(_mm256_and_si256(word[1], six_bits), scale[0]);
  spread(_mm256_or_si256(_mm256_and_si256(word[3], low_bits), top_bits(word[1])), scale[4]);
  spread(_mm256_and_si256(word[2], six_bits), min[0]);
  spread(_mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(word[3], 4), low_bits), top_bits(word[2])), min[4]);
}

/// word[i]: signed scales of groups 4i .. 4i + 3, one a byte. scale[g] gets that of group g twice a lane.
KDA_INLINE void spread_scales(const __m256i (&word)[4], int16_t (&scale)[16][16]) {
  for (uint32_t g = 0; g < 16; ++g) {
    // The byte goes to the upper half of a word; the shift brings its sign along.
    const __m256i index = in_each_lane(0x00800080U + 0x01000100U * (g % 4), 0x04000400U);
    store_256(scale[g], _mm256_srai_epi16(_mm256_shuffle_epi8(word[g / 4], index), 8));
  }
}

/// The same scales by pairs of groups: pair[p] gets those of groups 2p and 2p + 1.
KDA_INLINE void pair_scales(const __m256i (&word)[4], int16_t (&pair)[8][16]) {
  for (uint32_t p = 0; p < 8; ++p) {
    const __m256i index = in_each_lane(0x01800080U + 0x02000200U * (p % 2), 0x04000400U);
    store_256(pair[p], _mm256_srai_epi16(_mm256_shuffle_epi8(word[p / 2], index), 8));
  }
}

/// Signed scales of the 16 groups of one block, for Format::Native.
class GroupScales {
 public:
  /// bytes: those of groups 0 .. 15 in order.
  KDA_INLINE explicit GroupScales(__m128i bytes) : all_(_mm256_cvtepi8_epi16(bytes)) {
    half_[0] = _mm256_permute2x128_si256(all_, all_, 0x00);
    half_[1] = _mm256_permute2x128_si256(all_, all_, 0x11);
  }
  /// For elements 32i .. 32i + 31: the scale of each in its word.
  KDA_INLINE __m256i of_32(int i) const {
    const __m256i first =
        _mm256_setr_epi64x(0x0100010001000100, 0x0100010001000100, 0x0302030203020302, 0x0302030203020302);
    return _mm256_shuffle_epi8(half_[i / 4], _mm256_add_epi8(first, _mm256_set1_epi8(static_cast<char>(4 * (i % 4)))));
  }
  /// sum of scale times sums[group], spread over the lanes.
  KDA_INLINE __m256i times(const int16_t* sums) const { return _mm256_madd_epi16(all_, load_256(sums)); }

 private:
  __m256i all_;
  __m256i half_[2];
};

/// Scales and minima of eight blocks of Q4_K or Q5_K, for Format::Native.
class KNative {
 public:
  KDA_INLINE explicit KNative(const std::byte* const (&blocks)[8]) { load_k_scales(blocks, scale_, min_, d_, dmin_); }
  KDA_INLINE __m256 d() const { return d_; }
  KDA_INLINE __m256 dmin() const { return dmin_; }
  KDA_INLINE __m256i min_sum(const int16_t* sums) const { return times_sums(min_, sums); }
  /// Of group g of row r, in all words.
  KDA_INLINE __m256i scale(int g, int r) const { return broadcast_dword(&scale_[g][2 * r]); }

 private:
  alignas(32) int16_t scale_[8][16];
  alignas(32) int16_t min_[8][16];
  __m256 d_;
  __m256 dmin_;
};

}  // namespace
}  // namespace kda::avx2
