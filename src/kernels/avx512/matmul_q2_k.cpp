#include "kernels/avx2/kernels.h"
#include "kernels/avx512/k_scales.h"
#include "kernels/avx512/kernels.h"
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

  static KDA_INLINE void unpack(const RowPointers& rows, int64_t at, SuperPanel& panel) {
    __m512i bytes[4];
    transpose_16_bytes(rows, at + offsetof(Block, scales), bytes);
    __m512i mins[4];
    __m512i scale[16];
    for (int i = 0; i < 4; ++i) {
      mins[i] = high_nibbles(bytes[i]);
      spread_bytes(low_nibbles(bytes[i]), &scale[4 * i]);
    }
    pair_mins(mins, panel.min_pair);
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
    __m512i end[4];  // of the block: d and dmin are last
    static_assert(offsetof(Block, d) + 4 == sizeof(Block));
    transpose_16_bytes(rows, at + sizeof(Block) - 16, end);
    panel.d = f16_of_low_words(end[3]);
    panel.dmin = f16_of_high_words(end[3]);
  }
};

}  // namespace

void matmul_q2_k(const MatmulArgs& args) {
  if (args.n < kPanelTokens) return avx2::matmul_q2_k(args);
  matmul_super<Q2K>(args);
}

}  // namespace kda::avx512
