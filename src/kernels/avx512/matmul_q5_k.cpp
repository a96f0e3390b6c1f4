#include "kernels/avx2/kernels.h"
#include "kernels/avx512/k_scales.h"
#include "kernels/avx512/kernels.h"
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
};

}  // namespace

void matmul_q5_k(const MatmulArgs& args) {
  if (args.n < kPanelTokens) return avx2::matmul_q5_k(args);
  matmul_super<Q5K>(args);
}

}  // namespace kda::avx512
