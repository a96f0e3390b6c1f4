#include "kernels/avx512/kernels.h"
#include "kernels/avx512/native.h"
#include "kernels/avx512/nibbles32.h"
#include "kernels/avx512/superblock.h"

namespace kda::avx512 {
namespace {

// Four bits that choose one of 16 levels; within a group as in the blocks of 32.
struct Iq4Xs {
  using Block = BlockIQ4_XS;
  static constexpr int kGroupLength = 32;
  static constexpr int kOffset = kIq4Shift;
  static constexpr int kMinLength = 0;

  static KDA_INLINE void unpack(const RowPointers& rows, int64_t at, SuperPanel& panel) {
    for (int g = 0; g < 8; ++g) {
      __m512i quads[8];
      nibbles_of_rows(rows, at + offsetof(Block, qs) + 16 * g, quads);
      for (int i = 0; i < 8; ++i) panel.codes[8 * g + i] = lookup(kShiftedIq4Levels.level, quads[i]);
    }
    // Scale of group g: low four bits at bit 4g of scales_l, upper two at bit 2g of scales_h, less 32.
    static_assert(offsetof(Block, scales_h) == 2 && offsetof(Block, scales_l) == 4);
    __m512i word[4];
    transpose_16_bytes(rows, at, word);
    panel.d = f16_of_low_words(word[0]);
    for (int g = 0; g < 8; ++g) {
      const __m512i low = _mm512_and_si512(_mm512_srli_epi32(word[1], 4 * g), _mm512_set1_epi32(15));
      const __m512i high = _mm512_srli_epi32(word[0], 12 + 2 * g);
      panel.scale[g] = _mm512_sub_epi32(and_or(high, _mm512_set1_epi32(0x30), low), _mm512_set1_epi32(32));
    }
  }

  static KDA_INLINE void load_codes(const std::byte* block, __m512i (&out)[4]) {
    for (int i = 0; i < 4; ++i) {
      // Both groups have their low nibbles first.
      const std::byte* qs = block + offsetof(Block, qs) + 32 * i;
      const __m512i twice = _mm512_inserti64x4(_mm512_castsi256_si512(load_both(qs)), load_both(qs + 16), 1);
      const __m512i counts = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
      const __m512i nibbles = _mm512_and_si512(_mm512_srlv_epi64(twice, counts), _mm512_set1_epi8(15));
      out[i] = lookup(kShiftedIq4Levels.level, nibbles);
    }
  }

  class Native {
   public:
    static constexpr int kGroupLength = 32;
    static constexpr int kOffset = kIq4Shift;
    static constexpr bool kWide = true;

    KDA_INLINE Native(const RowPointers& rows, int64_t at) {
      __m512i word[4];
      transpose_16_bytes(rows, at, word);
      d_ = f16_of_low_words(word[0]);
    }
    KDA_INLINE __m512 d() const { return d_; }
    KDA_INLINE __m256i scales(int /*r*/, const std::byte* block) const {
      const __m256i low = broadcast_256(block + offsetof(Block, scales_l));
      const __m256i high = broadcast_256(block + offsetof(Block, scales_h));  // and more above
      const __m256i nibbles = _mm256_and_si256(_mm256_srlv_epi32(low, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28)),
                                               _mm256_set1_epi32(15));
      const __m256i bits =
          _mm256_and_si256(_mm256_srlv_epi32(high, _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14)), _mm256_set1_epi32(3));
      const __m256i six_bits = _mm256_or_si256(nibbles, _mm256_slli_epi32(bits, 4));
      const __m256i scales = _mm256_sub_epi32(six_bits, _mm256_set1_epi32(32));
      return _mm256_zextsi128_si256(_mm256_cvtepi32_epi16(scales));
    }

   private:
    __m512 d_;
  };

  static KDA_INLINE __m256i broadcast_256(const std::byte* p) {
    int v;
    __builtin_memcpy(&v, p, 4);
    return _mm256_set1_epi32(v);
  }

  /// 16 bytes in both halves.
  static KDA_INLINE __m256i load_both(const std::byte* p) { return _mm256_broadcastsi128_si256(avx2::load_128(p)); }
};

}  // namespace

void matmul_iq4_xs(const MatmulArgs& args) { matmul_k<Iq4Xs>(args); }

}  // namespace kda::avx512
