// Codes of the blocks of 32 that start from nibbles: byte j holds the low bits of element j and, above them, those of
// element j + 16.
#pragma once

#include "kernels/avx512/int8.h"
#include "quant/blocks.h"

namespace kda::avx512 {
namespace {

/// quads[i]: nibbles of elements 4i .. 4i + 3 of sixteen rows.
KDA_INLINE void nibbles_of_rows(const RowPointers& rows, int64_t at, __m512i (&quads)[8]) {
  __m512i bytes[4];
  transpose_16_bytes(rows, at, bytes);
  for (int i = 0; i < 4; ++i) {
    quads[i] = low_nibbles(bytes[i]);
    quads[4 + i] = high_nibbles(bytes[i]);
  }
}

/// Adds the fifth bits: bit i of bits for element i.
KDA_INLINE void add_fifth_bits(__m512i bits, __m512i (&quads)[8]) {
  for (int i = 0; i < 8; ++i) {
    // Bits 0 to 3 of a dword go to bit 4 of its bytes.
    const __m512i four = _mm512_and_si512(_mm512_srli_epi32(bits, 4 * i), _mm512_set1_epi32(15));
    const __m512i spread = _mm512_mullo_epi32(four, _mm512_set1_epi32(0x02040810));
    quads[i] = and_or(spread, _mm512_set1_epi8(16), quads[i]);
  }
}

/// 16 signed levels and a shift that makes them unsigned.
struct Levels {
  uint8_t level[16];
};
constexpr Levels shifted(const int8_t (&levels)[16], int shift) {
  Levels out{};
  for (int i = 0; i < 16; ++i) out.level[i] = static_cast<uint8_t>(levels[i] + shift);
  return out;
}
constexpr int kIq4Shift = 128;
constexpr Levels kShiftedIq4Levels = shifted(kIq4Levels, kIq4Shift);
constexpr int kFp4Shift = 12;
constexpr Levels kShiftedFp4Levels = shifted(kFp4Levels, kFp4Shift);

/// The levels for codes below 16.
KDA_INLINE __m512i lookup(const uint8_t (&level)[16], __m512i codes) {
  const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(level));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), codes);
}

}  // namespace
}  // namespace kda::avx512
