// Blocks that have an integer product, taken apart into scales and codes. The decoders and the scalar kernels share
// this.
#pragma once

#include <bit>
#include <cstdint>

#include "base/half.h"
#include "quant/blocks.h"

namespace kda {

/// A block of 32: element i is d * code[i], or d * code[i] + m where kHasMin<Block>.
struct Unpacked32 {
  float d;
  float m;
  int8_t code[32];
};

/// A super-block: element i of group g = i / 16 is (d * scale[g]) * code[i], less dmin * min[g] where kHasMin<Block>.
struct Unpacked256 {
  float d;
  float dmin;
  int16_t scale[16];
  int16_t min[16];
  int8_t code[256];
};

template <typename Block>
inline constexpr bool kHasMin = false;
template <>
inline constexpr bool kHasMin<BlockQ4_1> = true;
template <>
inline constexpr bool kHasMin<BlockQ5_1> = true;
template <>
inline constexpr bool kHasMin<BlockQ2_K> = true;
template <>
inline constexpr bool kHasMin<BlockQ4_K> = true;
template <>
inline constexpr bool kHasMin<BlockQ5_K> = true;

inline void unpack(const BlockQ4_0& b, Unpacked32& u) noexcept {
  u.d = f16_to_float(b.d);
  for (int i = 0; i < 16; ++i) {
    u.code[i] = static_cast<int8_t>((b.qs[i] & 15) - 8);
    u.code[i + 16] = static_cast<int8_t>((b.qs[i] >> 4) - 8);
  }
}

inline void unpack(const BlockQ4_1& b, Unpacked32& u) noexcept {
  u.d = f16_to_float(b.d);
  u.m = f16_to_float(b.m);
  for (int i = 0; i < 16; ++i) {
    u.code[i] = static_cast<int8_t>(b.qs[i] & 15);
    u.code[i + 16] = static_cast<int8_t>(b.qs[i] >> 4);
  }
}

inline void unpack(const BlockQ5_0& b, Unpacked32& u) noexcept {
  u.d = f16_to_float(b.d);
  const uint32_t high = b.qh;
  for (int i = 0; i < 16; ++i) {
    u.code[i] = static_cast<int8_t>(((b.qs[i] & 15) | (high >> i & 1) << 4) - 16);
    u.code[i + 16] = static_cast<int8_t>((b.qs[i] >> 4 | (high >> (i + 16) & 1) << 4) - 16);
  }
}

inline void unpack(const BlockQ5_1& b, Unpacked32& u) noexcept {
  u.d = f16_to_float(b.d);
  u.m = f16_to_float(b.m);
  const uint32_t high = b.qh;
  for (int i = 0; i < 16; ++i) {
    u.code[i] = static_cast<int8_t>((b.qs[i] & 15) | (high >> i & 1) << 4);
    u.code[i + 16] = static_cast<int8_t>(b.qs[i] >> 4 | (high >> (i + 16) & 1) << 4);
  }
}

inline void unpack(const BlockQ8_0& b, Unpacked32& u) noexcept {
  u.d = f16_to_float(b.d);
  for (int i = 0; i < 32; ++i) u.code[i] = b.qs[i];
}

inline void unpack(const BlockIQ4_NL& b, Unpacked32& u) noexcept {
  u.d = f16_to_float(b.d);
  for (int i = 0; i < 16; ++i) {
    u.code[i] = kIq4Levels[b.qs[i] & 15];
    u.code[i + 16] = kIq4Levels[b.qs[i] >> 4];
  }
}

/// 2^(e - 128): half of the E8M0 value, because kFp4Levels are doubled. The two smallest are subnormal.
inline float mxfp4_scale(uint8_t e) noexcept {
  return std::bit_cast<float>(e >= 2 ? (uint32_t{e} - 1U) << 23 : 0x00200000U << e);
}

inline void unpack(const BlockMXFP4& b, Unpacked32& u) noexcept {
  u.d = mxfp4_scale(b.e);
  for (int i = 0; i < 16; ++i) {
    u.code[i] = kFp4Levels[b.qs[i] & 15];
    u.code[i + 16] = kFp4Levels[b.qs[i] >> 4];
  }
}

inline void unpack(const BlockQ2_K& b, Unpacked256& u) noexcept {
  u.d = f16_to_float(b.d);
  u.dmin = f16_to_float(b.dmin);
  for (int g = 0; g < 16; ++g) {
    u.scale[g] = b.scales[g] & 15;
    u.min[g] = b.scales[g] >> 4;
  }
  for (int i = 0; i < 256; ++i) {
    u.code[i] = static_cast<int8_t>(b.qs[i / 128 * 32 + i % 32] >> 2 * (i % 128 / 32) & 3);
  }
}

inline void unpack(const BlockQ3_K& b, Unpacked256& u) noexcept {
  u.d = f16_to_float(b.d);
  for (int g = 0; g < 16; ++g) {
    const int low = b.scales[g % 8] >> 4 * (g / 8) & 15;
    const int high = b.scales[8 + g % 4] >> 2 * (g / 4) & 3;
    u.scale[g] = static_cast<int16_t>((low | high << 4) - 32);
  }
  for (int i = 0; i < 256; ++i) {
    const int low = b.qs[i / 128 * 32 + i % 32] >> 2 * (i % 128 / 32) & 3;
    const int high = b.hmask[i % 32] >> i / 32 & 1;  // a set bit means: do not subtract 4
    u.code[i] = static_cast<int8_t>(low + 4 * high - 4);
  }
}

/// The 12 bytes of Q4_K and Q5_K: a scale and a minimum of 6 bits for each 32, here written for each 16.
inline void unpack_scales(const uint8_t (&s)[12], Unpacked256& u) noexcept {
  for (int g = 0; g < 4; ++g) {
    u.scale[2 * g] = u.scale[2 * g + 1] = s[g] & 63;
    u.min[2 * g] = u.min[2 * g + 1] = s[g + 4] & 63;
    u.scale[2 * g + 8] = u.scale[2 * g + 9] = static_cast<int16_t>((s[g + 8] & 15) | s[g] >> 6 << 4);
    u.min[2 * g + 8] = u.min[2 * g + 9] = static_cast<int16_t>(s[g + 8] >> 4 | s[g + 4] >> 6 << 4);
  }
}

inline void unpack(const BlockQ4_K& b, Unpacked256& u) noexcept {
  u.d = f16_to_float(b.d);
  u.dmin = f16_to_float(b.dmin);
  unpack_scales(b.scales, u);
  for (int i = 0; i < 256; ++i) {
    u.code[i] = static_cast<int8_t>(b.qs[i / 64 * 32 + i % 32] >> 4 * (i / 32 % 2) & 15);
  }
}

inline void unpack(const BlockQ5_K& b, Unpacked256& u) noexcept {
  u.d = f16_to_float(b.d);
  u.dmin = f16_to_float(b.dmin);
  unpack_scales(b.scales, u);
  for (int i = 0; i < 256; ++i) {
    const int low = b.qs[i / 64 * 32 + i % 32] >> 4 * (i / 32 % 2) & 15;
    const int high = b.qh[i % 32] >> i / 32 & 1;
    u.code[i] = static_cast<int8_t>(low | high << 4);
  }
}

inline void unpack(const BlockQ6_K& b, Unpacked256& u) noexcept {
  u.d = f16_to_float(b.d);
  for (int g = 0; g < 16; ++g) u.scale[g] = b.scales[g];
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128;
    const int plane = i % 128 / 32;  // planes 0 and 1: low nibbles of two runs of 32 bytes; 2 and 3: their high nibbles
    const int low = b.ql[64 * half + 32 * (plane % 2) + i % 32] >> 4 * (plane / 2) & 15;
    const int high = b.qh[32 * half + i % 32] >> 2 * plane & 3;
    u.code[i] = static_cast<int8_t>((low | high << 4) - 32);
  }
}

inline void unpack(const BlockIQ4_XS& b, Unpacked256& u) noexcept {
  u.d = f16_to_float(b.d);
  for (int g = 0; g < 8; ++g) {
    const int low = b.scales_l[g / 2] >> 4 * (g % 2) & 15;
    const int high = b.scales_h >> 2 * g & 3;
    u.scale[2 * g] = u.scale[2 * g + 1] = static_cast<int16_t>((low | high << 4) - 32);
  }
  for (int i = 0; i < 256; ++i) {
    u.code[i] = kIq4Levels[b.qs[i / 32 * 16 + i % 16] >> 4 * (i % 32 / 16) & 15];
  }
}

/// The f16 scale that IQ1_M spreads over the top nibbles of four words.
inline uint16_t iq1_m_scale_bits(const BlockIQ1_M& b) noexcept {
  return static_cast<uint16_t>(b.scales[0] >> 12 | b.scales[1] >> 12 << 4 | b.scales[2] >> 12 << 8 |
                               b.scales[3] >> 12 << 12);
}

}  // namespace kda
