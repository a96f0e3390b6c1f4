// Eight floats at once, for search_loops.h. The same source is compiled for the baseline and for AVX2, and every
// operation rounds alike in both: results are the same bits whatever the processor. Everything has internal linkage, so
// that nothing compiled for a newer processor can be linked into baseline code.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define KDA_INLINE __attribute__((always_inline)) inline

namespace kda {
namespace {

/// Fifteen ascending numbers in the order in which a binary search asks for them; rank8(v) says how many are below v.
struct Ranks {
  float first[8];  // of the eight of each array as many are used as there are numbers to choose from: 1, 2, 4 and 8
  float second[8];
  float third[8];
  float fourth[8];
};

#if defined(__AVX2__)

struct F8 {
  __m256 v;
};
KDA_INLINE F8 set8(float x) { return {_mm256_set1_ps(x)}; }
KDA_INLINE F8 load8(const float* p) { return {_mm256_loadu_ps(p)}; }
KDA_INLINE void store8(float* p, F8 a) { _mm256_storeu_ps(p, a.v); }
KDA_INLINE F8 operator+(F8 a, F8 b) { return {_mm256_add_ps(a.v, b.v)}; }
KDA_INLINE F8 operator-(F8 a, F8 b) { return {_mm256_sub_ps(a.v, b.v)}; }
KDA_INLINE F8 operator*(F8 a, F8 b) { return {_mm256_mul_ps(a.v, b.v)}; }
KDA_INLINE F8 operator/(F8 a, F8 b) { return {_mm256_div_ps(a.v, b.v)}; }
/// a where a < b, else b.
KDA_INLINE F8 smaller8(F8 a, F8 b) { return {_mm256_min_ps(a.v, b.v)}; }
/// a where a > b, else b.
KDA_INLINE F8 larger8(F8 a, F8 b) { return {_mm256_max_ps(a.v, b.v)}; }
/// value where a < b, else otherwise.
KDA_INLINE F8 select_less8(F8 a, F8 b, F8 value, F8 otherwise) {
  return {_mm256_blendv_ps(otherwise.v, value.v, _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ))};
}
/// table[code of the lane], for codes 0..15 given as whole floats.
KDA_INLINE F8 look_up8(const float (&table)[16], F8 codes) {
  const __m256i index = _mm256_cvttps_epi32(codes.v);
  const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), index);
  const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), index);
  return {_mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)))};
}
/// See Ranks.
KDA_INLINE F8 rank8(const Ranks& r, F8 v) {
  const auto above = [&](__m256 middle, int bit) {
    return _mm256_and_si256(_mm256_castps_si256(_mm256_cmp_ps(v.v, middle, _CMP_GT_OQ)), _mm256_set1_epi32(bit));
  };
  const auto pick = [](const float(&middles)[8], __m256i index) {
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(middles), index);
  };
  __m256i rank = above(_mm256_set1_ps(r.first[0]), 8);
  rank = _mm256_or_si256(rank, above(pick(r.second, _mm256_srli_epi32(rank, 3)), 4));
  rank = _mm256_or_si256(rank, above(pick(r.third, _mm256_srli_epi32(rank, 2)), 2));
  rank = _mm256_or_si256(rank, above(pick(r.fourth, _mm256_srli_epi32(rank, 1)), 1));
  return {_mm256_cvtepi32_ps(rank)};
}
/// Whole floats -128..127 as bytes.
KDA_INLINE void store_codes8(int8_t* p, F8 a) {
  const __m256i wide = _mm256_cvttps_epi32(a.v);
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
}

#else

struct F8 {
  float v[8];
};
template <typename Function>
KDA_INLINE F8 map8(Function f) {
  F8 out;
  for (int i = 0; i < 8; ++i) out.v[i] = f(i);
  return out;
}
KDA_INLINE F8 set8(float x) {
  return map8([&](int) { return x; });
}
KDA_INLINE F8 load8(const float* p) {
  return map8([&](int i) { return p[i]; });
}
KDA_INLINE void store8(float* p, const F8& a) {
  for (int i = 0; i < 8; ++i) p[i] = a.v[i];
}
KDA_INLINE F8 operator+(const F8& a, const F8& b) {
  return map8([&](int i) { return a.v[i] + b.v[i]; });
}
KDA_INLINE F8 operator-(const F8& a, const F8& b) {
  return map8([&](int i) { return a.v[i] - b.v[i]; });
}
KDA_INLINE F8 operator*(const F8& a, const F8& b) {
  return map8([&](int i) { return a.v[i] * b.v[i]; });
}
KDA_INLINE F8 operator/(const F8& a, const F8& b) {
  return map8([&](int i) { return a.v[i] / b.v[i]; });
}
KDA_INLINE F8 smaller8(const F8& a, const F8& b) {
  return map8([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
KDA_INLINE F8 larger8(const F8& a, const F8& b) {
  return map8([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
KDA_INLINE F8 select_less8(const F8& a, const F8& b, const F8& value, const F8& otherwise) {
  return map8([&](int i) { return a.v[i] < b.v[i] ? value.v[i] : otherwise.v[i]; });
}
KDA_INLINE F8 look_up8(const float (&table)[16], const F8& codes) {
  return map8([&](int i) { return table[static_cast<int>(codes.v[i])]; });
}
KDA_INLINE F8 rank8(const Ranks& r, const F8& v) {
  return map8([&](int i) {
    int rank = v.v[i] > r.first[0] ? 8 : 0;
    rank |= v.v[i] > r.second[rank >> 3] ? 4 : 0;
    rank |= v.v[i] > r.third[rank >> 2] ? 2 : 0;
    rank |= v.v[i] > r.fourth[rank >> 1] ? 1 : 0;
    return static_cast<float>(rank);
  });
}
KDA_INLINE void store_codes8(int8_t* p, const F8& a) {
  for (int i = 0; i < 8; ++i) p[i] = static_cast<int8_t>(a.v[i]);
}

#endif

/// Nearest whole number, ties to even, for magnitudes below 2^22.
KDA_INLINE F8 round8(const F8& a) {
  const F8 magic = set8(12582912);
  return (a + magic) - magic;
}

/// Sum of the lanes, always in the same order.
KDA_INLINE float sum8(const F8& a) {
  float v[8];
  store8(v, a);
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

}  // namespace
}  // namespace kda
