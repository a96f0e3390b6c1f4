#include "kernels/avx512/k_scales.h"
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/native.h"
#include "quant/blocks.h"

namespace kda::avx512 {
namespace {

struct Q6K {
  using Block = BlockQ6_K;
  static constexpr int kGroupLength = 16;
  static constexpr int kOffset = 32;
  static constexpr int kMinLength = 0;

  static KDA_INLINE __m512i join(__m512i low, __m512i high) {
    return _mm512_and_si512(select(_mm512_set1_epi8(0x0F), low, high), _mm512_set1_epi8(0x3F));
  }

  static KDA_INLINE __m512 load_d(const RowPointers& rows, int64_t at) {
    __m512i end[4];  // of the block: d is last
    static_assert(offsetof(Block, d) + 2 == sizeof(Block));
    transpose_16_bytes(rows, at + sizeof(Block) - 16, end);
    return f16_of_high_words(end[3]);
  }

  /// Half c of a block holds elements 128c + 32p + l, p in 0..3. Low four bits of planes 0 and 1: low nibbles of ql at
  /// 64c + l and 64c + 32 + l; of planes 2 and 3: the high nibbles there. Upper two bits: bits 2p of qh at 32c + l.
  static KDA_INLINE void unpack(const RowPointers& rows, int64_t at, SuperPanel& panel) {
    for (int c = 0; c < 2; ++c) {
      for (int half = 0; half < 2; ++half) {  // 16 bytes each of the 32 a plane has
        __m512i ql0[4];
        __m512i ql1[4];
        __m512i qh[4];
        transpose_16_bytes(rows, at + offsetof(Block, ql) + 64 * c + 16 * half, ql0);
        transpose_16_bytes(rows, at + offsetof(Block, ql) + 64 * c + 32 + 16 * half, ql1);
        transpose_16_bytes(rows, at + offsetof(Block, qh) + 32 * c + 16 * half, qh);
        for (int i = 0; i < 4; ++i) {
          __m512i* codes = panel.codes + 32 * c + 4 * half + i;
          codes[0] = join(ql0[i], _mm512_slli_epi16(qh[i], 4));
          codes[8] = join(ql1[i], _mm512_slli_epi16(qh[i], 2));
          codes[16] = join(_mm512_srli_epi16(ql0[i], 4), qh[i]);
          codes[24] = join(_mm512_srli_epi16(ql1[i], 4), _mm512_srli_epi16(qh[i], 2));
        }
      }
    }
    __m512i scales[4];
    transpose_16_bytes(rows, at + offsetof(Block, scales), scales);
    for (int i = 0; i < 4; ++i) {
      panel.scale[4 * i] = signed_byte_of_dwords<0>(scales[i]);
      panel.scale[4 * i + 1] = signed_byte_of_dwords<1>(scales[i]);
      panel.scale[4 * i + 2] = signed_byte_of_dwords<2>(scales[i]);
      panel.scale[4 * i + 3] = signed_byte_of_dwords<3>(scales[i]);
    }
    panel.d = load_d(rows, at);
  }

  static KDA_INLINE void load_codes(const std::byte* block, __m512i (&out)[4]) {
    for (int c = 0; c < 2; ++c) {
      const __m512i ql = load_512(block + offsetof(Block, ql) + 64 * c);
      const __m512i qh = load_twice(block + offsetof(Block, qh) + 32 * c);
      out[2 * c] = join(ql, _mm512_sllv_epi16(qh, by_halves(4, 2)));
      out[2 * c + 1] = join(_mm512_srli_epi16(ql, 4), _mm512_srlv_epi16(qh, by_halves(0, 2)));
    }
  }

  class Native {
   public:
    static constexpr int kGroupLength = 16;
    static constexpr int kOffset = 32;
    static constexpr bool kWide = false;

    KDA_INLINE Native(const RowPointers& rows, int64_t at) : d_(load_d(rows, at)) {}
    KDA_INLINE __m512 d() const { return d_; }
    KDA_INLINE __m256i scales(int /*r*/, const std::byte* block) const {
      return _mm256_cvtepi8_epi16(avx2::load_128(block + offsetof(Block, scales)));
    }

   private:
    __m512 d_;
  };
};

}  // namespace

void matmul_q6_k(const MatmulArgs& args) { matmul_k<Q6K>(args); }

}  // namespace kda::avx512
