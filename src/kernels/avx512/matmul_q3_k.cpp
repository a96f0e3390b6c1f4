#include "kernels/avx512/k_scales.h"
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/native.h"
#include "quant/blocks.h"

namespace kda::avx512 {
namespace {

// Element 128c + 32p + l: bits 2p and 2p + 1 of qs[32c + l], and bit 4c + p of hmask[l] above them, less 4. With its
// scale in -32 .. 31 that gives -124 .. 128; the panel holds 127 more, which fits an unsigned byte.
struct Q3K {
  using Block = BlockQ3_K;
  static constexpr int kGroupLength = 256;
  static constexpr int kOffset = 127;
  static constexpr int kMinLength = 0;

  static KDA_INLINE void unpack(const RowPointers& rows, int64_t at, SuperPanel& panel) {
    __m512i scale[16];
    load_scales(rows, at, scale, panel.d);
    __m512i high[8];
    transpose_32_bytes(rows, at + offsetof(Block, hmask), high);
    for (int c = 0; c < 2; ++c) {
      __m512i qs[8];
      transpose_32_bytes(rows, at + offsetof(Block, qs) + 32 * c, qs);
      for (int i = 0; i < 8; ++i) {
        for (int p = 0; p < 4; ++p) {
          const __m512i low = _mm512_and_si512(_mm512_srli_epi16(qs[i], 2 * p), _mm512_set1_epi8(3));
          const __m512i bit = p < 2 ? _mm512_slli_epi16(high[i], 2 - p) : _mm512_srli_epi16(high[i], p - 2);
          const __m512i codes = and_or(bit, _mm512_set1_epi8(4), low);
          // In both bytes of a word: scale * code + (127 - 4 * scale). The upper one takes no carry in the end.
          const __m512i s = scale[8 * c + 2 * p + i / 4];
          const __m512i shift = _mm512_sub_epi16(_mm512_set1_epi16(127), _mm512_slli_epi16(s, 2));
          const __m512i shifts = _mm512_add_epi16(shift, _mm512_slli_epi16(shift, 8));
          panel.codes[32 * c + 8 * p + i] = _mm512_add_epi16(_mm512_mullo_epi16(codes, s), shifts);
        }
        high[i] = _mm512_srli_epi16(high[i], 4);
      }
    }
  }

  /// Scales are six bits less 32. Low four: byte k < 8 has those of group k and, above, of group k + 8. Upper two: bits
  /// 2j of byte 8 + k, k < 4, for group 4j + k.
  static KDA_INLINE void load_scales(const RowPointers& rows, int64_t at, __m512i (&scale)[16], __m512& d) {
    // The 16 bytes that end with the block, so that nothing after it is read: bytes 2 to 13 are the scales, then d.
    static_assert(offsetof(Block, scales) == 96 && offsetof(Block, d) == 108 && sizeof(Block) == 110);
    __m512i end[4];
    transpose_16_bytes(rows, at + 94, end);
    d = f16_of_high_words(end[3]);
    const auto dword = [&](int i) {
      return _mm512_or_si512(_mm512_srli_epi32(end[i], 16), _mm512_slli_epi32(end[i + 1], 16));
    };
    const __m512i low[2] = {dword(0), dword(1)};
    const __m512i high = dword(2);
    const auto join = [&](__m512i nibbles, __m512i bits, __m512i* out) {
      const __m512i six_bits = and_or(bits, _mm512_set1_epi8(0x30), nibbles);
      spread_bytes(_mm512_sub_epi8(six_bits, _mm512_set1_epi8(32)), out);
    };
    join(low_nibbles(low[0]), _mm512_slli_epi16(high, 4), &scale[0]);
    join(low_nibbles(low[1]), _mm512_slli_epi16(high, 2), &scale[4]);
    join(high_nibbles(low[0]), high, &scale[8]);
    join(high_nibbles(low[1]), _mm512_srli_epi16(high, 2), &scale[12]);
  }

  static KDA_INLINE void load_codes(const std::byte* block, __m512i (&out)[4]) {
    const __m512i hmask = load_twice(block + offsetof(Block, hmask));
    // Bits 2i and 2i + 1 to bit 2.
    const __m512i high[4] = {_mm512_sllv_epi16(hmask, by_halves(2, 1)), _mm512_srlv_epi16(hmask, by_halves(0, 1)),
                             _mm512_srlv_epi16(hmask, by_halves(2, 3)), _mm512_srlv_epi16(hmask, by_halves(4, 5))};
    for (int c = 0; c < 2; ++c) {
      const __m512i twice = load_twice(block + offsetof(Block, qs) + 32 * c);
      const __m512i low[2] = {_mm512_srlv_epi16(twice, by_halves(0, 2)), _mm512_srlv_epi16(twice, by_halves(4, 6))};
      for (int i = 0; i < 2; ++i) {
        const __m512i two_bits = _mm512_and_si512(low[i], _mm512_set1_epi8(3));
        out[2 * c + i] = and_or(high[2 * c + i], _mm512_set1_epi8(4), two_bits);
      }
    }
  }

  class Native {
   public:
    static constexpr int kGroupLength = 16;
    static constexpr int kOffset = 4;
    static constexpr bool kWide = false;

    KDA_INLINE Native(const RowPointers& rows, int64_t at) {
      __m512i end[4];
      transpose_16_bytes(rows, at + sizeof(Block) - 16, end);
      d_ = f16_of_high_words(end[3]);
    }
    KDA_INLINE __m512 d() const { return d_; }
    KDA_INLINE __m256i scales(int /*r*/, const std::byte* block) const {
      const __m128i packed = avx2::load_128(block + sizeof(Block) - 16);
      const __m128i low = _mm_shuffle_epi8(packed, _mm_setr_epi8(2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9));
      const __m128i high =
          _mm_shuffle_epi8(packed, _mm_setr_epi8(10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13));
      const __m128i nibbles = _mm_and_si128(_mm_srlv_epi64(low, _mm_set_epi64x(4, 0)), _mm_set1_epi8(15));
      const __m128i bits = _mm_and_si128(_mm_srlv_epi32(high, _mm_setr_epi32(0, 2, 4, 6)), _mm_set1_epi8(3));
      return _mm256_cvtepi8_epi16(_mm_sub_epi8(_mm_or_si128(nibbles, _mm_slli_epi16(bits, 4)), _mm_set1_epi8(32)));
    }

   private:
    __m512 d_;
  };
};

}  // namespace

void matmul_q3_k(const MatmulArgs& args) { matmul_k<Q3K>(args); }

}  // namespace kda::avx512
