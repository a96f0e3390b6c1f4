#include "kernels/avx2/kernels.h"
#include "kernels/avx512/kernels.h"
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
};

}  // namespace

void matmul_iq4_xs(const MatmulArgs& args) {
  if (args.n < kPanelTokens) return avx2::matmul_iq4_xs(args);
  matmul_super<Iq4Xs>(args);
}

}  // namespace kda::avx512
