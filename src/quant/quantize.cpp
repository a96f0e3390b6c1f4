// Which encoder writes a type, and what all of them do first.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/cpu_features.h"
#include "base/error.h"
#include "quant/codec.h"
#include "quant/encode.h"

namespace kda {

namespace {

template <uint16_t (*convert)(float)>
void encode_halves(const SearchTable& /*search*/, const float* src, std::byte* dst, int64_t n,
                   const float* /*importance*/) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t h = convert(src[i]);
    std::memcpy(dst + 2 * i, &h, sizeof h);
  }
}

void copy_floats(const SearchTable& /*search*/, const float* src, std::byte* dst, int64_t n,
                 const float* /*importance*/) {
  std::memcpy(dst, src, static_cast<size_t>(n) * 4);
}

const SearchTable& search_of_this_processor() noexcept {
#if defined(__x86_64__)
  if (cpu_features().avx2) return kAvx2Search;
#endif
  return kBaselineSearch;
}

}  // namespace

void scale_block(const SearchTable& search, const float* src, const float* importance, int n, float smallest, float* x,
                 float* w, float& unit, float& back) {
  const float max = search.max_magnitude(src, n);
  if (max < smallest) {
    unit = back = 1;
    std::fill_n(x, n, 0.0F);
  } else {
    const uint32_t exponent = std::bit_cast<uint32_t>(max) >> 23;  // of the largest, with its bias: 1..254
    back = std::bit_cast<float>(exponent << 23);
    // 2^-127 is subnormal.
    unit = exponent == 254 ? 0x1p-127F : std::bit_cast<float>((254 - exponent) << 23);
    for (int i = 0; i < n; ++i) x[i] = src[i] * unit;
  }
  float sum = 0;
  if (importance != nullptr) {
    const float largest = search.max_magnitude(importance, n);
    // Divided first: a sum of large numbers must not overflow.
    for (int i = 0; i < n && largest > 0; ++i) sum += importance[i] / largest;
    if (sum > 0 && sum <= static_cast<float>(n)) {
      const float mean = sum / static_cast<float>(n);
      for (int i = 0; i < n; ++i) w[i] = importance[i] / largest / mean;
      return;
    }
  }
  std::fill_n(w, n, 1.0F);
}

EncodeFn find_encoder(TensorType type) noexcept {
  switch (type) {
    case TensorType::kF32:
      return copy_floats;
    case TensorType::kF16:
      return encode_halves<float_to_f16>;
    case TensorType::kBF16:
      return encode_halves<float_to_bf16>;
    default:
      for (const auto find : {encoder_of_block32, encoder_of_k_block, encoder_of_iq_block, encoder_of_iq1_block}) {
        if (const EncodeFn encode = find(type)) return encode;
      }
      return nullptr;
  }
}

bool can_quantize(TensorType type) noexcept { return find_encoder(type) != nullptr; }

void quantize_row(TensorType type, const float* src, std::byte* dst, int64_t n, const float* importance) noexcept {
  const EncodeFn encode = find_encoder(type);
  KDA_CHECK(encode != nullptr);
  encode(search_of_this_processor(), src, dst, n, importance);
}

int64_t find_non_finite(const float* values, int64_t n) noexcept {
  constexpr uint32_t kExponent = 0x7F800000;  // all ones in infinities and NaN
  const auto bad = [&](int64_t i) { return (std::bit_cast<uint32_t>(values[i]) & kExponent) == kExponent; };
  // Without a way out of the inner loop the compiler makes vectors of it.
  constexpr int64_t kRun = 256;
  for (int64_t begin = 0; begin < n; begin += kRun) {
    const int64_t end = std::min(n, begin + kRun);
    uint32_t any = 0;
    for (int64_t i = begin; i < end; ++i) any |= bad(i) ? 1U : 0U;
    if (any == 0) continue;
    for (int64_t i = begin; i < end; ++i) {
      if (bad(i)) return i;
    }
  }
  return -1;
}

}  // namespace kda
