#include "kernels/avx512/k_scales.h"
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/native.h"
#include "quant/blocks.h"

namespace kda::avx512 {
namespace {

// Bytes 32c .. 32c + 31 of qs hold elements 64c .. 64c + 31 in their low nibbles, the 32 after them in the high ones.
struct Q4K {
  using Block = BlockQ4_K;
  static constexpr int kGroupLength = 32;
  static constexpr int kOffset = 0;
  static constexpr int kMinLength = 32;

  static KDA_INLINE void unpack(const RowPointers& rows, int64_t at, SuperPanel& panel) {
    for (int c = 0; c < 4; ++c) {
      __m512i quads[8];
      transpose_32_bytes(rows, at + offsetof(Block, qs) + 32 * c, quads);
      for (int i = 0; i < 8; ++i) {
        panel.codes[16 * c + i] = low_nibbles(quads[i]);
        panel.codes[16 * c + 8 + i] = high_nibbles(quads[i]);
      }
    }
    KScales(rows, at).store(panel);
  }

  static KDA_INLINE void load_codes(const std::byte* block, __m512i (&out)[4]) {
    for (int c = 0; c < 4; ++c) {
      const __m512i twice = load_twice(block + offsetof(Block, qs) + 32 * c);
      out[c] = _mm512_and_si512(_mm512_srlv_epi16(twice, by_halves(0, 4)), _mm512_set1_epi8(15));
    }
  }
  using Native = KNative;
};

}  // namespace

void matmul_q4_k(const MatmulArgs& args) { matmul_k<Q4K>(args); }

}  // namespace kda::avx512
