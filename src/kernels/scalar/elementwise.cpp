#include <bit>
#include <cmath>

#include "kernels/scalar/dot.h"
#include "kernels/scalar/scalar.h"

namespace kda::scalar {

void rms_norm(const float* x, const float* w, float eps, int64_t n, float* out) {
  const float scale = 1 / std::sqrt(dot(x, x, n) / static_cast<float>(n) + eps);
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * scale * w[i];
}

void silu_mul(const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
}

void silu(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = x[i] / (1 + std::exp(-x[i]));
}

void sigmoid(const float* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = 1 / (1 + std::exp(-x[i]));
}

void axpy(float a, const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

void conv_silu(const float* const* rows, const float* w, int64_t w_stride, int64_t taps, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = w[i] * rows[0][i];
  for (int64_t j = 1; j < taps; ++j) {
    for (int64_t i = 0; i < n; ++i) out[i] += w[j * w_stride + i] * rows[j][i];
  }
  silu(out, n);
}

// softplus(z) = max(z, 0) + log1p(u), u = exp(-|z|) in (0, 1]. Branch-free, so that the compiler makes vectors of it.
//   exp(-|z|) = 2^n * exp(r), |r| <= ln 2 / 2, with a polynomial of degree 6 for exp(r)
//   log1p(u) = 2 artanh(s), s = u / (2 + u) <= 1/3, with the series up to s^15
void scaled_softplus(const float* x, const float* bias, float a, int64_t n, float* out) {
  constexpr auto kLargestMagnitude = std::bit_cast<int32_t>(87.0F);  // exp(-87) is still a normal number
  constexpr int32_t kInfinity = 0x7F800000;
  for (int64_t i = 0; i < n; ++i) {
    const float z = x[i] + bias[i];
    // Clamped and compared as integers: floats of one sign are ordered like their bits, and NaN lies beyond infinity.
    const auto bits = std::bit_cast<int32_t>(z);
    const int32_t unsigned_bits = bits & 0x7FFFFFFF;
    const float magnitude = std::bit_cast<float>(unsigned_bits < kLargestMagnitude ? unsigned_bits : kLargestMagnitude);
    const int32_t keep = ~(bits >> 31) | ((kInfinity - unsigned_bits) >> 31);
    const auto positive = std::bit_cast<float>(bits & keep);  // max(z, 0), or NaN
    const float scaled = magnitude * -1.44269504F;            // 1 / ln 2
    const auto whole = static_cast<int32_t>(scaled - 0.5F);   // towards zero: the nearest integer of a negative number
    const auto whole_float = static_cast<float>(whole);
    // ln 2 in two parts, so that the product with the first is exact
    const float r = (-magnitude - whole_float * 0.693145752F) - whole_float * 1.42860677e-6F;
    float p = 1.0F / 720;
    p = p * r + 1.0F / 120;
    p = p * r + 1.0F / 24;
    p = p * r + 1.0F / 6;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    const float u = p * std::bit_cast<float>((whole + 127) << 23);
    const float s = u / (2.0F + u);
    const float s2 = s * s;
    float series = 1.0F / 15;
    series = series * s2 + 1.0F / 13;
    series = series * s2 + 1.0F / 11;
    series = series * s2 + 1.0F / 9;
    series = series * s2 + 1.0F / 7;
    series = series * s2 + 1.0F / 5;
    series = series * s2 + 1.0F / 3;
    series = series * s2 + 1.0F;
    out[i] = a * (positive + 2.0F * s * series);
  }
}

}  // namespace kda::scalar
