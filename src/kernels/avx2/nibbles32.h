// Codes of the blocks of 32 that start from nibbles: byte j holds the low bits of element j and, above them, those of
// element j + 16.
#pragma once

#include "kernels/avx2/int8.h"

namespace kda::avx2 {
namespace {

/// 32 nibbles in order of their elements.
KDA_INLINE __m256i nibbles_of_block(const std::byte* qs) {
  const __m256i twice = _mm256_broadcastsi128_si256(load_128(qs));
  return _mm256_and_si256(_mm256_srlv_epi64(twice, _mm256_setr_epi64x(0, 0, 4, 4)), _mm256_set1_epi8(15));
}

/// quads[i]: nibbles of elements 4i .. 4i + 3 of eight rows.
KDA_INLINE void nibbles_of_rows(const std::byte* const (&rows)[8], int64_t at, __m256i (&quads)[8]) {
  __m256i bytes[4];
  transpose_16_bytes(rows, at, bytes);
  for (int i = 0; i < 4; ++i) {
    quads[i] = low_nibbles(bytes[i]);
    quads[4 + i] = high_nibbles(bytes[i]);
  }
}

/// 16 in each byte whose bit in mask is set in v.
KDA_INLINE __m256i sixteen_where(__m256i v, __m256i mask) {
  return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(v, mask), mask), _mm256_set1_epi8(16));
}

/// The fifth bits of 32 elements, bit i of a dword for element i, as 16 or 0 in each byte.
KDA_INLINE __m256i fifth_bits_of_block(const std::byte* qh) {
  const __m256i byte_of_element = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i spread = _mm256_shuffle_epi8(broadcast_dword(qh), byte_of_element);
  return sixteen_where(spread, _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201U)));
}

/// Adds them to the quads of eight rows.
KDA_INLINE void add_fifth_bits(const std::byte* const (&rows)[8], int64_t at, __m256i (&quads)[8]) {
  const __m256i bits = load_dwords_of_rows(rows, at);
  for (int i = 0; i < 8; ++i) {
    const __m256i index = in_each_lane(0x01010101U * static_cast<uint32_t>(i / 2), 0x04040404U);
    const __m256i spread = _mm256_shuffle_epi8(bits, index);
    const __m256i mask = _mm256_set1_epi32(static_cast<int>(i % 2 == 0 ? 0x08040201U : 0x80402010U));
    quads[i] = _mm256_or_si256(quads[i], sixteen_where(spread, mask));
  }
}

/// A table of 16 bytes for lookup().
KDA_INLINE __m256i load_table(const int8_t (&table)[16]) { return _mm256_broadcastsi128_si256(load_128(table)); }

/// The table's entries for codes below 16.
KDA_INLINE __m256i lookup(__m256i table, __m256i codes) { return _mm256_shuffle_epi8(table, codes); }

}  // namespace
}  // namespace kda::avx2
