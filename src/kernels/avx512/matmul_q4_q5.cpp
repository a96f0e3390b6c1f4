// Q4_0, Q4_1, Q5_0 and Q5_1.
#include "kernels/avx512/block32.h"
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/nibbles32.h"

namespace kda::avx512 {
namespace {

/// Four bits, d * (code - 8), or d * code + m for blocks with an m; or five, d * (code - 16) or d * code + m.
template <typename BlockType, bool kMin, bool kFive>
struct Nibbles {
  using Block = BlockType;
  static constexpr int kOffset = kMin ? 0 : kFive ? 16 : 8;
  static constexpr bool kHasMin = kMin;

  static KDA_INLINE void unpack(const RowPointers& rows, int64_t at, Panel32& panel) {
    __m512i start[4];  // of the block: d, m, the fifth bits, as far as it has them
    transpose_16_bytes(rows, at, start);
    panel.d = f16_of_low_words(start[0]);
    if constexpr (kMin) panel.m = f16_of_high_words(start[0]);
    __m512i quads[8];
    nibbles_of_rows(rows, at + offsetof(Block, qs), quads);
    if constexpr (kFive && kMin) add_fifth_bits(start[1], quads);
    if constexpr (kFive && !kMin) {
      add_fifth_bits(_mm512_or_si512(_mm512_srli_epi32(start[0], 16), _mm512_slli_epi32(start[1], 16)), quads);
    }
    for (int i = 0; i < 8; ++i) panel.codes[i] = quads[i];
  }
};

}  // namespace

void matmul_q4_0(const MatmulArgs& args) { matmul_32<Nibbles<BlockQ4_0, false, false>>(args); }
void matmul_q4_1(const MatmulArgs& args) { matmul_32<Nibbles<BlockQ4_1, true, false>>(args); }
void matmul_q5_0(const MatmulArgs& args) { matmul_32<Nibbles<BlockQ5_0, false, true>>(args); }
void matmul_q5_1(const MatmulArgs& args) { matmul_32<Nibbles<BlockQ5_1, true, true>>(args); }

}  // namespace kda::avx512
