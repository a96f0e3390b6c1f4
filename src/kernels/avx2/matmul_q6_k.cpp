#include "kernels/avx2/k_scales.h"
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/superblock.h"
#include "quant/blocks.h"

namespace kda::avx2 {
namespace {

struct Q6K {
  using Block = BlockQ6_K;
  static constexpr int kGroupLength = 16;
  static constexpr int kDepth = 2;  // 2 * 2 * 127 * 63 = 32004
  static constexpr bool kSigned = false;
  static constexpr bool kHasMin = false;
  static constexpr bool kHasOffset = true;
  static constexpr int kOffsetBits = 5;

  /// Half c of a block holds elements 128c + 32p + l, p in 0..3. Low four bits of planes 0 and 1: low nibbles of ql at
  /// 64c
  /// + l and 64c + 32 + l; of planes 2 and 3: the high nibbles there. Upper two bits: bits 2p of qh at 32c + l.
  static KDA_INLINE void planes(__m256i ql0, __m256i ql1, __m256i qh, __m256i (&codes)[4]) {
    const auto join = [](__m256i low, __m256i high) {
      return _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi8(0x30)));
    };
    codes[0] = join(low_nibbles(ql0), _mm256_slli_epi16(qh, 4));
    codes[1] = join(low_nibbles(ql1), _mm256_slli_epi16(qh, 2));
    codes[2] = join(high_nibbles(ql0), qh);
    codes[3] = join(high_nibbles(ql1), _mm256_srli_epi16(qh, 2));
  }

  static KDA_INLINE void unpack(const std::byte* const (&blocks)[8], SuperPanel<16>& panel) {
    for (int c = 0; c < 2; ++c) {
      __m256i ql0[8];
      __m256i ql1[8];
      __m256i qh[8];
      transpose_32_bytes(blocks, offsetof(Block, ql) + 64 * c, ql0);
      transpose_32_bytes(blocks, offsetof(Block, ql) + 64 * c + 32, ql1);
      transpose_32_bytes(blocks, offsetof(Block, qh) + 32 * c, qh);
      for (int i = 0; i < 8; ++i) {
        __m256i codes[4];
        planes(ql0[i], ql1[i], qh[i], codes);
        for (int p = 0; p < 4; ++p) store_256(panel.codes[32 * c + 8 * p + i], codes[p]);
      }
    }
    __m256i scales[4];
    transpose_16_bytes(blocks, offsetof(Block, scales), scales);
    spread_scales(scales, panel.scale);
    pair_scales(scales, panel.side);
    panel.d = load_f16_of_rows(blocks, offsetof(Block, d));
  }

  struct Native {
    const std::byte* const (&blocks)[8];
    KDA_INLINE explicit Native(const std::byte* const (&b)[8]) : blocks(b) {}
    KDA_INLINE __m256 d() const { return load_f16_of_rows(blocks, offsetof(Block, d)); }

    template <int kT>
    KDA_INLINE void row(int r, const SuperActs (&acts)[kT], __m256i (&lanes)[kT]) const {
      const GroupScales scales(load_128(blocks[r] + offsetof(Block, scales)));
      for (int t = 0; t < kT; ++t) {
        const __m256i offset = _mm256_slli_epi32(scales.times(acts[t].sums), kOffsetBits);
        lanes[t] = _mm256_sub_epi32(_mm256_setzero_si256(), offset);
      }
      for (int c = 0; c < 2; ++c) {
        const std::byte* ql = blocks[r] + offsetof(Block, ql) + 64 * c;
        __m256i codes[4];
        planes(load_256(ql), load_256(ql + 32), load_256(blocks[r] + offsetof(Block, qh) + 32 * c), codes);
        for (int p = 0; p < 4; ++p) {
          add_products(codes[p], scales.of_32(4 * c + p), acts, 128 * c + 32 * p, lanes);
        }
      }
    }
  };
};

}  // namespace

void matmul_q6_k(const MatmulArgs& args) { matmul_super<Q6K>(args); }

}  // namespace kda::avx2
