#include "kernels/avx2/k_scales.h"
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/superblock.h"
#include "quant/blocks.h"

namespace kda::avx2 {
namespace {

// Bytes 32c .. 32c + 31 of qs hold elements 64c .. 64c + 31 in their low nibbles, the 32 after them in the high ones.
struct Q4K {
  using Block = BlockQ4_K;
  static constexpr int kGroupLength = 32;
  static constexpr int kDepth = 8;  // 2 * 8 * 127 * 15 = 30480
  static constexpr bool kSigned = false;
  static constexpr bool kHasMin = true;
  static constexpr bool kHasOffset = false;

  static KDA_INLINE void unpack(const std::byte* const (&blocks)[8], SuperPanel<8>& panel) {
    for (int c = 0; c < 4; ++c) {
      __m256i quads[8];
      transpose_32_bytes(blocks, offsetof(Block, qs) + 32 * c, quads);
      for (int i = 0; i < 8; ++i) {
        store_256(panel.codes[16 * c + i], low_nibbles(quads[i]));
        store_256(panel.codes[16 * c + 8 + i], high_nibbles(quads[i]));
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
      for (int c = 0; c < 4; ++c) {
        const __m256i qs = load_256(blocks[r] + offsetof(Block, qs) + 32 * c);
        add_products(low_nibbles(qs), scale(2 * c, r), acts, 64 * c, lanes);
        add_products(high_nibbles(qs), scale(2 * c + 1, r), acts, 64 * c + 32, lanes);
      }
    }
  };
};

}  // namespace

void matmul_q4_k(const MatmulArgs& args) { matmul_super<Q4K>(args); }

}  // namespace kda::avx2
