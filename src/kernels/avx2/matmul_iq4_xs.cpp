#include "kernels/avx2/kernels.h"
#include "kernels/avx2/nibbles32.h"
#include "kernels/avx2/superblock.h"
#include "quant/blocks.h"

namespace kda::avx2 {
namespace {

// Four bits that choose one of 16 signed levels; within a group as in the blocks of 32.
struct Iq4Xs {
  using Block = BlockIQ4_XS;
  static constexpr int kGroupLength = 32;
  static constexpr int kDepth = 1;
  static constexpr bool kSigned = true;
  static constexpr bool kHasMin = false;
  static constexpr bool kHasOffset = false;
  static constexpr int64_t kQs = offsetof(Block, qs);

  /// Scale of group g: low four bits at bit 4g of scales_l, upper two at bit 2g of scales_h, less 32.
  static KDA_INLINE void load_scales(const std::byte* const (&blocks)[8], int16_t (&scale)[8][16]) {
    const __m256i low = load_dwords_of_rows(blocks, offsetof(Block, scales_l));
    const __m256i high = _mm256_srli_epi32(load_dwords_of_rows(blocks, 0), 16);
    static_assert(offsetof(Block, scales_h) == 2);
    for (int g = 0; g < 8; ++g) {
      const __m256i nibble = _mm256_and_si256(_mm256_srli_epi32(low, 4 * g), _mm256_set1_epi32(15));
      const __m256i bits = _mm256_and_si256(_mm256_srli_epi32(high, 2 * g), _mm256_set1_epi32(3));
      const __m256i value = _mm256_or_si256(nibble, _mm256_slli_epi32(bits, 4));
      const __m256i twice = _mm256_or_si256(value, _mm256_slli_epi32(value, 16));
      store_256(scale[g], _mm256_sub_epi16(twice, _mm256_set1_epi16(32)));
    }
  }

  static KDA_INLINE void unpack(const std::byte* const (&blocks)[8], SuperPanel<8>& panel) {
    for (int g = 0; g < 8; ++g) {
      __m256i quads[8];
      nibbles_of_rows(blocks, kQs + 16 * g, quads);
      for (int i = 0; i < 8; ++i) store_256(panel.codes[8 * g + i], lookup(load_table(kIq4Levels), quads[i]));
    }
    load_scales(blocks, panel.scale);
    panel.d = load_f16_of_rows(blocks, offsetof(Block, d));
  }

  struct Native {
    const std::byte* const (&blocks)[8];
    alignas(32) int16_t scale[8][16];

    KDA_INLINE explicit Native(const std::byte* const (&b)[8]) : blocks(b) { load_scales(b, scale); }
    KDA_INLINE __m256 d() const { return load_f16_of_rows(blocks, offsetof(Block, d)); }

    template <int kT>
    KDA_INLINE void row(int r, const SuperActs (&acts)[kT], __m256i (&lanes)[kT]) const {
      for (int t = 0; t < kT; ++t) lanes[t] = _mm256_setzero_si256();
      for (int g = 0; g < 8; ++g) {
        const __m256i codes = lookup(load_table(kIq4Levels), nibbles_of_block(blocks[r] + kQs + 16 * g));
        add_products<true>(codes, broadcast_dword(&scale[g][2 * r]), acts, 32 * g, lanes);
      }
    }
  };
};

}  // namespace

void matmul_iq4_xs(const MatmulArgs& args) { matmul_super<Iq4Xs>(args); }

}  // namespace kda::avx2
