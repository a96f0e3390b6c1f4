#include <bit>

#include "kernels/scalar/scalar.h"

namespace kda::scalar {

namespace {

// Nearest integer, ties to even, for |v| < 2^22: the addition leaves no bits below the binary point.
int8_t round_to_int8(float v) {
  constexpr float kShift = 0x1.8p23F;
  return static_cast<int8_t>((v + kShift) - kShift);
}

template <int64_t kBlock>
void quantize(const float* x, int64_t k, int8_t* codes, float* scales, int16_t* sums) {
  for (int64_t b = 0; b < k / kBlock; ++b, x += kBlock, codes += kBlock, sums += kBlock / 16) {
    uint32_t max_bits = 0;  // as integers, magnitudes order like the floats they are, and NaN comes last
    for (int64_t i = 0; i < kBlock; ++i) {
      const uint32_t bits = std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFU;
      max_bits = bits > max_bits ? bits : max_bits;
    }
    const auto max = std::bit_cast<float>(max_bits);
    const bool finite = max_bits < 0x7F800000U;
    const bool zero = max < kSmallestQuantized;
    const float inverse = zero || !finite ? 0 : 127 / max;
    scales[b] = zero ? 0 : max / 127;
    for (int64_t i = 0; i < kBlock; ++i) codes[i] = finite ? round_to_int8(x[i] * inverse) : int8_t{0};
    for (int64_t g = 0; g < kBlock / 16; ++g) {
      int sum = 0;
      for (int64_t i = 0; i < 16; ++i) sum += codes[g * 16 + i];
      sums[g] = static_cast<int16_t>(sum);
    }
  }
}

}  // namespace

void quantize_block32(const float* x, int64_t k, int8_t* codes, float* scales, int16_t* sums) {
  quantize<32>(x, k, codes, scales, sums);
}

void quantize_block256(const float* x, int64_t k, int8_t* codes, float* scales, int16_t* sums) {
  quantize<256>(x, k, codes, scales, sums);
}

}  // namespace kda::scalar
