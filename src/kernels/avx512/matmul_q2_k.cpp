#include "kernels/avx512/k_scales.h"
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/native.h"
#include "quant/blocks.h"

namespace kda::avx512 {
namespace {

// Element 128c + 32p + l: bits 2p and 2p + 1 of qs[32c + l]. Byte g of scales: scale and minimum of group g. The panel
// holds scale * code, at most 45.
struct Q2K {
  using Block = BlockQ2_K;
  static constexpr int kGroupLength = 256;
  static constexpr int kOffset = 0;
  static constexpr int kMinLength = 16;

  static KDA_INLINE void load_mins(const __m512i (&bytes)[4], __m512i (&min_pair)[8]) {
    const __m512i mins[4] = {high_nibbles(bytes[0]), high_nibbles(bytes[1]), high_nibbles(bytes[2]),
                             high_nibbles(bytes[3])};
    pair_mins(mins, min_pair);
  }

  static KDA_INLINE void load_d(const RowPointers& rows, int64_t at, __m512& d, __m512& dmin) {
    __m512i end[4];  // of the block: d and dmin are last
    static_assert(offsetof(Block, d) + 4 == sizeof(Block));
    transpose_16_bytes(rows, at + sizeof(Block) - 16, end);
    d = f16_of_low_words(end[3]);
    dmin = f16_of_high_words(end[3]);
  }

  static KDA_INLINE void unpack(const RowPointers& rows, int64_t at, SuperPanel& panel) {
    __m512i bytes[4];
    transpose_16_bytes(rows, at + offsetof(Block, scales), bytes);
    __m512i scale[16];
    for (int i = 0; i < 4; ++i) spread_bytes(low_nibbles(bytes[i]), &scale[4 * i]);
    load_mins(bytes, panel.min_pair);
    for (int c = 0; c < 2; ++c) {
      __m512i qs[8];
      transpose_32_bytes(rows, at + offsetof(Block, qs) + 32 * c, qs);
      for (int i = 0; i < 8; ++i) {
        for (int p = 0; p < 4; ++p) {
          // Two codes a word: both products stay below 256.
          const __m512i codes = _mm512_and_si512(_mm512_srli_epi16(qs[i], 2 * p), _mm512_set1_epi8(3));
          panel.codes[32 * c + 8 * p + i] = _mm512_mullo_epi16(codes, scale[8 * c + 2 * p + i / 4]);
        }
      }
    }
    load_d(rows, at, panel.d, panel.dmin);
  }

  static KDA_INLINE void load_codes(const std::byte* block, __m512i (&out)[4]) {
    for (int c = 0; c < 2; ++c) {
      const __m512i twice = load_twice(block + offsetof(Block, qs) + 32 * c);
      out[2 * c] = _mm512_and_si512(_mm512_srlv_epi16(twice, by_halves(0, 2)), _mm512_set1_epi8(3));
      out[2 * c + 1] = _mm512_and_si512(_mm512_srlv_epi16(twice, by_halves(4, 6)), _mm512_set1_epi8(3));
    }
  }

  class Native {
   public:
    static constexpr int kGroupLength = 16;
    static constexpr int kOffset = 0;
    static constexpr bool kWide = false;

    KDA_INLINE Native(const RowPointers& rows, int64_t at) {
      __m512i bytes[4];
      transpose_16_bytes(rows, at + offsetof(Block, scales), bytes);
      load_mins(bytes, min_pair_);
      load_d(rows, at, d_, dmin_);
    }
    KDA_INLINE __m512 d() const { return d_; }
    KDA_INLINE __m512 dmin() const { return dmin_; }
    KDA_INLINE __m512i min_pair(int i) const { return min_pair_[i]; }
    KDA_INLINE __m256i scales(int /*r*/, const std::byte* block) const {
      const __m128i bytes = avx2::load_128(block + offsetof(Block, scales));
      return _mm256_cvtepu8_epi16(_mm_and_si128(bytes, _mm_set1_epi8(15)));
    }

   private:
    __m512i min_pair_[8];
    __m512 d_;
    __m512 dmin_;
  };
};

}  // namespace

void matmul_q2_k(const MatmulArgs& args) { matmul_k<Q2K>(args); }

}  // namespace kda::avx512
