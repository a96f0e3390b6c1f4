#include "layers/dense_ffn.h"

namespace kda {

DenseFfnScratch::DenseFfnScratch(int64_t width, int64_t max_tokens, Arena& arena)
    : gate(take_matrix(arena, max_tokens, width)),
      up(take_matrix(arena, max_tokens, width)),
      middle_x(arena, max_tokens, width) {}

void DenseFfn::forward(Ops& ops, Activation& x, DenseFfnScratch& scratch, const MatView& out,
                       const Trace& trace) const {
  const MatView gate = scratch.gate.first_rows(x.f32().rows);
  const MatView up = scratch.up.first_rows(x.f32().rows);
  const Product in[] = {{&x, weights_.gate, gate}, {&x, weights_.up, up}};
  trace.inputs({TensorId::kDenseGate, TensorId::kDenseUp}, x.f32());
  ops.matmul(in);
  ops.silu_mul(gate, up, gate);
  scratch.middle_x.set(gate);
  const Product down[] = {{&scratch.middle_x, weights_.down, out}};
  trace.inputs({TensorId::kDenseDown}, gate);
  ops.matmul(down);
}

}  // namespace kda
