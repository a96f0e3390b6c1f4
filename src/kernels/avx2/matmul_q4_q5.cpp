// Q4_0, Q4_1, Q5_0 and Q5_1.
#include "kernels/avx2/block32.h"
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/nibbles32.h"
#include "quant/blocks.h"

namespace kda::avx2 {
namespace {

/// Four bits: d * (code - 8), or d * code + m for blocks with an m.
template <typename BlockType, bool kMin>
struct FourBits {
  using Block = BlockType;
  static constexpr bool kSigned = false;
  static constexpr int kDepth = 8;  // 2 * 8 * 127 * 15 = 30480
  static constexpr bool kHasMin = kMin;
  static constexpr int16_t kOffset = kMin ? 0 : 8;
  static constexpr int64_t kQs = offsetof(Block, qs);

  static KDA_INLINE __m256i codes(const std::byte* block) { return nibbles_of_block(block + kQs); }
  static KDA_INLINE void unpack(const std::byte* const (&rows)[8], int64_t at, __m256i (&quads)[8]) {
    nibbles_of_rows(rows, at + kQs, quads);
  }
  static KDA_INLINE __m256 scales(const std::byte* const (&rows)[8], int64_t at) { return load_f16_of_rows(rows, at); }
  static KDA_INLINE __m256 mins(const std::byte* const (&rows)[8], int64_t at) {
    return load_f16_of_rows(rows, at + 2);
  }
};

/// Five bits: d * (code - 16), or d * code + m.
template <typename BlockType, bool kMin>
struct FiveBits {
  using Block = BlockType;
  static constexpr bool kSigned = false;
  static constexpr int kDepth = 4;  // 2 * 4 * 127 * 31 = 31496
  static constexpr bool kHasMin = kMin;
  static constexpr int16_t kOffset = kMin ? 0 : 16;
  static constexpr int64_t kQs = offsetof(Block, qs);
  static constexpr int64_t kQh = offsetof(Block, qh);

  static KDA_INLINE __m256i codes(const std::byte* block) {
    return _mm256_or_si256(nibbles_of_block(block + kQs), fifth_bits_of_block(block + kQh));
  }
  static KDA_INLINE void unpack(const std::byte* const (&rows)[8], int64_t at, __m256i (&quads)[8]) {
    nibbles_of_rows(rows, at + kQs, quads);
    add_fifth_bits(rows, at + kQh, quads);
  }
  static KDA_INLINE __m256 scales(const std::byte* const (&rows)[8], int64_t at) { return load_f16_of_rows(rows, at); }
  static KDA_INLINE __m256 mins(const std::byte* const (&rows)[8], int64_t at) {
    return load_f16_of_rows(rows, at + 2);
  }
};

}  // namespace

void matmul_q4_0(const MatmulArgs& args) { matmul_32<FourBits<BlockQ4_0, false>>(args); }
void matmul_q4_1(const MatmulArgs& args) { matmul_32<FourBits<BlockQ4_1, true>>(args); }
void matmul_q5_0(const MatmulArgs& args) { matmul_32<FiveBits<BlockQ5_0, false>>(args); }
void matmul_q5_1(const MatmulArgs& args) { matmul_32<FiveBits<BlockQ5_1, true>>(args); }

}  // namespace kda::avx2
