// Multi-head latent attention without positional encoding.
#pragma once

#include "arch/model_config.h"
#include "layers/trace.h"
#include "ops/ops.h"
#include "weights/checkpoint.h"

namespace kda {

/// Intermediates of an MLA layer for up to max_tokens tokens.
struct MlaScratch {
  MlaScratch(const ModelConfig& config, int64_t max_tokens, Arena& arena);

  MatView q_low;     // [T, Q], with compressed queries
  MatView q;         // [T, H * (N + P)]
  MatView kv;        // [T, R + P]
  MatView q_latent;  // [T * H, R + P]
  MatView ctx;       // [T * H, R]
  MatView out;       // [T, H * V]
  Activation q_low_x, q_nope_x, ctx_x, out_x;
  int32_t* head_rows;  // [H * T]: token * H + head, by head
  int32_t* heads;      // [H]
  int32_t* begin;      // [H + 1]
};

class MlaLayer {
 public:
  /// weights outlive the layer.
  MlaLayer(const ModelConfig& config, const MlaWeights& weights) : config_(config), weights_(weights) {}

  /// out = MLA(x) for the tokens of x at positions first_position ...; writes their rows of cache [context, R + P].
  void forward(Ops& ops, Activation& x, float* cache, int64_t first_position, MlaScratch& scratch, const MatView& out,
               const Trace& trace) const;

 private:
  const ModelConfig& config_;
  const MlaWeights& weights_;
};

}  // namespace kda
