// Activations to int8, as ActView in kernel_args.h defines them, bit for bit.
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/simd.h"

namespace kda::avx2 {
namespace {

constexpr int kInfinityBits = 0x7F800000;

/// Largest of the 8 lanes as unsigned integers (all below 2^31).
KDA_INLINE int largest_lane(__m256i v) {
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4E));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xB1));
  return _mm_cvtsi128_si32(m);
}

/// 32 floats times inverse, rounded to nearest even.
KDA_INLINE __m256i codes_of_32(const float* x, __m256 inverse) {
  const auto rounded = [&](int i) { return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i), inverse)); };
  // packs works on 128-bit halves; the permutation puts the groups of four back in order.
  const __m256i packed =
      _mm256_packs_epi16(_mm256_packs_epi32(rounded(0), rounded(8)), _mm256_packs_epi32(rounded(16), rounded(24)));
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/// Sums of the two runs of 16 codes.
KDA_INLINE void store_sums(__m256i codes, int16_t* sums) {
  __m256i s = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), codes), _mm256_set1_epi16(1));
  s = _mm256_hadd_epi32(s, s);
  s = _mm256_hadd_epi32(s, s);
  sums[0] = static_cast<int16_t>(_mm256_cvtsi256_si32(s));
  sums[1] = static_cast<int16_t>(_mm_cvtsi128_si32(_mm256_extracti128_si256(s, 1)));
}

template <int64_t kBlock>
KDA_INLINE void quantize(const float* x, int64_t k, int8_t* codes, float* scales, int16_t* sums) {
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  for (int64_t b = 0; b < k / kBlock; ++b, x += kBlock, codes += kBlock, sums += kBlock / 16) {
    __m256i largest = _mm256_setzero_si256();  // as integers, magnitudes order like the floats, and NaN comes last
    for (int64_t i = 0; i < kBlock; i += 8) {
      largest = _mm256_max_epi32(largest, _mm256_and_si256(load_256(x + i), magnitude));
    }
    const int max_bits = largest_lane(largest);
    const float max = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(max_bits)));
    const bool finite = max_bits < kInfinityBits;
    const bool zero = max < kSmallestQuantized;
    scales[b] = zero ? 0.0F : max / 127.0F;
    if (zero || !finite) {
      for (int64_t i = 0; i < kBlock; i += 32) store_256(codes + i, _mm256_setzero_si256());
      for (int64_t g = 0; g < kBlock / 16; ++g) sums[g] = 0;
      continue;
    }
    const __m256 inverse = _mm256_set1_ps(127.0F / max);
    for (int64_t i = 0; i < kBlock; i += 32) {
      const __m256i c = codes_of_32(x + i, inverse);
      store_256(codes + i, c);
      store_sums(c, sums + i / 16);
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

}  // namespace kda::avx2
