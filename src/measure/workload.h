// What running a model asks of a machine, counted from the shapes and types of its weights: multiply-adds and bytes.
#pragma once

#include <cstdint>

#include "arch/model_config.h"
#include "weights/checkpoint.h"

namespace kda {

/// Counts follow from the model's equations, not from how they are computed: an implementation that does more than it
/// needs shows as slow. Copies what it needs; thread-safe.
class Workload {
 public:
  Workload(const ModelConfig& config, const ModelWeights& weights);

  /// Multiply-adds of a prompt of n tokens behind `position` others: products with weights (the head's for the last
  /// token only), convolutions, three passes over the KDA states (S^T k, k u^T, S^T q), scores and sums of attention
  /// over all earlier tokens at N + P + V a head.
  [[nodiscard]] int64_t prompt_macs(int64_t position, int64_t n) const noexcept;
  /// Bytes that n tokens, one after the other, have to move behind `position` others: all weights but the rows of the
  /// embedding and the experts that are not used, the recurrent state in and out, a new latent row out and all in.
  [[nodiscard]] int64_t generation_bytes(int64_t position, int64_t n) const noexcept;

  /// The part of generation_bytes that are weights, a token.
  [[nodiscard]] int64_t weight_bytes() const noexcept { return weight_bytes_; }

 private:
  int64_t token_macs_ = 0;  // of a token, without head and attention
  int64_t head_macs_ = 0;
  int64_t pair_macs_ = 0;  // of attention: a token and one that it looks at
  int64_t weight_bytes_ = 0;
  int64_t state_bytes_ = 0;
  int64_t latent_bytes_ = 0;  // a token's rows of all caches
};

}  // namespace kda
