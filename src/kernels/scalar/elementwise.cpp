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

}  // namespace kda::scalar
