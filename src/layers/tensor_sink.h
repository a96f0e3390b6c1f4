// Receives what a forward pass computes on its way: for dumps, for comparing with a reference, for importance matrices.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "arch/tensor_schema.h"

namespace kda {

class TensorSink {
 public:
  virtual ~TensorSink() = default;
  /// An intermediate. Names follow tests/golden/README.md: "l0.attn_in", "l0.kda.q", "l3.moe.out", "norm". values:
  /// row-major [shape...], the first dimension counts the tokens of the present batch.
  virtual void put(std::string_view name, std::span<const int64_t> shape, const float* values) = 0;
  /// False spares the forward pass the copies that put() would get.
  [[nodiscard]] virtual bool wants_intermediates() const { return true; }
  /// What products read: rows of n_columns floats that are multiplied by `tensors` of a layer (-1: outside the layers),
  /// all by matrix number `matrix` of a stacked tensor (an expert, a head), 0 for plain ones. A batch may come in
  /// several calls.
  virtual void put_inputs([[maybe_unused]] std::span<const TensorId> tensors, [[maybe_unused]] int64_t layer,
                          [[maybe_unused]] int64_t matrix, [[maybe_unused]] std::span<const float* const> rows,
                          [[maybe_unused]] int64_t n_columns) {}
};

}  // namespace kda
