#pragma once

#include <cstdint>
#include <cstring>

namespace kda::scalar {

/// Sum of a[i] * b[i] in the one order of this set: element i goes to partial sum i % 8, then the partial sums are
/// added in a tree. a may be at any address, so it is given as bytes.
inline float dot(const void* a, const float* b, int64_t n) {
  constexpr int64_t kLanes = 8;
  const auto* bytes = static_cast<const unsigned char*>(a);
  float sum[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    float values[kLanes];
    std::memcpy(values, bytes + i * 4, sizeof values);
    for (int64_t lane = 0; lane < kLanes; ++lane) sum[lane] += values[lane] * b[i + lane];
  }
  for (; i < n; ++i) {
    float value;
    std::memcpy(&value, bytes + i * 4, sizeof value);
    sum[i % kLanes] += value * b[i];
  }
  return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

}  // namespace kda::scalar
