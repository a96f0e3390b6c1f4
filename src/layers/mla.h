// Multi-head latent attention without positional encoding.
#pragma once

#include <span>

#include "arch/model_config.h"
#include "layers/trace.h"
#include "ops/ops.h"
#include "state/sequence_state.h"
#include "weights/checkpoint.h"

namespace kda {

/// Tokens that go through the absorbed attention together. What it works on is large (32 heads of 1,088 floats a token
/// in the 48B model), so it takes a batch in parts; enough tokens for every thread to have several tasks.
inline constexpr int64_t kMlaTileTokens = 128;

/// Intermediates of an MLA layer for up to max_tokens tokens. T tokens, U at most kMlaTileTokens.
struct MlaScratch {
  MlaScratch(const ModelConfig& config, int64_t max_tokens, Arena& arena);

  MatView q_low;     // [T, Q], with compressed queries
  MatView q;         // [T, H * (N + P)]
  MatView kv;        // [T, R + P]
  MatView q_latent;  // [U * H, R + P]
  MatView ctx;       // [U * H, R]
  MatView out;       // [T, H * V]
  Activation q_low_x, q_nope_x, ctx_x, out_x;
  int32_t* head_rows;    // [H * U]: token * H + head, by head
  int32_t* heads;        // [H]
  int32_t* begin;        // [H + 1]
  SoftmaxState* states;  // [H * T]
};

class MlaLayer {
 public:
  /// weights outlive the layer. Batches of at least expand_from tokens take the expanded form; 0: where that saves
  /// work.
  MlaLayer(const ModelConfig& config, const MlaWeights& weights, int64_t expand_from);

  /// out = MLA(x) for the tokens of segments, one after the other; writes their rows of the caches of this layer. With
  /// a sink at work the form is the absorbed one, whose intermediates it knows.
  void forward(Ops& ops, Activation& x, std::span<const Segment> segments, int64_t layer, MlaScratch& scratch,
               const MatView& out, const Trace& trace) const;

  /// Tokens of a segment from which on it is expanded when its form is left open.
  [[nodiscard]] int64_t expand_from() const noexcept { return expand_from_; }

 private:
  [[nodiscard]] bool expands(const Segment& segment) const noexcept;

  /// From queries of rows [begin, end) of the batch [T, H * (N + P)] to heads' outputs [T, H * V], in absorbed form, at
  /// most kMlaTileTokens; their rows of the caches are there. ctx [U * H, R] stays in scratch.
  void attend(Ops& ops, std::span<const Segment> segments, int64_t layer, int64_t begin, int64_t end,
              MlaScratch& scratch, const Trace& trace) const;

  /// Of the scores: 1 / sqrt(N + P).
  [[nodiscard]] float scale() const noexcept;

  const ModelConfig& config_;
  const MlaWeights& weights_;
  int64_t expand_from_;
};

}  // namespace kda
