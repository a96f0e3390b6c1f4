#include "kernels/avx512/k_scales.h"
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/native.h"
#include "quant/blocks.h"

namespace kda::avx512 {
namespace {

// Low four bits as in Q4_K. The fifth bit of element 32g + l is bit g of qh[l].
struct Q5K {
  using Block = BlockQ5_K;
  static constexpr int kGroupLength = 32;
  static constexpr int kOffset = 0;
  static constexpr int kMinLength = 32;

  static KDA_INLINE void unpack(const RowPointers& rows, int64_t at, SuperPanel& panel) {
    const __m512i bit = _mm512_set1_epi8(16);
    __m512i high[8];
    transpose_32_bytes(rows, at + offsetof(Block, qh), high);
    for (int c = 0; c < 4; ++c) {
      __m512i quads[8];
      transpose_32_bytes(rows, at + offsetof(Block, qs) + 32 * c, quads);
      for (int i = 0; i < 8; ++i) {
        panel.codes[16 * c + i] = and_or(_mm512_slli_epi16(high[i], 4), bit, low_nibbles(quads[i]));
        panel.codes[16 * c + 8 + i] = and_or(_mm512_slli_epi16(high[i], 3), bit, high_nibbles(quads[i]));
        high[i] = _mm512_srli_epi16(high[i], 2);
      }
    }
    KScales(rows, at).store(panel);
  }

  static KDA_INLINE void load_codes(const std::byte* block, __m512i (&out)[4]) {
    const __m512i qh = load_twice(block + offsetof(Block, qh));
    // Bits 2c and 2c + 1 to bit 4.
    const __m512i high[4] = {_mm512_sllv_epi16(qh, by_halves(4, 3)), _mm512_sllv_epi16(qh, by_halves(2, 1)),
                             _mm512_srlv_epi16(qh, by_halves(0, 1)), _mm512_srlv_epi16(qh, by_halves(2, 3))};
    for (int c = 0; c < 4; ++c) {
      const __m512i twice = load_twice(block + offsetof(Block, qs) + 32 * c);
      const __m512i low = _mm512_and_si512(_mm512_srlv_epi16(twice, by_halves(0, 4)), _mm512_set1_epi8(15));
      out[c] = and_or(high[c], _mm512_set1_epi8(16), low);
    }
  }
  using Native = KNative;
};

}  // namespace

void matmul_q5_k(const MatmulArgs& args) { matmul_k<Q5K>(args); }

}  // namespace kda::avx512
