// Mixture of experts with a sigmoid router.
#pragma once

#include "arch/model_config.h"
#include "layers/dense_ffn.h"
#include "layers/trace.h"
#include "ops/ops.h"
#include "weights/checkpoint.h"

namespace kda {

/// Intermediates of a MoE layer for up to max_tokens tokens. E experts, k used, F width of an expert.
struct MoeScratch {
  MoeScratch(const ModelConfig& config, int64_t max_tokens, Arena& arena);

  MatView scores;    // [T, E]
  MatView gate;      // [T * k, F]; becomes the input of down
  MatView up, down;  // [T * k, F] and [T * k, D], in the same memory: up is done with when down is computed
  MatView shared_out;
  Activation middle_x;
  Routing routing;
  DenseFfnScratch shared;
};

class MoeLayer {
 public:
  /// weights outlive the layer.
  MoeLayer(const ModelConfig& config, const MoeWeights& weights) : config_(config), weights_(weights) {}

  void forward(Ops& ops, Activation& x, MoeScratch& scratch, const MatView& out, const Trace& trace) const;

 private:
  const ModelConfig& config_;
  const MoeWeights& weights_;
};

}  // namespace kda
