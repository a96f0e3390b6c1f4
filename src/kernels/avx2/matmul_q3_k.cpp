#include "kernels/avx2/k_scales.h"
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/superblock.h"
#include "quant/blocks.h"

namespace kda::avx2 {
namespace {

struct Q3K {
  using Block = BlockQ3_K;
  static constexpr int kGroupLength = 16;
  static constexpr int kDepth = 4;  // a whole group: 2 * 4 * 127 * 7 = 7112
  static constexpr bool kSigned = false;
  static constexpr bool kHasMin = false;
  static constexpr bool kHasOffset = true;
  static constexpr int kOffsetBits = 2;

  /// Element 128c + 32p + l: bits 2p and 2p + 1 of qs[32c + l], and bit 4c + p of hmask[l] above them. high: hmask,
  /// moved right by 4c.
  static KDA_INLINE void planes(__m256i qs, __m256i high, __m256i (&codes)[4]) {
    const auto join = [](__m256i low, __m256i bit) {
      return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(3)), _mm256_and_si256(bit, _mm256_set1_epi8(4)));
    };
    codes[0] = join(qs, _mm256_slli_epi16(high, 2));
    codes[1] = join(_mm256_srli_epi16(qs, 2), _mm256_slli_epi16(high, 1));
    codes[2] = join(_mm256_srli_epi16(qs, 4), high);
    codes[3] = join(_mm256_srli_epi16(qs, 6), _mm256_srli_epi16(high, 1));
  }

  /// Scales are six bits less 32. Low four: byte k < 8 has those of group k and, above, of group k + 8. Upper two: bits
  /// 2j of byte 8 + k, k < 4, for group 4j + k.
  static KDA_INLINE void load_scales(const std::byte* const (&blocks)[8], __m256i (&scales)[4]) {
    constexpr int64_t kScales = offsetof(Block, scales);
    const __m256i low[2] = {load_dwords_of_rows(blocks, kScales), load_dwords_of_rows(blocks, kScales + 4)};
    const __m256i high = load_dwords_of_rows(blocks, kScales + 8);
    const auto join = [](__m256i nibbles, __m256i bits) {
      const __m256i top = _mm256_and_si256(bits, _mm256_set1_epi8(0x30));
      return _mm256_sub_epi8(_mm256_or_si256(nibbles, top), _mm256_set1_epi8(32));
    };
    scales[0] = join(low_nibbles(low[0]), _mm256_slli_epi16(high, 4));
    scales[1] = join(low_nibbles(low[1]), _mm256_slli_epi16(high, 2));
    scales[2] = join(high_nibbles(low[0]), high);
    scales[3] = join(high_nibbles(low[1]), _mm256_srli_epi16(high, 2));
  }

  static KDA_INLINE void unpack(const std::byte* const (&blocks)[8], SuperPanel<16>& panel) {
    __m256i high[8];
    transpose_32_bytes(blocks, offsetof(Block, hmask), high);
    for (int c = 0; c < 2; ++c) {
      __m256i qs[8];
      transpose_32_bytes(blocks, offsetof(Block, qs) + 32 * c, qs);
      for (int i = 0; i < 8; ++i) {
        __m256i codes[4];
        planes(qs[i], high[i], codes);
        for (int p = 0; p < 4; ++p) store_256(panel.codes[32 * c + 8 * p + i], codes[p]);
        high[i] = _mm256_srli_epi16(high[i], 4);
      }
    }
    __m256i scales[4];
    load_scales(blocks, scales);
    spread_scales(scales, panel.scale);
    pair_scales(scales, panel.side);
    panel.d = load_f16_of_rows(blocks, offsetof(Block, d));
  }

  struct Native {
    const std::byte* const (&blocks)[8];
    alignas(16) uint8_t scale_bytes[8][16];

    KDA_INLINE explicit Native(const std::byte* const (&b)[8]) : blocks(b) {
      for (int r = 0; r < 8; ++r) _mm_store_si128(reinterpret_cast<__m128i*>(scale_bytes[r]), scales_of(b[r]));
    }
    KDA_INLINE __m256 d() const { return load_f16_of_rows(blocks, offsetof(Block, d)); }

    template <int kT>
    KDA_INLINE void row(int r, const SuperActs (&acts)[kT], __m256i (&lanes)[kT]) const {
      const GroupScales scales(load_128(scale_bytes[r]));
      for (int t = 0; t < kT; ++t) {
        const __m256i offset = _mm256_slli_epi32(scales.times(acts[t].sums), kOffsetBits);
        lanes[t] = _mm256_sub_epi32(_mm256_setzero_si256(), offset);
      }
      __m256i high = load_256(blocks[r] + offsetof(Block, hmask));
      for (int c = 0; c < 2; ++c) {
        __m256i codes[4];
        planes(load_256(blocks[r] + offsetof(Block, qs) + 32 * c), high, codes);
        for (int p = 0; p < 4; ++p) {
          add_products(codes[p], scales.of_32(4 * c + p), acts, 128 * c + 32 * p, lanes);
        }
        high = _mm256_srli_epi16(high, 4);
      }
    }

   private:
    /// The 16 scales of one block.
    static KDA_INLINE __m128i scales_of(const std::byte* block) {
      // The 16 bytes that end with the block, so that nothing after it is read: bytes 2 to 13 are the scales.
      static_assert(offsetof(Block, scales) == 96 && sizeof(Block) == 110);
      const __m128i packed = load_128(block + 94);
      const __m128i low = _mm_shuffle_epi8(packed, _mm_setr_epi8(2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9));
      const __m128i high =
          _mm_shuffle_epi8(packed, _mm_setr_epi8(10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13));
      const __m128i nibbles = _mm_and_si128(_mm_srlv_epi64(low, _mm_set_epi64x(4, 0)), _mm_set1_epi8(15));
      const __m128i bits = _mm_and_si128(_mm_srlv_epi32(high, _mm_setr_epi32(0, 2, 4, 6)), _mm_set1_epi8(3));
      return _mm_sub_epi8(_mm_or_si128(nibbles, _mm_slli_epi16(bits, 4)), _mm_set1_epi8(32));
    }
  };
};

}  // namespace

void matmul_q3_k(const MatmulArgs& args) { matmul_super<Q3K>(args); }

}  // namespace kda::avx2
