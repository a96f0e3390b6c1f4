// binary16 and bfloat16 <-> float, scalar and exact.
#pragma once

#include <bit>
#include <cstdint>

namespace kda {

/// bfloat16 is the upper half of a float.
inline float bf16_to_float(uint16_t h) noexcept { return std::bit_cast<float>(uint32_t{h} << 16); }

/// Rounds to nearest, ties to even; NaN stays NaN (quiet).
inline uint16_t float_to_bf16(float x) noexcept {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>((u >> 16) | 0x40U);
  return static_cast<uint16_t>((u + 0x7FFFU + ((u >> 16) & 1U)) >> 16);
}

inline float f16_to_float(uint16_t h) noexcept {
  const uint32_t sign = (uint32_t{h} & 0x8000U) << 16;
  const uint32_t exponent = (h >> 10) & 0x1FU;
  const uint32_t mantissa = h & 0x3FFU;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in float
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

/// Rounds to nearest, ties to even; overflow (65520 and up) to infinity; subnormals kept.
inline uint16_t float_to_f16(float x) noexcept {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>((u >> 16) & 0x8000U);
  const uint32_t a = u & 0x7FFFFFFFU;
  if (a > 0x7F800000U) return static_cast<uint16_t>(sign | 0x7E00U);
  if (a >= 0x477FF000U) return static_cast<uint16_t>(sign | 0x7C00U);
  if (a < 0x38800000U) {  // below 2^-14: adding 0.5 lines the binary point up with the last subnormal bit
    const float shifted = std::bit_cast<float>(a) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000U));
  }
  const uint32_t rounded = a + 0xFFFU + ((a >> 13) & 1U);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

}  // namespace kda
