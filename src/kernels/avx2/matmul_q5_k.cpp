#include "kernels/avx2/k_scales.h"
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/superblock.h"
#include "quant/blocks.h"

namespace kda::avx2 {
namespace {

// Low four bits as in Q4_K. The fifth bit of element 32g + l is bit g of qh[l].
struct Q5K {
  using Block = BlockQ5_K;
  static constexpr int kGroupLength = 32;
  static constexpr int kDepth = 4;  // 2 * 4 * 127 * 31 = 31496
  static constexpr bool kSigned = false;
  static constexpr bool kHasMin = true;
  static constexpr bool kHasOffset = false;

  /// low | bit of qh << 4, where the bit has been brought to place 4.
  static KDA_INLINE __m256i with_bit(__m256i low, __m256i bit) {
    return _mm256_or_si256(low, _mm256_and_si256(bit, _mm256_set1_epi8(16)));
  }

  static KDA_INLINE void unpack(const std::byte* const (&blocks)[8], SuperPanel<8>& panel) {
    __m256i high[8];
    transpose_32_bytes(blocks, offsetof(Block, qh), high);
    for (int c = 0; c < 4; ++c) {
      __m256i quads[8];
      transpose_32_bytes(blocks, offsetof(Block, qs) + 32 * c, quads);
      for (int i = 0; i < 8; ++i) {
        store_256(panel.codes[16 * c + i], with_bit(low_nibbles(quads[i]), _mm256_slli_epi16(high[i], 4)));
        store_256(panel.codes[16 * c + 8 + i], with_bit(high_nibbles(quads[i]), _mm256_slli_epi16(high[i], 3)));
        high[i] = _mm256_srli_epi16(high[i], 2);
      }
    }
    load_k_scales(blocks, panel.scale, panel.side, panel.d, panel.dmin);
  }

  struct Native : KNative {
    const std::byte* const (&blocks)[8];
    KDA_INLINE explicit Native(const std::byte* const (&b)[8]) : KNative(b), blocks(b) {}

    template <int kT>
    KDA_INLINE void row(int r, const SuperActs (&acts)[kT], __m256i (&lanes)[kT]) const {
      for (int t = 0; t < kT; ++t) lanes[t] = _mm256_setzero_si256();
      __m256i high = load_256(blocks[r] + offsetof(Block, qh));
      for (int c = 0; c < 4; ++c) {
        const __m256i qs = load_256(blocks[r] + offsetof(Block, qs) + 32 * c);
        add_products(with_bit(low_nibbles(qs), _mm256_slli_epi16(high, 4)), scale(2 * c, r), acts, 64 * c, lanes);
        add_products(with_bit(high_nibbles(qs), _mm256_slli_epi16(high, 3)), scale(2 * c + 1, r), acts, 64 * c + 32,
                     lanes);
        high = _mm256_srli_epi16(high, 2);
      }
    }
  };
};

}  // namespace

void matmul_q5_k(const MatmulArgs& args) { matmul_super<Q5K>(args); }

}  // namespace kda::avx2
