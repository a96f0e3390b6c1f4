#include "kernels/avx2/block32.h"
#include "kernels/avx2/kernels.h"
#include "quant/blocks.h"

namespace kda::avx2 {
namespace {

struct Q80 {
  using Block = BlockQ8_0;
  static constexpr bool kSigned = true;
  static constexpr int kDepth = 1;
  static constexpr bool kHasMin = false;
  static constexpr int16_t kOffset = 0;

  static KDA_INLINE __m256i codes(const std::byte* block) { return load_256(block + offsetof(Block, qs)); }
  static KDA_INLINE void unpack(const std::byte* const (&rows)[8], int64_t at, __m256i (&quads)[8]) {
    transpose_32_bytes(rows, at + static_cast<int64_t>(offsetof(Block, qs)), quads);
  }
  static KDA_INLINE __m256 scales(const std::byte* const (&rows)[8], int64_t at) { return load_f16_of_rows(rows, at); }
};

}  // namespace

void matmul_q8_0(const MatmulArgs& args) { matmul_32<Q80>(args); }

}  // namespace kda::avx2
