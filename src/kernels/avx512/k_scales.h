// Scales of super-blocks, for sixteen rows at once: one row a lane.
#pragma once

#include "kernels/avx512/superblock.h"

namespace kda::avx512 {
namespace {

/// bytes[i]: those of groups 4i .. 4i + 3. pair[2i] and pair[2i + 1] get them by twos in the words of a lane.
template <int kN>
KDA_INLINE void pair_mins(const __m512i (&bytes)[kN], __m512i* pair) {
  const __m512i first = _mm512_set1_epi64(static_cast<int64_t>(0x8005800480018000U));
  const __m512i second = _mm512_set1_epi64(static_cast<int64_t>(0x8007800680038002U));
  const __m512i upper = _mm512_set4_epi32(0x00080008, 0x00080008, 0, 0);
  for (int i = 0; i < kN; ++i) {
    pair[2 * i] = _mm512_shuffle_epi8(bytes[i], _mm512_add_epi8(first, upper));
    pair[2 * i + 1] = _mm512_shuffle_epi8(bytes[i], _mm512_add_epi8(second, upper));
  }
}

/// Byte i of each dword, with its sign, in both words of the dword of out[i].
KDA_INLINE void spread_bytes(__m512i bytes, __m512i* out) {
  for (int i = 0; i < 4; ++i) {
    // The byte goes to the upper half of a word; the shift brings its sign along.
    const __m512i index = _mm512_add_epi8(_mm512_set4_epi32(0x0C800C80, 0x08800880, 0x04800480, 0x00800080),
                                          _mm512_set1_epi32(0x01000100 * i));
    out[i] = _mm512_srai_epi16(_mm512_shuffle_epi8(bytes, index), 8);
  }
}

/// Q4_K and Q5_K start alike, with d, dmin, and 8 scales and 8 minima of 6 bits in 12 bytes: byte k < 4 scale k, byte 4
/// + k minimum k, byte 8 + k the low halves of scale and minimum 4 + k, whose top bits are those of bytes k and 4 + k.
struct KScales {
  __m512i scales[2];  // of groups 0 .. 3 and 4 .. 7, one a byte
  __m512i mins[2];
  __m512 d;
  __m512 dmin;

  KDA_INLINE explicit KScales(const RowPointers& rows, int64_t at) {
    __m512i word[4];
    transpose_16_bytes(rows, at, word);
    d = f16_of_low_words(word[0]);
    dmin = f16_of_high_words(word[0]);
    const auto six_bits = [](__m512i v) { return _mm512_and_si512(v, _mm512_set1_epi8(0x3F)); };
    const auto with_top_bits = [&](__m512i low, __m512i v) {
      return six_bits(select(_mm512_set1_epi8(0x0F), low, _mm512_srli_epi32(v, 2)));
    };
    scales[0] = six_bits(word[1]);
    scales[1] = with_top_bits(word[3], word[1]);
    mins[0] = six_bits(word[2]);
    mins[1] = with_top_bits(_mm512_srli_epi32(word[3], 4), word[2]);
  }

  KDA_INLINE void store(SuperPanel& panel) const {
    panel.d = d;
    panel.dmin = dmin;
    for (int i = 0; i < 2; ++i) {
      panel.scale[4 * i] = byte_of_dwords<0>(scales[i]);
      panel.scale[4 * i + 1] = byte_of_dwords<1>(scales[i]);
      panel.scale[4 * i + 2] = byte_of_dwords<2>(scales[i]);
      panel.scale[4 * i + 3] = byte_of_dwords<3>(scales[i]);
    }
    pair_mins(mins, panel.min_pair);
  }
};

/// Scales and minima of sixteen blocks of Q4_K or Q5_K, for Format::Native.
class KNative {
 public:
  static constexpr int kGroupLength = 32;
  static constexpr int kOffset = 0;
  static constexpr bool kWide = false;

  KDA_INLINE explicit KNative(const RowPointers& rows, int64_t at) {
    const KScales all(rows, at);
    d_ = all.d;
    dmin_ = all.dmin;
    pair_mins(all.mins, min_pair_);
    const __m512i even = _mm512_unpacklo_epi32(all.scales[0], all.scales[1]);  // rows 0, 1, 4, 5 ...
    const __m512i odd = _mm512_unpackhi_epi32(all.scales[0], all.scales[1]);   // rows 2, 3, 6, 7 ...
    store_512(scales_[0], _mm512_permutex2var_epi64(even, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), odd));
    store_512(scales_[8], _mm512_permutex2var_epi64(even, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), odd));
  }
  KDA_INLINE __m512 d() const { return d_; }
  KDA_INLINE __m512 dmin() const { return dmin_; }
  KDA_INLINE __m512i min_pair(int i) const { return min_pair_[i]; }
  KDA_INLINE __m256i scales(int r, const std::byte* /*block*/) const {
    return _mm256_zextsi128_si256(_mm_cvtepu8_epi16(_mm_loadu_si64(scales_[r])));
  }

 private:
  alignas(64) uint8_t scales_[kPanelRows][8];
  __m512i min_pair_[4];
  __m512 d_;
  __m512 dmin_;
};

}  // namespace
}  // namespace kda::avx512
