// Mixture of experts. E experts of which k are used a token.
//
//   s    = sigmoid(W_router x)                            [E], fp32
//   pick = the k largest of s + bias, the lower index on ties; with groups, of the best groups only (ops/cpu_ops.cpp)
//   w    = s[pick];   w = w / (sum w + 1e-20) when renormalised;   w = w * factor
//   out  = sum_j w_j expert_pick_j(x) + shared(x)         summed in the order of the picks, then the shared expert
//   expert(x) = W_down( silu(W_gate x) * (W_up x) )
//
// The bias takes part in the choice only: weights are the plain sigmoids.
#include "layers/moe.h"

#include <algorithm>

namespace kda {

MoeScratch::MoeScratch(const ModelConfig& config, int64_t max_tokens, Arena& arena)
    : scores(take_matrix(arena, max_tokens, config.n_experts)),
      gate(take_matrix(arena, max_tokens * config.n_experts_used, config.moe_intermediate_size)),
      up(take_matrix(arena, max_tokens * config.n_experts_used,
                     std::max(config.moe_intermediate_size, config.hidden_size))),
      down(up),
      shared_out(take_matrix(arena, max_tokens, config.hidden_size)),
      middle_x(arena, max_tokens * config.n_experts_used, config.moe_intermediate_size),
      routing(arena, max_tokens, config.n_experts, config.n_experts_used),
      shared(config.shared_intermediate_size(), max_tokens, arena) {
  up.cols = up.stride = config.moe_intermediate_size;
  down.cols = down.stride = config.hidden_size;
}

void MoeLayer::forward(Ops& ops, Activation& x, MoeScratch& scratch, const MatView& out, const Trace& trace) const {
  const ModelConfig& c = config_;
  const MoeWeights& w = weights_;
  const int64_t n = x.f32().rows;
  const int64_t n_used = c.n_experts_used;
  const bool has_shared = static_cast<bool>(w.shared.gate);
  const MatView scores = scratch.scores.first_rows(n);
  const MatView shared_gate = scratch.shared.gate.first_rows(n);
  const MatView shared_up = scratch.shared.up.first_rows(n);

  const Product from_x[] = {
      {&x, w.router, scores, true}, {&x, w.shared.gate, shared_gate}, {&x, w.shared.up, shared_up}};
  trace.inputs({TensorId::kRouter}, x.f32());
  if (has_shared) trace.inputs({TensorId::kSharedGate, TensorId::kSharedUp}, x.f32());
  ops.matmul(std::span(from_x).first(has_shared ? 3 : 1));
  Routing& routing = scratch.routing;
  ops.route({.scores = scores,
             .bias = w.router_bias,
             .n_groups = c.n_expert_groups,
             .n_groups_used = c.n_expert_groups_used,
             .n_used = n_used,
             .renormalize = c.renormalize_experts,
             .factor = c.routed_scaling_factor},
            routing);
  trace.put("moe.scores", scores);
  trace.put("moe.weights", {routing.weights, n, n_used, n_used});
  if (trace) {
    std::vector<float> picks(routing.experts, routing.experts + n * n_used);
    trace.put("moe.experts", {picks.data(), n, n_used, n_used});
  }

  const Grouping from_tokens = {.n_groups = routing.n_groups,
                                .matrix = routing.matrix,
                                .begin = routing.begin,
                                .x_rows = routing.tokens,
                                .y_rows = routing.slots};
  const Grouping from_slots = {.n_groups = routing.n_groups,
                               .matrix = routing.matrix,
                               .begin = routing.begin,
                               .x_rows = routing.slots,
                               .y_rows = routing.slots};
  const MatView gate = scratch.gate.first_rows(n * n_used);
  const MatView up = scratch.up.first_rows(n * n_used);
  const MatView down = scratch.down.first_rows(n * n_used);
  const GroupedProduct experts_in[] = {{&x, &w.gate, gate, &from_tokens}, {&x, &w.up, up, &from_tokens}};
  trace.inputs({TensorId::kExpertGate, TensorId::kExpertUp, TensorId::kExpertGateUp}, x.f32(), from_tokens);
  ops.matmul({}, experts_in);
  ops.silu_mul(gate, up, gate);
  scratch.middle_x.set(gate);
  const MatView shared_out = scratch.shared_out.first_rows(n);
  if (has_shared) {
    ops.silu_mul(shared_gate, shared_up, shared_gate);
    scratch.shared.middle_x.set(shared_gate);
  }
  const GroupedProduct experts_out[] = {{&scratch.middle_x, &w.down, down, &from_slots}};
  const Product shared_down[] = {{&scratch.shared.middle_x, w.shared.down, shared_out}};
  trace.inputs({TensorId::kExpertDown}, gate, from_slots);
  if (has_shared) trace.inputs({TensorId::kSharedDown}, shared_gate);
  ops.matmul(std::span(shared_down).first(has_shared ? 1 : 0), experts_out);
  ops.combine(down, routing.weights, n_used, out);
  trace.put("moe.routed", out);
  if (has_shared) {
    trace.put("moe.shared", shared_out);
    ops.add(shared_out, out);
  }
}

}  // namespace kda
