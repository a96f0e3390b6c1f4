// Kimi Delta Attention.
#pragma once

#include <span>
#include <vector>

#include "arch/model_config.h"
#include "layers/trace.h"
#include "ops/ops.h"
#include "state/sequence_state.h"
#include "weights/checkpoint.h"

namespace kda {

/// Intermediates of a KDA layer for up to max_tokens tokens.
struct KdaScratch {
  KdaScratch(const ModelConfig& config, int64_t max_tokens, Arena& arena);

  MatView q, k, v, f, gate;      // [T, C]
  MatView beta;                  // [T, H]
  MatView f_low, gate_low, out;  // [T, K], [T, K], [T, C]
  Activation f_low_x, gate_low_x, out_x;
};

class KdaLayer {
 public:
  /// weights outlive the layer.
  KdaLayer(const ModelConfig& config, const KdaWeights& weights);

  /// out = KDA(x) for the tokens of segments, one after the other; advances their states in this layer, of a tentative
  /// segment by its pending rows only.
  void forward(Ops& ops, Activation& x, std::span<const Segment> segments, int64_t layer, KdaScratch& scratch,
               const MatView& out, const Trace& trace) const;

  /// Advances state by its pending rows.
  void settle(Ops& ops, const KdaState& state) const;

  /// Bytes that the layer holds beside the checkpoint.
  [[nodiscard]] int64_t owned_bytes() const noexcept;

 private:
  [[nodiscard]] KdaOp recurrence(const KdaState& state) const noexcept;

  const ModelConfig& config_;
  const KdaWeights& weights_;
  std::vector<float> conv_[3];  // q, k, v: [taps, C], so that neighbouring channels lie side by side
};

}  // namespace kda
