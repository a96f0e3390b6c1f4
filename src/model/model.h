// The forward pass: token ids -> logits.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <variant>
#include <vector>

#include "arch/model_config.h"
#include "layers/dense_ffn.h"
#include "layers/kda.h"
#include "layers/mla.h"
#include "layers/moe.h"
#include "ops/cpu_ops.h"
#include "state/sequence_state.h"
#include "weights/checkpoint.h"

namespace kda {

/// Intermediates of a forward pass of up to max_tokens tokens. Its size does not depend on the context.
struct Workspace {
  Workspace(const ModelConfig& config, int64_t max_tokens, Arena& arena);

  int64_t max_tokens;
  MatView x;  // [T, D] the residual stream
  MatView h;  // [T, D] its norm
  MatView y;  // [T, D] what a layer adds
  Activation h_x;
  // The layers take turns in the same memory.
  KdaScratch kda;
  MlaScratch mla;
  DenseFfnScratch dense;
  MoeScratch moe;
};

/// The largest dimensions that operations of this model see.
[[nodiscard]] OpsLimits ops_limits(const ModelConfig& config) noexcept;

/// A model, ready to run. Immutable: any number of sequences may use it, each with its Ops and Workspace.
class Model {
 public:
  /// config and weights outlive the model. expand_mla_from: see MlaLayer.
  Model(const ModelConfig& config, const ModelWeights& weights, int64_t expand_mla_from = 0);

  /// Sends the tokens of segments through all layers, each behind the tokens that its state holds, and appends them
  /// there; the residual stream stays in workspace.x, one segment after the other. At most workspace.max_tokens ids, in
  /// range, that fit the contexts; no state twice. sink may be nullptr; with one, memory is allocated and put() may
  /// throw, which leaves the recurrent parts of the states undefined. So may each_layer, which hears the number of
  /// layers done after each but the last.
  void forward(Ops& ops, Workspace& workspace, std::span<const Segment> segments, TensorSink* sink,
               const std::function<void(int64_t)>& each_layer = {}) const;

  /// Brings pending rows into the recurrent part of state.
  void settle(Ops& ops, SequenceState& state) const;

  /// Logits after the tokens rows[i] of the last forward(), counted over its segments.
  void logits(Ops& ops, Workspace& workspace, std::span<const int64_t> rows, const MatView& logits) const;
  /// Those after the tokens [first, first + logits.rows).
  void logits(Ops& ops, Workspace& workspace, int64_t first, const MatView& logits, TensorSink* sink) const;

  /// Tokens of a segment from which on MLA takes the expanded form when the segment leaves it open; INT64_MAX: never.
  [[nodiscard]] int64_t expand_mla_from() const noexcept;

  /// Bytes that the model holds beside the checkpoint.
  [[nodiscard]] int64_t owned_bytes() const noexcept;

 private:
  void head(Ops& ops, Workspace& workspace, const MatView& h, const MatView& logits, TensorSink* sink) const;

  struct Layer {
    std::variant<KdaLayer, MlaLayer> attention;
    std::variant<DenseFfn, MoeLayer> ffn;
  };
  const ModelConfig& config_;
  const ModelWeights& weights_;
  std::vector<Layer> layers_;
};

}  // namespace kda
