// Receives the intermediates of a forward pass: for dumps and for comparing with a reference.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace kda {

/// Names follow tests/golden/README.md: "l0.attn_in", "l0.kda.q", "l3.moe.out", "norm".
class TensorSink {
 public:
  virtual ~TensorSink() = default;
  /// values: row-major [shape...], the first dimension counts the tokens of the present batch.
  virtual void put(std::string_view name, std::span<const int64_t> shape, const float* values) = 0;
};

}  // namespace kda
