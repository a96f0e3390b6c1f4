#include "kernels/avx2/k_scales.h"
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/superblock.h"
#include "quant/blocks.h"

namespace kda::avx2 {
namespace {

// Element 128c + 32p + l: bits 2p and 2p + 1 of qs[32c + l]. Byte g of scales: scale and minimum of group g.
struct Q2K {
  using Block = BlockQ2_K;
  static constexpr int kGroupLength = 16;
  static constexpr int kDepth = 4;  // a whole group: 2 * 4 * 127 * 3 = 3048
  static constexpr bool kSigned = false;
  static constexpr bool kHasMin = true;
  static constexpr bool kHasOffset = false;

  static KDA_INLINE void planes(__m256i qs, __m256i (&codes)[4]) {
    const __m256i two_bits = _mm256_set1_epi8(3);
    codes[0] = _mm256_and_si256(qs, two_bits);
    codes[1] = _mm256_and_si256(_mm256_srli_epi16(qs, 2), two_bits);
    codes[2] = _mm256_and_si256(_mm256_srli_epi16(qs, 4), two_bits);
    codes[3] = _mm256_and_si256(_mm256_srli_epi16(qs, 6), two_bits);
  }

  static KDA_INLINE void load_mins(const __m256i (&bytes)[4], int16_t (&min)[8][16]) {
    const __m256i mins[4] = {high_nibbles(bytes[0]), high_nibbles(bytes[1]), high_nibbles(bytes[2]),
                             high_nibbles(bytes[3])};
    pair_scales(mins, min);
  }

  static KDA_INLINE void unpack(const std::byte* const (&blocks)[8], SuperPanel<16>& panel) {
    for (int c = 0; c < 2; ++c) {
      __m256i qs[8];
      transpose_32_bytes(blocks, offsetof(Block, qs) + 32 * c, qs);
      for (int i = 0; i < 8; ++i) {
        __m256i codes[4];
        planes(qs[i], codes);
        for (int p = 0; p < 4; ++p) store_256(panel.codes[32 * c + 8 * p + i], codes[p]);
      }
    }
    __m256i bytes[4];
    transpose_16_bytes(blocks, offsetof(Block, scales), bytes);
    const __m256i scales[4] = {low_nibbles(bytes[0]), low_nibbles(bytes[1]), low_nibbles(bytes[2]),
                               low_nibbles(bytes[3])};
    spread_scales(scales, panel.scale);
    load_mins(bytes, panel.side);
    panel.d = load_f16_of_rows(blocks, offsetof(Block, d));
    panel.dmin = load_f16_of_rows(blocks, offsetof(Block, dmin));
  }

  struct Native {
    const std::byte* const (&blocks)[8];
    alignas(32) int16_t min[8][16];

    KDA_INLINE explicit Native(const std::byte* const (&b)[8]) : blocks(b) {
      __m256i bytes[4];
      transpose_16_bytes(blocks, offsetof(Block, scales), bytes);
      load_mins(bytes, min);
    }
    KDA_INLINE __m256 d() const { return load_f16_of_rows(blocks, offsetof(Block, d)); }
    KDA_INLINE __m256 dmin() const { return load_f16_of_rows(blocks, offsetof(Block, dmin)); }
    KDA_INLINE __m256i min_sum(const int16_t* sums) const { return times_sums(min, sums); }

    template <int kT>
    KDA_INLINE void row(int r, const SuperActs (&acts)[kT], __m256i (&lanes)[kT]) const {
      const __m128i bytes = load_128(blocks[r] + offsetof(Block, scales));
      const GroupScales scales(_mm_and_si128(bytes, _mm_set1_epi8(15)));
      for (int t = 0; t < kT; ++t) lanes[t] = _mm256_setzero_si256();
      for (int c = 0; c < 2; ++c) {
        __m256i codes[4];
        planes(load_256(blocks[r] + offsetof(Block, qs) + 32 * c), codes);
        for (int p = 0; p < 4; ++p) {
          add_products(codes[p], scales.of_32(4 * c + p), acts, 128 * c + 32 * p, lanes);
        }
      }
    }
  };
};

}  // namespace

void matmul_q2_k(const MatmulArgs& args) { matmul_super<Q2K>(args); }

}  // namespace kda::avx2
