#include "kernels/avx512/block32.h"
#include "kernels/avx512/kernels.h"
#include "quant/blocks.h"

namespace kda::avx512 {
namespace {

struct Q80 {
  using Block = BlockQ8_0;
  static constexpr int kOffset = 128;
  static constexpr bool kHasMin = false;

  static KDA_INLINE void unpack(const RowPointers& rows, int64_t at, Panel32& panel) {
    __m512i quads[8];
    transpose_32_bytes(rows, at + offsetof(Block, qs), quads);
    for (int i = 0; i < 8; ++i) panel.codes[i] = _mm512_xor_si512(quads[i], _mm512_set1_epi8(-128));  // code + 128
    __m512i start[4];
    transpose_16_bytes(rows, at, start);
    panel.d = f16_of_low_words(start[0]);
  }
};

}  // namespace

void matmul_q8_0(const MatmulArgs& args) { matmul_32<Q80>(args); }

}  // namespace kda::avx512
