// IQ4_NL and MXFP4: four bits that choose one of 16 levels.
#include "kernels/avx2/block32.h"
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/nibbles32.h"
#include "quant/blocks.h"

namespace kda::avx2 {
namespace {

struct Iq4Nl {
  using Block = BlockIQ4_NL;
  static constexpr bool kSigned = true;
  static constexpr int kDepth = 1;
  static constexpr bool kHasMin = false;
  static constexpr int16_t kOffset = 0;
  static constexpr int64_t kQs = offsetof(Block, qs);

  static KDA_INLINE __m256i codes(const std::byte* block) {
    return lookup(load_table(kIq4Levels), nibbles_of_block(block + kQs));
  }
  static KDA_INLINE void unpack(const std::byte* const (&rows)[8], int64_t at, __m256i (&quads)[8]) {
    nibbles_of_rows(rows, at + kQs, quads);
    for (__m256i& q : quads) q = lookup(load_table(kIq4Levels), q);
  }
  static KDA_INLINE __m256 scales(const std::byte* const (&rows)[8], int64_t at) { return load_f16_of_rows(rows, at); }
};

// The levels and 12, so that they are unsigned and two of them fit where one signed would.
constexpr int8_t kShiftedFp4Levels[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
constexpr int16_t kFp4Shift = 12;
static_assert([] {
  for (int i = 0; i < 16; ++i) {
    if (kShiftedFp4Levels[i] != kFp4Levels[i] + kFp4Shift) return false;
  }
  return true;
}());

struct Mxfp4 {
  using Block = BlockMXFP4;
  static constexpr bool kSigned = false;
  static constexpr int kDepth = 4;  // 2 * 4 * 127 * 24 = 24384
  static constexpr bool kHasMin = false;
  static constexpr int16_t kOffset = kFp4Shift;
  static constexpr int64_t kQs = offsetof(Block, qs);

  static KDA_INLINE __m256i codes(const std::byte* block) {
    return lookup(load_table(kShiftedFp4Levels), nibbles_of_block(block + kQs));
  }
  static KDA_INLINE void unpack(const std::byte* const (&rows)[8], int64_t at, __m256i (&quads)[8]) {
    nibbles_of_rows(rows, at + kQs, quads);
    for (__m256i& q : quads) q = lookup(load_table(kShiftedFp4Levels), q);
  }
  /// 2^(e - 128), half of the E8M0 value because the levels are doubled. e = 0 and 1 give subnormal floats.
  static KDA_INLINE __m256 scales(const std::byte* const (&rows)[8], int64_t at) {
    const __m256i e = _mm256_and_si256(_mm256_cvtepu16_epi32(load_words_of_rows(rows, at)), _mm256_set1_epi32(0xFF));
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const __m256i is_normal = _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1));
    return _mm256_castsi256_ps(_mm256_blendv_epi8(subnormal, normal, is_normal));
  }
};

}  // namespace

void matmul_iq4_nl(const MatmulArgs& args) { matmul_32<Iq4Nl>(args); }
void matmul_mxfp4(const MatmulArgs& args) { matmul_32<Mxfp4>(args); }

}  // namespace kda::avx2
