#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "quant/blocks.h"
#include "quant/codec.h"
#include "quant/unpack.h"

namespace kda {

namespace {

bool finite_f16(uint16_t bits) { return (bits & 0x7C00U) != 0x7C00U; }
bool finite_bf16(uint16_t bits) { return (bits & 0x7F80U) != 0x7F80U; }
bool finite_f32(uint32_t bits) { return (bits & 0x7F800000U) != 0x7F800000U; }

template <typename Bits, bool (*is_finite)(Bits)>
int64_t find_float(const std::byte* src, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, src + i * static_cast<int64_t>(sizeof bits), sizeof bits);
    if (!is_finite(bits)) return i;
  }
  return -1;
}

template <typename Block, int64_t kElements>
int64_t find_block(const std::byte* src, int64_t n) {
  const auto* blocks = reinterpret_cast<const Block*>(src);
  for (int64_t b = 0; b < n / kElements; ++b) {
    bool finite = true;
    if constexpr (requires(Block x) { x.e; }) {
      finite = blocks[b].e != 255;
    } else if constexpr (requires(Block x) { x.d; }) {
      finite = finite_f16(blocks[b].d);
      if constexpr (requires(Block x) { x.m; }) finite = finite && finite_f16(blocks[b].m);
      if constexpr (requires(Block x) { x.dmin; }) finite = finite && finite_f16(blocks[b].dmin);
    } else {
      finite = finite_f16(iq1_m_scale_bits(blocks[b]));
    }
    if (!finite) return b;
  }
  return -1;
}

}  // namespace

int64_t find_non_finite_block(TensorType type, const std::byte* src, int64_t n) noexcept {
  switch (type) {
    case TensorType::kF32:
      return find_float<uint32_t, finite_f32>(src, n);
    case TensorType::kF16:
      return find_float<uint16_t, finite_f16>(src, n);
    case TensorType::kBF16:
      return find_float<uint16_t, finite_bf16>(src, n);
    case TensorType::kNVFP4:  // every scale byte stands for a finite number
      return -1;
    case TensorType::kQ4_0:
      return find_block<BlockQ4_0, 32>(src, n);
    case TensorType::kQ4_1:
      return find_block<BlockQ4_1, 32>(src, n);
    case TensorType::kQ5_0:
      return find_block<BlockQ5_0, 32>(src, n);
    case TensorType::kQ5_1:
      return find_block<BlockQ5_1, 32>(src, n);
    case TensorType::kQ8_0:
      return find_block<BlockQ8_0, 32>(src, n);
    case TensorType::kIQ4_NL:
      return find_block<BlockIQ4_NL, 32>(src, n);
    case TensorType::kMXFP4:
      return find_block<BlockMXFP4, 32>(src, n);
    case TensorType::kQ2_0:
      return find_block<BlockQ2_0, 64>(src, n);
    case TensorType::kQ1_0:
      return find_block<BlockQ1_0, 128>(src, n);
    case TensorType::kQ2_K:
      return find_block<BlockQ2_K, 256>(src, n);
    case TensorType::kQ3_K:
      return find_block<BlockQ3_K, 256>(src, n);
    case TensorType::kQ4_K:
      return find_block<BlockQ4_K, 256>(src, n);
    case TensorType::kQ5_K:
      return find_block<BlockQ5_K, 256>(src, n);
    case TensorType::kQ6_K:
      return find_block<BlockQ6_K, 256>(src, n);
    case TensorType::kIQ4_XS:
      return find_block<BlockIQ4_XS, 256>(src, n);
    case TensorType::kIQ2_XXS:
      return find_block<BlockIQ2_XXS, 256>(src, n);
    case TensorType::kIQ2_XS:
      return find_block<BlockIQ2_XS, 256>(src, n);
    case TensorType::kIQ2_S:
      return find_block<BlockIQ2_S, 256>(src, n);
    case TensorType::kIQ3_XXS:
      return find_block<BlockIQ3_XXS, 256>(src, n);
    case TensorType::kIQ3_S:
      return find_block<BlockIQ3_S, 256>(src, n);
    case TensorType::kIQ1_S:
      return find_block<BlockIQ1_S, 256>(src, n);
    case TensorType::kIQ1_M:
      return find_block<BlockIQ1_M, 256>(src, n);
    case TensorType::kTQ1_0:
      return find_block<BlockTQ1_0, 256>(src, n);
    case TensorType::kTQ2_0:
      return find_block<BlockTQ2_0, 256>(src, n);
    default:
      check_failed("a weight type", __FILE__, __LINE__);
  }
}

}  // namespace kda
