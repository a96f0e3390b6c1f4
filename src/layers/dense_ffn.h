// Gated feed-forward layer: down( silu(gate x) * (up x) ).
#pragma once

#include "layers/trace.h"
#include "ops/ops.h"
#include "weights/checkpoint.h"

namespace kda {

/// Intermediates for up to max_tokens tokens and a width of `width`.
struct DenseFfnScratch {
  DenseFfnScratch(int64_t width, int64_t max_tokens, Arena& arena);

  MatView gate, up;  // [T, F]; gate becomes the input of down
  Activation middle_x;
};

class DenseFfn {
 public:
  /// weights outlive the layer.
  explicit DenseFfn(const DenseFfnWeights& weights) : weights_(weights) {}

  void forward(Ops& ops, Activation& x, DenseFfnScratch& scratch, const MatView& out, const Trace& trace) const;

 private:
  const DenseFfnWeights& weights_;
};

}  // namespace kda
