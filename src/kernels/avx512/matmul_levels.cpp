// IQ4_NL and MXFP4: four bits that choose one of 16 levels.
#include "kernels/avx512/block32.h"
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/nibbles32.h"

namespace kda::avx512 {
namespace {

struct Iq4Nl {
  using Block = BlockIQ4_NL;
  static constexpr int kOffset = kIq4Shift;
  static constexpr bool kHasMin = false;

  static KDA_INLINE void unpack(const RowPointers& rows, int64_t at, Panel32& panel) {
    __m512i start[4];
    transpose_16_bytes(rows, at, start);
    panel.d = f16_of_low_words(start[0]);
    __m512i quads[8];
    nibbles_of_rows(rows, at + offsetof(Block, qs), quads);
    for (int i = 0; i < 8; ++i) panel.codes[i] = lookup(kShiftedIq4Levels.level, quads[i]);
  }
};

struct Mxfp4 {
  using Block = BlockMXFP4;
  static constexpr int kOffset = kFp4Shift;
  static constexpr bool kHasMin = false;

  static KDA_INLINE void unpack(const RowPointers& rows, int64_t at, Panel32& panel) {
    __m512i start[4];
    transpose_16_bytes(rows, at, start);
    panel.d = half_power(byte_of_dwords<0>(start[0]));
    __m512i quads[8];
    nibbles_of_rows(rows, at + offsetof(Block, qs), quads);
    for (int i = 0; i < 8; ++i) panel.codes[i] = lookup(kShiftedFp4Levels.level, quads[i]);
  }

  /// 2^(e - 128), half of the E8M0 value because the levels are doubled. e = 0 and 1 give subnormal floats.
  static KDA_INLINE __m512 half_power(__m512i e) {
    const __m512i subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    const __mmask16 is_normal = _mm512_cmpgt_epi32_mask(e, _mm512_set1_epi32(1));
    const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(subnormal, is_normal, normal));
  }
};

}  // namespace

void matmul_iq4_nl(const MatmulArgs& args) { matmul_32<Iq4Nl>(args); }
void matmul_mxfp4(const MatmulArgs& args) { matmul_32<Mxfp4>(args); }

}  // namespace kda::avx512
